"""AugmentedBTree: a B-tree with the aggregate of each subtree, the baseline for FiBA.

Tangwongsan, Hirzel, Schneider: Optimal and General Out-of-Order Sliding-Window Aggregation, PVLDB 12 (2019),
section 3.1.

Needs nothing but associativity, and times with an order. Each insert and evict takes O(log n): the search begins at
the root, and every aggregate from the changed node up to the root is repaired. A query takes no ⊕, a query of a
range O(log n), and evicting any number of the oldest at once O(log n). Space O(n).

                [  7:g   15:o  ]              ab…u
               /       │        \\
        [ 2 4 ]    [ 9 11 13 ]    [ 17 19 ]   ab…f    hi…n    pq…u     each the aggregate of its subtree

Invariants: those of the B-tree (`btree.py`); every aggregate is ⊕ over the entries of its subtree.
"""

from __future__ import annotations

from sash.aggregators.base import State
from sash.aggregators.btree import ARITY, CHILD, FLAGS, INNER, PARENT, ROOT, BTreeCheck, BTreeRanges
from sash.aggregators.time_ordered import Time
from sash.monoids.algebra import noinline


class AugmentedBTree(BTreeCheck, BTreeRanges):
    """A time-ordered window, logarithmic in its size.

    >>> from sash.monoids import Max
    >>> window = AugmentedBTree(Max(), min_arity=2)
    >>> for time, x in [(2.0, 4), (3.0, 3), (6.0, 1), (2.3, 5)]: window.insert(time, x)
    >>> window.query(), window.query(from_time=3.0)
    (5, 3)
    """

    def search_start(self, _t: Time) -> int:
        return self.root

    def aggregate(self) -> State:
        return self.aggs[self.root]

    def covers_subtree(self, node: int) -> bool:
        return not self.links[node, FLAGS] & ROOT

    def settle(self, node: int) -> None:
        self.fold(node)

    def settle_left(self, _node: int) -> None:
        self.repair(self.left, 0)

    @noinline
    def repair(self, node: int, _hits: int) -> None:
        self.fold(node)
        while not self.links[node, FLAGS] & ROOT:
            node = self.links[node, PARENT]
            self.fold(node)

    @noinline
    def fold(self, node: int) -> None:
        inner, last = self.links[node, FLAGS] & INNER, self.links[node, ARITY] - 1
        if last == 0:
            self.aggs[node] = self.identity
            return
        total = self.vals[node, 0]
        if inner:
            total = self.combine(self.aggs[self.links[node, CHILD]], total)
            for i in range(1, last):
                total = self.combine(total, self.combine(self.aggs[self.links[node, CHILD + i]], self.vals[node, i]))
            total = self.combine(total, self.aggs[self.links[node, CHILD + last]])
        else:
            for i in range(1, last):
                total = self.combine(total, self.vals[node, i])
        self.aggs[node] = total

    def defined(self, node: int) -> list[State]:
        """The entries that the aggregate of a node is ⊕ over, by definition."""
        return [v for _, v in self.elements_below(node)]
