"""Point-in-time queries on tables in memory: aggregates over the events before each row of a spine.

    events ──▶ in order ──▶ inputs ─────────────────┐
                  │                                 ▼
    spine  ──▶ in order ──▶ bounds among events ──▶ kernels ──▶ results, in the order of the spine

The kernels are those of `stateless.py`: elements and results are two axes, and bounds never decrease on either.

Order the rows of a spine and of its events by the same keys, on one axis of time.

    events   ──▶ RowOrder ─┐
                           ├─ the same keys under the same codes, times in units of the events
    spine    ──▶ RowOrder ─┘

A spine may have a finer unit than its events, and so times between two units of theirs. Events are at whole units, so
a spine's time can be rounded: an event is before 2.5 if it is before 3, and at or before 2.5 if it is at or before 2.

The bounds of windows that end at the rows of a spine, over its events.

    Time        the events within the window's size of the row's time
    Count       the last `size` events
    Lifetime    all events of the key
    Session     the events of the session in progress: none if more than its gap has passed

`closed` determines whether events at the row's own time count, and for Time windows also those at its start. A
negative
shift moves a window into the past.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.aggregators.catalogue import sequential
from sash.columns.aggregate_batch import Aggregate
from sash.columns.arrow_arrays import array
from sash.columns.batch_columns import BatchColumns
from sash.columns.column_inputs import Inputs, ResultColumn
from sash.columns.failed_rows import FailedResults, RowChecks, warn_failed
from sash.columns.keys import decode, format_value, ranks
from sash.columns.projected_results import Projector
from sash.columns.row_errors import aggregate_failure
from sash.columns.row_order import RowOrder, key_codes, place_rows, times_of
from sash.columns.stateless import NeedsOperator, ResultCells, StatelessExecutor, full_windows, projected
from sash.kernels.column.bounds import spine_places
from sash.kernels.column.column_kernels import CountBounds, RangeBounds, RowThreads, index_type
from sash.kernels.loops.array_types import Flags, Numbers
from sash.kernels.loops.bound_kernel import AggregateError, columns_use
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.queries import alone
from sash.plan.time_axis import Number, TimeAxis
from sash.windows.rules import LIMIT, Bound, bound, is_gap

# --- Spine rows ---

_OFFSETS = 2**31 - 1
"""The most bytes of text in a column with 32-bit offsets."""


@dataclass(frozen=True)
class SpineColumns:
    """The columns of a spine that a query reads, with their names: those of the key, and the time."""

    by: Mapping[str, Any]
    on: tuple[str, Any]
    rows: int


@dataclass(frozen=True)
class SpineRows:
    """Events and spine in order of key and time; by place in the spine, its times in units of the events."""

    events: RowOrder
    spine: RowOrder
    floor: Numbers
    """The last whole unit at or before the time."""
    ceiling: Numbers
    """The first whole unit at or after the time: the same, unless the spine has finer units."""


def order_spine(
    table: pa.RecordBatch,
    spine: SpineColumns,
    encoded: Mapping[str, Any],
    bound_query: BoundQuery,
    threads: RowThreads,
    clock: Callable[[], float],
) -> SpineRows:
    """Order the events and the spine by key and time; `encoded`: columns of the events' key that are dictionaries.

    Raises TypeError or ValueError, naming a column that differs.
    """
    axis = bound_query.time
    assert axis is not None
    time, timed = times_of(table, bound_query, clock)
    name, column = spine.on
    own = spine_axis(name, decode(column).type, axis)
    at, at_times = own.numbers(decode(column))
    is_timed = None if at_times.all() else at_times
    mine = {by: encoded.get(by, table.column(by)) for by in bound_query.by}
    pairs = [_joined(*one, *other) for one, other in zip(mine.items(), spine.by.items(), strict=True)]
    codes, bound = key_codes(pairs, table.num_rows + spine.rows, threads)
    own_codes, others = (None, None) if codes is None else (codes[: table.num_rows], codes[table.num_rows :])
    if timed is not None:
        chosen = np.flatnonzero(timed)
        table, time = table.take(array(chosen)), time[chosen]
        own_codes = None if own_codes is None else own_codes[chosen]
    if is_timed is not None:
        at, others = at[is_timed], None if others is None else others[is_timed]
    ties = [ranks(table.column(tie)) for tie in bound_query.ties]
    rows = table.num_rows if timed is None else len(timed)
    events = place_rows(rows, timed, time, (own_codes, bound), ties, threads)
    placed = place_rows(spine.rows, is_timed, at, (others, bound), [], threads)
    return SpineRows(events, placed, *_in_units(placed.time, own, axis))


# ---- times ----


def spine_axis(name: str, kind: pa.DataType, axis: TimeAxis) -> TimeAxis:
    """The axis of a spine's time. Raises TypeError, naming both columns, if its times do not compare with events."""
    found = TimeAxis.of(name, kind, "on= (of the spine)")
    mine, theirs = found.type, axis.type
    both = f"the spine's time {name!r} is of type {mine} and the events' {axis.column!r} of type {theirs}"
    if pa.types.is_timestamp(mine) and pa.types.is_timestamp(theirs):
        if (mine.tz is None) != (theirs.tz is None):
            raise TypeError(f"{both}: one has a time zone and the other has not; localize or convert one")
    elif found.timed != axis.timed or found.has_dates != axis.has_dates:
        raise TypeError(f"{both}, which do not compare: cast one to the type of the other")
    return found


