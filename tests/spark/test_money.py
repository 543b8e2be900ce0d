"""Decimals and intervals on Spark: values, types and rounding are those of Spark's own functions."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as fn

import sash
from sash import Count, Query
from sash.testing import assert_same

ROWS = [
    (1, Decimal("0.10"), timedelta(microseconds=1)),
    (2, Decimal("-0.25"), timedelta(microseconds=2)),
    (3, None, None),
    (4, Decimal("9999999.99"), timedelta(days=3)),
    (5, Decimal("-0.05"), timedelta(microseconds=-4)),
    (6, Decimal("0.02"), timedelta(microseconds=-1)),
]


@pytest.mark.parametrize(("precision", "scale"), [(9, 2), (38, 8)])
def test_sums_and_means_are_those_of_spark(spark: Any, precision: int, scale: int) -> None:
    frame = spark.createDataFrame(ROWS, f"t int, m decimal({precision}, {scale}), u interval day to second")
    last = Window.orderBy("t").rowsBetween(-2, 0)
    theirs = frame.select(
        "*",
        fn.sum("m").over(last).alias("paid"),
        fn.avg("m").over(last).alias("price"),
        fn.sum("u").over(last).alias("took"),
        fn.avg("u").over(last).alias("each"),
        fn.max("u").over(last).alias("most"),
    )
    ours = Query(
        Count(3),
        on="t",
        paid=sash.sum("m"),
        price=sash.mean("m"),
        took=sash.sum("u"),
        each=sash.mean("u"),
        most=sash.max("u"),
    ).run(frame)
    assert ours.dtypes == theirs.dtypes
    assert_same(ours.orderBy("t").toArrow(), theirs.orderBy("t").toArrow())
