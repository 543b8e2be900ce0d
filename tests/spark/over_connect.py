"""The cases of parity over Spark Connect, in a process of their own: a classic session and Connect do not mix.

`python -m tests.spark.over_connect` says how many agree, and fails with the first that does not.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import sash.spark
from sash.spark import worker
from sash.spark.types import spark_schema
from tests.spark.cases import CASES, SCHEMA, check, rows

CHOSEN = {name: query for name, query in CASES.items() if name.startswith("all windows")}
CHOSEN |= {name: CASES[name] for name in ("row: lifetime", "slide: time", "timestamps, every", "local times", "dates")}
"""Every kind of window, every aggregate and every type: the other cases differ in nothing that Connect sees."""


def main() -> None:
    warnings.simplefilter("error", UserWarning)
    settings = {"sql.shuffle.partitions": 2, "sql.execution.arrow.maxRecordsPerBatch": 16, "log.level": "OFF"}
    spark = sash.spark.session(remote="local[2]", **settings)
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    worker.ROWS = 1
    table = rows()
    frame = spark.createDataFrame(table, spark_schema(SCHEMA)).cache()
    with ThreadPoolExecutor(4) as pool:  # most of a small job's time is spent waiting
        for _ in pool.map(lambda query: check(frame, table, query), CHOSEN.values()):
            pass
    print(f"{len(CHOSEN)} agree")  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
