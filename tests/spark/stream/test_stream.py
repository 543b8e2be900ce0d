"""Streams on Spark itself: the same rows as a batch, settings and refusals, the side output, restarts.

Tests that do not need Spark run on `fake_spark`; those here need Spark itself.
"""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

import sash
import sash.spark
from sash import Options, Query, Time
from sash.spark.stream.checkpoint import StateMismatch
from sash.spark.stream.pack_shards import labels, spark_hash
from sash.stores import MemoryStore
from sash.testing import assert_same
from tests.shared.effort import THOROUGH, seldom
from tests.shared.queries import loose
from tests.spark.cases import SCHEMA, in_one_order
from tests.spark.stream.fake_spark import FakeStream
from tests.spark.stream.running import done, files, source, start
from tests.spark.stream.stream_rows import STREAMS, arriving, expected

CHOSEN = [
    seldom("formulas"),
    seldom("row: lifetime"),
    "all windows of rows, by ('k', 'j')",
    "all windows with every, by ('k', 'j')",
    seldom("timestamps"),
    seldom("order statistics"),
]
"""Formulas; every aggregate; every window per row and with every, keys of text, floats, NaN and null; timestamps."""


@pytest.mark.parametrize("name", CHOSEN)
def test_a_stream_gives_what_a_batch_gives(spark: Any, tmp_path: Path, name: str) -> None:
    query = STREAMS[name]
    batches = arriving(query, seed=2, batches=3 if THOROUGH else 1)
    FakeStream(query, SCHEMA, shards=2).run(batches)  # compiles what each of Spark's workers would compile for itself
    frame = query.run(source(spark, files(tmp_path / "in", batches), SCHEMA))
    counts = done(start(frame, tmp_path))
    got = spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).toArrow()
    assert got.schema.names == expected(query).schema.names
    assert_same(in_one_order(got, query), in_one_order(expected(query), query), loose=loose(query))
    assert sum(row["rows_out"] for row in counts) == got.num_rows
    assert sum(row["late"] for row in counts) == 0
    assert sum(row["untimed"] for row in counts) > 0
    assert max(row["pages_read"] for row in counts) < 40


def test_labels_fall_where_spark_hashes_them(spark: Any) -> None:
    found = spark.createDataFrame([(label,) for label in labels(64)], "label int").select("label", sf.hash("label"))
    assert all(spark_hash(label) == hashed for label, hashed in found.collect())


TRADES = "k string, ts timestamp, x double, _corrupt_record string"


class Ticks(DataSource):
    """A source in Python: three trades, a second apart."""

    @classmethod
    def name(cls) -> str:
        return "ticks"

    def schema(self) -> str:
        return "k string, ts timestamp, x double"

    def simpleStreamReader(self, schema: Any) -> Any:  # noqa: ARG002, N802 (Spark passes it by name)
        return TicksReader()


class TicksReader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def read(self, start: dict[str, int]) -> Any:
        return self.readBetweenOffsets(start, {"at": 3}), {"at": 3}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Any:  # noqa: N802
        moment = datetime(2024, 5, 1, tzinfo=UTC)
        return iter([("a", moment + timedelta(seconds=i), float(i)) for i in range(start["at"], end["at"])])


QUERY = Query(Time("10s"), by="k", on="ts", lateness="2s", high=sash.max("x"), n=sash.count())


