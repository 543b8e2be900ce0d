"""Point-in-time features on Spark, compared with a range join: aggregates of the events before each row of a spine.

    range join    for each window: spine LEFT JOIN events ON k = k AND t in the window, then GROUP BY
    sash          sash.as_of: one shuffle of both tables, for all windows

`python -m benchmarks.spark_as_of` writes its section of docs/performance.md; with `--quick` it runs small and writes
nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial, reduce
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import functions as sf

import sash
import sash.spark
from benchmarks import page
from benchmarks.as_of import KEYS, WINDOWS, Tables
from benchmarks.timing import best_of

SIZES = ((200_000, 20_000), (1_000_000, 100_000))
QUICK = ((5_000, 500),)


def ours(spine: Any, events: Any) -> Any:
    """sash.as_of."""
    windows = {name: f"{hours}h" for name, hours in WINDOWS.items()}
    return sash.as_of(spine, events, windows, by="k", on="t", n=sash.count(), total=sash.sum("x"), high=sash.max("x"))


def range_join(spine: Any, events: Any) -> Any:
    """A join for each window, and these joined by the number of the row."""
    parts = []
    for name, hours in WINDOWS.items():
        size = sf.expr(f"INTERVAL {hours} HOURS")
        e = events.select(sf.col("k").alias("ek"), sf.col("t").alias("et"), "x")
        within = (sf.col("k") == sf.col("ek")) & (sf.col("et") < sf.col("t")) & (sf.col("et") >= sf.col("t") - size)
        made = [sf.count("x").alias(f"n_{name}"), sf.sum("x").alias(f"total_{name}"), sf.max("x").alias(f"high_{name}")]
        parts.append(spine.join(e, within, "left").groupBy("id").agg(*made))
    return reduce(lambda one, other: one.join(other, "id"), parts, spine)


def run(make: Any, spine: Any, events: Any) -> None:
    """Compute all of it, and keep nothing."""
    make(spine, events).write.format("noop").mode("overwrite").save()


def main(sizes: tuple[tuple[int, int], ...]) -> str:
    """Run the benchmark, and return its section of the page."""
    spark = sash.spark.session(
        master="local[2]", **{"sql.shuffle.partitions": 2, "driver.memory": "3g", "log.level": "OFF"}
    )
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for events, spine in sizes:
            tables = Tables.of(events, spine)
            read = []
            for name, frame in (("events", tables.events), ("spine", tables.spine)):
                path = str(Path(folder) / f"{name}{events}.parquet")
                frame.with_columns(t=frame["t"].cast(pl.Datetime("us", "UTC"))).write_parquet(path)
                read.append(spark.read.parquet(path))
            run(ours, read[1], read[0])  # starts workers, compiles
            runs: dict[str, Any] = {
                "sash": partial(run, ours, read[1], read[0]),
                "Spark": partial(run, range_join, read[1], read[0]),
            }
            found = best_of(runs, 2, 60.0)
            ratio = f"{found['Spark'] / found['sash']:.1f}×"
            lines.append(
                [f"{events:,} events, {spine:,} rows", f"{found['sash']:.1f} ({ratio})", f"{found['Spark']:.1f}"]
            )
    spark.stop()
    return "\n\n".join(
        [
            "## As of on Spark",
            (
                "Seconds for counts, sums and maxima of the events before each row of a spine, over five windows of 1 "
                f"hour to 7 days, {KEYS:,} keys, 30 days, from Parquet, two cores. In brackets: how many times as long "
                "Spark's range join takes, which produces each pair of a row and an event in its window."
            ),
            page.table(["", "sash", "Spark, range join"], lines),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_as_of", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small tables, no page written")
    quick = parser.parse_args().quick
    text = main(QUICK if quick else SIZES)
    if not quick:
        page.write("spark_as_of", text)
    print(text)
