"""AheadAssigner: windows that hold rows after their own row. A row waits until its windows are complete.

    rows          · · · · · · · ▼ · · · │
    Count(5, shift=2)       └─────────┘ │      the row ▼ has its result when two more rows have come
    Time(4, shift=3)              └──────┴─    this one waits for the watermark

A row becomes an element when the watermark passes it. Rows that wait are the last elements of a slot, so they leave in
order. `WaitingRows` has their columns, and the results of windows that do not look ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from sash.engine.arena import SMALL, RingRanges
from sash.engine.arrow_arrays import all_true, array
from sash.engine.batch_columns import BatchColumns
from sash.engine.row_assigner import RowAssigner, RowPositions
from sash.engine.shifted_windows import PlacedAt
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import StepResult, StepRows, WindowRanges, WindowResults
from sash.engine.time_numbers import LIMIT, MOST_ROWS, Watermark, beyond, later
from sash.engine.waiting_rows import WaitingRows
from sash.engine.window_assigner import StepScope, lower_due
from sash.kernels.loops.ahead_loops import ask_rows
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.kernels.loops.live_loops import BACK, BEGIN
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.timer_loops import retain
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number


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
        self.rows_ahead = int(min(max((w.shift for w in self.windows if w.kind == "count"), default=0), MOST_ROWS))
        timed = [window for window in self.windows if window.kind == "time"]
        self.shifts = np.array([window.shift for window in timed], self.numbers)
        ceilings = [LIMIT - int(w.shift) if self.numbers.kind == "i" else np.inf for w in timed]
        closed = np.array([window.closed in ("right", "both") for window in timed], np.bool_)
        self.rules = self.shifts, np.array(ceilings, self.numbers), closed
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
        heads, starts, stops = self.arena.heads, np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        at = np.zeros(0, self.numbers) if now is None else np.array([now], self.numbers)
        arguments = (slots, self._over(slots, now, done), at, self.rules, self.rows_ahead, heads, self.asked)
        call_loop(ask_rows, self.kind, (*arguments, self.arena.columns["time"], starts, stops))
        ranges = RingRanges(self.arena, slots, starts, stops)
        of, pos, places = slots[ranges.entry], ranges.positions, ranges.places
        begin, ends, restarted = self._between_restarts(rows, assigned, of, pos)
        heads[slots, self.restart_column] = heads[slots, BEGIN]
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
        window = self.windows[w]
        los, his = self.shifted[w].ranges(placed)
        on = his - los >= int(window.size or 1) if window.full else all_true(len(los))
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
            all_on=not window.full,
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
        end, waits = np.full(len(of), self.numbers.type(LIMIT)), np.zeros(len(of), np.bool_)
        if len(self.shifts):
            time = self.arena.columns["time"][self.located(of, asked)]
            ends = [later(time, shift.item()) for shift in self.shifts]
            passed = [beyond(one) if closed else one for one, closed in zip(ends, self.rules[2], strict=True)]
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
        count = call_loop(retain, "", (slots, self.arena.heads, *windows, SMALL, sparse))
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
    columns = [None if column is None else column.take(places) for column in one.columns]
    low, high = ([counts[order] if len(counts) else counts for counts in some] for some in (one.low, one.high))
    return WindowResults(moved, columns, low, high)
