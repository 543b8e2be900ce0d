"""What tests are fed with: every aggregate, the kinds it runs on, and values as streams have them."""

import math
import statistics

import pytest

from sash.monoids.extremes import ArgMax
from sash.testing.strategies import columns
from tests.shared.discovery import kinds_of, monoids, sample, sample_kinds, sample_rows

MONOIDS = monoids()


@pytest.mark.parametrize("name", MONOIDS)
def test_every_monoid_can_be_fed(name: str) -> None:
    monoid = MONOIDS[name]
    for row in sample_rows(sample_kinds(monoid), 50):
        monoid.lower(monoid.lift(*row))


@pytest.mark.parametrize("name", MONOIDS)
def test_there_is_a_strategy_for_every_input(name: str) -> None:
    assert all(columns(domain) for domain in MONOIDS[name].domain)


@pytest.mark.parametrize("name", MONOIDS)
def test_every_kind_named_is_taken(name: str) -> None:
    for kinds in kinds_of(MONOIDS[name]):
        MONOIDS[name].typed(*kinds)


def test_kinds_of_several_inputs_are_all_combinations() -> None:
    assert len(kinds_of(ArgMax())) == 9


@pytest.mark.parametrize(("kind", "of"), [("float", float), ("int", int), ("bool", bool), ("text", str)])
def test_values_are_of_their_kind(kind: str, of: type) -> None:
    values = sample(kind, 300)
    assert len(values) == 300
    assert {type(value) for value in values} == {of}
    assert values == sample(kind, 300)
    assert values != sample(kind, 300, seed=1)


def test_floats_walk_and_spike() -> None:
    values = sample("float", 300)
    assert all(math.isfinite(value) for value in values)
    assert sum(abs(value) == 1e16 for value in values) == 3
    assert 50 < statistics.median(values) < 150


def test_the_columns_of_a_row_differ() -> None:
    assert any(a != b for a, b in sample_rows(("float", "float"), 20))
