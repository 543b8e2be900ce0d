"""Conditions, formulas, own windows and min_periods in operators: emission, state, lookups, and rows that fail."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Query, Time
from sash.stores import MemoryStore, PageError
from sash.testing import Reference, assert_same

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")

MADE: dict[str, Any] = {
    "vwap": sash.sum(sash.expr("p * q")) / sash.sum("q"),
    "failed": sash.count(where="s = 'fail'"),
    "rise": sash.max("q").over(4) - sash.min("q").over(2),
    "who": sash.arg_max(sash.expr("abs(p)"), "s", where="q > 0"),
}


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows of key, time, price, quantity and status."""
    columns = zip(*rows, strict=True)
    kinds = {"k": pa.string(), "t": pa.int64(), "p": pa.float64(), "q": pa.int64(), "s": pa.string()}
    return pa.record_batch({name: pa.array(c, kind) for (name, kind), c in zip(kinds.items(), columns, strict=True)})


ROWS = batch(
    ("a", 1, 1.0, 2, "ok"),
    ("a", 2, None, 3, "fail"),
    ("b", 2, 5.0, 0, "ok"),
    ("a", 4, -7.0, 1, None),
    ("a", 5, 2.0, None, "fail"),
    ("b", 6, 3.0, 4, "ok"),
    ("a", 9, 2.0, 2, "ok"),
)


def query(window: Any = 3, **more: Any) -> Query:
    return Query(window, by="k", on="t", lateness=2, **{**MADE, **more})


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_snapshots_stores_and_readers_continue(emit: Any) -> None:
    one = query(emit=emit, min_periods=2)
    first, second = ROWS.slice(0, 4), ROWS.slice(4)
    straight = one.operator(ROWS.schema)
    expected = [straight.process(first), straight.process(second), straight.finish()]
    reference = Reference(one, ROWS.schema)
    for mine, call in zip(
        expected, [lambda: reference.process(first), lambda: reference.process(second), reference.finish], strict=True
    ):
        assert_same(mine, call(), by=["k"])
    broken = one.operator(ROWS.schema)
    broken.process(first)
    again = sash.engine.Operator.restore(one, broken.snapshot())
    assert again.process(second).equals(expected[1])
    store = MemoryStore()
    one.operator(ROWS.schema, store=store).process(first)
    opened = one.operator(store=store)
    assert opened.lookup({"k": ["a", "c"]}).equals(one.reader(store).lookup({"k": ["a", "c"]}))
    assert opened.process(second).equals(expected[1])


def test_a_changed_expression_is_another_query() -> None:
    store = MemoryStore()
    query().operator(ROWS.schema, store=store).process(ROWS)
    for changed in (
        query(vwap=sash.sum(sash.expr("p + q")) / sash.sum("q")),
        query(failed=sash.count(where="s = 'ok'")),
        query(vwap=sash.sum(sash.expr("p * q")) * sash.sum("q")),
        query(rise=sash.max("q").over(4) - sash.min("q").over(3)),
        query(min_periods=1),
    ):
        with pytest.raises(PageError, match="another query"):
            changed.operator(ROWS.schema, store=store)


def test_derived_columns_are_neither_in_results_nor_in_the_state() -> None:
    one, store = query(), MemoryStore()
    operator = one.operator(ROWS.schema, store=store)
    assert operator.process(ROWS).schema.names == ["k", "t", "p", "q", "s", "vwap", "failed", "rise", "who"]
    # the root page describes the query in words
    assert [name for name, page in store.scan() if b"where" in page] == ["root"]
    assert operator.late_rows().schema.names == ROWS.schema.names


def test_a_lookup_gives_what_a_row_would_see() -> None:
    one = query(min_periods=1)
    operator = one.operator(ROWS.schema, mode="given")
    operator.process(ROWS)
    found = operator.lookup({"k": ["a", "b", "zz"]}).to_pydict()
    final = operator.finish().to_pylist()
    for key, place in (("a", 0), ("b", 1)):
        last = [row for row in final if row["k"] == key][-1]
        assert {name: found[name][place] for name in MADE} == {name: last[name] for name in MADE}
    assert all(found[name][2] is None for name in MADE)


