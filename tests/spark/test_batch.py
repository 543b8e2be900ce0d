"""Batch on Spark: what a user sees of it."""

from typing import Any

import pyarrow as pa

import sash
from sash.testing import assert_same


def test_a_query_on_a_data_frame(spark: Any) -> None:
    table = pa.table({"k": ["a", "b", "a", "a"], "t": [1, 1, 2, 9], "x": [3.0, 4.0, 1.0, None]})
    query = sash.Query(sash.Time(5), by="k", on="t", high=sash.max("x"), n=sash.count())
    got = query.run(spark.createDataFrame(table))
    assert got.schema.simpleString() == "struct<k:string,t:bigint,x:double,high:double,n:bigint>"
    assert_same(
        got.toArrow().sort_by([("k", "ascending"), ("t", "ascending")]),
        query.run(table).sort_by([("k", "ascending"), ("t", "ascending")]),
    )
