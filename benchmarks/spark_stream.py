"""Spark streams: rows a second of a micro-batch, against Spark's own windows and against a plan that does nothing.

    floor       the same source and sink, an identity mapInArrow between them
    sash        a query of ours
    spark       groupBy(window(...), key), max and count

Six micro-batches of a million rows, a file each; the first is left out, for it compiles and starts workers, and of the
others the median counts. Run alone: python -m benchmarks.spark_stream [--quick]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash

SCHEMA = "ts timestamp, k long, x double"
START = 1_700_000_000_000_000


@dataclass(frozen=True)
class Sizes:
    """How much of everything; a row a millisecond."""

    rows: int = 1_000_000
    batches: int = 6
    keys: tuple[int, ...] = (1000, 100_000)


QUICK = Sizes(100_000, 4)


def written(folder: Path, sizes: Sizes, keys: int) -> Path:
    """A file for each micro-batch: times a little out of order, keys and values at random."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    for i in range(sizes.batches):
        at = np.arange(i * sizes.rows, (i + 1) * sizes.rows) + chance.integers(0, 1000, sizes.rows)
        ts = pa.array(START + at * 1000, pa.timestamp("us", "UTC"))
        key, x = chance.integers(0, keys, sizes.rows), chance.normal(100, 10, sizes.rows)
        pq.write_table(pa.table({"ts": ts, "k": key, "x": x}), folder / f"{i:02}.parquet")
    return folder


def ours(windows: Any) -> Callable[[Any], Any]:
    query = sash.Query(windows, by="k", on="ts", lateness="1s", high=sash.max("x"), n=sash.count())
    return query.run


def theirs(size: str, slide: str) -> Callable[[Any], Any]:
    def plan(stream: Any) -> Any:
        from pyspark.sql import functions as sf

        windows = stream.withWatermark("ts", "1 second").groupBy(sf.window("ts", size, slide), "k")
        return windows.agg(sf.max("x").alias("high"), sf.count("*").alias("n"))

    return plan


def floor(stream: Any) -> Any:
    return stream.mapInArrow(lambda batches: batches, SCHEMA)


PLANS: dict[str, Callable[[Any], Any]] = {
    "floor: identity mapInArrow": floor,
    "sash, 60 s a row": ours("60s"),
    "sash, 60 s every 1 s": ours(sash.Time("60s", every="1s")),
    "spark, 60 s every 1 s": theirs("60 seconds", "1 second"),
    "sash, 1 h every 1 s": ours(sash.Time("1h", every="1s")),
}


def measured(spark: Any, source: Path, plan: Callable[[Any], Any], work: Path, limit: int) -> tuple[float, float, int]:
    """Rows a second, the bytes of pages that the dearest micro-batch moved, and how many there were in time."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = plan(stream).writeStream.format("noop").option("checkpointLocation", str(work))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(limit)
    query.stop()
    done = [p for p in query.recentProgress if p["numInputRows"]][1:]
    shutil.rmtree(work, ignore_errors=True)
    if not done:
        return float("nan"), 0, 0
    rates = [p["numInputRows"] / p["durationMs"]["triggerExecution"] * 1000 for p in done]
    moved = [
        row["bytes_read"] + row["bytes_written"]
        for p in done
        for name, row in p["observedMetrics"].items()
        if name.startswith("sash")
    ]
    return statistics.median(rates), max(moved, default=0), len(done)


def main(quick: bool = False, limit: int = 900) -> str:
    """The table, as Markdown."""
    import sash.spark

    sizes = QUICK if quick else Sizes()
    settings = {"sql.shuffle.partitions": 2, "sql.execution.arrow.maxRecordsPerBatch": 200_000, "log.level": "OFF"}
    spark = sash.spark.session(master="local[2]", **settings)
    work = Path(tempfile.mkdtemp(prefix="sash-stream-"))
    lines = ["| plan | keys | rows a second | against the floor | MB of pages a micro-batch |", "|---|---|---|---|---|"]
    for keys in sizes.keys:
        source = written(work / f"in{keys}", sizes, keys)
        bare = 0.0
        for name, plan in PLANS.items():
            rate, moved, _ = measured(spark, source, plan, work / "checkpoint", limit)
            bare = bare or rate
            lines.append(f"| {name} | {keys:,} | {rate:,.0f} | {bare / rate:.1f}× slower | {moved / 1e6:.1f} |")
            print(lines[-1], flush=True)
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 rows a micro-batch")
    parser.add_argument("--limit", type=int, default=900, help="seconds for one plan")
    arguments = parser.parse_args()
    print("\n" + main(arguments.quick, arguments.limit))
