"""ShardTask: processes one shard in one micro-batch: runs its operator, emits results, and sets its timer.

    pages ──▶ operator ──▶ advance(watermark) ──▶ process(rows) ──▶ results, side output, progress
      ▲                                                                │
      └──────────────────── flush ◀── stream header: timer ◀── due? ◀──┘

Local state (`local_pages`) is reused in the next micro-batch if the tokens agree; else pages are read. In addition to
the operator's pages there is the stream header, with the query's fingerprint, the number of shards, and the timer.

Spark calls the ShardProcessor once per micro-batch for each shard with rows, and when a timer is due:

    DataFrames of packed rows ──▶ PackedRow … ──▶ ShardTask ──▶ ShardOutput … ──▶ DataFrames of about `BYTES`

It is a processor of `transformWithStateInPandas`, where Spark forwards each DataFrame as soon as it is yielded;
`transformWithState`, which takes rows, collects the whole output of a shard. A checkpoint can be used with only one of
the two. Rows are few, large blobs, so pandas adds little cost.

The engine is imported lazily: the driver, which only plans, does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.failed_rows import warn_failed
from sash.columns.time_numbers import Watermark
from sash.columns.watermark import WatermarkTracker
from sash.engine.emit.output import ResultBatches
from sash.engine.migration import migrate_store
from sash.engine.operator import Operator
from sash.engine.query_state import QueryState
from sash.engine.result_pieces import advance_pieces
from sash.plan.queries import ALONE
from sash.plan.time_axis import Number
from sash.spark.spark_types import casts
from sash.spark.stream.checkpoint import StreamHeader
from sash.spark.stream.local_pages import LocalState
from sash.spark.stream.map_state_store import MapStateStore
from sash.spark.stream.pack_shards import labels, with_rows
from sash.spark.stream.shard_progress import PROCESSED, ShardOutput, ShardProgress
from sash.spark.stream.stream_spec import PackedRow, StreamSpec
from sash.spark.worker_io import batches_of, blob_batch, blob_of, blob_slices, message_only
from sash.state.root_page import has_state

# --- Shard task ---


class ShardTask:
    """One shard. `label`: its key in Spark; `timers` registers and deletes timers."""

    def __init__(self, spec: StreamSpec, label: int, state: Any, timers: Any) -> None:
        self.spec, self.label, self.timers = spec, label, timers
        self.store = MapStateStore(state)
        self.local = LocalState(spec.local_limit, label, self.store)
        self.header = StreamHeader(spec, self.store)
        if self.header.migrates and spec.before is not None and has_state(self.store):
            now, before = spec.bound_query, spec.before
            migrate_store(now.query, self.store, before.query, self.store, (before.schema, now.schema))
        self.now = 0.0
        """The operator's clock: the time at which its rows were packed."""

    def run(self, packed: Sequence[PackedRow], milliseconds: int, fired: int | None = None) -> Iterator[ShardOutput]:
        """The output of one micro-batch: blobs of results, blobs of the side output, and the progress.

        `milliseconds` is Spark's watermark, `fired` the timer that this call is for, if it is not for rows.
        """
        try:
            yield from self._run(packed, milliseconds, fired)
        finally:  # also if Spark ends the task before it has read all output
            self.local.close()

    def _run(self, packed: Sequence[PackedRow], milliseconds: int, fired: int | None) -> Iterator[ShardOutput]:
        watermark = self.spec.clock.watermark(milliseconds)
        batches = list(self._batches(packed))
        progress = ShardProgress()
        operator = None
        is_due = self.header.timer is not None and self.header.timer <= milliseconds
        if batches or fired is not None or is_due or self.header.migrates:
            operator = self._open()
            before = operator.metrics
            yield from self._work(operator, batches, watermark)
            self._set_timer(operator.due, milliseconds, fired)
            progress = ShardProgress.of(before, operator.metrics)
            warn_failed(progress.failed, progress.failed_results, operator.metrics.last_failure)
        yield from self._malformed(packed)
        self.header.store_timer(self.header.timer)
        self.store.flush()
        if operator is not None:
            self.local.keep(operator)
        progress = with_rows(progress, packed, [batch for _, batch in batches], self.spec.bound_query.by)
        reached = None if watermark is None else float(watermark)
        yield ShardOutput(self.label, progress=replace(progress.stored(self.store), watermark=reached))

    def _open(self) -> Operator:
        """The operator of this shard: the live one if Spark has the same state, else from pages."""
        query, schema = self.spec.bound_query.query, self.spec.bound_query.schema
        token = QueryState.stored_token(query, schema, self.store)
        alive = self.local.take(token)
        if alive is None:
            return Operator(query, schema, mode="given", store=self.store, clock=lambda: self.now)
        alive.state.reopen(self.store, lambda: self.now)
        return alive

    def _work(
        self, operator: Operator, batches: list[tuple[float, pa.RecordBatch]], watermark: Watermark
    ) -> Iterator[ShardOutput]:
        if watermark is not None:
            for piece in advance_pieces(operator, watermark):
                yield from self._results(piece)
        for now, batch in batches:
            self.now = now
            known = batch.select(self.spec.bound_query.schema.names)
            if self.spec.side_output:
                yield from self._late(batch, known, operator.watermark)
            first = operator.state.progress.rows_in
            yield from self._results(operator.process(known))
            for failed in operator.state.progress.failed_rows if self.spec.side_output else ():
                rows = batch.take(pa.array(failed.arrival - first))
                yield from self._side_output(rows, pa.array(["failed"] * rows.num_rows), failed.messages)
            operator.failed_rows()  # drop them: they are counted, and in the side output

    def _batches(self, packed: Sequence[PackedRow]) -> Iterator[tuple[float, pa.RecordBatch]]:
        """The rows as one batch; with `ahead=`, a batch for each time of the clock at which rows were packed."""
        found = [(row.now, batch) for row in packed if row.rows is not None for batch in batches_of(row.rows)]
        if not found:
            return
        if self.spec.bound_query.ahead is not None:
            yield from ((now or 0.0, batch) for now, batch in found)
        else:
            yield 0.0, pa.concat_batches([batch for _, batch in found])

    def _results(self, batch: pa.RecordBatch | ResultBatches) -> Iterator[ShardOutput]:
        found = batch if isinstance(batch, ResultBatches) else {ALONE: self._numbered(batch)}
        for name, one in found.items():
            for rows in blob_slices(self.spec.sent(name, one)) if one.num_rows else ():
                yield ShardOutput(self.label, results=blob_of(rows))

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Make row ids, which count from 0 in each shard, unique in the stream."""
        names = self.spec.results.names
        if self.spec.shards == 1 or not self.spec.bound_query.per_row or "_row" not in names:
            return batch
        place = names.index("_row")
        ids = batch.column(place).to_numpy() * self.spec.shards + labels(self.spec.shards).index(self.label)
        return batch.set_column(place, batch.schema.field(place), pa.array(ids))

    def _late(self, batch: pa.RecordBatch, known: pa.RecordBatch, watermark: Watermark) -> Iterator[ShardOutput]:
        """The rows that are late or untimed, with the reason."""
        tracker = WatermarkTracker(self.spec.bound_query, "given", lambda: self.now)
        classified = tracker.classify(known, watermark, 0)
        chosen = np.flatnonzero(classified.late | classified.untimed)
        if len(chosen):
            reason = pa.array(np.where(classified.late[chosen], "late", "untimed"))
            yield from self._side_output(batch.take(pa.array(chosen)), reason)

    def _malformed(self, packed: Sequence[PackedRow]) -> Iterator[ShardOutput]:
        for row in packed:
            for batch in batches_of(row.side) if row.side is not None else ():
                yield from self._side_output(batch, pa.array(["malformed"] * batch.num_rows))

    def _side_output(
        self, batch: pa.RecordBatch, reason: pa.Array, messages: Sequence[str] | None = None
    ) -> Iterator[ShardOutput]:
        schema = self.spec.side_schema
        texts: Sequence[str | None] = [None] * batch.num_rows if messages is None else messages
        added = [reason, pa.array(texts, pa.string())][: len(self.spec.side_fields)]
        rows = pa.RecordBatch.from_arrays([*batch.columns, *added], names=schema.names)
        for one in blob_slices(casts(rows, schema)):
            yield ShardOutput(self.label, side=blob_of(one))

    def _set_timer(self, due: Number | None, milliseconds: int, fired: int | None) -> None:
        """Register a timer, so that Spark calls this shard when results are due, even without rows."""
        # Spark deletes a timer at the watermark together with the one that fires now
        wanted = None if due is None else max(self.spec.clock.timer(due), milliseconds + 1)
        if self.header.timer != wanted:
            # a timer that has fired is deleted; any other would call the shard again
            if self.header.timer is not None and self.header.timer != fired:
                self.timers.deleteTimer(self.header.timer)
            if wanted is not None:
                self.timers.registerTimer(wanted)
        self.header.store_timer(wanted)


# --- Processor ---

BYTES = 1 << 23
"""Approximate bytes of blobs in a DataFrame: Spark takes 2 ms to convert it to Arrow, for one blob or for 64."""


class ShardProcessor:
    """Runs the operator of a shard on the pages in Spark's state."""

    STATE = ("pages", "page string", "bytes binary")
    """The name and the types of the state variable, a map."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.handle: Any = None
        """Spark's timers, from `open` on."""
        self.pages: Any = None
        """The state variable, from `open` on."""

    def open(self, handle: Any, pages: Any) -> None:
        """Take the handle of Spark's timers, and the state variable that `STATE` declares."""
        self.handle, self.pages = handle, pages

    def handle_rows(self, key: Any, rows: Iterable[Any], times: Any) -> Iterator[Any]:
        """DataFrames of the output for DataFrames of packed rows."""
        packed = [row for frame in rows for row in packed_rows(frame)]
        return message_only(self._run(key, packed, times))

    def handle_timer(self, key: Any, times: Any, info: Any) -> Iterator[Any]:
        """DataFrames of the output when a timer has fired."""
        return message_only(self._run(key, [], times, info.getExpiryTimeInMs()))

    def _run(self, key: Any, packed: list[PackedRow], times: Any, fired: int | None = None) -> Iterator[Any]:

        shard = ShardTask(self.spec, int(key[0]), self.pages, self.handle)
        return frames(shard.run(packed, times.getCurrentWatermarkInMs(), fired))


