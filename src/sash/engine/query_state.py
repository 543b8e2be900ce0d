"""The state of one query, or of several that share it, and the work of a call on it.

begin ──▶ work ──▶ before_commit ──▶ save ──▶ settle
            │            │             │
            └────────────┴─────────────┴──▶ raises: undo, and the state is as it was before

An operator has one or several of them, and makes a call on all of them or on none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, together
from sash.columns.failed_rows import FailedRows, failed_schema, split_failed
from sash.columns.keys import chosen_rows, plain_batch
from sash.columns.time_numbers import Watermark, finite, greater, stored_time_type
from sash.engine.atomic import all_at_once, attributes
from sash.engine.emit.output import ResultBatches
from sash.engine.intake.input_checks import GivenKeys, GivenTime, check_schema, number
from sash.engine.intake.progress import Changes, Progress, replace
from sash.engine.intake.reorder_buffer import TimedRows, joined_rows
from sash.engine.keyed.partials import export_partials, import_partials
from sash.engine.live_backend import LiveBackend
from sash.engine.operator_base import OpenedQuery, OperatorBase
from sash.engine.operator_snapshot import pack_snapshot, unpack_snapshot
from sash.plan.api_types import Mode
from sash.plan.categories import UnknownCategories, require_categories, schema_with_categories
from sash.plan.queries import ALONE, CombinedQuery
from sash.plan.query import Query
from sash.state.header_page import Header, token_of
from sash.state.page_transaction import Pages
from sash.state.root_page import stored_schema
from sash.stores import MemoryStore, Store
from sash.windows.arguments import Length
from sash.windows.specs import Closed

T = TypeVar("T")

Work = Callable[[Progress], tuple[pa.RecordBatch, Changes]]
"""The work of a call: from the progress before it to the results, and the changes of progress."""

After = Literal["peers", "rows", "nothing"]
"""What may follow sorted rows: peers of the last one, only later rows and other keys, or nothing."""


class QueryState(OperatorBase):
    """The state of a query; of a combined query, that of its members.

    names: the queries whose state it is; `ALONE` for one that is not one of several.
    schema, mode, store, clock: as for `Operator`.

    Raises what `Query.bind` raises for a schema that does not fit.
    """

    def __init__(
        self,
        query: Query,
        names: Sequence[str],
        schema: pa.Schema | None,
        *,
        mode: Mode = "rows",
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if mode == "sorted" and query.emit == "eager":
            raise ValueError("emit='eager' emits results before they are final; in mode 'sorted' every result is final")
        super().__init__(query, mode, store, clock)
        self.names = list(names)
        self._expected: pa.Schema | None = None
        """The schema that batches must have, if the state is opened with the first of them."""
        if schema is None and self.store is not None:
            schema = stored_schema(query, self.store)
        if schema is not None:
            try:
                self._open(schema)
            except UnknownCategories:  # the first batch has them
                self._expected = schema

    @classmethod
    def of(cls, query: CombinedQuery, schema: pa.Schema | None, **arguments: Any) -> QueryState:
        """The state of queries that share one; equal queries, and one alone, need no combined one."""
        first, *others = query.members.values()
        return cls(
            first if all(first == other for other in others) else query, list(query.members), schema, **arguments
        )

    def _reopen(self, opened: OpenedQuery) -> Progress:
        progress = super()._reopen(opened)
        opened.backend.claim()
        return progress

    def _lookup(
        self, keys: GivenKeys, at: GivenTime | None, last: Length | None, closed: Closed | None
    ) -> pa.RecordBatch:
        self.backend.require_owner()
        return super()._lookup(keys, at, last, closed)

    def by_query(self, found: T) -> dict[str, T]:
        """Results of the state, or a value of it, by query."""
        return found if isinstance(found, ResultBatches) else dict.fromkeys(self.names, found)

    def noted(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a call on this state; an error gets a note with the names of the queries, if they are several."""
        try:
            return call(self, *arguments)
        except Exception as error:
            if ALONE not in self.names:
                error.add_note(f"in the queries {', '.join(self.names)}")
            raise

    @property
    def live(self) -> LiveBackend:
        """The backend of a query without emit="eager"."""
        assert isinstance(self.backend, LiveBackend)
        return self.backend

    # ---- the work of a call ----

    def processing(self, batch: pa.RecordBatch) -> Work:
        """The work of `process`: checks the columns of a batch, and opens the state with the first one."""
        if self._opened is None:
            if self._expected is not None:
                check_schema(batch.schema, self._expected)
            self._open(schema_with_categories(batch))
        opened, given = self.opened, batch.schema
        if given is not opened.schema:
            if not given.equals(opened.schema):
                check_schema(given, opened.schema)
            if opened.categories:
                require_categories(batch, opened.categories)
        return partial(self._process, batch)

    def processing_sorted(self, batch: pa.RecordBatch, after: After) -> Work:
        """The work of processing rows in mode "sorted", of which the last is followed as `after` says."""
        assert self.mode == "sorted"
        if after == "nothing":
            self.output.sort_by_key()
        return lambda progress: self._process(batch, progress, after)

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
        result = self.live.sorted_step(given, rest, before, after == "nothing")
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
        return self._sorted_step(self.live.nothing, now, over, "nothing"), over

    # ---- attempts ----

    def attempt(self, work: Work, offset: Any) -> tuple[pa.RecordBatch, Progress]:
        """Do the work: its results, and the progress that `save` saves. `undo` reverts it until `settle`."""
        self.begin()
        opened, now = self.opened, self.progress
        result, changes = self._work(work, now) if opened.checks.lifts else work(now)
        changes["rows_out"] = now.rows_out + result.num_rows
        for one in opened.backend.failures:
            if one.count:
                changes |= self.failed_results(now)
        if offset is not None:
            changes["offset"] = offset
        return result, replace(now, changes)

    def _work(self, work: Work, now: Progress) -> tuple[pa.RecordBatch, Changes]:
        """Do the work. If it fails, find the rows that fail, set them aside, and do the work without them.

        Rows that wait in the reorder buffer were checked on arrival, unless they arrived with failed="error".
        """
        try:
            return work(now)
        except Exception:
            if self._cautious and not self.backend.buffers:
                raise
        self._recover()
        self.begin()
        self._cautious = True
        released: Changes = {}
        self.backend.check_released(lambda rows: self._without_failed(rows, now, released, lifts=True)[0])
        result, changes = work(now)
        if released:
            found = released["failed_rows"][len(now.failed_rows) :]
            changes["failed"] = changes.get("failed", now.failed) + sum(len(one.messages) for one in found)
            changes["failed_rows"] = (*changes.get("failed_rows", now.failed_rows), *found)
            changes["last_failure"] = released["last_failure"]
        return result, changes

    def _without_failed(
        self, rows: TimedRows, now: Progress, changes: Changes, lifts: bool
    ) -> tuple[TimedRows, FailedRows | None]:
        """The rows that do not fail, and those that do. `lifts`: whether to check `lift`, or only expressions."""
        opened = self.opened
        failures = opened.checks.failures(rows.table, lifts)
        if not failures:
            return rows, None
        taken, failed = split_failed(failures, rows.table, rows.arrival, (opened.schema, opened.plain))
        before: tuple[FailedRows, ...] = changes.get("failed_rows", now.failed_rows)
        changes["failed"] = changes.get("failed", now.failed) + len(failures)
        changes["failed_rows"], changes["last_failure"] = (*before, failed), failed.messages[-1]
        return rows.take(np.flatnonzero(taken)), failed

    def failed_results(self, before: Progress) -> Changes:
        """The changes of progress by results of this call that have failed."""
        failures = [one for one in self.backend.failures if one.count]
        if not failures:
            return {}
        count = sum(one.count for one in failures)
        return {"failed_results": before.failed_results + count, "last_failure": failures[-1].message}

    def newly_late(self, reached: Progress) -> pa.RecordBatch:
        """The rows that were late or untimed in an attempt."""
        return together(reached.late_rows[len(self.progress.late_rows) :], self.schema)

    def newly_failed(self, reached: Progress) -> pa.RecordBatch:
        """The rows that have failed in an attempt."""
        assert self.schema is not None
        found = [failed.batch() for failed in reached.failed_rows[len(self.progress.failed_rows) :]]
        return together(found, failed_schema(self.schema))

    def begin(self) -> None:
        """Begin an attempt."""
        backend = self.backend
        if self._succeeded or self._failed or backend.is_unsettled:
            self._recover()
        backend.require_owner()
        backend.begin()
        self._failed = True

    def save(self, reached: Progress) -> None:
        """Write the changes of a call to the store; `reached` is the progress from now on."""
        if self.store is not None:
            self.backend.write(self.header(reached))
        vars(self).update(progress=reached, _failed=False, _succeeded=True)  # one call in C, as `all_at_once`

    def undo(self, before: Progress, unless_saved: bool) -> None:
        """Revert an attempt; `before` was the progress before it. May be interrupted, and called again.

        unless_saved: keep what `save` has saved, because no other state belongs to the call.
        """
        if not unless_saved:
            all_at_once(attributes(self, progress=before, _failed=True, _succeeded=False))
        self._recover()

    def header(self, now: Progress | None = None) -> Header:
        """The header of the state; of another progress, if it is given."""
        now = self.progress if now is None else now
        eager = self.query.emit == "eager"
        return Header(now.watermark, now.before, now.counts, now.offset, eager, now.held, newest=now.newest)

    # ---- rows that entered no window ----

    def late_rows(self) -> pa.RecordBatch:
        """Return the rows that were late or untimed since the last call, as they came."""
        self._require_schema("late_rows")
        self._recover()
        late = self.progress.late_rows
        self.progress = replace(self.progress, {"late_rows": ()})
        return together(late, self.schema)

    def failed_rows(self) -> pa.RecordBatch:
        """Return the rows on which an aggregate failed since the last call, with the message."""
        self._require_schema("failed_rows")
        assert self.schema is not None
        self._recover()
        found = [failed.batch() for failed in self.progress.failed_rows]
        self.progress = replace(self.progress, {"failed_rows": ()})
        return together(found, failed_schema(self.schema))

    # ---- state elsewhere ----

    def snapshot(self) -> bytes:
        """Return the whole state. Raises TypeError for a store outside of memory."""
        self._require_schema("snapshot")
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
        failed = [one.batch() for one in now.failed_rows]
        fingerprint, pages = self.bound_query.fingerprint, dict(store.items())
        return pack_snapshot(self.schema, fingerprint, self.mode, pages, now.late_rows, failed)

    @classmethod
    def restored(cls, query: Query, names: Sequence[str], data: bytes, clock: Callable[[], float] | None) -> QueryState:
        """The state of a snapshot. Raises PageError if it is damaged or belongs to another query."""
        if query.options.memory is not None:
            raise ValueError("memory= of Options needs a store, and the state of a snapshot is restored to memory")
        found = unpack_snapshot(query, data)
        store, mode = MemoryStore(found.pages), cast(Mode, found.mode)
        state = cls(query, names, found.schema, mode=mode, store=store, clock=clock)
        state._into_memory()
        rows: Changes = {"late_rows": found.late_rows, "failed_rows": found.failed_rows}
        state.progress = replace(state.progress, {name: batches for name, batches in rows.items() if batches})
        return state

    def _into_memory(self) -> None:
        self.backend.into_memory()
        self.store = None

    def reopen(self, store: Store, clock: Callable[[], float]) -> None:
        """Continue on another store whose state has this one's token: nothing is read from it."""
        self.store, self.clock = store, clock
        self.opened.watermark_tracker.use_clock(clock)
        self.progress = replace(self.progress, {"late_rows": (), "failed_rows": ()})
        durable = self.live.durable
        assert durable is not None
        durable.transaction.move(store)

    @property
    def committed_token(self) -> str:
        """The token of the last commit to the store; "" if there was none."""
        return "" if self.backend.durable is None else self.backend.durable.token

    @property
    def token(self) -> str:
        """Identifies the live state: a store with an equal token has the same state. "" if there is none."""
        return self.committed_token if isinstance(self.backend, LiveBackend) else ""

    @staticmethod
    def stored_token(query: Query, schema: pa.Schema, store: Store) -> str | None:
        """The token of the state that a store has; None if it has none."""
        bound_query = query.bind(schema)
        return token_of(Pages(store, bound_query.fingerprint), stored_time_type(bound_query))

    def export_partials(self) -> list[pa.RecordBatch]:
        """Return the partials of the only key, for each group of windows, for `import_partials`."""
        return export_partials(self.live.engine)

    def import_partials(self, keys: Sequence[pa.Array], partials: Sequence[list[pa.RecordBatch]]) -> None:
        """Start from partials: for each group of windows those of all earlier states, in order. `keys`: the key."""
        self.progress = replace(self.progress, {"before": import_partials(self.live.engine, keys, partials)})

    def continue_from(self, progress: Progress) -> None:
        """Take over the progress of another state, which this one has."""
        self.progress = progress
