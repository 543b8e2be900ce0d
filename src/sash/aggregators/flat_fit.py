"""FlatFIT, the flat and fast index traverser: partial aggregates with pointers to where they end.

Shein, Chrysanthis, Labrinidis: FlatFIT: Accelerated Incremental Sliding-Window Aggregation For Real-Time
Analytics, SSDBM 2017; described in their SlickDeque, EDBT 2018, sections 2.2 and 4.

Needs nothing but associativity. No ⊕ per insert or evict; a query after each slide of a window of n takes 3 on
average: most take 2, and once in n + 1 slides one takes n - 1 and updates all. Space 2n, and a stack that is
empty between queries.

    partials    abcdef bcdef cdef def ef f ghi hi i j
    pointers    6      6     6    6   6  6 9   9  9 10          F = 0, E = 10
                0 ────────────────────────▶6 ────────▶9 ─▶10    a query from 0 visits 0, 6, 9

A query follows the pointers from its start, pushes the positions it visits on a stack, and folds them from
the end back; each visited position then has the aggregate from itself up to the end, and points there. A
query for the youngest n starts at E - n; queries for all ranges 1 to n, the longest first, take one ⊕ each.

Invariants: partials[i] is ⊕ over the elements [i, pointers[i]) and i < pointers[i] ≤ E, for F ≤ i < E; so a
partial never contains an evicted element.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State
from sash.aggregators.in_order import RegisteredRanges
from sash.aggregators.storage import Ints, Queue


class FlatFIT(RegisteredRanges):
    """Partial aggregates that skip ahead.

    >>> from sash.monoids import Max
    >>> window = FlatFIT(Max(), ranges=(1, 2))
    >>> for x in (3, 1, 2, 0): window.insert(x)
    >>> window.query(), window.query_ranges()
    (3, (0, 2))
    >>> window.evict(); window.query()
    2
    """

    keeps_elements: ClassVar[bool] = False

    by_position: ClassVar[tuple[str, ...]] = ("partials", "pointers", "F", "E")

    partials: Queue
    pointers: Ints
    stack: Ints
    F: int
    E: int

    def push(self, v: State) -> None:
        self.partials[self.E] = v
        self.E += 1
        self.pointers[self.E - 1] = self.E

    def pop(self) -> None:
        self.partials.drop_front(self.F)
        self.pointers.drop_front(self.F)
        self.F += 1

    def aggregate(self) -> State:
        return self.identity if self.F == self.E else self.traverse(self.F)

    def last(self, n: int) -> State:
        return self.traverse(max(self.F, self.E - n))

    def traverse(self, start: int) -> State:
        """⊕ over the elements [start, E); the visited positions then point to E."""
        visited = 0
        i = start
        while self.pointers[i] < self.E:
            self.stack[visited] = i
            visited += 1
            i = self.pointers[i]
        total = self.partials[i]
        while visited > 0:
            visited -= 1
            i = self.stack[visited]
            self.stack.drop_back(visited)
            total = self.combine(self.partials[i], total)
            self.partials[i] = total
            self.pointers[i] = self.E
        return total

    def check_invariants(self) -> None:
        super().check_invariants()
        for i in range(self.F, self.E):
            end = self.pointers[i]
            assert i < end <= self.E, f"FlatFIT: pointers[{i}] = {end} does not lie in ({i}, {self.E}]"
