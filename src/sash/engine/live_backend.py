"""The state backend of operators with emit="final" or "changes": reorder buffer, engine, emitter, pages of a store.

rows ──▶ reorder buffer ──▶ engine ──▶ emitter ──▶ results
             │                 │
             └───── pages ─────┘     where there is a store

Finish a stream whose state is larger than memory: compute the last results some buckets at a time.

    buckets     │ b0 b1 b2 │ b3 │ b4 b5 │       groups that take a fraction of the memory bound
    rows        the buffered rows of each group
    results     one batch, in the same order as from a single step

Each group is loaded, closed and released before the next one. Until the call is committed the store has all keys in
their old state: a failed call leaves memory empty, and keys are loaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa

from sash.columns.keys import decoded_schema, key_column, keys_of
from sash.columns.time_numbers import Watermark, finite
from sash.engine.backend import Backend
from sash.engine.emit.emitter import ChangeEmitter
from sash.engine.emit.output import Output
from sash.engine.intake.progress import Progress
from sash.engine.intake.reorder_buffer import BufferState, ReorderBuffer, TimedRows, time_sorted
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.lookup import Lookup, Pairs, holds_own_time
from sash.engine.keyed.step_data import StepResult
from sash.kernels.loops.array_types import NO_INTS, Ints, Numbers
from sash.plan.planner import Plan
from sash.state.bucket_directory import Hashes
from sash.state.durable import DurableMark, DurableState, MemoryBound
from sash.state.followed_state import FollowedState
from sash.state.header_page import Header
from sash.state.slot_codec import StateCodec
from sash.stores import MemoryStore, Store
from sash.windows.arguments import Length
from sash.windows.rules import later
from sash.windows.specs import Closed

# --- Bounded finish ---

_SHARE = 4
"""A group takes 1/4 of the bound: arrays have up to twice the capacity that they need, and structures have queues."""


def closes_in_groups(backend: LiveBackend) -> bool:
    """Are there keys that are only in the store, and can keys be closed independently?"""
    durable = backend.durable
    if backend.bound is None or durable is None or backend.engine.ahead is not None:
        return False
    return len(durable.buckets.absent()) > 0 and not durable.transaction.uncertain


def close_groups(backend: LiveBackend, bound: MemoryBound, settled: TimedRows) -> pa.RecordBatch:
    """Process these rows, close all keys, and return their last results. No key is in memory afterwards."""
    durable, engine, emitter = bound.durable, backend.engine, backend.emitter
    bound.empty()
    of = durable.buckets.of(_hashes(backend, settled))
    results, rows = [], []
    for group in _groups(bound, of):
        durable.load_buckets(group)
        mine = np.flatnonzero((of >= group[0]) & (of <= group[-1]))
        step = engine.step(settled.take(mine), closing=True)
        chosen = None if emitter is None else emitter.chosen(step)
        results.append(backend.output.final(engine.keys, step, chosen))
        rows.append(mine if chosen is None or not backend.bound_query.per_row else mine[chosen[0]])
        engine.commit()
        if emitter is not None:
            emitter.compact()
            emitter.begin()
        durable.drop_buckets(group)
    return backend.output.merged(results, rows)


def _hashes(backend: LiveBackend, rows: TimedRows) -> Hashes:
    columns = [key_column(rows.table.column(name)) for name in backend.bound_query.by]
    if not columns:
        return np.zeros(len(rows), np.uint64)
    found = keys_of(columns, len(rows))
    return found.hashes()[found.codes]


def _groups(bound: MemoryBound, of: Ints) -> Iterator[Ints]:
    """Groups of neighbouring buckets, at least one each, that take an estimated fraction of the limit.

    `of`: the buckets of the rows that will be processed.
    """
    buckets, engine = bound.durable.buckets, bound.engine
    columns = [column for assigner in engine.arena_assigners for column in assigner.arena.columns.values()]
    rows = np.bincount(of, minlength=len(buckets))
    cost = (buckets.elements + rows) * sum(column.itemsize for column in columns)
    cost += (buckets.keys + rows) * engine.table.row_bytes
    number = np.cumsum(cost) // max(bound.limit // _SHARE, 1)
    yield from np.split(np.arange(len(buckets)), np.flatnonzero(np.diff(number)) + 1)


# --- Live backend ---


class LiveBackend(Backend):
    """Live state of one operator, durable if there is a store."""

    def __init__(self, plan: Plan, mode: str, output: Output, store: Store | None, reads_only: bool = False) -> None:
        super().__init__(plan, mode, output)
        self.reads_only = reads_only
        """Whether the state is used for lookups only."""
        self.engine = LiveEngine(plan)
        self.failures = [self.engine.failures, *output.failures]
        plain = decoded_schema(self.bound_query.schema)
        self.nothing = TimedRows.none(plain, self.engine.numbers)
        self.emitter = ChangeEmitter(self.engine) if self.bound_query.query.emit == "changes" else None
        self.buffer: ReorderBuffer | None = None
        if self.bound_query.time is not None and mode != "sorted":
            self.buffer = ReorderBuffer(plain, self.bound_query.ties, self.engine.numbers)
        self.durable: DurableState | None = None if store is None else self._durable(store)
        limit = self.bound_query.query.options.memory_limit
        self.bound: MemoryBound | None = None
        if self.durable is not None and limit is not None:
            limit //= 1 + reads_only  # the other half is for pages that a reader keeps
            self.bound = MemoryBound(limit, self.durable, self.engine, self.buffer, self.emitter)
        self._marks: tuple[BufferState | None, DurableMark | None] | None = None
        self._given: TimedRows | None = None
        self._check: Callable[[TimedRows], TimedRows] | None = None
        self._in_groups = False
        """Whether the current call closes keys in groups: it has released keys that the store still has."""

    # ---- a call ----

    @property
    def buffers(self) -> bool:
        return self.buffer is not None

    def check_released(self, check: Callable[[TimedRows], TimedRows]) -> None:
        self._check = check

    def is_compiled(self, number: int) -> bool:
        aggregates = self.engine.all_aggregates
        return all(one.kernel.compiled for one in aggregates if any(view.number == number for view in one.views))

    def begin(self) -> None:
        """Begin a call: save what is needed to undo it."""
        self._given = None
        for one in self.failures:
            if one.count:
                one.clear()
        self._check = None
        self.engine.drop_journal()
        self._in_groups = False
        if self.emitter is not None:
            self.emitter.begin()
        buffer, durable = self.buffer, self.durable
        self._marks = None if buffer is None else buffer.mark(), None if durable is None else durable.mark()

    @property
    def is_unsettled(self) -> bool:
        """Is there something to undo, of a call or a lookup that was interrupted?"""
        return self._marks is not None

    def recover(self) -> None:
        """Undo a call that failed; does nothing if none has. May be interrupted, and called again."""
        if self._marks is None:
            return
        buffered, stored = self._marks
        if self.durable is not None and stored is not None:
            self.durable.rollback(stored)
        if self.buffer is not None and buffered is not None:
            self.buffer.rollback(buffered)
        self.engine.rollback()
        if self.emitter is not None:
            self.emitter.rollback()
        if self._in_groups and self.bound is not None:
            self.bound.empty()
        self._marks = None
        self._enforce_bound()

    def write(self, header: Header) -> None:
        """Write the changes of the call to the store."""
        assert self.durable is not None
        journal = self.engine.journal
        changed, fresh = (NO_INTS, NO_INTS) if journal is None else (journal.slots, journal.fresh)
        self.durable.write(header, changed, fresh, self._given, header.watermark)

    def committed(self) -> None:
        """The call has succeeded: drop its journal, and free memory and pages that are not needed any more.

        To move arrays takes memory. If there is none, a later call moves them: this one must not fail any more.
        """
        self._marks = None
        try:
            self.engine.commit()
            if self.emitter is not None:
                self.emitter.compact()
        except MemoryError:  # `suppress` takes 0.5 µs of a one-row call
            pass
        if self.durable is not None:
            self.durable.transaction.delete_garbage()
        if self.bound is not None:
            with suppress(MemoryError):
                self._enforce_bound()

    def _enforce_bound(self) -> None:
        if self.bound is not None:
            self.bound.enforce()

    def advance(self, now: Watermark, closing: bool) -> pa.RecordBatch:
        """Raise the watermark, and return the results that are due."""
        return self.step(self.nothing, now, closing)

    def step(self, given: TimedRows, now: Watermark, closing: bool = False) -> pa.RecordBatch:
        """Process rows; returns the results that are due at the watermark `now`, or all if `closing`."""
        settled = self.release_rows(given, now, closing)
        if closing and self.bound is not None and closes_in_groups(self):
            self._in_groups = True
            return close_groups(self, self.bound, settled)
        if self.durable is not None:
            self.load_keys(settled, now, closing)
        step = self.engine.step(settled, now=now, closing=closing)
        return self.output.final(self.engine.keys, step, None) if self.emitter is None else self.emitted(step)

    def release_rows(self, given: TimedRows, now: Watermark, closing: bool) -> TimedRows:
        """Push rows into the reorder buffer, and return those that the watermark `now` releases."""
        if self.durable is not None:
            for rows in self.durable.buffered.release(now, closing):
                assert self.buffer is not None
                self.buffer.push_and_release(rows, None)
            if self.buffer is not None:
                self._given = given = time_sorted(given)  # once, for the buffer and for its pages
        found = given if self.buffer is None else self.buffer.push_and_release(given, now, closing)
        return found if self._check is None else self._check(found)

    def sorted_step(self, given: TimedRows, rest: int, before: Watermark, closing: bool) -> pa.RecordBatch:
        """Process the first `rest` of sorted rows; `before`: the time of the last row; `closing`: none will follow."""
        if self.durable is not None:
            self.load_keys(given, None, everything=True)
        return self.emitted(self.engine.step(given.slice(0, rest), now=before, closing=closing, last_key_open=True))

    def emitted(self, step: StepResult) -> pa.RecordBatch:
        """The results of a step that are emitted, as a batch."""
        return self.output.final(self.engine.keys, step, None if self.emitter is None else self.emitter.chosen(step))

    def load_keys(self, rows: TimedRows, now: Watermark, everything: bool) -> None:
        """Load the keys that a step needs from the store."""
        assert self.durable is not None
        columns = [key_column(rows.table.column(name)) for name in self.bound_query.by]
        self.durable.load(columns, len(rows), now, everything)

    # ---- state at rest ----

    def _durable(self, store: Store, is_shared: bool = True) -> DurableState:
        if "hash" not in self.engine.table.arrays:
            DurableState.add_columns(self.engine)
        codec = StateCodec(self.engine, self.emitter)
        if self.reads_only:
            return FollowedState(store, self.engine, codec, self.mode, self.buffer)
        return DurableState(store, self.engine, codec, self.mode, is_shared)

    def open(self) -> Header | None:
        """Open the state of the store; None if it is empty. Raises PageError."""
        assert self.durable is not None
        return self.durable.open()

    def follow(self) -> Header:
        """Read what another writer has committed to the store since. Raises PageError."""
        assert isinstance(self.durable, FollowedState)
        return self.durable.follow()

    def held(self) -> TimedRows | None:
        """The stored rows that wait for peers, in mode "sorted"."""
        assert self.durable is not None
        return self.durable.buffered.held()

    def save(self, header: Header) -> MemoryStore:
        """Write all state to pages in memory, for a snapshot."""
        store = MemoryStore()
        self.save_to(store, header, None)
        return store

    def save_to(self, store: Store, header: Header, replaced: list[str] | None) -> None:
        """Write all state to a store with one `put_many`; `replaced`: the pages that it replaces, None for a snapshot.

        If the process ends right after it, the next operator deletes the replaced pages.
        """
        durable = self._durable(store, is_shared=replaced is not None)
        durable.transaction.replace_pages(replaced or [])
        live = self.engine.live
        waiting = None if self.buffer is None else self.buffer.rows()
        durable.write(header, live, live, waiting, header.watermark)
        durable.detach()
        durable.transaction.delete_garbage()

    def into_memory(self) -> None:
        """Load all state, and detach it from the store."""
        assert self.durable is not None
        self.durable.load([], 0, None, everything=True)
        for rows in self.durable.buffered.release(None, everything=True):
            assert self.buffer is not None
            self.buffer.push_and_release(rows, None)
        self.durable.detach()
        self.durable = self.bound = None

    # ---- lookups ----

    def newest_waiting(self) -> Watermark:
        """The greatest time of a buffered row in the store; None if there is none."""
        assert self.durable is not None
        return max((page.high for page in self.durable.buffered.waiting), default=None)

    def lookup(
        self,
        columns: list[pa.Array],
        at: Watermark,
        last: Length | None,
        now: Progress,
        closed: Closed | None,
    ) -> Pairs:
        """A column for each pair of window and aggregate, in the order of these keys; `at`: None without `on`."""
        rows, waiting = len(columns[0]) if columns else 1, now.held
        if self.durable is not None:
            try:
                keys = [key_column(column) for column in columns]
                self.durable.load(keys, rows, None, everything=False)
                if isinstance(self.durable, FollowedState):
                    waiting = self.durable.waiting(keys, rows) or waiting
                else:
                    self._take_waiting(self.durable)
            finally:
                self.durable.transaction.forget_reads()
        if self.buffer is not None and len(self.buffer):
            waiting = self.buffer.rows()
        if waiting is not None:
            assert at is not None
            if (waiting.time > at).any():
                waiting = waiting.take(self._visible(waiting.time, at))
            if closed is not None and not holds_own_time(closed):
                waiting = waiting.take(np.flatnonzero(waiting.time < at))
        found = Lookup(self.engine, columns, waiting, self.nothing, self.reads_only, closed)
        self.engine.drop_journal()
        if self.emitter is not None:
            self.emitter.begin()
        self._marks = None, None
        try:
            found.begin(at)
            return found.results(at, last, finite(now.watermark))
        finally:
            if found.has_stepped:
                self.recover()
            else:
                self._marks = None
            self._enforce_bound()

    def _visible(self, time: Numbers, at: float) -> Ints:
        """The buffered rows that a lookup at a time needs: those up to it, and later ones for windows that look ahead.

        Raises ValueError if other windows of the query would hold such later rows, too.
        """
        windows = self.bound_query.windows
        ahead = [window for window in windows if window.shift > 0]
        seen = time <= at
        if any(window.rule.measure == "rows" for window in ahead):
            seen = np.ones(len(time), np.bool_)
        for window in ahead:
            seen = seen | (time <= later(np.array([at], time.dtype), window.shift))
        others = [window.window for window in windows if window.rule.measure in ("restarts", "policy")]
        if others and (seen & (time > at)).any():
            raise ValueError(
                f"lookup(at={at!r}): {ahead[0].window!r} holds rows after that time, and {others[0]!r} does not: leave "
                "at= out, or put one of them in a separate query"
            )
        return np.flatnonzero(seen)

    def _take_waiting(self, durable: DurableState) -> None:
        """Load all buffered rows from the store, or none of them."""
        if self.buffer is None:
            return
        buffered, pages = self.buffer.mark(), durable.buffered.mark()
        try:
            for rows in durable.buffered.release(None, everything=True):
                self.buffer.push_and_release(rows, None)
        except BaseException:
            self.buffer.rollback(buffered)
            durable.buffered.rollback(pages)
            raise

    @property
    def due(self) -> Watermark:
        """The least watermark at which a timer or a buffered row is due; None if nothing is."""
        waiting = [self.engine.timers.next, None if self.buffer is None else self.buffer.due]
        waiting.append(None if self.durable is None else self.durable.due)
        return min((when for when in waiting if when is not None), default=None)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Keys, elements and bytes of the state."""
        waiting = 0 if self.buffer is None else len(self.buffer)
        keys, elements = (0, 0) if self.durable is None else self.durable.absent
        nbytes = self.stored_bytes
        if nbytes is None:
            parts = (self.engine, self.buffer, self.emitter)
            nbytes = sum(part.nbytes for part in parts if part is not None)
        return self.engine.keys.count + keys, self.engine.elements + waiting + elements, nbytes

    def executed(self) -> dict[tuple[int, int], str]:
        """By window and aggregate: the structure that computes it."""
        found: dict[tuple[int, int], str] = {}
        for assigner, aggregates in self.engine.groups:
            for aggregate in aggregates:
                for w, name in aggregate.structures().items():
                    found |= {(assigner.places[w], view.number): name for view in aggregate.views}
        return {pair: name for pair, name in found.items() if pair in self.bound_query.projection.asked}
