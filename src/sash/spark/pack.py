"""Pack: rows of a partition as blobs, one a piece, before the shuffle.

    rows ──▶ piece of each ──▶ together by piece ──▶ (part, piece, own, blob), once for each part that reads it

What is shuffled and sorted is a blob, not a row: Spark moves some thousand rows at the price of one, and a tail costs
its bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.operator.arrays import array
from sash.operator.frame import stable_order
from sash.query.query import Query
from sash.spark.blobs import blob_of
from sash.spark.pieces import Pieces
from sash.spark.worker import clearly, joined

ROWS = 1 << 18
"""Rows that are packed at once: the fixed cost of a blob is spread over those of a piece."""

BYTES = 1 << 18
"""Bytes of a blob, about: small beside a region of the JVM's heap, which keeps what is not in regions of its own."""

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
            yield from self._blobs(batch, self.pieces.places(batch, resolved))

    def _blobs(self, batch: pa.RecordBatch, places: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        if (places[1:] < places[:-1]).any():
            order = stable_order(places, len(self.pieces.readers))
            batch, places = batch.take(array(order)), places[order]
        edges = np.flatnonzero(np.diff(places, prepend=-1))
        most = max(1, BYTES * batch.num_rows // max(batch.nbytes, 1))
        for start, stop in zip(edges.tolist(), [*edges[1:].tolist(), len(places)], strict=True):
            piece = int(places[start])
            for first in range(start, stop, most):
                yield self._told(batch.slice(first, min(most, stop - first)), piece)

    def _told(self, rows: pa.RecordBatch, piece: int) -> pa.RecordBatch:
        """A blob for each part that reads it."""
        parts = self.pieces.readers[piece]
        own = [True, *[False] * (len(parts) - 1)]
        columns = {PART: parts, PIECE: [piece] * len(parts), OWN: own, BLOB: [blob_of(rows)] * len(parts)}
        return pa.RecordBatch.from_pydict(columns, schema=PACKED)
