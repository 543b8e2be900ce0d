"""DABA, the De-Amortized Banker's Aggregator: constant time in the worst case, for any associative ⊕.

Tangwongsan, Hirzel, Schneider: Constant-Time Sliding Window Aggregation, IBM RC25574 (2015), section 6; the
variant with both caches (figure 17).

Needs nothing but associativity. At most 1 ⊕ per query, 3 per insert and 2 per evict; on average 2 per insert and
1 per evict. Space 2n.

The two stacks are flipped one step per operation, early enough to be ready when the flip is needed:

    vals   v v v v v v v v v v v v v v v
    aggs   ╾───────────────────────╴         [F, L)  from i up to B
                 ╾───╴                       [L, R)  from i up to R
                       ╶───╼                 [R, A)  from R up to i
                             ╾─────╴         [A, B)  from i up to B
                                     ╶─╼     [B, E)  from B up to i
           F     L     R     A       B   E

    query: aggs[F] ⊕ aggs[E - 1]

Invariants: the aggregates of the drawing; F ≤ L ≤ R ≤ A ≤ B ≤ E; the window is empty, or |L, R| = |R, A| and
|L, R| + |R, A| + |A, B| + 1 = |F, B| - |B, E|; while [L, R) is not empty, `right` is ⊕ over [R, B).
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Queue


class DABA(InOrder):
    """Constant worst-case time for any associative aggregate.

    >>> from sash.monoids import Max
    >>> window = DABA(Max())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    2
    """

    by_position: ClassVar[tuple[str, ...]] = ("vals", "aggs", "F", "L", "R", "A", "B", "E")

    vals: Queue
    aggs: Queue
    F: int
    L: int
    R: int
    A: int
    B: int
    E: int
    right: State
    both: State
    valid: bool

    def push(self, v: State) -> None:
        self.valid = False
        self.vals[self.E] = v
        self.aggs[self.E] = self.combine(self.sum_back(), v)
        self.E += 1
        self.fixup()

    def pop(self) -> None:
        self.valid = False
        self.both = self.identity  # it contains the leaving element
        self.vals.drop_front(self.F)
        self.aggs.drop_front(self.F)
        self.F += 1
        self.fixup()

    def aggregate(self) -> State:
        if not self.valid:
            self.both = self.combine(self.sum_front(), self.sum_back())
            self.valid = True
        return self.both

    def sum_front(self) -> State:
        return self.identity if self.F == self.B else self.aggs[self.F]

    def sum_back(self) -> State:
        return self.identity if self.B == self.E else self.aggs[self.E - 1]

    def fixup(self) -> None:
        if self.F == self.B:  # a single element, or none
            self.B = self.E
            self.A = self.E
            self.R = self.E
            self.L = self.E
            return
        if self.L == self.B:
            self.flip()
        if self.L == self.R:  # nothing left to flip
            self.right = self.identity  # unused until the next flip, and it may contain leaving elements
            self.A += 1
            self.R += 1
            self.L += 1
        else:
            self.shrink()

    def flip(self) -> None:
        """Make the old front [L, R) and the old back [R, A). R does not move: L = B implies R = B."""
        self.right = self.sum_back()
        self.L = self.F
        self.A = self.E
        self.B = self.E

    def shrink(self) -> None:
        """Do one step of the flip: the first of [L, R) joins the front, the last of [R, A) joins [A, B)."""
        self.aggs[self.L] = self.combine(self.aggs[self.L], self.right)
        self.L += 1
        last = self.vals[self.A - 1]
        self.aggs[self.A - 1] = last if self.A == self.B else self.combine(last, self.aggs[self.A])
        self.A -= 1

    def check_invariants(self) -> None:
        F, L, R, A, B, E = pointers = (self.F, self.L, self.R, self.A, self.B, self.E)
        assert list(pointers) == sorted(pointers), f"DABA: F, L, R, A, B, E = {pointers} are not in order"
        if F < E:
            assert R - L == A - R, f"DABA: [L, R) and [R, A) differ in size: {pointers}"
            assert (A - L) + (B - A) + 1 == (B - F) - (E - B), f"DABA: the sizes do not pay for the flip: {pointers}"
        upward = [(F, L, B), (L, R, R), (A, B, B)]
        downward = [(R, A), (B, E)]
        for start, stop, end in upward:
            for i in range(start, stop):
                expect(self, f"aggs[{i}]", self.aggs[i], self.sum_of(i, end))
        for start, stop in downward:
            for i in range(start, stop):
                expect(self, f"aggs[{i}]", self.aggs[i], self.sum_of(start, i + 1))
        if L < R:
            expect(self, "right", self.right, self.sum_of(R, B))
        if self.valid:
            expect(self, "both", self.both, self.sum_of(F, E))
