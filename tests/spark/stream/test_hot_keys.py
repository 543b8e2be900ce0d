"""The key with the most rows, the row with the greatest time, and pages that are asked for before they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

import sash
from sash.spark.stream.pack_shards import LENGTH, SAMPLE, PackShards, hot_key, key_name, labels, shard_of
from sash.spark.stream.shard_task import ShardTask
from sash.spark.stream.stream_spec import PackedRow
from tests.spark.stream import fake_spark

MANY = 20 * SAMPLE


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array(["A", "B", None]), "k='A'"),
        (pa.array([None, 1, 2]), "k=None"),
        (pa.array([float("nan"), 0.0, None]), "k=nan"),
        (pa.array([-0.0, 1.0, None]), "k=0.0"),
        (pa.array([[1], [2], None]), "k=[1]"),
    ],
)
def test_a_key_is_found_in_a_sample_and_counted_in_all_rows(values: pa.Array, text: str) -> None:
    chance = np.random.default_rng(1)
    places = np.where(chance.random(MANY) < 0.7, 0, chance.integers(1, 3, MANY))
    batch = pa.record_batch({"k": values.take(pa.array(places)), "x": places})
    key, rows, keys = hot_key([batch.slice(0, 7), batch.slice(7)], ("k",))
    assert (key, keys) == (text, 3)
    assert rows is not None
    exact = int((places == 0).sum())
    assert rows == exact if not pa.types.is_nested(values.type) else abs(rows - exact) < MANY / 20


def test_keys_that_come_in_turn_are_no_hot_keys() -> None:
    batch = pa.record_batch({"k": np.arange(MANY) % 20})  # a sample at equal distances would hold one of them
    _, rows, keys = hot_key([batch], ("k",))
    assert (rows, keys) == (SAMPLE, 20)


def test_without_rows_or_keys_there_is_none() -> None:
    batch = pa.record_batch({"k": [1, 2]})
    assert hot_key([batch], ()) == hot_key([], ("k",)) == hot_key([batch.slice(0, 0)], ("k",)) == (None, None, None)


def test_a_long_key_is_cut() -> None:
    name = key_name(pa.record_batch({"k": ["x" * 1000]}), ("k",))
    assert name is not None
    assert len(name) == LENGTH
    assert name.endswith("x…")


SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("ms")), ("x", pa.float64())])
QUERY = sash.Query("10s", by="k", on="ts", lateness="1s", ahead="1000d", high=sash.max("x"))


def rows(*of: tuple[str, int]) -> pa.RecordBatch:
    keys, times = zip(*of, strict=True)
    columns = [pa.array(keys), pa.array(times).cast(pa.timestamp("ms")), pa.array(np.ones(len(of)))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def test_the_row_with_the_greatest_time_is_packed_with_its_key_and_shard() -> None:
    stream = fake_spark.FakeStream(QUERY, SCHEMA, shards=3)
    beyond = ("Z", 2**45)  # further than ahead= allows
    given = [rows(("A", 5), ("B", 9000), beyond), rows(("C", 300)), rows(("B", 9000), ("D", 10))]
    packed = [row for batch in PackShards(stream.spec_now())(given) for row in batch.drop_columns("max_ts").to_pylist()]
    (latest,) = [row for row in packed if row["greatest"] is not None]
    shard = labels(3)[int(shard_of(rows(("B", 0)), ("k",), 3)[0])]
    assert (latest["greatest"], latest["latest_key"], latest["latest_shard"]) == (9000, "k='B'", shard)


def progress_of(spec: Any, state: Any, packed: list[PackedRow]) -> Any:
    task = ShardTask(cloudpickle.loads(cloudpickle.dumps(spec)), 0, state, fake_spark.Timers())
    (found,) = (output.progress for output in task.run(packed, 0) if output.progress is not None)
    return found


def test_the_progress_of_a_shard_names_both() -> None:
    spec = fake_spark.FakeStream(QUERY, SCHEMA, shards=1).spec_now()
    given = [rows(("A", 5), ("B", 9000), ("A", 7)), rows(("C", 300))]
    packed = [
        PackedRow(**row)
        for batch in PackShards(spec)(given)
        for row in batch.drop_columns("max_ts").to_pylist()
        if row["rows"] is not None or row["greatest"] is not None
    ]
    found = progress_of(spec, fake_spark.MapState(), packed)
    assert (found.rows_in, found.hot_key, found.hot_rows, found.sampled_keys) == (4, "k='A'", 2, 3)
    assert (found.greatest, found.latest_key, found.latest_shard) == (9000, "k='B'", 0)


class LoudState(fake_spark.MapState):
    """Spark logs a warning for each value that is read and missing."""

    def getValue(self, key: Any) -> Any:  # noqa: N802
        found = super().getValue(key)
        assert found is not None, f"a warning about {key}"
        return found


def test_no_page_is_read_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_spark, "MapState", LoudState)
    stream = fake_spark.FakeStream(QUERY, SCHEMA, shards=2)
    for number in range(4):
        stream.batch([rows(*((key, 4000 * number + i) for i, key in enumerate("ABCD")))])
    assert len(stream.state) == 2
    assert stream.table().num_rows
