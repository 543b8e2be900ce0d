"""Calendar lengths and slides by their definition, with `datetime` and `zoneinfo`, for one time after the other.

The engine's arrays (`sash.windows.calendar`) are tested against this. Times are integers in units of the time column.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from sash.windows.zone_rules import tzinfo_of

if TYPE_CHECKING:
    from sash.windows.calendar import CalendarGrid, CalendarLength

_EPOCH = date(1970, 1, 1)
_MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO = timedelta(0)


class LocalTimes:
    """The local times of a zone, in units of `unit` nanoseconds."""

    def __init__(self, zone: str, unit: int) -> None:
        self.utc = zone == "UTC"
        self.zone, self.second, self.day = tzinfo_of("tz=", zone), 10**9 // unit, 86400 * 10**9 // unit

    def offset(self, t: int) -> int:
        """The offset of the local time at an instant, in units."""
        if self.utc:
            return 0
        shift = (_MIDNIGHT + timedelta(seconds=t // self.second)).astimezone(self.zone).utcoffset()
        return int((shift or _ZERO).total_seconds()) * self.second

    def changes(self, begin: int, end: int) -> Iterator[int]:
        """The instants in (begin, end] at which the offset changes."""
        if self.utc:
            return
        step = self.day // 2  # no zone changes its clock twice within half a day
        while begin < end:
            until = min(begin + step, end)
            low, high = begin // self.second, until // self.second
            if self.offset(begin) != self.offset(until):
                while high - low > 1:
                    middle = (low + high) // 2
                    changed = self.offset(middle * self.second) != self.offset(begin)
                    low, high = (low, middle) if changed else (middle, high)
                yield high * self.second
            begin = until

    def instant(self, local: int) -> int:
        """The first instant whose local time is not below `local`."""
        begin, end = local - self.day * 2, local + self.day * 2
        found = []
        edges = [begin, *self.changes(begin, end)]
        for edge in edges:  # between two edges local time has a constant offset
            t = max(edge, local - self.offset(edge))
            if self.offset(t) == self.offset(edge):
                found.append(t)
        return min(found)

    def minus(self, length: CalendarLength, t: int) -> int:
        """An instant some months or days earlier in the local calendar, at the same time of day.

        A day that the month does not have becomes its last day.
        """
        local = t + self.offset(t)
        day, of_day = _EPOCH + timedelta(local // self.day), local % self.day
        return self.instant((_earlier(day, length) - _EPOCH).days * self.day + of_day)


def _earlier(day: date, length: CalendarLength) -> date:
    if not length.months:
        return day - timedelta(length.days)
    months = day.year * 12 + day.month - 1 - length.months
    first = date(months // 12, months % 12 + 1, 1)
    last = date((months + 1) // 12, (months + 1) % 12 + 1, 1) - timedelta(1)
    return first.replace(day=min(day.day, last.day))


@cache
def start_before(length: CalendarLength, t: int) -> int:
    """The start of a window of a calendar length that ends at t: the earliest of those that end at t or later."""
    times = LocalTimes(length.clock.zone, length.clock.unit)
    later = [t, *times.changes(t, t + times.day)]
    today = (t + times.offset(t)) // times.day
    later += [times.instant((today + days) * times.day) for days in range(1, 4)]
    return min(*(times.minus(length, at) for at in later), t - 1)


def slides_from(spec: Any, time: int) -> Iterator[tuple[int, int]]:
    """The windows of the slides that end shortly before a time, or later, in order: start and end."""
    grid = spec.grid
    step = spec.every + abs(grid.offset) + abs(grid.months) * spec.every + grid.after
    k = _number(grid, time - step) - 2
    while True:
        yield _slide(grid, k)
        k += 1


def _number(grid: CalendarGrid, t: int) -> int:
    if isinstance(grid.every, int):
        return int(t - grid.offset) // grid.every
    every: Any = grid.every
    day = _EPOCH + timedelta(t // every.clock.day)
    if every.months:
        return int(day.year * 12 + day.month - 1970 * 12 - 1 - grid.months) // int(every.months)
    return (day - _EPOCH).days // int(every.days)


@cache
def _slide(grid: CalendarGrid, k: int) -> tuple[int, int]:
    if isinstance(grid.every, int):
        end = grid.offset + k * grid.every
        return start_before(grid.size, end), end
    every = grid.every
    times = LocalTimes(every.clock.zone, every.clock.unit)
    if every.months:
        months = 1970 * 12 + k * every.months + grid.months
        day = date(months // 12, months % 12 + 1, 1)
    else:
        day = (date(1970, 1, 1) if every.days % 7 else date(1970, 1, 5)) + timedelta(k * every.days)
    end = _at(times, day, grid.offset) + grid.after
    if grid.size is None or isinstance(grid.size, int):
        return end - (grid.size or 0), end
    return _at(times, _earlier(day, grid.size), grid.offset), end


def _at(times: LocalTimes, day: date, of_day: int) -> int:
    return times.instant((day - _EPOCH).days * times.day + of_day)
