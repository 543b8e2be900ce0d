"""Lookup: the aggregates of some keys now, or at a time, without a change of state.

The live structures of the keys compute the results. Buffered rows of these keys are processed first, in a step that is
undone after the lookup. A window without `every` is the one that would end at that time; with `every` it is the slide
in progress.

Without buffered rows, a lookup costs the ⊕ that structures take to advance to the window: O(1) for a window of rows
that ends at the watermark. The structures of a key whose step is undone are rebuilt by the next lookup or the next
row.

Lookups with `closed=`: the same windows as `as_of` at that time, from the state of an operator.

    state    rows below the watermark W        reorder buffer    rows at W and later
             ────────────────────────── W ─────────────────────── at
                    all before `at`                those before `at`, or at it

A window that is open at its start evicts a row that is exactly `size` before W, or before a buffered row that the
lookup processes. A window closed at its start that ends there would need that row: such a lookup is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.arrow_arrays import all_true, array
from sash.columns.exact_columns import column_of
from sash.columns.keys import decode, format_key, key_column
from sash.columns.row_errors import aggregate_failure
from sash.columns.time_numbers import Watermark, beyond
from sash.engine.intake.input_checks import GivenKeys, GivenTime, record_batch
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed.key_table import KeyTable
from sash.engine.keyed.live_aggregate import LiveAggregate, ResultFailed
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.pane_assigner import CountedPanes, PaneAssigner
from sash.engine.keyed.row_assigner import RowAssigner
from sash.engine.keyed.running_assigner import RunningAssigner
from sash.engine.keyed.step_data import StepRows, WindowRanges
from sash.engine.keyed.window_assigner import ArenaAssigner, WindowAssigner
from sash.kernels.jit.numba_struct import FIRST
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.ring_loops import BACK, BEGIN, FRONT
from sash.kernels.loops.slot_loops import LAST, ROWS
from sash.plan import validation
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.time_axis import Number
from sash.windows.arguments import Length, length
from sash.windows.rules import Bound, WindowRule, later, moved
from sash.windows.specs import CLOSED, Closed

# --- Closed lookup ---


def holds_own_time(closed: str) -> bool:
    """Does a window hold the rows at the time that it ends at?"""
    return closed in ("right", "both")


def looked_up(window: WindowSpec, closed: str | None, size: Number) -> WindowRule:
    """The rule of a window with these ends (None: its own), and of this size or of a shorter calendar length."""
    own = window.closed if window.rule.in_time else "right"
    return replace(window, size=size, closed=own if closed is None else closed).rule


def require_closed(
    bound_query: BoundQuery, closed: Closed, at: GivenTime | None, reached: Watermark, watermark: Watermark
) -> None:
    """Raises ValueError for a lookup with `closed` that the state cannot answer; `reached`: `at` as a number."""
    validation.one_of("closed", closed, CLOSED)
    if reached is None:
        raise ValueError(f"lookup(closed={closed!r}) needs at=: it defines whether rows at that time count")
    for window in bound_query.windows:
        if window.slide != "row":
            raise ValueError(
                f"lookup(closed={closed!r}) is for windows that end at a row, and {window.window!r} slides: leave "
                "closed= out"
            )
        if not window.rule.in_time or window.rule.closed_start or closed in ("right", "neither"):
            continue
        if closed == "both" or (watermark is not None and reached <= watermark):
            where = "" if closed == "both" else " is at the watermark, and"
            raise ValueError(
                f"lookup(at={at!r}, closed={closed!r}){where} needs the row at the start of {window.window!r}, "
                f"which may have been evicted: give the window closed={closed!r}"
                + ("" if closed == "both" else ", or ask for a later time")
            )


def require_before(last: Numbers, at: float, closed: str, window: WindowSpec) -> None:
    """Raises ValueError if a running partial holds rows that a window at this time does not."""
    if ((last > at) | ((last == at) & (not holds_own_time(closed)))).any():
        raise ValueError(
            f"lookup(at=…, closed={closed!r}): {window.window!r} is one total of all rows, and some of them are not "
            "before that time: ask for a later time"
        )


def with_empty(bound_query: BoundQuery, pair: tuple[int, int], column: pa.Array, absent: Flags) -> pa.Array:
    """Give keys without state what a window without rows gives: the empty value of their aggregate."""
    window, aggregate = bound_query.windows[pair[0]], bound_query.aggregates[pair[1]]
    if aggregate.monoid.empty is None or window.full or not absent.any():
        return column
    return pc.if_else(pa.array(absent), aggregate.array([aggregate.monoid.empty])[0], column)


# --- Lookup ---


def key_columns(bound_query: BoundQuery, keys: GivenKeys) -> list[pa.Array]:
    """The keys of a lookup as columns.

    Raises ValueError, naming the column, if one is missing or too many, TypeError for one value in place of a column.
    """
    if type(keys).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(keys, "columns"):
        keys = record_batch(keys, None)
    if isinstance(keys, pa.RecordBatch | pa.Table):
        keys = {name: keys.column(name) for name in keys.schema.names}
    if not isinstance(keys, Mapping) or set(keys) != set(bound_query.by):
        wanted = ", ".join(map(repr, bound_query.by)) or "no column"
        raise ValueError(f"lookup() takes the columns of by=, {wanted}, each with its values; got {keys!r}")
    found = []
    for name in bound_query.by:
        kind = bound_query.schema.field(name).type
        values = keys[name]
        if values is None or np.isscalar(values):
            raise TypeError(f"lookup() takes a list or an array of values for {name!r}; got {values!r}")
        try:
            found.append(decode(column_of(name, values, decode(pa.nulls(0, kind)).type)))
        except (TypeError, ValueError) as error:
            raise type(error)(f"lookup(): {error}") from None
    if len({len(column) for column in found}) > 1:
        raise ValueError(f"lookup() takes columns of one length; got {', '.join(str(len(c)) for c in found)} values")
    return found


Pairs = dict[tuple[int, int], pa.Array]
"""Columns of results by the numbers of window and aggregate."""


class Lookup:
    """A lookup of some keys in an engine.

    `begin` processes their buffered rows in a step of the engine, if there are any; the caller undoes it
    (`has_stepped`). `waiting`: the buffered rows; `nothing`: no rows, of their columns. `reads_only`: the engine is
    used for lookups only.
    """

    def __init__(
        self,
        engine: LiveEngine,
        columns: list[pa.Array],
        waiting: TimedRows | None,
        nothing: TimedRows,
        reads_only: bool,
        closed: str | None,
    ) -> None:
        self.bound_query, self.engine, self.reads_only = engine.bound_query, engine, reads_only
        self.closed = closed
        self.rows = len(columns[0]) if columns else 1
        self.keys = [key_column(column) for column in columns]
        self.waiting, self.nothing = waiting, nothing
        self.of_rows = all(isinstance(one, RowAssigner) and not one.pending for one in engine.assigners)
        """Whether all windows are over rows, so that a lookup only advances structures."""
        self.asked = self.slots = NO_INTS
        self.has_stepped = False

    def begin(self, at: Watermark) -> None:
        """Find the keys, and process their buffered rows; keys that `forget` has expired at that time are not found."""
        known = self.engine.keys.find(self.keys, self.rows, insert=False)
        waiting = None if self.waiting is None or not len(self.waiting) else self._of_keys(self.waiting)
        if waiting is not None or not self.of_rows:
            self.has_stepped = True
            given = self.nothing if waiting is None else waiting
            if self.reads_only:  # a lookup at a later time may have advanced structures beyond these rows' windows
                mine = self.engine.keys.find(self._key_columns(given), len(given), insert=False)
                self._restart(mine.touched)
            self.engine.step(given, beside=NO_INTS if self.of_rows else known.touched)
            known = self.engine.keys.find(self.keys, self.rows, insert=False)
        self.asked, forget = known.slots, self.bound_query.forget
        if forget is not None and at is not None:
            some = np.flatnonzero(self.asked >= 0)
            last = self.engine.table["stamps"][self.asked[some], LAST]
            self.asked = self.asked.copy()
            self.asked[some[beyond(later(last, forget)) <= at]] = -1
        self.slots = np.unique(self.asked[self.asked >= 0])

    def _of_keys(self, waiting: TimedRows) -> TimedRows | None:
        """The buffered rows of these keys; None if there are none."""
        asked = KeyTable(self.engine.keys.types)
        asked.find(self.keys, self.rows)
        mine = np.flatnonzero(asked.find(self._key_columns(waiting), len(waiting), insert=False).slots >= 0)
        return waiting.take(mine) if len(mine) else None

    def _key_columns(self, rows: TimedRows) -> list[pa.Array]:
        return [key_column(rows.table.column(name)) for name in self.bound_query.by]

    def results(self, at: Watermark, last: Length | None, watermark: Watermark) -> Pairs:
        """A column for each pair of window and aggregate, in the order of the keys asked for."""
        try:
            return self._results(at, last)
        finally:
            if self._is_ahead(at, last, watermark):
                self._restart(self.slots)

    def _results(self, at: Watermark, last: Length | None) -> Pairs:
        absent = self.asked < 0
        order = array(np.searchsorted(self.slots, self.asked), ~absent)
        found: Pairs = {}
        for assigner, aggregates in self.engine.groups:
            windows = [self._window(assigner, w, at, last) for w in range(len(assigner.windows))]
            if isinstance(assigner, ArenaAssigner):
                self._reset_passed(assigner, windows)
            made: dict[int, list[pa.Array]] = {}
            for aggregate in aggregates:
                made |= self._values(aggregate, windows)
            for number, columns in made.items():
                pairs = zip(windows, columns, strict=True)
                found |= {(window.window, number): one.take(order) for window, one in pairs if one is not None}
        return {pair: with_empty(self.bound_query, pair, column, absent) for pair, column in found.items()}

    def _restart(self, slots: Ints) -> None:
        """Reset the structures of slots."""
        for assigner in self.engine.arena_assigners:
            assigner.arena.reset(slots)

    def _is_ahead(self, at: Watermark, last: Length | None, watermark: Watermark) -> bool:
        """May the lookup have advanced structures beyond the windows of rows to come?"""
        if self.reads_only or not self.of_rows:
            return False
        return (
            last is not None
            or self.closed is not None
            or self.engine.ahead is not None
            or (at is not None and (watermark is None or at > watermark))
        )

    def _reset_passed(self, assigner: ArenaAssigner, windows: list[WindowRanges]) -> None:
        """Reset structures that are beyond a window's start: they only move forward."""
        least = np.minimum.reduce([window.los for window in windows if window.los is not None])
        for follower in assigner.arena.followers:
            firsts = self.engine.table[follower.name, "ints"][self.slots, FIRST]
            ahead = self.slots[firsts > least]
            if len(ahead):
                follower.reset(ahead)

    def _values(self, aggregate: LiveAggregate, windows: list[WindowRanges]) -> dict[int, list[pa.Array]]:
        """By the number of each aggregate that is computed here: a column for each window."""
        nothing = StepRows.without_rows(self.nothing, self.engine.table)
        try:
            found = aggregate.results(windows, nothing, aggregate.no_rows)
        except ResultFailed as failed:
            key = self.engine.keys.keys(failed.window.slots[failed.place : failed.place + 1])
            where = "the lookup" + format_key(self.bound_query.by, key)
            raise aggregate_failure(self.bound_query, failed.number, failed, where) from failed.error
        aggregate.take_failed()  # they are counted where they are emitted
        return {
            view.number: [one.column for one in results] for view, results in zip(aggregate.views, found, strict=True)
        }

    # ---- which elements ----

    def _window(self, assigner: WindowAssigner, w: int, at: Watermark, last: Length | None) -> WindowRanges:
        slots = self.slots
        window = assigner.windows[w]
        size = window.size if last is None else shorter(window, self.bound_query, last)
        zeros = np.zeros(len(slots), np.int64)
        if isinstance(assigner, RunningAssigner):
            if self.closed is not None:
                assert at is not None  # `closed` needs a time
                require_before(self.engine.table["stamps"][slots, LAST], at, self.closed, window)
            self._empty_closed(assigner, slots, at)
            on = all_true(len(slots))
            return WindowRanges(assigner.places[w], slots, on, zeros, zeros, zeros, after=zeros, his=slots)
        assert isinstance(assigner, ArenaAssigner)
        los, his = self._ranges(assigner, w, at, size or 0)
        on = his - los >= int(size or 1) if window.full else np.ones(len(slots), np.bool_)
        return WindowRanges(assigner.places[w], slots, on, zeros, zeros, zeros, None, los, his)

    def _empty_closed(self, assigner: RunningAssigner, slots: Ints, at: Watermark) -> None:
        """Empty the partials of windows that have ended."""
        is_open = assigner.is_open(slots)
        if assigner.rule.gap is not None and at is not None:
            is_open &= ~assigner.has_ended(at, assigner.last(slots))
        ended = slots[~is_open]
        for aggregate in self.engine.aggregates_of(assigner):
            aggregate.empty_partials(ended)

    def _ranges(self, assigner: ArenaAssigner, w: int, at: Watermark, size: Number) -> tuple[Ints, Ints]:
        """The elements [lo, hi) of a window of each key."""
        heads, columns = assigner.arena.heads, assigner.arena.columns
        rule = looked_up(assigner.windows[w], self.closed, size)
        front, back, begin = (heads[self.slots, column] for column in (FRONT, BACK, BEGIN))
        rings = Rings(assigner, self.slots, np.maximum(front, begin), back)
        if isinstance(assigner, CountedPanes):
            stops = next_end(self.engine.table["keys"][self.slots, ROWS], rule)
            return rings.search(columns["low"], stops - rule.rows[0], True), back
        if isinstance(assigner, PaneAssigner):
            k = rule.open_slide(np.array([at], self.engine.numbers))[0]
            lo, hi = (rings.search(columns["low"], edge, True) for edge in (rule.starts(k), rule.ends(k)))
            return lo, hi
        assert isinstance(assigner, RowAssigner)
        time = columns["time"]
        if rule.in_time:
            lows, highs = rule.origins(np.full(len(self.slots), at, time.dtype))
            hi = rings.moved(time, rule.end, highs)
            lo = rings.moved(time, rule.start, lows)
            if rule.calendar_size is not None:  # the range may be shorter
                shorter_start = replace(rule, calendar_size=None).start
                lo = np.maximum(lo, rings.moved(time, shorter_start, highs))
            return np.minimum(lo, hi), hi
        stops = back if at is None else rings.search(time, at, not rule.closed_end)
        if rule.measure == "policy":
            return np.minimum(np.maximum(heads[self.slots, assigner.start_column(w)], rings.front), stops), stops
        if rule.measure == "rows":
            behind, ahead = rule.rows
            hi = np.clip(stops + ahead, rings.front, back)
            return np.clip(stops - behind, rings.front, hi), hi
        values = columns["delta", str(rule.column)]
        return np.minimum(rings.moved(values, rule.start, rings.last(values, stops)), stops), stops


