"""What tests are fed with: every aggregate, the kinds it runs on, and values as streams have them."""

import pytest

from sash.testing.strategies import columns
from tests.shared.discovery import kinds_of, monoids, sample_kinds, sample_rows

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
