"""TwoStacks: a queue made of two stacks; each element is stored with the aggregate of its stack up to it.

Tangwongsan, Hirzel, Schneider: Constant-Time Sliding Window Aggregation, IBM RC25574 (2015), section 4.

Needs nothing but associativity. One ⊕ per insert, one per query, one per evict on average; the evict that finds
the front stack empty flips the back stack, n ⊕ at once. Space 2n.

    front stack (top = oldest)              back stack (top = youngest)
    front_vals  v2 v1   v0                  back_vals  v3 v4
    front_aggs  v2 v1v2 v0v1v2              back_aggs  v3 v3v4
                        ▲ fronts - 1                      ▲ backs - 1

    query: front_aggs[top] ⊕ back_aggs[top]

Invariants: front_aggs[i] = front_vals[i] ⊕ … ⊕ front_vals[0]; back_aggs[i] = back_vals[0] ⊕ … ⊕ back_vals[i].
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.aggregators.base import State, expect, fold
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Queue


class TwoStacks(InOrder):
    """Two stacks, flipped when the front one is empty.

    >>> from sash.monoids import Max
    >>> window = TwoStacks(Max())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    2
    """

    front_vals: Queue
    front_aggs: Queue
    back_vals: Queue
    back_aggs: Queue
    fronts: int
    backs: int

    def size(self) -> int:
        return self.fronts + self.backs

    def push(self, v: State) -> None:
        self.back_aggs[self.backs] = self.combine(self.sum_back(), v)
        self.back_vals[self.backs] = v
        self.backs += 1

    def pop(self) -> None:
        if self.fronts == 0:
            self.flip()
        self.fronts -= 1
        self.front_vals.drop_back(self.fronts)
        self.front_aggs.drop_back(self.fronts)

    def aggregate(self) -> State:
        return self.combine(self.sum_front(), self.sum_back())

    def sum_front(self) -> State:
        return self.front_aggs[self.fronts - 1] if self.fronts else self.identity

    def sum_back(self) -> State:
        return self.back_aggs[self.backs - 1] if self.backs else self.identity

    def flip(self) -> None:
        while self.backs:
            self.backs -= 1
            v = self.back_vals[self.backs]
            self.front_aggs[self.fronts] = self.combine(v, self.sum_front())
            self.front_vals[self.fronts] = v
            self.fronts += 1
            self.back_vals.drop_back(self.backs)
            self.back_aggs.drop_back(self.backs)

    def elements(self) -> Iterator[State]:
        yield from (self.front_vals[i] for i in range(self.fronts - 1, -1, -1))
        yield from (self.back_vals[i] for i in range(self.backs))

    def check_invariants(self) -> None:
        assert min(self.fronts, self.backs) >= 0, f"TwoStacks: fronts, backs = {self.fronts}, {self.backs}"
        for i in range(self.fronts):
            defined = fold(self.monoid, (self.front_vals[j] for j in range(i, -1, -1)))
            expect(self, f"front_aggs[{i}]", self.front_aggs[i], defined)
        for i in range(self.backs):
            defined = fold(self.monoid, (self.back_vals[j] for j in range(i + 1)))
            expect(self, f"back_aggs[{i}]", self.back_aggs[i], defined)
