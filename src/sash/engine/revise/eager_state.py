"""The state of all slots for emit="eager": keys, rows, aggregates, and the starts of sessions and lifetimes.

Timers of a query with emit="eager": when keys expire, and when rows can be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sash.columns.failed_rows import FailedResults
from sash.columns.keys import decoded_schema
from sash.columns.time_numbers import Watermark, beyond, earliest
from sash.engine.atomic import Revertible
from sash.engine.keyed.key_table import KeyTable
from sash.engine.keyed.timers import BlockTimers
from sash.engine.revise.eager_aggregate import (
    NO_FOLDS,
    EagerAggregate,
    Folds,
    LabelRanges,
    RangeResults,
    TreeWork,
    subset,
)
from sash.engine.revise.eager_change import EagerJournal, RowChanges
from sash.engine.revise.eager_rows import NewRows, OrderedRows
from sash.engine.revise.eager_rules import WindowTables
from sash.kernels.jit.compile import is_switched_off
from sash.kernels.loops import eager_loops as eager_order
from sash.kernels.loops import eager_windows
from sash.kernels.loops.array_types import Flags, Ints, Numbers, States, longer
from sash.kernels.loops.bound_kernel import AggregateError
from sash.kernels.loops.eager_loops import DONE
from sash.kernels.loops.eager_trees import ASKING
from sash.kernels.loops.eager_windows import BASE, COUNT, END_AT, RANGE, SOME, START_AT
from sash.plan.bound_query import BoundQuery
from sash.windows.rules import later

# --- Eager state ---


class EagerState:
    """Keys, rows and aggregates of a query; a journal records every change until it is committed."""

    def __init__(self, bound_query: BoundQuery) -> None:
        self.bound_query = bound_query
        self.rules = WindowTables(bound_query)
        self.numbers = self.rules.numbers
        self.plain = decoded_schema(bound_query.schema)
        self.keys = KeyTable([self.plain.field(name).type for name in bound_query.by])
        self.rows = OrderedRows(bound_query, self.rules, self.plain)
        tolerant = bound_query.query.options.failed == "side"
        self.aggregates = [EagerAggregate(spec, self.rules.anchors, tolerant) for spec in bound_query.aggregates]
        self.failures = FailedResults()
        """The emitted results of this call that have failed."""
        self.rows.add_followers(*self.aggregates)
        self.asked = [bound_query.projection.windows_of(number) for number in range(len(self.aggregates))]
        """By aggregate: the windows over which it is asked for."""
        self.asks_all = all(len(windows) == len(bound_query.windows) for windows in self.asked)
        self.alive = np.zeros(0, np.bool_)
        self.last = np.zeros(0, self.numbers)
        self.timers = BlockTimers(self.numbers)
        self.anchored = np.zeros((0, self.rules.anchors), np.bool_)
        """By slot and window with a base: whether the first row continues a session or lifetime of dropped rows."""
        self.begins = np.zeros((0, self.rules.anchors), self.numbers)
        """When that session or lifetime started."""
        self.journal: EagerJournal | None = None
        self._can_undo = False
        """Is the loop loaded that undoes a change of rows?"""

    # ---- capacity ----

    def reserve(self, slots: Ints, more: Ints) -> None:
        """Reserve space for keys and rows."""
        capacity = self.keys.capacity
        if capacity > len(self.alive):
            before = len(self.alive)
            for name in ("last", "anchored", "begins"):
                setattr(self, name, longer(getattr(self, name), capacity))
            self.last[before:] = earliest(self.numbers)
            self.timers.grow(capacity)
            self.alive = longer(self.alive, capacity)
        self.rows.reserve(capacity, slots, more, self._move)

    def _move(self, slots: Ints) -> None:
        """Reset the compiled trees of slots whose blocks move: their pools are lost."""
        for aggregate in self.aggregates:
            if aggregate.kernel.compiled:
                aggregate.trees.reset(slots)

    def reset_trees(self, slots: Ints) -> None:
        """Mark all trees of slots to be rebuilt."""
        for aggregate in self.aggregates:
            aggregate.trees.reset(slots)

    def load_keys(self, slots: Ints, last: Numbers) -> None:
        """Load keys with the times of their last rows."""
        self.last[slots], self.alive[slots] = last, True

    def load_anchors(self, a: int, slots: Ints, anchored: Flags, begins: Numbers) -> None:
        """Load where the sessions or lifetimes of a window with a base started."""
        self.anchored[slots, a], self.begins[slots, a] = anchored, begins

    def touch(self, slots: Ints, new: NewRows) -> None:
        """Record that keys, in these sorted slots, have new rows or lose some."""
        self.alive[slots] = True
        if len(new):
            # the last new row of each slot; of another slot where it has none
            newest = slice(-1, None) if len(slots) == 1 else new.slots.searchsorted(slots, side="right") - 1
            last = new.slots[newest]
            self.last[last] = np.maximum(self.last[last], new.time[newest])

    # ---- trees ----

    def missing(self, aggregate: EagerAggregate, slots: Ints) -> TreeWork:
        """The work to rebuild the missing trees of slots from their rows."""
        found = aggregate.trees.missing(slots)
        if not len(found):
            return TreeWork()
        counts = self.rows.heads[found, COUNT]
        return TreeWork(emptied=found, built=(np.repeat(found, counts), self.rows.first_rids(found, counts)))

    def update_trees(self, works: Sequence[TreeWork], ranges: LabelRanges | None) -> list[RangeResults]:
        """Update each aggregate's trees, and answer ranges. Raises AggregateRaised."""
        found = []
        for p, (aggregate, work) in enumerate(zip(self.aggregates, works, strict=True)):
            asked = None if ranges is None or ranges.windows is None else np.isin(ranges.windows, self.asked[p])
            places = None if asked is None or asked.all() else np.flatnonzero(asked)
            some = ranges if ranges is None or places is None else ranges.subset(places)
            try:
                answers = aggregate.update_trees(work, self.rows.heads, self.rows.labels, some)
            except AggregateError as failed:
                if failed.phase == ASKING and places is not None:
                    failed = AggregateError(int(places[failed.place]), failed.error, failed.phase)
                raise AggregateRaised(p, failed) from failed.error
            found.append(answers if places is None else answers.spread(aggregate.kernel, places, len(ranges or ())))
        return found

    # ---- windows ----

    def row_ranges(self, place: int, slots: Ints, index: Ints) -> Ints:
        """The ranges of one window that end at rows."""
        out, rows = np.empty((len(slots), RANGE), np.int64), self.rows
        given = (rows.heads, rows.lists, self.rules.tables, self.anchored, (out, 0))
        rows.run(eager_windows.row_ranges, slots, index, len(slots), (place, place + 1), *given)
        return out

    def slide_ranges(self, place: int, slots: Ints, starts: Numbers, ends: Numbers) -> Ints:
        """The ranges of one window that slides in time."""
        out, rows = np.empty((len(slots), RANGE), np.int64), self.rows
        bounds = np.ascontiguousarray(starts, self.numbers), np.ascontiguousarray(ends, self.numbers)
        given = (rows.heads, rows.lists, self.rules.tables, place, self.anchored, out)
        rows.run(eager_windows.slide_ranges, slots, bounds, *given)
        return out

    def starts(self, place: int, slots: Ints, ranges: Ints) -> Numbers:
        """The starts of windows that start at their first row."""
        own = self.rules.windows[place]
        found = self.rows.time_at(slots, np.where(ranges[:, SOME] > 0, ranges[:, START_AT], 0))
        if own.anchor >= 0:
            found = np.where(ranges[:, BASE] >= 0, self.begins[slots, own.anchor], found)
        return found

    def newest(self, slots: Ints, ranges: Ints) -> Numbers:
        """The times of the last rows of windows."""
        return self.rows.time_at(slots, np.maximum(ranges[:, END_AT] - 1, 0))

    # ---- all or nothing ----

    def begin(self, fresh: Ints, arrived: int) -> EagerJournal:
        """Open the journal of a call, in which these keys are new; `arrived`: the arrival number of its first row."""
        rows = self.rows
        logs: list[Revertible] = [one for aggregate in self.aggregates for one in aggregate.dictionaries.values()]
        logs += [rows.columns.log, *rows.ties.labels.values()]
        marks = [(log, log.mark()) for log in logs]
        self.journal = EagerJournal(fresh, arrived, rows.mark(), marks)
        return self.journal

    def enter(self, change: RowChanges, slots: Ints) -> None:
        """Add a change of rows to the journal before it is made."""
        self.save(slots)
        assert self.journal is not None
        if is_switched_off():
            for slot in slots.tolist():
                self.journal.copy_order(slot, *self.rows.order_of(slot))
        elif not self._can_undo:
            self.rows.prepare(eager_order.undo_change, *self._undo_arguments(change))
            self._can_undo = True
        self.journal.enter(change)

    def _undo(self, journal: EagerJournal) -> None:
        """Undo a change of rows, after the heads have been restored."""
        rows, change = self.rows, journal.change
        if change is None or not change.done[0]:
            return
        if journal.copies:
            for slot, time, rids in journal.copies:
                rows.restore_order(slot, time, rids)
        elif change.done[0] == DONE:
            rows.run(eager_order.undo_change, *self._undo_arguments(change))

    def _undo_arguments(self, change: RowChanges) -> tuple[Any, ...]:
        rows, removed = self.rows, change.removed
        fresh = (change.new.slots, change.reached())
        gone = (removed.slots, removed.index, removed.time, removed.rids)
        return fresh, gone, rows.heads, rows.lists, self.rules.gaps, change.done

    def save(self, slots: Ints) -> None:
        """Save the scalars of slots in the journal, after `reserve`; slots saved before keep their first version."""
        journal = self.journal
        assert journal is not None
        if journal.saved:
            slots = np.setdiff1d(slots, journal.slots)
        arrays = self.rows.heads, self.alive, self.last, self.timers.times, self.anchored, self.begins
        if len(slots) == 1:  # slices take a seventh of the time
            at = slots.item(0)
            saved = [part[at : at + 1].copy() for part in arrays]
        else:
            saved = [part[slots] for part in arrays]
        bases: list[States] = []
        if self.rules.anchors:
            places = (slots[:, None] * self.rules.anchors + np.arange(self.rules.anchors)).reshape(-1)
            trees = [one.trees for one in self.aggregates]
            bases = [(places, *subset(one.bases, places), one.base_non_null[places]) for one in trees]
        journal.save(slots, saved, bases)

    def rollback(self) -> None:
        """Undo the call that has not been committed; may be interrupted, and called again."""
        journal = self.journal
        if journal is None:
            return
        rows = self.rows
        if journal.saved:
            slots = journal.slots
            head, alive, last, due, anchored, begins = journal.saved
            rows.restore_heads(slots, head)
            self.alive[slots], self.last[slots] = alive, last
            self.anchored[slots], self.begins[slots] = anchored, begins
            self.timers.set(slots, due)
            for aggregate, (at, *states, non_null) in zip(self.aggregates, journal.bases, strict=False):
                aggregate.trees.restore_bases(at, tuple(states), non_null)
            self._undo(journal)
            self.reset_trees(slots)
        for rids, revisions in journal.revised:
            rows.set_revisions(rids, revisions)
        rows.rollback(journal.numbers)
        for log, mark in journal.marks:
            log.rollback(mark)
        self.keys.release(journal.fresh)
        self.journal = None

    def commit(self) -> None:
        """Commit the call: free dropped rows and expired keys."""
        journal, self.journal = self.journal, None
        if journal is None:
            return
        for rids in journal.dropped:
            self.rows.release(rids)
        if len(journal.gone):
            self.release(journal.gone)

    def release(self, slots: Ints) -> None:
        """Remove keys with all their state."""
        self.rows.clear(slots)
        self.alive[slots], self.anchored[slots] = False, False
        self.timers.clear(slots)
        self.last[slots] = earliest(self.numbers)
        self.reset_trees(slots)
        for a in range(self.rules.anchors):
            for aggregate in self.aggregates:
                aggregate.trees.set_presence(slots * self.rules.anchors + a, False)
        self.keys.release(slots)

    def release_unused(self) -> None:
        """Remove keys without state: a call may fail when it has found its keys, and before its journal is open."""
        live = self.keys.live()
        used = np.zeros(len(live), np.bool_)
        known = live < len(self.alive)
        used[known] = self.alive[live[known]]
        self.keys.release(live[~used])

    # ---- retention ----

    def ensure_timers(self, slots: Ints) -> None:
        """Set a timer for slots that have none: when their newest row is settled."""
        idle = slots[self.timers.times[slots] == self.timers.never]
        if len(idle):
            self.timers.set(idle, beyond(self.last[idle]))

    def needed(self, slots: Ints, now: Watermark) -> tuple[Ints, Ints]:
        """By slot: how many rows are settled at a watermark, and the first row that a window may still hold."""
        rows = self.rows
        settled, first = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        limit = self.numbers.type(now).item()
        arguments = (slots, limit, rows.heads, rows.lists, self.rules.tables, settled, first)
        rows.run(eager_order.settled_rows, *arguments)
        return settled, first

    def shorten(self, slots: Ints, counts: Ints) -> None:
        """Drop the first rows of slots, after folding them into the bases of windows that start before the others."""
        assert self.journal is not None
        rows = self.rows
        upto = rows.labels[rows.at(slots, counts - 1)]
        folds: list[Folds] = []
        changed = []
        for own in self.rules.anchored:
            begin = np.empty(len(slots), np.int64)
            rows.run(eager_order.begins_at, slots, counts, rows.heads, rows.lists, own.gap, begin)
            goes_on = (begin == 0) & self.anchored[slots, own.anchor]
            folded = np.flatnonzero(begin < counts)
            first = rows.at(slots[folded], begin[folded])
            base = slots * self.rules.anchors + own.anchor
            folds.append(Folds(slots[folded], rows.labels[first], upto[folded], base[folded], goes_on[folded]))
            started = np.where(goes_on, self.begins[slots, own.anchor], rows.time_at(slots, np.minimum(begin, counts)))
            changed.append((own.anchor, begin < counts, started, base[begin >= counts]))
        joined = Folds(*(np.concatenate(parts) for parts in zip(*folds, strict=True))) if folds else NO_FOLDS
        works = [self.missing(aggregate, slots) for aggregate in self.aggregates]
        for work in works:
            work.cut_rows(joined, slots, upto)
        self.update_trees(works, None)
        for aggregate in self.aggregates:
            for _, _, _, ended in changed:
                aggregate.trees.set_presence(ended, False)
        for anchor, continues, started, _ in changed:
            self.anchored[slots, anchor], self.begins[slots, anchor] = continues, started
        self.journal.free_rows_later(rows.first_rids(slots, counts))
        rows.drop_first(slots, counts)

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        arrays = self.alive, self.last, self.timers, self.anchored, self.begins
        own = sum(part.nbytes for part in arrays) + self.keys.nbytes + self.rows.nbytes
        return own + sum(aggregate.nbytes for aggregate in self.aggregates)


