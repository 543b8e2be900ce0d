"""Helpers for the tests of live state: a stream of micro-batches, and workers that have not had the shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Query, Time
from sash.spark.stream import local_pages
from sash.spark.stream.local_pages import NAME
from tests.spark.stream.fake_spark import FakeStream

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
QUERY = Query(Time(50), by="k", on="t", lateness=5, high=sash.max("x"), n=sash.count())


def rows(number: int, count: int = 200) -> pa.RecordBatch:
    """A micro-batch: 20 units of time, 40 keys."""
    draw = np.random.default_rng(number)
    times = np.sort(draw.integers(20 * number, 20 * number + 24, count))
    return pa.record_batch([draw.integers(0, 40, count), times, draw.random(count)], schema=SCHEMA)


class OtherWorkers(FakeStream):
    """A stream each of whose calls runs in a worker that has not had the shard."""

    def _call(self, *arguments: Any) -> None:
        local_pages._alive.clear()
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
