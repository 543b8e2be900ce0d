"""The operator of several queries: a batch in, a batch out for each query, one state for those that can share it.

             ┌─▶ Operator of a group ───────▶ batches of its queries ─┐
    batch ───┤                                                        ├──▶ dict of batches
             └─▶ Operator of a query alone ─▶ its batch ──────────────┘
                      │
                      └──▶ one commit of all to the store

A call is atomic over all queries: each operator does its work, then one write commits the pages of all. If an operator
or the write fails, the state of all queries is unchanged.

One store for several operators: each has pages of its own, and one call writes those of all of them at once.

    operator 0 ──put_many──▶ g0.header g0.b00 … ┐
    operator 1 ──put_many──▶ g1.header g1.b00 … ┴──commit──▶ put_many of the store, atomic

The page `root` lists the queries of each operator: an operator of other queries, or of a single query, is refused.

Snapshots of several queries: pack and unpack the snapshots of their operators.
"""

from __future__ import annotations

import json
import time as clocks
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import together
from sash.columns.time_numbers import Watermark
from sash.engine.atomic import all_at_once, attributes
from sash.engine.atomic_calls import Work
from sash.engine.emit.output import ResultBatches
from sash.engine.intake.input_checks import json_copy, record_batch
from sash.engine.intake.progress import BeforeCommit, Metrics, Progress, Uncommitted
from sash.engine.operator import Operator
from sash.engine.operator_base import ObservedCalls
from sash.engine.single_user import SingleUser
from sash.plan.api_types import EventTime, Frame, Mode
from sash.plan.bound_query import MODES
from sash.plan.categories import schema_with_categories
from sash.plan.queries import CombinedQuery, Queries
from sash.state.page_transaction import StoreOwner
from sash.state.root_page import HEADER, ROOT
from sash.stores import PageError, Store
from sash.stores.envelope import check_meta, damaged, decoding, list_of, one_of, read_json, text, unwrap, wrap
from sash.stores.store import checked_store
from sash.windows.arguments import Length

# --- Queries snapshot ---

KIND = "queries"
ANY = "0" * 32
_NAME = "the snapshot"


class QueriesSnapshot(NamedTuple):
    """The content of a snapshot of several queries."""

    mode: Mode
    groups: list[list[str]]
    parts: list[bytes]


def pack_operators(mode: str, groups: Sequence[Sequence[str]], parts: Sequence[bytes]) -> bytes:
    """The snapshots of operators as one; `groups` are the names of their queries."""
    directory = json.dumps({"mode": mode, "groups": [list(names) for names in groups]}).encode()
    return wrap(KIND, ANY, [directory, *parts])


