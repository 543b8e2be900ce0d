"""AMTA, the Amortized Monoid Tree Aggregator: constant time on average, any number of evictions at once.

Villalba, Berral, Carrera: Constant-Time Sliding Window Framework with Reduced Memory Footprint and Efficient Bulk
Evictions, IEEE TPDS 30 (2019), section 4.2.

Needs nothing but associativity. On average at most 2 ⊕ per insert, 1 per evict and 2 per query; the three together, on
a window of fixed size, take 4. At worst, with k = ⌊log2 n⌋, it is ⌊log2 (n + 1)⌋ per insert, k - 2 per evict and
3k - 2 per query; 2k to evict any number at once, and 3k with the query after it. Space 2n; with a store, memory holds
only a few pages per level (`stored_levels.py`), the stack of at most k + 1 aggregates, and the two results.

Elements are the leaves of a forest, in pairs. A pair gets a parent when the next pair is begun, so the last pair
of each level, of one or two blocks, is the root of a separate tree. [1, 2, 1, 2, 1, 2]:

    level 1   3─────── 3                    R0 = 6    the leftmost tree, [F, M)
              │        │                    R1 = 3    the other trees, [M, E)
    level 0   1 ─ 2    1 ─ 2    1 ─ 2       stack     5   without the first element:     [F + 1, M)
              F                 M       E             3   without the first of level 1:  [F + 2, M)

Blocks are aligned to positions, which are never reused, so F and E determine which blocks exist: block j of level
l, which begins at j·2^l, is complete if (j + 2)·2^l ≤ E + 1, and alive if j·2^l ≥ F. Hence a tree of blocks of
level l has 2^l - 1 elements to its right: heights follow the present window, and nothing needs to be trimmed.

An insert combines into R1. An evict pops the stack into R0 and, if a block begins there, pushes the right halves within
it: each element gets one entry in total. Up to about log n elements are evicted one by one. For more, or when the
leftmost tree is empty, `climb` rebuilds R0 and the stack from the first blocks of the levels, and `settle` also R1 from
the last ones. `settle` waits for a query, so that inserts and evictions in between pay for it once, or not at all.

Why this is constant on average: R1 takes one ⊕ per insert, and there are fewer blocks above level 0 than inserts, each
computed once; an element's stack entry takes one, for its evict; and `settle` on a tree of 2^l or 2^(l + 1) elements
takes 3l - 2 or 3l, which is at most one for each of them, and is not due again before they have left.

Invariants: every block that is complete and alive is ⊕ over its elements; unless stale, F < M ≤ E, R0 and R1 are
⊕ over [F, M) and [M, E), and the stack, from its top down, holds ⊕ over [x, M) for x - F = 1 and then for each x
at which a right half of a block around F begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sash.aggregators.base import State, expect
from sash.aggregators.bulk_evict import BulkEvict, PolicyProbe
from sash.aggregators.storage import Levels, Queue

LEVELS = 62
"""An upper bound for the number of levels: compiled, positions are 64-bit integers."""


class AMTA(BulkEvict):
    """Constant time on average, and bulk eviction of any number of elements in logarithmic time.

    >>> from sash.monoids import Max
    >>> window = AMTA(Max())
    >>> for x in (5, 3, 4, 1, 2): window.insert(x)
    >>> window.evict_many(2); window.query()
    4
    >>> window.enforce(lambda total, prefix: prefix >= total), window.query()
    (3, None)
    """

    by_position: ClassVar[tuple[str, ...]] = ("levels", "F", "M", "E")

    levels: Levels
    stack: Queue
    depth: int
    F: int
    M: int
    E: int
    top: int
    R0: State
    R1: State
    settled: bool

    @classmethod
    def slots(cls, field: str, largest: int) -> int:
        if field == "stack":  # an entry for each level at most
            return 1 << (largest.bit_length() + 1).bit_length()
        return super().slots(field, largest)

    def push(self, v: State) -> None:
        self.levels[0, self.E] = v
        after = self.E + 2
        level = 1
        while after & ((1 << level) - 1) == 0 and after - (2 << level) >= self.F:
            k = (after >> level) - 2
            self.levels[level, k] = self.combine(self.levels[level - 1, 2 * k], self.levels[level - 1, 2 * k + 1])
            level += 1
        if self.settled:
            self.R1 = v if self.M == self.E else self.combine(self.R1, v)
        self.E += 1

    def pop(self) -> None:
        for level in range(LEVELS):  # a counted loop: compiled it does nothing, and LLVM removes it
            if self.F & ((1 << level) - 1) != 0 or (2 << level) > self.size() + 1:
                break
            self.levels.drop_before(level, (self.F >> level) + 1)
        self.F += 1
        if not self.settled:
            return
        if self.F == self.M:
            self.unsettle()
            return
        self.depth -= 1
        self.R0 = self.stack[self.depth]
        self.stack.drop_back(self.depth)
        level = 0
        while self.F >> level & 1 == 0:
            level += 1
        self.descend(level)

    def drop(self, n: int) -> None:
        start = self.F + n
        if self.settled and n <= self.top and start < self.M:
            for _ in range(n):
                self.pop()
            return
        for level in range(LEVELS):
            if (1 << level) > self.size():
                break
            self.levels.drop_before(level, (start + (1 << level) - 1) >> level)
        self.F = start
        if self.settled and self.F < self.M:
            self.climb()
        else:
            self.unsettle()

    def aggregate(self) -> State:
        if self.F == self.E:
            return self.identity
        if not self.settled:
            self.settle()
        return self.R0 if self.M == self.E else self.combine(self.R0, self.R1)

    def unsettle(self) -> None:
        """Clear results and stack: they are stale, and refer to elements that leave."""
        self.settled = False
        self.stack.drop_all()
        self.depth = 0
        self.R0 = self.identity
        self.R1 = self.identity

    def settle(self) -> None:
        """Find the leftmost tree, and compute R0 and the stack for it, and R1 for the other trees."""
        level = 0
        while (((self.E + 1) >> (level + 1)) - 1) << (level + 1) > self.F:
            level += 1
        self.top = level
        self.M = (((self.E + 1) >> level) - 1) << level
        self.climb()
        x = self.M
        while level > 0:
            level -= 1
            while x >> level < ((self.E + 1) >> level) - 1:
                block = self.levels[level, x >> level]
                self.R1 = block if x == self.M else self.combine(self.R1, block)
                x += 1 << level
        self.settled = True

    def climb(self) -> None:
        """Rebuild R0 and the stack: from the root of the leftmost tree to the block that begins at F, and within it."""
        self.stack.drop_all()
        self.depth = 0
        level = self.top
        self.stack_right_of(level)
        while self.F & ((1 << level) - 1) != 0:
            level -= 1
            self.stack_right_of(level)
        block = self.levels[level, self.F >> level]
        self.R0 = block if self.depth == 0 else self.combine(block, self.stack[self.depth - 1])
        self.descend(level)

    def descend(self, level: int) -> None:
        """Stack the right halves within the block of that level that begins at F, the largest first."""
        while level > 0:
            level -= 1
            self.stack_right_of(level)

    def stack_right_of(self, level: int) -> None:
        """Stack the right sibling of the block of this level around F, if it is a left one whose sibling is there."""
        j = self.F >> level
        if j & 1 == 0 and (j + 2) << level <= self.M:
            block = self.levels[level, j + 1]
            self.stack[self.depth] = block if self.depth == 0 else self.combine(block, self.stack[self.depth - 1])
            self.depth += 1

    def longest(self, policy: PolicyProbe, total: State) -> int:
        """Find the longest prefix that the policy evicts: ascend from the front, then descend.

        Evicting k elements calls the policy O(log k) times.
        """
        x, level, prefix = self.F, 0, self.identity
        while x < self.E:
            while ((x >> level) + 2) << level > self.E + 1:
                level -= 1
            longer = self.extended(prefix, x, level)
            if not policy.evicts(total, longer):
                break
            x, prefix = x + (1 << level), longer
            level += x >> level & 1 == 0
        while level > 0 and x < self.E:
            level -= 1
            longer = self.extended(prefix, x, level)
            if policy.evicts(total, longer):
                x, prefix = x + (1 << level), longer
        return x - self.F

    def extended(self, prefix: State, x: int, level: int) -> State:
        """⊕ of the prefix up to x and the block of this level that begins there."""
        block = self.levels[level, x >> level]
        return block if x == self.F else self.combine(prefix, block)

    def restore(self, page_start: Callable[[int], int]) -> None:
        level = 1
        while (last := ((self.E + 1) >> level) - 2) << level >= self.F and last >= 0:
            for j in range(max(-(-self.F >> level), page_start(last)), last + 1):
                self.levels[level, j] = self.combine(self.levels[level - 1, 2 * j], self.levels[level - 1, 2 * j + 1])
            level += 1

    def check_invariants(self) -> None:
        F, M, E = self.F, self.M, self.E
        assert 0 <= F <= E, f"AMTA: F, E = {F}, {E} are not in order"
        level = 1
        while (1 << level) <= E - F:
            for j in range(-(-F >> level), ((E + 1) >> level) - 1):
                expect(self, f"levels[{level}, {j}]", self.levels[level, j], self.sum_of(j << level, (j + 1) << level))
            level += 1
        if not self.settled:
            assert self.depth == 0, f"AMTA: the stack has {self.depth} entries, though it is stale"
            return
        assert F < M <= E, f"AMTA: F, M, E = {F}, {M}, {E} are not in order"
        assert M % (1 << self.top) == 0, f"AMTA: the leftmost tree, up to {M}, has no root on level {self.top}"
        pair, right = 2 << self.top, (1 << self.top) - 1
        assert pair >= M - F, f"AMTA: [{F}, {M}) is more than a pair of level {self.top}"
        assert right <= E - M, f"AMTA: the forest right of {M} is too small for one of level {self.top} to its left"
        expect(self, "R0", self.R0, self.sum_of(F, M))
        expect(self, "R1", self.R1, self.sum_of(M, E))
        starts, x = [], F + 1
        while x < M:
            starts.append(x)
            x += x & -x
        assert self.depth == len(starts), f"AMTA: the stack has {self.depth} entries, not {len(starts)}"
        for i, x in enumerate(reversed(starts)):
            expect(self, f"stack[{i}]", self.stack[i], self.sum_of(x, M))