def packed_rows(frame: Any) -> Iterator[PackedRow]:
    """The packed rows of a DataFrame, in which a null number is NaN.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"shard": [2], "max_ts": [None], "rows": [b"x"], "now": [1.5], "side": [None]})
    >>> row = next(packed_rows(frame.assign(malformed=0, greatest=float("nan"), latest_key=None, latest_shard=4.0)))
    >>> row == PackedRow(2, rows=b"x", now=1.5, latest_shard=4)
    True
    """
    names = ("shard", "rows", "now", "side", "malformed", "greatest", "latest_key", "latest_shard")
    for shard, rows, now, side, malformed, greatest, key, of in zip(*(frame[name] for name in names), strict=True):
        latest = (_number(greatest), key, None if _number(of) is None else int(of))
        yield PackedRow(int(shard), None, rows, _number(now), side, int(malformed), *latest)


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)


def frames(outputs: Iterable[ShardOutput]) -> Iterator[Any]:
    """DataFrames of a shard's output, each as soon as it has enough bytes.

    >>> import pyarrow as pa
    >>> blob = pa.py_buffer(bytes(BYTES // 2))
    >>> [len(frame) for frame in frames(ShardOutput(4, results=blob) for _ in range(5))]
    [2, 2, 1]
    """
    waiting: list[ShardOutput] = []
    size = 0
    for output in outputs:
        waiting.append(output)
        size += sum(blob.size for blob in (output.results, output.side) if blob is not None)
        if size >= BYTES:
            yield _frame(waiting)
            waiting, size = [], 0
    if waiting:
        yield _frame(waiting)


def _frame(outputs: list[ShardOutput]) -> Any:
    """A DataFrame whose columns are Arrow arrays, which Spark need not convert."""
    import pandas as pd

    batch = blob_batch([output.values() for output in outputs], PROCESSED)
    columns = zip(PROCESSED.names, batch.columns, strict=True)
    return pd.DataFrame({name: pd.arrays.ArrowExtensionArray(column) for name, column in columns})
