"""A stream as its user sees it: a listener's warnings, names in Spark's plans, and names of jobs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import sash
import sash.spark
from sash.spark.job_names import DESCRIPTION, job
from tests.spark.stream.running import files, source, start

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.float64())])
QUERY = sash.Query("10s", by="k", on="ts", lateness="1s", n=sash.count())
HOUR = 3600


def rows(*of: tuple[str, int]) -> list[pa.RecordBatch]:
    keys, seconds = zip(*of, strict=True)
    ts = pa.array([10**6 * one for one in seconds]).cast(SCHEMA.field("ts").type)
    return [pa.RecordBatch.from_arrays([pa.array(keys), ts, pa.array([1.0] * len(of))], schema=SCHEMA)]


def test_a_listener_tells_of_a_hot_key_and_of_a_row_from_the_future(spark: Any, tmp_path: Path, capsys: Any) -> None:
    even = [(key, i) for i, key in enumerate("ABCDEFGH")]
    arriving = [rows(*even, *(("A", i) for i in range(20, 60))), rows(("B", 9 * HOUR)), rows(("C", 61), ("D", 62))]
    frame = QUERY.run(source(spark, files(tmp_path / "in", arriving), SCHEMA))
    frame.explain()
    plan = capsys.readouterr().out
    shards = spark.conf.get("spark.sql.shuffle.partitions")
    assert f"MapInArrow sash: pack rows of n by k into {shards} shards(" in plan
    assert "MapInArrow sash: unpack n by k(" in plan
    said = io.StringIO()
    with sash.spark.monitor(start(frame, tmp_path), to=said, format="json") as watched:
        assert watched._feed is not None
        assert watched._feed._listener is not None
        watched.query.awaitTermination()
    first = watched.batches[0]
    assert first.hot_key is not None
    assert (first.hot_key.key, first.hot_key.rows, first.hot_key.is_hot) == ("k='A'", 41, True)
    assert first.sources[0][0].startswith("FileStreamSource")
    assert watched.totals["late"] == 2
    stall = watched.stall
    assert stall is not None
    assert (stall.kind, stall.row and stall.row.key, stall.row and stall.row.batch) == ("future", "k='B'", 1)
    assert "the row of key k='B' at 1970-01-01T09:00:00+00:00 (batch 1, shard " in watched.warnings[0]
    lines = [json.loads(line) for line in said.getvalue().splitlines()]
    assert [line["batch_rows"] for line in lines][:3] == [48, 1, 2]
    assert lines[0]["hot_key"] == "k='A'"


def test_jobs_that_sash_starts_are_named_and_others_keep_their_name(spark: Any) -> None:
    context = spark.sparkContext
    context.setLocalProperty(DESCRIPTION, "the user's own")
    try:
        with job(spark, "sash: times of large keys"):
            assert context.getLocalProperty(DESCRIPTION) == "sash: times of large keys"
        assert context.getLocalProperty(DESCRIPTION) == "the user's own"
    finally:
        context.setLocalProperty(DESCRIPTION, None)


def test_over_connect_jobs_have_a_tag() -> None:
    class Session:
        tags: set[str] = set()  # noqa: RUF012

        def addTag(self, tag: str) -> None:  # noqa: N802
            self.tags.add(tag)

        def removeTag(self, tag: str) -> None:  # noqa: N802
            self.tags.remove(tag)

    Session.__module__ = "pyspark.sql.connect.session"
    with job(Session(), "sash: micro-batch 1, to a table"):
        assert Session.tags == {"sash: micro-batch 1; to a table"}
    assert not Session.tags
