"""A shard in one micro-batch: its operator takes rows, its results leave, its timer is set.

    pages ──▶ operator ──▶ advance(watermark) ──▶ process(rows) ──▶ results, rows put aside, counts
      ▲                                                                │
      └──────────────────── flush ◀── host page: timer ◀── due? ◀──────┘

Spark makes a new processor for each micro-batch. Python workers are used again, so an operator is left alive for the
next one, under the token of its state; a worker that does not have it reads the pages. Beside the operator's pages
there is one of the host's own, which says of which query and how many shards the state is, and which timer is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine import Operator
from sash.spark.arrow_ipc import batches_of, blob_of, cut
from sash.spark.spark_types import casts
from sash.spark.stream.map_state_store import MapStateStore
from sash.spark.stream.progress import ShardProgress
from sash.spark.stream.sharding import labels
from sash.spark.stream.stream_header import StreamHeader
from sash.spark.stream.stream_spec import StreamSpec

ALIVE = 4
"""Operators that a worker keeps alive between micro-batches, at most."""

_alive: dict[str, Operator] = {}
"""By the token of their state: one is used only where Spark's state has the same. A cache, never the truth."""


@dataclass(frozen=True)
class PackedRows:
    """Rows of one partition of the input, as blobs, and when they were packed."""

    rows: bytes | None
    now: float | None
    aside: bytes | None
    malformed: int
    greatest: float | None


class ShardTask:
    """One shard: `label` is Spark's key of it, `timers` registers and deletes timers."""

    def __init__(self, spec: StreamSpec, label: int, state: Any, timers: Any) -> None:
        self.spec, self.label, self.timers = spec, label, timers
        self.store = MapStateStore(state)
        self.host = StreamHeader(spec, self.store)
        self.now = 0.0

    def _open(self) -> None:
        query, schema = self.spec.bound_query.query, self.spec.bound_query.schema
        token = Operator.stored_token(query, schema, self.store)
        alive = _alive.pop(token, None) if token else None
        if alive is not None:  # this process had the shard before, and its state is the one that Spark has
            alive.reopen(self.store, lambda: self.now)
            self.operator = alive
        else:
            self.operator = Operator(query, schema, mode="given", store=self.store, clock=lambda: self.now)
        self.before = self.operator.metrics

    def run(
        self, packed: Sequence[PackedRows], milliseconds: int, fired: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of Spark's for one micro-batch: blobs of results, blobs of rows put aside, and the counts.

        `milliseconds` is Spark's watermark, `fired` the timer that this call is for, if it is not for rows.
        """
        watermark = self.spec.clock.watermark(milliseconds)
        batches = list(self._batches(packed))
        counts = ShardProgress()
        if batches or fired is not None or (self.host.timer is not None and self.host.timer <= milliseconds):
            self._open()
            yield from self._work(batches, watermark)
            self._set_timer(milliseconds, fired)
            counts = ShardProgress.of(self.before, self.operator.metrics)
            self._keep_alive()
        yield from self._malformed(packed)
        self.host.keep(self.host.timer)
        self.store.flush()
        malformed = sum(one.malformed for one in packed)
        greatest = max((one.greatest for one in packed if one.greatest is not None), default=None)
        reached = None if watermark is None else float(watermark)
        counts = replace(counts.stored(self.store), malformed=malformed, greatest=greatest, watermark=reached)
        yield (self.label, None, None, *counts.values())

    def _keep_alive(self) -> None:
        """Leave the operator for the next micro-batch of this shard, should this process get it again."""
        if self.operator.token:
            _alive[self.operator.token] = self.operator
            while len(_alive) > ALIVE:
                _alive.pop(next(iter(_alive)), None)

    def _work(self, batches: list[tuple[float, pa.RecordBatch]], watermark: Any) -> Iterator[tuple[Any, ...]]:
        if watermark is not None:
            yield from self._results(self.operator.advance(watermark))
        for self.now, batch in batches:
            if self.spec.aside:
                yield from self._put_aside(batch)
            yield from self._results(self.operator.process(batch.select(self.spec.bound_query.schema.names)))

    def _batches(self, packed: Sequence[PackedRows]) -> Iterator[tuple[float, pa.RecordBatch]]:
        """The rows as one batch; where the clock matters, a batch for each time they were packed at."""
        found = [(one.now, batch) for one in packed if one.rows is not None for batch in batches_of(one.rows)]
        if not found:
            return
        if self.spec.bound_query.ahead is not None:
            yield from ((now or 0.0, batch) for now, batch in found)
        else:
            yield 0.0, pa.concat_batches([batch for _, batch in found])

    def _results(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        if not batch.num_rows:
            return
        batch = casts(self._numbered(batch), self.spec.results)
        for part in cut(batch):
            yield self.label, blob_of(part), None, *ShardProgress.NONE

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Ids of rows count from 0 in each shard: made different, for the stream has them side by side."""
        if (
            self.spec.shards == 1
            or not self.spec.bound_query.per_row
            or "_row" not in self.operator.output.schema.names
        ):
            return batch
        place = batch.schema.names.index("_row")
        ids = batch.column(place).to_numpy() * self.spec.shards + labels(self.spec.shards).index(self.label)
        return batch.set_column(place, batch.schema.field(place), pa.array(ids))

    def _put_aside(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        """Rows that are late or untimed, with the reason."""
        known = batch.select(self.spec.bound_query.schema.names)
        arrived = self.operator.arrivals.classify(known, self.operator.watermark, 0)
        chosen = np.flatnonzero(arrived.late | arrived.untimed)
        if len(chosen):
            reason = pa.array(np.where(arrived.late[chosen], "late", "untimed"))
            yield from self._side_output(batch.take(pa.array(chosen)), reason)

    def _malformed(self, packed: Sequence[PackedRows]) -> Iterator[tuple[Any, ...]]:
        for one in packed:
            for batch in batches_of(one.aside) if one.aside is not None else ():
                yield from self._side_output(batch, pa.array(["malformed"] * batch.num_rows))

    def _side_output(self, batch: pa.RecordBatch, reason: pa.Array) -> Iterator[tuple[Any, ...]]:
        columns = [*batch.columns, reason]
        named = pa.RecordBatch.from_arrays(columns, names=self.spec.put_aside.names)
        for part in cut(casts(named, self.spec.put_aside)):
            yield self.label, None, blob_of(part), *ShardProgress.NONE

    def _set_timer(self, milliseconds: int, fired: int | None) -> None:
        """Be called when the watermark has come to what is due next, whether rows come or not."""
        due = self.operator.due
        # one at the watermark would be lost: Spark forgets it together with the one that fires now
        wanted = None if due is None else max(self.spec.clock.timer(due), milliseconds + 1)
        if self.host.timer != wanted:
            # what has fired is gone already; any other would call the shard once more
            if self.host.timer is not None and self.host.timer != fired:
                self.timers.deleteTimer(self.host.timer)
            if wanted is not None:
                self.timers.registerTimer(wanted)
        self.host.keep(wanted)
