"""Order statistics in the operator, compared with their definitions: with stores, lookups, retractions and policies."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Policy, Query, Session, Time
from sash.engine import Operator
from sash.monoids import monoid
from sash.monoids.algebra import agree
from sash.stores import MemoryStore
from tests.monoids.order_oracle import defined
from tests.shared.queries import KeepLast

interpreted = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64(), "s": pa.string(), "gone": pa.bool_()})
NAN = float("nan")
OF_ROWS: dict[str, Any] = {
    "middle": sash.median("x"),
    "high": sash.quantile("x", q=0.9),
    "text": sash.quantile("s", q=0.5, interpolation="lower"),
    "often": sash.mode("s"),
    "n": sash.count_distinct("s"),
    "values": sash.count_distinct("x"),
    "rank": sash.rank("x", method="min"),
    "part": sash.percent_rank("s", method="dense", ascending=False),
}
OF_SLIDES = {name: bound for name, bound in OF_ROWS.items() if name not in ("rank", "part")}


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "k": chance.choice("ab"),
            "t": t,
            "x": chance.choice([None, NAN, -0.0, *map(float, range(6))]),
            "s": chance.choice([None, "", "a", "b", "é"]),
            "gone": False,
        }
        for t in range(count)
    ]


def batches(given: list[dict[str, Any]], step: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist(given[i : i + step], SCHEMA) for i in range(0, len(given), step)]


def expected(query: Query, given: list[dict[str, Any]], size: int) -> dict[int, dict[str, Any]]:
    """By time: the results of windows of the last `size` rows of a key."""
    found = {}
    held: dict[str, list[Any]] = {}
    for row in given:
        window = held.setdefault(row["k"], [])
        window.append(row)
        del window[:-size]
        found[row["t"]] = {
            name: defined(bound.monoid, [one[bound.columns[0]] for one in window])
            for name, bound in query.aggregates.items()
        }
    return found


def check(operator_results: list[pa.RecordBatch], wanted: dict[int, dict[str, Any]]) -> None:
    made = [row for batch in operator_results for row in batch.to_pylist()]
    assert sorted(row["t"] for row in made) == sorted(wanted)
    for row in made:
        for name, value in wanted[row["t"]].items():
            assert agree(row[name], value, 1e-15), (row["t"], name, row[name], value)


@pytest.mark.parametrize("size", [1, 3, 8])
@interpreted
def test_rows_compared_with_the_definition(size: int) -> None:
    query, given = Query(Count(size), by="k", on="t", **OF_ROWS), rows(80, size)
    operator = Operator(query, SCHEMA)
    made = [operator.process(batch) for batch in batches(given, 7)]
    check([*made, operator.finish()], expected(query, given, size))


def test_compiled_order_statistics_equal_the_definition() -> None:
    """Nulls, NaN and ties; the tree of a key is built again when its ring moves."""
    bound = {name: OF_ROWS[name] for name in ("middle", "rank")}
    query, given = Query(Count(20), by="k", on="t", **bound), rows(300)
    operator = Operator(query, SCHEMA)
    made = [operator.process(batch) for batch in batches(given, 31)]
    assert operator.structures == {("", "middle"): "CountedTree", ("", "rank"): "CountedTree"}
    check([*made, operator.finish()], expected(query, given, 20))


@interpreted
def test_snapshots_and_stores_continue() -> None:
    query, given = Query(Count(6), by="k", on="t", **OF_ROWS), rows(60)
    store, made = MemoryStore(), []
    operator = Operator(query, SCHEMA)
    for i, batch in enumerate(batches(given, 10)):
        made.append(operator.process(batch))
        operator = Operator.restore(query, operator.snapshot())
        again = Operator(query, SCHEMA, store=store).process(batch)
        assert again.to_pydict().keys() == made[-1].to_pydict().keys()
        for name in query.aggregates:
            assert agree(again[name].to_pylist(), made[-1][name].to_pylist()), (i, name)
    check([*made, operator.finish()], expected(query, given, 6))


@interpreted
@pytest.mark.parametrize("window", [Time(6), Session(2), Policy(KeepLast(3), sash.count())], ids=repr)
def test_other_windows_hold_the_same_as_a_list_of_them(window: Any) -> None:
    """Results equal the definition on the values that `collect` returns."""
    held = monoid(
        identity=(),
        lift=lambda x: (x,),
        combine=lambda a, b: a + b,
        exact=True,
        name="held",
        returns=pa.list_(pa.float64()),
    )
    bound = {name: OF_ROWS[name] for name in ("middle", "high", "values")}
    query, given = Query(window, by="k", on="t", all=held("x"), **bound), rows(50)
    operator = Operator(query, SCHEMA)
    for batch in [*(operator.process(batch) for batch in batches(given, 9)), operator.finish()]:
        for row in batch.to_pylist():
            for name, one in bound.items():
                assert agree(row[name], defined(one.monoid, row["all"] or []), 1e-15), (name, row)


@interpreted
def test_slides_hold_the_same_as_a_list_of_them() -> None:
    query, given = Query(Time(9, every=2), by="k", on="t", all=sash.collect("x"), text=sash.collect("s"),
                         **{f"_{name}": bound for name, bound in OF_SLIDES.items()}), rows(60)  # fmt: skip
    operator = Operator(query, SCHEMA)
    for batch in [*(operator.process(batch) for batch in batches(given, 9)), operator.finish()]:
        for row in batch.to_pylist():
            for name, bound in OF_SLIDES.items():
                values = row["all" if bound.columns == ("x",) else "text"] or []
                assert agree(row[f"_{name}"], defined(bound.monoid, values), 1e-15), (name, row)


def slides(query: Query, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results and those of a lookup, of an operator that is stored and opened again after each batch."""
    store, found = MemoryStore(), list[dict[str, Any]]()
    for batch in batches(given, 13):
        operator = Operator(query, SCHEMA, store=store)
        found += operator.process(batch).to_pylist()
        found += operator.lookup({"k": ["a", "b"]}).to_pylist()
    found += operator.finish().to_pylist()
    return found


