"""The cases of parity over Spark Connect, in a process of their own: a classic session and Connect do not mix.

`python -m tests.spark.over_connect ADDRESS` says how many agree, and fails with the first that does not.
"""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import PythonException

import sash
import sash.spark
from sash import Count, Lifetime, Options, Query, Time
from sash.spark.batch import partition_task
from sash.spark.spark_types import spark_schema
from sash.testing import assert_same
from tests.shared.effort import THOROUGH
from tests.spark.cases import CASES, FEW, ON, SCHEMA, check, rows

EACH_TIME = ("all windows of rows, by ('k', 'j')", "all windows with every, by ('j',)")
EACH_TIME += ("timestamps, every",)
SELDOM = (
    "local times",
    "dates",
    "row: lifetime",
    "slide: time",
    *(name for name in CASES if name.startswith("all windows")),
)
CHOSEN = {name: CASES[name] for name in {*EACH_TIME, *(SELDOM if THOROUGH else ())}}
RANGES = Options(split=5)
CHOSEN["in ranges"] = Query(Time(4), by="k", on=ON, options=RANGES, **FEW)
CHOSEN["in ranges, with partials"] = Query(Lifetime(), on=ON, options=RANGES, **FEW)
"""Every kind of window, every aggregate and every type: the other cases differ in nothing that Connect sees."""


def check_failure(spark: Any) -> None:
    """An error of a worker names the aggregate and the row."""
    inverse = sash.monoid(identity=0.0, lift=lambda x: 1 / (x - 3), combine=lambda a, b: a + b, name="inverse")
    said = "the aggregate 'g' failed with ZeroDivisionError.*; at row {'id': 3}"
    with pytest.raises(PythonException, match=said) as raised:
        sash.rolling(spark.range(5), 2, on="id", g=inverse("id")).collect()
    assert len(str(raised.value).strip().splitlines()) <= 4


def check_as_of(frame: Any, table: Any) -> None:
    """The events before rows of a spine, which here are some of the rows themselves."""
    query = Query({"t": Time(4), "c": Count(3)}, by="k", on=ON, options=RANGES, n_=sash.count(), high=sash.max("f"))
    found = query.as_of(frame.select("k", "t", "row"), frame).toArrow()
    expected = query.as_of(table.select(["k", "t", "row"]), table)
    assert_same(found.sort_by("row"), expected.sort_by("row"))


def main(address: str) -> None:
    warnings.simplefilter("error", UserWarning)
    settings = {
        "sql.shuffle.partitions": 2,
        "sql.execution.arrow.maxRecordsPerBatch": 16,
        "sql.session.timeZone": "UTC",
    }
    spark = sash.spark.session(remote=address, **settings)
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    partition_task.ROWS = 1
    table = rows()
    frame = spark.createDataFrame(table, spark_schema(SCHEMA)).cache()
    with ThreadPoolExecutor(4) as pool:  # most of a small job's time is spent waiting
        for _ in pool.map(lambda query: check(frame, table, query), CHOSEN.values()):
            pass
    check_as_of(frame, table)
    check_failure(spark)
    assert sash.spark.session() is spark
    print(f"{len(CHOSEN)} agree")  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
