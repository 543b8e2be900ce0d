"""Queries: their arguments, which of them share a state, and the text of `explain`."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine.operation_counts import count_operations
from sash.monoids.op_counter import OpCounter
from sash.plan.explain_queries import cost_of
from sash.plan.planner import plan
from sash.plan.queries import CombinedQuery
from sash.plan.slicing import WHY_SAME

HIGH = sash.max("x")
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us")), ("x", pa.float64())])


def query(window: Any = "1h", **changes: Any) -> sash.Query:
    return sash.Query(window, **({"by": "k", "on": "t", "high": HIGH} | changes))


def test_queries_are_frozen_data() -> None:
    both = sash.Queries(a=query(), b=query("2h"))
    assert repr(both) == f"Queries(a={query()!r}, b={query('2h')!r})"
    assert both == sash.Queries(a=query(), b=query("2h"))
    assert hash(both) == hash(sash.Queries(a=query(), b=query("2h")))
    assert both != sash.Queries(b=query("2h"), a=query())
    assert pickle.loads(pickle.dumps(both)) == both
    with pytest.raises(AttributeError):
        both.queries = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        both.queries["c"] = query()  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "at least one query"),
        ({"a": "1h"}, TypeError, r"a= must be a sash.Query\(…\); got '1h', a str"),
        ({"a": HIGH}, TypeError, r"a= must be a sash.Query\(…\); got max\('x'\), a Bound"),
        ({"an hour": query()}, ValueError, "must be an identifier, such as 'hourly'; got 'an hour'"),
        ({"class": query()}, ValueError, "must be an identifier"),
        ({"a": CombinedQuery({"b": query()})}, TypeError, "a= must be a sash.Query"),
        (
            {"a": query(options=sash.Options(store=sash.stores.MemoryStore()))},
            ValueError,
            r"a= has a store in its options.*pass store= to operator\(\)",
        ),
    ],
)
def test_arguments_are_checked(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sash.Queries(**arguments)


def names(queries: sash.Queries, ordered: bool = False) -> list[list[str]]:
    return [list(group.members) for group in queries.groups(ordered)]


def test_groups() -> None:
    some = sash.Queries(
        a=query(),
        slide=query(sash.Time("2h", every="1h"), min_periods=2),
        late=query(lateness="1m"),
        ahead=query(sash.Time("1h", shift="1m")),
        behind=query(sash.Time("1h", shift="-1m")),
        rows_ahead=query(sash.Count(3, shift=1)),
        wide_ahead=query(sash.Count(9, shift=1)),
        changes=query(emit="changes"),
        same=query(emit="changes"),
        other=query("2h", emit="changes"),
    )
    ahead = [["ahead"], ["rows_ahead", "wide_ahead"]]
    assert names(some) == [["a", "behind", "slide"], ["late"], *ahead, ["changes", "same"], ["other"]]
    assert names(some, ordered=True)[0] == ["a", "behind", "late", "slide"]


def test_a_combined_query_has_each_window_and_aggregate_once() -> None:
    group = CombinedQuery(
        {"a": query({"h": "1h", "d": "1d"}), "b": query("1h", low=sash.min("x")), "c": query(n=sash.count("x"))}
    )
    found = group.combination(SCHEMA)
    assert [repr(spec.window) for spec in found.bound_query.windows] == ["Time('1h')", "Time('1d')"]
    assert [spec.monoid.name for spec in found.bound_query.aggregates] == ["max", "min", "count"]
    assert found.members["b"].windows == (0,)
    assert found.members["c"].aggregates == (0, 2)
    assert found.bound_query.projection.asked == {(0, 0), (1, 0), (0, 1), (0, 2)}


@pytest.mark.usefixtures("interpreted_kernels")
def test_policies_of_equal_text_stay_apart() -> None:
    def longer(than: int) -> Any:
        return lambda total, prefix: total - prefix > than

    short, long = (sash.Policy(longer(n), over=sash.count()) for n in (1, 3))
    group = CombinedQuery({"a": query(short), "b": query(long), "c": query(short)})
    found = group.combination(SCHEMA)
    assert len(found.bound_query.windows) == 2
    assert len({spec.name for spec in found.bound_query.windows}) == 2
    both = sash.Queries(a=query(short, on=None), b=query(long, on=None))
    batch = pa.record_batch({"k": ["a"] * 5, "x": [5.0, 4.0, 3.0, 2.0, 1.0]})
    results = both.operator().process(batch)
    assert results["a"]["high"].to_pylist() == [5, 5, 4, 3, 2]
    assert results["b"]["high"].to_pylist() == [5, 5, 5, 5, 4]


def test_errors_name_the_query() -> None:
    with pytest.raises(KeyError, match="'y'") as raised:
        sash.Queries(fits=query(), other=query(high=sash.max("y"))).explain(SCHEMA)
    assert any("in the query 'other'" in note for note in raised.value.__notes__)


# ---- explain ----


def test_explain_names_what_is_shared() -> None:
    slides = {"lateness": "10s", "n": sash.count()}
    text = sash.Queries(
        fast=query("1m", lateness="10s"),
        hourly=query("1h", lateness="10s", mean=sash.mean("x")),
        total=query("1h", lateness="10s", total=sash.sum("x")),
        slide=query(sash.Time("5m", every="2m"), **slides),
        longer=query(sash.Time("1h", every="2m"), **slides),
        changes=query(emit="changes"),
    ).explain(SCHEMA)
    for line in (
        "Queries: fast, hourly, total, slide, longer, changes",
        "state 1 of 2: fast, hourly, longer, slide, total",
        "keyed by k; ordered by t, then the order of arrival",
        "Time('1h'): bounds found once for hourly, total",
        "max(x): rows lifted once for fast, hourly, longer, slide, total",
        "mean(x): one state, from which sum(x) is lowered",
        "2 windows: panes, kept once",
        f"cut by Pairs: {WHY_SAME} (partials per second: Panes 0.01667, Pairs 0.01667, Cutty 0.01667)",
        "emit='changes': each result depends on the one before",
        "changes: lateness=None, emit='changes'",
    ):
        assert line in [one.strip() for one in text.splitlines()], text


def test_explain_says_why_queries_are_apart() -> None:
    given: Any = {"on": "t", "lateness": "1m", "r": sash.max("x")}
    queries = {
        "eager": sash.Query("1h", emit="eager", **given),
        "eager_too": sash.Query("2h", emit="eager", **given),
        "final": sash.Query("2h", **given),
        "later": sash.Query(sash.Time("2h", shift="1h"), **given),
        "other": sash.Query("2h", by="k", emit="changes", **given),
        "changes": sash.Query("3h", by="k", emit="changes", **given),
    }

    def why(*names: str) -> str:
        plan = sash.Queries(**{name: queries[name] for name in names}).explain()
        return " | ".join(line.strip() for line in plan.partition("why apart\n")[2].splitlines())

    assert why("eager", "eager_too") == "eager_too: emit='eager' shares state among equal queries only"
    assert why("eager", "final") == "final: emit='final'"
    assert why("final", "later") == "later: windows that end after their rows, moved by another amount"
    assert why("final", "other", "changes") == (
        "other: by=('k',), emit='changes' | "
        "changes: by=('k',), emit='changes', emit='changes' shares state among equal queries only"
    )
    assert why("final", "final") == ""


def test_explain_names_the_structure_of_many_sizes() -> None:
    text = sash.Queries(**{f"q{n}": query(sash.Count(10 * n)) for n in range(1, 11)}).explain(SCHEMA)
    assert "max(x): one SlickDequeNonInv answers 10 windows" in text
    assert "⊕ per row, estimated: 2 together, 30 apart, 15× fewer" in text


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize("windows", [1, 3, 20])
@pytest.mark.parametrize("name", ["Max", "Sum"])
@pytest.mark.parametrize("slides", [False, True])
def test_the_estimate_is_near_the_count(windows: int, name: str, slides: bool) -> None:
    counter = OpCounter(getattr(sash.monoids, name)())
    made = {
        f"q{n}": sash.Query(sash.Count(20 + 2 * n, every=2 if slides else None), s=counter("x")) for n in range(windows)
    }
    schema = pa.schema([("x", pa.int64())])
    operator = sash.Queries(**made).operator(schema)
    operator.process({"x": [i * 7919 % 101 for i in range(200)]})
    counter.taken()
    operator.process({"x": [i * 7919 % 101 for i in range(200, 1200)]})
    estimate = cost_of(plan(CombinedQuery(made).bind(schema))).per_row
    assert counter.taken() / 1000 == pytest.approx(estimate, rel=0.35)


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize("window", [sash.Time(40, every=10), sash.Count(40, every=10)], ids=repr)
@pytest.mark.parametrize("others", [{}, {"high": HIGH}], ids=["alone", "with a maximum"])
def test_the_estimate_of_an_order_statistic_over_slides_is_near_the_count(window: Any, others: Any) -> None:
    """Its values are in a tree without ⊕, and each row is a pane of its own, for the other aggregates, too."""
    rows = pa.record_batch({"t": range(1000), "x": [float(i * 7919 % 101) for i in range(1000)]})
    query = sash.Query(window, on="t", middle=sash.median("x"), **others)
    (counted,) = count_operations(sash.Queries(only=query), rows)
    estimate = cost_of(plan(query.bind(rows.schema)))
    assert (counted.together == 0) == (not others)
    assert counted.together == pytest.approx(1000 * estimate.per_row + 1000 * estimate.per_time, rel=0.05)


def test_explain_names_the_elements_of_order_statistics() -> None:
    query = sash.Query(sash.Time("10s", every="5s"), on="t", middle=sash.median("x"))
    text = sash.Queries(a=query).explain()
    assert "Time('10s', every='5s'): single rows, because an order statistic" in text
    assert "cut by" not in text
