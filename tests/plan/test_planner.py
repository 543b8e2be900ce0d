"""The planner: which structure is chosen, or refused, and why."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Options, Query
from sash.aggregators.catalogue import CATALOGUE, IN_ORDER
from sash.monoids import Rank
from sash.plan.planner import DEQUE_SIZES, FOLD, INDEX_SIZES, PANE_SIZES, tree_of
from sash.windows import Count, Lifetime, Policy, Punctuation, Session, Time
from tests.shared.discovery import monoids

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("u", pa.uint64()),
        ("s", pa.string()),
        ("end", pa.bool_()),
    ]
)


def evicts(total: Any, prefix: Any) -> bool:
    return bool(total - prefix > 10)


def planned(windows: Any, options: Options | None = None, **aggregates: Any) -> Any:
    return Query(windows, on="ts", options=options, **(aggregates or {"high": sash.max("x")})).plan(SCHEMA)


# ---- which structure ----


def chosen(windows: Any, bound: Any, **options: Any) -> str:
    return planned(windows, Options(**options), r=bound).choices[0, 0].structure


@pytest.mark.parametrize(
    ("bound", "structure"),
    [
        (sash.count(), "SubtractOnEvict"),
        (sash.sum("i"), "SubtractOnEvict"),
        (sash.mean("i"), "SubtractOnEvict"),
        (sash.bit_xor("i"), "SubtractOnEvict"),
        (sash.sum("u"), "SubtractOnEvict"),
        (sash.collect("s"), "SubtractOnEvict"),
        (sash.concat("s"), "SubtractOnEvict"),
        (sash.sum("x"), "TwoStacksLite"),
        (sash.mean("x"), "TwoStacksLite"),
        (sash.max("x"), "TwoStacksLite"),
        (sash.max("s"), "TwoStacksLite"),
        (sash.var("i"), "TwoStacksLite"),
        (sash.last("s"), "TwoStacksLite"),
    ],
    ids=repr,
)
def test_throughput(bound: Any, structure: str) -> None:
    """An inverse counts where it is exact on these columns: a float sum is never undone by subtraction."""
    assert chosen("1h", bound) == structure


@pytest.mark.parametrize("bound", [sash.max("x"), sash.first("s"), sash.arg_max("x", "s")], ids=repr)
def test_one_deque_answers_several_sizes(bound: Any) -> None:
    sizes = range(1, DEQUE_SIZES + 1)
    assert chosen({f"w{n}": n for n in sizes}, bound) == "SlickDequeNonInv"
    assert chosen({f"w{n}": f"{n}h" for n in sizes}, bound) == "SlickDequeNonInv"
    assert chosen({f"w{n}": Time(f"{n}h", every="1m") for n in sizes[:PANE_SIZES]}, bound) == "SlickDequeNonInv"
    assert chosen({f"w{n}": Time(f"{n}h", every="1m") for n in sizes[: PANE_SIZES - 1]}, bound) == "TwoStacksLite"
    assert chosen({f"w{n}": n for n in sizes[:-1]}, bound) == "TwoStacksLite", "too few to be worth it"
    assert chosen({f"w{n}": f"{n}h" if n < 3 else n for n in sizes}, bound) == "TwoStacksLite", "not in size alone"
    assert chosen({f"w{n}": f"{n if n > 1 else 120}{'h' if n > 1 else 'm'}" for n in sizes}, bound) == "TwoStacksLite"
    closed = {f"w{n}": Time(f"{n}h", closed="left" if n < 3 else "right") for n in sizes}
    assert chosen(closed, bound) == "TwoStacksLite"
    every = {f"w{n}": Time(f"{n}h", every=f"{n}m") for n in sizes}
    assert chosen(every, bound) == "TwoStacksLite"
    assert chosen({f"w{n}": n for n in sizes}, bound, prefer="latency") == "DABALite"


def test_several_sizes_of_what_selects_nothing() -> None:
    windows = {f"w{n}": f"{n}h" for n in range(1, INDEX_SIZES + 1)}
    few = {name: windows[name] for name in list(windows)[:-1]}
    assert chosen(windows, sash.sum("x")) == chosen(windows, sash.var("i")) == "FlatFIT"
    assert chosen(few, sash.sum("x")) == "TwoStacksLite"
    slides = {f"w{n}": Time(f"{n}h", every="1m") for n in range(1, PANE_SIZES + 1)}
    assert chosen(slides, sash.sum("x")) == "FlatFIT"
    assert chosen(dict(list(slides.items())[:-1]), sash.sum("x")) == "TwoStacksLite"
    assert chosen(windows, sash.sum("i")) == "SubtractOnEvict", "faster than any that answers several sizes"
    assert chosen(windows, sash.sum("x"), prefer="latency") == "AMTA"


@pytest.mark.parametrize("name", [name for name, one in monoids().items() if not isinstance(one, Rank)])
def test_latency_takes_only_structures_of_constant_worst_case(name: str) -> None:
    monoid = monoids()[name]
    kinds = {"text": "s", "int": "i", "bool": "end"}
    bound = monoid(*(kinds.get(domain, "x") for domain in monoid.domain[: max(monoid.arity[0], 1)]))
    windows = {"a": Time("1h", every="1m"), "b": Time("2h", every="1m"), "c": Count(50, every=7)}
    plan = planned(windows, Options(prefer="latency"), r=bound)
    assert len(plan.choices) == 3
    tree = tree_of(bound.monoid)  # an order statistic has no structure but its tree
    assert all(choice.structure == tree or IN_ORDER[choice.structure].constant for choice in plan.choices.values())


def test_latency() -> None:
    assert chosen(10, sash.sum("i"), prefer="latency") == "SubtractOnEvict"
    assert chosen(10, sash.sum("x"), prefer="latency") == "DABALite"
    assert chosen(10, sash.max("x"), prefer="latency") == "DABALite"
    for aggregate in (sash.sum("i"), sash.max("x")):  # any number of rows may leave a window of time at once
        assert chosen("1h", aggregate, prefer="latency") == "AMTA"
    assert chosen(Time("1h", every="1m"), sash.max("x"), prefer="latency") == "DABALite"


@pytest.mark.parametrize("window", [Session("1m"), Lifetime(), Lifetime(every="1h"), Punctuation("end")], ids=repr)
def test_a_running_window_needs_no_structure(window: Any) -> None:
    for options in ({}, {"prefer": "latency"}, {"structure": "DABA"}):
        assert chosen(window, sash.max("x"), **options) == FOLD == "running fold"


def test_an_inverse_that_is_not_exact_is_not_trusted() -> None:
    def total(**keywords: Any) -> Any:
        add = {"identity": 0.0, "combine": lambda a, b: a + b, "inverse": lambda total, oldest: total - oldest}
        return sash.monoid(**add, **keywords)("x")

    assert chosen("1h", total()) == "TwoStacksLite"
    assert chosen(10, total(), prefer="latency") == "DABALite"
    assert chosen("1h", total(exact=True)) == "SubtractOnEvict"
    assert chosen("1h", total(), structure="SubtractOnEvict") == "SubtractOnEvict", "but for one who asks for it"


# ---- forced ----


@pytest.mark.parametrize("structure", CATALOGUE)
def test_a_structure_that_is_asked_for(structure: str) -> None:
    needs = CATALOGUE[structure].needs
    bounds = {"selective": sash.max("x"), "order_statistic": sash.median("x"), "most_frequent": sash.mode("s")}
    bound = next((bound for need, bound in bounds.items() if need in needs), sash.sum("i"))
    plan = planned({"a": "1h", "b": 10}, Options(structure=structure), r=bound)
    assert {choice.structure for choice in plan.choices.values()} == {structure}
    assert plan.choices[0, 0].why == "asked for by Options(structure=…)"


@pytest.mark.parametrize(
    ("structure", "bound", "says"),
    [
        (
            "SubtractOnEvict",
            sash.max("x"),
            r"'SubtractOnEvict'\) needs a monoid with the property 'inverse', which r=max on 'x'",
        ),
        ("SubtractOnEvict", sash.sum("x"), r"the property 'inverse', which r=sum on 'x' of type double does not have"),
        ("SlickDequeInv", sash.last("s"), r"the property 'inverse', which r=last on 's' of type string does not have"),
        (
            "SlickDequeNonInv",
            sash.sum("i"),
            r"the property 'selective', which r=sum on 'i' of type int64 does not have",
        ),
        ("SlickDequeNonInv", sash.count(), r"the property 'selective', which r=count does not have"),
    ],
)
def test_a_structure_that_cannot_be(structure: str, bound: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        planned("1h", Options(structure=structure), r=bound)


def test_a_name_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"structure= of Options must be one of Recalc, .*FiBA; got 'BTree'"):
        Options(structure="BTree")


def test_eager_is_served_by_fiba_alone() -> None:
    query = Query({"a": "1h", "b": Lifetime()}, on="ts", emit="eager", high=sash.max("x"), n=sash.count("x"))
    assert {choice.structure for choice in query.plan(SCHEMA).choices.values()} == {"FiBA"}
    assert [len(group) for group in query.plan(SCHEMA).states] == [1, 1], "each aggregate has a tree of its own"
    with pytest.raises(ValueError, match=r"Options\(structure='AMTA'\) does not support emit='eager'.*: use 'FiBA'"):
        Query("1h", on="ts", emit="eager", options=Options(structure="AMTA"), high=sash.max("x"))


def test_a_plan_is_a_value_that_reads_as_its_explanation() -> None:
    query = Query("1h", on="ts", high=sash.max("x"), n=sash.count())
    plan = query.plan(SCHEMA)
    assert plan.bound_query is query.bind(SCHEMA)
    assert list(plan.choices) == [(0, 0), (0, 1)]
    assert str(plan) == query.explain(SCHEMA)


# ---- order statistics ----


def test_order_statistics_run_on_trees_of_values() -> None:
    for bound in (sash.median("x"), sash.quantile("s", q=0.5, interpolation="lower"), sash.count_distinct("s")):
        for options in (Options(), Options(prefer="latency")):
            assert {one.structure for one in planned({"a": "1h", "b": 10}, options, r=bound).choices.values()} == {
                "CountedTree"
            }
    assert chosen("1h", sash.rank("x")) == "CountedTree"
    assert chosen("1h", sash.mode("s")) == "FrequencyTree"
    assert chosen(Policy(lambda t, p: t - p > 3, sash.count()), sash.median("x")) == "CountedTree"


def test_slides_of_order_statistics_are_over_single_rows() -> None:
    for window in (Time("1h", every="1m"), Count(50, every=7)):
        (group,) = planned(window, r=sash.median("x"), n=sash.count()).groups
        assert group.elements == f"rows of {group.kind}"
        assert chosen(window, sash.mode("s"), structure="FrequencyTree") == "FrequencyTree"


def test_order_statistics_with_states_that_grow_are_multisets() -> None:
    """A sketch for each row would take gigabytes."""
    plan = planned(Time("1h", every="1m"), r=sash.median("x"), n=sash.approx_distinct("x"))
    assert {one.structure for one in plan.choices.values()} == {"SubtractOnEvict", "TwoStacksLite"}
    assert chosen(Lifetime(), sash.median("x")) == FOLD


@pytest.mark.parametrize("structure", ["DABA", "SubtractOnEvict", "FrequencyTree"])
def test_other_structures_do_not_fit_order_statistics(structure: str) -> None:
    with pytest.raises(
        TypeError, match=rf"structure='{structure}'\) does not fit r=median, an order statistic: use 'C"
    ):
        planned("1h", Options(structure=structure), r=sash.median("x"))
