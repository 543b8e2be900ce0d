"""Where Spark's own functions mean something else than sash: docs/differences.md, on a DataFrame."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import Window
from pyspark.sql import functions as fn

import sash
from sash import Count, Query, Session, Time
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


HOPS = [
    ("10 seconds", "3 seconds", "0 seconds"),
    ("7 seconds", "2 seconds", "1 second"),
    ("6 seconds", "3 seconds", "2 seconds"),
]
"""Sizes, slides and start times; the slide divides only the last size."""


@pytest.mark.parametrize(("size", "every", "start"), HOPS)
def test_hopping_windows_are_those_of_spark(spark: Any, size: str, every: str, start: str) -> None:
    frame = spark.range(40).select(fn.timestamp_millis(fn.col("id") * fn.col("id") * 130).alias("ts"), "id")
    theirs = frame.groupBy(fn.window("ts", size, every, start).alias("w")).agg(fn.sum("id").alias("s"))
    expected = sorted(theirs.select("w.start", "w.end", "s").collect())
    window = Time(size, every=every, offset=start, align="start")
    assert sorted(sash.rolling(frame, window, on="ts", s=sash.sum("id")).collect()) == expected
    keyed = frame.withColumn("k", fn.lit("a"))
    statement = f"SELECT k, sum(id) AS s FROM events GROUP BY k, window(ts, '{size}', '{every}', '{start}')"
    assert sorted(row.s for row in sash.sql(statement, events=keyed).collect()) == sorted(row[2] for row in expected)


def test_sessions_are_those_of_spark(spark: Any) -> None:
    """Rows a second less than the gap apart, exactly the gap, and a microsecond more."""
    steps = [0, 9_000_000, 10_000_000, 10_000_001, 10_000_000, 0, 11_000_000]
    times = [(sum(steps[: i + 1]), i) for i in range(len(steps))]
    frame = spark.createDataFrame(times, "us long, id long").select(fn.timestamp_micros("us").alias("ts"), "id")
    theirs = frame.groupBy(fn.session_window("ts", "10 seconds").alias("w")).agg(fn.sum("id").alias("s"))
    expected = sorted(theirs.select("w.start", "w.end", "s").collect())
    assert len(expected) == 3
    for options in (sash.Options(), sash.Options(split=3)):
        found = sash.rolling(frame, Session("10s", every="close"), on="ts", options=options, s=sash.sum("id")).collect()
        assert sorted(found) == expected
