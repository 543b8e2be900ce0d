"""`sash.pipe` from end to end in one process: results, summaries, and restarts."""

from __future__ import annotations

import math
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.pipeline import BatchSource, FunctionSink, ParquetSink, Summary, files, read
from sash.stores import MemoryStore
from tests.pipeline.pipe_cases import (
    QUERY,
    SCHEMA,
    SLIDES,
    TABLE,
    Collected,
    expected,
    ordered,
    write_file,
    write_files,
)

pytestmark = pytest.mark.usefixtures("interpreted_kernels")


@pytest.mark.parametrize("layout", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("query", [QUERY, SLIDES], ids=["rows", "slides"])
def test_what_a_batch_gives(tmp_path: Path, layout: str, query: sash.Query) -> None:
    folder = write_files(tmp_path / "in", TABLE, 4, layout)
    source = files(folder, schema=SCHEMA)
    done = sash.pipe(source, query, tmp_path / "out", store=MemoryStore(), batch_size=30)
    assert ordered(read(tmp_path / "out")) == expected(query, TABLE)
    assert (done.rows_in, done.rows_out) == (200, len(expected(query, TABLE)))
    assert (done.late, done.untimed, done.malformed) == (0, 0, 0)
    assert done.steps == 4 * 2 + 1
    assert done.finished
    assert done.watermark == math.inf
    assert done.offset["file"] == f"0003.{layout}"


def test_any_reader_sees_committed_files_alone(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TABLE, 2)
    sash.pipe(folder, QUERY, tmp_path / "out", store=MemoryStore())
    sink = ParquetSink(tmp_path / "out")
    sink.prepare(99, pa.RecordBatch.from_pylist([{"x": 1}]))  # as if killed behind it
    assert len(list(sink.pending.glob("*.parquet"))) == 1
    want = expected(QUERY, TABLE)
    assert ordered(pq.read_table(tmp_path / "out")) == want
    assert ordered(pl.read_parquet(tmp_path / "out").to_arrow().cast(pq.read_table(tmp_path / "out").schema)) == want
    assert pd.read_parquet(tmp_path / "out").shape[0] == len(want)
    assert ordered(read(tmp_path / "out")) == want


@pytest.mark.parametrize("kind", ["batches", "tables", "pandas", "polars", "dicts", "one", "generator"])
def test_iterables(kind: str) -> None:
    halves = [TABLE.slice(0, 100), TABLE.slice(100)]
    given: Any = {
        "batches": [half.combine_chunks().to_batches()[0] for half in halves],
        "tables": halves,
        "pandas": [half.to_pandas() for half in halves],
        "polars": [pl.from_arrow(half) for half in halves],
        "dicts": [{name: half[name].to_pylist() for name in half.column_names} for half in halves],
        "one": TABLE,
        "generator": (half for half in halves),
    }[kind]
    out = Collected()
    done = sash.pipe(BatchSource(given, SCHEMA) if kind == "dicts" else given, QUERY, out)
    assert done.offset == (1 if kind == "one" else 2)
    want = [row | {"t": row["t"].replace(microsecond=row["t"].microsecond)} for row in expected(QUERY, TABLE)]
    got = out.table.cast(pa.schema([*SCHEMA, ("high", pa.int64()), ("n", pa.int64())]))
    assert ordered(got) == want


def test_continues_where_it_was(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 5), MemoryStore()
    stop, steps = threading.Event(), []

    def count(summary: Summary) -> None:
        steps.append(summary)
        if len(steps) % 3 == 0:
            stop.set()

    runs = 0
    while not steps or not steps[-1].finished:
        stop.clear()
        runs += 1
        done = sash.pipe(folder, QUERY, tmp_path / "out", store=store, batch_size=16, progress=count, stop=stop)
    assert runs > 4
    assert [summary.steps for summary in steps] == list(range(1, len(steps) + 1))
    assert done == steps[-1]
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)

    again = sash.pipe(folder, QUERY, tmp_path / "out", store=store)
    assert again == done, "a finished pipeline has nothing to do"
    write_file(folder / "9.parquet", TABLE)
    with pytest.raises(ValueError, match=r"has finished, but the source .* has more rows"):
        sash.pipe(folder, QUERY, tmp_path / "out", store=store)


