"""Live state between micro-batches: in steady state no page is read; when anything goes wrong, Spark's state is."""

from __future__ import annotations

import copy
import os
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

import sash
from sash import Query, Time
from sash.spark.arrow_ipc import blob_column
from sash.spark.stream import live_state, local_directory
from sash.spark.stream.local_directory import NAME, STALE, LocalDirectory, delete_stale_files
from sash.spark.stream.local_pages import FOOT
from sash.spark.stream.pack_shards import PackShards
from sash.spark.stream.shard_task import ShardTask
from sash.spark.stream.stream_spec import PackedRow
from tests.spark.stream.fake_spark import FakeStream, MapState, Timers

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
QUERY = Query(Time(50), by="k", on="t", lateness=5, high=sash.max("x"), n=sash.count())
TOKEN = "0123456789abcdef" * 2
ALWAYS = 2
"""The pages that a shard reads from Spark's state in each micro-batch: stream header and header."""


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local directory of an executor, and a worker that has done nothing yet."""
    root = tmp_path / "blockmgr-1"
    root.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(root))
    monkeypatch.setattr(live_state, "_alive", {})
    monkeypatch.setattr(local_directory, "_cleaned", set())
    return root


def rows(number: int, count: int = 200) -> pa.RecordBatch:
    """A micro-batch: 20 units of time, 40 keys."""
    draw = np.random.default_rng(number)
    times = np.sort(draw.integers(20 * number, 20 * number + 24, count))
    return pa.record_batch([draw.integers(0, 40, count), times, draw.random(count)], schema=SCHEMA)


class OtherWorkers(FakeStream):
    """A stream each of whose calls runs in a worker that has not had the shard."""

    def _call(self, *arguments: Any) -> None:
        live_state._alive.clear()
        super()._call(*arguments)


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def expected(batches: int, query: Query = QUERY) -> list[tuple[Any, ...]]:
    """The results of a stream in one worker, without files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_LOCAL_DIRS")
        stream = FakeStream(query, SCHEMA, shards=2)
        for number in range(batches):
            stream.batch([rows(number)])
    return sorted_rows(stream.table())


def files(root: Path) -> list[Path]:
    return sorted((root / NAME).glob("*"))


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
    live_state._alive.clear()
    stream.batch([rows(5)])
    assert stream.counts[-1]["pages_read"] <= ALWAYS * stream.counts[-1]["calls"]
    assert stream.counts[-1]["pages_local"] > 0
    assert sorted_rows(stream.table()) == expected(6)


def test_a_file_is_not_larger_than_twice_its_pages(local: Path) -> None:
    """A page of 1 MB stays, another of 100 KB is replaced by each of 40 micro-batches."""
    directory = LocalDirectory(str(local / NAME), 1 << 30)
    file, sizes = directory.create(), []
    for number in range(40):
        assert file is not None
        if number == 0:
            file.pages.put("b0", bytes(1_000_000))
        file.pages.put("b1", bytes([number]) * 100_000)
        file.publish(f"{number:032x}")
        sizes += [one.stat().st_size for one in files(local)]
        file = directory.claim(f"{number:032x}")
    assert file is not None
    assert (file.pages.get("b0"), file.pages.get("b1")) == (bytes(1_000_000), bytes([39]) * 100_000)
    assert len(sizes) == 40
    assert max(sizes) < 2 * 1_100_000 + 2**20 + 1000
    assert min(sizes[20:]) < 1_300_000  # it was written anew


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
    """Writes to Spark's state, of which the connection breaks after some."""

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
    live_state._alive.clear()
    packed = [PackedRow(0, rows=blob) for blob in blobs(stream, rows(4))]
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


def blobs(stream: FakeStream, batch: pa.RecordBatch) -> list[bytes]:
    return [row.rows for row in packed_rows(stream, batch) if row.rows is not None]


def clock_rows(stream: FakeStream, batch: pa.RecordBatch) -> list[PackedRow]:
    return [row for row in packed_rows(stream, batch) if row.max_ts is not None]


def test_an_abandoned_task_leaves_no_file(local: Path) -> None:
    """Spark stops to read the output, as it does when a task is killed."""
    stream = FakeStream(QUERY, SCHEMA, shards=1)
    for number in range(4):
        stream.batch([rows(number)])
    packed = [PackedRow(0, rows=blob) for blob in blobs(stream, rows(4))]
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


# ---- the files ----


