"""Windows by their definition: the rows of each window, found by scanning all rows of the key.

The engine is tested against this. `rows` are always the rows of a key since it last restarted, in order: by time, then
tie-breakers, then arrival. Two functions:

    per_row(spec, rows)     for each row, the rows of the window that ends at it

        rows       a    b    c    d    e
        Count(3)        └────┴────┘              the window that ends at d

    slides(spec, rows)      the windows of a query with `every`, with their bounds and when they are final

        time       0    5    10   15   20
        Time(10, every=5)  [0, 10) · [5, 15) · [10, 20) …

Nothing here is fast, and only the bound query is shared with the engine.

Arriving rows by definition: their keys, times and order, and whether they are late.

    number     0      1      2      3       4
    time       10     30     5      null    25          lateness 10
    W before   -∞     0      20     20      20
               timed  timed  late   untimed timed       a row at 20 would not be late: equal is not below

The watermark W is the greatest time so far minus `lateness`, row by row; a late row and an untimed one never move
it.

Calendar lengths and slides by their definition, with `datetime` and `zoneinfo`, for one time after the other.

The engine's arrays (`sash.windows.calendar`) are tested against this. Times are integers in units of the time column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as is_

from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import ColumnNode, Node
from sash.monoids.custom import Custom
from sash.monoids.ewm import EwmMeanByTime, EwmVarByTime
from sash.monoids.null_rows import NullRows
from sash.windows.calendar import tzinfo_of

if TYPE_CHECKING:
    from sash.plan.bound_query import AggregateSpec, BoundQuery, TimeAxis
    from sash.plan.time_axis import Number
    from sash.windows.calendar import CalendarGrid, CalendarLength


# --- Calendar oracle ---

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


# --- Window oracle ---

Spec = Any
"""A `sash.plan.bound_query.WindowSpec`, untyped: its kind determines which fields are set."""


@dataclass(frozen=True)
class Row:
    """A row: its arrival number, key, time, and values as Python objects."""

    number: int
    key: tuple[Any, ...]
    time: Any
    ties: tuple[Any, ...]
    values: dict[str, Any]
    places: dict[str, Any]
    """Its coordinate on the axis of each Delta window, by column."""


@dataclass(frozen=True)
class Due:
    """When a result is final: when the watermark has passed a time, or has reached it; without a time at once.

    >>> Due(10, passed=True).final(10), Due(10, passed=False).final(10)
    (False, True)
    """

    time: Number | None
    passed: bool

    def final(self, watermark: Number) -> bool:
        if self.time is None:
            return True
        return watermark > self.time if self.passed else watermark >= self.time


@dataclass(frozen=True)
class DueTogether:
    """When a result is final that waits for several conditions, or for the expiry of its key."""

    each: tuple[Due, ...]
    expiry: Due | None

    def final(self, watermark: Number) -> bool:
        has_expired = self.expiry is not None and self.expiry.final(watermark)
        return has_expired or all(due.final(watermark) for due in self.each)


@dataclass(frozen=True)
class Slide:
    """One window of a query with `every`; `full` is false if it has too few rows and its aggregates are null."""

    rows: tuple[Row, ...]
    full: bool
    start: Any
    end: Any
    due: Due


# ---- the window that ends at a row ----


def per_row(spec: Spec, rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """For each row the rows of the window that ends at it, oldest first.

    Raises ValueError, naming the row, if the column of a Delta window decreases or is no number.
    """
    return [tuple(window) for window in _PER_ROW[spec.kind](spec, rows)]


def due_at(specs: Sequence[Spec], rows: Sequence[Row], i: int, forget: Number | None) -> DueTogether:
    """When the result of row i is final: when the row and all later rows that its windows may hold are final."""
    row = rows[i]
    each = [Due(row.time, passed=True)]
    for spec in specs:
        if spec.kind == "time" and spec.shift > 0:
            each.append(Due(row.time + spec.shift, passed=spec.closed in ("right", "both")))
        elif spec.shift > 0:
            last = i + spec.shift
            each.append(Due(rows[last].time, passed=True) if last < len(rows) else Due(math.inf, passed=False))
    return DueTogether(tuple(each), None if forget is None else Due(rows[-1].time + forget, passed=True))


def _time(spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for row in rows:
        low, high = start_of(spec, row.time), end_of(spec, row.time)
        yield [r for r in rows if inside(spec.closed, low, r.time, high)]


def _count(spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for i in range(len(rows)):
        yield rows[max(0, i + 1 - spec.behind) : max(0, i + 1 + spec.shift)]


def _delta(spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    highest = None
    for i, row in enumerate(rows):
        current = row.places[spec.column]
        if current is None:
            raise ValueError(f"row {row.number}: the column {spec.column!r} of a Delta window is null, NaN or infinite")
        if highest is not None and current < highest:
            raise ValueError(
                f"row {row.number}: the column {spec.column!r} of a Delta window decreases from {highest} to {current}"
            )
        highest = current
        yield [r for r in rows[: i + 1] if r.places[spec.column] > current - spec.size]


def _session(spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for session in sessions(spec, rows):
        for row in session:
            yield [r for r in session if r.time <= row.time]


def _punctuation(spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    for i, row in enumerate(rows):
        yield rows[start : i + 1]
        if row.values[spec.column]:
            start = i + 1


def _lifetime(_spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for i, row in enumerate(rows):
        yield rows[: i + 1] if row.time is None else [r for r in rows if r.time <= row.time]


def _policy(spec: Spec, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    for i in range(len(rows)):
        window = rows[start : i + 1]
        total = _seen(spec, window)
        evictable = [n for n in range(1, len(window) + 1) if spec.window.evicts(total, _seen(spec, window[:n]))]
        start += max(evictable, default=0)
        yield rows[start : i + 1]


def _seen(spec: Spec, rows: Sequence[Row]) -> tuple[Any, ...]:
    """The arguments of a policy for some rows: a value for each aggregate of `over`."""
    return tuple(over.monoid.policy_value(state(over, rows)) for over in spec.over)


_PER_ROW: dict[str, Callable[[Spec, Sequence[Row]], Iterator[Sequence[Row]]]] = {
    "time": _time,
    "count": _count,
    "delta": _delta,
    "session": _session,
    "punctuation": _punctuation,
    "lifetime": _lifetime,
    "policy": _policy,
}


def start_of(spec: Spec, time: Any) -> Any:
    """The start of the Time window of a row."""
    end = end_of(spec, time)
    return end - spec.size if spec.calendar_size is None else start_before(spec.calendar_size, end)


def end_of(spec: Spec, time: Any) -> Any:
    """The end of the Time window of a row."""
    return time + spec.shift if spec.calendar_shift is None else start_before(spec.calendar_shift, time)


def inside(closed: str, low: Number, time: Any, high: Number) -> bool:
    """Is a time between two bounds, with the closed sides?

    >>> [inside(closed, 0, 0, 5) for closed in ("left", "right", "both", "neither")]
    [True, False, True, False]
    """
    return (low <= time if closed in ("left", "both") else low < time) and before_end(closed, time, high)


def before_end(closed: str, time: Any, end: Number) -> bool:
    """Is a time before the end of a window, or at it if that side is closed?"""
    return bool(time <= end if closed in ("right", "both") else time < end)


def sessions(spec: Spec, rows: Sequence[Row]) -> list[list[Row]]:
    """The rows, split where one is more than `gap` after the previous one."""
    return split(rows, lambda previous, row: row.time - previous.time > spec.size)


def key_lifetimes(rows: Sequence[Row], forget: Number | None) -> list[list[Row]]:
    """The rows, split where the key had no row for longer than `forget`: it expires and restarts there."""
    return split(rows, lambda previous, row: forget is not None and row.time - previous.time > forget)


def split(rows: Sequence[Row], apart: Callable[[Row, Row], bool]) -> list[list[Row]]:
    """Lists of neighbouring rows; a list ends where two rows are `apart`."""
    found: list[list[Row]] = []
    for i, row in enumerate(rows):
        if i == 0 or apart(rows[i - 1], row):
            found.append([])
        found[-1].append(row)
    return found


# ---- windows with `every` ----


def slides(spec: Spec, rows: Sequence[Row], restart: Number | None = None) -> list[Slide]:
    """The windows of a spec over the rows of a key, in order.

    `restart` is the time at which the key restarts after these rows, if it does: a slide in time that ends later does
    not hold them, and a session that is open then is final when the watermark has passed it.
    """
    if spec.slide == "rows":
        return list(_every_rows(spec, rows))
    if spec.slide == "time":
        return list(_every_time(spec, rows, restart))
    return list(_closed_sessions(spec, rows, restart) if spec.kind == "session" else _punctuated(spec, rows))


def _every_rows(spec: Spec, rows: Sequence[Row]) -> Iterator[Slide]:
    windows = per_row(spec, rows)
    for i in range(spec.every - 1, len(rows), spec.every):
        row, window = rows[i], windows[i]
        if window:
            start, end = _bounds(spec, rows, i, window)
            yield Slide(window, _is_full(spec, window), start, end, Due(row.time, passed=True))


def _bounds(spec: Spec, rows: Sequence[Row], i: int, window: Sequence[Row]) -> tuple[Any, Any]:
    row = rows[i]
    if row.time is None:
        return i + 1 - len(window), i + 1
    if spec.kind == "time":
        return start_of(spec, row.time), row.time
    return window[0].time, row.time


def _every_time(spec: Spec, rows: Sequence[Row], restart: Number | None) -> Iterator[Slide]:
    ends_of = _ends_that_hold if spec.kind == "time" else _end_after
    for end, begin in sorted({bounds for row in rows for bounds in ends_of(spec, row.time)}):
        if restart is not None and before_end(spec.closed, restart, end):
            continue
        earlier = [r for r in rows if before_end(spec.closed, r.time, end)]
        if spec.kind == "time":
            start, window = begin, [r for r in earlier if inside(spec.closed, begin, r.time, end)]
        else:
            window = earlier[-spec.size :] if spec.kind == "count" else earlier
            start = window[0].time
        due = Due(end, passed=spec.closed == "right")
        yield Slide(tuple(window), _is_full(spec, window), start, end, due)


def _from_end_after(spec: Spec, time: Any) -> Iterator[tuple[Any, Any]]:
    """The ends and starts of slides, from the first end after a time on."""
    for start, end in slides_from(spec, time) if spec.grid is not None else _numbered(spec, time):
        if before_end(spec.closed, time, end):
            yield end, start


def _numbered(spec: Spec, time: Any) -> Iterator[tuple[Any, Any]]:
    is_float = isinstance(time, float)
    offset, every, size = (
        Fraction(str(one)) if is_float else one
        for one in (spec.offset, spec.every, spec.size if spec.kind == "time" else 0)
    )
    steps = (Fraction(time) - offset) // every if is_float else (time - offset) // every
    steps -= 1  # a float may be rounded beyond the end that it is nearest to
    while True:
        end = offset + steps * every
        yield (float(end - size), float(end)) if is_float else (end - size, end)
        steps += 1


def _end_after(spec: Spec, time: Any) -> Iterator[tuple[Any, Any]]:
    """The slide in which a row is new: the first that ends after it. Its window begins with a row."""
    end, _ = next(_from_end_after(spec, time))
    yield end, None


def _ends_that_hold(spec: Spec, time: Any) -> Iterator[tuple[Any, Any]]:
    """All slides whose windows hold a row of this time: end and start."""
    for end, start in _from_end_after(spec, time):
        if not inside(spec.closed, start, time, end):
            return
        yield end, start


def _closed_sessions(spec: Spec, rows: Sequence[Row], restart: Number | None) -> Iterator[Slide]:
    """The sessions of a key. The expiry of the key by `forget` ends an open one, which is emitted then."""
    for session in sessions(spec, rows):
        end = session[-1].time + spec.size
        expired = session[-1] is rows[-1] and restart is not None and restart < end
        due = Due(restart if expired else end, passed=True)
        yield Slide(tuple(session), True, session[0].time, end, due)


def _punctuated(spec: Spec, rows: Sequence[Row]) -> Iterator[Slide]:
    """The windows that a marked row has ended; later rows wait for the next mark."""
    for i, (row, window) in enumerate(zip(rows, per_row(spec, rows), strict=True)):
        if row.values[spec.column]:
            counted = (i + 1 - len(window), i + 1)
            start, end = counted if row.time is None else (window[0].time, row.time)
            yield Slide(window, True, start, end, Due(row.time, passed=True))


def _is_full(spec: Spec, window: Sequence[Row]) -> bool:
    return not spec.full or len(window) == spec.size


# ---- aggregates ----


def inputs(spec: AggregateSpec, rows: Sequence[Row]) -> list[Row]:
    """The rows that an aggregate reads: those without a null in its columns, except the payload of `arg_*`."""
    needed = [column for i, column in enumerate(spec.columns) if i not in spec.monoid.nullable]
    return [row for row in rows if all(row.values[column] is not None for column in needed)]


def counted_inputs(spec: AggregateSpec, rows: Sequence[Row]) -> int:
    """The number of inputs for `min_periods`: null rows do not count, even if the aggregate reads them, like `lag`."""
    needed = [column for i, column in enumerate(spec.columns) if i not in spec.monoid.nullable] or spec.columns[:1]
    return sum(all(row.values[column] is not None for column in needed) for row in rows)


def state(spec: AggregateSpec, rows: Sequence[Row]) -> Any:
    """The aggregate of some rows, not lowered: a fold from the oldest."""
    total = spec.monoid.identity
    for row in inputs(spec, rows):
        total = spec.monoid.combine(total, spec.monoid.lift(*_inputs_of(spec, row)))
    return total


def _inputs_of(spec: AggregateSpec, row: Row) -> list[Any]:
    """The inputs of an aggregate: columns, and the input that a query adds, a time or whether the value is present."""
    values = [_ranked(spec, j, row.values[column]) for j, column in enumerate(spec.columns)]
    if isinstance(spec.monoid, NullRows):
        values[-1] = values[0] is not None
    elif isinstance(spec.monoid, EwmMeanByTime | EwmVarByTime):
        values[-1] = row.time
    return values


def aggregate(spec: AggregateSpec, rows: Sequence[Row]) -> Any:
    """The aggregate of some rows; `empty` if none of them has an input."""
    return _values(spec.monoid.lower(state(spec, rows))) if inputs(spec, rows) else spec.monoid.empty


@dataclass(frozen=True, order=True)
class Category:
    """An ordered category: it is compared by its rank."""

    rank: int
    value: Any = field(compare=False)


def _ranked(spec: AggregateSpec, column: int, value: Any) -> Any:
    """An input as an aggregate gets it: a category with its rank, nanoseconds in a user's aggregate as objects."""
    categories, kind = spec.categories_of(column), spec.types[column]
    if isinstance(spec.monoid, Custom) and isinstance(value, int) and getattr(kind, "unit", "") == "ns":
        return pa.scalar(value, kind).as_py()
    return value if categories is None or value is None else Category(categories.index(value), value)


