"""A monoid that raises during a change: a window that is left incomplete gives no result."""

import pickle
from typing import Any

import pytest

from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import InOrder
from sash.monoids import Monoid
from sash.monoids.rank_statistics import ModeForm


class Brittle(Monoid):
    """Sum of ints that raises on 13, whatever it is combined with."""

    identity = 0
    exact = True
    commutative = True
    selective = order_statistic = most_frequent = True  # it is not; but it must be admitted everywhere

    def lift(self, x: int) -> int:
        return x

    def combine(self, a: int, b: int) -> int:
        if 13 in (a, b):
            raise ArithmeticError("13")
        return a + b

    def picks_right(self, a: int, b: int) -> bool:
        return self.combine(a, b) > 0

    def inverse(self, total: int, oldest: int) -> int:
        return self.combine(total, -oldest)

    def lower(self, a: int) -> int:
        return a

    def on_tree(self) -> Monoid:
        return BrittleForm("brittle")


class BrittleForm(ModeForm):
    """Values that raise on a comparison with 13."""

    def precedes(self, a: Any, b: Any) -> Any:
        if 13 in (a[1], b[1]):
            raise ArithmeticError("13")
        return super().precedes(a, b)

    def read(self, tree: Any) -> Any:
        return tree.newest()


def broken(structure: type[InOrder]) -> InOrder:
    """A window in which ⊕ has just raised: at the insert, evict or query of a 13."""
    window = structure(Brittle())
    for x in (1, 13, 2, 3):
        try:
            window.insert(x)
            window.query()
        except ArithmeticError:
            return window
    with pytest.raises(ArithmeticError, match="13"):
        empty(window)
    return window


def empty(window: InOrder) -> None:
    while len(window):
        window.evict()
        window.query()


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_window_half_way_through_a_change_gives_no_answer(name: str) -> None:
    window = broken(IN_ORDER[name].cls)
    with pytest.raises(RuntimeError, match=f"this {name} is incomplete: .* ArithmeticError: 13 .* clear"):
        window.insert(1)
    if len(window):
        with pytest.raises(RuntimeError, match="incomplete"):
            window.query()
        with pytest.raises(RuntimeError, match="incomplete"):
            pickle.loads(pickle.dumps(window)).evict()


@pytest.mark.parametrize("name", IN_ORDER)
def test_clear_makes_it_good_again(name: str) -> None:
    window = broken(IN_ORDER[name].cls)
    window.clear()
    for x in (1, 2, 3):
        window.insert(x)
    window.check_invariants()
    assert len(window) == 3


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_value_that_cannot_be_lifted_changes_nothing(name: str) -> None:
    window = IN_ORDER[name].cls(Brittle())
    window.insert(1)
    with pytest.raises(TypeError):
        window.insert(1, 2, 3)
    window.insert(2)
    assert len(window) == 2
    window.check_invariants()
