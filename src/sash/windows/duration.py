"""Durations: lengths of time, as whole nanoseconds or as calendar months.

    "500ms"  "10s"  "15m"  "1h30m"  "6 hours"  "7d"     nanoseconds
    "1mo"  "1q"  "1y"                                   calendar months: no fixed number of nanoseconds
    timedelta(minutes=15), np.timedelta64(15, "m")      the same as "15m"

Nanoseconds are whole, so that their conversion to the unit of any column is exact.

Parse durations as people write them: nanoseconds, or calendar months.

"500ms"  "10s"  "15m"  "1h"  "7d"  "1w"     a number and a unit
"5min"  "6 hours"  "20D"  "90 sec"          the names of units, and those of pandas that have one meaning
"1h30m"  "1 hour 30 minutes"                a sum
"PT1H30M"  "P7D"  "P1M"                     ISO 8601
"1mo"  "1q"  "1y"  "1y6mo"                  months: calendar lengths, which are no number of nanoseconds
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import total_ordering
from typing import Any, NoReturn

import numpy as np

from sash.expressions.source_text import excerpt

# --- Duration text ---

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

MONTHS = {"mo": 1, "q": 3, "y": 12}
"""Months in each calendar unit."""

_NAMES = {
    "ns": "nanosecond nanoseconds nano nanos nsec",
    "us": "µs μs microsecond microseconds micro micros usec",
    "ms": "millisecond milliseconds milli millis msec",
    "s": "second seconds sec secs",
    "m": "minute minutes min mins",
    "h": "hour hours hr hrs",
    "d": "day days",
    "w": "week weeks wk wks",
    "mo": "month months mon mons",
    "q": "quarter quarters qtr qtrs",
    "y": "year years yr yrs",
}
_PANDAS = {"N": "ns", "U": "us", "L": "ms", "S": "s", "T": "m", "H": "h", "D": "d", "W": "w", "Q": "q", "Y": "y"}
_SPELLINGS = {name: unit for unit, names in _NAMES.items() for name in (unit, *names.split())} | _PANDAS

_AMBIGUOUS = {
    "M": "may be minutes or months: write 'm' or 'min' for minutes, 'mo' for months",
    "MS": "may be milliseconds or, in pandas, months: write 'ms' for milliseconds, 'mo' for months",
    "i": "counts rows in polars: give the number itself, such as 10",
    "B": "are business days in pandas, which sash does not have: give days, such as '7d'",
}
DIGITS = 40
"""The maximum number of digits in a duration."""

_TERM = re.compile(r"\s*(?:,\s*|and\s+)?(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-zµμ]+)", re.ASCII)
_ISO = re.compile(
    r"P(?=.)(?:(?P<y>N)Y)?(?:(?P<mo>N)M)?(?:(?P<w>N)W)?(?:(?P<d>N)D)?"
    r"(?:T(?=.)(?:(?P<h>N)H)?(?:(?P<m>N)M)?(?:(?P<s>N)S)?)?".replace("N", r"[0-9]+(?:\.[0-9]+)?"),
    re.ASCII,
)


def parse(text: str, what: str) -> tuple[int, int]:
    """The nanoseconds and the months of a duration; one of the two is 0.

    >>> parse("1h30m", "size="), parse("1 year", "size=")
    ((5400000000000, 0), (0, 12))

    Raises ValueError, naming `what` and the text.
    """
    sign, body = _signed(text.strip())
    nanoseconds, months = Fraction(0), Fraction(0)
    units = set()
    for number, unit in _terms(body, text, what):
        units.add(unit)
        if unit in MONTHS:
            months += number * MONTHS[unit]
        else:
            nanoseconds += number * UNITS[unit]
    if units & MONTHS.keys() and units & UNITS.keys():
        raise ValueError(
            f"{what} mixes months with days or hours in {excerpt(text)}: give either, because a month is not a "
            "fixed number of days"
        )
    if nanoseconds.denominator != 1:
        raise ValueError(f"{what} must be a whole number of nanoseconds; {excerpt(text)} is not")
    if months.denominator != 1:
        raise ValueError(f"{what} must be a whole number of months; {excerpt(text)} is not")
    return sign * int(nanoseconds), sign * int(months)


def _signed(text: str) -> tuple[int, str]:
    if text[:1] in ("-", "+"):
        return (-1 if text[0] == "-" else 1), text[1:].lstrip()
    return 1, text


def _terms(body: str, text: str, what: str) -> Iterator[tuple[Fraction, str]]:
    iso = _ISO.fullmatch(body)
    if iso is not None:
        given = ((number, unit) for unit, number in iso.groupdict().items() if number is not None)
        yield from ((_number(number, what), unit) for number, unit in given)
        return
    place = 0
    while place < len(body):
        found = _TERM.match(body, place)
        if found is None:
            break
        yield _number(found["number"], what), _unit(found["unit"], text, what)
        place = found.end()
    if place < len(body) or not body:
        raise ValueError(
            f"{what} must be a number and a unit, such as '500ms', '10s', '5min', '1h30m', '6 hours', '7d' or '1mo'; "
            f"got {excerpt(text)}"
        )


def _number(digits: str, what: str) -> Fraction:
    if len(digits) > DIGITS:
        raise ValueError(f"{what} has a number of {len(digits)} characters, {excerpt(digits)}: give at most {DIGITS}")
    return Fraction(digits)


def _unit(written: str, text: str, what: str) -> str:
    """The unit of a spelling: exactly as written, or for spellings of more than two letters without case."""
    unit = _SPELLINGS.get(written)
    if unit is None and len(written) > 2:
        unit = _SPELLINGS.get(written.lower())
    if unit is None:
        _refuse(written, text, what)
    return unit


def _refuse(written: str, text: str, what: str) -> NoReturn:
    if written in _AMBIGUOUS:
        raise ValueError(f"{what} has the unit {excerpt(written)} in {excerpt(text)}, which {_AMBIGUOUS[written]}")
    near = difflib.get_close_matches(written.lower(), _SPELLINGS, 1, 0.6)
    meant = f"did you mean {near[0]!r}? The" if near else "the"
    raise ValueError(
        f"{what} has the unit {excerpt(written)} in {excerpt(text)}; {meant} units are "
        f"{', '.join((*UNITS, *MONTHS))}, and their names, such as 'minutes'"
    )


# --- Duration ---

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
        return self._mean < other._mean

    @property
    def _mean(self) -> tuple[int, int]:
        """What it is compared by: its mean length."""
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


def amount(value: Any) -> str:
    """A length without quotes."""
    return str(value) if isinstance(value, Duration) else f"{value:,}"


def counted(number: int) -> str:
    """A number of rows, as text."""
    return f"{number:,} row" + ("s" if number != 1 else "")