def test_without_finish_more_may_come(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE.slice(0, 120), 2), MemoryStore()
    first = sash.pipe(folder, QUERY, tmp_path / "out", store=store, finish=False)
    assert not first.finished
    assert first.rows_out < 120
    write_file(folder / "0002.parquet", TABLE.slice(120))
    assert sash.pipe(folder, QUERY, tmp_path / "out", store=store).finished
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_follow_takes_files_that_come_later(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TABLE.slice(0, 50), 1)
    stop = threading.Event()

    def next_file(summary: Summary) -> None:
        if summary.rows_in == 50:
            write_file(folder / "0001.parquet", TABLE.slice(50))
        else:
            stop.set()

    source = files(folder, poll=0.01)
    done = sash.pipe(source, QUERY, tmp_path / "out", follow=True, progress=next_file, stop=stop)
    assert done.rows_in == 200
    assert not done.finished


def test_follow_waits_for_the_first_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    timer = threading.Timer(0.05, lambda: write_file(folder / "0.parquet", TABLE))
    stop = threading.Event()
    timer.start()
    source = files(folder, "parquet", poll=0.01)
    done = sash.pipe(source, QUERY, tmp_path / "out", follow=True, progress=lambda _: stop.set(), stop=stop)
    timer.join()
    assert done.rows_in == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_behind_the_step(tmp_path: Path, number: int) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 4), MemoryStore()
    before = signal.getsignal(number)
    done = sash.pipe(
        folder, QUERY, tmp_path / "out", store=store, progress=lambda _: os.kill(os.getpid(), number), follow=True
    )
    assert (done.steps, done.rows_in) == (1, 50)
    assert signal.getsignal(number) is before
    sash.pipe(folder, QUERY, tmp_path / "out", store=store)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_a_failing_step_leaves_nothing(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 4), MemoryStore()

    class Full(ParquetSink):
        def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
            super().prepare(epoch, batch)
            if epoch == 3:
                raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        sash.pipe(folder, QUERY, Full(tmp_path / "out"), store=store)
    assert len(list((tmp_path / "out.pending").glob("*.parquet"))) == 1
    sash.pipe(folder, QUERY, tmp_path / "out", store=store)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_a_sink_is_used_again_after_a_step_has_failed(tmp_path: Path) -> None:
    """The step runs again with fewer rows, and has no results: nothing of the first attempt is published."""

    class Failing(MemoryStore):
        fails = True

        def put_many(self, pages: Any) -> None:
            if self.fails:
                raise OSError("no space left")
            super().put_many(pages)

    folder, store, sink = write_files(tmp_path / "in", TABLE, 1), Failing(), ParquetSink(tmp_path / "out")
    with pytest.raises(OSError, match="no space left"):
        sash.pipe(folder, QUERY, sink, store=store)
    store.fails = False
    sash.pipe(folder, QUERY, sink, store=store, batch_size=1)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_published_late_after_a_crash(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 4), MemoryStore()

    class Cut(ParquetSink):
        def publish(self, epoch: int) -> None:
            if epoch == 2:
                raise KeyboardInterrupt
            super().publish(epoch)

    with pytest.raises(KeyboardInterrupt):
        sash.pipe(folder, QUERY, Cut(tmp_path / "out"), store=store)
    stop = threading.Event()
    stop.set()
    sash.pipe(folder, QUERY, tmp_path / "out", store=store, stop=stop)
    assert (tmp_path / "out" / "000000000002.parquet").exists()
    sash.pipe(folder, QUERY, tmp_path / "out", store=store)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_a_function_gets_the_same_again_under_the_same_id(tmp_path: Path) -> None:
    folder, store, out = write_files(tmp_path / "in", TABLE, 4), MemoryStore(), Collected()
    out.fails_at = 2
    with pytest.raises(ConnectionError):
        sash.pipe(folder, QUERY, out, store=store)
    out.fails_at = None
    sash.pipe(folder, QUERY, out, store=store)
    ids = [name for _, name in out.calls]
    assert ids == sorted(set(ids))
    assert ordered(out.table) == expected(QUERY, TABLE)
    sash.pipe(folder, QUERY, out, store=store)
    assert [name for _, name in out.calls] == ids, "a clean end is not repeated"


