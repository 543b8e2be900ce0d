"""The operator: Arrow record batches in, Arrow record batches out, its state alive between calls.

    batch ──▶ watermark ──▶ reorder buffer ──▶ engine ──▶ emitter ──▶ batch
              late?         order              results    final, changes, eager
                 │                                │
                 ▼                                └──▶ pages of a store, at the end of a call
              late_rows()

Three modes: in "rows" the watermark follows the rows, in "given" only `advance` moves it, and "sorted" takes rows
ordered by key and time, so that none is late. A call that fails changes nothing.

Several queries: a state for those that can share one, and a batch for each query.

             ┌─▶ state of a group ───────▶ batches of its queries ─┐
    batch ───┤                                                     ├──▶ dict of batches
             └─▶ state of a query alone ─▶ its batch ──────────────┘
                      │
                      └──▶ one commit of all to the store

A call is atomic over all states: each does its work, then one write commits the pages of all. If one of them or the
write fails, all are as they were before. One query is the case of one state.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from sash.columns.time_numbers import Watermark
from sash.engine.intake.input_checks import GivenKeys, GivenTime, json_copy, record_batch
from sash.engine.intake.progress import BeforeCommit, Metrics, Progress, Uncommitted
from sash.engine.joint_store import JointStore, require_groups, stored_groups
from sash.engine.operator_base import PublicNames
from sash.engine.operator_snapshot import pack_states, unpack_states
from sash.engine.query_state import QueryState, Work
from sash.engine.single_user import SingleUser
from sash.plan.api_types import EventTime, Frame, Mode
from sash.plan.bound_query import MODES
from sash.plan.categories import schema_with_categories
from sash.plan.queries import ALONE, Queries
from sash.plan.query import Query
from sash.stores import Store
from sash.stores.store import checked_store
from sash.windows.arguments import Length
from sash.windows.specs import Closed

Found = TypeVar("Found")
"""What a call gives: a batch, or a batch for each query by name."""

Time = TypeVar("Time")
"""A time, or one for each query by name."""

Counts = TypeVar("Counts")
"""Metrics, or those of each query by name."""

Batches = dict[str, pa.RecordBatch]
"""A record batch for each query, by name."""

Observer = Callable[[Any, float], object]
"""Called after a call that has succeeded, with its results and its seconds."""


# --- Calls on one state or several ---


class AtomicCalls(PublicNames, Generic[Found, Time, Counts]):
    """The calls of an operator on its states, n ≥ 1: each call on all of them, or on none.

    names: those of several queries, in their order; None for one query, which has no name.
    joint: the store of several states; the state of one query has its store itself.
    """

    observer: Observer | None = None
    """Called in the thread of the call."""

    state_type: ClassVar[type[QueryState]] = QueryState

    def __init__(
        self, states: list[QueryState], mode: Mode, names: Sequence[str] | None = None, joint: JointStore | None = None
    ) -> None:
        self.states, self.mode, self.names, self.joint = states, mode, names, joint
        self._single = SingleUser("the operator")
        self._before: list[tuple[QueryState, Progress]] = []
        """States with an uncommitted attempt, and their progress before it."""
        self._settling: list[QueryState] = []
        """States whose call is committed, but whose undo journal may not be discarded yet."""

    def _shaped(self, found: Sequence[Any], states: Sequence[QueryState]) -> Any:
        """What a call gives, from what some states give: of one query that alone, of several a dict by query."""
        if self.names is None:
            return found[0]
        by_name: dict[str, Any] = {}
        for state, one in zip(states, found, strict=True):
            by_name |= state.by_query(one)
        return {name: by_name[name] for name in self.names if name in by_name}

    # ---- what users call ----

    def process(
        self,
        batch: pa.RecordBatch | Frame | Mapping[str, Any],
        *,
        offset: Any = None,
        before_commit: BeforeCommit | None = None,
    ) -> Found:
        """Take a batch of rows, and return the results that are due now. Not after `finish`.

        batch: a RecordBatch or a Table of pyarrow, a DataFrame of pandas or polars, or a dict of columns.
        offset: the position of the source after this batch, as a JSON value. It is saved with the state.
        before_commit: called with an `Uncommitted` before the state is saved. If it raises, the call changes nothing.
            Of several queries its results, late rows and watermark are dicts by query.

        Raises ValueError if its columns are not those of the query's schema, for an out-of-order row
        without `lateness`, and for a late one with `late="error"`. An exception of a monoid names the row and its key,
        and of several queries a note names those that have failed.
        """
        if not isinstance(batch, pa.RecordBatch):
            batch = record_batch(batch, self.schema)
        if len(self.states) > 1 and self.schema is None:  # all queries fit the batch, or none is opened with it
            for state in self.states:
                state.noted(lambda one: one.query.bind(schema_with_categories(batch)))
        return self.call(lambda state: state.processing(batch), offset, before_commit)

    def advance(self, watermark: EventTime | np.datetime64 | pa.Scalar, *, offset: Any = None) -> Found:
        """Raise the watermark, and return the results that are final now; of several queries that of those with `on`.

        watermark: no earlier row will come. A datetime, `pd.Timestamp`, date or Arrow scalar, or for a column of
            numbers a number. A value below the current watermark changes nothing.
        offset: the position of the source, as for `process`.

        Raises ValueError in mode "sorted" and without `on`.
        """
        any_timed = any(state.query.on for state in self.states)

        def work(state: QueryState) -> Work:
            if state.query.on or not any_timed:
                return state.advancing(watermark)
            return lambda _: (state.output.empty(), {})

        return self.call(work, offset)

    def finish(self, *, offset: Any = None, before_commit: BeforeCommit | None = None) -> Found:
        """End the stream: the watermark becomes infinite, and all remaining results are returned.

        offset, before_commit: as for `process`.
        """
        return self.call(QueryState.finishing, offset, before_commit)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Found]:
        """Process a stream of batches: yields the results of each, and those of the end."""
        for batch in batches:
            yield self.process(batch)
        yield self.finish()

    def lookup(
        self,
        keys: GivenKeys,
        at: GivenTime | None = None,
        last: Length | None = None,
        closed: Closed | None = None,
    ) -> Found:
        """Return the current aggregates of some keys, without a change of state.

        The result has the columns of `by`, then those of the aggregates. Rows in the reorder buffer count. A window
        with `every` is the slide in progress. A key without rows in its window, an unknown one too, has what an empty
        window gives: 0 for `count`, null for most others. So has a key that `forget` has expired at that time. Several
        queries give the results of those that are partitioned by these columns.

        With `closed` and `at` the results are those of `query.as_of` at that time, for windows without `every`:
        `op.lookup(keys, at=t, closed="left")` has the events before t.

        keys: the columns of `by`, each with its values: a dict, a frame of pandas or polars, a RecordBatch or Table.
        at: the time at which the windows end, as `advance` takes it. By default that of the newest row of all keys, or
            the watermark if `advance` has raised it further: what a key gets does not depend on the other keys asked
            for. Without `on` the windows of a key end at its last row.
        last: a shorter range to aggregate than the size of the window.
        closed: which ends belong to the windows, as in `sash.as_of`; by default those of the query.

        Raises ValueError for other columns, for a range that the window does not hold, and for a time before the
        watermark.
        """
        asked = self.states
        if len(asked) > 1:
            named: Any = keys.schema.names if hasattr(keys, "schema") else keys
            names = set(named)
            asked = [state for state in asked if set(state.query.by) == names] or asked
        with self._single.reading:
            self._recover()
            found: Found = self._shaped([state.lookup(keys, at, last, closed) for state in asked], asked)
            return found

    def late_rows(self) -> Found:
        """Return the rows that were late or untimed since the last call, as they came; queries of one state agree."""
        with self._single:
            late: Found = self._all(QueryState.late_rows)
            return late

    def failed_rows(self) -> Found:
        """Return the rows on which an aggregate failed since the last call, with the message in the column `_error`.

        There are some only with `Options(failed="side")`; without it the first is an error.
        """
        with self._single:
            failed: Found = self._all(QueryState.failed_rows)
            return failed

    def snapshot(self) -> bytes:
        """Return the whole state, for `restore`.

        Raises TypeError for a store outside of memory, and for several queries with a store.
        """
        with self._single.reading:
            self._recover()
            if self.joint is not None:
                raise TypeError(f"the state is in the store {self.joint.store!r}: open an operator on that store")
            parts = [state.snapshot() for state in self.states]
        return parts[0] if self.names is None else pack_states(self.mode, [state.names for state in self.states], parts)

    # ---- properties ----

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the batches; None before the first batch of an operator without a schema."""
        return self.states[0].schema

    @property
    def watermark(self) -> Time:
        """The watermark, in units of the time column; None before there is one. Of several queries, that of each."""
        found: Time = self._now(lambda state: state.watermark)
        return found

    @property
    def offset(self) -> Any:
        """The last `offset=` that was passed to a call: where to continue reading after a restart."""
        found = self._now(lambda state: state.offset)
        return found if self.names is None else next(iter(found.values()))

    @property
    def due(self) -> Time:
        """The least watermark at which something is due, in units of the time column; None if nothing is."""
        found: Time = self._each(lambda state: state.due)
        return found

    @property
    def metrics(self) -> Counts:
        """Counters of the operator, and the size of its state. Queries that share a state have the same."""
        found: Counts = self._each(lambda state: state.metrics)
        return found

    # ---- observers ----

    def set_observer(self, observer: Observer) -> None:
        """Notify an observer of all further calls. Raises ValueError if there is one already."""
        if self.observer is not None:
            raise ValueError(f"{self!r} is watched already: use the page that watches it, or call its unwatch() first")
        self.observer = observer

    def remove_observer(self) -> None:
        """Notify no observer any more."""
        self.observer = None

    # ---- one call, all or nothing ----

    def call(
        self, work: Callable[[QueryState], Work], offset: Any = None, before_commit: BeforeCommit | None = None
    ) -> Found:
        """Do the work of a call on all states, commit it, and notify the observer."""
        observer, start = self.observer, clocks.perf_counter()
        if offset is not None:
            offset = json_copy("offset=", offset)
        with self._single:
            found = self._committed(work, offset, before_commit)
        if observer is not None:
            observer(found, clocks.perf_counter() - start)
        return found

    def _committed(self, work: Callable[[QueryState], Work], offset: Any, before_commit: BeforeCommit | None) -> Found:
        states = self.states
        self._recover()
        if self.joint is not None:
            self.joint.require_owner()
        works = [state.noted(work) for state in states]
        results, reached = [], []
        try:
            for state, mine in zip(states, works, strict=True):
                self._before.append((state, state.progress))
                result, progress = state.noted(QueryState.attempt, mine, offset)
                results.append(result)
                reached.append(progress)
            found: Found = self._shaped(results, states)
            if before_commit is not None:
                before_commit(self._uncommitted(found, reached))
            for state, progress in zip(states, reached, strict=True):
                state.save(progress)
            if self.joint is not None:
                self.joint.commit()
        except BaseException:
            self._recover()
            raise
        # the call has succeeded: an interrupt from here on must not take back some of the states
        vars(self).update(_before=[], _settling=[*states])  # one call in C, as `all_at_once`
        self._settle()
        return found

    def _uncommitted(self, found: Any, reached: Sequence[Progress]) -> Uncommitted:
        states = self.states
        pairs = [*zip(states, reached, strict=True)]
        late = self._shaped([state.newly_late(progress) for state, progress in pairs], states)
        failed = self._shaped([state.newly_failed(progress) for state, progress in pairs], states)
        return Uncommitted(found, late, self._shaped([one.watermark for one in reached], states), failed)

    def _settle(self) -> None:
        """Discard the undo journals of a call that has succeeded. May be interrupted, and called again."""
        while self._settling:
            self._settling[-1].settle()
            self._settling.pop()

    def _recover(self) -> None:
        """Restore all states before a failed call. May be interrupted, and called again."""
        if self._settling:
            self._settle()
        if self.joint is not None:
            self.joint.discard()
        commits_itself = self.joint is None and len(self.states) == 1
        while self._before:
            state, progress = self._before[-1]
            state.undo(progress, unless_saved=commits_itself)
            self._before.pop()

    def _all(self, value: Callable[[QueryState], Any]) -> Any:
        self._recover()
        return self._shaped([value(state) for state in self.states], self.states)

    def _each(self, value: Callable[[QueryState], Any]) -> Any:
        """A value of each state, when no call runs."""
        with self._single.reading:
            return self._all(value)

    def _now(self, value: Callable[[QueryState], Any]) -> Any:
        """A value that a call replaces at its end: of one query it may be asked for while a call runs."""
        return value(self.states[0]) if self.names is None else self._each(value)