def _in_units(times: Numbers, own: TimeAxis, axis: TimeAxis) -> tuple[Numbers, Numbers]:
    """Times in units of another axis: rounded down and up. Raises ValueError, naming a time that does not fit it."""
    if own.kind != axis.kind and own.kind == "float":
        _require_fit(times, np.abs(times) >= 2.0**63, own, axis)
        return np.floor(times).astype(np.int64), np.ceil(times).astype(np.int64)
    if own.kind != axis.kind:
        _require_fit(times, _beyond(times, 2**53), own, axis)
        return times.astype(np.float64), times.astype(np.float64)
    if not own.timed or own.unit == axis.unit:
        return times, times
    if own.unit < axis.unit:
        factor = axis.unit // own.unit
        floor = times // factor
        return floor, floor + (times % factor != 0)
    factor = own.unit // axis.unit
    _require_fit(times, _beyond(times, LIMIT // factor), own, axis)
    return times * factor, times * factor


def _beyond(times: Numbers, limit: int) -> Flags:
    return (times > limit) | (times < -limit)


def _require_fit(times: Numbers, beyond: Flags, own: TimeAxis, axis: TimeAxis) -> None:
    if beyond.any():
        value = format_value(own.array(times[beyond][:1])[0])
        raise ValueError(
            f"the spine's time {own.column!r} holds {value}, which is beyond the events' {axis.column!r} of type "
            f"{axis.type}: filter it, or cast the events' column to {own.type}"
        )


# ---- keys ----


def _joined(name: str, events: Any, own: str, spine: Any) -> pa.Array:
    """A `by` column of the events and, after it, of the spine. Raises TypeError if they do not compare."""
    if pa.types.is_dictionary(events.type) and events.type == spine.type:
        both = pa.chunked_array([*_chunks(events), *_chunks(spine)], events.type).unify_dictionaries()
        return both.combine_chunks()
    first, second = decode(events), decode(spine)
    kind = _common(first.type, second.type)
    if kind is None:
        raise TypeError(
            f"the spine's column {own!r} is of type {second.type} and the events' {name!r} of type {first.type}, which "
            "do not compare: cast one to the type of the other"
        )
    try:
        if pa.types.is_string(kind) and first.nbytes + second.nbytes > _OFFSETS:
            kind = pa.large_string()
        return pa.concat_arrays([first.cast(kind), second.cast(kind)])
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"the spine's column {own!r} of type {second.type} and the events' {name!r} of type {first.type} hold "
            f"values that the other cannot ({error}): cast one to the type of the other"
        ) from None


def _chunks(column: Any) -> Sequence[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which values of two types are compared; None if there is none."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    for narrow, wide in ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())):
        if {a, b} == {narrow, wide}:
            return wide
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if pa.types.is_floating(a) and pa.types.is_floating(b):
        return pa.float64()
    return None


# --- Spine windows ---


class SpineWindows:
    """Finds the bounds of windows; bounds that several windows share are found once."""

    def __init__(self, rows: SpineRows, closed: str, threads: RowThreads) -> None:
        self.rows, self.threads, self.closed = rows, threads, closed
        self._found: dict[tuple[Bound, bool], Numbers] = {}
        lengths = np.diff(rows.spine.edges)
        self.begins = np.repeat(rows.events.edges[:-1], lengths).astype(index_type(len(rows.events)))

    def of(self, window: WindowSpec) -> RangeBounds:
        """The bounds of a window, by place in the spine."""
        rule, here = replace(window, closed=self.closed).rule, self.rows.floor
        if rule.in_time:
            lows, highs = rule.origins(here)
            his = self._places_of(highs, rule.end, not rule.closed_end)
            return _ranges(self._places_of(lows, rule.start, rule.closed_start), his)
        ends = self._places_of(here, bound(0, here.dtype, not rule.closed_end), not rule.closed_end)
        if rule.measure == "rows":
            longest = len(self.rows.events) + 1
            behind, ahead = (min(max(by, -longest), longest) for by in rule.rows)
            return _ranges(np.maximum(ends - behind, self.begins), np.maximum(ends + ahead, self.begins))
        assert rule.measure == "restarts", window
        return _ranges(self.begins if rule.gap is None else self._session_starts(rule.gap, ends), ends)

    def _session_starts(self, gap: Number, ends: Numbers) -> Numbers:
        events, time = self.rows.events, self.rows.events.time
        starts = np.zeros(len(time), np.bool_)
        starts[1:] = is_gap(gap, time[1:], time[:-1])
        starts[events.edges[:-1][events.edges[:-1] < len(time)]] = True
        first = np.maximum.accumulate(np.where(starts, np.arange(len(time)), 0))
        last = np.maximum(ends, 1) - 1
        some = ends > self.begins
        silent = is_gap(gap, self.rows.ceiling, np.where(some, time[last], self.rows.ceiling))
        return np.where(some & ~silent, first[last], ends).astype(ends.dtype)

    def _places_of(self, origins: Numbers, given: Bound, inclusive: bool) -> Numbers:
        """The places of the first events that do not precede a bound; `inclusive`: it includes its own time.

        `origins` are measured from the last whole units at or before the times of the spine. A time between two units
        has its bounds between two others, and an inclusive one is that of the next.
        """
        rows, known = self.rows, origins is self.rows.floor
        if known and (given, inclusive) in self._found:
            return self._found[given, inclusive]
        targets = origins + (rows.ceiling - rows.floor) if inclusive else origins
        out = np.empty(len(rows.spine), index_type(len(rows.events)))
        before = (rows.events.time, np.ascontiguousarray(targets), given, rows.events.edges, rows.spine.edges)
        self.threads.loop(spine_places, len(rows.spine), before, (out,))
        if known:
            self._found[given, inclusive] = out
        return out


def _ranges(los: Numbers, his: Numbers) -> RangeBounds:
    los = np.minimum(los, his)
    lengths = his - los
    return RangeBounds(los, his, int(lengths.min(initial=len(his))), int(lengths.max(initial=0)))


# --- As of executor ---


class AsOfExecutor(StatelessExecutor):
    """Executes a query as of the rows of spines."""

    def __init__(
        self, bound_query: BoundQuery, clock: Callable[[], float] = time.time, threads: int | None = None
    ) -> None:
        super().__init__(alone(bound_query), clock, threads)
        self.projector = Projector(bound_query)
        self.checks = RowChecks(self.bound_query, self._is_compiled)
        self.failed_events, self.failures = 0, FailedResults()

    def as_of(
        self, events: pa.RecordBatch, spine: SpineColumns, closed: str, keys: Mapping[str, Any] | None = None
    ) -> list[ResultColumn]:
        """A column for each result, in the order of the spine; null for rows without a time.

        `keys` are columns of the events' key that exist as dictionaries. Raises TypeError or ValueError, naming a
        column of the spine that does not compare with that of the events, and what an aggregate raises. Events that
        are to be set aside are not among `events`; results that fail are then null.
        """
        rows = order_spine(events, spine, keys or {}, self.bound_query, self.threads, self.clock)
        found: dict[tuple[int, int], ResultColumn] = {}
        if not len(rows.events):
            asked = self.bound_query.projection.asked
            return projected(self.projector, {(w, p): self._nothing(rows.spine, w, p) for w, p in asked})
        windows = SpineWindows(rows, closed, self.threads)
        given = [windows.of(window) for window in self.bound_query.windows]
        columns = BatchColumns(events)
        for p, spec in enumerate(self.bound_query.aggregates):
            inputs = self._inputs(spec, columns, rows.events, rows.spine)
            try:
                found |= self._windows_of(p, inputs, given)
            except NeedsOperator as error:
                if not self.checks.tolerant:
                    raise self._error(p, error.__cause__) from error
                found |= self._lowered_apart(p, inputs, given)
        return projected(self.projector, found)

    def _lowered_apart(self, p: int, inputs: Inputs, given: Sequence[CountBounds | RangeBounds]) -> ResultCells:
        """The results of an aggregate that fails on some of them: these are null."""
        made: ResultCells = {}
        for s in self.bound_query.projection.windows_of(p):
            window = self.bound_query.windows[s]
            on = full_windows(window, inputs.results, given[s]) if window.full else None
            try:
                made[s, p] = self._slid(inputs, given[s], "TwoStacksLite", on, lowers_apart=True)
            except NeedsOperator as error:  # `combine` has failed
                raise self._error(p, error.__cause__) from error
            if self.failed:
                self.failures.note(len(self.failed), str(self._error(p, self.failed[-1])))
                self.failed = []
        return made

    def without_failed(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The events on which no aggregate fails; the others are counted."""
        found = self.checks.failures(events) if self.checks.tolerant else {}
        if not found:
            return events
        self.failed_events += len(found)
        self.failures.note(0, found[min(found)])
        return events.take(array(np.setdiff1d(np.arange(len(events)), list(found))))

    def _is_compiled(self, number: int) -> bool:
        spec = self.bound_query.aggregates[number]
        return Aggregate(spec, columns_use(sequential("TwoStacksLite"))).kernel.compiled

    def warn(self) -> None:
        """Warn of events and results that have failed."""
        formulas = self.projector.failures
        message = self.failures.message or formulas.message
        warn_failed(self.failed_events, self.failures.count + formulas.count, message)

    def _nothing(self, spine: RowOrder, w: int, p: int) -> ResultColumn:
        """The results of windows without events."""
        spec = self.bound_query.aggregates[p]
        empty = None if self.bound_query.windows[w].full else spec.monoid.empty
        if empty is None:
            return ResultColumn(spec.result, made=pa.nulls(spine.rows, spec.result))
        column = spec.array([empty]).take(array(np.zeros(spine.rows, np.int64), spine.timed))
        return ResultColumn(spec.result, made=column)

    def _error(self, p: int, cause: BaseException | None) -> BaseException:
        """The error of an aggregate that failed."""
        name = self.bound_query.aggregates[p].name
        if isinstance(cause, AggregateError):
            return aggregate_failure(self.bound_query, p, cause, "the windows of the spine")
        return OverflowError(f"the aggregate {name!r}: a difference of integers exceeds 64 bits; cast them to float64")
