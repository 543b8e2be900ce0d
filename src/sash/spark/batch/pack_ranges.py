"""PackRanges: the rows of a partition as blobs, one or more for each piece, before the shuffle.

    rows ──▶ grouped by piece ──▶ (range, piece, own, blob), once for each time range that reads the piece

Spark shuffles and sorts blobs of some thousand rows instead of single rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sash.plan.query import Query
from sash.spark.arrow_ipc import blob_array
from sash.spark.batch.shuffle_routing import ShuffleRouting
from sash.spark.row_groups import grouped
from sash.spark.worker_io import WorkerTask, rechunk

ROWS = 1 << 18
"""Rows that are packed together, to spread the fixed cost of a blob."""

RANGE, PIECE, OWN, BLOB = "range", "piece", "own", "rows"
PACKED = pa.schema([(RANGE, pa.int32()), (PIECE, pa.int32()), (OWN, pa.bool_()), (BLOB, pa.binary())])


class PackRanges(WorkerTask):
    """Packs the rows of a partition in a worker, before the shuffle."""

    def __init__(self, query: Query, schema: pa.Schema, routing: ShuffleRouting) -> None:
        self.query, self.schema, self.routing, self.rows = query, schema, routing, ROWS

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_query = self.query.bind(self.schema)
        for batch in rechunk(batches, self.schema, self.rows):
            pieces = self.routing.piece_of(batch, bound_query)
            for piece, rows in grouped(batch, pieces, len(self.routing.readers)):
                yield from self._encode(rows, piece)

    def _encode(self, rows: pa.RecordBatch, piece: int) -> Iterator[pa.RecordBatch]:
        """A blob for each range that reads the piece: first the range that it belongs to."""
        blob = blob_array(rows)
        for place, number in enumerate(self.routing.readers[piece]):
            values = zip((number, piece, place == 0), PACKED, strict=False)
            columns = [pa.repeat(pa.scalar(value, field.type), len(blob)) for value, field in values]
            yield pa.RecordBatch.from_arrays([*columns, blob], schema=PACKED)