# --- One query ---


class Operator(AtomicCalls[pa.RecordBatch, Watermark, Metrics]):
    """A streaming operator: computes a query on record batches, with keyed state alive between calls.

    query: what to compute.
    schema: the columns of the batches; without it, those of the state in the store, else those of the first batch.
    mode: how the watermark moves. "rows": it follows the times of the rows, `lateness` behind. "given": only `advance`
        moves it. "sorted": rows come ordered by key and time, and none is late.
    store: where the state is saved at the end of each call, and opened from. Without it, and without
        `Options(store=)`, the state is in memory only, and `snapshot()` saves it.
    clock: gives the current time in seconds since the epoch, for queries with `ahead`; `time.time` by default.

    >>> import pyarrow as pa, sash
    >>> op = sash.Query(2, by="k", high=sash.max("x")).operator()
    >>> op.process(pa.record_batch({"k": ["a", "b", "a", "a"], "x": [3, 9, 1, 2]})).to_pydict()
    {'k': ['a', 'b', 'a', 'a'], 'x': [3, 9, 1, 2], 'high': [3, 9, 3, 2]}

    One thread at a time changes an operator: a second one is refused with a RuntimeError. `lookup`, `snapshot` and the
    properties may be called from any thread. They wait for the call that runs, and answer from the state that it
    leaves. `query.reader(store)` does not wait.

    Raises ValueError for an unknown mode, and what `Query.bind` raises for a schema that does not fit.
    """

    def __init__(
        self,
        query: Query,
        schema: pa.Schema | None = None,
        *,
        mode: Mode = "rows",
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        require_mode(mode)
        state = self.state_type(query, [ALONE], schema, mode=mode, store=store, clock=clock)
        super().__init__([state], mode)

    @property
    def state(self) -> QueryState:
        """The only state."""
        return self.states[0]

    @property
    def query(self) -> Query:
        """The query."""
        return self.state.query

    @property
    def store(self) -> Store | None:
        """Where the state is saved; None: in memory only."""
        return self.state.store

    @classmethod
    def restore(cls, query: Query, data: bytes, *, clock: Callable[[], float] | None = None) -> Operator:
        """Return an operator with the state of a snapshot.

        query: the query of the operator that the snapshot was taken of.
        data: the bytes that `snapshot()` returned.
        clock: as for a new operator.

        Raises `PageError` if the snapshot is damaged or belongs to another query.
        """
        state, made = cls.state_type.restored(query, [ALONE], data, clock), cls.__new__(cls)
        AtomicCalls.__init__(made, [state], state.mode)
        return made

    @property
    def structures(self) -> dict[tuple[str, str], str]:
        """Which structure runs for each window and aggregate, by their names; an only window has the name ""."""
        found: dict[tuple[str, str], str] = self._each(lambda state: state.structures)
        return found

    # ---- what hosts call ----

    @contextmanager
    def attempting(self) -> Iterator[QueryState]:
        """A call whose caller does the work, up to `save`. If it raises or is abandoned, nothing has changed."""
        with self._single:
            self._recover()
            state = self.state
            self._before.append((state, state.progress))
            try:
                state.begin()
                yield state
            except BaseException:
                self._recover()
                raise
            vars(self).update(_before=[], _settling=[state])
            self._settle()

    def process_all(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Process all rows at once, in mode "sorted"; results of slides are ordered by key, then by end."""
        return self.call(lambda state: state.processing_sorted(batch, "nothing"))

    def absorb(self, batch: pa.RecordBatch) -> None:
        """Process rows in mode "sorted" and drop their results. No peer of the last row may follow."""
        self.call(lambda state: state.processing_sorted(batch, "rows"))

    def __repr__(self) -> str:
        now = None if self.schema is None else self.state.progress.watermark
        return f"<Operator of {self.query!r}, mode {self.mode!r}, watermark {now!r}>"


# --- Several queries ---


class QueriesOperator(AtomicCalls[Batches, dict[str, Watermark], dict[str, Metrics]]):
    """A streaming operator for several queries: each call returns a record batch for each of them, by name.

    queries: what to compute.
    schema, mode, clock: as for `Operator`.
    store: where the state of all queries is saved at the end of each call, with one commit.

    >>> import pyarrow as pa, sash
    >>> both = sash.Queries(high=sash.Query(2, by="k", high=sash.max("x")), n=sash.Query(3, by="k", n=sash.count()))
    >>> op = both.operator()
    >>> found = op.process(pa.record_batch({"k": ["a", "a", "a"], "x": [3, 1, 2]}))
    >>> found["high"]["high"].to_pylist(), found["n"]["n"].to_pylist()
    ([3, 3, 2], [1, 2, 3])

    A call that fails has changed nothing. One thread at a time changes an operator; `lookup` and the properties may be
    called from any thread, and wait for the call that runs.
    """

    def __init__(
        self,
        queries: Queries,
        schema: pa.Schema | None = None,
        *,
        mode: Mode = "rows",
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        require_mode(mode)
        self.queries = queries
        combined = queries.groups(ordered=mode == "sorted")
        joint: JointStore | None = None
        if store is not None:
            together = queries.groups(ordered=mode == "sorted", one_state=True)
            if stored_groups(checked_store("store=", store)) == [list(one.members) for one in together]:
                combined = together  # written before failed="side" was set
            joint = JointStore(store, [list(one.members) for one in combined])
        parts = [None if joint is None else joint.part(number) for number in range(len(combined))]
        states = [
            self.state_type.of(query, schema, mode=mode, store=part, clock=clock)
            for query, part in zip(combined, parts, strict=True)
        ]
        super().__init__(states, mode, list(queries.queries), joint)

    @classmethod
    def restore(cls, queries: Queries, data: bytes, *, clock: Callable[[], float] | None = None) -> QueriesOperator:
        """Return an operator with the state of a snapshot.

        Raises `PageError` if the snapshot is damaged or belongs to other queries.
        """
        found = unpack_states(data)
        restored = cls(queries, mode=found.mode, clock=clock)
        require_groups("the snapshot", found.groups, [state.names for state in restored.states])
        restored.states = [
            state.restored(state.query, state.names, part, clock)
            for state, part in zip(restored.states, found.parts, strict=True)
        ]
        return restored

    def __repr__(self) -> str:
        return f"<QueriesOperator of {', '.join(self.queries.queries)}, mode {self.mode!r}>"


def require_mode(mode: str) -> None:
    """Raises ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"mode= must be one of {', '.join(map(repr, MODES))}; got {mode!r}")


def stream(query: Query | Queries, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """A query over an iterator of batches: one batch of results for each, and one at the end; of several a dict."""
    operator = query.operator()
    for found in operator.run(batches):
        operator.late_rows(), operator.failed_rows()  # drop them: the caller has no access to the operator
        yield found
