"""Drivers of the cluster's tests, in processes of their own, to be killed with -9 at any moment and started again.

    python -m tests.spark.cluster.driver MASTER FOLDER stream CASE    runs until FOLDER/stop is there
    python -m tests.spark.cluster.driver MASTER FOLDER batch ROUNDS   runs the batch so many times

Both read FOLDER/in. The stream leaves its results in FOLDER/result.arrow, the batch in FOLDER/out/<round>.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import sash
import sash.spark
from sash import Options, Query, Session, Time
from tests.shared.quick_java import QUICK_JAVA
from tests.spark.cases import SCHEMA
from tests.spark.stream.running import source
from tests.spark.stream.stream_rows import STREAMS

HOT = Query(
    {"minute": Time(60), "burst": Session(3)},
    by="k",
    on=("t", "row"),
    options=Options(split=4),
    n=sash.count(),
    high=sash.max("x"),
    mean=sash.mean("x"),
)
"""A query on a key with most of the rows, which is split."""


def settings(folder: Path) -> dict[str, Any]:
    """Settings of a session on the cluster: small executors, and processes that live for a minute."""
    return {
        "driver.host": "127.0.0.1",
        "driver.bindAddress": "127.0.0.1",
        "driver.memory": "512m",
        "executor.memory": "512m",
        "executor.cores": 1,
        "executor.extraJavaOptions": QUICK_JAVA["driver.extraJavaOptions"],
        "local.dir": folder / "local",
        "locality.wait": 0,
        "log.level": "WARN",
        "sql.shuffle.partitions": 2,
        "ui.enabled": False,
        "ui.showConsoleProgress": False,
        **QUICK_JAVA,
    }


def stream(spark: Any, folder: Path, name: str) -> None:
    """Run a stream on the files that come, until the file `stop` is there and all has been read."""
    results = STREAMS[name].run(source(spark, folder / "in", SCHEMA))
    writer = results.writeStream.format("parquet").option("path", str(folder / "out"))
    running = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    while not running.awaitTermination(0.2):  # it raises what the stream has raised
        if (folder / "stop").exists():
            running.processAllAvailable()
            running.stop()
            break
    table = spark.read.parquet(str(folder / "out")).toArrow()
    with pa.OSFile(str(folder / "unfinished"), "wb") as file, pa.ipc.new_file(file, table.schema) as result:
        result.write_table(table)
    (folder / "unfinished").rename(folder / "result.arrow")


def batch(spark: Any, folder: Path, rounds: int) -> None:
    """Run the query on the hot key this many times."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
    for number in range(rounds):
        data = spark.read.parquet(str(folder / "in"))
        slow = data.repartition(4).mapInArrow(slowly, data.schema)
        (folder / f"begun-{number}").touch()
        HOT.run(slow).write.parquet(str(folder / "out" / str(number)))


def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are, so slowly that a fault meets tasks that run."""
    for batch in batches:
        time.sleep(0.05)
        yield batch


def main(master: str, where: str, what: str, which: str) -> None:
    folder = Path(where)
    spark = sash.spark.session(master=master, **settings(folder))
    if what == "stream":
        stream(spark, folder, which)
    else:
        batch(spark, folder, int(which))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
