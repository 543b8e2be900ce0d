"""What differs prints differently, and what is printed evaluates to an equal value; parameters are discovered."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import itertools
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.cli.inspect import described_query
from sash.monoids.functions import AGGREGATES
from sash.monoids.synonyms import ARGUMENTS
from sash.plan.fingerprint import described_state
from sash.windows import WindowKind

VALUES: dict[str, list[Any]] = {
    "n": [1, 2, 7],
    "separator": ["", ", ", "'"],
    "ddof": [1, 0],
    "bias": [True, False],
    "q": [0.5, 0.9],
    "interpolation": ["linear", "lower"],
    "method": ["average", "min"],
    "ascending": [True, False],
    "lg_k": [12, 5],
    "k": [200, 16],
    "lg_max_k": [10, 11],
    "items": [(), ("a", 1)],
    "buckets": [1024, 64],
    "hashes": [5, 6],
    "bits": [16384, 128],
    "halflife": [3, 2.5, "10m", datetime.timedelta(hours=1)],
    "alpha": [0.25],
    "span": [9, 4],
    "com": [2.5, 3],
    "times": [False, True],
    "ignore_nulls": [False, True],
    "where": [None, "x > 0", "ok"],
}
"""Values of each parameter of an aggregate."""

DECAYS = ("halflife", "alpha", "span", "com")
"""Parameters of which an aggregate takes one."""

NAMES = {**vars(sash.monoids), **{name: getattr(sash, name) for name in sash.__all__}, "datetime": datetime}


def bound(name: str, **given: Any) -> Any:
    """An aggregate with its required arguments, and others."""
    function = getattr(sash, name)
    columns = [one for one in inspect.signature(function).parameters.values() if one.kind is one.POSITIONAL_ONLY]
    required = {
        one.name: VALUES[one.name][0]
        for one in inspect.signature(function).parameters.values()
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    }
    if name.startswith("ewm") and not any(one in given for one in DECAYS):
        required["halflife"] = 3
    names = ["x", "y"][: len(columns)] or (["x"] if name == "count" else [])
    return function(*names, **required | given)


def variants(name: str) -> list[Any]:
    """An aggregate with each value of each of its parameters."""
    parameters = inspect.signature(getattr(sash, name)).parameters.values()
    found = [bound(name)]
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY:
            found += [bound(name, **{one.name: value}) for value in VALUES[one.name]]
    return found


def assert_distinct_texts(values: list[Any]) -> None:
    for one, other in itertools.combinations(values, 2):
        assert (one == other) == (repr(one) == repr(other)), (one, other)


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_aggregates_print_each_parameter(name: str) -> None:
    found = variants(name)
    assert_distinct_texts(found)
    for one in found:
        assert eval(repr(one), {**NAMES}) == one
    assert_distinct_texts([one.over("1h") for one in found])
    assert_distinct_texts([one / sash.count() for one in found])


def test_every_parameter_has_values() -> None:
    assert set(ARGUMENTS) <= set(AGGREGATES)
    for name in AGGREGATES:
        for one in inspect.signature(getattr(sash, name)).parameters.values():
            assert one.kind is not one.KEYWORD_ONLY or one.name in VALUES, (name, one.name)


def test_users_monoids_print_their_functions() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    made = [
        sash.monoid(identity=0, combine=add),
        sash.monoid(identity=0, combine=lambda a, b: a + b),
        sash.monoid(identity=0, combine=lambda a, b: a * b),
        sash.monoid(identity=0, combine=add, lower=str),
        sash.monoid(identity=0, combine=add, commutative=True),
        sash.monoid(identity=0, combine=add, empty=None),
        sash.monoid(identity=0, combine=add, empty=7),
        sash.monoid(identity=0, combine=add, name="geo"),
    ]
    assert len({repr(one("x")) for one in made}) == len(made)
    assert repr(made[0]("x")) == "monoid(combine=add, identity=0)('x')"
    assert repr(made[-1]("x")) == "geo('x')"
    assert "combine=<lambda at test_texts.py:" in repr(made[1]("x"))


def test_products_print_their_parts() -> None:
    products = [sash.monoids.Max() * sash.monoids.Min(), sash.monoids.Min() * sash.monoids.Max()]
    assert_distinct_texts([one("x") for one in products])
    assert all(eval(repr(one("x")), {**NAMES}) == one("x") for one in products)


WINDOWS: dict[str, list[Any]] = {
    "Count": [
        *(sash.Count(5), sash.Count(6), sash.Count(5, every=2), sash.Count(5, every="1m"), sash.Count(5, full=True)),
        *(sash.Count(5, shift=-1), sash.Count(5, every=sash.Time("1d", tz="Europe/Berlin"))),
    ],
    "Time": [
        *(sash.Time("1d"), sash.Time("2d"), sash.Time("30d"), sash.Time("1mo"), sash.Time(5), sash.Time(5.5)),
        *(sash.Time("1d", every="1h"), sash.Time("1d", every=100), sash.Time(5, every=sash.Count(2))),
        *(sash.Time(5, every=2), sash.Time("1d", closed="left"), sash.Time("1d", every="1h", closed="right")),
        *(sash.Time("1d", shift="-1h"), sash.Time("1d", every="1h", offset="5m")),
        *(sash.Time("1d", every="1d", tz="Europe/Berlin"), sash.Time("1d", every="7h", align="start")),
    ],
    "Delta": [sash.Delta("km", 5), sash.Delta("km", 6), sash.Delta("m", 5), sash.Delta("km", "1h")],
    "Session": [sash.Session("10m"), sash.Session(10), sash.Session("10m", every="close")],
    "Punctuation": [sash.Punctuation("x"), sash.Punctuation("y"), sash.Punctuation("x", every="close")],
    "Lifetime": [sash.Lifetime(), sash.Lifetime(every=5), sash.Lifetime(every="5m")],
    "Policy": [
        sash.Policy(lambda t, p: t - p > 1, over=sash.sum("x")),
        sash.Policy(lambda t, p: t - p > 2, over=sash.sum("x")),
        sash.Policy(max, over=sash.sum("x")),
        sash.Policy(max, over=[sash.sum("x")]),
        sash.Policy(max, over=sash.var("x")),
        sash.Policy(max, over=sash.var("x", ddof=0)),
    ],
}
"""Windows of every kind, that differ in every field."""


OURS = [kind for kind in WindowKind.__subclasses__() if kind.__module__.startswith("sash.")]
"""Every kind of window, without those that other tests define."""


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_windows_print_each_field(kind: type[WindowKind]) -> None:
    found = WINDOWS[kind.__name__]
    assert_distinct_texts(found)
    if kind is not sash.Policy:
        assert all(eval(repr(one), {**NAMES}) == one for one in found)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        assert len({repr(getattr(one, field.name)) for one in found}) > 1, field.name


OPTIONS = {
    "structure": "DABA",
    "prefer": "latency",
    "threads": 2,
    "split": 2,
    "shards": 2,
    "memory": "1MB",
    "failed": "side",
    "store": sash.stores.MemoryStore(),
}


def test_options_print_each_field() -> None:
    assert {field.name for field in dataclasses.fields(sash.Options)} == {*OPTIONS}
    found = [sash.Options(), *(sash.Options(**{name: value}) for name, value in OPTIONS.items())]  # type: ignore[arg-type]
    assert_distinct_texts(found)
    assert all(eval(repr(one), {**NAMES}) == one for one in found if one.store is None)


ARGUMENTS_OF_QUERIES: dict[str, list[Any]] = {
    "windows": ["2h", {"a": "1h"}, {"a": "1h", "b": "2h"}],
    "by": ["k", ["k", "l"]],
    "on": ["u", ["t", "u"]],
    "lateness": ["1m", 60, 1.5],
    "emit": ["changes", "eager"],
    "late": ["flag", "error"],
    "forget": ["9h", "1d"],
    "ahead": ["1m"],
    "retract": ["gone"],
    "min_periods": [2],
    "options": [sash.Options(threads=2), sash.Options(split=2)],
}


def test_queries_print_each_argument() -> None:
    parameters = inspect.signature(sash.Query).parameters.values()
    assert {one.name for one in parameters if one.kind is not one.VAR_KEYWORD} == {*ARGUMENTS_OF_QUERIES}
    plain: dict[str, Any] = {"windows": "1h", "on": "t", "r": sash.max("x")}
    found = [sash.Query(**plain), sash.Query(**plain | {"r": sash.max("y")}), sash.Query(**plain, s=sash.max("x"))]
    for name, values in ARGUMENTS_OF_QUERIES.items():
        more = {"emit": "eager"} if name == "retract" else {}
        found += [sash.Query(**plain | more | {name: value}) for value in values]
    assert_distinct_texts(found)
    assert all(eval(repr(one), {**NAMES}) == one for one in found)
    assert_distinct_texts([sash.Queries(a=one) for one in found])


def test_plans_print_parameters() -> None:
    plan = sash.Query(
        9,
        high=sash.quantile("x", q=0.9),
        v=sash.var("x", ddof=0),
        spread=sash.quantile("x", q=0.75) - sash.quantile("x", q=0.25),
    ).explain()
    results, structures = plan.partition("results")[2], plan.partition("structures")[2]
    assert "quantile('x', q=0.9)" in results
    assert "var('x', ddof=0)" in results
    assert "spread: quantile('x', q=0.75)" in structures
    assert "spread: quantile('x', q=0.25)" in structures


def test_fingerprints_do_not_depend_on_the_text() -> None:
    # of the state that earlier versions wrote
    schema = pa.schema([("x", pa.float64())])
    query = sash.Query(9, spread=sash.quantile("x", q=0.75) - sash.quantile("x", q=0.25))
    assert query.fingerprint(schema) == "2e1f061836206cd1e0ae516f1e2fb4a8"
    evict = sash.Policy(max, over=sash.var("x", ddof=0))
    query = sash.Query(r=sash.sum("x").over(evict), s=sash.lag("x", n=2).over(5))
    assert query.fingerprint(schema) == "ca6c00bf297f907a61b575738e91989f"


def test_state_of_a_formula_describes_its_parameters() -> None:
    schema = pa.schema([("x", pa.float64())])
    query = sash.Query(9, spread=sash.quantile("x", q=0.75) - sash.quantile("x", q=0.25))
    described = described_state(query.bind(schema))
    assert described_query(described, schema, query.fingerprint(schema)) == query


def test_policies_of_equal_text_are_two_windows() -> None:
    def below(most: int) -> Any:
        def evict(total: int, prefix: int) -> bool:
            return total - prefix > most

        return sash.Policy(evict, over=sash.sum("x"))

    query = sash.Query(a=sash.sum("x").over(below(10)), b=sash.sum("x").over(below(3)))
    found = query.run(pa.table({"x": [1, 2, 3, 4, 5, 6]})).to_pydict()
    assert found["a"] == [1, 3, 6, 10, 12, 11]
    assert found["b"] == [1, 3, 5, 4, 5, 6]
