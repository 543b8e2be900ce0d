"""Durations: lengths of time, as whole nanoseconds or as calendar months.

    "500ms"  "10s"  "15m"  "1h30m"  "6 hours"  "7d"     nanoseconds (`duration_text` reads text)
    "1mo"  "1q"  "1y"                                   calendar months: no fixed number of nanoseconds
    timedelta(minutes=15), np.timedelta64(15, "m")      the same as "15m"

Nanoseconds are whole, so that their conversion to the unit of any column is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import total_ordering
from typing import Any

import numpy as np

from sash.windows.duration_text import MONTHS, UNITS, parse

__all__ = ["UNITS", "Duration", "DurationLike", "is_duration"]

_PRINTED = ("d", "h", "m", "s", "ms", "us", "ns")  # without weeks: 7d stays 7d
_MEAN_MONTH = 146_097 * UNITS["d"] // 4800
"""The mean length of a month: the calendar repeats after 400 years, which have 146,097 days."""

_NUMPY = {"W": "w", "D": "d", "h": "h", "m": "m", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_NUMPY_MONTHS = {"Y": 12, "M": 1}


@total_ordering
@dataclass(frozen=True)
class Duration:
    """A length of time in nanoseconds, or in calendar months; `str` gives the short form.

    >>> Duration.of("90m"), str(Duration.of("60m")), str(Duration.of(timedelta(seconds=1.5)))
    (Duration('90m'), '1h', '1500ms')
    >>> Duration.of("1q"), Duration.of("24 months").calendar
    (Duration('3mo'), True)

    Raises TypeError if the nanoseconds or the months are no integer.
    """

    nanoseconds: int
    months: int = 0

    def __post_init__(self) -> None:
        for name, value in (("nanoseconds", self.nanoseconds), ("months", self.months)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"a Duration must be a whole number of {name}; got {value!r}")
        if self.nanoseconds and self.months:
            raise ValueError(f"a Duration has nanoseconds or months, not both; got {self.nanoseconds}, {self.months}")

    @staticmethod
    def of(value: Any, what: str = "a duration") -> Duration:
        """Convert a string or a timedelta to a duration; `what` names it in errors.

        Raises ValueError for text that is no duration, TypeError for anything else.
        """
        if isinstance(value, Duration):
            return value
        if isinstance(value, timedelta):
            finer = getattr(value, "nanoseconds", 0)  # of a Timedelta of pandas
            return Duration((value // timedelta(microseconds=1)) * 1000 + finer)
        if isinstance(value, np.timedelta64):
            return _of_numpy(value, what)
        if isinstance(value, str):
            return Duration(*parse(value, what))
        raise TypeError(f"{what} must be a duration such as '10s' or '1h'; got {value!r}, a {type(value).__name__}")

    @property
    def calendar(self) -> bool:
        """Is it measured in months, quarters or years?"""
        return self.months != 0

    @property
    def days(self) -> int | None:
        """The number of days if it is a whole one, else 0; None for months."""
        if self.calendar:
            return None
        return 0 if self.nanoseconds % UNITS["d"] else self.nanoseconds // UNITS["d"]

    def __lt__(self, other: Any) -> bool:
        """Is it shorter? A month counts with its mean length."""
        if not isinstance(other, Duration):
            return NotImplemented
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, int]:
        return self.nanoseconds + self.months * _MEAN_MONTH, self.months

    def __str__(self) -> str:
        if self.calendar:
            return f"{self.months}mo" if self.months % MONTHS["y"] else f"{self.months // MONTHS['y']}y"
        if not self.nanoseconds:
            return "0s"
        unit = next(unit for unit in _PRINTED if not self.nanoseconds % UNITS[unit])
        return f"{self.nanoseconds // UNITS[unit]}{unit}"

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


DurationLike = str | timedelta | np.timedelta64 | Duration
"""A length of time: text such as "1h", a timedelta (also that of pandas and of NumPy), a Duration."""


def is_duration(value: Any) -> bool:
    """Is it something that `Duration.of` reads: text, a timedelta, a Duration?"""
    return isinstance(value, str | timedelta | np.timedelta64 | Duration)


def _of_numpy(value: np.timedelta64, what: str) -> Duration:
    unit, step = np.datetime_data(value.dtype)
    if np.isnat(value):
        raise ValueError(f"{what} must be a duration; got {value!r}")
    number = int(value.astype(np.int64)) * step
    if unit in _NUMPY_MONTHS:
        return Duration(0, number * _NUMPY_MONTHS[unit])
    if unit not in _NUMPY:
        raise ValueError(f"{what} is {value!r}, whose unit is not one of {', '.join((*_NUMPY_MONTHS, *_NUMPY))}")
    return Duration(number * UNITS[_NUMPY[unit]])
