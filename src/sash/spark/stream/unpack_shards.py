"""UnpackShards: converts blobs of results to rows. Its workers do not import the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sash.spark.spark_types import casts
from sash.spark.worker_io import batches_of


@dataclass
class UnpackShards:
    """Unpacks results and, if there is one, the side output."""

    schema: pa.Schema
    results: int
    """The number of columns of results; the reason, the message and the row of the side output follow them."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("results"):
                if blob.is_valid:
                    yield from map(self._result, batches_of(blob.as_buffer()))
            for blob in batch.column("side"):
                if blob.is_valid:
                    yield from map(self._side_output, batches_of(blob.as_buffer()))

    def _result(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        nulls = [pa.nulls(batch.num_rows, field.type) for field in list(self.schema)[self.results :]]
        return pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=self.schema)

    def _side_output(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        width = batch.num_columns - (len(self.schema) - self.results - 1)
        given = pa.StructArray.from_arrays(batch.columns[:width], fields=list(batch.schema)[:width])
        nulls = [pa.nulls(batch.num_rows, field.type) for field in list(self.schema)[: self.results]]
        columns = [*nulls, *batch.columns[width:], given]
        return casts(pa.RecordBatch.from_arrays(columns, names=self.schema.names), self.schema)
