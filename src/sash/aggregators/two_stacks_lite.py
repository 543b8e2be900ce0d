"""TwoStacksLite: the two stacks in one queue; a flip overwrites each element with its aggregate.

Tangwongsan, Hirzel, Schneider: In-Order Sliding-Window Aggregation in Worst-Case Constant Time, VLDB Journal
30 (2021); after section 4 of their report of 2015.

Needs nothing but associativity. One ⊕ per insert, one per query, one per evict on average; the evict that finds
the front empty folds the whole queue from its young end, n - 1 ⊕ at once. Space n + 1.

    deque   ┌─ aggregates of [i, B) ─┐┌─ plain values ─┐
            v0v1v2   v1v2   v2        v3   v4                 back = v3 ⊕ v4
            F                         B         E

    query: deque[F] ⊕ back

Invariants: deque[i] for F ≤ i < B is ⊕ over the elements [i, B); back is ⊕ over deque[B:E].
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect, fold
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Queue


class TwoStacksLite(InOrder):
    """Two stacks in one queue and one running aggregate.

    >>> from sash.monoids import Max
    >>> window = TwoStacksLite(Max())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    2
    """

    keeps_elements: ClassVar[bool] = False

    by_position: ClassVar[tuple[str, ...]] = ("deque", "F", "B", "E")

    deque: Queue
    back: State
    F: int
    B: int
    E: int

    def push(self, v: State) -> None:
        self.deque[self.E] = v
        self.back = self.combine(self.back, v)
        self.E += 1

    def pop(self) -> None:
        if self.F == self.B:
            self.flip()
        self.deque.drop_front(self.F)
        self.F += 1

    def aggregate(self) -> State:
        return self.back if self.F == self.B else self.combine(self.deque[self.F], self.back)

    def flip(self) -> None:
        total = self.deque[self.E - 1]
        for i in range(self.E - 2, self.F - 1, -1):
            total = self.combine(self.deque[i], total)
            self.deque[i] = total
        self.back = self.identity
        self.B = self.E

    def check_invariants(self) -> None:
        assert self.F <= self.B <= self.E, f"TwoStacksLite: F, B, E = {self.F}, {self.B}, {self.E} are not in order"
        plain = (self.deque[i] for i in range(self.B, self.E))
        expect(self, "back", self.back, fold(self.monoid, plain))
