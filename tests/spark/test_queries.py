"""Several queries on Spark batch: one pass for those of equal keys and order, and the rows of each alone."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Options, Queries, Query, Time
from sash.testing import assert_same

TABLE = pa.table(
    {
        "k": [f"k{i % 3}" for i in range(60)],
        "t": [i * 7 % 61 for i in range(60)],
        "x": [None if i % 9 == 4 else float(i * 5 % 17) for i in range(60)],
    }
)
ON = {"by": "k", "on": "t"}
HIGH: Any = {"high": sash.max("x")}
QUERIES = Queries(
    row=Query(Time(30), by="k", on="t", **HIGH, mean=sash.mean("x")),
    both=Query({"s": Time(30), "c": Count(2)}, by="k", on="t", min_periods=2, **HIGH),
    slide=Query(Time(40, every=20), by="k", on="t", **HIGH, n=sash.count()),
    life=Query(Lifetime(), by="k", on="t", n=sash.count()),
    changes=Query(2, by="k", on="t", emit="changes", **HIGH),
    latency=Query(5, by="k", on="t", options=Options(prefer="latency"), **HIGH),
    other=Query(3, by="x", on="t", n=sash.count()),
    alone=Query(3, on="t", **HIGH),
)


def in_order(table: pa.Table) -> pa.Table:
    keys = [name for name in ("k", "t", "window_end") if name in table.schema.names]
    return table.sort_by([(name, "ascending") for name in keys])


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(TABLE).repartition(3)


def test_together_as_alone(frame: Any) -> None:
    found = QUERIES.run(frame)
    assert list(found) == list(QUERIES.queries)
    assert len(found.persisted) == 1  # one pass for the six of equal keys and order
    for name, query in QUERIES.queries.items():
        assert found[name].schema == query.run(frame).schema, name
        assert_same(in_order(found[name].toArrow()), in_order(query.run(TABLE)))
    found.unpersist()


@pytest.mark.parametrize("name", ["row", "slide", "life", "alone"])
def test_one_of_queries_is_planned_as_the_query(frame: Any, name: str) -> None:
    query = QUERIES.queries[name]
    found, alone = Queries(only=query).run(frame), query.run(frame)
    assert found.persisted == []
    assert found["only"].schema == alone.schema
    assert_same(in_order(found["only"].toArrow()), in_order(alone.toArrow()))


def test_slides_alone_cross_the_shuffle_with_the_columns_they_name(frame: Any) -> None:
    wide = frame.selectExpr("*", "'not read' as w")
    slides = {f"q{n}": Query(Time(10 * n, every=10), by="k", on="t", **HIGH) for n in (1, 2)}
    found = Queries(**slides).run(wide)
    assert "w#" not in found["q1"]._jdf.queryExecution().optimizedPlan().toString().partition("MapInArrow")[2][:200]
    for name, query in slides.items():
        assert_same(in_order(found[name].toArrow()), in_order(query.run(TABLE)))
    found.unpersist()


def test_one_action_computes_all(spark: Any, frame: Any) -> None:
    """An accumulator counts the rows that a Python function has seen before the shuffle."""
    seen = spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    found = Queries(row=QUERIES.queries["row"], slide=QUERIES.queries["slide"]).run(
        frame.mapInArrow(counted, frame.schema)
    )
    assert seen.value == 0
    found["slide"].collect()
    found["row"].collect()
    found["row"].collect()
    assert seen.value == TABLE.num_rows
    found.unpersist()


def test_errors_are_raised_at_the_call(frame: Any) -> None:
    with pytest.raises(KeyError, match="'y'") as raised:
        Queries(fits=QUERIES.queries["row"], other=Query(2, by="k", on="t", high=sash.max("y"))).run(frame)
    assert any("other" in note for note in raised.value.__notes__)
    with pytest.raises(ValueError, match="rows of a Spark DataFrame have no order"):
        Queries(fits=QUERIES.queries["row"], other=Query(2, **HIGH)).run(frame)
