"""The engine of emit="eager": inserts each row into its key's tree at once, and recomputes only changed results.

    rows ──▶ slots ──▶ places in order ──▶ results that may change, before the call
                             │                        │
                             ▼                        ▼
                    rows and trees change ──▶ the same results, after it ──▶ emit those that differ, with a revision
                             │
                             └──▶ W: drop the records of final results, and rows that no window needs

The cost of a call depends on its rows and the results that it changes, not on the retained rows: a row at distance d
from the newest moves d entries of its slot's order and takes O(log d) ⊕ in each tree, a result O(log n).

Retraction for emit="eager": a row that retracts removes the last earlier row of the same key and `on`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.batch_columns import BatchColumns
from sash.columns.keys import decode, format_key, format_row, key_column
from sash.columns.row_errors import aggregate_failure, decreasing, format_slide
from sash.columns.time_numbers import Watermark
from sash.engine.emit.output import Output
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed.value_encoder import LARGE
from sash.engine.revise.eager_change import Removed, RowChanges
from sash.engine.revise.eager_results import RowResults
from sash.engine.revise.eager_rows import NewRows
from sash.engine.revise.eager_slides import SlideResults
from sash.engine.revise.eager_state import AggregateRaised, EagerState, expiry, next_timers
from sash.kernels.loops import eager_loops as eager_order
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.bound_kernel import AggregateError
from sash.kernels.loops.eager_trees import ASKING, FOLDING, LIFTING
from sash.kernels.loops.eager_windows import COUNT, SLOT
from sash.plan.planner import Plan
from sash.plan.time_axis import Number

# --- Eager retract ---


def retracted(state: EagerState, rows: NewRows, column: Any) -> tuple[NewRows, Removed, Ints]:
    """The rows to insert, the rows to remove, and the numbers of rows of the batch that are not inserted.

    A row that retracts one of its own call cancels it; one that finds no row to retract is ignored.
    """
    takes = decode(column).fill_null(False).to_numpy(zero_copy_only=False)[rows.source]
    if not takes.any():
        return rows, Removed(*(part[:0] for part in (rows.slots, rows.slots, rows.time, rows.rids))), rows.rids[:0]
    index = np.empty(len(rows), np.int64)
    lists = state.rows
    given = (rows.slots, rows.time, rows.rids)
    lists.run(eager_order.find_rows, *given, lists.heads, lists.lists, lists.tie_codes, index)
    waiting: dict[Any, list[int]] = {}
    known: dict[Any, int] = {}
    stays, gone = ~takes, []
    for i in np.argsort(lists.arrival[rows.rids], kind="stable").tolist():
        name = (int(rows.slots[i]), rows.time[i].item(), *lists.tie_codes[rows.rids[i]].tolist())
        if not takes[i]:
            waiting.setdefault(name, []).append(i)
        elif waiting.get(name):
            stays[waiting[name].pop()] = False
        else:
            at = known.setdefault(name, int(index[i]))
            if at >= 0 and _is_alike(state, rows, i, at):
                gone.append((int(rows.slots[i]), at))
                known[name] = at - 1
    places = np.array(sorted(gone), np.int64).reshape(-1, 2)
    slots, index_of = places[:, 0].copy(), places[:, 1].copy()
    removed = Removed(slots, index_of, lists.time_at(slots, index_of), lists.at(slots, index_of))
    return rows.taken(stays), removed, rows.rids[~stays]


def _is_alike(state: EagerState, rows: NewRows, i: int, at: int) -> bool:
    """Does the row at an index of the slot have the time and tie-breakers of a new row?"""
    lists, slot = state.rows, rows.slots[i : i + 1]
    index = np.array([at])
    same_time = bool(lists.time_at(slot, index)[0] == rows.time[i])
    return same_time and bool((lists.tie_codes[lists.at(slot, index)] == lists.tie_codes[rows.rids[i : i + 1]]).all())


# --- Eager engine ---

MANY = 1024
"""The least number of rows to drop at once, unless they are a quarter of those retained."""


class EagerCall(NamedTuple):
    """The rows of a call in the order of arrival, and their numbers, for error messages."""

    given: TimedRows
    rids: Ints


NO_CALL = EagerCall(TimedRows.none(pa.schema([]), np.dtype(np.int64)), NO_INTS)
"""A call without rows."""


class EagerEngine:
    """A query with emit="eager" on live state.

    `process` and `settle` leave a journal open: call `commit` when the call has succeeded, else `rollback`.
    `retract` names a column: a row where it is true retracts the last row of the same key and `on`.

    >>> import sash
    >>> query = sash.Query("10s", by="k", on="t", lateness="1m", emit="eager", high=sash.max("x"))
    >>> schema = pa.schema([("k", pa.string()), ("t", pa.timestamp("s")), ("x", pa.int64())])
    >>> engine = EagerEngine(query.plan(schema), "rows")
    >>> def call(t, x):
    ...     table = pa.record_batch([["a"], pa.array([t], pa.timestamp("s")), [x]], schema=schema)
    ...     found = engine.process(TimedRows(table, np.array([t]), np.array([engine.arrived])), t - 60)
    ...     engine.commit()
    ...     return found.select(["x", "high", "_row", "_revision"]).to_pylist()
    >>> call(100, 3)
    [{'x': 3, 'high': 3, '_row': 0, '_revision': 0}]
    >>> call(95, 7)
    [{'x': 7, 'high': 7, '_row': 1, '_revision': 0}, {'x': 3, 'high': 7, '_row': 0, '_revision': 1}]
    """

    def __init__(self, plan: Plan, mode: str = "rows", retract: str | None = None) -> None:
        self.plan, self.mode, self.retract = plan, mode, retract
        bound_query = self.bound_query = plan.bound_query
        self.state = EagerState(bound_query)
        self.numbers = self.state.numbers
        self.output = Output(bound_query, mode)
        self.results: RowResults | SlideResults
        if bound_query.per_row:
            self.results = RowResults(self.state, bound_query.query.late == "flag")
        else:
            self.results = SlideResults(self.state, self.output)
        self._none_removed = Removed(NO_INTS, NO_INTS, np.zeros(0, self.numbers), NO_INTS)
        self._has_float_keys = any(map(pa.types.is_floating, self.state.keys.types))
        self.arrived = 0
        """The arrival number of the next row: the watermark of a query without `on`."""

    def continue_from(self, arrived: int) -> None:
        """Continue with this arrival number, that of saved state or of another engine."""
        self.arrived = arrived

    # ---- calls ----

    def process(self, given: TimedRows, now: Watermark) -> pa.RecordBatch:
        """Process rows that are neither late nor untimed, in arrival order; `now` is the watermark after the call.

        Returns every result that is new or has changed. Raises the exception of a monoid, naming row and key, and
        ValueError for a Delta column that decreases; then `rollback` must be called.
        """
        state = self.state
        columns = BatchColumns(given.table)
        by = [columns.column(name) for name in self.bound_query.by]
        if self._has_float_keys:
            by = [key_column(column) for column in by]
        keys = state.keys.find(by, len(given))
        state.begin(keys.fresh, self.arrived)
        if not len(given):
            self._settle(NO_INTS, now, NO_CALL)
            return self.output.empty()
        self.arrived = int(given.arrival[-1]) + 1
        slots = np.sort(keys.touched) if len(keys.touched) > 1 else keys.touched
        new, rids = state.rows.number(given, columns, keys.slots, slots)
        call = EagerCall(given, rids)
        found = self._changed(call, columns, new, slots)
        self._settle(slots, now, call)
        return found

    def settle(self, now: Watermark, closing: bool = False) -> None:
        """Raise the watermark: results below it are final, and rows that no window needs are dropped."""
        self.state.begin(NO_INTS, self.arrived)
        if closing:
            assert self.state.journal is not None
            self.state.journal.free_slots_later(np.flatnonzero(self.state.alive))
        else:
            self._settle(NO_INTS, now, NO_CALL)

    def _changed(self, call: EagerCall, columns: BatchColumns, new: NewRows, slots: Ints) -> pa.RecordBatch:
        """Insert the rows of a call, and retract others; returns the results that change."""
        state, rows = self.state, self.state.rows
        lifted = [aggregate.inputs(columns, call.rids) for aggregate in state.aggregates]
        removed, unused = self._none_removed, NO_INTS
        if self.retract is not None:
            state.reserve(slots, np.zeros(len(slots), np.int64))
            new, removed, unused = retracted(state, new, call.given.table.column(self.retract))
        one = len(slots) == 1
        counts = np.array([len(new)]) if one else np.diff(new.slots.searchsorted(slots), append=len(new))
        state.reserve(slots, counts)
        change = RowChanges(new, rows.locate(new, state.reset_trees), removed)
        known: Any = self.results.before(change)
        works = [state.missing(aggregate, slots) for aggregate in state.aggregates]
        state.enter(change, slots)
        affected: Any = self.results.apply(change, known)
        self._require_rising(change)
        state.touch(slots, new)
        entered, left = change.entered, change.left
        for work, rows_in in zip(works, lifted, strict=True):
            work.change_rows(rows_in, entered, left)
        try:
            answers = state.update_trees(works, affected.ranges)
        except AggregateRaised as raised:
            raise self._named(raised, call, affected) from raised.failed.error
        made = self.results.after(affected, answers)
        assert state.journal is not None
        state.journal.free_rows_later(removed.rids, unused)
        return self.output.typed(made)

    def _require_rising(self, change: RowChanges) -> None:
        rows, done = self.state.rows, set()
        for place, own in enumerate(self.state.rules.windows):
            name = str(own.window.column)
            if not own.rule.measured or name in done:
                continue
            done.add(name)
            arguments = (change.new.slots, change.reached(), rows.heads, rows.lists, self.state.rules.tables, place)
            before, bad = rows.run(eager_order.decreasing_at, *arguments)
            if bad >= 0:
                values = rows.deltas[name]
                raise decreasing(name, values[before], values[bad], self._row(bad))

    # ---- the watermark ----

    def _settle(self, touched: Ints, now: Watermark, call: EagerCall) -> None:
        state = self.state
        if self.bound_query.time is None:
            now = self.arrived
        journal = state.journal
        assert journal is not None
        state.ensure_timers(touched)
        slots = state.timers.due(now)
        if not len(slots):
            return
        state.save(slots)
        when, ever = expiry(state, slots)
        gone = ever & (when <= now)
        settled, needed = state.needed(slots, now)
        self.results.settle(slots, now, settled)
        state.timers.set(slots, next_timers(state, slots, now, settled, np.where(ever, when, state.timers.never)))
        count = state.rows.heads[slots, COUNT]
        cut = np.flatnonzero(~gone & (needed > 0) & ((4 * needed >= count) | (needed >= MANY)))
        if len(cut):
            try:
                state.shorten(slots[cut], needed[cut])
            except AggregateRaised as raised:
                raise self._named(raised, call) from raised.failed.error
        journal.free_slots_later(slots[gone])

    # ---- all or nothing ----

    def commit(self) -> None:
        """Commit the call."""
        journal = self.state.journal
        gone = NO_INTS if journal is None else journal.gone
        for records in self.results.records:
            records.commit()
            records.clear(gone)
        self.state.commit()

    def rollback(self) -> None:
        """Undo the call that has not been committed; does nothing if there is none."""
        journal = self.state.journal
        if journal is None:
            self.state.release_unused()
            return
        for records in self.results.records:
            records.rollback()
        self.arrived = journal.arrived
        self.state.rollback()

    def compact(self) -> None:
        """Drop logged rows and values that no row needs, if most are unused; call after `commit`."""
        rows = self.state.rows
        rows.compact()
        for aggregate in self.state.aggregates:
            aggregate.compact(rows.numbered - rows.free_count, lambda: rows.live)

    # ---- sizes ----

    @property
    def is_sparse(self) -> bool:
        """Whether most of the arrays is unused, so that the state should move into smaller ones."""
        rows = self.state.rows
        unused_rows = _mostly_unused(rows.numbered - rows.free_count, len(rows.labels))
        return unused_rows or _mostly_unused(self.keys, len(self.state.alive))

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return self.state.keys.count

    @property
    def elements(self) -> int:
        """How many rows are retained."""
        return int(self.state.rows.heads[:, COUNT].sum())

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        return self.state.nbytes + sum(records.nbytes for records in self.results.records)

    @property
    def due(self) -> Number | None:
        """The least watermark at which a timer is due; None if none is."""
        return None if self.bound_query.time is None else self.state.timers.next

    # ---- errors ----

    def _row(self, rid: int) -> str:
        rows = self.state.rows
        if not self.bound_query.per_row:
            return f"row {int(rows.arrival[rid])}"
        return format_row(rows.columns.batch(np.array([rid])), 0)

    def _named(self, raised: AggregateRaised, call: EagerCall, affected: Any = None) -> Exception:
        """The exception of a monoid, with the row, or the slide and its key. `affected`: the results asked for."""
        where = self._where(raised.failed, call, affected)
        return aggregate_failure(self.bound_query, raised.number, raised.failed, where)

    def _where(self, failed: AggregateError, call: EagerCall, affected: Any) -> str:
        place, given = failed.place, call.given
        if failed.phase == LIFTING:
            return format_row(given.table, place)
        if failed.phase == FOLDING:
            return "the watermark" + self._whose(np.array([place]))
        if failed.phase == ASKING and isinstance(self.results, SlideResults):
            slot, end = self.results.slide_of(affected, place)
            return format_slide(self.bound_query, end, self.state.keys.keys(slot))
        if failed.phase == ASKING and isinstance(self.results, RowResults):
            row = self.results.row_of(affected, place)
            if row is None:
                return "a window" + self._whose(affected.ranges.table[place : place + 1, SLOT])
            place = row
        mine = np.flatnonzero(call.rids == place)
        return format_row(given.table, int(mine[0])) if len(mine) else self._row(place)

    def _whose(self, slot: Ints) -> str:
        return format_key(self.bound_query.by, self.state.keys.keys(slot))


def _mostly_unused(used: int, length: int) -> bool:
    return length > LARGE and 8 * used < length
