"""Slide policies get values that they can use from a state."""

import math
from typing import Any

import pytest

import sash
from sash.monoids import Collect, Count, DirectProduct, First, Last, Max, Mean, Min, Sum, SumOfSquares
from sash.monoids.op_counter import OpCounter


def state_of(monoid: Any, values: Any) -> Any:
    state = monoid.identity
    for value in values:
        state = monoid.combine(state, monoid.lifted((value,)))
    return state


@pytest.mark.parametrize(
    ("monoid", "values", "seen"),
    [
        (Sum(), (1, 2, 3), 6),
        (Sum(), (1, 2.5), 3.5),
        (Sum(), (), 0),
        (Sum(), (None,), 0),
        (Sum(), (2**63, 2**63), 2**64),
        (Sum(), (math.inf, 1), math.inf),
        (Mean(), (1, 2), 1.5),
        (Mean(), (), None),
        (SumOfSquares(), (3, 4), 25),
        (SumOfSquares(), (0.5,), 0.25),
        (First(), "abc", "a"),
        (Last(), "abc", "c"),
        (Last(), (), None),
        (Max(), (3, 1), 3),
        (Count(), (3, None), 1),
        (Collect(), (3, 1), (3, 1)),
    ],
)
def test_plain_values(monoid: Any, values: Any, seen: Any) -> None:
    found = monoid.policy_value(state_of(monoid, values))
    assert (found, type(found)) == (seen, type(seen))


def test_a_product_shows_a_flat_tuple() -> None:
    product = DirectProduct(Sum(), Last(), Max(), Min())
    assert product.policy_value(state_of(product, (2, 5, 3))) == (10, 3, 5, 2)
    assert product.policy_value(product.identity) == (0, None, None, None)


def test_a_state_of_the_users_is_seen_as_it_is() -> None:
    geo = sash.monoid(
        identity=(0, 0.0), lift=lambda x: (1, x), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]), lower=max
    )
    assert geo.policy_value((2, 3.0)) == (2, 3.0)
    assert DirectProduct(geo, Sum()).policy_value(((2, 3.0), (state_of(Sum(), (4,)), ()))) == ((2, 3.0), 4)


@pytest.mark.parametrize("monoid", [Sum(), Mean(), SumOfSquares(), First(), Last(), DirectProduct(Sum(), Last())])
@pytest.mark.parametrize(
    ("kind", "values"), [("int", (3, -5, 4)), ("float", (0.5, 2.25, -8.0)), ("bool", (True, False))]
)
def test_the_form_on_columns_shows_the_same(monoid: Any, kind: Any, values: Any) -> None:
    typed = monoid.typed(kind)
    for n in range(1, len(values) + 1):
        assert typed.policy_value(state_of(typed, values[:n])) == monoid.policy_value(state_of(monoid, values[:n]))


@pytest.mark.parametrize("kind", ["int", "float"])
def test_the_mean_of_nothing_on_columns(kind: Any) -> None:
    typed = Mean().typed(kind)
    assert typed.policy_value(typed.identity) is None


def test_counting_changes_nothing_of_it() -> None:
    assert OpCounter(Sum()).policy_value(state_of(Sum(), (1, 2))) == 3
