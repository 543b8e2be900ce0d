"""A directory of CSV files that has each result exactly once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from sash.pipeline.parquet_sink import ParquetSink
from sash.pipeline.sink import SinkError, SinkTask


class CsvSink(ParquetSink):
    """Writes results to a directory of CSV files with a header, one for each step that has any: exactly once.

    path: the directory. It is created if it is missing, and belongs to one pipeline. Files appear as those of
        `ParquetSink` do, by a rename.
    """

    suffix = ".csv"

    def open(self, task: SinkTask) -> None:
        """Publish or discard pending results. Raises SinkError for a column whose type CSV cannot represent."""
        for column in task.schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                raise SinkError(
                    f"column {column.name!r} is of type {column.type}, which CSV cannot represent: write Parquet"
                )
        super().open(task)

    def _write(self, batch: pa.RecordBatch, file: Path) -> None:
        pyarrow.csv.write_csv(batch, file)
