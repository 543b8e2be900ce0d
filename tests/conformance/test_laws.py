"""The laws of every monoid that discovery finds: in a loop, on columns, compiled. None is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid, agree
from sash.monoids.sketches import SketchMonoid
from sash.testing import check_laws, laws
from sash.testing.strategies import KINDS, rows
from tests.conformance.machines import with_added_inputs
from tests.shared.discovery import kinds_of, monoids

MONOIDS = monoids() | with_added_inputs()
FORMS = [(name, kinds) for name, monoid in MONOIDS.items() for kinds in kinds_of(monoid)]

PROMISED = [
    "count", "sum", "product", "mean", "geometric_mean", "min", "max", "range", "arg_min", "arg_max",
    "min_count", "max_count", "first", "last", "nth", "collect", "collect_distinct", "concat", "any", "all",
    "bit_and", "bit_or", "bit_xor", "sum_of_squares", "var", "std", "skewness", "kurtosis", "covariance",
    "correlation", "slope", "intercept", "m4", "longest_run", "approx_distinct", "approx_quantile",
    "frequent_items", "count_min", "bloom", "median", "quantile", "rank", "percent_rank", "mode", "count_distinct",
    "frequent_items", "count_min", "bloom", "weighted_mean", "ewm_mean", "ewm_var", "ewm_std", "lag", "delta",
    "pct_change",
]  # fmt: skip


def values(monoid: Monoid, drawn: list[tuple[Any, ...]]) -> list[Any]:
    """Rows as `check_laws` takes them: bare values for an aggregate of one input."""
    return [row[0] for row in drawn] if monoid.arity[0] == 1 else drawn


@pytest.mark.parametrize("name", MONOIDS)
def test_laws_in_a_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # rows as Python has them: which of them would make columns is a matter of chance, and the next test's
    monkeypatch.setattr(laws, "_kinds", lambda _rows: None)
    monoid = MONOIDS[name]
    # a combine of sketches takes some 20 µs, against 1 µs
    share = max(1, settings.default.max_examples // (4 if isinstance(monoid, SketchMonoid) else 1))

    @settings(max_examples=share)
    @given(rows(monoid))
    def lawful(drawn: list[tuple[Any, ...]]) -> None:
        report = check_laws(monoid, values(monoid, drawn))
        assert {"identity", "associative", "unchanged"} <= set(report.laws)
        for declared in ("commutative", "selective", "inverse"):
            assert (declared in report.laws) == bool(getattr(monoid, declared))

    lawful()


def each_time() -> set[tuple[str, tuple[Kind, ...]]]:
    """One combination of kinds for every sixth typed class of a monoid: the class is the code that is compiled.

    Floats show most: they have NaNs and infinities, and round. Two inputs are of two kinds where that is possible.
    """
    by_weight = sorted(FORMS, key=lambda form: (len({*form[1]}), form[1][-1] == "float", form[1][0] == "int"))
    of_class = {(name, type(MONOIDS[name].typed(*kinds))): kinds for name, kinds in by_weight}
    return {(name, kinds) for (name, _), kinds in list(of_class.items())[::6]}


EACH_TIME = each_time()


def form(name: str, kinds: tuple[Kind, ...]) -> Any:
    """Those of EACH_TIME are compiled each time, the others under `all_compiled`."""
    marks = () if (name, kinds) in EACH_TIME else pytest.mark.all_compiled
    return pytest.param(name, kinds, id=f"{name}({', '.join(kinds)})", marks=marks)


@pytest.mark.parametrize(("name", "kinds"), [form(name, kinds) for name, kinds in FORMS])
def test_laws_on_columns(name: str, kinds: tuple[Kind, ...]) -> None:
    monoid = MONOIDS[name]
    share = settings.default.max_examples // len(kinds_of(monoid))  # the kinds share the examples of a profile

    @settings(max_examples=max(share, 5))
    @given(st.lists(st.tuples(*(KINDS[kind] for kind in kinds)), min_size=1, max_size=12))
    def lawful(drawn: list[tuple[Any, ...]]) -> None:
        report = check_laws(monoid, values(monoid, drawn))
        assert report.compiled, report.why_not_compiled

    lawful()


@pytest.mark.parametrize("name", MONOIDS)
def test_dumped_states_come_back_to_another_instance(name: str) -> None:
    """States outlive the process: an equal instance reads the states that another has written."""
    monoid, twin = MONOIDS[name], (monoids() | with_added_inputs())[name]
    assert monoid == twin
    if monoid.dump is None:
        return

    @given(rows(monoid))
    def readable(drawn: list[tuple[Any, ...]]) -> None:
        state = monoid.identity
        for row in drawn:
            state = monoid.combine(state, monoid.lift(*row))
        assert monoid.same(twin.load(monoid.dump(state)), state)  # type: ignore[misc]

    readable()


@pytest.mark.parametrize("name", MONOIDS)
def test_nothing_gives_what_is_declared_for_it(name: str) -> None:
    monoid = MONOIDS[name]
    assert agree(monoid.lower(monoid.identity), monoid.empty)
    assert agree(monoid.nothing(), monoid.empty)


@pytest.mark.parametrize("name", PROMISED)
def test_discovery_finds(name: str) -> None:
    assert name in MONOIDS
    assert MONOIDS[name].name == name


def test_discovery_finds_products() -> None:
    assert any(" * " in name for name in MONOIDS)


def test_all_that_is_discovered_is_tested() -> None:
    """A monoid runs on columns, or gives the reason why it never does."""
    for name, monoid in MONOIDS.items():
        assert bool(monoid.interpreted_only) != any(form[0] == name for form in FORMS), name


@pytest.mark.parametrize("name", MONOIDS)
@given(data=st.data())
def test_a_null_row_is_missing(name: str, data: st.DataObject) -> None:
    monoid = MONOIDS[name]
    (row,) = data.draw(rows(monoid, max_size=1))
    for position in range(len(row)):
        with_null = (*row[:position], None, *row[position + 1 :])
        if position not in monoid.nullable:
            assert monoid.same(monoid.lifted(with_null), monoid.identity)
    assert monoid.same(monoid.lifted(row), monoid.lift(*row))
