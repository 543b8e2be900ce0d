"""The engine of emit="eager": each row goes into its key's tree at once, and only what it changes is computed again.

    rows ──▶ slots ──▶ places in order ──▶ results that may change, as they are now
                             │                        │
                             ▼                        ▼
                    rows and trees change ──▶ the same results anew ──▶ those that differ leave, with a revision
                             │
                             └──▶ W: what is final is forgotten, rows that no window needs are dropped

A call costs by its rows and the results that it changes, not by the rows that wait: a row at distance d from the newest
moves d entries of its slot's order and takes O(log d) ⊕ in each tree, a result O(log n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.eager_aggregate import TreeFailed
from sash.engine.eager_log import BatchColumns
from sash.engine.eager_results import RowResults
from sash.engine.eager_retract import retracted
from sash.engine.eager_slides import SlideResults
from sash.engine.eager_state import AggregateRaised, EagerState, Removed, Touched, empty_rows
from sash.engine.eager_timers import expiry, next_look
from sash.engine.key_values import encode_as, format_row, format_value, key_column
from sash.engine.reorder_buffer import TimedRows
from sash.engine.row_errors import RoomCheck, failure
from sash.kernels.loops import eager_order
from sash.kernels.loops.eager_trees import ASKING, FOLDING, LIFTING
from sash.kernels.loops.eager_windows import COUNT, DELTA, SLOT
from sash.plan.planner import Plan
from sash.plan.types import value_type

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MANY = 1024
"""Rows that are dropped at once, at least, unless they are a quarter of those kept."""

_NONE = np.zeros(0, np.int64)

LARGE = 4096
"""Arrays and dictionaries of fewer entries are left as they are."""


class EagerEngine:
    """A query with emit="eager" on live state.

    `process` and `settle` leave a journal open: call `commit` when the call has succeeded, else `rollback`.
    `retract` names a column: a row where it is true takes back the last row of the same key and `on`.

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
        self.schema = bound_query.output(mode)
        kinds = list(enumerate(field.type for field in self.schema))
        if bound_query.per_row:
            kinds = [(i, kind) for i, kind in kinds[: len(bound_query.schema)] if kind != value_type(kind)]
        self._restored = kinds
        """The columns that may be of another type than that in which they are kept."""
        self.room = RoomCheck(bound_query)
        self.results: RowResults | SlideResults
        if bound_query.per_row:
            self.results = RowResults(self.state, bound_query.query.late == "flag")
        else:
            self.results = SlideResults(self.state)
        self._nothing = _nothing(self.numbers)
        self._has_float_keys = any(map(pa.types.is_floating, self.state.keys.types))
        self._turn: Any = None
        """What the call is about to answer, for messages."""
        self.arrived = 0
        """The arrival number of the next row: the watermark where the query has no `on`."""

    # ---- what can be told of rows as they come ----

    def require_room(self, batch: pa.RecordBatch, time: NDArray[Any], taken: Flags) -> None:
        """Refuse rows whose windows would have no place; see `RoomCheck`."""
        self.room.require(batch, time, taken)

    # ---- calls ----

    def process(self, given: TimedRows, now: Any, closing: bool = False) -> pa.RecordBatch:
        """Take rows that are neither late nor untimed, in arrival order; `now` is the watermark after the call.

        Gives every result that is new or has changed. Raises what a monoid raises, naming row and key, and ValueError
        for a Delta column that decreases; then `rollback` must be called.
        """
        state = self.state
        self._columns = BatchColumns(given.table)
        columns = [self._columns[name] for name in self.bound_query.by]
        if self._has_float_keys:
            columns = [key_column(column) for column in columns]
        self._arrived_before = self.arrived
        keys = state.keys.find(columns, len(given))
        state.begin(keys.fresh)
        if not len(given):
            self._move_to(now, closing)
            return empty_rows(self.schema)
        self.arrived = int(given.arrival[-1]) + 1
        try:
            found = self._changed(given, keys.slots, keys.touched)
            self._settle(self._slots, now, closing)
        except AggregateRaised as blamed:
            raise self._named(blamed, given) from blamed.failed.error
        return found

    def settle(self, now: Any, closing: bool = False) -> None:
        """Move the watermark: results below it are final, and what no window needs any more is dropped."""
        self._arrived_before = self.arrived
        self.state.begin(_NONE)
        self._move_to(now, closing)

    def _move_to(self, now: Any, closing: bool) -> None:
        try:
            self._settle(_NONE, now, closing)
        except AggregateRaised as blamed:
            raise self._named(blamed, None) from blamed.failed.error

    def _changed(self, given: TimedRows, of: Ints, touched: Ints) -> pa.RecordBatch:
        state, rows = self.state, self.state.rows
        self._turn = None
        numbered, self._rids = rows.number(given, self._columns, of, touched)
        lifted = [aggregate.inputs(self._columns, self._rids) for aggregate in state.aggregates]
        slots = self._slots = np.sort(touched) if len(touched) > 1 else touched
        new, removed, unused = numbered, self._nothing, _NONE
        if self.retract is not None:
            state.reserve(slots, np.zeros(len(slots), np.int64))
            new, removed, unused = retracted(state, numbered, given.table.column(self.retract))
        one = len(slots) == 1
        counts = np.array([len(new)]) if one else np.diff(new.slots.searchsorted(slots), append=len(new))
        state.reserve(slots, counts)
        change = Touched(new, rows.locate(new, state.stale), removed)
        known: Any = self.results.before(change)
        works = [state.missing(aggregate, slots) for aggregate in state.aggregates]
        state.enter(change, slots)
        turn: Any = self.results.turn(change, known)
        self._turn = turn
        self._require_rising(change)
        state.alive[slots] = True
        if len(new):
            # of each slot, or of another
            newest = slice(-1, None) if one else new.slots.searchsorted(slots, side="right") - 1
            last = new.slots[newest]
            state.last[last] = np.maximum(state.last[last], new.time[newest])
        for work, rows_in in zip(works, lifted, strict=True):
            work.lifted = rows_in
            work.inserted, work.removed = change.moved
        columns = self.results.after(change, turn, state.turn(works, turn.ranges))
        if len(removed) and isinstance(self.results, RowResults):
            pairs = zip(self.results.taken_back(removed.rids), columns, strict=True)
            columns = [pa.concat_arrays(pair) for pair in pairs]
        assert state.journal is not None
        state.journal.dropped += [removed.rids, unused]
        for i, kind in self._restored:
            columns[i] = encode_as(columns[i], kind)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _require_rising(self, change: Touched) -> None:
        rows, done = self.state.rows, set()
        for place, rule in enumerate(self.state.rules.rules):
            name = str(rule.span.column)
            if rule.kind != DELTA or name in done:
                continue
            done.add(name)
            arguments = (change.new.slots, change.reached(), rows.heads, rows.lists, self.state.rules.tables, place)
            before, bad = rows.run(eager_order.decreasing_at, *arguments)
            if bad >= 0:
                values = rows.deltas[name]
                raise ValueError(
                    f"the column {name!r} of a Delta window must not decrease, but goes from {values[before]} to "
                    f"{values[bad]} at {self._row(bad)}"
                )

    # ---- the watermark ----

    def _settle(self, touched: Ints, now: Any, closing: bool) -> None:
        state = self.state
        if self.bound_query.time is None:
            now = self.arrived
        journal = state.journal
        assert journal is not None
        if closing:
            journal.gone = np.flatnonzero(state.alive)
            return
        state.watch(touched)
        slots = state.timers.fired(now)
        if not len(slots):
            return
        state.save(slots)
        when, ever = expiry(state, slots)
        gone = ever & (when <= now)
        settled, needed = state.needed(slots, now)
        if isinstance(self.results, SlideResults):
            self.results.settle(slots, now, settled)
        state.timers.set(slots, next_look(state, slots, now, settled, np.where(ever, when, state.never)))
        count = state.rows.heads[slots, COUNT]
        cut = np.flatnonzero(~gone & (needed > 0) & ((4 * needed >= count) | (needed >= MANY)))
        if len(cut):
            state.shorten(slots[cut], needed[cut])
        journal.gone = slots[gone]

    # ---- all or nothing ----

    def commit(self) -> None:
        """The call has succeeded."""
        journal = self.state.journal
        gone = _NONE if journal is None else journal.gone
        if isinstance(self.results, SlideResults):
            for records in self.results.records:
                records.commit()
                records.clear(gone)
        self.state.commit()

    def rollback(self) -> None:
        """Undo the call that has not been committed; does nothing if there is none."""
        if self.state.journal is None:
            return
        if isinstance(self.results, SlideResults):
            for records in self.results.records:
                records.rollback()
        self.arrived = self._arrived_before
        self.state.rollback()

    def compact(self) -> None:
        """Drop logged rows and values that no row needs, where most are unused; after a commit."""
        rows = self.state.rows
        rows.compact()
        for aggregate in self.state.aggregates:
            aggregate.compact(rows.numbered - rows.free_count, lambda: rows.live)

    # ---- sizes ----

    @property
    def is_sparse(self) -> bool:
        """Are most of the arrays unused, so that it pays to move the state into smaller ones?"""
        rows = self.state.rows
        unused_rows = _mostly_unused(rows.numbered - rows.free_count, len(rows.labels))
        return unused_rows or _mostly_unused(self.keys, len(self.state.alive))

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return self.state.keys.count

    @property
    def elements(self) -> int:
        """How many rows are kept."""
        return int(self.state.rows.heads[:, COUNT].sum())

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        records = self.results.records if isinstance(self.results, SlideResults) else []
        return self.state.nbytes + sum(one.nbytes for one in records)

    @property
    def due(self) -> Any:
        """The least watermark at which there is something to do; None if there is none."""
        return None if self.bound_query.time is None else self.state.timers.next

    # ---- errors ----

    def _row(self, rid: int) -> str:
        rows = self.state.rows
        if not self.bound_query.per_row:
            return f"row {int(rows.arrival[rid])}"
        return format_row(rows.columns.batch(np.array([rid])), 0)

    def _named(self, blamed: AggregateRaised, given: TimedRows | None) -> Exception:
        """What a monoid raised, with the row, or the slide and its key."""
        failed = blamed.failed
        return failure(
            f"the aggregate {self.bound_query.aggregates[blamed.part].name!r}", failed, self._where(failed, given)
        )

    def _where(self, failed: TreeFailed, given: TimedRows | None) -> str:
        place = failed.place
        if failed.phase == LIFTING and given is not None:
            return format_row(given.table, place)
        if failed.phase == FOLDING:
            return "the watermark" + self._whose(np.array([place]))
        if failed.phase == ASKING and isinstance(self.results, SlideResults):
            slot, end = self.results.slide_of(self._turn, place)
            return f"the slide that ends at {end}" + self._whose(slot)
        if failed.phase == ASKING and isinstance(self.results, RowResults):
            row = self.results.row_of(self._turn, place)
            if row is None:
                return "a window" + self._whose(self._turn.ranges.table[place : place + 1, SLOT])
            place = row
        mine = np.flatnonzero(self._rids == place)
        return format_row(given.table, int(mine[0])) if len(mine) and given is not None else self._row(place)

    def _whose(self, slot: Ints) -> str:
        names = zip(self.bound_query.by, self.state.keys.keys(slot), strict=True)
        whose = ", ".join(f"{name}={format_value(column[0])}" for name, column in names)
        return f" of key {whose}" if whose else ""


def _mostly_unused(used: int, length: int) -> bool:
    return length > LARGE and 8 * used < length


def _nothing(numbers: np.dtype[Any]) -> Removed:
    return Removed(_NONE, _NONE, np.zeros(0, numbers), _NONE)
