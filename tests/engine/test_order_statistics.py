"""Order statistics in the operator, compared with their definitions: with stores, lookups, retractions and policies."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Query, Time
from sash.engine import Operator
from sash.monoids.algebra import agree
from sash.stores import MemoryStore
from tests.monoids.order_oracle import defined

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


def test_compiled_order_statistics_equal_the_definition() -> None:
    """Nulls, NaN and ties; the tree of a key is built again when its ring moves."""
    bound = {name: OF_ROWS[name] for name in ("middle", "rank")}
    query, given = Query(Count(20), by="k", on="t", **bound), rows(300)
    operator = Operator(query, SCHEMA)
    made = [operator.process(batch) for batch in batches(given, 31)]
    assert operator.structures == {("", "middle"): "CountedTree", ("", "rank"): "CountedTree"}
    check([*made, operator.finish()], expected(query, given, 20))


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
