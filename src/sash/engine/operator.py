"""The operator: Arrow record batches in, Arrow record batches out, its state alive between calls.

    batch ──▶ watermark ──▶ reorder buffer ──▶ engine ──▶ emitter ──▶ batch
              late?         order              results    final, changes, eager
                 │                                │
                 ▼                                └──▶ pages of a store, at the end of a call
              late_rows()

Three modes: in "rows" the watermark follows the rows, in "given" only `advance` moves it, and "sorted" takes rows
ordered by key and time, so that none is late. A call that fails changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, together
from sash.columns.failed_rows import failed_schema
from sash.columns.keys import chosen_rows, plain_batch
from sash.columns.time_numbers import Watermark, finite, greater, stored_time_type
from sash.engine.atomic_calls import AtomicCalls, Work
from sash.engine.intake.input_checks import GivenKeys, GivenTime, check_schema, number, record_batch
from sash.engine.intake.progress import BeforeCommit, Changes, Progress, replace
from sash.engine.intake.reorder_buffer import TimedRows, joined_rows
from sash.engine.keyed.partials import export_partials, import_partials
from sash.engine.live_backend import LiveBackend
from sash.engine.operator_base import OpenedQuery
from sash.engine.operator_snapshot import SnapshotKind, pack_snapshot, unpack_snapshot
from sash.plan.api_types import EventTime, Frame, Mode
from sash.plan.bound_query import MODES
from sash.plan.categories import UnknownCategories, require_categories, schema_with_categories
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.state.header_page import token_of
from sash.state.page_transaction import Pages
from sash.state.root_page import stored_schema
from sash.stores import MemoryStore, Store
from sash.windows.arguments import Length
from sash.windows.specs import Closed

After = Literal["peers", "rows", "nothing"]
"""What may follow sorted rows: peers of the last one, only later rows and other keys, or nothing."""


class Operator(AtomicCalls):
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
        if mode not in MODES:
            raise ValueError(f"mode= must be one of {', '.join(map(repr, MODES))}; got {mode!r}")
        if mode == "sorted" and query.emit == "eager":
            raise ValueError("emit='eager' emits results before they are final; in mode 'sorted' every result is final")
        super().__init__(query, mode, store, clock)
        self._expected: pa.Schema | None = None
        """The schema that batches must have, if the operator is opened with the first of them."""
        if schema is None and self.store is not None:
            schema = stored_schema(query, self.store)
        if schema is not None:
            try:
                self._open(schema)
            except UnknownCategories:  # the first batch has them
                self._expected = schema

    def _reopen(self, opened: OpenedQuery) -> Progress:
        progress = super()._reopen(opened)
        opened.backend.claim()
        return progress

    def _lookup(
        self, keys: GivenKeys, at: GivenTime | None, last: Length | None, closed: Closed | None
    ) -> pa.RecordBatch:
        self.backend.require_owner()
        return super()._lookup(keys, at, last, closed)

    # ---- what users call ----

    def process(
        self,
        batch: pa.RecordBatch | Frame | Mapping[str, Any],
        *,
        offset: Any = None,
        before_commit: BeforeCommit | None = None,
    ) -> pa.RecordBatch:
        """Take a batch of rows, and return the results that are due now. Not after `finish`.

        batch: a RecordBatch or a Table of pyarrow, a DataFrame of pandas or polars, or a dict of columns.
        offset: the position of the source after this batch, as a JSON value. It is saved with the state.
        before_commit: called with an `Uncommitted` before the state is saved. If it raises, the call changes nothing.

        Raises ValueError if its columns are not those of the query's schema, for an out-of-order row
        without `lateness`, and for a late one with `late="error"`. An exception of a monoid names the row and its key.
        """
        return self.call(self.processing(batch), offset, before_commit)

    def advance(self, watermark: EventTime | np.datetime64 | pa.Scalar, *, offset: Any = None) -> pa.RecordBatch:
        """Raise the watermark, and return the results that are final now.

        watermark: no earlier row will come. A datetime, `pd.Timestamp`, date or Arrow scalar, or for a column of
            numbers a number. A value below the current watermark changes nothing.
        offset: the position of the source, as for `process`.

        Raises ValueError in mode "sorted" and without `on`.
        """
        return self.call(self.advancing(watermark), offset)

    def finish(self, *, offset: Any = None, before_commit: BeforeCommit | None = None) -> pa.RecordBatch:
        """End the stream: the watermark becomes infinite, and all remaining results are returned.

        offset, before_commit: as for `process`.
        """
        return self.call(self.finishing(), offset, before_commit)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a stream of batches: yields a batch of results for each, and one at the end."""
        for batch in batches:
            yield self.process(batch)
        yield self.finish()

    def late_rows(self) -> pa.RecordBatch:
        """Return the rows that were late or untimed since the last call, as they came."""
        self._require_schema("late_rows")
        with self._single:
            self._recover()
            late = self.progress.late_rows
            self.progress = replace(self.progress, {"late_rows": ()})
            return together(late, self.schema)

    def failed_rows(self) -> pa.RecordBatch:
        """Return the rows on which an aggregate failed since the last call, with the message in the column `_error`.

        There are some only with `Options(failed="side")`; without it the first is an error.
        """
        self._require_schema("failed_rows")
        assert self.schema is not None
        with self._single:
            self._recover()
            found = [failed.batch() for failed in self.progress.failed_rows]
            self.progress = replace(self.progress, {"failed_rows": ()})
            return together(found, failed_schema(self.schema))

    def snapshot(self) -> bytes:
        """Return the whole state, for `Operator.restore`. Raises TypeError for a store outside of memory."""
        self._require_schema("snapshot")
        with self._single.reading:
            return self._snapshot()

    def _snapshot(self) -> bytes:
        assert self.schema is not None
        self._recover()
        self.backend.require_owner()
        now = self.progress
        if self.store is None:
            store = self.backend.save(self.header())
        elif isinstance(self.store, MemoryStore):
            store = self.store
        else:
            raise TypeError(f"the state is in the store {self.store!r}: open an operator on that store instead")
        kind = SnapshotKind(self.schema, self.bound_query.fingerprint, self.mode)
        failed = [one.batch() for one in now.failed_rows]
        return pack_snapshot(kind, dict(store.items()), now.late_rows, failed)

    @classmethod
    def restore(cls, query: Query, data: bytes, *, clock: Callable[[], float] | None = None) -> Operator:
        """Return an operator with the state of a snapshot.

        query: the query of the operator that the snapshot was taken of.
        data: the bytes that `snapshot()` returned.
        clock: as for a new operator.

        Raises `PageError` if the snapshot is damaged or belongs to another query.
        """
        if query.options.memory is not None:
            raise ValueError("memory= of Options needs a store, and the state of a snapshot is restored to memory")
        found = unpack_snapshot(query, data)
        store, mode = MemoryStore(found.pages), cast(Mode, found.mode)
        operator = cls(query, found.schema, mode=mode, store=store, clock=clock)
        operator.backend.into_memory()
        operator.store = None
        if found.late_rows:
            operator.progress = replace(operator.progress, {"late_rows": found.late_rows})
        if found.failed_rows:
            operator.progress = replace(operator.progress, {"failed_rows": found.failed_rows})
        return operator

    # ---- from one micro-batch to the next ----

    @property
    def token(self) -> str:
        """Identifies the live state: a store with an equal token has the same state. "" if there is none."""
        return self.committed_token if isinstance(self.backend, LiveBackend) else ""

    @property
    def committed_token(self) -> str:
        """The token of the last commit to the store; "" if there was none."""
        return "" if self.backend.durable is None else self.backend.durable.token

    def reopen(self, store: Store, clock: Callable[[], float]) -> None:
        """Continue on another store whose state has this operator's token: nothing is read from it."""
        self.store, self.clock = store, clock
        self.opened.watermark_tracker.use_clock(clock)
        self.progress = replace(self.progress, {"late_rows": (), "failed_rows": ()})
        durable = self._live.durable
        assert durable is not None
        durable.transaction.move(store)

    def continue_from(self, progress: Progress) -> None:
        """Take over the progress of another operator, whose state this one has."""
        self.progress = progress

    @staticmethod
    def stored_token(query: Query, schema: pa.Schema, store: Store) -> str | None:
        """The token of the state that a store has; None if it has none."""
        bound_query = query.bind(schema)
        return token_of(Pages(store, bound_query.fingerprint), stored_time_type(bound_query))

    def process_all(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Process all rows at once, in mode "sorted"; results of slides are ordered by key, then by end."""
        assert self.mode == "sorted"
        self.output.sort_by_key()
        return self.call(lambda progress: self._process(batch, progress, "nothing"))

    # ---- partials: windows that another operator continues ----

    def absorb(self, batch: pa.RecordBatch) -> None:
        """Process rows in mode "sorted" and drop their results. No peer of the last row may follow."""
        assert self.mode == "sorted"
        self.call(lambda progress: self._process(batch, progress, "rows"))

    def export_partials(self) -> list[pa.RecordBatch]:
        """Return the partials of the operator's only key, for each group of windows, for `import_partials`."""
        with self._single:
            self._recover()
            return export_partials(self._live.engine)

    def import_partials(self, keys: Sequence[pa.Array], partials: Sequence[list[pa.RecordBatch]]) -> None:
        """Start from partials: for each group of windows those of all earlier operators, in order. `keys`: the key."""
        with self._single:
            before = import_partials(self._live.engine, keys, partials)
            self.progress = replace(self.progress, {"before": before})

    @property
    def _live(self) -> LiveBackend:
        assert isinstance(self.backend, LiveBackend)
        return self.backend

    # ---- the work of a call ----

    def processing(self, batch: pa.RecordBatch | Frame | Mapping[str, Any]) -> Work:
        """The work of `process`: checks the columns of a batch, and opens the operator with the first one."""
        if not isinstance(batch, pa.RecordBatch):
            batch = record_batch(batch, self.schema)
        if self._opened is None:
            if self._expected is not None:
                check_schema(batch.schema, self._expected)
            with self._single:
                self._open(schema_with_categories(batch))
        opened, given = self.opened, batch.schema
        if given is not opened.schema:
            if not given.equals(opened.schema):
                check_schema(given, opened.schema)
            if opened.categories:
                require_categories(batch, opened.categories)
        return partial(self._process, batch)

    def advancing(self, watermark: Any) -> Work:
        """The work of `advance`."""
        self._require_schema("advance")
        if self.bound_query.time is None or self.mode == "sorted":
            why = "the query has no on=" if self.bound_query.time is None else "in mode 'sorted' nothing is late"
            raise ValueError(f"advance() raises the watermark, and this operator has none: {why}")
        return self.advancing_to(number(watermark, self.bound_query.time))

    def advancing_to(self, reached: Watermark) -> Work:
        """The work of `advance`, to a number in units of the time column."""
        return self._finish if reached == math.inf else lambda progress: self._advance(reached, progress)

    def finishing(self) -> Work:
        """The work of `finish`."""
        self._require_schema("finish")
        return self._finish

    def _process(self, batch: pa.RecordBatch, now: Progress, after: After = "peers") -> tuple[pa.RecordBatch, Changes]:
        if now.watermark == math.inf:
            raise ValueError(
                "process() after finish(): the stream has ended, and every further row would be late. Make a new "
                "operator" + (" on a new store" if self.store is not None else "") + ", and call finish() only where "
                "no row follows"
            )
        opened = self.opened
        first, stop = now.rows_in, now.rows_in + batch.num_rows
        classified = opened.watermark_tracker.classify(batch, now.watermark, first)
        all_taken = classified.all_taken
        if not all_taken:
            opened.watermark_tracker.refuse(classified, batch)
        newest = greater(now.newest, classified.newest)
        changes: Changes = {"watermark": classified.watermark, "rows_in": stop, "newest": newest}
        if not opened.limits.has_none:
            opened.limits.require(batch, classified.time, classified.taken)
        arrival = np.arange(first, stop, dtype=np.int64)  # with its type it takes two thirds of the time
        table = plain_batch(batch, opened.plain)
        if all_taken:
            return self._taken(TimedRows(table, classified.time, arrival), now, changes, after), changes
        taken, rejected = classified.taken, ~classified.taken
        late = chosen_rows(batch, opened.schema, opened.plain, rejected)
        changes["late"], changes["untimed"] = now.late + classified.late_rows, now.untimed + classified.untimed_rows
        if self.mode != "sorted":
            changes["late_rows"] = (*now.late_rows, late)
        given = TimedRows(table.filter(array(taken)), classified.time[taken], arrival[taken])
        found = self._taken(given, now, changes, after)
        if opened.output.takes_late:
            found = opened.output.with_late(found, late, arrival[rejected])
        return found, changes

    def _taken(self, given: TimedRows, now: Progress, changes: Changes, after: After) -> pa.RecordBatch:
        """Process rows that are not late, and return what is due; rows that fail are set aside.

        Raises ValueError if an expression fails, unless such rows are to be set aside.
        """
        if self.mode == "sorted":
            return self._sorted_step(given, now, changes, after)
        opened = self.opened
        backend, checks = opened.backend, opened.checks
        if checks.columns or checks.lifts:
            given, _ = self._without_failed(given, now, changes, self._cautious or backend.buffers)
        return backend.step(given, finite(changes["watermark"]))

    def _sorted_step(self, given: TimedRows, now: Progress, changes: Changes, after: After) -> pa.RecordBatch:
        """Take sorted rows. The last ones of equal key and time wait: more of them may follow."""
        if now.held is not None:
            given = joined_rows([now.held, given])
        given, failed = self._without_failed(given, now, changes, self._cautious)
        sorted_rows, time = self.opened.sorted_rows, self.bound_query.time
        sorted_rows.check(given.table, given.time)
        hold = sorted_rows.waiting(given.table, given.time) if after == "peers" and time is not None else 0
        rest = len(given) - hold
        before = given.time[-1].item() if len(given) and time is not None else now.before
        result = self._live.sorted_step(given, rest, before, after == "nothing")
        changes |= {"before": before, "held": given.slice(rest, len(given)) if hold else None}
        if failed is not None and self.output.takes_late:
            result = self.output.with_late(result, failed.rows, failed.arrival)
        return result

    def _advance(self, reached: Any, now: Progress) -> tuple[pa.RecordBatch, Changes]:
        if now.watermark is not None and reached <= now.watermark:
            return self.output.empty(), {}
        found = self.backend.advance(reached, closing=False)
        return found, {"watermark": reached, "newest": greater(now.newest, reached)}

    def _finish(self, now: Progress) -> tuple[pa.RecordBatch, Changes]:
        over: Changes = {"watermark": math.inf}
        if self.mode != "sorted":
            return self.backend.advance(None, closing=True), over
        return self._sorted_step(self._live.nothing, now, over, "nothing"), over

    def __repr__(self) -> str:
        now = None if self.schema is None else self.progress.watermark
        return f"<Operator of {self.query!r}, mode {self.mode!r}, watermark {now!r}>"


def stream(query: Query | Queries, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """A query over an iterator of batches: one batch of results for each, and one at the end; of several a dict."""
    operator = query.operator()
    for found in operator.run(batches):
        operator.late_rows(), operator.failed_rows()  # drop them: the caller has no access to the operator
        yield found
