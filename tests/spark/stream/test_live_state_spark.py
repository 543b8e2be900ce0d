"""Live state on Spark itself: any of its Python workers continues a shard without reading its pages."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import sash
from sash import Query, Time
from sash.spark.stream.local_pages import NAME, ROOTS
from tests.spark.stream.fake_spark import FakeStream
from tests.spark.stream.running import done, files, source, start

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
QUERY = Query(Time(50), by="k", on="t", lateness=5, late="error", high=sash.max("x"), n=sash.count())
BATCHES = 3


def rows(number: int) -> pa.RecordBatch:
    """A micro-batch: 20 units of time, 40 keys."""
    draw = np.random.default_rng(number)
    times = np.sort(draw.integers(20 * number, 20 * number + 20, 200))
    return pa.record_batch([draw.integers(0, 40, 200), times, draw.random(200)], schema=SCHEMA)


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def expected() -> list[tuple[Any, ...]]:
    return sorted_rows(FakeStream(QUERY, SCHEMA, shards=2).run([[rows(number)] for number in range(BATCHES)]))


def most_read(counts: dict[str, Any]) -> int:
    """Stream header and header of each shard that was opened, and the stream header of one that had nothing to do."""
    return 2 * len(counts["shards"] or ()) + 2


def local_directories(spark: Any) -> list[Path]:
    """The local directories that Spark passes to its workers."""

    def read_roots(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"roots": [os.environ[ROOTS]]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(read_roots, "roots string").collect()
    return [Path(root) / NAME for root in row.roots.split(",")]


def test_no_page_is_read_again(spark: Any, tmp_path: Path) -> None:
    given = files(tmp_path / "in", [[rows(number)] for number in range(BATCHES)])
    expected_rows = expected()  # compiles what each of Spark's workers would compile for itself
    counts = done(start(QUERY.run(source(spark, given, SCHEMA)), tmp_path))
    assert len(counts) >= BATCHES
    assert all(row["pages_read"] <= most_read(row) for row in counts)
    assert sorted_rows(spark.read.parquet(str(tmp_path / "out")).toArrow()) == expected_rows
    found = [path for directory in local_directories(spark) for path in directory.iterdir()]
    assert len(found) >= 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


def test_a_query_that_failed_in_the_middle_continues_from_sparks_state(spark: Any, tmp_path: Path) -> None:
    """A row that is late fails a task which has emitted results and claimed its file; then the row is corrected."""
    given = files(tmp_path / "in", [[rows(number)] for number in range(BATCHES)])
    late = pa.record_batch([[1], [0], [1.0]], schema=SCHEMA)
    bad = given / "0002.parquet"
    taken = bad.stat().st_mtime
    for batches in ([rows(2), late], [rows(2)]):
        pq.write_table(pa.Table.from_batches(batches), bad)
        os.utime(bad, (taken, taken))
        query = start(QUERY.run(source(spark, given, SCHEMA)), tmp_path)
        if len(batches) == 2:
            with pytest.raises(StreamingQueryException, match="is late, and late='error' refuses it"):
                query.awaitTermination()
    counts = done(query)
    assert counts[0]["pages_read"] > most_read(counts[0])
    assert all(row["pages_read"] <= most_read(row) for row in counts[1:])
    assert sorted_rows(spark.read.parquet(str(tmp_path / "out")).toArrow()) == expected()
