"""Batch on Spark: lazy, typed, usable in larger plans, and with clear errors."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as sf

import sash
from sash import Count, Delta, Lifetime, Query, Time
from sash.spark.batch.plan_batch import explain_batch
from sash.spark.spark_types import spark_schema
from sash.testing import assert_same

TABLE = pa.table({"k": ["a", "b", "a", "a"], "t": [1, 1, 2, 9], "x": [3.0, 4.0, 1.0, None]})
LAST = Query(Time(5), by="k", on="t", high=sash.max("x"), n=sash.count())


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(TABLE)


def jobs(spark: Any) -> int:
    """How many jobs have begun: the number of the next one."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def rows(frame: Any) -> pa.Table:
    return frame.toArrow().sort_by([("k", "ascending"), ("t", "ascending")])


def expected(query: Query, table: pa.Table = TABLE) -> pa.Table:
    return query.run(table).sort_by([("k", "ascending"), ("t", "ascending")])


# ---- lazy and typed ----


def test_nothing_runs_before_an_action(spark: Any, frame: Any) -> None:
    before = jobs(spark)
    failing = sash.monoid(identity=0.0, lift=lambda _x: 1 / 0, combine=lambda a, b: a + b, returns="float64")
    got = sash.rolling(frame, Count(2), by="k", on="t", never=failing("x"))
    assert got.schema.simpleString() == "struct<k:string,t:bigint,x:double,never:double>"
    assert jobs(spark) == before


def test_the_schema_is_known_and_typed(frame: Any) -> None:
    ends = frame.withColumn("when", sf.timestamp_seconds("t")).withColumn("ok", sf.lit(True))
    got = sash.rolling(
        ends,
        {"all": Lifetime(every="1h"), "ten": Count(10, every=5)},
        by=["k"],
        on="when",
        values=sash.collect("x"),
        seen=sash.approx_distinct("t"),
        often=sash.frequent_items("k", k=2),
        middle=sash.approx_quantile("x", q=(0.5, 0.9)),
        shape=sash.m4("x"),
        run=sash.longest_run("ok", "t"),
        filter=sash.bloom("k"),
    )
    assert got.schema.simpleString() == (
        "struct<k:string,window:string,window_start:timestamp,window_end:timestamp,values:array<double>,seen:bigint,"
        "often:array<struct<item:string,count:bigint>>,middle:array<double>,"
        "shape:struct<first:double,min:double,max:double,last:double>,"
        "run:struct<start:bigint,end:bigint,interval:bigint,count:bigint>,filter:binary>"
    )


def test_types_that_spark_does_not_have_find_a_place(spark: Any) -> None:
    made = {"uint32": 7, "uint64": 2**63, "float16": 0.5, "large_string": "é"}
    aggregates = {
        f"of_{kind}": sash.monoid(
            identity=0, lift=lambda _x: 0, combine=lambda _a, _b: 0, lower=lambda _a, v=value: v, returns=kind
        )("id")
        for kind, value in made.items()
    }
    got = sash.rolling(spark.range(1), 1, on="id", **aggregates).collect()[0]
    assert [got[f"of_{kind}"] for kind in made] == list(made.values())


def test_columns_of_any_name_and_type_pass_through(spark: Any) -> None:
    frame = spark.sql(
        "select 'a' as `by.key`, 1 as `on``t`, map('x', 1) as m, array(struct(timestamp'2024-01-01' as t)) as l, "
        "interval '1' day as i, 1.5bd as d, null as nothing, X'00' as raw, time'10:00:00' as clock"
    )
    got = sash.rolling(frame, 2, by="by.key", on="on`t", n=sash.count())
    assert got.drop("n").collect() == frame.collect()
    assert got.schema["n"].dataType.simpleString() == "bigint"
    assert got.drop("n").schema.simpleString() == frame.schema.simpleString()


def test_a_column_that_cannot_leave_spark_is_named(spark: Any) -> None:
    frame = spark.sql("select 1 as t, make_interval(1) as odd")
    with pytest.raises(TypeError, match="'odd' of type interval cannot be converted to Arrow"):
        sash.rolling(frame, 2, on="t", n=sash.count())


def test_rows_without_a_time_keep_their_place(spark: Any) -> None:
    table = pa.table({"k": ["a"] * 5, "t": [1.0, None, float("nan"), float("inf"), 2.0], "i": range(5)})
    query = Query(2, by="k", on="t", n=sash.count())
    got = query.run(spark.createDataFrame(table)).toArrow().sort_by("i")
    assert got.column("n").to_pylist() == [1, None, None, None, 2]


def test_an_empty_frame_and_empty_partitions(frame: Any) -> None:
    assert LAST.run(frame.filter("false")).toArrow().num_rows == 0
    assert_same(rows(LAST.run(frame.repartition(9))), expected(LAST))


# ---- in larger plans ----


def test_after_a_join_before_a_write_cached_or_not(spark: Any, frame: Any, tmp_path: Path) -> None:
    names = spark.createDataFrame([("a", "A"), ("b", "B")], "k string, name string")
    joined = frame.join(names, "k").filter("t < 9")
    expected_rows = expected(LAST, TABLE.filter(pa.compute.less(TABLE.column("t"), 9)))
    for data in (joined, joined.cache()):
        LAST.run(data).write.mode("overwrite").parquet(str(tmp_path / "out"))
        assert_same(rows(spark.read.parquet(str(tmp_path / "out")).drop("name")), expected_rows)
    joined.unpersist()
    # and once more on what a query has given
    again = sash.rolling(LAST.run(frame), 2, by="k", on="t", highest=sash.max("high"))
    assert again.groupBy("k").agg(sf.max("highest").alias("m")).orderBy("k").collect() == [("a", 3.0), ("b", 4.0)]


