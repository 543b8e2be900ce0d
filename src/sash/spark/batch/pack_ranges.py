"""Pack: rows of a partition as blobs, one a piece, before the shuffle.

    rows ──▶ piece of each ──▶ together by piece ──▶ (part, piece, own, blob), once for each part that reads it

What is shuffled and sorted is a blob, not a row: Spark moves some thousand rows at the price of one, and a tail costs
its bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sash.plan.query import Query
from sash.spark.arrow_ipc import blob_array, cut
from sash.spark.batch.partition_task import clearly, joined
from sash.spark.batch.shuffle_routing import ShuffleRouting

ROWS = 1 << 18
"""Rows that are packed at once: the fixed cost of a blob is spread over those of a piece."""

PART, PIECE, OWN, BLOB = "part", "piece", "own", "rows"
PACKED = pa.schema([(PART, pa.int32()), (PIECE, pa.int32()), (OWN, pa.bool_()), (BLOB, pa.binary())])


class PackRanges:
    """Packs the rows of a partition: what runs in a worker before the shuffle."""

    def __init__(self, query: Query, schema: pa.Schema, pieces: ShuffleRouting) -> None:
        self.query, self.schema, self.pieces, self.rows = query, schema, pieces, ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return clearly(self._packed(batches))

    def _packed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_query = self.query.bind(self.schema)
        for batch in joined(batches, self.schema, self.rows):
            together, runs = self.pieces.runs(batch, bound_query)
            for run in runs:
                for rows in cut(together.slice(run.start, run.stop - run.start)):
                    yield from self._encode(rows, run.piece)

    def _encode(self, rows: pa.RecordBatch, piece: int) -> Iterator[pa.RecordBatch]:
        """A blob for each part that reads it: first the one whose own it is."""
        blob = blob_array(rows)
        for place, part in enumerate(self.pieces.readers[piece]):
            told = zip((part, piece, place == 0), PACKED, strict=False)
            columns = [pa.repeat(pa.scalar(value, field.type), len(blob)) for value, field in told]
            yield pa.RecordBatch.from_arrays([*columns, blob], schema=PACKED)
