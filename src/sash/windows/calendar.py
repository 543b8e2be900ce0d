"""Calendar lengths and grids: months, and days of a time zone, on times that are numbers of one unit.

    LocalClock        instants ◀──▶ local times, through changes of the clock
    CalendarLength    t - 1 month, t - 7 local days: the start of a window of such a size
    CalendarGrid      slides that end at local midnights or at starts of months, numbered from 1970 on

A local time that a change of the clock skips means the instant of the change; one that occurs twice means the first
occurrence. So a local day begins at its first instant, in every zone.

Starts of windows must not decrease as time increases. Calendar subtraction violates this in two cases: Mar 30 12:00
and Mar 31 00:00 less a month are Feb 28 12:00 and Feb 28 00:00, and an hour occurs twice when the clock goes back.
There a window starts at the earliest start of any later time: for Mar 28 to Mar 30 at Feb 28 00:00.

ZoneRules: when the clock of a time zone changes, as arrays.

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
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# --- Zone rules ---

DAY_SECONDS = 86400
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
                later = periods * 146_097 * DAY_SECONDS
                earlier = self._of_year(year - periods * _PERIOD)
                self._years[year] = [_ClockChange(at + later, before, after) for at, before, after in earlier]
            else:
                self._years[year] = self._read_year(year)
        return self._years[year]

    def _read_year(self, year: int) -> list[_ClockChange]:
        found = []
        begin, end = _new_year(year), _new_year(year + 1)
        known = self._offset(begin)
        for midnight in range(begin, end, DAY_SECONDS):
            passed, after = midnight, self._offset(midnight + DAY_SECONDS)
            while known != after:
                low, high = passed, midnight + DAY_SECONDS  # the first change after `low`
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
    return 1970 + int(np.int64(second // DAY_SECONDS).astype("M8[D]").astype("M8[Y]").astype(np.int64))


def _new_year(year: int) -> int:
    return int(np.int64(year - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)) * DAY_SECONDS


# --- Calendar ---

Ints = NDArray[np.int64]

LEAST, GREATEST = -(2**63), 2**63 - 1
DAY = 86_400 * 10**9
MANY = 1024
"""The number of times from which on `CalendarLength.before` computes starts by day."""

MOST_SLIDES = 1 << 25
"""The greatest number of slides that a table holds."""

_MONDAY = 4
"""The first Monday after the epoch: 1970-01-05."""


@dataclass(frozen=True)
class LocalClock:
    """The local time of a zone: the UTC time plus an offset, in units of `unit` nanoseconds."""

    zone: str
    unit: int

    @property
    def day(self) -> int:
        """Units in a day."""
        return DAY // self.unit

    @property
    def _second(self) -> int:
        return 10**9 // self.unit

    @property
    def is_utc(self) -> bool:
        """Is the local time equal to the UTC time? Dates have no zone."""
        return self.zone == "UTC" or self.unit >= DAY

    def _changes(self, seconds: Ints) -> ClockChanges:
        return zone_rules(self.zone).between(int(seconds.min()), int(seconds.max()))

    def local(self, t: Ints) -> Ints:
        """The local times of instants; times that will occur again become the time to which the clock goes back."""
        if self.is_utc or not len(t):
            return t
        seconds = t // self._second
        changes = self._changes(seconds)
        place = np.searchsorted(changes.at, seconds, "right")
        shift = changes.offset[place]
        # within the time that is repeated later; beyond it the minimum is the local time itself
        back = changes.lowest[place] <= seconds + shift
        found: Ints = t + shift * self._second
        return np.where(back, changes.lowest[place] * self._second, found) if back.any() else found

    def instant(self, local: Ints) -> Ints:
        """The first instants whose local times are at least these."""
        if self.is_utc or not len(local):
            return local
        seconds = local // self._second
        changes = self._changes(seconds)
        place = np.searchsorted(changes.highest, seconds, "right")
        found: Ints = local - changes.offset[place] * self._second
        if not len(changes.at):
            return found
        begin = changes.at[np.maximum(place - 1, 0)]
        early = (place > 0) & (found // self._second < begin)
        return np.where(early, begin * self._second, found)


def month_start(months: Ints) -> Ints:
    """The first day of months, both counted from 1970-01 on."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def month_of(days: Ints) -> Ints:
    """The months of days, both counted from 1970-01 on."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


@dataclass(frozen=True)
class CalendarLength:
    """A size of `months`, or of `days`, of a local calendar."""

    clock: LocalClock
    months: int
    days: int

    @property
    def longest(self) -> int:
        """The greatest length in units, changes of the clock included."""
        days = self.days + self.months // 12 * 366 + self.months % 12 * 31
        return (days + 2 * (not self.clock.is_utc)) * self.clock.day

    @property
    def shortest(self) -> int:
        """The least length in units, changes of the clock by hours included; those of the date line are not."""
        days = self.days + self.months * 28
        return days * self.clock.day - (0 if self.clock.is_utc else self.clock.day // 8)

    def before(self, t: Any) -> Ints:
        """The starts of windows that end at t: below t, not decreasing, and at least the least 64-bit integer."""
        t = np.asarray(t, np.int64)
        found = self._before_by_day(t) if len(t) >= MANY else None
        return self._before(t) if found is None else found

    def _before_by_day(self, t: Ints) -> Ints | None:
        """`before` for many times on few days: the starts of a day follow from that of its midnight.

        This holds for days as long as the day in which their windows start, which are most; the others use `_before`.
        1,000,000 times in five years take 91 ms, with `_before` 467 ms. None if there are too many days.
        """
        day = self.clock.day
        first, last = int(t.min()) // day - 2, int(t.max()) // day + 3
        if (last - first) * 4 > len(t) or first * day - self.longest < LEAST // 2 or last * day > GREATEST // 2:
            return None
        days = np.arange(first, last + 1)
        start, of_day = self.moved(days, np.ones(len(days), np.int64))
        begin, target, after = (self.clock.instant(one * day) for one in (days, start, start + 1))
        regular = np.append(np.diff(begin) == day, False) & (after - target == day)
        place = np.searchsorted(begin, t, "right") - 1
        found = np.where(of_day[place] == 0, target[place], t - (begin - target)[place])
        odd = np.flatnonzero(~regular[place])
        found[odd] = self._before(t[odd])
        return found

    def _before(self, t: Ints) -> Ints:
        local = self.clock.local(t)
        day = local // self.clock.day
        start, of_day = self.moved(day, local - day * self.clock.day)
        least = LEAST // self.clock.day + 3
        safe = start >= least
        found = self.clock.instant(np.maximum(start, least) * self.clock.day + of_day)
        return np.where(safe, np.minimum(found, np.maximum(t, LEAST + 1) - 1), LEAST)

    def moved(self, day: Ints, of_day: Ints) -> tuple[Ints, Ints]:
        """Days minus the length, and times of day: 0 where several days give the same result."""
        if self.days:
            return day - self.days, of_day
        month = month_of(day)
        first, target = month_start(month), month_start(month - self.months)
        last_of_target = month_start(month - self.months + 1) - target - 1
        index = day - first
        several = (index >= last_of_target) & (day < month_start(month + 1) - 1)
        return target + np.minimum(index, last_of_target), np.where(several, 0, of_day)


class SlideTable(NamedTuple):
    """The slides from number `first` on: their ends, and the starts of their windows."""

    first: int
    ends: Ints
    starts: Ints


@dataclass(frozen=True)
class CalendarGrid:
    """Slides whose ends, or whose windows' starts, follow a calendar.

    `every` is a CalendarLength, or a number of units: then `offset` is its shift, and only starts follow the calendar.
    Else ends are shifted by `months` and by `offset` in local time, and then by `after` units. `size` is a
    CalendarLength, a number of units, or None for windows that are not measured in time.
    """

    every: CalendarLength | int
    size: CalendarLength | int | None
    offset: int
    months: int
    after: int = 0
    _tables: list[SlideTable] = field(default_factory=list, compare=False, repr=False)

    # ---- slides by number ----

    def ends(self, k: Any) -> Ints:
        """The k-th ends."""
        shape, k = np.shape(k), np.atleast_1d(np.asarray(k, np.int64))
        table = None if isinstance(self.every, int) else self._table_of(k)
        return (self._ends(k) if table is None else table.ends[k - table.first]).reshape(shape)

    def starts(self, k: Any) -> Ints:
        """The starts of the windows with the k-th ends."""
        shape, k = np.shape(k), np.atleast_1d(np.asarray(k, np.int64))
        table = self._table_of(k)
        found = self._starts(k, self._ends(k)) if table is None else table.starts[k - table.first]
        return found.reshape(shape)

    def _table_of(self, k: Ints) -> SlideTable | None:
        """A table with these slides; None if they are too few for one."""
        if len(k) < 16:
            return None
        low, high = int(k.min()), int(k.max())
        return self.table(low, high) if high - low <= 4 * len(k) else None

    def _ends(self, k: Ints) -> Ints:
        if isinstance(self.every, int):
            return self.offset + k * self.every
        clock = self.every.clock
        return clock.instant(self._days(k) * clock.day + self.offset) + self.after

    def _days(self, k: Ints) -> Ints:
        """The local days of the k-th ends, without their shift in time."""
        assert isinstance(self.every, CalendarLength)
        if self.every.months:
            return month_start(k * self.every.months + self.months)
        return k * self.every.days + (0 if self.every.days % 7 else _MONDAY)

    def _starts(self, k: Ints, ends: Ints) -> Ints:
        if isinstance(self.size, CalendarLength):
            if isinstance(self.every, int):
                return self.size.before(ends)
            clock = self.every.clock
            start, _ = self.size.moved(self._days(k), np.zeros(len(k), np.int64))
            return clock.instant(start * clock.day + self.offset)
        return ends if self.size is None else ends - self.size

    # ---- slides by time ----

    def last_end(self, x: Any, strict: bool) -> Ints:
        """The greatest k whose end is at most x, or below it if `strict`."""
        x = np.asarray(x, np.int64)
        found: Ints = x
        if isinstance(self.every, int):
            found = (x - self.offset - strict) // self.every
        elif len(x):
            table = self._covering(x)
            found = table.first - 1 + np.searchsorted(table.ends, x, "left" if strict else "right")
        return found

    def last_start(self, x: Any, strict: bool) -> Ints:
        """The greatest k whose window starts at most at x, or before it if `strict`."""
        x = np.asarray(x, np.int64)
        found: Ints = x
        if len(x):
            table = self._covering(x)
            found = table.first - 1 + np.searchsorted(table.starts, x, "left" if strict else "right")
        return found

    @cached_property
    def least(self) -> int:
        """The least time with slides: in the year 1, or the least 64-bit time."""
        return self._limit(-719_162 + 366, LEAST)

    @cached_property
    def greatest(self) -> int:
        """The greatest time with slides: in the year 9999, or the greatest 64-bit time."""
        return self._limit(2_932_896, GREATEST)

    def _limit(self, day: int, bits: int) -> int:
        size = self.size.longest if isinstance(self.size, CalendarLength) else self.size or 0
        step = self.every.longest if isinstance(self.every, CalendarLength) else self.every
        shift = abs(self.offset) + self.months * 31 * self._day + self.after
        room = size + 2 * step + shift + 8 * self._day
        return max(day * self._day, bits + room) if bits < 0 else min(day * self._day, bits - room)

    @property
    def _day(self) -> int:
        length = self.every if isinstance(self.every, CalendarLength) else self.size
        assert isinstance(length, CalendarLength)
        return length.clock.day

    def near(self, x: int) -> int:
        """The number of a slide that ends a few slides from x."""
        if isinstance(self.every, int):
            return (x - self.offset) // self.every
        day = (x - self.offset - self.after) // self.every.clock.day
        if self.every.months:
            month = int(month_of(np.array([day]))[0])
            return (month - self.months) // self.every.months
        return day // self.every.days

    def _covering(self, x: Ints) -> SlideTable:
        """A table with the slides around these times, which are clipped to the supported range."""
        low, high = (min(max(int(edge), self.least), self.greatest) for edge in (x.min(), x.max()))
        reach = self.size.longest if isinstance(self.size, CalendarLength) else self.size or 0
        return self.table(self.near(low) - 3, self.near(high + reach) + 4)

    def table(self, first: int, last: int) -> SlideTable:
        """A table with the slides between two numbers. Raises OverflowError if they are too many."""
        if self._tables:
            known = self._tables[0]
            if known.first <= first and last < known.first + len(known.ends):
                return known
            more = len(known.ends) // 4
            first = known.first if first >= known.first else first - more
            last = known.first + len(known.ends) - 1 if last < known.first + len(known.ends) else last + more
        if last - first >= MOST_SLIDES:
            raise OverflowError(
                f"the times are too far apart for windows of a calendar length that slide by {self.every}: there are "
                f"{last - first + 1:,} slides between them"
            )
        k = np.arange(first, last + 1)
        ends = self._ends(k)
        self._tables[:] = [SlideTable(first, ends, self._starts(k, ends))]
        return self._tables[0]
