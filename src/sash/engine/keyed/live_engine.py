"""The engine: one step takes ordered rows, updates live state, and returns the results that are due.

    rows ──▶ slots ──▶ assigner ──▶ elements, bounds of windows
                          │              │
                          │   aggregates ┴──▶ states of elements ──▶ structures in their slots ──▶ results
                          └─▶ timers set, elements evicted, slots released

A step changes state in place and keeps a journal: until `commit`, `rollback` restores the state before the step. The
journal is a copy of the rows of the slot table that the step touches and of the panes that it may extend. Elements are
only appended, and structures are rebuilt from their elements.

The journal of a step, with which the live engine undoes it.

How long the state of a key is retained after its last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.failed_rows import FailedResults
from sash.columns.keys import key_column
from sash.columns.row_errors import RowLimits
from sash.columns.time_numbers import Watermark, beyond, earliest, saturating, time_type
from sash.engine.atomic import Revertible, all_at_once, attributes
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed import step_data
from sash.engine.keyed.ahead_assigner import AheadAssigner
from sash.engine.keyed.key_table import LARGEST_IDLE, SMALLEST, FoundKeys, KeyTable
from sash.engine.keyed.live_aggregate import LiveAggregate
from sash.engine.keyed.live_group import build_groups
from sash.engine.keyed.row_assigner import RowAssigner, RowPositions
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepResult, StepRows, WindowResults
from sash.engine.keyed.timers import Timers
from sash.engine.keyed.window_assigner import ArenaAssigner, Ending, StepScope, WindowAssigner
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.ring_loops import BACK, FRONT
from sash.kernels.loops.slot_loops import DUE, LAST, ROWS, enter_rows, join_slots
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import Plan
from sash.plan.time_axis import Number
from sash.plan.types import value_type
from sash.windows.rules import bound, later

# --- Key retention ---


class KeyRetention:
    """Decides when a key expires: when no window needs it, or after `forget` without rows."""

    def __init__(self, bound_query: BoundQuery, assigners: Sequence[WindowAssigner], numbers: np.dtype[Any]) -> None:
        self.forget = bound_query.forget
        counts_rows = bound_query.time is None and not bound_query.per_row
        counts_rows |= any(window.slide == "rows" for window in bound_query.windows)
        self.until_forgotten = counts_rows or bound_query.query.emit == "changes"
        """Whether only `forget` expires a key: its rows are numbered, or its results are compared with emitted ones."""
        self.by_key = self.until_forgotten or self.forget is not None
        """Whether something besides the windows decides when a key expires."""
        self.row_reach: tuple[Number, Number, Number] | None = None
        """How long a row is needed, in the form of `saturating`; None if other windows need the key."""
        if len(assigners) == 1 and isinstance(assigners[0], RowAssigner) and bound_query.time is not None:
            size = assigners[0].key_lifetime
            if size is not None and not self.by_key:
                self.row_reach = saturating(size, numbers)

    def limit(self, last: Numbers, expiry: Numbers, expires: Flags) -> None:
        """Apply `forget` to the expiry of keys that the windows have determined.

        `last`: the times of the keys' last rows.
        """
        if self.forget is not None:
            forgotten = beyond(later(last, self.forget))
            sooner = np.where(expires, np.minimum(expiry, forgotten), forgotten)
            expiry[:], expires[:] = forgotten if self.until_forgotten else sooner, True
        elif self.until_forgotten:
            expires[:] = False


# --- Step journal ---


class SavedPanes(NamedTuple):
    """The states of slots' last panes, which a step may extend."""

    aggregate: LiveAggregate
    slots: Ints
    states: list[NDArray[Any]]


