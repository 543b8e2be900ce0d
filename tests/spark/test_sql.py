"""`sash.sql` on Spark: equal to the same statement on a frame, in batch and on a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.testing import assert_same

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "k": ["a", "b", "a", "a", "b", "a"],
        "t": [1, 2, 3, 7, 8, 30],
        "x": [3.0, 1.0, None, 5.0, 4.0, 2.0],
    }
)
AT_EACH_ROW = """SELECT k, t AS at, max(x) OVER w AS high, sum(x * 2) FILTER (WHERE x > 1) OVER w AS s FROM events
    WHERE t <> 8 WINDOW w AS (PARTITION BY k ORDER BY t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW)"""


def test_in_batch(spark: Any) -> None:
    frame = spark.createDataFrame([tuple(row.values()) for row in ROWS.to_pylist()], "k string, t long, x double")
    found = sash.sql(AT_EACH_ROW, events=frame).toArrow()
    assert_same(found.sort_by("at"), sash.sql(AT_EACH_ROW, events=ROWS).sort_by("at"))


def test_on_a_stream(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([tuple(row.values()) for row in ROWS.to_pylist()], "k string, t long, x double")
    frame.coalesce(1).write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "events"))
    results = sash.sql(AT_EACH_ROW, events=stream, lateness=1)
    assert results.isStreaming
    writer = results.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().sort_by("at")
    wanted = sash.sql(AT_EACH_ROW, events=ROWS).sort_by("at")
    assert_same(found, wanted.slice(0, wanted.num_rows - 1))  # the last row is not final yet


PEERS = pa.table(
    {
        "k": ["a", "a", "a", "a", "b"],
        "f": [1.0, 1.0, 1.0, 2.0, None],
        "s": ["p", "q", "q", None, "p"],
        "x": [1, 2, 4, 8, 16],
    }
)


@pytest.mark.parametrize("partition", ["PARTITION BY k ", ""])
def test_peers_are_equal_in_all_columns_of_order_by(spark: Any, partition: str) -> None:
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in PEERS.to_pylist()], "k string, f double, s string, x long"
    )
    text = f"SELECT x, sum(x) OVER ({partition}ORDER BY f, s) AS total FROM events"
    found = sash.sql(text, events=frame).toArrow().sort_by("x")
    assert found["total"].to_pylist() == [1, 7, 7, 15, None]
    assert_same(found, sash.sql(text, events=PEERS).sort_by("x"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT X, sum(x) OVER (ORDER BY t) AS s FROM events",
        "SELECT sum(X) OVER (ORDER BY t) AS s FROM events",
        "SELECT sum(x) OVER (PARTITION BY K ORDER BY t) AS s FROM events",
        "SELECT sum(x) OVER (ORDER BY T) AS s FROM events",
        "SELECT sum(x) OVER (ORDER BY t) AS s FROM events WHERE X > 1",
        'SELECT sum(x) OVER (ORDER BY t) AS s FROM events WHERE k = "a"',
        "SELECT sum(x) OVER (ORDER BY t) AS s FROM events WHERE x",
        "SELECT sum(x) OVER (ORDER BY t) AS s FROM events WHERE k > 1",
        "SELECT K, sum(x) AS s FROM events GROUP BY K, window(t, 3)",
    ],
)
def test_errors_are_those_of_frames(spark: Any, text: str) -> None:
    frame = spark.createDataFrame([], "k string, t long, x double")
    with pytest.raises((TypeError, ValueError)) as wanted:
        sash.sql(text, events=ROWS)
    with pytest.raises(type(wanted.value)) as found:
        sash.sql(text, events=frame)
    assert str(found.value) == str(wanted.value)


def test_peers_on_a_stream(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.schema("k string, t long, x double").parquet(str(tmp_path))
    with pytest.raises(ValueError, match="not supported on a stream: write ROWS UNBOUNDED PRECEDING, or ORDER BY t"):
        sash.sql("SELECT sum(x) OVER (PARTITION BY k ORDER BY t, x) AS s FROM events", events=stream, lateness=1)


CONDITIONS = [
    "f > 1", "f = f", "f <> f", "not f > 1", "greatest(f, i) > 5", "sqrt(i) > 1", "i / 0 is null", "10 / i > 0",
    "i % 0 is null", "dow(ts) = 0", "extract(second from ts) = 59", "extract(epoch from ts) < 0", "isfinite(f)",
    "round(f) = 3", "i // 2 = -3", "ts > '2024-02-25 12:00:00'", "hour(ts) = 23", "i in (3, null)",
    "not i > 3 or s = 'a'", "s > 'B'", "s = 'a\\b'", "p", "not p", "i is null", "p is not true", "i = 3 and s is null",
    "true", "false",
]  # fmt: skip


def test_a_condition_means_the_same_as_on_frames(spark: Any) -> None:
    nan = float("nan")
    table = pa.table(
        {
            "id": [0, 1, 2, 3, 4, 5],
            "i": [-7, -1, 0, 3, None, 10],
            "f": [-2.5, 0.5, 1.5, nan, None, 2.7],
            "s": ["a", "B", "", None, "a\\b", "12"],
            "p": [True, False, None, True, False, True],
            "ts": pa.array([1708905599500000, -7200000000, 1704067200000000, None, 1677999600000000, 0]).cast(
                pa.timestamp("us", "UTC")
            ),
        }
    )
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in table.to_pylist()],
        "id long, i long, f double, s string, p boolean, ts timestamp",
    )
    texts = [
        f"SELECT id, count(*) OVER (ORDER BY id ROWS CURRENT ROW) AS n FROM events WHERE {condition}"
        for condition in CONDITIONS
    ]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = [sorted(row.id for row in sash.sql(text, events=frame).collect()) for text in texts]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    wanted = [sash.sql(text, events=table)["id"].to_pylist() for text in texts]
    assert dict(zip(CONDITIONS, found, strict=True)) == dict(zip(CONDITIONS, wanted, strict=True))


@pytest.mark.parametrize("condition", ["x > 1", "x * 2 > 2"])
def test_a_condition_keeps_the_rows_in_which_another_column_is_set(spark: Any, condition: str) -> None:
    from sash.spark.column_exprs import filtered

    frame = spark.createDataFrame([(1, None), (2, None), (None, "bad"), (1, "bad")], "x int, bad string")
    rows = filtered(frame, sash.expr(condition).tree, condition, "where", besides="bad").collect()
    assert [tuple(row) for row in rows] == [(2, None), (None, "bad"), (1, "bad")]
