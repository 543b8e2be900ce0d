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
