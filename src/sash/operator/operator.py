"""The operator: Arrow record batches in, Arrow record batches out, its state a set of pages.

    batch ──▶ arrivals ──▶ buffer ──▶ engine ──▶ emission ──▶ batch
              late?        order      results    final, changes, eager
                 │            │           │          │
                 ▼            └───────────┴──────────┴──▶ pages of the store
              late_rows()

Three modes: "rows" keeps the watermark itself, in "given" only `advance` moves it, and "sorted" takes rows ordered by
key and time, of which none is late. A call that fails has changed nothing.
"""

from __future__ import annotations

import math
import time as clocks
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator import header
from sash.operator.arguments import check_schema, number
from sash.operator.arrivals import Arrivals, Arrived
from sash.operator.buffer import Buffer
from sash.operator.emission import Emission
from sash.operator.engine import Engine
from sash.operator.frame import Ints
from sash.operator.keys import plain_schema
from sash.operator.loaded import together
from sash.operator.metrics import Metrics
from sash.operator.output import Output, chosen_rows, plain_batch
from sash.operator.pages import Pages
from sash.operator.sorted_rows import SortedRows
from sash.query.query import Query
from sash.query.resolved import MODES
from sash.stores import MemoryStore, PageError, Store
from sash.stores import snapshot as snapshots
from sash.stores.frame import seal, unseal

_ANY = "0" * 32


