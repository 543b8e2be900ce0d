"""The direct product of monoids: several aggregates of the same input.

It is built of pairs, first ⊗ rest, so that every function is arithmetic on a pair and compiles:

    DirectProduct(A, B, C)   state (a, (b, (c, ())))   result (A.lower(a), B.lower(b), C.lower(c))
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from sash.monoids.algebra import Domain, Kind, Monoid

_NARROW: tuple[Domain, ...] = ("any", "hashable", "ordered", "number", "text", "int", "bool")
"""From wide to narrow: a product accepts what its narrowest part accepts."""


class Unit(Monoid):
    """The trivial monoid, the empty product: the end of the pairs."""

    identity: Any = ()
    commutative = True
    exact = True
    empty: Any = ()

    def lift(self, *_row: Any) -> Any:
        return ()

    def combine(self, _a: Any, _b: Any) -> Any:
        return ()

    def lower(self, _a: Any) -> Any:
        return ()

    def inverse(self, _total: Any, _oldest: Any) -> Any:
        return ()


class DirectProduct(Monoid):
    """Several monoids as one; the result is the tuple of their results. Two may be written `Max() * Sum()`.

    Commutative, exact and invertible if all its parts are; never selective, because the parts may choose
    differently.

    >>> from sash.monoids import Max, Min
    >>> both = DirectProduct(Min(), Max())
    >>> both.lower(both.combine(both.lift(3), both.lift(5)))
    (3, 5)

    Raises TypeError if there is no part, a part is no monoid, or the parts take different inputs.
    """

    def __init__(self, *parts: Monoid) -> None:
        if not parts:
            raise TypeError("a direct product needs at least one monoid")
        for part in parts:
            if not isinstance(part, Monoid):
                raise TypeError(f"a direct product must be made of monoids; got {part!r}")
        most = min((part.arity[1] for part in parts if part.arity[1] is not None), default=None)
        if most is not None and any(part.arity[0] > most for part in parts):
            raise TypeError(f"the parts of a direct product must read the same inputs; these do not: {parts!r}")
        self.parts = parts
        self.first: Monoid = parts[0]
        self.rest: Monoid = DirectProduct(*parts[1:]) if len(parts) > 1 else Unit()
        self.identity = (self.first.identity, self.rest.identity)
        self.empty = (self.first.empty, *self.rest.empty)
        self.commutative = self.first.commutative and self.rest.commutative
        self.exact = self.first.exact and self.rest.exact
        self.declares_empty = self.first.declares_empty and self.rest.declares_empty
        inputs = zip_longest(*(part.domain for part in parts), fillvalue="any")
        self.domain = tuple(max(one, key=_NARROW.index) for one in inputs)
        self.interpreted_only = self.first.interpreted_only or self.rest.interpreted_only

    def lift(self, *row: Any) -> Any:
        return (self.first.lift(*row), self.rest.lift(*row))

    def combine(self, a: Any, b: Any) -> Any:
        return (self.first.combine(a[0], b[0]), self.rest.combine(a[1], b[1]))

    def lower(self, a: Any) -> Any:
        # `(x, *rest)` would say the same and does not compile
        return (self.first.lower(a[0]),) + self.rest.lower(a[1])  # noqa: RUF005

    def policy_value(self, a: Any) -> Any:
        """The tuple of the parts' values."""
        return (self.first.policy_value(a[0]),) + self.rest.policy_value(a[1])  # noqa: RUF005

    @property
    def inverse(self) -> Any:  # type: ignore[override]
        return self._take_off if all(part.inverse is not None for part in self.parts) else None

    def _take_off(self, total: Any, oldest: Any) -> Any:
        first: Any = self.first
        rest: Any = self.rest
        return (first.inverse(total[0], oldest[0]), rest.inverse(total[1], oldest[1]))

    @property
    def arity(self) -> tuple[int, int | None]:
        most = [part.arity[1] for part in self.parts if part.arity[1] is not None]
        return max(part.arity[0] for part in self.parts), min(most, default=None)

    def same(self, a: Any, b: Any) -> bool:
        return self.first.same(a[0], b[0]) and (not self.rest.identity or self.rest.same(a[1], b[1]))

    def typed(self, *kinds: Kind) -> Monoid:
        return DirectProduct(*(part.typed(*kinds) for part in self.parts))

    def lifted(self, row: tuple[Any, ...]) -> Any:
        return (self.first.lifted(row), self.rest.lifted(row))

    def parameters(self) -> dict[str, Any]:
        """None: `called` has its parts."""
        return {}

    def called(self) -> str:
        """The call that makes it: results of products have no name of their own."""
        return repr(self)

    def __repr__(self) -> str:
        return f"DirectProduct({', '.join(map(repr, self.parts))})"
