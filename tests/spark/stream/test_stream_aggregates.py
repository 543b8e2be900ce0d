"""Order statistics, weighted aggregates, lags, decimals and expressions on a stream of Spark itself."""

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import sash
from sash import Count, Query
from sash.testing import assert_same
from tests.spark.stream.running import done, files, source, start

SCHEMA = pa.schema(
    [("k", pa.string()), ("t", pa.int64()), ("x", pa.float64()), ("n", pa.int64()), ("paid", pa.decimal128(9, 2))]
)
QUERY = Query(
    Count(6),
    by="k",
    on="t",
    lateness=5,
    median=sash.median("x"),
    kinds=sash.count_distinct("n"),
    recent=sash.ewm_mean("x", span=5),
    before=sash.lag("x", n=2),
    vwap=sash.weighted_mean("x", "n"),
    total=sash.sum("paid"),
    large=sash.sum(sash.expr("x * n + 1"), where="n > 3 and x is not null"),
)


def rows(count: int = 60) -> pa.Table:
    draw = random.Random(8)
    return pa.Table.from_pylist(
        [
            {
                "k": draw.choice("ab"),
                "t": t,
                "x": None if draw.random() < 0.1 else draw.gauss(10, 3),
                "n": draw.randrange(8),
                "paid": Decimal(draw.randrange(10**6)) / 100,
            }
            for t in range(count)
        ],
        SCHEMA,
    )


def arriving(table: pa.Table) -> list[list[pa.RecordBatch]]:
    """The rows out of order within the lateness, in one micro-batch, and a last one that closes all."""
    draw = random.Random(4)
    order = sorted(range(table.num_rows), key=lambda t: t + draw.random() * 5)
    shuffled = table.take(order).combine_chunks()
    end = pa.Table.from_pylist([{"k": "end", "t": 1000, "n": 0}], SCHEMA)
    return [[batch] for batch in (*shuffled.to_batches(max_chunksize=60), *end.to_batches())]


def test_a_stream_gives_what_a_batch_gives(spark: Any, tmp_path: Path) -> None:
    table = rows()
    frame = QUERY.run(source(spark, files(tmp_path / "in", arriving(table)), SCHEMA))
    assert dict(frame.dtypes)["total"] == "decimal(19,2)"
    counts = done(start(frame, tmp_path))
    got = spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).toArrow()
    assert len(counts) >= 3
    assert got.num_rows == table.num_rows
    expected = QUERY.run(table)
    loose = dict.fromkeys(("recent", "vwap", "large"), 1e-12)
    assert_same(got.sort_by("t"), expected.sort_by("t"), loose=loose)
    assert expected["total"].null_count == 0
    assert 0 < expected["before"].null_count < table.num_rows
