"""An aggregate whose result is its state, from which several aggregates are lowered."""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Kind, Monoid


class Unlowered(Monoid):
    """The same monoid without `lower`.

    >>> from sash.monoids import Var
    >>> m = Unlowered(Var())
    >>> m.lower(m.combine(m.lift(1.0), m.lift(3.0)))
    (2, 2.0, 0.0, 2.0)
    """

    def __init__(self, of: Monoid) -> None:
        self.of = of
        self.identity, self.empty = of.identity, of.empty
        self.commutative, self.exact, self.domain = of.commutative, of.exact, of.domain
        self.selective = of.selective
        self.interpreted_only = of.interpreted_only
        self.dump, self.load, self.name = of.dump, of.load, of.name

    def lift(self, *row: Any) -> Any:
        return self.of.lift(*row)

    def combine(self, a: Any, b: Any) -> Any:
        return self.of.combine(a, b)

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

    def same(self, a: Any, b: Any) -> bool:
        return self.of.same(a, b)

    def typed(self, *kinds: Kind) -> Monoid:
        return Unlowered(self.of.typed(*kinds))

    def __repr__(self) -> str:
        return f"Unlowered({self.of!r})"
