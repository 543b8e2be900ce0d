"""The base class of structures with aggregates of dyadic blocks: they answer queries of any range of the window.

    level 2               [ 4 5 6 7 ]
    level 1       [ 2 3 ] [ 4 5 ] [ 6 7 ] [ 8 9 ]
    level 0   [1] [2] [3] [4] [5] [6] [7] [8] [9] [10]       positions; the window is [1, 11)

    query: [1] ⊕ [2 3] ⊕ [4 5 6 7] ⊕ [8 9] ⊕ [10]            blocks grow towards the middle, and shrink again

Block b of level l is the positions from b·2^l up to (b + 1)·2^l. A range of n elements takes at most
2 log2(n + 2) - 2 of them, one ⊕ less. A structure defines

    block(l, b)     ⊕ over a block that lies in the window
    find(i)         the position of the i-th oldest element, counted from 0

and inherits `last(n)`, `query_last(n)` and `query_range(start, stop)`, for any ⊕, because blocks are taken in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.aggregators.in_order import State
from sash.aggregators.suffix_query import SuffixQuery, checked_integer


class RangeQuery(SuffixQuery):
    """A window that answers queries of any range of its elements."""

    block: Callable[[int, int], State]
    find: Callable[[int], int]

    def propagate(self) -> None:
        """Update all blocks, if inserts and evicts do not."""

    def last(self, n: int) -> State:
        return self.aggregate() if n >= self.size() else self.between(self.size() - n, self.size())

    def between(self, start: int, stop: int) -> State:
        """⊕ over the elements [start, stop), at least one, counted from the oldest: of the largest possible blocks."""
        self.propagate()
        first = self.find(start)
        last = self.find(stop - 1) + 1
        head = self.identity
        tail = self.identity
        level = 0
        heads = False
        tails = False
        while first < last:
            if first & 1:
                found = self.block(level, first)
                head = self.combine(head, found) if heads else found
                heads = True
                first += 1
            if last & 1:
                last -= 1
                found = self.block(level, last)
                tail = self.combine(found, tail) if tails else found
                tails = True
            first >>= 1
            last >>= 1
            level += 1
        if not tails:
            return head
        return self.combine(head, tail) if heads else tail

    def query_range(self, start: int, stop: int) -> Any:
        """The result for the elements [start, stop), counted from the oldest. Raises ValueError if they do not exist.

        `query_range(0, len(window))` is `query()`, and `query_range(len(window) - n, len(window))` is `query_last(n)`.
        """
        start = checked_integer("the start of query_range", start)
        stop = checked_integer("the stop of query_range", stop)
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"query_range({start}, {stop}): the window has {len(self)} elements")
        return self.monoid.lower(self.between(start, stop)) if start < stop else self.monoid.nothing()