def _values(result: Any) -> Any:
    """A result with values in place of categories."""
    if isinstance(result, tuple):
        return tuple(map(_values, result))
    return result.value if isinstance(result, Category) else result


# --- Arrival oracle ---

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def rows_of(batch: pa.RecordBatch, bound_query: BoundQuery, first: int) -> Iterator[Row]:
    """The rows of a batch, numbered from `first`."""
    values = {name: python_values(batch.column(name)) for name in batch.schema.names}
    times = places(bound_query.time, batch) if bound_query.time is not None else [None] * batch.num_rows
    axes = [spec.axis for spec in bound_query.windows if spec.kind == "delta" and spec.axis is not None]
    deltas = {axis.column: places(axis, batch) for axis in axes}
    specs = [*bound_query.aggregates, *(spec for window in bound_query.windows for spec in window.over)]
    for name, tree, kind in {column for spec in specs for column in _derived(spec)}:
        values[name] = python_values(pa.array([row_value(tree, row.__getitem__) for row in batch.to_pylist()], kind))
    for i in range(batch.num_rows):
        row = {name: column[i] for name, column in values.items()}
        yield Row(
            number=first + i,
            key=tuple(alike(row[name]) for name in bound_query.by),
            time=times[i],
            ties=tuple(tie(row[name]) for name in bound_query.ties),
            values=row,
            places={name: column[i] for name, column in deltas.items()},
        )