def test_files_belong_to_this_user_alone(local: Path) -> None:
    FakeStream(QUERY, SCHEMA, shards=2).batch([rows(0)])
    assert stat.S_IMODE((local / NAME).stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(local)] == [0o600] * 2
    assert len({file.name for file in files(local)}) == 2
    assert all(len(file.name) == 32 for file in files(local))


def published(directory: LocalDirectory, token: str = TOKEN, page: bytes = b"page") -> None:
    file = directory.create()
    assert file is not None
    file.pages.put("b0", page)
    file.publish(token)


def test_a_file_is_claimed_once(local: Path) -> None:
    directory = LocalDirectory(str(local / NAME), 1 << 20)
    published(directory)
    found = directory.claim(TOKEN)
    assert found is not None
    assert found.pages.get("b0") == b"page"
    assert found.pages.get("b1") is None
    assert directory.claim(TOKEN) is None
    assert directory.claim("f" * 32) is None


@pytest.mark.parametrize("token", ["", "../" + TOKEN, TOKEN.upper(), TOKEN + "0", "host"])
def test_a_token_that_is_none_names_no_file(token: str, local: Path) -> None:
    """The token comes from a checkpoint, which others may have written."""
    directory = LocalDirectory(str(local / NAME), 1 << 20)
    published(directory)
    (local / TOKEN).write_bytes(files(local)[0].read_bytes())
    assert directory.claim(token) is None
    published(directory, token)
    assert [file.name for file in files(local)] == [TOKEN]


def test_links_and_files_of_others_are_refused(local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LocalDirectory(str(local / NAME), 1 << 20)
    published(directory)
    (file,) = files(local)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert directory.claim(TOKEN) is None
    assert (tmp_path / "elsewhere").exists()
    published(directory)
    os.chmod(file, 0o644)
    assert directory.claim(TOKEN) is None
    published(directory)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert directory.claim(TOKEN) is None
    with pytest.raises(PermissionError):
        LocalDirectory(str(local / NAME), 1 << 20)
    assert LocalDirectory.of_worker(1 << 20, 0) is None


@pytest.mark.parametrize("kind", ["open to others", "link", "file"])
def test_a_directory_that_others_may_have_made_is_not_used(kind: str, local: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    path = local / NAME
    if kind == "link":
        path.symlink_to(tmp_path / "theirs")
    elif kind == "file":
        path.write_bytes(b"")
    else:
        path.mkdir()
        path.chmod(0o770)
    assert LocalDirectory.of_worker(1 << 20, 0) is None
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(3):
        stream.batch([rows(number)])
    assert sorted_rows(stream.table()) == expected(3)
    assert not list((tmp_path / "theirs").iterdir())


def test_files_are_bounded_and_the_oldest_go_first(local: Path) -> None:
    directory = LocalDirectory(str(local / NAME), 10_000)
    for number in range(5):
        published(directory, f"{number:032x}", bytes(3000))
        os.utime(local / NAME / f"{number:032x}", (time.time() - 100 + number,) * 2)
    assert [int(file.name, 16) for file in files(local)] == [2, 3, 4]
    published(directory, TOKEN, bytes(20_000))  # larger than all may be together
    assert [int(file.name, 16) for file in files(local)] == [2, 3, 4]


def test_a_limit_of_0_makes_no_files(local: Path) -> None:
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    stream.spec = cloudpickle.dumps(replace(stream.spec_now(), local_limit=0))
    for number in range(3):
        stream.batch([rows(number)])
    assert not (local / NAME).exists()
    assert sorted_rows(stream.table()) == expected(3)


def test_a_full_disk_costs_only_the_file(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(6):
        with monkeypatch.context() as patch:
            if number == 3:
                patch.setattr(os, "pwrite", full)
            stream.batch([rows(number)])
        assert len(files(local)) == (0 if number == 3 else 2)
    assert sorted_rows(stream.table()) == expected(6)


def test_files_of_applications_that_were_killed_are_cleaned(local: Path, tmp_path: Path) -> None:
    stale, fresh = tmp_path / "blockmgr-2", tmp_path / "blockmgr-3"
    for root in (stale, fresh, local):
        root.mkdir(exist_ok=True)
        (root / "shuffle").write_bytes(b"of Spark")
        directory = LocalDirectory(str(root / NAME), 1 << 20)
        published(directory)
        assert directory.create() is not None
    for file in (*files(stale), *files(local)):
        os.utime(file, (time.time() - STALE - 1,) * 2)
    delete_stale_files(str(local))
    assert not (stale / NAME).exists()
    assert (stale / "shuffle").exists()
    assert len(files(fresh)) == 2
    assert files(local) == []