def test_changes_are_those_of_what_users_see() -> None:
    """Both sums double, their ratio does not change; neither does a null for lack of inputs."""
    one = Query(2, by="k", on="t", lateness=0, emit="changes", r=sash.sum("q") / sash.count("q"))
    rows = batch(*(("a", t, 0.0, q, "") for t, q in enumerate([2, 2, 2, 3, 3])))
    operator = one.operator(rows.schema)
    got = [*operator.process(rows).to_pylist(), *operator.finish().to_pylist()]
    assert [(row["t"], row["r"]) for row in got] == [(0, 2.0), (3, 2.5), (4, 3.0)]
    few = Query(3, by="k", on="t", lateness=0, emit="changes", min_periods=3, m=sash.mean("p"))
    operator = few.operator(rows.schema)
    got = [*operator.process(rows).to_pylist(), *operator.finish().to_pylist()]
    assert [row["t"] for row in got] == [0, 2, 3, 4]


def test_slides_have_nulls_for_results_of_other_windows() -> None:
    one = Query(
        by="k", on="t", lateness=2, n=sash.count().over(Time(4, every=2)), r=(sash.sum("q") / sash.count()).over(
            Time(8, every=4)
        )
    )  # fmt: skip
    operator = one.operator(ROWS.schema)
    reference = Reference(one, ROWS.schema)
    got = pa.Table.from_batches([operator.process(ROWS), operator.finish()])
    assert_same(got, pa.Table.from_batches([reference.process(ROWS), reference.finish()]), by=["k", "window"])
    for row in got.to_pylist():
        assert (row["n"] is None) == (row["window"] == "Time(8, every=4)")
        assert row["n"] is None or row["r"] is None


def test_a_row_on_which_an_expression_fails_is_refused_on_arrival() -> None:
    one = Query(3, by="k", on="t", lateness=100, x=sash.sum(sash.expr("q * 4611686018427387904")))
    operator = one.operator(ROWS.schema)
    operator.process(batch(("a", 1, 0.0, 1, "")))
    with pytest.raises(ValueError, match=r"the expression 'q \* 4611686018427387904' fails at row 1, q=2: overflow"):
        operator.process(batch(("a", 2, 0.0, 0, ""), ("a", 3, 0.0, 2, "")))
    operator.process(batch(("a", 2, 0.0, 0, "")))
    assert [row["x"] for row in operator.finish().to_pylist()] == [2**62, 2**62]


def test_each_aggregate_of_ours_takes_a_condition_on_slides() -> None:
    """A condition has the results of the rows for which it is true."""
    kept = ROWS.filter(pa.compute.greater(ROWS.column("q"), 1))
    made: dict[str, Any] = {"n": sash.count, "total": sash.sum, "distinct": sash.approx_distinct, "runs": sash.collect}
    window = Time(20, every=20)
    names = {name: () if name == "n" else ("p",) for name in made}
    some = Query(window, by="k", on="t", **{name: f(*names[name], where="q > 1") for name, f in made.items()})
    alone = Query(window, by="k", on="t", **{name: f(*names[name]) for name, f in made.items()})
    assert some.run(pa.Table.from_batches([ROWS])).to_pylist() == alone.run(pa.Table.from_batches([kept])).to_pylist()


def test_a_policy_takes_expressions_and_conditions() -> None:
    policy = sash.Policy(
        lambda total, prefix: bool(total - prefix > 3), over=sash.sum(sash.expr("q + 0"), where="q < 9")
    )
    one = Query(policy, by="k", on="t", lateness=0, n=sash.count(), m=sash.max("q").over(Count(2)))
    reference = Reference(one, ROWS.schema)
    operator = one.operator(ROWS.schema)
    assert_same(operator.process(ROWS), reference.process(ROWS), by=["k"])
    assert_same(operator.finish(), reference.finish(), by=["k"])


def test_only_the_pairs_asked_for_cost() -> None:
    """Calls of ⊕ are counted: an aggregate with a window of its own is not combined over the other windows."""
    calls = []

    def combine(a: int, b: int) -> int:
        calls.append(1)
        return a + b

    own = sash.monoid(identity=0, combine=combine, name="counted", returns="int64")
    rows = batch(*(("a", t, 0.0, t, "") for t in range(64)))
    costs = []
    for windows in ({"w": 3}, {"w": 3, "x": 5, "y": 9, "z": 17}):
        one = Query(windows, by="k", on="t", lateness=0, n=sash.count(), own=own("q").over(2))
        operator = one.operator(rows.schema)
        calls.clear()
        operator.process(rows)
        operator.finish()
        costs.append(len(calls))
    assert costs[0] == costs[1] > 0
