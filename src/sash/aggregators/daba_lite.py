"""DABALite: DABA in one queue; a slot contains a value or an aggregate, depending on its section of the queue.

Tangwongsan, Hirzel, Schneider: In-Order Sliding-Window Aggregation in Worst-Case Constant Time, VLDB Journal
30 (2021); after section 6 of their report of 2015.

Needs nothing but associativity. At most 1 ⊕ per query, 3 per insert and 2 per evict; on average 2 per insert and
1 per evict. Space n + 2.

DABA reads no aggregate of [R, A), and of those of [B, E) only the youngest. So the slots there keep the plain values,
and there are two running aggregates beside the queue (the paper's aggRA and aggB):

    deque   ╾───────────────────────╴         [F, L)  from i up to B
                  ╾───╴                       [L, R)  from i up to R
                        v v v                 [R, A)  the value
                              ╾─────╴         [A, B)  from i up to B
                                      v v     [B, E)  the value
            F     L     R     A       B   E

    right               ╾───────────╴         ⊕ over [R, B), while [L, R) is not empty
    back                              ╾─╴     ⊕ over [B, E)

    query: deque[F] ⊕ back

A flip, due when L = B, moves pointers and `back`; every slot already contains what its new section requires:

    before   F ╾── from i up to B ──╴ B    v  v  v  v    E          back
    after    L ╾── from i up to R ──╴ R    v  v  v  v    A = B = E  right

A step then takes the outer elements of [L, R) and [R, A), which are of equal size: the first of [L, R) reaches
up to R, and with `right` up to B; the last of [R, A) is a value, and with deque[A] reaches up to B.

Invariants: the aggregates of the drawing; F ≤ L ≤ R ≤ A ≤ B ≤ E; the window is empty, or |L, R| = |R, A| and
|L, R| + |R, A| + |A, B| + 1 = |F, B| - |B, E|.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect, fold
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Queue


class DABALite(InOrder):
    """Constant worst-case time for any associative aggregate, one slot an element.

    >>> from sash.monoids import Max
    >>> window = DABALite(Max())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    2
    """

    keeps_elements: ClassVar[bool] = False

    by_position: ClassVar[tuple[str, ...]] = ("deque", "F", "L", "R", "A", "B", "E")

    deque: Queue
    right: State
    back: State
    F: int
    L: int
    R: int
    A: int
    B: int
    E: int

    def push(self, v: State) -> None:
        self.deque[self.E] = v
        self.back = self.combine(self.back, v)
        self.E += 1
        self.fixup()

    def pop(self) -> None:
        self.deque.drop_front(self.F)
        self.F += 1
        self.fixup()

    def aggregate(self) -> State:
        return self.back if self.F == self.B else self.combine(self.deque[self.F], self.back)

    def fixup(self) -> None:
        if self.F == self.B:  # a single element, its own aggregate, or none
            self.B = self.E
            self.A = self.E
            self.R = self.E
            self.L = self.E
            self.back = self.identity
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
        self.right = self.back
        self.back = self.identity
        self.L = self.F
        self.A = self.E
        self.B = self.E

    def shrink(self) -> None:
        """Do one step of the flip: the first of [L, R) joins the front, the last of [R, A) joins [A, B)."""
        self.deque[self.L] = self.combine(self.deque[self.L], self.right)
        self.L += 1
        if self.A != self.B:
            self.deque[self.A - 1] = self.combine(self.deque[self.A - 1], self.deque[self.A])
        self.A -= 1

    def check_invariants(self) -> None:
        """Check the running aggregates against the values and deque[A].

        The aggregates of [F, R) cannot be checked: their values are not stored.
        """
        F, L, R, A, B, E = pointers = (self.F, self.L, self.R, self.A, self.B, self.E)
        assert list(pointers) == sorted(pointers), f"DABALite: F, L, R, A, B, E = {pointers} are not in order"
        if F < E:
            assert R - L == A - R, f"DABALite: [L, R) and [R, A) differ in size: {pointers}"
            paid = (A - L) + (B - A) + 1 == (B - F) - (E - B)
            assert paid, f"DABALite: the sizes do not pay for the flip: {pointers}"
        expect(self, "back", self.back, fold(self.monoid, (self.deque[i] for i in range(B, E))))
        if L < R:
            last = A + 1 if A < B else A  # deque[A] is the aggregate of [A, B)
            expect(self, "right", self.right, fold(self.monoid, (self.deque[i] for i in range(R, last))))