@interpreted
@pytest.mark.parametrize(
    "windows",
    [
        {"long": Time(9, every=2), "short": Time(4, every=2), "right": Time(6, every=3, closed="right")},
        Count(7, every=3),
    ],
    ids=["in time", "in rows"],
)
@pytest.mark.parametrize("forget", [None, 3])
def test_slides_over_single_rows_and_over_panes(windows: Any, forget: int | None) -> None:
    """With `collect`, whose states grow, elements are panes, and their states are multisets."""
    given = [row for row in rows(110) if row["t"] % 40 < 27]
    said: Any = {"by": "k", "on": "t", "forget": forget, "total": sash.sum("x"), "last": sash.last("s")}
    by_rows, by_panes = (Query(windows, **said, **OF_SLIDES, **more) for more in ({}, {"all": sash.collect("s")}))
    assert {one.structure for one in by_rows.plan(SCHEMA).choices.values()} > {"CountedTree", "FrequencyTree"}
    assert "CountedTree" not in {one.structure for one in by_panes.plan(SCHEMA).choices.values()}
    found, wanted = slides(by_rows, given), slides(by_panes, given)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert agree(one, {name: other[name] for name in one}, 1e-14), (one, other)


def test_compiled_slides_compared_with_those_of_multisets() -> None:
    given, window = rows(200), Time(30, every=7)
    made = {}
    for more in ({}, {"all": sash.collect("x")}):
        query = Query(window, by="k", on="t", middle=sash.median("x"), **more)
        operator = Operator(query, SCHEMA)
        found = [*(operator.process(batch) for batch in batches(given, 31)), operator.finish()]
        made[operator.structures["", "middle"]] = [row["middle"] for batch in found for row in batch.to_pylist()]
    assert list(made) == ["CountedTree", "SubtractOnEvict"]
    assert agree(made["CountedTree"], made["SubtractOnEvict"])


@interpreted
def test_lookups() -> None:
    query, given = Query(Time(20), by="k", on="t", **OF_ROWS), rows(40)
    operator = Operator(query, SCHEMA)
    for batch in batches(given, 40):
        operator.process(batch)
    for last in (None, 5, 11):
        (found,) = operator.lookup({"k": ["a"]}, at=39, last=last).to_pylist()
        window = [row for row in given if row["k"] == "a" and row["t"] > 39 - (last or 20)]
        for name, bound in query.aggregates.items():
            wanted = defined(bound.monoid, [row[bound.columns[0]] for row in window])
            assert agree(found[name], wanted, 1e-15), (last, name)


@interpreted
def test_eager_results_and_retractions() -> None:
    query = Query(Time(5), by="k", on="t", lateness=50, emit="eager", retract="gone", **OF_ROWS)
    given = rows(12)
    operator = Operator(query, SCHEMA)
    shuffled = random.Random(3).sample(given, len(given))
    last: dict[int, dict[str, Any]] = {}
    for batch in batches([*shuffled, {**given[4], "gone": True}], 3):
        last |= {row["t"]: row for row in operator.process(batch).to_pylist()}
    kept = [row for row in given if row["t"] != 4]
    for row in kept:
        window = [one for one in kept if one["k"] == row["k"] and row["t"] - 5 < one["t"] <= row["t"]]
        for name, bound in query.aggregates.items():
            wanted = defined(bound.monoid, [one[bound.columns[0]] for one in window])
            assert agree(last[row["t"]][name], wanted, 1e-15), (row["t"], name)


@interpreted
def test_changes() -> None:
    query = Query(Count(3), by="k", on="t", emit="changes", often=sash.mode("s"), n=sash.count_distinct("s"))
    given = [row for row in rows(60) if row["k"] == "a"]
    operator = Operator(query, SCHEMA)
    made = [row for batch in batches(given, 5) for row in operator.process(batch).to_pylist()]
    made += operator.finish().to_pylist()
    wanted = expected(query, given, 3)
    results = [tuple(wanted[row["t"]].values()) for row in given]
    changed = [given[i]["t"] for i in range(len(given)) if not i or results[i] != results[i - 1]]
    assert [row["t"] for row in made] == changed
