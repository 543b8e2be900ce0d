"""ZoneRules: when the clock of a time zone changes, as arrays.

    UTC       ──────────┬───────────────┬──────────▶      `at`: the changes
    offset       -5 h   │     -4 h      │   -5 h          `offset`: one more than changes
    local     ──────────┘(gap)──────────┘(fold)────▶

The rules come from `zoneinfo` (the system's database, or the package tzdata), which gives the offset at an instant but
no list of changes. Offsets are compared from day to day, and a change is found by bisection. Years are read when they
are first needed. Rules repeat after 400 years, as the calendar does, so years from 2438 on follow from earlier ones.
Before 1800 and after 9999 the offset is constant.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

DAY = 86400
FIRST_YEAR, LAST_YEAR = 1800, 9999
_PERIOD = 400
_REPEATS_FROM = 2438
"""Explicit changes of the database end in 2037; the years from 2038 on follow a rule."""

_SECOND = timedelta(seconds=1)
_FIXED = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})", re.ASCII)


class _ClockChange(NamedTuple):
    """A change of a clock: the instant and the offsets, in seconds."""

    at: int
    before: int
    after: int


class ClockChanges(NamedTuple):
    """The changes of a clock as arrays, in seconds."""

    at: Ints
    """The instants of the changes."""
    offset: Ints
    """The offsets before the first change, between changes and after the last."""
    highest: Ints
    """For each change, the latest local time before it: local times below it have occurred."""
    lowest: Ints
    """For each offset, the earliest local time after its end: with `highest`, where the clock goes back."""


def zone_name(what: str, value: Any) -> str:
    """Return the name of a time zone or tzinfo: "Europe/Berlin", "UTC" or an offset such as "+05:30".

    Raises TypeError or ValueError, naming `what`.
    """
    name = value
    if isinstance(value, tzinfo):
        name = getattr(value, "key", None) or getattr(value, "zone", None)  # of zoneinfo and pytz
        if name is None:
            shift = value.utcoffset(None)
            name = None if shift is None else "UTC" if not shift else _fixed_name(shift)
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a time zone such as 'Europe/Berlin'; got {value!r}, a {type(value).__name__}")
    tzinfo_of(what, name)
    return name


def _fixed_name(shift: timedelta) -> str:
    minutes = shift // timedelta(minutes=1)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def tzinfo_of(what: str, name: str) -> tzinfo:
    """Return the time zone of a name. Raises ValueError, with a suggestion, for an unknown name."""
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        shift = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        if shift < timedelta(days=1):
            return timezone(-shift if fixed[1] == "-" else shift)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones  # only windows with a zone load it

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        import difflib

        known = available_timezones()
        near = difflib.get_close_matches(name, known, 1, 0.5)
        advice = f": did you mean {near[0]!r}?" if near else "" if known else ": install the package tzdata"
        raise ValueError(f"{what} is {name!r}, which is not a known time zone{advice}") from None


@cache
def zone_rules(name: str) -> ZoneRules:
    """The rules of a time zone, shared by all windows."""
    return ZoneRules(name)


class ZoneRules:
    """The changes of a zone's clock."""

    def __init__(self, name: str) -> None:
        self.zone = tzinfo_of("tz=", name)
        self._epoch = datetime(1970, 1, 1, tzinfo=self.zone)
        self._years: dict[int, list[_ClockChange]] = {}
        self._range = (1, 0)
        self._changes = _changes([], self._offset(0))

    def between(self, first: int, last: int) -> ClockChanges:
        """The changes between two instants in seconds, and a year more on both sides; perhaps more years."""
        begin, end = (min(max(_year(s) + more, FIRST_YEAR), LAST_YEAR) for s, more in ((first, -1), (last, 1)))
        known_begin, known_end = self._range
        if known_end < known_begin:
            known_begin, known_end = begin, end
        elif begin >= known_begin and end <= known_end:
            return self._changes
        begin, end = min(begin, known_begin), max(end, known_end)
        found = [change for year in range(begin, end + 1) for change in self._of_year(year)]
        self._changes = _changes(found, self._offset(_new_year(begin)))
        self._range = (begin, end)  # after the changes: another thread may read them
        return self._changes

    def _offset(self, second: int) -> int:
        shift = self.zone.fromutc(self._epoch + timedelta(0, second)).utcoffset()
        assert shift is not None
        return shift // _SECOND

    def _of_year(self, year: int) -> list[_ClockChange]:
        if isinstance(self.zone, timezone):
            return []
        if year not in self._years:
            periods = max(0, -(-(year - _REPEATS_FROM + 1) // _PERIOD))
            if periods:
                later = periods * 146_097 * DAY
                earlier = self._of_year(year - periods * _PERIOD)
                self._years[year] = [_ClockChange(at + later, before, after) for at, before, after in earlier]
            else:
                self._years[year] = self._read_year(year)
        return self._years[year]

    def _read_year(self, year: int) -> list[_ClockChange]:
        found = []
        begin, end = _new_year(year), _new_year(year + 1)
        known = self._offset(begin)
        for midnight in range(begin, end, DAY):
            passed, after = midnight, self._offset(midnight + DAY)
            while known != after:
                low, high = passed, midnight + DAY  # the first change after `low`
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self._offset(middle) == known else (low, middle)
                new = self._offset(high)
                found.append(_ClockChange(high, known, new))
                known, passed = new, high
        return found


def _changes(found: list[_ClockChange], initial: int) -> ClockChanges:
    at = np.array([change.at for change in found], np.int64)
    offset = np.array([found[0].before if found else initial, *(change.after for change in found)], np.int64)
    highest = np.maximum.accumulate(at + offset[:-1]) if len(at) else at
    lowest = np.full(len(offset), np.iinfo(np.int64).max)
    lowest[:-1] = np.minimum.accumulate((at + offset[1:])[::-1])[::-1]
    return ClockChanges(at, offset, highest, lowest)


def _year(second: int) -> int:
    return 1970 + int(np.int64(second // DAY).astype("M8[D]").astype("M8[Y]").astype(np.int64))


def _new_year(year: int) -> int:
    return int(np.int64(year - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)) * DAY