@dataclass(slots=True)
class StepJournal:
    """The saved state of the slots that a step changes."""

    slots: Ints
    saved: dict[Any, NDArray[Any]]
    fresh: Ints
    blocks: list[Ints] | None = None
    """The blocks of these slots' rings when the rollback began, by arena."""
    panes: list[SavedPanes] = field(default_factory=list)
    marks: list[tuple[Revertible, Any]] = field(default_factory=list)
    """Logs and dictionaries, each with its mark for `rollback`."""
    dense: list[LiveAggregate] = field(default_factory=list)
    """The aggregates that have seen a value in every row."""

    @staticmethod
    def open(engine: LiveEngine, slots: Ints, fresh: Ints) -> StepJournal:
        """Open the journal of a step that changes these slots; `fresh` are those of new keys."""
        found = StepJournal(slots, engine.table.save(slots), fresh)
        found.dense = [aggregate for aggregate in engine.all_aggregates if aggregate.dense]
        for assigner in engine.pane_assigners:
            heads = assigner.arena.heads
            some = slots[heads[slots, BACK] > heads[slots, FRONT]]
            places = assigner.located(some, heads[some, BACK] - 1)
            for aggregate in engine.aggregates_of(assigner):
                found.panes.append(SavedPanes(aggregate, some, [leaf[places] for leaf in aggregate.states]))
        for aggregate in engine.coded:
            found.marks += [(one, one.mark()) for one in aggregate.dictionaries.values()]
            aggregate.begin_step()
        if engine.ahead is not None:
            waiting = engine.ahead.waiting
            waiting.settle()
            found.marks.append((waiting.log, waiting.log.mark()))
        return found

    def undo(self, engine: LiveEngine) -> None:
        """Undo the step. May be interrupted, and called again."""
        if self.blocks is None:
            self.blocks = [a.arena.blocks_of(self.slots) for a in engine.arena_assigners]
        engine.retain_slots()
        for aggregate in engine.all_aggregates:
            aggregate.recode_saved(self.saved, [states for owner, _, states in self.panes if owner is aggregate])
        engine.table.restore(self.slots, self.saved)
        for assigner, block in zip(engine.arena_assigners, self.blocks, strict=True):
            assigner.arena.restore_blocks(self.slots, block)  # a ring that has moved stays where it is
            assigner.arena.reset(self.slots)
        for aggregate, slots, states in self.panes:
            assert isinstance(aggregate.assigner, ArenaAssigner)
            heads = aggregate.assigner.arena.heads
            places = aggregate.assigner.located(slots, heads[slots, BACK] - 1)
            aggregate.restore_states(places, states)
        for dictionary, mark in self.marks:
            dictionary.rollback(mark)
        if engine.ahead is not None:
            engine.ahead.waiting.undo()
        for aggregate in engine.all_aggregates:
            aggregate.rollback(dense=aggregate in self.dense)
        engine.timers.lowered(self.slots, engine.table["stamps"][self.slots, DUE])


# --- Live engine ---


