"""Read the pages in a checkpoint of a stream with Spark's state reader, while the stream runs or afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from sash.spark.stream.map_state_store import unpacked


class Checkpoint(NamedTuple):
    """The content of a checkpoint: the last micro-batch, Spark's watermark in milliseconds, and pages by shard."""

    batch: int
    watermark_ms: int | None
    shards: dict[int, dict[str, bytes]]


def read_checkpoint(session: SparkSession, path: Path) -> Checkpoint:
    """The pages of the last committed micro-batch.

    Raises ValueError if there is none, or if the state was not written by sash.
    """
    batches = [int(entry.name) for entry in (path / "commits").iterdir() if entry.name.isdigit()]
    if not batches:
        raise ValueError(f"the checkpoint {str(path)!r} has no micro-batch that was committed")
    try:
        shards = stored_pages(session, str(path.absolute()), batch=max(batches))
    except PySparkException as error:
        raise ValueError(f"the checkpoint {str(path)!r} has no state of sash: {_first_line(error)}") from None
    return Checkpoint(max(batches), _watermark(path, max(batches)), shards)


def stored_pages(
    session: Any, checkpoint: str, names: Sequence[str] = (), batch: int | None = None
) -> dict[int, dict[str, bytes]]:
    """Pages in a checkpoint, by shard: all, or those of these names. For a single name, that page of any one shard.

    batch: the micro-batch, by default the last committed one. Raises what Spark's state reader raises.
    """
    reader = session.read.format("statestore").option("stateVarName", "pages")
    reader = reader if batch is None else reader.option("batchId", batch)
    page = sf.col("user_map_key.page")
    rows = reader.load(checkpoint).select("key.shard", page.alias("page"), "user_map_value.bytes")
    rows = rows.where(sf.col("page").isin(*names)) if names else rows
    shards: dict[int, dict[str, bytes]] = {}
    for row in (rows.limit(1) if len(names) == 1 else rows).collect():
        shards.setdefault(row["shard"], {})[row["page"]] = unpacked(bytes(row["bytes"]), row["page"])
    return shards


def _watermark(path: Path, batch: int) -> int | None:
    """Spark's watermark of a micro-batch, from the log of offsets: a version, its metadata, a line for each source."""
    lines = (path / "offsets" / str(batch)).read_text("utf-8").splitlines()
    for line in lines[1:2]:
        found: Any = json.loads(line)
        return int(found["batchWatermarkMs"]) if isinstance(found, dict) and "batchWatermarkMs" in found else None
    return None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