def unpack_operators(data: bytes) -> QueriesSnapshot:
    """Read a snapshot. Raises PageError if it is damaged."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a snapshot is the bytes that snapshot() returns; got a {type(data).__name__}")
    directory, *parts = unwrap(bytes(data), KIND, ANY, _NAME)
    with decoding(_NAME):
        meta = read_json(directory)
    check_meta(meta, {"mode": one_of(*MODES), "groups": list_of(list_of(text()))}, _NAME)
    if len(parts) != len(meta["groups"]):
        raise damaged(_NAME, f"it lists {len(meta['groups'])} operators and has {len(parts)}")
    return QueriesSnapshot(cast(Mode, meta["mode"]), meta["groups"], list(map(bytes, parts)))


def require_groups(what: str, found: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> None:
    """Raises PageError for state of other queries, or of the same in other groups."""
    if [list(names) for names in found] != [list(names) for names in expected]:
        raise PageError(
            f"{what} has the state of other queries, or of queries that do not share state as these do: it has "
            f"{_listed(found)}; expected {_listed(expected)}"
        )


def _listed(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(names) for names in groups)


# --- Joint store ---

_LABEL = f"page {ROOT!r}"


class JointStore(StoreOwner):
    """Collects what operators write in a call, and passes it to the store as one."""

    def __init__(self, store: Store, groups: Sequence[Sequence[str]]) -> None:
        self.store, self.groups = store, [list(names) for names in groups]
        self._waiting: dict[str, bytes] = {}
        self._has_root = self._check()
        self.claim()

    def _check(self) -> bool:
        """Has the store state of these queries? Raises PageError if it has that of others."""
        stored = stored_groups(self.store)
        if stored is not None:
            require_groups(f"the store {self.store!r}", stored, self.groups)
        return stored is not None

    def part(self, number: int) -> StorePart:
        """The pages of one operator."""
        return StorePart(self, f"g{number}.")

    def put(self, pages: Mapping[str, bytes]) -> None:
        """Pages that `commit` writes."""
        self._waiting.update(pages)

    def get(self, names: Sequence[str]) -> list[bytes | None]:
        """Pages as the operators have written them, including uncommitted ones."""
        found = self.store.get_many(names)
        return [self._waiting.get(name, page) for name, page in zip(names, found, strict=True)]

    def commit(self) -> None:
        """Write all uncommitted pages, or none."""
        pages = self._waiting
        if not self._has_root:
            pages = {**pages, ROOT: wrap(KIND, ANY, [json.dumps({"groups": self.groups}).encode()])}
        self.store.put_many(pages)
        self._waiting, self._has_root = {}, True

    def discard(self) -> None:
        """Discard the uncommitted pages."""
        self._waiting = {}


def stored_groups(store: Store) -> list[list[str]] | None:
    """The queries of each operator whose state a store has; None if it is empty. Raises PageError for other state."""
    root, header = store.get_many([ROOT, HEADER])
    if root is None and header is None:
        return None
    if root is None or header is not None:
        raise PageError(f"the store {store!r} has the state of a single query: open it with that query")
    items = unwrap(root, KIND, ANY, _LABEL)
    with decoding(_LABEL):
        meta = read_json(items[0])
    check_meta(meta, {"groups": list_of(list_of(text()))}, _LABEL)
    found: list[list[str]] = meta["groups"]
    return found


class StorePart:
    """The pages of one operator in a joint store. Deletes take effect at once: operators delete after their commit."""

    def __init__(self, joint: JointStore, prefix: str) -> None:
        self.joint, self.prefix = joint, prefix

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for one that is not there."""
        return self.joint.get([self.prefix + name for name in ids])

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Write these pages with the joint store's commit."""
        self.joint.put({self.prefix + name: page for name, page in pages.items()})

    def delete_many(self, ids: Iterable[str]) -> None:
        """Delete these pages, all of them or none."""
        self.joint.store.delete_many([self.prefix + name for name in ids])

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names."""
        for name, page in self.joint.store.scan(self.prefix + prefix):
            yield name.removeprefix(self.prefix), page

    def close(self) -> None:
        """Do nothing: the store belongs to the queries."""

    def __repr__(self) -> str:
        return repr(self.joint.store)


# --- Queries operator ---

T = TypeVar("T")

Batches = dict[str, pa.RecordBatch]
"""A record batch for each query, by name."""


@dataclass(frozen=True)
class QueryGroup:
    """Queries with one state: their operator, and their names."""

    operator: Operator
    names: list[str]

    @classmethod
    def of(
        cls,
        query: CombinedQuery,
        schema: pa.Schema | None,
        *,
        mode: Mode,
        store: Store | None,
        clock: Callable[[], float] | None,
    ) -> QueryGroup:
        """Open an operator for queries that share state; equal queries, and one alone, need no combined one."""
        first, *others = query.members.values()
        made = first if all(first == other for other in others) else query
        return cls(Operator(made, schema, mode=mode, store=store, clock=clock), list(query.members))

    def restored(self, data: bytes, clock: Callable[[], float] | None) -> QueryGroup:
        """The same queries with the state of a snapshot."""
        return QueryGroup(type(self.operator).restore(self.operator.query, data, clock=clock), self.names)

    def by_query(self, found: T) -> dict[str, T]:
        """Results of the operator, or a value of it, by query."""
        return found if isinstance(found, ResultBatches) else dict.fromkeys(self.names, found)

    def noted(self, call: Callable[[Operator], T]) -> T:
        """Make a call; an error gets a note with the names of the queries."""
        try:
            return call(self.operator)
        except Exception as error:
            error.add_note(f"in the queries {', '.join(self.names)}")
            raise


class QueriesOperator(ObservedCalls):
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
        self.queries, self.mode = queries, mode
        combined = queries.groups(ordered=mode == "sorted")
        self.joint: JointStore | None = None
        if store is not None:
            together = queries.groups(ordered=mode == "sorted", one_state=True)
            if stored_groups(checked_store("store=", store)) == [list(one.members) for one in together]:
                combined = together  # written before failed="side" was set
            self.joint = JointStore(checked_store("store=", store), [list(one.members) for one in combined])
        self.groups: list[QueryGroup] = []
        for number, query in enumerate(combined):
            part = None if self.joint is None else self.joint.part(number)
            self.groups.append(QueryGroup.of(query, schema, mode=mode, store=part, clock=clock))
        self._single = SingleUser("the operator")
        self._before: list[tuple[QueryGroup, Progress]] = []
        """Groups with an uncommitted attempt, and their progress before it."""
        self._settling: list[QueryGroup] = []
        """Groups whose call is committed, but whose undo journal may not be discarded yet."""

    # ---- what users call ----

    def process(
        self,
        batch: pa.RecordBatch | Frame | Mapping[str, Any],
        *,
        offset: Any = None,
        before_commit: BeforeCommit | None = None,
    ) -> Batches:
        """Take a batch of rows, and return the results of each query that are due now.

        batch, offset, before_commit: as for `Operator.process`. Results, late rows and watermark of `Uncommitted` are
            dicts by query.

        Raises as `Operator.process`; a note names the queries.
        """
        if not isinstance(batch, pa.RecordBatch):
            batch = record_batch(batch, self.schema)
        if self.schema is None:  # all queries fit the batch, or none is opened with it
            for group in self.groups:
                group.noted(lambda operator: operator.query.bind(schema_with_categories(batch)))
        return self._call(lambda operator: operator.processing(batch), offset, before_commit)

    def advance(self, watermark: EventTime | np.datetime64 | pa.Scalar, *, offset: Any = None) -> Batches:
        """Raise the watermark of all queries that have an `on`, and return the results that are final now.

        Raises ValueError in mode "sorted", and if no query has an `on`.
        """
        any_timed = any(group.operator.query.on for group in self.groups)

        def work(operator: Operator) -> Work:
            if operator.query.on or not any_timed:
                return operator.advancing(watermark)
            return lambda _: (operator.output.empty(), {})

        return self._call(work, offset)

    def finish(self, *, offset: Any = None, before_commit: BeforeCommit | None = None) -> Batches:
        """End the stream: the watermark becomes infinite, and all remaining results are returned.

        offset, before_commit: as for `process`.
        """
        return self._call(lambda operator: operator.finishing(), offset, before_commit)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batches]:
        """Process a stream of batches: yields a dict of results for each, and one at the end."""
        for batch in batches:
            yield self.process(batch)
        yield self.finish()

    def lookup(
        self,
        keys: Mapping[str, Any] | pa.RecordBatch,
        at: EventTime | np.datetime64 | pa.Scalar | None = None,
        last: Length | None = None,
    ) -> Batches:
        """Return the current aggregates of some keys, for each query that is partitioned by these columns.

        keys, at, last: as for `Operator.lookup`. Raises ValueError if no query is partitioned by these columns.
        """
        names = set(keys.schema.names if hasattr(keys, "schema") else keys)
        asked = [group for group in self.groups if set(group.operator.query.by) == names] or self.groups
        with self._single.reading:
            self._recover()
            return self._named(group.by_query(group.operator.lookup(keys, at, last)) for group in asked)

    def late_rows(self) -> Batches:
        """Return the rows that were late or untimed since the last call, by query; queries that share state agree."""
        with self._single:
            return self._all(lambda operator: operator.late_rows())

    def failed_rows(self) -> Batches:
        """Return the rows on which an aggregate of a query failed since the last call, with `_error`, by query."""
        return self._each(lambda operator: operator.failed_rows())

    def snapshot(self) -> bytes:
        """Return the whole state, for `QueriesOperator.restore`. Raises TypeError for queries with a store."""
        with self._single.reading:
            self._recover()
            if self.joint is not None:
                raise TypeError(f"the state is in the store {self.joint.store!r}: open an operator on that store")
            names = [group.names for group in self.groups]
            return pack_operators(self.mode, names, [group.operator.snapshot() for group in self.groups])

    @classmethod
    def restore(cls, queries: Queries, data: bytes, *, clock: Callable[[], float] | None = None) -> QueriesOperator:
        """Return an operator with the state of a snapshot.

        Raises `PageError` if the snapshot is damaged or belongs to other queries.
        """
        found = unpack_operators(data)
        restored = cls(queries, mode=found.mode, clock=clock)
        require_groups("the snapshot", found.groups, [group.names for group in restored.groups])
        groups = zip(restored.groups, found.parts, strict=True)
        restored.groups = [group.restored(part, clock) for group, part in groups]
        return restored

    # ---- properties ----

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the batches; None before they are known."""
        return self.groups[0].operator.schema

    @property
    def watermark(self) -> dict[str, Watermark]:
        """The watermark of each query, in units of its time column; None before there is one."""
        return self._each(lambda operator: operator.watermark)

    @property
    def metrics(self) -> dict[str, Metrics]:
        """Counters by query. Queries that share a state have the same counters: those of the shared state."""
        return self._each(lambda operator: operator.metrics)

    @property
    def offset(self) -> Any:
        """The last `offset=` that was passed to a call: where to continue reading after a restart."""
        with self._single.reading:
            self._recover()
            return self.groups[0].operator.offset

    @property
    def due(self) -> dict[str, Watermark]:
        """By query: the least watermark at which something is due; None if nothing is."""
        return self._each(lambda operator: operator.due)

    # ---- one call, all or nothing ----

    def _call(
        self, work: Callable[[Operator], Work], offset: Any = None, before_commit: BeforeCommit | None = None
    ) -> Batches:
        offset, observer, start = json_copy("offset=", offset), self.observer, clocks.perf_counter()
        with self._single:
            self._recover()
            if self.joint is not None:
                self.joint.require_owner()
            works = [group.noted(work) for group in self.groups]
            try:
                found = self._named([self._attempted(*one, offset) for one in zip(self.groups, works, strict=True)])
                if before_commit is not None:
                    before_commit(self._uncommitted(found))
                if self.joint is not None:
                    self.joint.commit()
            except BaseException:
                self._recover()
                raise
            # the call has succeeded: an interrupt from here on must not take back some of the operators
            all_at_once(attributes(self, _before=[], _settling=[*self.groups]))
            self._settle()
        if observer is not None:
            observer(found, clocks.perf_counter() - start)
        return found

    def _settle(self) -> None:
        """Discard the undo journals of a call that has succeeded. May be interrupted, and called again."""
        while self._settling:
            self._settling[-1].operator.settle()
            self._settling.pop()

    def _attempted(self, group: QueryGroup, work: Work, offset: Any) -> dict[str, Any]:
        self._before.append((group, group.operator.progress))
        return group.by_query(group.noted(lambda operator: operator.attempt(work, offset)))

    def _uncommitted(self, found: Batches) -> Uncommitted:
        late: dict[str, pa.RecordBatch] = {}
        failed: dict[str, pa.RecordBatch] = {}
        for group, before in self._before:
            reached = group.operator.progress
            late |= group.by_query(together(reached.late_rows[len(before.late_rows) :], self.schema))
            failed |= group.by_query(group.operator.newly_failed(before, reached))
        watermark = self._named(group.by_query(group.operator.progress.watermark) for group in self.groups)
        return Uncommitted(found, self._named([late]), watermark, self._named([failed]))

    def _recover(self) -> None:
        """Restore the state of all queries before a failed call. May be interrupted, and called again."""
        self._settle()
        if self.joint is not None:
            self.joint.discard()
        while self._before:
            group, progress = self._before[-1]
            group.operator.undo(progress)
            self._before.pop()

    # ---- by query ----

    def _each(self, value: Callable[[Operator], T]) -> dict[str, T]:
        with self._single.reading:
            return self._all(value)

    def _all(self, value: Callable[[Operator], T]) -> dict[str, T]:
        self._recover()
        return self._named(group.by_query(value(group.operator)) for group in self.groups)

    def _named(self, found: Iterable[dict[str, T]]) -> dict[str, T]:
        """Values by query, in the order of the queries."""
        by_name = {name: value for one in found for name, value in one.items()}
        return {name: by_name[name] for name in self.queries.queries if name in by_name}

    def __repr__(self) -> str:
        return f"<QueriesOperator of {', '.join(self.queries.queries)}, mode {self.mode!r}>"