def trades(folder: Path, *batches: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for i, lines in enumerate(batches, len(list(folder.iterdir()))):
        path = folder / f"{i}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))
    return folder


def trade(key: str | None, second: int, x: float) -> str:
    return json.dumps({"k": key, "ts": f"2024-05-01T12:00:{second:02}Z", "x": x})


def json_stream(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema(TRADES).option("maxFilesPerTrigger", 1).json(str(folder))


def test_the_side_output_goes_to_a_table_of_its_own(spark: Any, tmp_path: Path) -> None:
    first = [trade("a", 10, 1.0), trade(None, 11, 2.0), '{"k": "a", oops', '{"k": "b", "x": 4.0}']
    whole_late = [trade("a", 1, 9.0), trade("b", 2, 9.0), trade("c", 3, 9.0)]
    folder = trades(tmp_path / "in", first, [trade("a", 40, 3.0)], whole_late)
    both = sash.spark.with_side_output(QUERY, json_stream(spark, folder))
    writer = both.writeStream.foreachBatch(sash.spark.table_writer(tmp_path / "results", tmp_path / "side_output"))
    stream = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
    counts = done(stream)
    results = spark.read.parquet(str(tmp_path / "results"))
    assert sorted(map(str, results.select("k", "x", "high", "n").collect())) == [
        "Row(k='a', x=1.0, high=1.0, n=1)",
        "Row(k=None, x=2.0, high=2.0, n=1)",
    ]
    side_output = (
        spark.read.parquet(str(tmp_path / "side_output")).groupBy("_reason").agg(sf.collect_list("k"), sf.count("*"))
    )
    found = {reason: (sorted(keys), number) for reason, keys, number in side_output.collect()}
    assert found.pop("malformed")[1] == 1  # its k is there or not, as far as Spark could read it
    assert found == {"late": (["a", "b", "c"], 3), "untimed": (["b"], 1)}
    totals = {name: sum(row[name] or 0 for row in counts) for name in ("late", "untimed", "malformed")}
    assert totals == {"late": 3, "untimed": 1, "malformed": 1}


# Spark runs ten processes for a source in Python, and what they give is rows as of any source
@pytest.mark.parametrize(("name", "wanted"), [("from_csv", (1, 1)), seldom("from_python", (3, 0))])
def test_from_csv_or_a_source_in_python_to_memory(spark: Any, tmp_path: Path, name: str, wanted: Any) -> None:
    if name == "from_csv":
        lines = ["a,2024-05-01T12:00:01Z,5.0", "a,yesterday,6.0"]
        stream = spark.readStream.schema(TRADES).csv(str(trades(tmp_path / "in", lines)))
    else:
        spark.dataSource.register(Ticks)
        stream = spark.readStream.format("ticks").load()
    frame = sash.rolling(stream, 2, by="k", on="ts", lateness="0s", late="flag", n=sash.count())
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / name))
    counts = done(writer.trigger(availableNow=True).start())
    assert tuple(sum(row[what] for row in counts) for what in ("rows_in", "malformed")) == wanted
    assert spark.table(name).columns == ["k", "ts", "x", "n", "_late"]


def test_a_restart_continues_and_refuses_what_has_changed(spark: Any, tmp_path: Path) -> None:
    folder = trades(tmp_path / "in", [trade("a", 1, 5.0), trade("b", 2, 4.0)])

    def run(query: Query) -> None:
        start(query.run(json_stream(spark, folder)), tmp_path).awaitTermination()

    def written(place: str = "") -> dict[str, int]:
        found = (tmp_path / "checkpoint" / place).rglob("*")
        return {str(one): one.stat().st_mtime_ns for one in found if one.is_file()}

    run(QUERY)
    trades(folder, [trade("a", 9, 1.0)])
    other = Query(Time("11s"), by="k", on="ts", lateness="2s", high=sash.max("x"), n=sash.count())
    before, commits = written(), written("commits")
    with pytest.raises(StateMismatch, match=r"state of another query: window 10s → 11s"):
        run(other)
    with pytest.raises(StateMismatch, match=r"window 10s → 11s"):  # a migration, of yet another query
        start(other.migrate(json_stream(spark, folder), from_query=other), tmp_path)
    with pytest.raises(StateMismatch, match=r"window 10s → 11s"):
        sash.spark.check_checkpoint(other, json_stream(spark, folder), tmp_path / "checkpoint")
    sash.spark.check_checkpoint(QUERY, json_stream(spark, folder), tmp_path / "checkpoint")
    assert written() == before
    many = Query(
        Time("10s"), by="k", on="ts", lateness="2s", options=Options(shards=5), high=sash.max("x"), n=sash.count()
    )
    with pytest.raises(StateMismatch, match=r"state of 2 shards, and the query now has 5") as raised:
        run(many)
    assert "Options(shards=2)" in str(raised.value)
    assert written() == before
    # the writer of what was made of the results is Spark's own: the shards refuse the state
    with pytest.raises(StreamingQueryException, match=r"state of another query: window 10s → 11s"):
        start(other.run(json_stream(spark, folder)).select("*"), tmp_path).awaitTermination()
    assert written("commits") == commits
    trades(folder, [trade("end", 50, 0.0)])
    run(QUERY)
    got = spark.read.parquet(str(tmp_path / "out")).select("k", "x", "high", "n").collect()
    assert sorted(map(tuple, got)) == [("a", 1.0, 5.0, 2), ("a", 5.0, 5.0, 1), ("b", 4.0, 4.0, 1)]


