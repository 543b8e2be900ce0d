"""Policies get the same values from typed states as from plain ones, also for an empty window."""

import functools
import random
import types
from typing import Any

import pytest

from sash.kernels.jit.code_fingerprint import fingerprint
from sash.kernels.jit.policy_monoid import OrNone, Watched, compilable, joined, policy_monoid, split
from sash.kernels.jit.state_layout import NotColumnar
from sash.monoids.algebra import Kind, Monoid, agree
from tests.shared.discovery import monoids
from tests.shared.queries import KeepLast

KINDS: dict[str, Kind] = {"bool": "bool", "int": "int", "number": "float", "ordered": "float", "any": "int"}
VALUES: dict[Kind, list[Any]] = {"bool": [True, False], "int": [0, 1, -4, 9], "float": [0.5, 2.0, -3.25, 7.0]}

ALIKE = {
    *("count", "sum", "mean", "geometric_mean", "min", "max", "first", "last", "any", "all", "bit_and", "bit_or"),
    *("bit_xor", "sum_of_squares", "var", "std", "skewness", "kurtosis", "covariance", "correlation", "slope"),
    *("intercept", "var(ddof=0)", "weighted_mean"),
}
"""The example in docs/queries.md."""


def kinds_of(monoid: Monoid) -> tuple[Kind, ...] | None:
    if monoid.interpreted_only or not all(domain in KINDS for domain in monoid.domain):
        return None
    return tuple(KINDS[domain] for domain in monoid.domain)


def test_which_aggregates_a_compiled_policy_may_look_at() -> None:
    found = set()
    for name, monoid in monoids().items():
        kinds = kinds_of(monoid)
        if kinds is not None and not monoid.nullable:
            try:
                policy_monoid(monoid, monoid.typed(*kinds), kinds)
            except NotColumnar:
                continue
            found.add(name)
    assert found == ALIKE


@pytest.mark.parametrize("name", sorted(ALIKE))
def test_typed_states_show_what_plain_ones_show(name: str) -> None:
    plain = monoids()[name]
    kinds = kinds_of(plain)
    assert kinds is not None
    typed = plain.typed(*kinds)
    public, chance = policy_monoid(plain, typed, kinds), random.Random(name)
    states = [plain.identity, public.identity]
    for _ in range(12):
        row = tuple(chance.choice([*VALUES[kind], None]) for kind in kinds)
        present = None not in row
        element: Any = typed.lift(*row) if present else typed.identity
        if isinstance(public, OrNone):
            element = (present, element)
        states = [plain.combine(states[0], plain.lifted(row)), public.combine(states[1], element)]
        a, b = plain.policy_value(states[0]), public.policy_value(states[1])
        assert (a is None) == (b is None)
        assert agree(a, b, 1e-9), (a, b)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_states_side_by_side_come_apart_again(count: int) -> None:
    states = [(i, ()) for i in range(count)]
    assert split(joined(states, alone=False), alone=False) == states
    assert split(joined(states[:1], alone=True), alone=True) == states[:1]


class Limited:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def evict(self, total: Any, prefix: Any) -> bool:
        return bool(total - prefix >= self.limit)


def key(evict: Any) -> str:
    return fingerprint(Watched(monoids()["count"], compilable(evict)))


def test_the_key_of_an_object_covers_its_attributes_and_its_code() -> None:
    assert key(KeepLast(3)) == key(KeepLast(3))
    assert len({key(KeepLast(3)), key(KeepLast(4)), key(Limited(3).evict), key(Limited(4).evict)}) == 4
    asked = compilable(Limited(3).evict)
    assert isinstance(asked, types.MethodType)
    assert asked(5, 2)
    assert not asked(5, 3)


@pytest.mark.parametrize("evict", [functools.partial(max), max, bool])
def test_what_is_no_function_of_pythons_is_refused(evict: Any) -> None:
    with pytest.raises(NotColumnar, match="the policy is a"):
        compilable(evict)