def test_a_view_of_sql(spark: Any, frame: Any) -> None:
    LAST.run(frame).createOrReplaceTempView("rolled")
    assert spark.sql("select sum(n) as n from rolled where high is not null").first().n == 4


# ---- aggregates of one's own ----


NOTEBOOK = """
import math, sash
BASE = 2
def logarithm(x):
    return (1, math.log(x, BASE))
def add(a, b):
    return (a[0] + b[0], a[1] + b[1])
def keep(total, prefix):
    return total - prefix >= BASE
geo = sash.monoid(identity=(0, 0.0), lift=logarithm, combine=add, lower=lambda a: BASE ** (a[1] / a[0]))
query = sash.Query(sash.Policy(keep, sash.count()), on="id", g=geo("id"))
"""


def test_what_a_notebook_defines_travels(spark: Any) -> None:
    notebook: dict[str, Any] = {"__name__": "__main__"}
    exec(NOTEBOOK, notebook)
    got = notebook["query"].run(spark.range(1, 4)).orderBy("id").collect()
    assert [round(row.g**2) for row in got] == [1, 2, 6]


# ---- what is wrong ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": None}, "have no order: set on="),
        ({"on": "t", "emit": "eager"}, "emit='eager'"),
        ({"on": "tt"}, "on= names the column 'tt', which does not exist: did you mean 't'"),
        ({"on": "k"}, "on= names the column 'k' of type string"),
    ],
)
def test_queries_are_validated_at_the_call(frame: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError if "type" not in message else TypeError, match=message):
        sash.rolling(frame, 2, by="k", high=sash.max("x"), **arguments)


def test_a_failure_in_a_worker_is_one_line(spark: Any) -> None:
    inverse = sash.monoid(identity=0.0, lift=lambda x: 1 / (x - 3), combine=lambda a, b: a + b, name="inverse")
    frame = spark.createDataFrame([("a", 1, 1), ("a", 2, 3)], "k string, t int, x int")
    with pytest.raises(PythonException) as raised:
        sash.rolling(frame, 2, by="k", on="t", g=inverse("x")).collect()
    head, line = str(raised.value).strip().splitlines()
    assert head == "An exception was thrown from the Python worker:"
    assert line == (
        "ZeroDivisionError: the aggregate 'g' failed with ZeroDivisionError: division by zero; "
        "at row {'k': 'a', 't': 2, 'x': 3}; options=sash.Options(failed=\"side\") goes on without it "
        '([options] failed = "side" in a job)'
    )


def test_a_value_that_does_not_fit_names_column_and_key(spark: Any) -> None:
    frame = spark.createDataFrame([("a", 1, 2**62), ("a", 2, 2**62)], "k string, t int, x long")
    with pytest.raises(PythonException, match=r"'total'.*'k': 'a'") as raised:
        sash.rolling(frame, 2, by="k", on="t", total=sash.sum("x")).collect()
    assert len(str(raised.value).strip().splitlines()) == 2
    back = spark.createDataFrame([("a", 1, 5), ("a", 2, 3)], "k string, t int, g int")
    with pytest.raises(PythonException, match="'g': 3"):
        sash.rolling(back, Delta("g", 2), by="k", on="t", n=sash.count()).collect()


def test_a_row_and_its_schema_are_as_documented() -> None:
    schema = pa.schema({"a": pa.dictionary(pa.int8(), pa.string()), "b": pa.list_(pa.timestamp("ns"))})
    assert spark_schema(schema).simpleString() == "struct<a:string,b:array<timestamp_ntz>>"
    with pytest.raises(TypeError, match="'c' is of type decimal256"):
        spark_schema(pa.schema({"c": pa.decimal256(60)}))


# ---- rows that fail ----


def test_rows_that_fail_have_null_results_and_enter_no_window(spark: Any) -> None:
    def unlucky(x: int) -> int:
        if x == 13:
            raise ValueError("unlucky")
        return x

    total = sash.monoid(identity=0, lift=unlucky, combine=lambda a, b: a + b, lower=lambda a: a, returns="int64")
    table = pa.table({"k": ["a"] * 4, "t": [1, 2, 3, 4], "x": [1, 13, 3, 4], "y": [2**62, 1, 2**62, 1]})
    query = Query(
        2, by="k", on="t", options=sash.Options(failed="side"), s=total("x"), big=sash.sum("y"), n=sash.count()
    )
    got = query.run(spark.createDataFrame(table)).toArrow().sort_by("t")
    assert got.select(["s", "big", "n"]).to_pylist() == [
        {"s": 1, "big": 2**62, "n": 1},
        {"s": None, "big": None, "n": None},
        {"s": 4, "big": None, "n": 2},
        {"s": 7, "big": 2**62 + 1, "n": 2},
    ]
    spine = pa.table({"k": ["a", "a"], "t": [3, 5]})
    found = query.as_of(spark.createDataFrame(spine), spark.createDataFrame(table)).toArrow().sort_by("t")
    assert found.select(["s", "n"]).to_pylist() == [{"s": 1, "n": 1}, {"s": 7, "n": 2}]
    assert "not split: failed='side' sets rows aside" in "\n".join(explain_batch(query, spark.createDataFrame(table)))
