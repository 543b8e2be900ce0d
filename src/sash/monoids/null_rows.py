"""Wrap an aggregate that counts null rows: a second input says whether the value is present.

    x          3      null    5                on columns nulls have no values of their own
    present    True   False   True

A null row is lifted to the `null_row` of the aggregate: it ages the other rows, and `lag` counts it.

The aggregate of a column without values: null, for every window.
"""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.first_last import First

# --- Null rows ---


class NullRows(Monoid):
    """The same monoid of (value, present).

    >>> from sash.monoids import EwmMean
    >>> m = NullRows(EwmMean(halflife=1))
    >>> m.combine(m.lift(3.0, True), m.lift(None, False))
    (1, 1, 1.0, 3.0, 0.0)
    """

    nullable = (0, 1)

    def __init__(self, of: Monoid) -> None:
        self.of = of
        self.identity, self.empty = of.identity, of.empty
        self.commutative, self.exact, self.rounding = of.commutative, of.exact, of.rounding
        self.domain = (*of.domain, "bool")
        self.interpreted_only, self.name = of.interpreted_only, of.name

    def lift(self, x: Any, present: Any) -> Any:
        return self.of.lift(x if present else None)

    def combine(self, a: Any, b: Any) -> Any:
        return self.of.combine(a, b)

    def lower(self, a: Any) -> Any:
        return self.of.lower(a)

    def same(self, a: Any, b: Any) -> bool:
        return self.of.same(a, b)

    def typed(self, *kinds: Kind) -> Monoid:
        return TypedNullRows(self.of.typed(kinds[0]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.of!r})"


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
