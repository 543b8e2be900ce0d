"""A small parity of batch and stream, for every version of Spark: `make test-versions` runs it in each of them.

pytest takes this file only if it is named. Rows come from a file, since Spark 3.5 makes no DataFrame of Arrow.
"""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import sash
from sash import Options, Query, Session, Time
from sash.spark.spark_types import arrow_schema, collected, spark_schema
from sash.testing import assert_same
from tests.shared.queries import loose
from tests.spark.cases import CASES, SCHEMA, in_one_order, rows
from tests.spark.stream.stream_rows import STREAMS, arriving, expected

HAS_STREAMS = int(pyspark.__version__.split(".")[0]) >= 4
PLAIN = pa.schema([field for field in SCHEMA if field.name != "u"])
"""Parquet has no durations."""

BATCHES = ("rows, changes", "timestamps, every", "formulas", "dates", "local times", "order statistics")
"""Queries on columns of every type but durations, which have their own test."""


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("rows")
    pq.write_table(rows().select(PLAIN.names), folder / "rows.parquet")
    return spark.read.parquet(str(folder)).repartition(3)


def same(got: pa.Table, expected: pa.Table, query: Query) -> None:
    got = got.cast(expected.schema) if got.schema != expected.schema else got
    assert_same(in_one_order(got, query), in_one_order(expected, query), loose=loose(query))


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch(table: Any, name: str) -> None:
    query = CASES[name]
    same(collected(query.run(table)), query.run(rows().select(PLAIN.names)), query)


def test_durations(spark: Any) -> None:
    table = rows().select(["k", "t", "row", "u"]).filter(pa.compute.field("t").is_valid())
    data = spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], spark_schema(table.schema))
    query = Query(3, by="k", on=("t", "row"), took=sash.sum("u"), slowest=sash.max("u"))
    same(collected(query.run(data)), query.run(table), query)


def test_a_hot_key(table: Any) -> None:
    windows = {"time": Time(6), "session": Session(2)}
    query = Query(windows, by="k", on=("t", "row"), options=Options(split=3), n=sash.count("f"), high=sash.max("f"))
    same(collected(query.run(table)), query.run(rows().select(PLAIN.names)), query)


def test_features_as_of(table: Any) -> None:
    local = rows().select(PLAIN.names)
    spine = table.where("t is not null").selectExpr("k", "t", "row")
    asked = local.filter(pa.compute.field("t").is_valid()).select(["k", "t", "row"])
    given: dict[str, Any] = {"by": "k", "on": "t", "n": sash.count(), "high": sash.max("f")}
    events = table.drop("row")
    got = collected(sash.as_of(spine, events, Time(5), **given)).sort_by("row")
    expected = sash.as_of(asked, local.drop_columns(["row"]), Time(5), **given).sort_by("row")
    assert_same(got, expected)


def test_a_monoid_of_the_user(table: Any) -> None:
    longest = sash.monoid(identity=0, lift=lambda x: x * x, combine=lambda a, b: a + b)
    query = Query(3, by="k", on=("t", "row"), squares=longest("n"))
    same(collected(query.run(table)), query.run(rows().select(PLAIN.names)), query)


def test_types_come_back(table: Any) -> None:
    assert arrow_schema(table.schema).field("ts").type == pa.timestamp("us", "UTC")
    assert spark_schema(PLAIN).simpleString() == table.schema.simpleString()


def put(folder: Path, number: int, parts: list[pa.RecordBatch]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches(parts).select(PLAIN.names), folder / f"{number:04}.parquet")


def play(spark: Any, folder: Path, query: Query) -> None:
    stream = spark.readStream.schema(spark_schema(PLAIN)).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writer = query.run(stream).writeStream.format("parquet").option("path", str(folder / "out"))
    writer.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True).start().awaitTermination()


@pytest.mark.skipif(not HAS_STREAMS, reason="Spark 3.5 has no state for Python; that it says so is tested")
@pytest.mark.parametrize("name", ["rows, changes", "timestamps, every"])
def test_a_stream_that_is_stopped_and_continues(spark: Any, tmp_path: Path, name: str) -> None:
    query = STREAMS[name]
    batches = arriving(query, seed=random.Random(3).randrange(9), batches=4)
    for number, parts in enumerate(batches):
        put(tmp_path / "in", number, parts)
        if number in (2, len(batches) - 1):
            play(spark, tmp_path, query)
    expected_rows = expected(query)
    expected_rows = expected_rows.select([column for column in expected_rows.schema.names if column != "u"])
    same(collected(spark.read.parquet(str(tmp_path / "out"))), expected_rows, query)


@pytest.mark.skipif(HAS_STREAMS, reason="streams run")
def test_a_stream_is_refused_with_the_version_that_it_needs(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    query = Query("1m", on="timestamp", lateness="1s", n=sash.count())
    for call in (query.run, lambda data: sash.spark.explain(query, data)):
        with pytest.raises(RuntimeError, match=rf"needs Spark 4\.0 or later.*; this is {pyspark.__version__}"):
            call(stream)
