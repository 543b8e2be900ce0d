"""BInt, base intervals: the aggregates of all complete dyadic intervals of the window.

Arasu, Widom: Resource Sharing in Continuous Sliding-Window Aggregates, VLDB 2004; as described in Shein,
Chrysanthis, Labrinidis: SlickDeque, EDBT 2018, section 2.2.

Needs nothing but associativity. An insert completes the intervals that end with it, one ⊕ each: log2 n at worst,
less than one on average. An evict takes none. A query of the window or any range of it combines the fewest intervals
that cover it: at most 2 log2(n + 2) - 3 ⊕. Space 2n, and a partial chunk per level.

    level 3   ·······················
    level 2   ···········  [ 4 … 7 ]
    level 1   ·····  ·····  [4 5] [6 7]  [8 9]        F = 3, E = 11: intervals before F are dropped,
    level 0   ·  ·   ·  3    4 5   6 7    8 9  10     and [10 11] and [8 … 11] are not complete yet

    query: 3 ⊕ [4 … 7] ⊕ [8 9] ⊕ 10

Intervals are aligned to absolute positions, which keep growing where a circular buffer starts again, so no range wraps.

Invariant: intervals[l, b] is ⊕ over the positions from b·2^l up to (b + 1)·2^l, for each such range in [F, E).
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect
from sash.aggregators.in_order import RangeQuery
from sash.aggregators.storage import Levels


class BInt(RangeQuery):
    """Dyadic intervals, which combine to any range of the window.

    >>> from sash.monoids import Max
    >>> window = BInt(Max())
    >>> for x in (3, 1, 2, 0): window.insert(x)
    >>> window.evict(); window.query(), window.query_last(1), window.query_range(0, 1)
    (2, 0, 1)
    """

    by_position: ClassVar[tuple[str, ...]] = ("intervals", "F", "E")

    intervals: Levels
    F: int
    E: int

    def push(self, v: State) -> None:
        level = 0
        interval = self.E
        self.E += 1
        self.intervals[0, interval] = v
        while interval & 1 and (interval - 1) << level >= self.F:
            v = self.combine(self.intervals[level, interval - 1], v)
            interval >>= 1
            level += 1
            self.intervals[level, interval] = v

    def pop(self) -> None:
        level = 0
        interval = self.F
        self.F += 1
        self.intervals.drop_before(0, self.F)
        while not interval & 1 and (interval + 2) << level <= self.E:
            interval >>= 1
            level += 1
            self.intervals.drop_before(level, interval + 1)

    def aggregate(self) -> State:
        return self.identity if self.F == self.E else self.between(0, self.size())

    def block(self, level: int, block: int) -> State:
        return self.intervals[level, block]

    def find(self, i: int) -> int:
        return self.F + i

    def element(self, i: int) -> State:
        return self.intervals[0, i]

    def check_invariants(self) -> None:
        super().check_invariants()
        for level in range(1, self.size().bit_length()):
            for b in range(-(-self.F >> level), self.E >> level):
                halves = self.intervals[level - 1, 2 * b], self.intervals[level - 1, 2 * b + 1]
                expect(self, f"intervals[{level}, {b}]", self.intervals[level, b], self.monoid.combine(*halves))