def test_what_was_pending_of_a_step_that_runs_again_is_forgotten() -> None:
    """A step fails before its commit, and has no results when it runs again: the old ones must not be delivered."""
    store, out = MemoryStore(), Collected()
    one = TABLE.slice(0, 100)

    class Failing(FunctionSink):
        def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
            super().prepare(epoch, batch)
            raise OSError("too late")

    with pytest.raises(OSError, match="too late"):
        sash.pipe([one], QUERY, Failing(out), store=store)
    assert any(name.startswith("outbox") for name, _ in store.items())
    first = [TABLE.slice(0, 0)]
    sash.pipe(BatchSource(first, SCHEMA), QUERY, out, store=store, finish=False)
    assert out.calls == []
    sash.pipe(BatchSource([*first, one], SCHEMA), QUERY, out, store=store)
    assert ordered(out.table) == expected(QUERY, one)


def test_files_that_are_done_may_go(tmp_path: Path) -> None:
    """The columns are then those of the state."""
    folder, store = write_files(tmp_path / "in", TABLE, 2), MemoryStore()
    sash.pipe(folder, QUERY, tmp_path / "out", store=store, finish=False)
    for file in folder.iterdir():
        file.unlink()
    assert sash.pipe(files(folder, "parquet"), QUERY, tmp_path / "out", store=store).finished
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_types_are_those_of_the_state(tmp_path: Path) -> None:
    """A later run sees other files and batches first, whose values look like another type."""
    query = sash.Query(2, total=sash.sum("x"))
    folder, store = tmp_path / "in", MemoryStore()
    folder.mkdir()
    (folder / "1.csv").write_text("x\n1.5\n")
    sash.pipe(folder, query, tmp_path / "out", store=store, finish=False)
    (folder / "1.csv").unlink()
    (folder / "2.csv").write_text("x\n2\n")
    sash.pipe(folder, query, tmp_path / "out", store=store)
    assert read(tmp_path / "out")["total"].to_pylist() == [1.5, 3.5]

    store, out, frames = MemoryStore(), Collected(), [pd.DataFrame({"x": [1.5]}), pd.DataFrame({"x": [2]})]
    sash.pipe(frames[:1], query, out, store=store, finish=False)
    sash.pipe(frames, query, out, store=store)
    assert out.table["total"].to_pylist() == [1.5, 3.5]


def test_nothing_to_read(tmp_path: Path) -> None:
    done = sash.pipe(BatchSource([], SCHEMA), QUERY, tmp_path / "out")
    assert (done.rows_in, done.rows_out, done.finished) == (0, 0, True)
    done = sash.pipe([], QUERY, tmp_path / "other")
    assert (done.steps, done.finished) == (0, False)
    with pytest.raises(FileNotFoundError, match="no results yet"):
        read(tmp_path / "out")


# ---- rows that enter no window ----


def odd_rows() -> pa.Table:
    late = {"k": "k0", "t": TABLE["t"][0].as_py(), "x": 1}
    return pa.concat_tables([TABLE, pa.Table.from_pylist([late, {"k": "k1", "t": None, "x": 2}], SCHEMA)])


def test_late_rows_are_counted_and_go_to_the_side(tmp_path: Path) -> None:
    done = sash.pipe([odd_rows()], QUERY, tmp_path / "out", side=tmp_path / "side")
    assert (done.rows_in, done.late, done.untimed) == (202, 1, 1)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)
    assert [(row["_reason"], row["x"], row["_given"]) for row in read(tmp_path / "side").to_pylist()] == [
        ("late", 1, None),
        ("untimed", 2, None),
    ]
    plain = sash.pipe([odd_rows()], QUERY, Collected())
    assert (plain.late, plain.untimed) == (1, 1)


def test_a_row_too_far_ahead_is_untimed(tmp_path: Path) -> None:
    query = sash.Query("10s", by="k", on="t", lateness="3s", ahead="1h", high=sash.max("x"))
    ahead = pa.Table.from_pylist([{"k": "k0", "t": pd.Timestamp("2200-01-01", tz="UTC"), "x": 5}], SCHEMA)
    done = sash.pipe([pa.concat_tables([ahead, odd_rows()])], query, tmp_path / "out", side=tmp_path / "side")
    assert (done.late, done.untimed) == (1, 2)
    assert read(tmp_path / "side")["_reason"].to_pylist() == ["untimed", "late", "untimed"]


