"""Where Spark's own functions mean something else than sash: docs/differences.md, on a DataFrame."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import Window
from pyspark.sql import functions as fn

import sash
from sash import Count, Query
from sash.spark.spark_types import casts, wire_schema


def test_where_spark_differs(spark: Any) -> None:
    rows = [(1, None, 1.0, 2**62), (2, 5, float("nan"), 2**62), (3, None, 3.0, 0)]
    frame = spark.createDataFrame(rows, "t int, x int, f double, big bigint")
    last = Window.orderBy("t").rowsBetween(-2, 0)
    theirs = frame.select(fn.last("x").over(last).alias("last"), fn.min("f").over(last).alias("low")).collect()
    ours = Query(Count(3), on="t", last=sash.last("x"), low=sash.min("f")).run(frame).orderBy("t").collect()
    assert [row["last"] for row in theirs] == [None, 5, None], "Spark: nulls are values of first and last"
    assert [row["last"] for row in ours] == [None, 5, 5]
    assert [row["low"] for row in theirs] == [1.0, 1.0, 1.0], "Spark: NaN is the greatest number"
    assert [str(row["low"]) for row in ours] == ["1.0", "nan", "nan"]
    with pytest.raises(ArithmeticException, match="OVERFLOW"):
        frame.select(fn.sum("big").over(last)).collect()
    with pytest.raises(Exception, match="the sum left the range of 64-bit integers"):
        Query(Count(3), on="t", total=sash.sum("big")).run(frame).collect()


def test_nanoseconds_that_spark_would_cut_are_an_error_by_name() -> None:
    times = pa.record_batch({"latest": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(ValueError, match=r"the column 'latest' of type timestamp\[ns\] does not fit timestamp\[us\]"):
        casts(times, wire_schema(times.schema))
