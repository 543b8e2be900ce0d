"""Durations: lengths of time, parsed from text and timedelta, as whole nanoseconds.

    "500ms"  "10s"  "15m"  "1h"  "7d"     a number and a unit: ns us ms s m h d w
    timedelta(minutes=15)                 the same as "15m"

A duration is a whole number of nanoseconds, so that its conversion to the unit of any column is exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
"""Nanoseconds in each unit."""

_PATTERN = re.compile(r"\s*(?P<number>[+-]?[0-9]+(\.[0-9]+)?)\s*(?P<unit>[A-Za-zµμ]+)\s*", re.ASCII)
_PRINTED = ("d", "h", "m", "s", "ms", "us", "ns")  # without weeks: 7d stays 7d


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time in nanoseconds; `str` gives the short form.

    >>> Duration.of("90m"), str(Duration.of("60m")), str(Duration.of(timedelta(seconds=1.5)))
    (Duration('90m'), '1h', '1500ms')

    Raises TypeError if the nanoseconds are no integer.
    """

    nanoseconds: int

    def __post_init__(self) -> None:
        if isinstance(self.nanoseconds, bool) or not isinstance(self.nanoseconds, int):
            raise TypeError(f"a Duration must be a whole number of nanoseconds; got {self.nanoseconds!r}")

    @staticmethod
    def of(value: Any, what: str = "a duration") -> Duration:
        """The duration that a string or a timedelta stands for; `what` names it in errors.

        Raises ValueError for text that is no duration, TypeError for anything else.
        """
        if isinstance(value, Duration):
            return value
        if isinstance(value, timedelta):
            return Duration((value // timedelta(microseconds=1)) * 1000)
        if isinstance(value, str):
            return Duration(_parsed(value, what))
        raise TypeError(f"{what} must be a duration such as '10s' or '1h'; got {value!r}, a {type(value).__name__}")

    def __str__(self) -> str:
        if not self.nanoseconds:
            return "0s"
        unit = next(unit for unit in _PRINTED if not self.nanoseconds % UNITS[unit])
        return f"{self.nanoseconds // UNITS[unit]}{unit}"

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


DurationLike = str | timedelta | Duration
"""A length of time: text such as "1h", a timedelta (also that of pandas), a Duration."""


def is_duration(value: Any) -> bool:
    """Is it something that `Duration.of` reads: text, a timedelta, a Duration?"""
    return isinstance(value, str | timedelta | Duration)


def _parsed(text: str, what: str) -> int:
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{what} must be a number and a unit, such as '500ms', '10s', '15m', '1h' or '7d'; got {text!r}"
        )
    if found["unit"] not in UNITS:
        raise ValueError(f"{what} has the unit {found['unit']!r} in {text!r}; the units are {', '.join(UNITS)}")
    nanoseconds = Fraction(found["number"]) * UNITS[found["unit"]]
    if nanoseconds.denominator != 1:
        raise ValueError(f"{what} must be a whole number of nanoseconds; {text!r} is not")
    return int(nanoseconds)
