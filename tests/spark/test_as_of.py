"""`as_of` on Spark equals `as_of` on frames, in one shuffle; pieces and ranges change nothing."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Options, Query, Session, Time
from sash.plan.as_of_query import AsOfQuery, SpineQuery
from sash.spark.batch import as_of_task, plan_batch, range_split
from sash.spark.batch.as_of_task import AsOfPieces, SpineLayout
from sash.testing import assert_same

RANDOM = np.random.default_rng(12)
KEYS = np.array(["a", "a", "a", "b", "c", None], object)


def _events(count: int = 160) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(RANDOM.choice(KEYS, count)),
            "t": pa.array(RANDOM.integers(0, 90, count), pa.int32(), mask=RANDOM.random(count) < 0.05),
            "row": np.arange(count),
            "x": pa.array(RANDOM.integers(-9, 9, count) / 4, mask=RANDOM.random(count) < 0.1),
        }
    )


def _spine(count: int = 90) -> pa.Table:
    keys = np.array(["a", "b", "nobody", None], object)
    return pa.table(
        {
            "id": np.arange(count),
            "user": pa.array(RANDOM.choice(keys, count)),
            "at": pa.array(RANDOM.integers(-3, 99, count), mask=RANDOM.random(count) < 0.05),
            "x": RANDOM.random(count),
        }
    )


EVENTS, SPINE = _events(), _spine()
AGGREGATES: dict[str, Any] = {
    "n": sash.count(),
    "total": sash.sum("x"),
    "newest": sash.last("row"),
    "mid": sash.median("x"),
}
BOUNDED: dict[str, Any] = {"t": Time(9), "c": Count(4), "m": Time(5, shift=-4), "p": Count(2, shift=-1)}
QUERIES = {
    "all kinds": Query({**BOUNDED, "s": Session(3), "l": Lifetime()}, by="k", on=["t", "row"], **AGGREGATES),
    "without lifetime": Query(BOUNDED, by="k", on=["t", "row"], **AGGREGATES),
    "sessions": Query(Session(3), by="k", on=["t", "row"], **AGGREGATES),
    "no keys": Query({"t": Time(9), "c": Count(4)}, on=["t", "row"], **AGGREGATES),
}


def names(query: Query) -> dict[str, Any]:
    return {"spine_by": "user" if query.by else (), "spine_on": "at"}


@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize("name", QUERIES)
def test_pieces_of_any_size(name: str, closed: str) -> None:
    query = QUERIES[name]
    asked = AsOfQuery.of(query, closed, *names(query).values())
    fields = [pa.field("is_spine", pa.bool_()), *EVENTS.schema]
    own = [f"spine_{i}" for i in range(len(SPINE.schema))]
    fields += [field.with_name(one) for one, field in zip(own, SPINE.schema, strict=True)]
    layout = SpineLayout(asked, pa.schema(fields), own, tuple(SPINE.schema.names))
    events = [{"is_spine": False, **row} for row in EVENTS.to_pylist()]
    spine = [
        {"is_spine": True, "k": row["user"], "t": row["at"], **dict(zip(own, row.values(), strict=True))}
        for row in SPINE.to_pylist()
    ]
    by_key = bool(query.by)
    ordered = sorted(
        events + spine,
        key=lambda row: (by_key and (row["k"] or ""), row["t"] is not None, row["t"] or 0, row.get("row") or -1),
    )
    rows = pa.RecordBatch.from_pylist(ordered, schema=layout.schema)
    expected = query.as_of(SPINE, EVENTS, closed=closed, **names(query))  # type: ignore[arg-type]
    for size in (1, 7, 1000):
        pieces = AsOfPieces(layout, 0.0, size)
        found = [one for start in range(0, rows.num_rows, 5) for one in pieces.process(rows.slice(start, 5))]
        batches = [*found, *pieces.finish()]
        assert_same(pa.Table.from_batches(batches).sort_by("id"), expected)
    assert [one.num_rows for one in AsOfPieces(layout, 0.0, 1).finish()] == [0]  # a time range may have no rows


@pytest.fixture
def small(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(as_of_task, "PIECE", 8)
    monkeypatch.setattr(range_split, "FIRST", 4)
    monkeypatch.setattr(range_split, "BATCH_ROWS", 16)
    monkeypatch.setattr(range_split, "ENOUGH", 20)
    return spark


def on_spark(spark: Any, table: pa.Table) -> Any:
    return spark.createDataFrame(table).repartition(3)


@pytest.mark.parametrize(
    ("name", "split"), [("all kinds", None), ("without lifetime", 6), ("sessions", 6), ("no keys", 4)]
)
def test_spark_gives_what_frames_give(
    small: Any, name: str, split: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[int] = []

    def counted(both: Any, bound_query: Any, found: Any) -> Any:
        ranges.append(len(found.ranges))
        return range_split.packed_ranges(both, bound_query, found)

    monkeypatch.setattr(plan_batch, "packed_ranges", counted)
    # `row` is a column of the events, which the results do not have
    query = SpineQuery(**QUERIES[name].arguments(options=Options(split=split)), row=sash.last("row"))
    frame = query.as_of(on_spark(small, SPINE), on_spark(small, EVENTS), **names(query))
    assert (sum(ranges) > 1) == (split is not None)
    assert frame.columns[:4] == SPINE.schema.names
    expected = query.as_of(SPINE, EVENTS, **names(query))
    assert_same(frame.toArrow().sort_by("id"), expected)


def test_what_spark_refuses(spark: Any) -> None:
    spine, events = on_spark(spark, SPINE), on_spark(spark, EVENTS)
    query = QUERIES["without lifetime"]
    stream = spark.readStream.format("rate").load()
    with pytest.raises(TypeError, match=r"events= is a stream: for the features of a stream, .* operator\.lookup"):
        query.as_of(spine, stream, **names(query))
    with pytest.raises(TypeError, match="with Spark both must be DataFrames of Spark"):
        query.as_of(spine, EVENTS, **names(query))
    with pytest.raises(TypeError, match="the spine's column 'id' is of type bigint and the events' 'k' of type string"):
        query.as_of(spine, events, spine_by="id", spine_on="at")
    with pytest.raises(ValueError, match="two columns 'x', because the spine keeps its columns"):
        sash.as_of(spine, events, Time(3), on="t", spine_on="at", x=sash.count())
    with pytest.raises(ValueError, match=r"by= \(of the spine\) names the column 'k', which does not exist"):
        query.as_of(spine, events, spine_on="at")