# ---- at the call ----


@pytest.fixture(scope="module")
def rate(spark: Any) -> Any:
    return spark.readStream.format("rate").load().withColumn("x", sf.lit(1.0))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"lateness": None}, "set lateness='10s'"),
        ({"on": None, "lateness": None}, "set its column with on="),
        ({"options": Options(store=MemoryStore())}, "store= of Options is not supported on a stream"),
        ({"on": "tstamp"}, "'tstamp', which does not exist: did you mean 'timestamp'"),
    ],
)
def test_queries_are_validated_at_the_call(rate: Any, said: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"on": "timestamp", "lateness": "1s", "n": sash.count()} | said
    with pytest.raises(ValueError, match=message):
        sash.rolling(rate, 3, **given)


def test_a_watermark_is_not_taken_for_lateness(rate: Any) -> None:
    with pytest.raises(ValueError, match="has a watermark already, on its column 'timestamp'"):
        sash.rolling(rate.withWatermark("timestamp", "1 second"), 3, on="timestamp", lateness="1s", n=sash.count())


def test_a_query_on_the_results_of_a_query_is_refused(rate: Any) -> None:
    once = sash.rolling(rate, 3, on="timestamp", lateness="1s", n=sash.count())
    with pytest.raises(ValueError, match="the result of a query on a stream already"):
        sash.rolling(once.select("timestamp", "n"), 3, on="timestamp", lateness="1s", m=sash.max("n"))


@pytest.mark.parametrize("setting", ["providerClass", "rocksdb.changelogCheckpointing.enabled"])
def test_a_setting_that_is_missing_is_named(spark: Any, rate: Any, setting: str) -> None:
    name = f"spark.sql.streaming.stateStore.{setting}"
    before = spark.conf.get(name)
    spark.conf.set(name, "no")
    try:
        with pytest.raises(ValueError, match=f"needs the setting {name}=.*it is 'no'"):
            sash.rolling(rate, 3, on="timestamp", lateness="1s", n=sash.count())
    finally:
        spark.conf.set(name, before)


def test_the_schema_is_known_before_anything_runs(rate: Any) -> None:
    got = sash.rolling(rate, Time("1m", every="10s"), on="timestamp", lateness="1s", all=sash.collect("x"))
    assert got.isStreaming
    assert got.schema.simpleString() == "struct<window_start:timestamp,window_end:timestamp,all:array<double>>"
    flagged = sash.rolling(rate, 3, on="timestamp", lateness="1s", late="flag", n=sash.count())
    assert flagged.columns == ["timestamp", "value", "x", "n", "_late"]


def test_explain_shows_how_a_stream_runs(rate: Any) -> None:
    query = Query(3, by="value", on="timestamp", lateness="5s", n=sash.count())
    text = sash.spark.explain(query, rate)
    assert "rows packed into 2 shards, by a hash of value" in text
    assert "the watermark is '5s' behind" in text
    with pytest.raises(ValueError, match="lateness="):
        sash.spark.explain(Query(3, on="timestamp", n=sash.count()), rate)


def test_the_side_output_is_for_streams(spark: Any) -> None:
    with pytest.raises(TypeError, match="takes a streaming DataFrame"):
        sash.spark.with_side_output(Query(3, on="id", lateness=1, n=sash.count()), spark.range(3))
    with pytest.raises(ValueError, match="no column '_reason'"):
        sash.spark.split_side_output(spark.range(3))
