"""A stream that is killed: its driver, in a process of its own, to be killed with -9 at any moment and started again.

`python -m tests.spark.stream.killed FOLDER` runs the stream of FOLDER/in to its end, into FOLDER/out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sash.spark
from tests.shared.quick_java import QUICK_LOCAL
from tests.spark.cases import SCHEMA
from tests.spark.stream.running import source, start
from tests.spark.stream.stream_rows import STREAMS

QUERY = STREAMS["rows, changes"]


def main(folder: Path) -> None:
    settings = {"sql.shuffle.partitions": 2, "log.level": "OFF", "local.dir": folder / "local", **QUICK_LOCAL}
    spark = sash.spark.session(master="local[2]", **settings)
    start(QUERY.run(source(spark, folder / "in", SCHEMA)), folder).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
