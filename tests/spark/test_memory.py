"""Memory is a window, not a key: what a worker holds does not grow with the rows of a key. Measured in the worker."""

import os
import resource
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.spark.batch import plan_batch
from sash.spark.batch import range_split as splitting
from sash.spark.batch.partition_task import PartitionTask
from sash.spark.batch.range_task import RangeTask

MOST = 400
"""MiB for a worker, of which the libraries alone take some 200."""


@pytest.mark.usefixtures("compiled_workers")
@pytest.mark.parametrize("split", [1, 2], ids=["whole", "split"])
@pytest.mark.parametrize(
    "rows", [1_000_000, pytest.param(20_000_000, marks=pytest.mark.all_compiled)], ids=["quick", "20M rows"]
)
def test_one_key_of_many_rows(
    spark: Any, rows: int, split: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, worker = (plan_batch, PartitionTask) if split == 1 else (splitting, RangeTask)

    class Measured(worker):  # type: ignore[misc, valid-type]
        """By value to the worker, for it is defined here."""

        def __call__(self, batches: Any) -> Any:
            yield from super().__call__(batches)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            Path(tmp_path, f"peak{os.getpid()}").write_text(str(peak // 1024))

    monkeypatch.setattr(module, worker.__name__, Measured)
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
