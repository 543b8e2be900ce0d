"""Several queries on a Spark stream: one stream with `_query`, one state, and a table for each query."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Queries, Query, Time
from sash.plan.queries import CombinedQuery
from sash.testing import assert_same
from tests.spark.stream.fake_spark import FakeStream
from tests.spark.stream.running import files, source

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64())])
ON: dict[str, Any] = {"by": "k", "on": "t", "lateness": 4}
QUERIES = Queries(
    row=Query(Time(6), **ON, high=sash.max("x")),
    both=Query({"s": Time(6), "c": Count(2)}, **ON, min_periods=2, high=sash.max("x"), n=sash.count()),
    slide=Query(Time(8, every=4), **ON, high=sash.max("x")),
)


def batch(first: int) -> pa.RecordBatch:
    times = [first + i - (i % 3) for i in range(12)]
    return pa.record_batch([["a", "b", "c"] * 4, times, [float(t * 7 % 11) for t in times]], schema=SCHEMA)


BATCHES = [batch(first) for first in (0, 10, 20, 30)]


def in_order(table: pa.Table) -> pa.Table:
    keys = [name for name in ("k", "t", "window_end", "x") if name in table.schema.names]
    return table.sort_by([(name, "ascending") for name in keys])


def expected(query: Query, watermark: int) -> pa.Table:
    """The results of all rows that are final below a watermark."""
    found = query.rewritten(lateness=None, late="drop").run(pa.Table.from_batches(BATCHES))
    time = "t" if query.per_row else "window_end"
    final = [value < watermark if query.per_row else value <= watermark for value in found[time].to_pylist()]
    return found.filter(pa.array(final))


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize("shards", [1, 3])
def test_a_stream_gives_what_a_batch_gives(shards: int) -> None:
    (group,) = QUERIES.groups()
    stream = FakeStream(group, SCHEMA, shards=shards)
    got = stream.run([[one.slice(0, 5), one.slice(5)] for one in BATCHES])
    assert got.schema.names == ["_query", "both", "row", "slide"]
    watermark = max(t for one in BATCHES for t in one["t"].to_pylist()) - 4
    for name, query in QUERIES.queries.items():
        rows = [row[name] for row in got.to_pylist() if row["_query"] == name]
        mine = pa.Table.from_pylist(rows, expected(query, watermark).schema)
        assert_same(in_order(mine), in_order(expected(query, watermark)))
    assert all([row[name] is None for name in QUERIES.queries].count(False) == 1 for row in got.to_pylist())


@pytest.mark.usefixtures("interpreted_kernels")
def test_late_rows_go_to_the_side_output_once() -> None:
    stream = FakeStream(CombinedQuery(QUERIES.queries), SCHEMA, side_output=True)
    stream.run([[BATCHES[2]], [BATCHES[3]], [BATCHES[0]]])
    late = [row for row in stream.table().to_pylist() if row["_reason"] == "late"]
    assert len(late) == BATCHES[0].num_rows
    assert all(row["_query"] is None for row in late)


def test_each_query_gets_a_table_of_its_own(spark: Any, tmp_path: Path) -> None:
    folder = files(tmp_path / "in", [BATCHES[:2], BATCHES[2:]])
    few = sash.Options(shards=2)
    queries = Queries(**{name: query.rewritten(options=few) for name, query in QUERIES.queries.items()})
    stream = queries.run(source(spark, folder, SCHEMA))
    assert stream.columns == ["_query", "both", "row", "slide"]
    tables = {name: tmp_path / name for name in QUERIES.queries}
    writer = stream.writeStream.foreachBatch(sash.spark.table_writer(tables))
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    watermark = max(t for one in BATCHES for t in one["t"].to_pylist()) - 4
    for name, query in QUERIES.queries.items():
        right = expected(query, watermark)
        got = spark.read.parquet(str(tables[name])).drop("_batch").toArrow()
        assert_same(in_order(got.cast(right.schema)), in_order(right))


def test_queries_that_cannot_share_a_state_are_refused(spark: Any, tmp_path: Path) -> None:
    stream = source(spark, files(tmp_path / "in", [[BATCHES[0]]]), SCHEMA)
    row = QUERIES.queries["row"]
    with pytest.raises(ValueError, match="'other' differs from 'row' in lateness=: run it as a separate stream"):
        Queries(row=row, other=row.rewritten(lateness=5)).run(stream)
    with pytest.raises(ValueError, match="need emit='final'; got 'changes'"):
        Queries(row=row.rewritten(emit="changes")).run(stream)
    with pytest.raises(ValueError, match="cannot be named '_reason'"):
        Queries(_reason=row).run(stream)
    with pytest.raises(ValueError, match="there is no column '_query'"):
        sash.spark.split_queries(spark.range(3))
