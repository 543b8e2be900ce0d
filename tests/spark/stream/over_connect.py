"""A stream over Spark Connect, in a process of its own: a classic session and Connect do not mix.

`python -m tests.spark.stream.over_connect FOLDER` says "agree", or fails.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sash.spark
from sash.testing import assert_same
from tests.shared.queries import loose
from tests.shared.quick_java import QUICK_LOCAL
from tests.spark.cases import SCHEMA, in_one_order
from tests.spark.stream.running import files, source, start
from tests.spark.stream.stream_rows import STREAMS, arriving, expected

QUERY = STREAMS["all windows with every, by ('k', 'j')"]


def main(folder: Path) -> None:
    spark = sash.spark.session(remote="local[2]", **QUICK_LOCAL, **{"sql.shuffle.partitions": 2, "log.level": "OFF"})
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    stream = source(spark, files(folder / "in", arriving(QUERY, seed=3, batches=2)), SCHEMA)
    with sash.spark.monitor(start(QUERY.run(stream), folder)) as watched:
        watched.query.awaitTermination()
    got = spark.read.schema(QUERY.run(stream).schema).parquet(str(folder / "out")).toArrow()
    assert_same(in_one_order(got, QUERY), in_one_order(expected(QUERY), QUERY), loose=loose(QUERY))
    assert watched.totals["rows_out"] == got.num_rows, watched.totals
    assert watched.last is not None
    assert watched.last.keys > 0
    print("agree")  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
