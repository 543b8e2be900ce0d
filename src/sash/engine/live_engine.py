"""The engine: one step. Rows whose order is settled come in, results go out, state stays alive in between.

    rows ──▶ slots ──▶ assigner ──▶ elements, bounds of windows
                          │              │
                          │   aggregates ┴──▶ states of elements ──▶ structures in their slots ──▶ results
                          └─▶ timers, elements given up, slots released

A step changes state in place, and keeps a journal of what it changes: until `commit`, `rollback` brings everything
back. A journal is a copy of the rows of the slot table that the step touches and of the panes that it may extend;
elements are only ever added, and structures are built again from their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.aggregators.by_position import sequential
from sash.aggregators.in_order import InOrder
from sash.aggregators.running import Running
from sash.engine import step_data
from sash.engine.arena import SMALL
from sash.engine.atomic import all_at_once, attributes
from sash.engine.key_table import FoundKeys as Keys
from sash.engine.key_table import KeyTable
from sash.engine.key_values import key_column
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.pane_assigner import CountedPanes, PaneAssigner
from sash.engine.reorder_buffer import TimedRows
from sash.engine.result_errors import failed_place
from sash.engine.row_assigner import RowAssigner
from sash.engine.row_errors import RoomCheck, aggregate_failure, failure
from sash.engine.running_assigner import RunningAssigner
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import StepResult, StepRows, WindowResults
from sash.engine.step_journal import StepJournal
from sash.engine.time_numbers import below, beyond, earliest, later, saturating, time_type
from sash.engine.timers import Timers
from sash.engine.window_assigner import ArenaAssigner, Ending, WindowAssigner
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints
from sash.kernels.loops.columnar import AggregateError
from sash.kernels.loops.live_kernel import call_loop
from sash.kernels.loops.live_loops import BACK, FRONT
from sash.kernels.loops.slot_loops import LAST, ROWS, distinct_slots, enter_rows, join_slots
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import FOLD, Plan
from sash.plan.types import value_type

ASSIGNERS: dict[str, Callable[[BoundQuery, Sequence[int], SlotTable, str], WindowAssigner]] = {
    "rows": RowAssigner,
    "time panes": PaneAssigner,
    "row panes": CountedPanes,
    "running": RunningAssigner,
}


class LiveEngine:
    """The plan of a query at work, its state alive."""

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
        """Whether keys may be written in several ways: -0.0 and 0.0, one NaN and another."""
        self.assigners: list[WindowAssigner] = []
        self.aggregates: list[list[LiveAggregate]] = []
        for s, series in enumerate(plan.groups):
            assigner = ASSIGNERS[series.kind](bound_query, series.windows, self.table, f"a{s}")
            self.assigners.append(assigner)
            self.aggregates.append(
                [
                    LiveAggregate(
                        group,
                        assigner,
                        [_structure(plan.choices[place, group[0].number].structure) for place in series.windows],
                        self.table,
                        f"a{s}.{group[0].number}",
                    )
                    for group in plan.states
                ]
            )
        self.all_aggregates = [aggregate for group in self.aggregates for aggregate in group]
        changes = bound_query.query.emit == "changes"
        if changes:
            self.count_values()
        numbered = bound_query.time is None and not bound_query.per_row
        self.counts_rows = numbered or any(window.slide == "rows" for window in bound_query.windows)
        """Whether a key is needed as long as it lives, because its rows are numbered."""
        self.remembers = changes
        """Whether a key is needed as long as it lives, because what was emitted of it is compared."""
        self.room = RoomCheck(bound_query)
        self.sliding = self.room.sliding
        of_rows = all(isinstance(assigner, RowAssigner) for assigner in self.assigners)
        at_rows = of_rows and all(window.slide == "row" for window in bound_query.windows)
        in_panes = all(type(assigner) is PaneAssigner for assigner in self.assigners)
        self.any_order = bound_query.forget is None and not changes and (at_rows or in_panes)
        """Whether the rows of different keys may be taken in any order, since no result tells."""
        self.arena_assigners = [a for a in self.assigners if isinstance(a, ArenaAssigner)]
        self.pane_assigners = [a for a in self.assigners if isinstance(a, PaneAssigner)]
        self.coded = [aggregate for aggregate in self.all_aggregates if aggregate.dictionaries]
        self.least = earliest(self.numbers)
        self.lasting = self._lasting()
        """If keys are needed for a time after their last row, and that is all: this time, with what saturates it."""
        self.no_forget = np.zeros(0, self.numbers), self.numbers.type(-1)
        self.numbering = 0
        """Changes when slots have new numbers."""
        self.journal: StepJournal | None = None
        self.gone: Ints = NO_INTS
        self._given_up = 0
        """Keys that have gone since dictionaries were last looked at; rings that have shrunk count as all keys."""

    def _lasting(self) -> tuple[Any, Any, Any] | None:
        plain_rows = len(self.assigners) == 1 and isinstance(self.assigners[0], RowAssigner)
        if not plain_rows or self.bound_query.time is None or self.bound_query.forget is not None:
            return None
        size = self.assigners[0].lasting  # type: ignore[attr-defined]
        return None if size is None or self.counts_rows or self.remembers else saturating(size, self.numbers)

    # ---- one step ----

    def step(
        self,
        given: TimedRows,
        *,
        now: Any = None,
        closing: bool = False,
        last_key_open: bool = False,
        beside: Ints = NO_INTS,
    ) -> StepResult:
        """Take rows whose order is settled. Results up to the watermark `now` leave.

        `now` None: rows alone make results due. `closing`: all results leave. `last_key_open`: the rows are sorted
        by key, and all keys but the last are complete. `beside`: slots that can be undone beside those of the step.

        Raises what a monoid raised, naming row and key; then `rollback` must be called.
        """
        self.release()
        columns = [given.table.column(place) for place in self.by]
        if self.keys_differ:
            columns = [key_column(column) for column in columns]
        keys = self.keys.find(columns, len(given))
        self.grow()
        order = self._in_slot_order(keys) if self.any_order and len(given) >= step_data.ORDERED else None
        open_slot = int(keys.slots[-1]) if last_key_open and len(given) else None
        slots, endings, done = self._ending(keys.touched, now, closing, open_slot, last_key_open)
        self.journal = StepJournal.open(self, np.union1d(slots, beside) if len(beside) else slots, keys.fresh)
        rows = self._enter(given, keys, order)
        found: list[WindowResults] = []
        for assigner, aggregates in zip(self.assigners, self.aggregates, strict=True):
            found += self._assigned(assigner, aggregates, rows, endings)
        if len(self.assigners) > 1:
            found.sort(key=lambda one: one.results.window)
        self._settle(slots, now, done)
        return StepResult(rows, found)

    def _ending(
        self, touched: Ints, now: Any, closing: bool, open_slot: int | None, last_key_open: bool
    ) -> tuple[Ints, list[Ending], Ints | None]:
        """The slots that the step changes, up to where their results are due, and those that are over with it."""
        if closing or last_key_open:
            live = np.union1d(self.live, touched)
            if closing:
                return live, [Ending(live, None)], live
            if open_slot is None:
                return touched, [Ending(touched, now)], None
            done = live[live != open_slot]
            last = np.array([open_slot])
            return np.append(done, last), [Ending(done, None), Ending(last, now)], done
        if now is None:
            return touched, [Ending(touched[:0], now)], None
        if now < self.timers.soonest:
            return touched, [Ending(touched, now)], None
        due = self.timers.due(now)
        if not len(due):
            slots = touched
        elif not len(touched):
            slots = due
        else:
            found = np.empty(len(touched) + len(due), np.int64)
            slots = found[: call_loop(join_slots, "", (touched, due, self.table.wide["latest"], found))]
        return slots, [Ending(slots, now)], None

    @property
    def live(self) -> Ints:
        """All slots that are in use."""
        return np.flatnonzero(self.table["keys"][:, ROWS] > 0)

    def _in_slot_order(self, keys: Keys) -> Ints:
        """Take many rows slot by slot, where no result tells: returns their order."""
        order = step_data.slot_order(keys.slots, self.table.capacity)
        keys.slots = keys.slots[order]
        call_loop(distinct_slots, "", (keys.slots, keys.touched))
        return order

    def _enter(self, given: TimedRows, keys: Keys, order: Ints | None) -> StepRows:
        count, slots = len(given), keys.slots
        ordinal, anew = np.empty(count, np.int64), np.empty(count, np.bool_)
        previous = np.empty(count, self.numbers)
        time = np.ascontiguousarray(given.time, self.numbers)
        if order is not None:
            time = time[order]
        forget = self.bound_query.forget
        oldest, gap = self.no_forget
        if forget is not None and self.numbers.kind == "i":
            oldest = below(time, forget, open_start=False).astype(self.numbers)
        elif forget is not None:
            gap = self.numbers.type(forget)
        numbers, stamps = self.table.wide["keys"], self.table.wide["stamps"]
        arguments = (slots, time, oldest, gap, numbers, stamps, ordinal, anew, previous)
        begun_anew, distinct = call_loop(enter_rows, self.numbers.str, arguments)
        return StepRows(
            given.table, slots, time, given.arrival, keys.touched, ordinal, anew, begun_anew > 0, previous, self.table,
            distinct, order,
        )  # fmt: skip

    def _assigned(
        self, assigner: WindowAssigner, aggregates: list[LiveAggregate], rows: StepRows, endings: list[Ending]
    ) -> list[WindowResults]:
        try:
            assigner.assign(rows)
        except AggregateError as failed:
            raise failure("the policy", failed, rows.format_row(failed.place)) from failed.error
        for aggregate in aggregates:
            try:
                aggregate.take(rows)
            except AggregateError as failed:
                where = rows.format_row(failed.place)
                raise aggregate_failure(self.bound_query, aggregate.failed_number, failed, where) from failed.error
        try:
            windows = assigner.results(rows, endings)
        except AggregateError as failed:
            raise failure("the policy", failed, rows.format_row(failed.place)) from failed.error
        made: list[Any] = [None] * len(self.bound_query.aggregates)
        for aggregate in aggregates:
            try:
                results = aggregate.results(windows, rows)
            except AggregateError as failed:
                where = failed_place(self.bound_query, self.keys, aggregate, failed, rows)
                raise aggregate_failure(self.bound_query, aggregate.failed_number, failed, where) from failed.error
            for view, by_window in zip(aggregate.views, results, strict=True):
                made[view.number] = by_window
        return [
            WindowResults(window, [of[w][0] for of in made], [of[w][1] for of in made], [of[w][2] for of in made])
            for w, window in enumerate(windows)
        ]

    # ---- retention ----

    def _settle(self, slots: Ints, now: Any, done: Ints | None) -> None:
        """Give up what no window needs, set timers, and note the slots that are over."""
        if self.lasting is not None:
            (rows,) = self.arena_assigners
            over = None if done is None else np.isin(slots, done)
            windows = rows.arena.heads, (rows.first, rows.first + len(rows.places), SMALL)
            rows.sparse, self.gone = self.timers.settle_rows(slots, windows, self.lasting, now, over)
            return
        if not self.sliding:
            for assigner in self.assigners:
                assigner.retain(slots)
        if self.bound_query.time is None and done is None:
            return
        count = len(slots)
        due, when = np.empty((2, count), self.numbers)
        ever, there = np.empty((2, count), np.bool_)
        due[:], when[:], ever[:], there[:] = self.timers.never, self.least, False, True
        for assigner in self.assigners:
            assigner.timers(slots, due, ever)
            if self.sliding:
                assigner.retain(slots)
            assigner.expiry(slots, when, there)
        if self.bound_query.forget is not None or self.counts_rows or self.remembers:
            self._forget(slots, when, there)
        over = None if done is None else np.isin(slots, done)
        self.gone = self.timers.settle(slots, (due, ever), (when, there), now, over)

    def _forget(self, slots: Ints, when: NDArray[Any], there: Flags) -> None:
        """Change when a key is not needed any more: `forget` may be sooner, and some are needed while they live."""
        forget, while_it_lives = self.bound_query.forget, self.counts_rows or self.remembers
        if forget is None:
            there[:] = False
            return
        forgotten = beyond(later(self.table["stamps"][slots, LAST], forget))
        when[:] = forgotten if while_it_lives else np.where(there, np.minimum(when, forgotten), forgotten)
        there[:] = True

    # ---- all or nothing ----

    def commit(self) -> None:
        """The step has succeeded: free what it has left over."""
        self.journal = None
        self.release()
        if not self.coded:
            return
        shrunk = self._given_up > self.keys.count
        if shrunk:
            self._given_up = 0
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
        """Free the slots that are over, and memory where most of it is unused; `pack`: where half of it is."""
        moved = [assigner for assigner in self.arena_assigners if assigner.shrink()]
        self._given_up += len(self.gone) + (self.keys.count + 1 if moved else 0)
        if len(self.gone):
            self.free(self.gone)
            self.gone = self.gone[:0]
            moved = self.arena_assigners
            smaller = self.keys.shrunk()
            if smaller is not None:
                renumbered = self.table.renumbered(smaller.places, smaller.capacity)
                all_at_once(smaller.change, renumbered, attributes(self, numbering=self.numbering + 1))
                live = self.live
                for assigner in moved:
                    assigner.arena.pack(live, renumbered=True)
                self.timers.rebuild()
                return
        for assigner in moved:
            if assigner.arena.is_sparse or (pack and assigner.arena.is_half_free):
                assigner.arena.pack(self.live)

    def _free_unused(self) -> None:
        """Free the slots of keys that a step has found and did not fill."""
        self.grow()
        found = self.keys.live()
        self.free(found[self.table["keys"][found, ROWS] == 0])

    def grow(self) -> None:
        """Make room for all slots that keys may have."""
        if self.keys.capacity > self.table.capacity:
            self.table.grow(self.keys.capacity)

    def free(self, slots: Ints) -> None:
        """Forget the keys of slots. May be interrupted, and called again."""
        self.grow()
        for assigner in self.arena_assigners:
            assigner.arena.release(slots)
        self.table.clear(slots)
        self.keys.release(slots)

    def count_values(self) -> None:
        """Count the values that aggregates see from now on: state comes from elsewhere, with counts of its own."""
        for aggregate in self.all_aggregates:
            aggregate.count_values()

    def write_counts(self, slots: Ints) -> None:
        """Write down how many values were seen in these slots, where that is not done row by row."""
        for aggregate in self.all_aggregates:
            if aggregate.dense:
                aggregate.write_counts(slots)

    # ---- sizes ----

    @property
    def elements(self) -> int:
        """How many elements all slots hold."""
        live = self.live
        found = 0
        for assigner in self.assigners:
            if isinstance(assigner, ArenaAssigner):
                heads = assigner.arena.heads
                found += int((heads[live, BACK] - heads[live, FRONT]).sum())
            else:
                found += len(live)
        return found

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        arenas = sum(assigner.arena.nbytes for assigner in self.arena_assigners)
        dictionaries = sum(aggregate.values.nbytes for aggregate in self.all_aggregates)
        return self.table.nbytes + self.keys.nbytes + arenas + dictionaries


def _structure(name: str) -> type[InOrder]:
    return Running if name == FOLD else sequential(name)