class LiveEngine:
    """Executes the plan of a query on live state."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.bound_query = plan, plan.bound_query
        bound_query = self.bound_query
        self.numbers = time_type(bound_query)
        self.table = SlotTable()
        self.timers = Timers(self.table, self.numbers)
        never = self.timers.never
        self.table.add("keys", np.int64, [0])
        self.table.add("stamps", self.numbers, [0, never, never])
        self.table.add("latest", np.int64, -1, derived=True)
        self.keys = KeyTable([value_type(bound_query.schema.field(name).type) for name in bound_query.by])
        self.by = [bound_query.schema.get_field_index(name) for name in bound_query.by]
        self.keys_differ = any(pa.types.is_floating(kind) for kind in self.keys.types)
        """Whether equal keys may have different bits: -0.0 and 0.0, several NaN."""
        self.failures = FailedResults()
        self.groups = build_groups(plan, self.table, self.failures)
        self.assigners = [group.assigner for group in self.groups]
        self.all_aggregates = [aggregate for group in self.groups for aggregate in group.aggregates]
        changes = bound_query.query.emit == "changes"
        if changes:
            self.count_values()
        self.retention = KeyRetention(bound_query, self.assigners, self.numbers)
        self.limits = RowLimits(bound_query)
        self.sliding = self.limits.sliding
        of_rows = [a for a in self.assigners if isinstance(a, RowAssigner)]
        at_rows = all(bound_query.windows[place].slide == "row" for a in of_rows for place in a.places)
        in_panes = [a for a in self.assigners if a.slides_in_time]
        is_free = at_rows and len(of_rows) + len(in_panes) == len(self.assigners)
        self.ahead = next((assigner for assigner in self.assigners if isinstance(assigner, AheadAssigner)), None)
        """The assigner of windows that hold rows after their own row; None if there is none."""
        self.any_order = bound_query.forget is None and not changes and is_free and self.ahead is None
        """Whether rows of different keys may be processed in any order without a change of results."""
        self.arena_assigners = [a for a in self.assigners if isinstance(a, ArenaAssigner)]
        self.pane_assigners = [a for a in self.arena_assigners if a.elements == "panes"]
        self.coded = [aggregate for aggregate in self.all_aggregates if aggregate.dictionaries]
        self.least = earliest(self.numbers)
        gap = 1 if bound_query.forget is None else -bound_query.forget
        gap, floor, _, _ = bound(gap, self.numbers, inclusive=True)
        self.forget = -gap, floor, self.least, self.numbers.kind == "f"
        """`forget` as `restarts` takes it; its gap is -1 for never."""
        self.numbering = 0
        """Changes when slots have new numbers."""
        self.journal: StepJournal | None = None
        self._can_undo = False
        """Are the loops loaded that free the slots of a failed step?"""
        self.gone: Ints = NO_INTS
        self._is_released = True
        """Whether nothing of the last step is left to release."""
        self._released = 0
        """Keys that expired since the last compaction of dictionaries; rings that have shrunk count as all keys."""

    def aggregates_of(self, assigner: WindowAssigner) -> list[LiveAggregate]:
        """The aggregates over the elements of an assigner."""
        return self.groups[self.assigners.index(assigner)].aggregates

    # ---- one step ----

    def step(
        self,
        given: TimedRows,
        *,
        now: Watermark = None,
        closing: bool = False,
        last_key_open: bool = False,
        beside: Ints = NO_INTS,
    ) -> StepResult:
        """Process ordered rows; returns the results up to the watermark `now`.

        `now` None: rows alone make results due. `closing`: all results are due. `last_key_open`: the rows are sorted
        by key, and all keys but the last are complete. `beside`: more slots that `rollback` can restore.

        Raises the exception of a monoid, naming row and key; then `rollback` must be called.
        """
        rows, scope = self.begin(given, now, closing, last_key_open, beside)
        found: list[WindowResults] = []
        for group in self.groups:
            if group.assigner is not self.ahead:
                found += group.results(rows, group.take(rows), scope.endings, self.keys)
        if len(self.assigners) > 1:
            found.sort(key=lambda one: one.results.window)
        step = StepResult(rows, found)
        if self.ahead is not None:
            group = self.groups[self.assigners.index(self.ahead)]
            assigned, to_lift = group.take(rows)
            assert isinstance(assigned, RowPositions)
            self.ahead.wait(rows, assigned, found)
            leaving = self.ahead.leave(rows, assigned, scope, now, last_key_open)
            windows = self.ahead.ranges(leaving)
            step = leaving.step_result(rows, group.computed(windows, rows, to_lift, self.keys, leaving.columns))
        self.settle(scope, now)
        return step

    def begin(
        self,
        given: TimedRows,
        now: Watermark,
        closing: bool = False,
        last_key_open: bool = False,
        beside: Ints = NO_INTS,
    ) -> tuple[StepRows, StepScope]:
        """Begin a step: find the slots of its rows, and open the journal. Arguments are those of `step`."""
        if not self._is_released or len(self.gone):
            self.release()
        if not self._can_undo:
            for assigner in self.arena_assigners:
                assigner.arena.prepare_release()
            self._can_undo = True
        columns = [given.table.column(place) for place in self.by]
        if self.keys_differ:
            columns = [key_column(column) for column in columns]
        keys, order = self.keys.find(columns, len(given)), None
        self.grow()
        open_slots = keys.slots[-1:].copy() if last_key_open else None  # before rows are sorted by slot
        if self.any_order and len(given) >= step_data.ORDERED:
            order = step_data.slot_order(keys.slots, self.table.capacity)
            keys.reorder(order)
        scope = self._scope(keys.touched, now, closing, open_slots)
        slots = np.union1d(scope.slots, beside) if len(beside) else scope.slots
        self.journal = StepJournal.open(self, slots, keys.fresh)
        return self._step_rows(given, keys, order), scope

    def _scope(self, touched: Ints, now: Watermark, closing: bool, open_slots: Ints | None) -> StepScope:
        """The slots that a step changes: those of its rows, and those with something due.

        `open_slots`: all other keys are complete; None: keys are not sorted.
        """
        if closing:
            live = np.union1d(self.live, touched)
            return StepScope(live, [Ending(live, None)], live)
        if open_slots is not None:
            if not len(open_slots):
                return StepScope(touched, [Ending(touched, now)])
            done = np.setdiff1d(np.union1d(self.live, touched), open_slots)
            return StepScope(np.append(done, open_slots), [Ending(done, None), Ending(open_slots, now)], done)
        if now is None:
            return StepScope(touched, [Ending(touched[:0], now)])
        if now < self.timers.soonest:
            return StepScope(touched, [Ending(touched, now)])
        due = self.timers.due(now)
        if not len(due):
            slots = touched
        elif not len(touched):
            slots = due
        else:
            found = np.empty(len(touched) + len(due), np.int64)
            slots = found[: call_loop(join_slots, "", (touched, due, self.table.wide["latest"], found))]
        return StepScope(slots, [Ending(slots, now)])

    @property
    def live(self) -> Ints:
        """All slots that are in use."""
        return np.flatnonzero(self.table["keys"][:, ROWS] > 0)

    def _step_rows(self, given: TimedRows, keys: FoundKeys, order: Ints | None) -> StepRows:
        """Count the rows of each key, and find rows that restart a key that `forget` has expired."""
        count, slots = len(given), keys.slots
        ordinal, restarts = np.empty(count, np.int64), np.empty(count, np.bool_)
        previous = np.empty(count, self.numbers)
        time = np.ascontiguousarray(given.time, self.numbers)
        if order is not None:
            time = time[order]
        numbers, stamps = self.table.wide["keys"], self.table.wide["stamps"]
        arguments = (slots, time, self.forget, numbers, stamps, ordinal, restarts, previous)
        restarted, distinct = call_loop(enter_rows, self.numbers.str, arguments)
        return StepRows(
            given.table, slots, time, given.arrival, keys.touched, ordinal, restarts, restarted > 0, previous,
            self.table, distinct, order,
        )  # fmt: skip

    # ---- retention ----

    def settle(self, scope: StepScope, now: Watermark) -> None:
        """Evict elements that no window needs, set timers, and note the slots that expire."""
        slots, _, done = scope
        self._is_released = False
        reach = self.retention.row_reach
        if reach is not None:
            (rows,) = self.arena_assigners
            over = None if done is None else np.isin(slots, done)
            windows = rows.arena.ring, (rows.first, rows.first + len(rows.places))
            sparse, self.gone = self.timers.settle_rows(slots, windows, reach, now, over)
            rows.shrink_later(sparse)
            return
        if not self.sliding:
            for assigner in self.assigners:
                assigner.retain(slots)
        if self.bound_query.time is None and done is None:
            return
        count = len(slots)
        due, expiry = np.empty((2, count), self.numbers)
        is_due, expires = np.empty((2, count), np.bool_)
        due[:], expiry[:], is_due[:], expires[:] = self.timers.never, self.least, False, True
        for assigner in self.assigners:
            assigner.timers(slots, due, is_due)
            if self.sliding:
                assigner.retain(slots)
            assigner.expiry(slots, expiry, expires)
        if self.retention.by_key:
            self.retention.limit(self.table["stamps"][slots, LAST], expiry, expires)
        over = None if done is None else np.isin(slots, done)
        self.gone = self.timers.settle(slots, (due, is_due), (expiry, expires), now, over)

    # ---- all or nothing ----

    def drop_journal(self) -> None:
        """Begin a call in which nothing can be undone yet: the last one was committed or rolled back."""
        self.journal = None

    def commit(self) -> None:
        """Commit the step: drop the journal, and free memory."""
        self.drop_journal()
        self.release()
        if self.ahead is not None:
            self.ahead.compact(lambda: self.live, self.keys.count)
        if not self.coded:
            return
        shrunk = self._released > self.keys.count
        if shrunk:
            self._released = 0
        for aggregate in self.coded:
            if aggregate.due_for_compaction(shrunk):
                aggregate.compact(self.live)

    def rollback(self) -> None:
        """Undo the step that has not been committed. May be interrupted, and called again."""
        journal = self.journal
        if journal is None:
            self._free_unused()
            return
        journal.undo(self)
        self._free_unused()
        self.journal = None

    def release(self, pack: bool = False) -> None:
        """Free expired slots, and shrink arrays that are mostly unused; `pack`: those that are half unused, too."""
        moved = []
        for assigner in self.arena_assigners:
            if assigner.arena.has_retired:
                assigner.arena.reclaim()
            if len(assigner.sparse) and assigner.shrink():
                moved.append(assigner)
        self._is_released = True
        if moved:
            self._released += self.keys.count + 1
        if len(self.gone):
            self._released += len(self.gone)
            self.free(self.gone)
            self.gone = self.gone[:0]
            moved = self.arena_assigners
            smaller = self.keys.shrunk(SMALLEST if pack else LARGEST_IDLE)
            if smaller is not None:
                renumbered = self.table.renumbered(smaller.places, smaller.capacity)
                all_at_once(smaller.change, renumbered, attributes(self, numbering=self.numbering + 1))
                live = self.live
                for assigner in moved:
                    assigner.arena.renumbered()
                    assigner.arena.pack(live)
                self.timers.rebuild()
                return
        for assigner in moved:
            if assigner.arena.is_sparse or (pack and assigner.arena.is_half_free):
                assigner.arena.pack(self.live, 2 if pack else 4)
        if pack and self.ahead is not None:
            self.ahead.compact(lambda: self.live, 0, pack=True)

    def evicting(self, slots: Ints) -> partial[Any]:
        """The change after which `release` removes the keys of these slots, for `all_at_once`."""
        return attributes(self, gone=slots)

    def retain_slots(self) -> None:
        """Cancel the release of slots and the move of rings that the step has noted."""
        self.gone = NO_INTS
        for assigner in self.arena_assigners:
            assigner.shrink_later(NO_INTS)

    def _free_unused(self) -> None:
        """Free the slots of keys that a failed step has inserted."""
        self.grow()
        found = self.keys.live()
        self.free(found[self.table["keys"][found, ROWS] == 0])

    def grow(self) -> None:
        """Reserve space for all slots of the key table."""
        if self.keys.capacity > self.table.capacity:
            self.table.grow(self.keys.capacity)

    def free(self, slots: Ints) -> None:
        """Remove the keys of slots with their state. May be interrupted, and called again."""
        if not len(slots):
            return
        self.grow()
        for assigner in self.arena_assigners:
            assigner.arena.release(slots)
        self.table.clear(slots)
        self.keys.release(slots)

    def continue_key(self, slot: int, rows: int, last: Number) -> None:
        """Set how many rows a key has had, and the time of the last one."""
        self.table["keys"][slot, ROWS], self.table["stamps"][slot, LAST] = rows, last

    def copy_keys(self, slots: Ints, other: LiveEngine, theirs: Ints) -> None:
        """Copy row counts and times from the slots of another engine."""
        for name in ("keys", "stamps"):
            self.table[name][slots] = other.table[name][theirs]

    def count_values(self) -> None:
        """Start counting values in all aggregates, because loaded state has counts."""
        for aggregate in self.all_aggregates:
            aggregate.count_values()

    def write_totals(self, slots: Ints) -> None:
        """Write the numbers of values of these slots for aggregates that do not count them: those of rows."""
        for aggregate in self.all_aggregates:
            aggregate.refresh_totals(slots)

    # ---- sizes ----

    @property
    def elements(self) -> int:
        """How many elements all slots hold."""
        live = self.live
        found = len(live) * (len(self.assigners) - len(self.arena_assigners))
        for assigner in self.arena_assigners:
            heads = assigner.arena.heads
            found += int((heads[live, BACK] - heads[live, FRONT]).sum())
        return found

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        arenas = sum(assigner.arena.nbytes for assigner in self.arena_assigners)
        dictionaries = sum(aggregate.values.nbytes for aggregate in self.all_aggregates)
        waiting = 0 if self.ahead is None else self.ahead.waiting.nbytes
        return self.table.nbytes + self.keys.nbytes + arenas + dictionaries + waiting
