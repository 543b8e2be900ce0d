"""Streams of files, run to their end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sash.spark.spark_types import spark_schema


def files(folder: Path, batches: list[list[pa.RecordBatch]]) -> Path:
    """A file for each micro-batch, in the order in which Spark is to take them."""
    folder.mkdir(parents=True)
    for i, partitions in enumerate(batches):
        path = folder / f"{i:04}.parquet"
        pq.write_table(pa.Table.from_batches(partitions), path)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))
    return folder


def source(spark: Any, folder: Path, schema: pa.Schema) -> Any:
    """The files as a stream, one per micro-batch."""
    return spark.readStream.schema(spark_schema(schema)).option("maxFilesPerTrigger", 1).parquet(str(folder))


def start(frame: Any, folder: Path) -> Any:
    """The query that writes a stream of the current files to Parquet."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def done(query: Any) -> list[dict[str, Any]]:
    """Wait for the end, and return the counts of each micro-batch."""
    query.awaitTermination()
    found = []
    for progress in query.recentProgress:
        found += [row.asDict() for name, row in progress["observedMetrics"].items() if name.startswith("sash")]
    # where no shard was called, all of it is null
    return [{name: 0 if value is None else value for name, value in row.items()} for row in found]