def test_malformed_records(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    good = ['{"k": "a", "t": "2024-05-01T09:00:00Z", "x": 1}', '{"k": "a", "t": "2024-05-01T09:00:01Z", "x": 2}']
    (folder / "1.jsonl").write_text("\n".join([good[0], "null", '{"k": "a", "x": "two"}', good[1]]) + "\n")
    source = files(folder, schema=SCHEMA)
    done = sash.pipe(source, QUERY, tmp_path / "out", side=tmp_path / "side", store=MemoryStore())
    assert (done.rows_in, done.malformed) == (2, 2)
    assert [record.where for record in done.examples] == ["1.jsonl, line 2", "1.jsonl, line 3"]
    side = read(tmp_path / "side").to_pylist()
    assert [(row["_reason"], row["_given"], row["k"]) for row in side] == [
        ("malformed", b"null\n", None),
        ("malformed", b'{"k": "a", "x": "two"}\n', None),
    ]
    assert "not an object" in side[0]["_error"]
    assert "'x'" in side[1]["_error"]
    with pytest.raises(ValueError, match=r"malformed record at 1\.jsonl, line 2: .*b'null"):
        sash.pipe(source, QUERY, Collected(), malformed="error")


# ---- rows that fail ----


def unlucky(x: int) -> int:
    if x == 13:
        raise ValueError("unlucky")
    return x


def test_rows_that_fail_go_to_the_side_output_with_the_message(tmp_path: Path) -> None:
    total = sash.monoid(identity=0, lift=unlucky, combine=lambda a, b: a + b, lower=lambda a: a, returns="int64")
    given: Any = {"on": "t", "lateness": 1, "s": total("x"), "p": sash.sum("x") * sash.sum("x")}
    rows = [pa.table({"t": [t, t + 1], "x": [x, y]}) for t, x, y in ((1, 1, 13), (3, 2**40, 4), (1, 13, 13))]
    store = MemoryStore()
    with pytest.raises(ValueError, match=r"unlucky; at row .*; options=sash.Options\(failed=\"side\"\) goes on"):
        sash.pipe(rows, sash.Query(1, **given), tmp_path / "out", store=store, side=tmp_path / "side")
    query = sash.Query(1, **given, options=sash.Options(failed="side"))
    done = sash.pipe(rows, query, tmp_path / "out", store=store, side=tmp_path / "side")
    assert (done.rows_in, done.rows_out, done.late, done.failed, done.failed_results) == (6, 3, 2, 1, 1)
    assert "sum('x') * sum('x'), does not fit its type" in done.last_failure
    results = read(tmp_path / "out").sort_by("t")
    assert (results["t"].to_pylist(), results["s"].to_pylist()) == ([1, 3, 4], [1, 2**40, 4])
    assert results["p"].to_pylist() == [1, None, 16]
    rejected = read(tmp_path / "side").to_pylist()
    assert [(row["_reason"], row["t"], row["_error"]) for row in rejected] == [
        ("failed", 2, "the aggregate 's' failed with ValueError: unlucky"),
        ("late", 1, None),
        ("late", 2, None),
    ]


def test_queries_of_a_pipeline_name_those_that_a_row_has_failed(tmp_path: Path) -> None:
    total = sash.monoid(identity=0, lift=unlucky, combine=lambda a, b: a + b, lower=lambda a: a, returns="int64")
    given: Any = {"on": "t", "lateness": 0, "options": sash.Options(failed="side")}
    queries = sash.Queries(n=sash.Query(1, **given, n=sash.count()), s=sash.Query(1, **given, s=total("x")))
    rows = pa.table({"t": [1, 2], "x": [1, 13]})
    done = sash.pipe([rows], queries, tmp_path / "out", side=tmp_path / "side")
    assert (done.rows_out, done.failed) == (3, 1)
    (row,) = read(tmp_path / "side").to_pylist()
    assert (row["_reason"], row["x"], row["_query"]) == ("failed", 13, "s")
    assert done.last_failure == "the aggregate 's' failed with ValueError: unlucky"
