"""Live state between micro-batches: in steady state no page is read; after a failure Spark's state is read again."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Query, Time
from sash.spark.stream import local_pages
from sash.spark.stream.local_pages import FOOT, NAME
from sash.spark.stream.pack_shards import PackShards
from sash.spark.stream.shard_task import ShardTask
from sash.spark.stream.stream_spec import PackedRow
from sash.spark.worker_io import blob_column
from tests.spark.stream.fake_spark import FakeStream, MapState, Timers
from tests.spark.stream.live_cases import QUERY, SCHEMA, OtherWorkers, expected, files, rows, sorted_rows

pytestmark = pytest.mark.usefixtures("local")

ALWAYS = 2
"""The pages that a shard reads from Spark's state in each micro-batch: stream header and header."""


# ---- steady state ----

QUERIES = {
    "final": QUERY,
    "slides": Query(Time(20, every=5), by="k", on="t", lateness=5, total=sash.sum("x")),
    "changes": Query(Time(50), by="k", on="t", lateness=5, emit="changes", high=sash.max("x")),
    "eager": Query(Time(50), by="k", on="t", lateness=5, emit="eager", high=sash.max("x")),
    "median": Query(Time(50), by="k", on="t", lateness=5, mid=sash.median("x")),
}


@pytest.mark.parametrize("name", QUERIES)
def test_another_worker_reads_no_page_of_sparks_state(name: str, local: Path) -> None:
    stream = OtherWorkers(QUERIES[name], SCHEMA, shards=2)
    for number in range(6):
        stream.batch([rows(number)])
    for counts in stream.counts[1:]:
        assert counts["pages_read"] <= ALWAYS * counts["calls"]
        assert counts["pages_local"] >= counts["calls"]
    assert sorted_rows(stream.table()) == expected(6, QUERIES[name])
    assert len(files(local)) == 2  # a file a shard, none left of micro-batches before


def test_the_same_worker_reads_no_page_at_all() -> None:
    stream = FakeStream(QUERY, SCHEMA, shards=2)
    for number in range(6):
        stream.batch([rows(number)])
    for counts in stream.counts[1:]:
        assert counts["pages_read"] <= ALWAYS * counts["calls"]
        assert counts["pages_local"] == 0
    assert sorted_rows(stream.table()) == expected(6)


def test_a_worker_that_comes_late_finds_what_the_others_have_written() -> None:
    stream = FakeStream(QUERY, SCHEMA, shards=2)
    for number in range(5):
        stream.batch([rows(number)])
    local_pages._alive.clear()
    stream.batch([rows(5)])
    assert stream.counts[-1]["pages_read"] <= ALWAYS * stream.counts[-1]["calls"]
    assert stream.counts[-1]["pages_local"] > 0
    assert sorted_rows(stream.table()) == expected(6)


# ---- what goes wrong ----


def test_a_failed_attempt_is_repeated_from_sparks_state(local: Path) -> None:
    """The task fails at each of its writes in turn, after all rows were processed, and is run again."""
    stream = FakeStream(QUERY, SCHEMA, shards=2)
    for number in range(3):
        stream.batch([rows(number)])
    for number, failing in enumerate((0, 1, 3), start=3):
        before = copy.deepcopy((stream.state, stream.timers, stream.watermark, stream.greatest))
        results = len(stream.results)
        for state in stream.state.values():
            state.updateValue = Failing(state, failing)  # type: ignore[method-assign]
        with pytest.raises(ConnectionError):
            stream.batch([rows(number)])
        stream.state, stream.timers, stream.watermark, stream.greatest = before
        del stream.results[results:]
        stream.batch([rows(number)])
        assert stream.counts[-1]["pages_read"] > ALWAYS * stream.counts[-1]["calls"]  # of the shard that has failed
    assert sorted_rows(stream.table()) == expected(6)
    assert all(len(file.name) == 32 for file in files(local))  # a failed attempt deletes what it has claimed


