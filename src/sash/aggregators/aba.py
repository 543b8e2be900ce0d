"""ABA, the Amortized Banker's Aggregator: the two stacks side by side in one queue, flipped in place.

Tangwongsan, Hirzel, Schneider: Constant-Time Sliding Window Aggregation, IBM RC25574 (2015), section 5,
figure 7; with its cached query.

Needs nothing but associativity. One ⊕ per insert, one per evict on average, one per query and none if nothing has
changed since the last; the evict that finds the front empty flips the stacks: it computes all aggregates again from the
young end, n - 1 ⊕ at once. Space 2n. Values never move: a flip only writes `aggs`.

    vals   v v v v v v v v v v
    aggs   ╾─────────╴             [F, B)  from i up to B
                       ╶─────╼     [B, E)  from B up to i
           F           B       E

    query: aggs[F] ⊕ aggs[E - 1]

Invariants: the aggregates of the drawing; F ≤ B ≤ E.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Queue


class ABA(InOrder):
    """Two stacks in place: values stay where they are, their aggregates are overwritten.

    >>> from sash.monoids import Max
    >>> window = ABA(Max())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    2
    """

    by_position: ClassVar[tuple[str, ...]] = ("vals", "aggs", "F", "B", "E")

    vals: Queue
    aggs: Queue
    F: int
    B: int
    E: int
    both: State
    valid: bool

    def push(self, v: State) -> None:
        self.valid = False
        self.vals[self.E] = v
        self.aggs[self.E] = self.combine(self.sum_back(), v)
        self.E += 1

    def pop(self) -> None:
        self.valid = False
        self.both = self.identity  # it contains the leaving element
        if self.F == self.B:
            self.flip()
        self.vals.drop_front(self.F)
        self.aggs.drop_front(self.F)
        self.F += 1

    def aggregate(self) -> State:
        if not self.valid:
            self.both = self.combine(self.sum_front(), self.sum_back())
            self.valid = True
        return self.both

    def sum_front(self) -> State:
        return self.identity if self.F == self.B else self.aggs[self.F]

    def sum_back(self) -> State:
        return self.identity if self.B == self.E else self.aggs[self.E - 1]

    def flip(self) -> None:
        """Make the back the front: compute the aggregate from each element to the young end."""
        total = self.vals[self.E - 1]
        self.aggs[self.E - 1] = total
        for i in range(self.E - 2, self.F - 1, -1):
            total = self.combine(self.vals[i], total)
            self.aggs[i] = total
        self.B = self.E

    def check_invariants(self) -> None:
        F, B, E = self.F, self.B, self.E
        assert F <= B <= E, f"ABA: F, B, E = {F}, {B}, {E} are not in order"
        for i in range(F, B):
            expect(self, f"aggs[{i}]", self.aggs[i], self.sum_of(i, B))
        for i in range(B, E):
            expect(self, f"aggs[{i}]", self.aggs[i], self.sum_of(B, i + 1))
        if self.valid:
            expect(self, "both", self.both, self.sum_of(F, E))
