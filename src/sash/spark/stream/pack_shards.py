"""PackShards: the rows of a partition as blobs, one or more for each shard, before the shuffle.

    shard  max_ts   rows    side     malformed
    4      null     blob                          rows of shard 4
    9      null     blob                          rows of shard 9
    0      null             blob     3            malformed rows, always to the first shard
    0      12:07                                  the latest time, for the watermark; dropped before the shards

Spark drops rows below its watermark, and a blob is one row. So blobs have a null time, which is never late and does not
advance the watermark; the latest time has its own row.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.engine.watermark import WatermarkTracker
from sash.spark.arrow_ipc import blob_batch, blob_of, blob_slices
from sash.spark.row_groups import grouped
from sash.spark.stream.hot_keys import key_name
from sash.spark.stream.sharding import FIRST, labels, shard_of
from sash.spark.stream.stream_spec import PACKED, PackedRow, StreamSpec
from sash.spark.worker_io import WorkerTask, rechunk

ROWS = 1 << 17
"""Rows that are packed together, to spread the fixed cost of a blob."""


class PackShards(WorkerTask):
    """Packs the rows of a partition."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest = PackedRow(FIRST)
        has_rows = False
        for batch in rechunk(batches, self.spec.given, ROWS):
            has_rows = True
            now = time.time()
            good, malformed = self._split_malformed(batch)
            rows = [*self._shards(good.select(self.spec.packed.names), now), *self._malformed(malformed, now)]
            if rows:
                yield blob_batch(rows, PACKED)
            latest = self._latest(good, now, latest)
        if has_rows:
            last = [latest]
            if latest.greatest is not None:
                last.append(PackedRow(FIRST, max_ts=self.spec.clock.ticks(latest.greatest)))
            yield blob_batch(last, PACKED)

    def _split_malformed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that could be parsed, and those that could not."""
        if self.spec.corrupt is None:
            return batch, batch.slice(0, 0)
        bad = batch.column(self.spec.corrupt).is_valid()
        return batch.filter(pc.invert(bad)), batch.filter(bad)

    def _shards(self, batch: pa.RecordBatch, now: float) -> Iterator[PackedRow]:
        shards = self.spec.shards
        for shard, rows in grouped(batch, shard_of(batch, self.spec.bound_query.by, shards), shards):
            yield PackedRow(labels(shards)[shard], rows=blob_of(rows), now=now)

    def _malformed(self, batch: pa.RecordBatch, now: float) -> Iterator[PackedRow]:
        """The number of malformed rows, and the rows themselves where there is a side output."""
        if batch.num_rows:
            yield PackedRow(FIRST, now=now, malformed=batch.num_rows)
            for rows in blob_slices(batch) if self.spec.side_output else ():
                yield PackedRow(FIRST, now=now, side=blob_of(rows))

    def _latest(self, batch: pa.RecordBatch, now: float, before: PackedRow) -> PackedRow:
        """The row with the latest time, in this batch or before, without rows too far ahead of the clock (`ahead=`)."""
        classified = WatermarkTracker(self.spec.bound_query, "sorted", lambda: now).classify(batch, None, 0)
        places = np.flatnonzero(classified.taken)
        if not len(places):
            return before
        place = int(places[classified.time[places].argmax()])
        greatest = classified.time[place].item()
        if before.greatest is not None and greatest <= before.greatest:
            return before
        by, row = self.spec.bound_query.by, batch.slice(place, 1)
        shard = labels(self.spec.shards)[int(shard_of(row, by, self.spec.shards)[0])]
        return PackedRow(FIRST, greatest=greatest, latest_key=key_name(row, by), latest_shard=shard)