class Failing:
    """Writes to Spark's state, and fails after this many."""

    def __init__(self, state: MapState, after: int) -> None:
        self.state, self.after = state, after

    def __call__(self, key: Any, value: Any) -> None:
        if self.after == 0:
            raise ConnectionError("the task was killed")
        self.after -= 1
        MapState.updateValue(self.state, key, value)


def test_of_a_task_that_fails_after_its_last_write_nothing_is_used() -> None:
    """The operator and the file of an attempt that Spark did not commit have a token that Spark's state never has."""
    stream = FakeStream(QUERY, SCHEMA, shards=2)
    for number in range(3):
        stream.batch([rows(number)])
    before = copy.deepcopy((stream.state, stream.timers, stream.watermark, stream.greatest))
    results = len(stream.results)
    stream.batch([rows(7)])  # other rows: should anything of them remain, results would differ
    stream.state, stream.timers, stream.watermark, stream.greatest = before
    del stream.results[results:]
    for number in range(3, 6):
        stream.batch([rows(number)])
    assert stream.counts[4]["pages_read"] > ALWAYS * stream.counts[4]["calls"]
    assert stream.counts[5]["pages_read"] <= ALWAYS * stream.counts[5]["calls"]
    assert sorted_rows(stream.table()) == expected(6)


@pytest.mark.parametrize("committed", ["first", "second"])
def test_two_attempts_at_a_time_do_not_meet(committed: str) -> None:
    """A speculative or a zombie task: both have the shard at once, in two workers, and Spark commits one of them."""
    stream = OtherWorkers(QUERY, SCHEMA, shards=1)
    for number in range(4):
        stream.batch([rows(number)])
    local_pages._alive.clear()
    packed = [PackedRow(0, rows=blob) for blob in row_payloads(stream, rows(4))]
    attempts = []
    for _ in range(2):
        state, timers = copy.deepcopy((stream.state[0], stream.timers[0]))
        attempts.append((ShardTask(stream.spec_now(), 0, state, timers), state, timers))
    outputs = [task.run(packed, stream.watermark) for task, _, _ in attempts]
    first = [next(outputs[0])]  # the first has claimed the file, and is in the middle of its results
    second = list(outputs[1])
    first += list(outputs[0])
    assert [(one.results, one.side) for one in first] == [(one.results, one.side) for one in second]
    assert attempts[0][0].store.pages_read <= ALWAYS < attempts[1][0].store.pages_read
    _, stream.state[0], stream.timers[0] = attempts[committed == "second"]
    for one in second:
        if one.results is not None:
            batch = pa.record_batch({"results": blob_column([one.results]), "side": blob_column([None])})
            stream.results += stream.unpack([batch])
    stream.greatest = max(stream.greatest, *(row.max_ts or 0 for row in clock_rows(stream, rows(4))))
    stream.watermark = max(stream.watermark, stream.greatest - stream.delay)
    stream.batch([rows(5)])
    assert stream.counts[-1]["pages_read"] <= ALWAYS * stream.counts[-1]["calls"]  # the file of the one that counts
    assert sorted_rows(stream.table()) == expected_of_one_shard()


def expected_of_one_shard() -> list[tuple[Any, ...]]:
    stream = FakeStream(QUERY, SCHEMA, shards=1)
    for number in range(6):
        stream.batch([rows(number)])
    return sorted_rows(stream.table())


