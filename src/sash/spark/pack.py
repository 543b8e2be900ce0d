"""Pack: rows of a partition as blobs, one a piece, before the shuffle.

    rows ──▶ piece of each ──▶ together by piece ──▶ (part, piece, own, blob), once for each part that reads it

What is shuffled and sorted is a blob, not a row: Spark moves some thousand rows at the price of one, and a tail costs
its bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sash.query.query import Query
from sash.spark.blobs import blob_array, cut
from sash.spark.pieces import Pieces
from sash.spark.worker import clearly, joined

ROWS = 1 << 18
"""Rows that are packed at once: the fixed cost of a blob is spread over those of a piece."""

PART, PIECE, OWN, BLOB = "part", "piece", "own", "rows"
PACKED = pa.schema([(PART, pa.int32()), (PIECE, pa.int32()), (OWN, pa.bool_()), (BLOB, pa.binary())])


class Pack:
    """Packs the rows of a partition: what runs in a worker before the shuffle."""

    def __init__(self, query: Query, schema: pa.Schema, pieces: Pieces) -> None:
        self.query, self.schema, self.pieces, self.rows = query, schema, pieces, ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return clearly(self._packed(batches))

    def _packed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        resolved = self.query.resolve(self.schema)
        for batch in joined(batches, self.schema, self.rows):
            together, runs = self.pieces.runs(batch, resolved)
            for run in runs:
                for rows in cut(together.slice(run.start, run.stop - run.start)):
                    yield from self._told(rows, run.piece)

    def _told(self, rows: pa.RecordBatch, piece: int) -> Iterator[pa.RecordBatch]:
        """A blob for each part that reads it: first the one whose own it is."""
        blob = blob_array(rows)
        for place, part in enumerate(self.pieces.readers[piece]):
            told = zip((part, piece, place == 0), PACKED, strict=False)
            columns = [pa.repeat(pa.scalar(value, field.type), len(blob)) for value, field in told]
            yield pa.RecordBatch.from_arrays([*columns, blob], schema=PACKED)