class AggregateRaised(Exception):
    """The monoid of an aggregate has raised an exception."""

    def __init__(self, number: int, failed: AggregateError) -> None:
        super().__init__(str(failed))
        self.number, self.failed = number, failed


# --- Eager timers ---

FEW = 16
"""The least number of rows to settle between two timers of a key."""


def expiry(state: EagerState, slots: Ints) -> tuple[Numbers, Flags]:
    """The watermark at which a key expires, and whether there is one.

    Time and Session windows end; all others last as long as the key, and slides by rows count its rows.
    """
    bound_query, rules = state.bound_query, state.rules.windows
    last = state.last[slots]
    ends = all(one.rule.in_time or one.rule.gap is not None for one in rules)
    if bound_query.time is None or any(own.every for own in rules) or not (ends or bound_query.forget is not None):
        return last, np.zeros(len(slots), np.bool_)
    when = None
    if ends:
        when = beyond(later(last, max(own.window.size or 0 for own in rules)))
    if bound_query.forget is not None:
        forgotten = beyond(later(last, bound_query.forget))
        when = forgotten if when is None else np.minimum(when, forgotten)
    assert when is not None
    for own in rules:  # the record of a slide is needed until the slide is final
        if own.window.slide == "time":
            right = own.rule.closed_end
            find = own.rule.last_start if own.rule.in_time else own.rule.last_end
            number = find(last, right) + (not own.rule.in_time)
            end = np.asarray(own.rule.ends(number), state.numbers)
            when = np.maximum(when, beyond(end) if right else end)
    return when, np.ones(len(slots), np.bool_)


def next_timers(state: EagerState, slots: Ints, now: Watermark, settled: Ints, when: Numbers) -> Numbers:
    """The next timer of keys: when a quarter more of their rows is settled, at the latest when they expire."""
    count, last = state.rows.heads[slots, COUNT], state.last[slots]
    index = np.minimum(count, settled + np.maximum(count // 4, FEW)) - 1
    some, filled = last.copy(), np.flatnonzero(count)
    some[filled] = state.rows.time_at(slots[filled], index[filled])
    reach = max((own.window.size or 0 for own in state.rules.windows if own.rule.in_time), default=0)
    found = np.full(len(slots), state.timers.never, state.numbers)
    for time in (when, beyond(later(last, reach)), beyond(some)):
        found = np.where(time > now, np.minimum(found, time), found)
    return found
