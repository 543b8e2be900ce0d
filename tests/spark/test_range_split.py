"""Split on Spark: a hot key and no key at all over several partitions, with one look at the rows."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import sash
from sash import Lifetime, Options, Query, Session, Time
from sash.spark.batch import pack_ranges, partition_task, range_split
from sash.spark.batch.pack_ranges import PackRanges
from sash.spark.batch.time_ranges import why_not_split
from sash.spark.spark_types import arrow_schema
from sash.spark.worker_io import batches_of
from sash.testing import assert_same
from tests.shared.effort import seldom
from tests.shared.fixed_queries import PER_ROW, PER_SLIDE
from tests.spark.cases import CASES, ON, SCHEMA, check, rows
from tests.spark.test_batch import jobs


def in_ranges(query: Query, ranges: int) -> Query:
    return query.rewritten(options=Options(split=ranges))


def splits(query: Query) -> bool:
    return why_not_split(query.bind(SCHEMA)) is None


def _named(windows: dict[str, Any]) -> dict[str, Any]:
    alone = {name: Query(window, on="t", n_=sash.count()) for name, window in windows.items()}
    apart = [name for name, window in windows.items() if isinstance(window, Lifetime)]  # no lookback with them
    return {name.replace(" ", "_"): w for name, w in windows.items() if name not in apart and splits(alone[name])}


FEW: dict[str, Any] = {"held": sash.collect("row"), "high": sash.max("f"), "n_": sash.count()}
QUERIES = {
    name: CASES[name]
    for name in (
        "forgotten keys",
        "floats",
        "timestamps, every",
        "local times",
        "dates",
        "calendar lengths",
        "calendar slides",
    )
}
QUERIES |= {f"all of rows, by {by}": Query(_named(PER_ROW), by=by, on=ON, **FEW) for by in ((), "k")}
QUERIES |= {f"all with every, by {by}": Query(_named(PER_SLIDE), by=by, on=ON, **FEW) for by in ((), ("k", "p"))}
QUERIES |= {name: CASES[name] for name in ("row: lifetime", "slide: lifetime by time")}
QUERIES["lifetimes and sessions, of all"] = Query({"all": Lifetime(), "one": Session(2)}, on=ON, **FEW)
QUERIES["lifetimes of timestamps"] = Query(Lifetime(every="5m"), by=("k", "p"), on=("ts", "row"), **FEW)
QUERIES |= {name: CASES[name] for name in ("formulas", "own windows, every")}
RATIO: dict[str, Any] = {"share": sash.count(where="b") / sash.count("f"), "best": sash.max(sash.expr("f * i"))}
QUERIES["formulas over lifetimes"] = Query(Lifetime(), by="k", on=ON, min_periods=3, **RATIO)


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_task, "ROWS", 7)
    monkeypatch.setattr(pack_ranges, "ROWS", 30)
    monkeypatch.setattr(range_split, "BATCH_ROWS", 11)


OFTEN = {"forgotten keys", "timestamps, every", "all of rows, by ()", "all with every, by ('k', 'p')"}
OFTEN |= {"lifetimes and sessions, of all"}
"""These meet every kind of window, with and without keys."""


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("name", [seldom(name, unless=name in OFTEN) for name in QUERIES])
def test_a_split_gives_what_one_partition_gives(frame: Any, name: str) -> None:
    assert splits(QUERIES[name])
    check(frame, rows(), in_ranges(QUERIES[name], 6))


def test_lifetimes_with_windows_of_single_aggregates_are_not_split() -> None:
    query = Query(Lifetime(), by="k", on=ON, n_=sash.count(), high=sash.max("f").over(Session(3)))
    assert "is combined with windows of single aggregates" in str(why_not_split(query.bind(SCHEMA)))


@pytest.mark.parametrize(
    ("by", "on", "size"),
    [
        ((), "day", "3d"),
        ("k", "t", 3),
        ("j", "tf", 0.75),
        ("d", "ts", "90s"),
        (("p", "k"), "t", 3),
        ("b", "t", 3),
    ],
)
def test_a_key_is_found_again_whatever_its_type(frame: Any, by: Any, on: str, size: Any) -> None:
    query = Query(Time(size), by=by, on=(on, "row"), options=Options(split=60), **FEW)
    bound_query = query.bind(SCHEMA)
    found = range_split.split_of(frame, bound_query)
    assert found is not None
    packed = [
        blob
        for batch in rows().to_batches(max_chunksize=16)
        for blob in PackRanges(query, SCHEMA, found.routing)([batch])
    ]
    blobs = pa.Table.from_batches(packed)
    assert set(range(len(found.ranges))) <= set(blobs["range"].to_pylist())
    own = blobs.filter(blobs["own"])
    assert (
        sum(batch.num_rows for blob in own["rows"] if len(blob.as_py()) for batch in batches_of(blob.as_buffer()))
        == rows().num_rows
    )


def test_one_action_and_not_before_it_is_needed(spark: Any, frame: Any) -> None:
    before = jobs(spark)
    query = Query(Time(3), on=ON, **FEW)
    in_ranges(query, 4).run(frame)
    assert jobs(spark) == before + 1
    in_ranges(query, 1).run(frame)
    sash.rolling(frame, Time(3), by="k", on=ON, **FEW)
    sash.rolling(frame, sash.Delta("n", 3), on=ON, **FEW)
    assert jobs(spark) == before + 1
    query.run(frame)  # no key: whether to split is to be seen
    assert jobs(spark) == before + 2


def test_a_hot_key_is_spread_over_all_partitions(spark: Any) -> None:
    data = spark.range(20_000).selectExpr("if(id % 10 = 0, id % 7 + 1, 0) as k", "id as t")
    got = sash.rolling(data, Time(50), by="k", on="t", options=Options(split=4), n=sash.count())
    shares = dict(got.filter("k = 0").groupBy(sf.spark_partition_id()).count().collect())
    assert sorted(shares) == [0, 1, 2, 3]
    assert min(shares.values()) > 4_000
    assert got.agg(sf.count("*"), sf.max("n")).first() == (20_000, 45)


@pytest.mark.parametrize("by", [(), "k"])
def test_lifetimes_start_with_partials(spark: Any, by: Any) -> None:
    data = spark.range(20_000).selectExpr("if(id % 10 = 0, id % 7 + 1, 0) as k", "id as t", "id * 37 % 1000 / 8 as x")
    data = data.repartition(3)
    windows = {"ever": Lifetime(every=Time(900)), "more": Lifetime(every=Time(700))}
    aggregates = {"low": sash.min("x"), "mean": sash.mean("x"), "n": sash.count(), "at": sash.arg_max("x", "t")}
    query = Query(windows, by=by, on="t", options=Options(split=8), **aggregates)
    found = range_split.split_of(data, query.bind(arrow_schema(data.schema)))
    assert found is not None
    assert any(number < last for number, last in enumerate(found.lasts))
    assert all(one.lookback == one.begin for one in found.ranges)
    check(data, data.toArrow(), query)


def test_windows_longer_than_a_range_have_fewer_ranges(spark: Any) -> None:
    data = spark.range(20_000).selectExpr("id as t", "id * 37 % 1000 / 8 as x").repartition(3)
    sizes = {}
    for size in (500, 2_000, 15_000):
        query = Query(Time(size, every=500), on="t", options=Options(split=8), high=sash.max("x"))
        found = range_split.split_of(data, query.bind(arrow_schema(data.schema)))
        sizes[size] = 1 if found is None else len(found.ranges)
        check(data, data.toArrow(), query)
    assert sizes[500] > sizes[2_000] > sizes[15_000] == 1


def test_untimed_rows_and_names_that_are_taken(spark: Any) -> None:
    table = pa.table({"extra": [5, 6, 7, 8], "extra_own": [None, 1.0, 2.0, float("nan")]})
    query = Query(2, on="extra_own", options=Options(split=2), n=sash.count())
    got = query.run(spark.createDataFrame(table)).toArrow().sort_by("extra")
    assert_same(got, query.run(table))