class Rings:
    """The elements [front, back) of some slots in an arena."""

    def __init__(self, assigner: ArenaAssigner, slots: Ints, front: Ints, back: Ints) -> None:
        self.assigner, self.slots, self.front, self.back = assigner, slots, front, back

    def search(self, column: Numbers, start: Number | Numbers, inclusive: bool) -> Ints:
        """Binary search: by slot the first position whose value does not precede a start."""
        starts = np.broadcast_to(np.asarray(start), len(self.slots))
        low, high = self.front.copy(), self.back.copy()
        some = np.flatnonzero(low < high)
        while len(some):
            middle = (low[some] + high[some]) // 2
            values = column[self.assigner.located(self.slots[some], middle)]
            before = values < starts[some] if inclusive else values <= starts[some]
            low[some[before]] = middle[before] + 1
            high[some[~before]] = middle[~before]
            some = some[low[some] < high[some]]
        return low

    def moved(self, column: Numbers, given: Bound, at: Numbers) -> Ints:
        """By slot the first position whose value does not precede a bound at a distance from `at`."""
        found = self.search(column, moved(at, given), given[3])
        return np.where(at > given[2], self.back, found)

    def last(self, column: Numbers, stops: Ints) -> Numbers:
        """By slot the value before a position; 0 for a slot without elements."""
        found = np.zeros(len(stops), column.dtype)
        some = np.flatnonzero(stops > self.front)
        found[some] = column[self.assigner.located(self.slots[some], stops[some] - 1)]
        return found


def next_end(rows: Any, rule: WindowRule) -> Any:
    """The row after which the slide in progress ends, for a key with this number of rows."""
    return (rows // int(rule.every) + 1) * int(rule.every)


def shorter(window: WindowSpec, bound_query: BoundQuery, last: Length) -> float:
    """The size of a shorter range. Raises ValueError if the window is not one that a shorter range can be cut from."""
    if window.rule.measure == "rows" and window.slide == "row":
        if isinstance(last, bool) or not hasattr(last, "__index__") or not 1 <= int(last) <= int(window.size or 1):
            raise ValueError(f"last= of lookup() is a number of rows from 1 to {window.size}; got {last!r}")
        return int(last)
    if window.rule.in_time and window.slide == "row" and bound_query.time is not None:
        size = bound_query.time.number(length("last= of lookup()", last), "last= of lookup()")
        if not 0 < size <= (window.size or 0):
            raise ValueError(f"last= of lookup() is at most the window's size, {window.window!r}; got {last!r}")
        return size
    raise ValueError(
        f"last= of lookup() asks for a shorter range of a Time or Count window per row; got {window.window!r}"
    )