class Operator:
    """A query at work: give it batches, take the results.

    `mode` says who orders the rows and moves the watermark, `store` where the state lies (in memory, if nothing is
    said), `clock` what the time is, in seconds since the epoch, for queries with `ahead=`.

    >>> import pyarrow as pa, sash
    >>> op = sash.Query(2, by="k", high=sash.max("x")).operator()
    >>> op.process(pa.record_batch({"k": ["a", "b", "a", "a"], "x": [3, 9, 1, 2]})).to_pydict()
    {'k': ['a', 'b', 'a', 'a'], 'x': [3, 9, 1, 2], 'high': [3, 9, 3, 2]}

    Raises ValueError for an unknown mode, and all that `Query.resolve` raises for a schema that does not fit.
    """

    def __init__(
        self,
        query: Query,
        schema: pa.Schema | None = None,
        *,
        mode: str = "rows",
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode= is one of {', '.join(map(repr, MODES))}; got {mode!r}")
        if mode == "sorted" and query.emit == "eager":
            raise ValueError("emit='eager' shows results before they are final; in mode 'sorted' every result is")
        self.query, self.mode = query, mode
        self.store: Store = MemoryStore() if store is None else store
        self.clock = clock or clocks.time
        self.schema: pa.Schema | None = None
        if schema is not None:
            self._open(schema)

    def _open(self, schema: pa.Schema) -> None:
        self.resolved = self.query.resolve(schema)
        self.pages = Pages(self.store, self.resolved.fingerprint)
        self.plan = self.query.plan(schema)
        self.engine = Engine(self.plan, self.pages)
        self.arrivals = Arrivals(self.resolved, self.mode, self.clock)
        self.buffer = Buffer(self.pages, self.resolved.time, schema) if self.resolved.time is not None else None
        self.emission = Emission(self.engine)
        self.output = Output(self.resolved, self.mode)
        self.sorted_rows = SortedRows(self.resolved)
        self.late: list[pa.RecordBatch] = []
        self.plain = plain_schema(schema)
        self._held_schema = pa.schema([*self.plain, pa.field("_arrival", pa.int64())])
        self._begin()
        self.schema = schema  # last: what could not be opened is opened anew with the next call

    # ---- what users call ----

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take a batch, and give the results that are due now.

        Raises ValueError if its columns are not those of the query's schema, for a row behind without `lateness`, and
        for late ones with `late="error"`; what a monoid raises comes with the row and its key.
        """
        if isinstance(batch, pa.Table):
            batch = together(batch.to_batches(), batch.schema)
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"process() takes a pyarrow RecordBatch; got a {type(batch).__name__}")
        if self.schema is None:
            self._open(batch.schema)
        assert self.schema is not None
        check_schema(batch.schema, self.schema)
        return self._call(lambda: self._process(batch))

    def advance(self, watermark: Any) -> pa.RecordBatch:
        """Raise the watermark: a number in units of the time column, a datetime, or an Arrow scalar.

        One below the watermark changes nothing. Raises ValueError in mode "sorted" and without `on`.
        """
        self._require_schema("advance")
        if self.resolved.time is None or self.mode == "sorted":
            why = "the query has no on=" if self.resolved.time is None else "in mode 'sorted' nothing is late"
            raise ValueError(f"advance() moves the watermark, and there is none: {why}")
        reached = number(watermark, self.resolved.time)
        return self.finish() if reached == math.inf else self._call(lambda: self._advance(reached))

    def finish(self) -> pa.RecordBatch:
        """No more rows will come: the watermark is infinite, and every result leaves."""
        self._require_schema("finish")
        return self._call(self._finish)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A stream of batches in, a stream of results out, to its end."""
        for batch in batches:
            yield self.process(batch)
        yield self.finish()

    def late_rows(self) -> pa.RecordBatch:
        """The rows that were late or untimed since the last call, as they came."""
        self._require_schema("late_rows")
        late, self.late = self.late, []
        return together(late, self.schema)

    @property
    def watermark(self) -> Any:
        """The watermark, in units of the time column; None before there is one."""
        if self.schema is None:
            return None
        self._current()
        return self._watermark

    @property
    def due(self) -> Any:
        """The least watermark at which there is something to do, in units of the time column; None if nothing waits."""
        self._current()
        waiting = [*self.engine.shelf.when, None if self.buffer is None else self.buffer.due]
        return min((when for when in waiting if when is not None), default=None)

    @property
    def metrics(self) -> Metrics:
        """What the operator has done so far, and what it holds now."""
        if self.schema is None:
            return Metrics(*[0] * 9)
        self._current()
        waiting = len(self.buffer) if self.buffer is not None else 0
        held = 0 if self._held is None else self._held.num_rows
        nbytes = self.pages.nbytes + self.pages.header
        shelf = self.engine.shelf
        return Metrics(
            self._rows_in,
            self._rows_out,
            self._late_count,
            self._untimed_count,
            shelf.key_count,
            shelf.cell_count + waiting + held,
            nbytes,
            self.pages.read_count,
            self.pages.written_count,
        )

    def snapshot(self) -> bytes:
        """The whole state, to go on from with `Operator.restore`. Raises TypeError for a store outside of memory."""
        self._require_schema("snapshot")
        if not isinstance(self.store, MemoryStore):
            raise TypeError(f"the state lies in {self.store!r}: that store keeps it, there is nothing to take along")
        assert self.schema is not None
        pages = dict(self.store.items())
        if self.late:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.schema) as writer:
                for batch in self.late:
                    writer.write_batch(batch)
            pages["late"] = sink.getvalue().to_pybytes()
        inner = snapshots.pack(self.resolved.fingerprint, self.mode, pages)
        return seal("operator", _ANY, [self.schema.serialize().to_pybytes(), inner])

    @classmethod
    def restore(cls, query: Query, data: bytes, *, clock: Callable[[], float] | None = None) -> Operator:
        """The operator that a snapshot was taken of. Raises `PageError` for one of another query, or damaged."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a snapshot is bytes, as Operator.snapshot() gives them; got a {type(data).__name__}")
        parts = unseal(bytes(data), "operator", _ANY, "the snapshot")
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(bytes(parts[0])))
        except (pa.ArrowException, OSError, IndexError) as error:
            raise PageError(f"the snapshot is damaged: its schema cannot be read ({error})") from error
        try:
            fingerprint = query.resolve(schema).fingerprint
        except (TypeError, ValueError) as error:
            raise PageError(f"the snapshot is of another query: its columns do not fit this one: {error}") from error
        mode, pages = snapshots.unpack(bytes(parts[1]), fingerprint)
        late = pages.pop("late", None)
        operator = cls(query, schema, mode=mode, store=MemoryStore(pages), clock=clock)
        if late is not None:
            operator.late = pa.ipc.open_stream(late).read_all().to_batches()
        return operator

    # ---- one call, all or nothing ----

    def _current(self) -> None:
        """After a call that failed: the state as it was before."""
        if self._stale:
            self._begin()

    def _call(self, work: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        self._current()
        late = list(self.late)
        self._was_held = self._held is not None and self._held.num_rows > 0
        try:
            if self._was_held:
                self.pages.read("held", ["held"], [self._held_schema])
            result = work()
            self._rows_out += result.num_rows
            self._write_header()
            self.pages.commit()
        except BaseException:
            self.pages.rollback()
            self.emission.forget()
            self.late, self._stale = late, True
            raise
        return result

    def _begin(self) -> None:
        """Take the state as the store has it. Until that has succeeded, nothing may be written over it."""
        self._stale = True
        self.pages.rollback()
        self.pages.nbytes = self.pages.header = 0
        self._watermark: Any = None
        self._before: Any = None
        self._rows_in: int = 0
        self._rows_out: int = 0
        self._late_count: int = 0
        self._untimed_count: int = 0
        self._held: pa.RecordBatch | None = None
        shelf, buffer = self.engine.shelf, self.buffer
        shelf.from_batch(shelf.to_batch().slice(0, 0), 0)
        if buffer is not None:
            buffer.from_batch(buffer.to_batch().slice(0, 0), 0)
        schemas = [shelf.directory, *([buffer.directory] if buffer is not None else [])]
        found = header.read(self.pages, schemas, self.mode)
        if found is None:
            self._stale = False
            return
        meta, batches = found
        self._watermark, self._before = meta.watermark, meta.before
        self._rows_in, self._rows_out, self._late_count, self._untimed_count = meta.counters
        shelf.from_batch(batches[0], meta.large)
        if buffer is not None:
            buffer.from_batch(batches[1], meta.page)
        if meta.held:
            ((_, (self._held,)),) = self.pages.read("held", ["held"], [self._held_schema])
        self.pages.rollback()
        self._stale = False

    def _write_header(self) -> None:
        shelf, buffer = self.engine.shelf, self.buffer
        held = self._held is not None and self._held.num_rows > 0
        if held:
            self.pages.write("held", "held", {}, [self._held])
        elif self._was_held:
            self.pages.drop(["held"])
        counters = [self._rows_in, self._rows_out, self._late_count, self._untimed_count]
        page = buffer.next if buffer is not None else 0
        meta = header.Meta(self._watermark, self._before, counters, shelf.large.next, page, held)
        batches = [shelf.to_batch(), *([buffer.to_batch()] if buffer is not None else [])]
        header.write(self.pages, meta, self.mode, batches)

    def _process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._watermark == math.inf and (self.resolved.time is None or self.mode == "sorted"):
            raise ValueError("finish() has been called: there is no order in which further rows could come")
        arrived = self.arrivals.judge(batch, self._watermark, self._rows_in)
        self.arrivals.refuse(arrived, batch)
        self.engine.require_room(batch, arrived.time, arrived.taken)
        arrival = self._rows_in + np.arange(batch.num_rows)
        self._rows_in += batch.num_rows
        self._late_count += int(arrived.late.sum())
        self._untimed_count += int(arrived.untimed.sum())
        aside = arrived.late | arrived.untimed
        if aside.any() and self.mode != "sorted":
            self.late.append(chosen_rows(batch, self.schema, self.plain, aside))
        if self.mode == "sorted":
            found = self._sorted(batch, arrived, arrival)
        else:
            self._watermark = arrived.watermark
            table = plain_batch(batch, self.plain)
            if not arrived.taken.all():
                table = table.filter(pa.array(arrived.taken))
            found = self._released(table, arrived.time[arrived.taken], arrival[arrived.taken])
        passed = aside if self.resolved.per_row and (self.mode == "sorted" or self.query.late == "flag") else None
        if passed is None or not passed.any():
            return found
        return self.output.with_aside(found, chosen_rows(batch, self.schema, self.plain, passed), arrival[passed])

    def _released(
        self, table: pa.RecordBatch, time: Any, arrival: Ints, closing: bool = False, processed: bool = True
    ) -> pa.RecordBatch:
        """Let rows pass that the watermark has settled, and give what is due."""
        early = None
        eager = self.query.emit == "eager"
        if eager and processed:
            waiting = self.buffer.rows() if self.buffer is not None else None
            early = self.emission.preview(table, time, arrival, waiting, self._before)
        new = table, time, arrival
        settled = new if self.buffer is None else self.buffer.pass_through(*new, self._watermark, closing)
        hold = 0
        if eager:  # what was shown is kept with its key, whether a row of it is settled or not
            hold = len(time)
            settled = (
                together([settled[0], table], self.plain),
                *(np.concatenate(p) for p in zip(settled[1:], new[1:], strict=True)),
            )
        now = None if self._watermark == math.inf else self._watermark
        step = self.engine.step(*settled, before=self._before, now=now, closing=closing, hold=hold)
        if self.buffer is not None:
            self._before = now
        if eager:
            self.emission.settled(step, self._watermark, closing)
            result = self.output.empty() if early is None else self.output.early(*early)
        else:
            result = self.output.final(step, self.emission.chosen(step))
        self.engine.keep(step)
        return result

    def _sorted(self, batch: pa.RecordBatch, arrived: Arrived, arrival: Ints) -> pa.RecordBatch:
        table = plain_batch(batch, self.plain)
        if not arrived.taken.all():
            table = table.filter(pa.array(arrived.taken))
        return self._sorted_step(table, arrived.time[arrived.taken], arrival[arrived.taken], closing=False)

    def _sorted_step(self, table: pa.RecordBatch, time: Any, arrival: Ints, closing: bool) -> pa.RecordBatch:
        """Take sorted rows. The last ones of equal key and time wait: more of them may follow."""
        if self._held is not None and self._held.num_rows:
            held = self._held
            arrival = np.concatenate([held.column("_arrival").to_numpy(), arrival])
            table = together([held.select(self.plain.names), table], self.plain)
            time = np.concatenate([self.sorted_rows.times(held), time])
        self.sorted_rows.check(table, time)
        hold = 0 if closing or self.resolved.time is None else self.sorted_rows.waiting(table, time)
        self._held = None
        if hold:
            rest = table.slice(table.num_rows - hold)
            columns = [*rest.columns, pa.array(arrival[len(arrival) - hold :])]
            self._held = pa.RecordBatch.from_arrays(columns, schema=self._held_schema)
        now = time[-1].item() if len(time) and self.resolved.time is not None else self._before
        step = self.engine.step(
            table, time, arrival, before=self._before, now=now, closing=closing, last_key_open=True, hold=hold
        )
        self._before = now
        result = self.output.final(step, self.emission.chosen(step))
        self.engine.keep(step)
        return result

    def _advance(self, number: Any) -> pa.RecordBatch:
        if self._watermark is not None and number <= self._watermark:
            return self.output.empty()
        self._watermark = number
        return self._released(*self._nothing(), processed=False)

    def _finish(self) -> pa.RecordBatch:
        self._watermark = math.inf
        if self.mode == "sorted":
            return self._sorted_step(*self._nothing(), closing=True)
        return self._released(*self._nothing(), closing=True, processed=False)

    def _nothing(self) -> tuple[pa.RecordBatch, Any, Ints]:
        empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.plain], schema=self.plain)
        kind = np.float64 if self.resolved.time is not None and self.resolved.time.kind == "float" else np.int64
        return empty, np.zeros(0, kind), np.zeros(0, np.int64)

    def _require_schema(self, what: str) -> None:
        if self.schema is None:
            raise ValueError(f"{what}() before the first batch needs to know the columns: query.operator(schema)")

    def __repr__(self) -> str:
        return f"<Operator of {self.query!r}, mode {self.mode!r}, watermark {getattr(self, '_watermark', None)!r}>"


def stream(query: Query, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A query over an iterator of batches: one batch of results for each, and one at the end."""
    return Operator(query).run(batches)
