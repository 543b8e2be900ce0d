"""SlickDequeNonInv: a deque of the elements that may still become the result.

Shein, Chrysanthis, Labrinidis: SlickDeque: High Throughput and Low Latency Incremental Sliding-Window
Aggregation, EDBT 2018, section 3.2, algorithm 2.

Needs `selective`: the result of ⊕ is one of its operands, and `picks_right` says which; then the deque is exact for
every associative ⊕, also for one that is not commutative. Under 2 ⊕ per insert on average, none per evict or query;
an insert that replaces a whole deque takes n at once. Space 2 to 2n, depending on the data.

    elements    5 1 2 0 1 4 0 3 1               ⊕ = max
    deque       5         4   3 1               vals, positions: [H, T)
                F                 E
                └──────── 5 ──────┘             a range is answered by the oldest node inside it
                  └────── 4 ──────┘
                            └─ 3 ─┘

An element leaves the deque when a younger one is chosen over it, or when it leaves the window. A node is chosen over
all elements between the node before it and the young end. Positions are absolute: the paper's, modulo the longest
range, identify leaving elements only while the window has exactly that length.

Invariants: positions increase, are in [F, E) and end with E - 1; for F ≤ i and vals[j] the first node not before i,
⊕ over the elements [i, E) is vals[j], so ⊕ never chooses the next node over a node, unless they are equal.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State
from sash.aggregators.in_order import RegisteredRanges
from sash.aggregators.storage import Ints, Queue


class SlickDequeNonInv(RegisteredRanges):
    """The candidates of a selective aggregate.

    >>> from sash.monoids import Max
    >>> window = SlickDequeNonInv(Max(), ranges=(1, 2))
    >>> for x in (3, 1, 2, 0): window.insert(x)
    >>> window.query(), window.query_ranges()
    (3, (0, 2))
    >>> window.evict(); window.query()
    2

    Raises TypeError for a monoid that is not `selective`.
    """

    needs: ClassVar[tuple[str, ...]] = ("selective",)
    keeps_elements: ClassVar[bool] = False

    vals: Queue
    positions: Ints
    H: int
    T: int
    F: int
    E: int
    node: int

    def push(self, v: State) -> None:
        while self.H < self.T and self.picks_right(self.vals[self.T - 1], v):
            self.T -= 1
            self.vals.drop_back(self.T)
            self.positions.drop_back(self.T)
        self.vals[self.T] = v
        self.positions[self.T] = self.E
        self.T += 1
        self.E += 1

    def pop(self) -> None:
        if self.positions[self.H] == self.F:
            self.vals.drop_front(self.H)
            self.positions.drop_front(self.H)
            self.H += 1
        self.F += 1

    def aggregate(self) -> State:
        return self.identity if self.H == self.T else self.vals[self.H]

    def last(self, n: int) -> State:
        """The oldest node of the youngest n elements, by binary search."""
        start = self.E - n
        low, high = self.H, self.T - 1
        while low < high:
            middle = (low + high) // 2
            if self.positions[middle] < start:
                low = middle + 1
            else:
                high = middle
        return self.vals[low]

    def answer(self, k: int, n: int) -> State:
        """`last(n)` for all ranges in one pass along the deque, the longest first."""
        if k == 0:
            self.node = self.H
        while self.positions[self.node] < self.E - n:
            self.node += 1
        return self.vals[self.node]

    def check_invariants(self) -> None:
        super().check_invariants()
        positions = [self.positions[j] for j in range(self.H, self.T)]
        assert positions == sorted(set(positions)), f"SlickDequeNonInv: positions {positions} do not rise"
        inside = all(self.F <= position < self.E for position in positions)
        assert inside, f"SlickDequeNonInv: positions {positions} leave the window [{self.F}, {self.E})"
        ends = positions[-1:] == ([self.E - 1] if self.F < self.E else [])
        assert ends, f"SlickDequeNonInv: positions {positions} do not end with the youngest of [{self.F}, {self.E})"
        for j in range(self.H, self.T - 1):
            older, younger = self.vals[j], self.vals[j + 1]
            if self.monoid.picks_right(older, younger) and not self.monoid.same(older, younger):
                raise AssertionError(f"SlickDequeNonInv: vals[{j}] = {older!r} gives way to the next, {younger!r}")
