"""The forms of order statistics that a counted tree computes (`aggregators/counted_tree.py`).

    lift         a value as an element: its count 1, and the value; a null is the identity, with the count 0
    precedes     the order of elements: NaN is greater than every number
    read(tree)   the few scalars that determine the result, in the shape of an element
    lower        the result

They are no monoids: two such states cannot be combined. A tree of elements takes the place of ⊕.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

from sash.monoids.algebra import Domain, Kind, Monoid
from sash.monoids.exact_integer import number, one_kind
from sash.monoids.first_last import ZERO
from sash.monoids.multiset import hashable_key
from sash.monoids.order_statistics import interpolated, quantile_place


class TreeForm(Monoid):
    """An order statistic on a counted tree. `clean` makes a value comparable: -0.0 becomes 0.0."""

    order_statistic = True
    domain: tuple[Domain, ...] = ("ordered",)
    exact = True

    def __init__(self, name: str, identity: Any) -> None:
        self.name, self.identity = name, identity
        self.clean: Callable[[Any], Any] = positive_zero

    def on_tree(self) -> Monoid:
        return self

    def _typed(self, kinds: tuple[Kind, ...], identity: Callable[[Any], Any]) -> Self:
        """A copy for columns of these kinds; `identity` makes it from a value."""
        kind = one_kind(self, kinds)
        return self.changed(identity=identity(ZERO[kind]), clean=add_zero if kind == "float" else itself)

    def combine(self, _a: Any, _b: Any) -> NoReturn:
        raise TypeError(f"{self.name} has no combine on a tree, which holds its elements one by one")

    def holds(self, a: Any) -> Any:
        """Is an element a value, and not null?"""
        return a[0] > 0

    def precedes(self, a: Any, b: Any) -> Any:
        """Is the value of element `a` less than that of `b`?"""
        return a[1] < b[1] or (b[1] != b[1] and a[1] == a[1])


class BetweenForm(TreeForm):
    """A quantile that is a number between two values. The state is (number of values, lower value, upper value)."""

    domain: tuple[Domain, ...] = ("number",)

    def __init__(self, name: str, q: float, rule: int) -> None:
        super().__init__(name, (0, None, None))
        self.q, self.rule = q, rule
        self.clean = number_with_zero

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, lambda zero: (0, zero, zero))

    def lift(self, x: Any) -> Any:
        x = self.clean(x)
        return (1, x, x)

    def read(self, tree: Any) -> Any:
        """The values around the place of the quantile; NaN if the window has one."""
        n, top = tree.total(), tree.greatest()[1]
        if top != top:
            return (n, top, top)
        place, fraction = quantile_place(n, self.q, self.rule)
        low = tree.select(place)[1]
        return (n, low, low if fraction == 0.0 else tree.select(place + 1)[1])

    def lower(self, a: Any) -> Any:
        if a[1] is None:  # a test of the value: typed, it is never None, and no optional result is compiled
            return None
        return interpolated(float(a[1]), float(a[2]), quantile_place(a[0], self.q, self.rule)[1])


class AroundForm(BetweenForm):
    """The values around the place of a quantile, and the fraction of the way from the lower to the upper one.

    The engine computes what lies between them (`engine/between_columns.py`): they may be codes of values.
    """

    domain = ("ordered",)

    def __init__(self, name: str, q: float, rule: int) -> None:
        super().__init__(name, q, rule)
        self.clean = positive_zero

    def lower(self, a: Any) -> Any:
        if a[1] is None:
            return None
        return (a[1], a[2], quantile_place(a[0], self.q, self.rule)[1])


class ChosenForm(TreeForm):
    """A quantile that is one of the values. The state is (number of values, value)."""

    def __init__(self, name: str, q: float, rule: int) -> None:
        super().__init__(name, (0, None))
        self.q, self.rule = q, rule

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, _counted)

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x))

    def read(self, tree: Any) -> Any:
        """The value at the place of the quantile; NaN if the window has one."""
        n, top = tree.total(), tree.greatest()[1]
        if top != top:
            return (n, top)
        return (n, tree.select(quantile_place(n, self.q, self.rule)[0])[1])

    def lower(self, a: Any) -> Any:
        return a[1]


class ModeForm(TreeForm):
    """The most frequent value. The state is (how often it occurs, value)."""

    order_statistic = False
    most_frequent = True

    def __init__(self, name: str) -> None:
        super().__init__(name, (0, None))

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, _counted)

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x))

    def read(self, tree: Any) -> Any:
        """The most frequent value."""
        return (1, tree.mode()[1])

    def lower(self, a: Any) -> Any:
        return a[1]


class DistinctForm(TreeForm):
    """The number of distinct values. The state is (that number, a value)."""

    empty: Any = 0

    def __init__(self, name: str) -> None:
        super().__init__(name, (0, None))
        self.clean = hashable_key

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, _counted)

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x))

    def read(self, tree: Any) -> Any:
        """The number of distinct values."""
        return (tree.distinct(), tree.newest()[1])

    def lower(self, a: Any) -> Any:
        return a[0]


AVERAGE, LEAST, GREATEST, DENSE = range(4)
"""The rules for the rank of equal values."""


class RankForm(TreeForm):
    """The rank of the newest value. The state is (the greatest rank, value, twice the rank); 0 if it is null."""

    def __init__(self, name: str, rule: int, ascending: bool, finish: Callable[[Any, Any], Any]) -> None:
        super().__init__(name, (0, None, 0))
        self.rule, self.ascending, self.finish = rule, ascending, finish

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, lambda zero: (0, zero, 0))

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x), 2)

    def read(self, tree: Any) -> Any:
        """The rank of the newest element among the values."""
        newest = tree.newest()
        size, distinct = tree.total(), tree.distinct()
        if newest[0] == 0:
            return (size, newest[1], 0)
        below, same, different = tree.place(newest)
        if self.rule == DENSE:
            return (distinct, newest[1], 2 * (different + 1 if self.ascending else distinct - different))
        if not self.ascending:
            below = size - below - same
        twice = 2 * below + same + 1
        if self.rule == LEAST:
            twice = 2 * below + 2
        elif self.rule == GREATEST:
            twice = 2 * (below + same)
        return (size, newest[1], twice)

    def lower(self, a: Any) -> Any:
        return None if a[2] == 0 else self.finish(a[2], a[0])


def _counted(zero: Any) -> Any:
    return (0, zero)


def half(twice: Any, _of: Any) -> Any:
    """The rank."""
    return twice / 2


def whole_half(twice: Any, _of: Any) -> Any:
    """The rank, if it is whole."""
    return twice // 2


def fraction(twice: Any, of: Any) -> Any:
    """The rank as a fraction."""
    return twice / 2 / of


def itself(x: Any) -> Any:
    """A value unchanged: its type has no -0.0."""
    return x


def add_zero(x: Any) -> Any:
    """A float; 0.0 for -0.0."""
    return x + 0.0


def positive_zero(x: Any) -> Any:
    """A value of any type; 0.0 for -0.0."""
    return x + 0.0 if isinstance(x, float) else x


def number_with_zero(x: Any) -> Any:
    """A number; 0.0 for -0.0. Raises TypeError for other objects."""
    return positive_zero(number(x))
