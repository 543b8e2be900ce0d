"""AheadAssigner: windows that hold rows after their own row. A row waits until its windows are complete.

    rows          · · · · · · · ▼ · · · │
    Count(5, shift=2)       └─────────┘ │      the row ▼ has its result when two more rows have come
    Time(4, shift=3)              └──────┴─    this one waits for the watermark

A row becomes an element when the watermark passes it. Rows that wait are the last elements of a slot, so they leave in
order. `WaitingRows` has their columns, and the results of windows that do not look ahead.

Rows that wait for later rows, with the results that are known already.

    ring     e0  e1  e2  e3  e4          elements of a slot
                     ▲                   the first row that waits
    codes    -1  -1  7   9   12   ──▶  log of rows: their columns, and the results of windows that do not look ahead

A code is a place in the log; -1: the row has left. The log is compacted when most of its rows have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.arrow_arrays import all_true, array
from sash.columns.batch_columns import BatchColumns
from sash.columns.input_encoding import numbers
from sash.columns.keys import decoded_schema
from sash.columns.lowered_results import NOT_ASKED, CountedColumn
from sash.columns.time_numbers import Watermark, beyond, latest
from sash.engine.atomic import all_at_once, attributes, items
from sash.engine.keyed.arena import Arena, RingRanges
from sash.engine.keyed.chunk_log import RowLog
from sash.engine.keyed.row_assigner import PlacedAt, RowAssigner, RowPositions
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepResult, StepRows, WindowRanges, WindowResults
from sash.engine.keyed.value_encoder import is_wasteful
from sash.engine.keyed.window_assigner import StepScope, lower_due
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.ring_loops import BACK, BEGIN
from sash.kernels.loops.timer_loops import ask_rows, retain
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number
from sash.windows.rules import later, moved

# --- Waiting rows ---

CODE = "row"
"""The column of the arena with the codes."""

WAITS = "waits"


class WaitingRows:
    """The rows of an arena's elements that wait; `early`: the windows whose results are known already."""

    columns: ClassVar[Sequence[str]] = (CODE,)

    def __init__(self, bound_query: BoundQuery, early: Sequence[int], arena: Arena) -> None:
        self.arena, self.early = arena, early
        asked = bound_query.projection.asked
        self.asked = {w: [p for p in range(len(bound_query.aggregates)) if (w, p) in asked] for w in early}
        """By early window: the aggregates that are computed over it."""
        self.aggregates = len(bound_query.aggregates)
        self.schema = decoded_schema(bound_query.schema)
        fields = {f"c{i}": field.type for i, field in enumerate(self.schema)} | {"arrival": pa.int64()}
        for w in early:
            for p in self.asked[w]:
                aggregate = bound_query.aggregates[p]
                fields |= {f"r{w}.{p}": aggregate.result, f"l{w}.{p}": pa.int64(), f"h{w}.{p}": pa.int64()}
        self.log = RowLog(pa.schema(fields))
        arena.add(CODE, np.int64)
        self._left: tuple[Ints, Ints] | None = None
        """Places and codes of the rows that have left in this step."""
        self._compact_above = 0

    # ---- a step ----

    def put(self, rows: StepRows, early: Sequence[WindowResults], places: Ints) -> None:
        """Add rows that wait, at these places, with the results of the early windows in their order."""
        if not len(places):
            return
        arrays = [*rows.table.columns, array(rows.arrival)]
        for found in early:
            on = found.results.on
            for p in self.asked[found.results.window]:
                column, low, high = found.cells[p]
                # the counts of a window that has no result yet are stored as complements
                arrays += [
                    column,
                    array(np.where(on, low, ~low)),
                    array(np.ascontiguousarray(high, np.int64)),
                ]
        self.arena.columns[CODE][places] = self.log.append(pa.RecordBatch.from_arrays(arrays, schema=self.log.schema))

    def leave(self, places: Ints) -> pa.RecordBatch:
        """Remove the rows at these places, and return them."""
        codes = self.arena.columns[CODE][places]
        found = self.log.take(codes)
        self._left = places, codes
        self.arena.columns[CODE][places] = -1
        return found

    def table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of rows that have left."""
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.schema)], schema=self.schema)

    def arrival(self, batch: pa.RecordBatch) -> Ints:
        """The arrival numbers of rows that have left."""
        return numbers(batch.column(len(self.schema)))

    def early_results(
        self, batch: pa.RecordBatch, slots: Ints, time: Numbers, restarted: Ints | None
    ) -> list[WindowResults]:
        """The results of early windows of rows that leave."""
        found, at = [], len(self.schema) + 1
        for w in self.early:
            asked = self.asked[w]
            parts = batch.columns[at : at + 3 * len(asked)]
            at += 3 * len(asked)
            first = numbers(parts[1]) if parts else NO_INTS
            on = first >= 0 if parts else all_true(len(slots))
            cells = [NOT_ASKED] * self.aggregates
            for i, p in enumerate(asked):
                low = numbers(parts[3 * i + 1])
                cells[p] = CountedColumn(parts[3 * i], np.where(on, low, ~low), numbers(parts[3 * i + 2]))
            ranges = WindowRanges(w, slots, on, time, time, slots, restarted=restarted)
            found.append(WindowResults(ranges, cells))
        return found

    def undo(self) -> None:
        """Restore the rows that have left in this step. May be called again."""
        if self._left is not None:
            places, codes = self._left
            self.arena.columns[CODE][places] = codes

    def settle(self) -> None:
        """Discard the undo information of the last step."""
        self._left = None

    def is_due_for_compaction(self, slots: int) -> bool:
        """Whether the log has grown so much that a scan of all slots pays off."""
        return len(self.log) > max(self._compact_above, slots)

    def compact(self, live: Ints, asked: Ints) -> None:
        """Drop rows from the log that have left, if most have; `asked`: the first position that waits of each slot."""
        places = RingRanges(self.arena, live, asked, self.arena.heads[live, BACK]).places
        self._compact_above = 4 * len(places)
        if is_wasteful(len(self.log), len(places)):
            log = RowLog(self.log.schema)
            codes = log.append(self.log.take(self.arena.columns[CODE][places]))
            all_at_once(items(self.arena.columns[CODE], places, codes), attributes(self, log=log))

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return self.log.nbytes

    # ---- state at rest ----

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which rows are stored with their elements."""
        return {WAITS: pa.bool_()} | {field.name: field.type for field in self.log.schema}

    def store(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> list[pa.Array]:
        """The rows of the elements that `take` selects; nulls for those that have left."""
        codes = take(self.arena.columns[CODE])
        waits = codes >= 0
        found = self.log.take(codes[waits])
        at = array(np.cumsum(waits) - 1, waits)
        return [array(waits), *(column.take(at) for column in found.columns)]

    def check(self, batch: pa.RecordBatch, waiting: Flags) -> None:
        """Raises ValueError unless a batch of elements has the rows of those that wait."""
        rows = batch.filter(array(waiting))
        if not rows.column(WAITS).fill_null(False).to_numpy(zero_copy_only=False).all():
            raise ValueError("rows that wait for later rows are missing")
        counts = [field.name for field in self.log.schema if field.name[0] in "lh" or field.name == "arrival"]
        if any(rows.column(name).null_count for name in counts):
            raise ValueError("it has rows that wait without their counts")

    def load(self, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Load stored rows into the places of their elements."""
        waits = columns[0].fill_null(False)
        batch = pa.RecordBatch.from_arrays(list(columns[1:]), schema=self.log.schema).filter(waits)
        codes = np.full(len(places), -1)
        codes[numbers(waits).astype(np.bool_)] = self.log.append(batch)
        self.arena.columns[CODE][places] = codes


# --- Ahead assigner ---


class LeavingRows(NamedTuple):
    """The rows that leave in a step, because their windows are complete."""

    placed: PlacedAt
    restarted: Ints | None
    """How often the key of each row had restarted in this step; None: no key has."""
    columns: BatchColumns
    early: list[WindowResults]
    """Their results of the windows that do not look ahead."""
    order: Ints | None
    """The order in which they leave; None: unchanged."""

    def step_result(self, rows: StepRows, found: list[WindowResults]) -> StepResult:
        """The output of a step: the rows that leave, in their order, with the results of all windows.

        `rows`: those of the step; `found`: the results of the windows that look ahead.
        """
        found = sorted([*found, *self.early], key=lambda one: one.results.window)
        if self.order is None:
            return StepResult(rows, found, self.columns.table)
        order = array(self.order)
        return StepResult(rows, [_taken(one, self.order, order) for one in found], self.columns.table.take(order))


class AheadAssigner(RowAssigner):
    """Windows over single rows that end after their row.

    In a step, `assign` makes rows elements, `wait` keeps them with their early results, `leave` returns the rows whose
    windows are complete, and `ranges` returns these windows.
    """

    cursors: ClassVar[int] = 2

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        super().__init__(bound_query, places, table, name)
        self.asked = self.first + len(places)
        """The column of a head with the first position that waits."""
        self.restart_column = self.asked + 1
        """The column of a head with the position at which the key of the waiting rows last restarted."""
        rules = [window.rule for window in self.windows]
        self.rows_ahead = max((rule.rows[1] for rule in rules if rule.measure == "rows"), default=0)
        self.ends = [rule.end for rule in rules if rule.in_time]
        distances, _, ceilings, inclusive = zip(*self.ends, strict=True) if self.ends else ((), (), (), ())
        self.rules = np.array(distances, self.numbers), np.array(ceilings, self.numbers), np.array(inclusive, np.bool_)
        self.reach = None if self.reach is None else max(self.reach, 0)
        self.forget = bound_query.forget
        early = [w for w in range(len(bound_query.windows)) if w not in places]
        self.waiting = WaitingRows(bound_query, early, self.arena)

    # ---- a step ----

    def wait(self, rows: StepRows, assigned: RowPositions, early: Sequence[WindowResults]) -> None:
        """Let rows wait; `early`: their results of the windows that do not look ahead."""
        self.waiting.put(rows, early, assigned.places)

    def leave(
        self, rows: StepRows, assigned: RowPositions, scope: StepScope, now: Watermark, by_arrival: bool
    ) -> LeavingRows:
        """Remove the rows whose windows are complete at a watermark from those that wait, and return them.

        `by_arrival`: rows leave in the order of arrival, which is that of keys and times; else in order of time.
        """
        slots, _, done = scope
        ring, starts, stops = self.arena.ring, np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        at = np.zeros(0, self.numbers) if now is None else np.array([now], self.numbers)
        arguments = (slots, self._over(slots, now, done), at, self.rules, self.rows_ahead, ring, self.asked)
        call_loop(ask_rows, self.kind, (*arguments, self.arena.columns["time"], starts, stops))
        ranges = RingRanges(self.arena, slots, starts, stops)
        of, pos, places = slots[ranges.entry], ranges.positions, ranges.places
        begin, ends, restarted = self._between_restarts(rows, assigned, of, pos)
        ring[0][slots, self.restart_column] = ring[0][slots, BEGIN]
        placed = PlacedAt(of, pos, self.arena.columns["time"][places], begin, ends)
        batch = self.waiting.leave(places)
        early = self.waiting.early_results(batch, placed.slots, placed.time, restarted)
        key = self.waiting.arrival(batch) if by_arrival else placed.time
        order = None if (key[1:] >= key[:-1]).all() else np.lexsort((placed.pos, key))
        return LeavingRows(placed, restarted, BatchColumns(self.waiting.table(batch)), early, order)

    def ranges(self, leaving: LeavingRows) -> list[WindowRanges]:
        """The windows of rows that leave."""
        return [self._ranges(w, leaving.placed, leaving.restarted) for w in range(len(self.windows))]

    def _over(self, slots: Ints, now: Watermark, done: Ints | None) -> Flags:
        """The slots in which no waiting row's window can get another row."""
        if done is not None:
            over: Flags = np.isin(slots, done)
        elif self.forget is not None and now is not None:
            over = beyond(later(self.last(slots), self.forget)) <= now
        else:
            over = np.zeros(len(slots), np.bool_)
        return over

    def _ranges(self, w: int, placed: PlacedAt, restarted: Ints | None) -> WindowRanges:
        rule = self.windows[w].rule
        los, his = self.shifted_ranges(w, placed)
        on = his - los >= rule.full if rule.full else all_true(len(los))
        slots, time = placed.slots, placed.time
        return WindowRanges(
            self.places[w],
            slots,
            on,
            time,
            time,
            placed.pos,
            None,
            los,
            his,
            restarted=restarted,
            all_on=not rule.full,
        )

    def _between_restarts(
        self, rows: StepRows, assigned: RowPositions, slots: Ints, pos: Ints
    ) -> tuple[Ints, Ints, Ints | None]:
        """By row: the elements [begin, end) between restarts of its key, and the number of restarts in this step."""
        heads = self.arena.heads
        if not rows.has_restarts:
            return heads[slots, BEGIN], heads[slots, BACK], None
        first, at = rows.slots[rows.restarts], assigned.pos[rows.restarts]
        count, total = len(first), len(first) + len(slots)
        asks = np.arange(total) >= count
        order = np.lexsort((asks, np.append(at, pos), np.append(first, slots)))
        of, where, asks, index = (
            np.append(first, slots)[order],
            np.append(at, pos)[order],
            asks[order],
            np.arange(total),
        )
        before = np.maximum.accumulate(np.where(asks, -1, index))
        known = (before >= 0) & (of[before] == of)
        begin = np.where(known, where[before], heads[of, self.restart_column])
        next_restart = np.minimum.accumulate(np.where(asks, total, index)[::-1])[::-1]
        following = np.minimum(next_restart, total - 1)
        end = np.where((next_restart < total) & (of[following] == of), where[following], heads[of, BACK])
        restarts = np.cumsum(~asks)
        of_slot = np.maximum.accumulate(np.where(np.append(True, of[1:] != of[:-1]), index, 0)) if total else index
        restarted: Ints = restarts - (restarts - ~asks)[of_slot]
        found = np.empty((3, len(slots)), np.int64)
        found[:, order[asks] - count] = begin[asks], end[asks], restarted[asks]
        return found[0], found[1], found[2]

    def compact(self, live: Callable[[], Ints], slots: int, pack: bool = False) -> None:
        """Free the memory of rows that have left, if they are many, between steps; `live` returns all slots in use."""
        self.waiting.settle()
        if pack or self.waiting.is_due_for_compaction(slots):
            of = live()
            self.waiting.compact(of, self.arena.heads[of, self.asked])

    # ---- retention ----

    def timers(self, slots: Ints, due: Numbers, is_due: Flags) -> None:
        heads = self.arena.heads
        slots_at = np.flatnonzero(heads[slots, self.asked] < heads[slots, BACK])
        of = slots[slots_at]
        asked = heads[of, self.asked]
        end, waits = np.full(len(of), self.numbers.type(latest(self.numbers))), np.zeros(len(of), np.bool_)
        if self.ends:
            time = self.arena.columns["time"][self.located(of, asked)]
            passed = [moved(time, end) if end[3] else beyond(moved(time, end)) for end in self.ends]
            end = np.maximum.reduce(passed).astype(self.numbers)
            waits = asked + self.rows_ahead < heads[of, BACK]
        if self.forget is not None:
            forgotten = beyond(later(self.last(of), self.forget)).astype(self.numbers)
            end, waits = np.where(waits, np.minimum(end, forgotten), forgotten), all_true(len(of))
        some, flags = due[slots_at], is_due[slots_at]
        lower_due(some, flags, waits, end)
        due[slots_at], is_due[slots_at] = some, flags

    def retain(self, slots: Ints) -> None:
        sparse = np.empty(len(slots), np.int64)
        windows = self.first, self.asked + 1
        count = call_loop(retain, "", (slots, self.arena.ring, *windows, sparse))
        self.sparse = sparse[:count]

    @property
    def key_lifetime(self) -> Number | None:
        return None

    def expiry(self, slots: Ints, expiry: Numbers, expires: Flags) -> None:
        super().expiry(slots, expiry, expires)
        heads = self.arena.heads
        expires[heads[slots, self.asked] < heads[slots, BACK]] = False


def _taken(one: WindowResults, order: Ints, places: pa.Array) -> WindowResults:
    """Results in another order; aggregates that are not asked for have none."""
    ranges, restarted = one.results, one.results.restarted
    moved = replace(
        ranges,
        slots=ranges.slots[order],
        on=ranges.on[order],
        restarted=None if restarted is None else restarted[order],
    )
    cells = [
        CountedColumn(
            None if column is None else column.take(places),
            low[order] if len(low) else low,
            high[order] if len(high) else high,
        )
        for column, low, high in one.cells
    ]
    return WindowResults(moved, cells)
