"""Check the arguments of windows: numbers of rows, lengths, shifts, columns. Errors name the argument."""

from __future__ import annotations

import math
from operator import index
from typing import Any, SupportsIndex

from sash.expressions.source_text import excerpt
from sash.windows.calendar import zone_name
from sash.windows.duration import Duration, DurationLike, is_duration

MOST = 2**63 - 1
"""The largest number of rows."""

Length = SupportsIndex | float | DurationLike
"""A length of time, or a number in the units of the column."""


def rows(what: str, value: Any) -> int:
    """Return a number of rows. Raises TypeError or ValueError, naming `what`, if it is no integer of at least 1."""
    try:
        found = index(value)
    except TypeError:
        found = None
    if found is None or isinstance(value, bool):
        raise TypeError(f"{what} must be a whole number of rows; got {value!r}, a {type(value).__name__}")
    if found < 1:
        raise ValueError(f"{what} must be at least 1; got {excerpt(value)}")
    if found > MOST:
        raise ValueError(f"{what} must be at most {MOST}; got {excerpt(value)}: all rows are sash.Lifetime()")
    return found


def length(what: str, value: Any, zero: bool = False, calendar: bool = False) -> Any:
    """Return a length of time or in a column's units: a Duration, an int or a float.

    It must be above zero, with `zero` not below it. Months, quarters and years are allowed with `calendar`.

    >>> length("size=", "90m"), length("size=", 2.5)
    (Duration('90m'), 2.5)

    Raises TypeError or ValueError, naming `what`, for anything else.
    """
    found = _parsed_length(what, value)
    if not calendar:
        _require_fixed(what, found)
    if found < _zero(found) or (found == _zero(found) and not zero):
        raise ValueError(f"{what} must {'not be negative' if zero else 'be above zero'}; got {value!r}")
    return found


def shift(what: str, value: Any, calendar: bool = False) -> Any:
    """Return a shift: a length of either sign, 0 if it is zero. Raises TypeError or ValueError, naming `what`."""
    found = _parsed_length(what, value)
    if not calendar:
        _require_fixed(what, found)
    return found if found != _zero(found) else 0


def row_shift(value: Any, every: Any) -> int:
    """Return the shift of a Count window: a whole number of rows of either sign. Raises TypeError or ValueError."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"shift= of Count must be a whole number of rows, such as -1; got {value!r}, a {type(value).__name__}"
        )
    found = index(value)
    if abs(found) > MOST:
        raise ValueError(f"shift= of Count must be at most {MOST} rows; got {excerpt(value)}")
    if found and every is not None:
        raise ValueError(
            f"shift={value!r} of Count moves the window of a row, but every={every!s} gives one window per slide: "
            "leave one of them out"
        )
    return found


def time_shift(value: Any, size: Any, every: Any, zone: str | None) -> Any:
    """Return the shift of a Time window: a length like `size`, of either sign. Raises TypeError or ValueError."""
    found = shift("shift= of Time", value, calendar=True)
    if isinstance(found, Duration) and found > Duration(0) and (found.calendar or (zone is not None and found.days)):
        raise ValueError(
            f"shift={value!r} of Time moves the window ahead by a calendar length, which is only supported backwards: "
            "give it in hours, such as '36h', or in days without tz="
        )
    if found and isinstance(found, Duration) != isinstance(size, Duration):
        raise TypeError(f"shift={value!r} of Time and size={size!s}: give both as durations or both as numbers")
    if found and every is not None:
        raise ValueError(
            f"shift={value!r} of Time moves the window of a row, but every={every!s} gives one window per slide: use "
            "offset= to shift slides in time"
        )
    return found


def same_calendar(offset: Any, every: Any) -> None:
    """Raises ValueError for an offset in months if the slides are not in months."""
    if isinstance(offset, Duration) and offset.calendar and not (isinstance(every, Duration) and every.calendar):
        raise ValueError(
            f"offset={str(offset)!r} of Time is a calendar length, and every={str(every)!r} is not: give both in "
            "months, quarters or years, or the offset in days or hours"
        )


def aligned(value: Any, size: Any, every: Any, zone: str | None) -> str:
    """Return "end" or "start"; `every`: a slide in time, or None. Raises ValueError if it does not fit the window.

    A window that starts at a slide ends after its size, which no time does where a month is added to a day.
    """
    if value not in ("end", "start"):
        raise ValueError(f"align= of Time must be 'end' or 'start'; got {value!r}")
    if value == "end":
        return "end"
    if every is None:
        raise ValueError("align='start' of Time aligns windows that slide in time: add every=, a duration")
    local = [isinstance(one, Duration) and (one.calendar or (zone is not None and one.days)) for one in (size, every)]
    if local[0] and (not local[1] or (size.calendar and not every.calendar)):
        units = "months, quarters or years" if size.calendar else "days, weeks or months"
        raise ValueError(
            f"align='start' of Time: size={str(size)!r} is a length of the calendar, and every={str(every)!r} is not "
            f"in {units}: give every= in {units}, or leave align= out"
        )
    return "start"


def time_zone(value: Any, size: Any, every: Any, moved: Any) -> str | None:
    """Return the name of a time zone, or None. Raises TypeError or ValueError if it is unknown, or has no effect."""
    if value is None:
        return None
    name = zone_name("tz= of Time", value)
    by = Duration.of(moved, "shift= of Time") if is_duration(moved) else None
    if not any(isinstance(one, Duration) and one.days != 0 for one in (size, every, by)):
        slides = f" every {every!s}" if isinstance(every, Duration) else ""
        raise ValueError(
            f"tz={name!r} of Time has no effect on {size!s}{slides}: give days, weeks, months, quarters or years, or "
            "leave it out"
        )
    return name


def column_name(what: str, name: Any) -> str:
    """Return the name of a column. Raises TypeError, naming `what`, if it is no text."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be the name of a column; got {name!r}, a {type(name).__name__}")
    return name


def _require_fixed(what: str, found: Any) -> None:
    if isinstance(found, Duration) and found.calendar:
        raise ValueError(
            f"{what} is {str(found)!r}, a calendar length, which is not a fixed number of days: give days or hours, "
            f"such as '{found.months * 30}d'"
        )


def _zero(found: Any) -> Any:
    return Duration(0) if isinstance(found, Duration) else 0


def _parsed_length(what: str, value: Any) -> Any:
    if is_duration(value):
        return Duration.of(value, what)
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        found = index(value)
        if found.bit_length() > 256:  # the binder refuses what a column's type does not hold
            raise ValueError(f"{what} is beyond 64 bits; got {excerpt(value)}: all rows are sash.Lifetime()")
        return found
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{what} must be finite; got {value!r}")
        return float(value)
    raise TypeError(
        f"{what} must be a duration such as '10s' or '1h', or a number in the column's units; got {value!r}, "
        f"a {type(value).__name__}"
    )
