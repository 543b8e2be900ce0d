"""LogMTA, the Monoid Tree Aggregator: logarithmic time; evicting many elements at once costs as much as one.

Villalba, Berral, Carrera: Constant-Time Sliding Window Framework with Reduced Memory Footprint and Efficient Bulk
Evictions, IEEE TPDS 30 (2019), section 4.1.

Needs nothing but associativity. With k = ⌊log2 n⌋ at most k ⊕ per insert, k - 1 per evict, of one element or
of many, and 1 per query; half of that on average. Space 2n; with a store, memory holds only a few pages per level
(`stored_levels.py`).

Elements are the leaves of a tree, in pairs, and a block is ⊕ over those of its elements that are in the window.
[1, 2, 1, 2, 1, 2], the first one evicted:

    level 2   5───────────────── 3          query: 5 ⊕ 3
              │                  │
    level 1   2─────── 3         3
              │        │         │
    level 0   · ─ 2    1 ─ 2     1 ─ 2
                  F                     E

Blocks are aligned to positions, which are never reused, so F and E determine which blocks exist: block j of level
l, which begins at j·2^l, exists if it ends after F and begins before E. The top is the lowest level with at most
two blocks, a pair or not: heights follow the present window.

An insert recomputes the last block of each level, an eviction the first block of each level that it cuts.

Invariants: on each level up to the top, every existing block is ⊕ over its elements in [F, E); the level below the top
has more than two blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sash.aggregators.base import State, expect
from sash.aggregators.bulk_evict import BulkEvict, PolicyProbe
from sash.aggregators.storage import Levels


class LogMTA(BulkEvict):
    """Logarithmic time, also for bulk eviction of any number of elements.

    >>> from sash.monoids import Max
    >>> window = LogMTA(Max())
    >>> for x in (5, 3, 4, 1, 2): window.insert(x)
    >>> window.evict_many(2); window.query()
    4
    >>> window.enforce(lambda total, prefix: prefix >= total), window.query()
    (3, None)
    """

    by_position: ClassVar[tuple[str, ...]] = ("levels", "F", "E")

    levels: Levels
    F: int
    E: int
    top: int

    @classmethod
    def slots(cls, field: str, largest: int) -> int:
        return 2 * super().slots(field, largest)  # a level has up to two blocks that are only partly in the window

    def push(self, v: State) -> None:
        self.levels[0, self.E] = v
        self.E += 1
        if self.blocks(self.top) > 2:
            self.top += 1
            self.join_first(self.top)
        last, block = self.E - 1, v
        for level in range(1, self.top + 1):
            if last & 1:
                block = self.combine(self.levels[level - 1, last - 1], block)
            last >>= 1
            self.levels[level, last] = block

    def pop(self) -> None:
        self.drop(1)

    def drop(self, n: int) -> None:
        self.F += n
        for level in range(self.top + 1):
            self.levels.drop_before(level, self.F >> level)
        while self.top > 0 and self.blocks(self.top - 1) <= 2:
            self.forget(self.top)
            self.top -= 1
        level = 1
        while level <= self.top and self.F & ((1 << level) - 1) == 0:
            level += 1
        if level <= self.top:
            self.join_first(level)

    def join_first(self, level: int) -> None:
        """Recompute the first block of this level and of those above it: all of them have a second one."""
        first = self.F >> (level - 1)
        block = self.levels[level - 1, first]
        while level <= self.top:
            if first & 1 == 0:
                block = self.combine(block, self.levels[level - 1, first + 1])
            first >>= 1
            self.levels[level, first] = block
            level += 1

    def aggregate(self) -> State:
        if self.F == self.E:
            return self.identity
        first, last = self.F >> self.top, (self.E - 1) >> self.top
        if first == last:
            return self.levels[self.top, first]
        return self.combine(self.levels[self.top, first], self.levels[self.top, last])

    def blocks(self, level: int) -> int:
        """Return the number of blocks of a level."""
        return ((self.E - 1) >> level) - (self.F >> level) + 1

    def forget(self, level: int) -> None:
        """Clear a level that is no longer in use, because its blocks refer to elements that leave."""
        for j in range(self.F >> level, ((self.E - 1) >> level) + 1):
            self.levels[level, j] = self.identity

    def longest(self, policy: PolicyProbe, total: State) -> int:
        """Find the longest prefix that the policy evicts: descend from the top.

        If a block is not evicted, try its left half.
        """
        x, prefix = self.F, self.identity
        for level in range(self.top, -1, -1):
            j = x >> level
            stop = (j + 1) << level
            if stop >= self.E or (level < self.top and j & 1):
                continue  # the whole window, or the only half of a block: the policy has kept it already
            block = self.levels[level, j]
            longer = block if x == self.F else self.combine(prefix, block)
            if policy.evicts(total, longer):
                x, prefix = stop, longer
        return x - self.F

    def restore(self, page_start: Callable[[int], int]) -> None:
        while self.F < self.E and self.blocks(self.top) > 2:
            self.top += 1
            first, last = self.F >> self.top, (self.E - 1) >> self.top
            start = page_start(last)
            for j in range(max(first, start), last + 1):
                self.levels[self.top, j] = self.joined(j)
            if first < start:
                self.levels[self.top, first] = self.joined(first)

    def unsettle(self) -> None:
        """Find the top."""
        while self.blocks(self.top) > 2:
            self.top += 1
        while self.top > 0 and self.blocks(self.top - 1) <= 2:
            self.top -= 1

    def joined(self, j: int) -> State:
        """Block j of the top level, combined from its existing halves."""
        left, right = 2 * j, 2 * j + 1
        if left < self.F >> (self.top - 1):
            return self.levels[self.top - 1, right]
        if right > (self.E - 1) >> (self.top - 1):
            return self.levels[self.top - 1, left]
        return self.combine(self.levels[self.top - 1, left], self.levels[self.top - 1, right])

    def check_invariants(self) -> None:
        F, E = self.F, self.E
        assert 0 <= F <= E, f"LogMTA: F, E = {F}, {E} are not in order"
        assert self.blocks(self.top) <= 2, f"LogMTA: the top, level {self.top}, has {self.blocks(self.top)} blocks"
        below = self.blocks(self.top - 1) if self.top else 3
        assert below > 2, f"LogMTA: level {self.top - 1}, below the top, has {below} blocks"
        for level in range(1, self.top + 1):
            for j in range(F >> level, ((E - 1) >> level) + 1):
                defined = self.sum_of(max(j << level, F), min((j + 1) << level, E))
                expect(self, f"levels[{level}, {j}]", self.levels[level, j], defined)
