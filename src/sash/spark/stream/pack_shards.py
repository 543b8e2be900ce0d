"""Pack: the rows of a partition as one blob a shard, before the shuffle.

    shard  max_ts   rows    aside    malformed
    4      null     blob                          rows of shard 4
    9      null     blob                          rows of shard 9
    0      null             blob     3            to the first shard, always: what was malformed
    0      12:07                                  the greatest time, for the watermark; it goes no further

Spark drops a row whose time lies under the watermark, and a blob with all rows in it. So blobs have no time, which is
never late and moves nothing; the greatest time travels alone, up to where Spark looks at it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.engine.arrow_arrays import stable_order
from sash.engine.watermark import WatermarkTracker
from sash.spark.arrow_ipc import blob_of, cut
from sash.spark.batch.partition_task import joined
from sash.spark.stream.sharding import FIRST, labels, shard_of
from sash.spark.stream.stream_spec import StreamSpec

ROWS = 1 << 17
"""Rows that are packed at once: the fixed cost of a blob is spread over them."""

PACKED = "shard int, max_ts timestamp, rows binary, now double, aside binary, malformed long, greatest double"
_PACKED = pa.schema(
    [
        ("shard", pa.int32()),
        ("max_ts", pa.timestamp("us", "UTC")),
        ("rows", pa.binary()),
        ("now", pa.float64()),
        ("aside", pa.binary()),
        ("malformed", pa.int64()),
        ("greatest", pa.float64()),
    ]
)


class PackShards:
    """Packs the rows of a partition."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        greatest = None
        came = False
        for batch in joined(batches, self.spec.given, ROWS):
            came = True
            now = time.time()
            good, malformed = self._parted(batch)
            rows = list(self._arrow_blobs(good.select(self.spec.packed.names), now))
            if malformed.num_rows:
                aside = [blob_of(part) for part in cut(malformed)] if self.spec.aside else [None]
                counts = [malformed.num_rows, *[0] * (len(aside) - 1)]
                rows += [(FIRST, None, None, now, *one, None) for one in zip(aside, counts, strict=True)]
            if rows:
                yield _packed(rows)
            latest = self._greatest(good, now)
            if latest is not None and (greatest is None or latest > greatest):
                greatest = latest
        if came:
            calls: list[tuple[Any, ...]] = [(FIRST, None, None, None, None, 0, greatest)]
            if greatest is not None:
                calls.append((FIRST, self.spec.clock.ticks(greatest), None, None, None, 0, None))
            yield _packed(calls)

    def _parted(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that could be read, and those that could not."""
        if self.spec.corrupt is None:
            return batch, batch.slice(0, 0)
        bad = batch.column(self.spec.corrupt).is_valid()
        return batch.filter(pc.invert(bad)), batch.filter(bad)

    def _arrow_blobs(self, batch: pa.RecordBatch, now: float) -> Iterator[tuple[Any, ...]]:
        shards = self.spec.shards
        shard = shard_of(batch, self.spec.bound_query.by, shards)
        order = stable_order(shard, shards)
        edges = np.searchsorted(shard[order], np.arange(shards + 1)).tolist()
        together = batch if shards == 1 else batch.take(pa.array(order))
        for label, start, stop in zip(labels(shards), edges[:-1], edges[1:], strict=True):
            for part in cut(together.slice(start, stop - start)):
                yield label, None, blob_of(part), now, None, 0, None

    def _greatest(self, batch: pa.RecordBatch, now: float) -> Any:
        """The greatest time of these rows, but for those that are too far ahead to be true."""
        arrived = WatermarkTracker(self.spec.bound_query, "sorted", lambda: now).classify(batch, None, 0)
        return arrived.time[arrived.taken].max().item() if arrived.taken.any() else None


def _packed(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _PACKED, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_PACKED)