def _derived(spec: AggregateSpec) -> Iterator[tuple[str, Node, pa.DataType]]:
    """The derived columns of an aggregate (expressions, and columns with a condition): name, tree and type."""
    for name, tree, kind in zip(spec.columns, spec.trees, spec.types, strict=True):
        if not isinstance(tree, ColumnNode):
            yield name, tree, kind


def python_values(column: Any) -> list[Any]:
    """A column as Python objects; nanoseconds, which Python's types lack, as integers."""
    nanoseconds = getattr(column.type, "unit", None) == "ns"
    return [scalar.value if nanoseconds else scalar.as_py() for scalar in column]


def places(axis: TimeAxis, batch: pa.RecordBatch) -> list[Number | None]:
    """The coordinates of rows on an axis; None for null, NaN and the infinities."""
    numbers, valid = axis.numbers(batch.column(axis.column))
    return [number if ok else None for number, ok in zip(numbers.tolist(), valid.tolist(), strict=True)]


def alike(value: Any) -> Any:
    """A value in a form to compare and to hash: NaN equals NaN, -0.0 equals 0.0, lists and the like by item.

    >>> alike(float("nan")) == alike(float("nan")), alike([-0.0, (1, None)])
    (True, (0.0, (1, None)))
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, tuple | list):
        return tuple(alike(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, alike(item)) for name, item in value.items())
    return frozenset(map(alike, value)) if isinstance(value, set | frozenset) else value


def tie(value: Any) -> tuple[int, Any]:
    """A sort key for a tie-breaker's value: NaN after every number, null after everything.

    >>> sorted([None, 2.0, float("nan"), 1.0], key=tie)
    [1.0, 2.0, nan, None]
    """
    if value is None:
        return (2, 0)
    return (1, 0) if value != value else (0, value)


def in_order(rows: list[Row]) -> list[Row]:
    """The rows of a key by time, then tie-breakers, then arrival."""
    return sorted(rows, key=lambda row: (row.time is not None and row.time, row.ties, row.number))


def latest_allowed(bound_query: BoundQuery, clock: Callable[[], float]) -> Number:
    """The time beyond which a row is untimed: `ahead` of the clock, or infinity where that is not set."""
    if bound_query.ahead is None or bound_query.time is None:
        return math.inf
    return clock_time(bound_query.time.type, clock()) + bound_query.ahead


def clock_time(kind: pa.DataType, seconds: float) -> int:
    """The clock in units of a column of timestamps or dates, rounded down."""
    if is_.is_timestamp(kind):
        return math.floor(seconds * PER_SECOND[kind.unit])
    return math.floor(seconds / 86_400 if is_.is_date32(kind) else seconds * 1000)