def packed_rows(stream: FakeStream, batch: pa.RecordBatch) -> list[PackedRow]:
    found = []
    for packed in PackShards(stream.spec_now())([batch]):
        times = packed.column("max_ts").cast(pa.int64()).to_pylist()
        for at, row in zip(times, packed.drop_columns("max_ts").to_pylist(), strict=True):
            found.append(PackedRow(**row, max_ts=None if at is None else at // 1000))
    return found


def row_payloads(stream: FakeStream, batch: pa.RecordBatch) -> list[bytes]:
    return [row.rows for row in packed_rows(stream, batch) if row.rows is not None]


def clock_rows(stream: FakeStream, batch: pa.RecordBatch) -> list[PackedRow]:
    return [row for row in packed_rows(stream, batch) if row.max_ts is not None]


def test_an_abandoned_task_leaves_no_file(local: Path) -> None:
    """Spark stops to read the output, as it does when a task is killed."""
    stream = FakeStream(QUERY, SCHEMA, shards=1)
    for number in range(4):
        stream.batch([rows(number)])
    packed = [PackedRow(0, rows=blob) for blob in row_payloads(stream, rows(4))]
    output = ShardTask(stream.spec_now(), 0, copy.deepcopy(stream.state[0]), Timers()).run(packed, stream.watermark)
    next(output)
    assert [file.suffix for file in files(local)] == [".use"]
    output.close()
    assert files(local) == []


def test_another_executor_reads_sparks_state_and_then_its_own_file(
    local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    other = tmp_path / "blockmgr-2"
    other.mkdir()
    for number in range(8):
        # back on the first executor after two micro-batches, whose files are of an older state
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(other if number in (3, 4) else local))
        stream.batch([rows(number)])
    moved = [counts["pages_read"] > ALWAYS * counts["calls"] for counts in stream.counts]
    assert moved == [False, False, False, True, False, True, False, False]
    assert sorted_rows(stream.table()) == expected(8)


def test_a_wiped_directory_is_made_again(local: Path) -> None:
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(6):
        if number == 3:
            shutil.rmtree(local / NAME)
        stream.batch([rows(number)])
    assert stream.counts[3]["pages_read"] > ALWAYS * stream.counts[3]["calls"]
    assert stream.counts[4]["pages_read"] <= ALWAYS * stream.counts[4]["calls"]
    assert sorted_rows(stream.table()) == expected(6)


def test_without_a_directory_there_are_pages_alone(local: Path) -> None:
    local.rmdir()
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(6):
        stream.batch([rows(number)])
    assert sum(counts["pages_local"] for counts in stream.counts) == 0
    assert sorted_rows(stream.table()) == expected(6)


@pytest.mark.parametrize("damage", ["truncated", "empty", "page", "index", "foot", "replaced"])
def test_a_damaged_file_is_not_used(damage: str, local: Path) -> None:
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(6):
        stream.batch([rows(number)])
        if number == 3:
            for file in files(local):
                file.write_bytes(damaged(file.read_bytes(), damage))
    assert stream.counts[4]["pages_read"] > ALWAYS * stream.counts[4]["calls"]
    assert stream.counts[5]["pages_read"] <= ALWAYS * stream.counts[5]["calls"]
    assert sorted_rows(stream.table()) == expected(6)


def damaged(data: bytes, how: str) -> bytes:
    if how == "truncated":
        return data[: len(data) // 2]
    if how in ("empty", "replaced"):
        return b"" if how == "empty" else b"x" * len(data)
    index = FOOT.unpack(data[-FOOT.size :])[2]
    at = {"page": slice(0, index, 40), "index": slice(index + 8, index + 20), "foot": slice(-40, -20)}[how]
    changed = np.frombuffer(data, np.uint8).copy()
    changed[at] ^= 0xFF
    return changed.tobytes()


def test_two_queries_and_two_copies_of_a_checkpoint_share_a_directory(local: Path) -> None:
    """The copies begin with one token: one of them gets the file, the other reads Spark's state."""
    first, other = OtherWorkers(QUERY, SCHEMA, shards=2), OtherWorkers(QUERIES["slides"], SCHEMA, shards=2)
    for number in range(3):
        first.batch([rows(number)])
        other.batch([rows(number)])
    second = copy.deepcopy(first)
    for number in range(3, 6):
        for stream in (first, second, other):
            stream.batch([rows(number)])
    assert sorted_rows(first.table()) == sorted_rows(second.table()) == expected(6)
    assert sorted_rows(other.table()) == expected(6, QUERIES["slides"])
    reads = [[c["pages_read"] > ALWAYS * c["calls"] for c in stream.counts[3:]] for stream in (first, second, other)]
    assert reads == [[False] * 3, [True, False, False], [False] * 3]
    assert len(files(local)) == 6
