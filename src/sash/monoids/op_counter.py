"""Counting ⊕: a monoid that behaves as another and counts `combine`, `inverse` and `picks_right`.

`picks_right` of a selective monoid decides as `combine` does, so it counts as one ⊕.
"""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Monoid


class OpCounter(Monoid):
    """A monoid that counts.

    >>> from sash.aggregators import DABA
    >>> from sash.monoids import Max
    >>> counter = OpCounter(Max())
    >>> window = DABA(counter)
    >>> window.insert(3); counter.calls
    1
    """

    interpreted_only = "it counts its calls in Python"

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid
        self.calls = 0
        self.identity, self.empty, self.declares_empty = monoid.identity, monoid.empty, monoid.declares_empty
        self.commutative, self.selective, self.exact = monoid.commutative, monoid.selective, monoid.exact
        self.lift, self.lower, self.same = monoid.lift, monoid.lower, monoid.same  # type: ignore[method-assign]
        self.policy_value = monoid.policy_value  # type: ignore[method-assign]
        self.order_statistic, self.most_frequent, self.on_tree = (  # type: ignore[method-assign]
            monoid.order_statistic, monoid.most_frequent, monoid.on_tree,
        )  # fmt: skip
        if monoid.inverse is not None:
            self.inverse = self._inverse

    def combine(self, a: Any, b: Any) -> Any:
        self.calls += 1
        return self.monoid.combine(a, b)

    def picks_right(self, a: Any, b: Any) -> bool:
        self.calls += 1
        return self.monoid.picks_right(a, b)

    def _inverse(self, total: Any, oldest: Any) -> Any:
        self.calls += 1
        assert self.monoid.inverse is not None
        return self.monoid.inverse(total, oldest)

    def lifted(self, row: tuple[Any, ...]) -> Any:
        return self.monoid.lifted(row)

    @property
    def arity(self) -> tuple[int, int | None]:
        return self.monoid.arity

    def taken(self) -> int:
        """The number of calls since the last call of this method."""
        calls, self.calls = self.calls, 0
        return calls
