"""SubtractOnEvict: a running total, from which the oldest element is subtracted when it leaves.

Tangwongsan, Hirzel, Schneider: Constant-Time Sliding Window Aggregation, IBM RC25574 (2015), section 8;
the invertible case of Li et al., No Pane, No Gain, SIGMOD Record 34 (2005).

Needs `inverse`, with its exact law: the total never drifts from the sum of the window's elements. One ⊕ per
insert, one inverse per evict, none per query, in the worst case. Space n.

    vals    v v v v v v v          total = v ⊕ v ⊕ … ⊕ v
            F             E

Invariant: total is ⊕ over vals[F:E].
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect, fold
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Queue


class SubtractOnEvict(InOrder):
    """A running total, from which leaving elements are subtracted exactly.

    >>> from sash.monoids import Sum
    >>> window = SubtractOnEvict(Sum())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    3

    Raises TypeError for a monoid without `inverse`.
    """

    needs: ClassVar[tuple[str, ...]] = ("inverse",)

    by_position: ClassVar[tuple[str, ...]] = ("vals", "F", "E")

    vals: Queue
    total: State
    F: int
    E: int

    def push(self, v: State) -> None:
        self.vals[self.E] = v
        self.E += 1
        self.total = self.combine(self.total, v)

    def pop(self) -> None:
        self.total = self.inverse(self.total, self.vals[self.F])
        self.vals.drop_front(self.F)
        self.F += 1

    def aggregate(self) -> State:
        return self.total

    def check_invariants(self) -> None:
        super().check_invariants()
        expect(self, "total", self.total, fold(self.monoid, self.elements()))
