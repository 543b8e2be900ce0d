"""The memory of a worker depends on the window: it does not grow with the rows of a key."""

import os
import resource
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import sorted_batches as chunked
from sash.plan.queries import ALONE
from sash.spark.batch import plan_batch
from sash.spark.batch.partition_task import PartitionTask, PassLayout, QueryExecutor

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64()})
QUERY = sash.Query(60, by="k", on="t", high=sash.max("x"), n=sash.count())


def batches(count: int, rows: int = 1000) -> Iterator[pa.RecordBatch]:
    """One key, in order."""
    for first in range(0, count * rows, rows):
        times = range(first, first + rows)
        yield pa.record_batch([["one"] * rows, times, [t % 1000.0 for t in times]], schema=SCHEMA)


def task() -> PartitionTask:
    executor = partial(QueryExecutor, PassLayout({ALONE: QUERY}, SCHEMA), 0.0)
    return PartitionTask(executor, QUERY.bind(SCHEMA), 0.0, 2000, None)


def peak(count: int) -> int:
    """The most bytes that were in memory at once, of a task whose results are taken one by one."""
    tracemalloc.start()
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for results in task()(batches(count)):
        rows += results.num_rows
        most = max(most, tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before)
    tracemalloc.stop()
    assert rows == 1000 * count
    return most


def test_a_task_holds_no_more_of_a_longer_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "PIECE", 2000)
    for _ in task()(batches(4)):  # what is imported, compiled and kept from then on
        pass
    assert peak(40) < 1.2 * peak(8)


MOST = 400
"""MiB for a worker, of which the libraries alone take some 200."""


@pytest.mark.all_compiled
@pytest.mark.usefixtures("compiled_workers")
@pytest.mark.parametrize("split", [1, 2], ids=["whole", "split"])
def test_one_key_of_many_rows(spark: Any, split: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 20_000_000

    class Measured(PartitionTask):
        """By value to the worker, for it is defined here."""

        def __call__(self, batches: Any) -> Any:
            yield from super().__call__(batches)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            Path(tmp_path, f"peak{os.getpid()}").write_text(str(peak // 1024))

    monkeypatch.setattr(plan_batch, "PartitionTask", Measured)
    # workers in other surroundings are other processes: one that has served other tests has a peak of theirs
    monkeypatch.setitem(spark.sparkContext.environment, "SASH_TEST", str(tmp_path))
    # 100 rows a second, windows of a minute
    data = spark.range(rows).selectExpr(
        "'one' as k", "timestamp_millis(id * 10) as ts", "cast(id % 1000 as double) as x"
    )
    options = sash.Options(split=split)
    got = sash.rolling(
        data, "1m", by="k", on="ts", options=options, high=sash.max("x"), mean=sash.mean("x"), n=sash.count()
    )
    assert got.agg({"n": "max", "high": "max", "k": "count"}).first().asDict() == {
        "max(n)": 6000, "max(high)": 999.0, "count(k)": rows
    }  # fmt: skip
    peaks = [int(path.read_text()) for path in tmp_path.glob("peak*")]
    assert max(peaks) < MOST
