"""Monoids with the states of another: of nullable rows, without values, and without `lower`.

An aggregate that counts null rows (`NullRows`) has a second input, which says whether the value is present:

    x          3      null    5                on columns nulls have no values of their own
    present    True   False   True

A null row is lifted to the `null_row` of the aggregate: it ages the other rows, and `lag` counts it.
"""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.by_place import First


class _Wrapped(Monoid):
    """A monoid with the states of another."""

    def __init__(self, of: Monoid) -> None:
        self.of = of
        self.identity, self.empty, self.name = of.identity, of.empty, of.name
        self.commutative, self.exact, self.domain = of.commutative, of.exact, of.domain
        self.interpreted_only = of.interpreted_only

    def combine(self, a: Any, b: Any) -> Any:
        return self.of.combine(a, b)

    def same(self, a: Any, b: Any) -> bool:
        return self.of.same(a, b)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.of!r})"


# --- Null rows ---


class NullRows(_Wrapped):
    """The same monoid of (value, present).

    >>> from sash.monoids import EwmMean
    >>> m = NullRows(EwmMean(halflife=1))
    >>> m.combine(m.lift(3.0, True), m.lift(None, False))
    (1, 1, 1.0, 3.0, 0.0)
    """

    nullable = (0, 1)

    def __init__(self, of: Monoid) -> None:
        super().__init__(of)
        self.rounding, self.domain = of.rounding, (*of.domain, "bool")

    def lift(self, x: Any, present: Any) -> Any:
        return self.of.lift(x if present else None)

    def lower(self, a: Any) -> Any:
        return self.of.lower(a)

    def typed(self, *kinds: Kind) -> Monoid:
        return TypedNullRows(self.of.typed(kinds[0]))


class TypedNullRows(NullRows):
    """The same of a typed monoid, which has the state of a null row as `null_row`."""

    def __init__(self, of: Monoid) -> None:
        super().__init__(of)
        self.null_row = of.null_row

    def lift(self, x: Any, present: Any) -> Any:
        return self.of.lift(x) if present else self.null_row


# --- No values ---


class NoValues(First):
    """Stands for any aggregate of a column of type null: no row has a value, so no result is ever lowered.

    >>> NoValues().empty is None
    True
    """


# --- Unlowered ---


class Unlowered(_Wrapped):
    """The same monoid without `lower`.

    >>> from sash.monoids import Var
    >>> m = Unlowered(Var())
    >>> m.lower(m.combine(m.lift(1.0), m.lift(3.0)))
    (2, 2.0, 0.0, 2.0)
    """

    def __init__(self, of: Monoid) -> None:
        super().__init__(of)
        self.selective, self.dump, self.load = of.selective, of.dump, of.load

    def lift(self, *row: Any) -> Any:
        return self.of.lift(*row)

    def picks_right(self, a: Any, b: Any) -> bool:
        return self.of.picks_right(a, b)

    def lower(self, a: Any) -> Any:
        return a

    @property
    def inverse(self) -> Any:  # type: ignore[override]
        return None if self.of.inverse is None else self._take_off

    def _take_off(self, total: Any, oldest: Any) -> Any:
        of: Any = self.of
        return of.inverse(total, oldest)

    @property
    def arity(self) -> tuple[int, int | None]:
        return self.of.arity

    def typed(self, *kinds: Kind) -> Monoid:
        return Unlowered(self.of.typed(*kinds))
