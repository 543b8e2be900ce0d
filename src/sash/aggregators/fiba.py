"""FiBA, the finger B-tree aggregator: out-of-order events at a cost that depends on their distance.

Tangwongsan, Hirzel, Schneider: Optimal and General Out-of-Order Sliding-Window Aggregation, PVLDB 12 (2019),
sections 3.2 to 4; bulk operations after their later work (`btree.py`).

Needs nothing but associativity, and times with an order. An insert or evict at distance d from the nearer end of the
window takes O(log d) on average, constant time for d = 0, and O(log n) at worst; a query at most 2 ⊕; a query of a
range O(log) of its size and of the distances of its ends; evicting the m oldest at once O(log m). Space O(n).

A B-tree (`btree.py`) with fingers, the numbers of its first and last leaf. The aggregate of a
node depends on its place, so that a change near an end of the window reaches no higher than necessary:

                       [  root  ]                   inner    without its first and last subtree
                     /   │    │   \\
             [ left ]  [up]  [up]  [ right ]        left     all below the root's first child, except all below
             /  │  \\              /  │   \\                   the node's own first child; right is its mirror image
      [left]  [up] [up]        [up] [up]  [right]   up       the subtree
        ▲ left finger              right finger ▲            query = left finger ⊕ root ⊕ right finger

Left and right aggregates include that of the parent, unless it is the root: they are repaired downwards, up and inner
ones upwards. A change below an up node goes up to the first node on a spine, or the root, and from there, if it is on a
spine, down to the finger. So that each step down takes one ⊕, a node on a spine also stores its own share of the
aggregate, that of its subtree without the next spine node; this goes beyond the paper. The search starts at a finger as
well: up the spine, then down.

Splits, merges and moves take amortized constant time: two coins for each insert and evict always pay for them, because
a node of MAX_ARITY = 2·MIN_ARITY children is split into two that are far from the next split or merge.

Invariants: sizes, order, depth, parents, fingers and flags of the B-tree; every stored aggregate by its definition;
each node either in the tree or, once, on the free chain.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State, expect, fold
from sash.aggregators.btree import (
    ARITY,
    CHILD,
    FLAGS,
    INNER,
    LEFT,
    PARENT,
    RIGHT,
    ROOT,
    SPINE,
    AugmentedBTree,
    BTree,
)
from sash.aggregators.storage import Aggs
from sash.aggregators.time_ordered import Place, Time
from sash.monoids.algebra import noinline


class FiBA(BTree):
    """A time-ordered window for events that arrive out of order.

    >>> from sash.monoids import Concat
    >>> window = FiBA(Concat())
    >>> for time, letter in [(1, "w"), (4, "d"), (2, "i"), (3, "n"), (5, "o")]: window.insert(time, letter)
    >>> window.query(), window.query(2, 4), window.oldest, window.youngest
    ('windo', 'ind', 1, 5)
    >>> window.evict(); window.evict(4); window.query()
    'ino'
    >>> window.evict_through(2); window.query(), [time for time, _ in window]
    ('no', [3, 5])
    """

    own: Aggs

    def find(self, t: Time) -> Place:
        last = self.links[self.right, ARITY] - 1
        if last > 0 and self.times[self.right, last - 1] < t:
            return self.right, last, False
        return self.find_below(self.search_start(t), t)

    def search_start(self, t: Time) -> int:
        """The first node whose subtree covers t, from the nearer finger up its spine; else the root."""
        n = self.links[self.root, ARITY] - 1
        if n == 0:
            return self.root
        if self.times[self.root, n - 1] < t:
            node = self.right
            while not self.links[node, FLAGS] & ROOT:
                parent = self.links[node, PARENT]
                if self.times[parent, self.links[parent, ARITY] - 2] < t:
                    return node
                node = parent
        elif t < self.times[self.root, 0]:
            node = self.left
            while not self.links[node, FLAGS] & ROOT:
                parent = self.links[node, PARENT]
                if t < self.times[parent, 0]:
                    return node
                node = parent
        return self.root

    def aggregate(self) -> State:
        middle = self.aggs[self.root]
        if self.links[self.root, FLAGS] & INNER == 0:
            return middle
        return self.combine(self.combine(self.aggs[self.left], middle), self.aggs[self.right])

    def added(self, node: int, i: int, v: State) -> None:
        """Repair with two ⊕ if the new entry is the first or last in its finger's aggregate."""
        flags = self.links[node, FLAGS]
        if flags & RIGHT and i == self.links[node, ARITY] - 2:
            self.own[node] = self.combine(self.own[node], v)
            self.aggs[node] = self.combine(self.aggs[node], v)
        elif flags & LEFT and i == 0:
            self.own[node] = self.combine(v, self.own[node])
            self.aggs[node] = self.combine(v, self.aggs[node])
        else:
            self.repair(node, 0)

    def covers_subtree(self, node: int) -> bool:
        return not self.links[node, FLAGS] & SPINE

    @noinline
    def settle(self, node: int) -> None:
        self.fold(node)

    @noinline
    def repair(self, node: int, hits: int) -> None:
        flags = 0
        while True:
            self.fold(node)
            flags = self.links[node, FLAGS]
            if flags & SPINE:
                break
            node = self.links[node, PARENT]
        if flags & ROOT:
            flags = flags & INNER | hits & (LEFT | RIGHT)
        else:
            self.chain(node)
        if flags & INNER == 0:
            return
        if flags & LEFT:
            child = node
            while self.links[child, FLAGS] & INNER:
                child = self.links[child, CHILD]
                self.chain(child)
        if flags & RIGHT:
            while self.links[node, FLAGS] & INNER:
                node = self.links[node, CHILD + self.links[node, ARITY] - 1]
                self.chain(node)

    def chain(self, node: int) -> None:
        """Compute the aggregate of a node on a spine: its own share ⊕ its parent's, unless that is the root."""
        parent = self.links[node, PARENT]
        if self.links[parent, FLAGS] & ROOT:
            self.aggs[node] = self.own[node]
        elif self.links[node, FLAGS] & LEFT:
            self.aggs[node] = self.combine(self.own[node], self.aggs[parent])
        else:
            self.aggs[node] = self.combine(self.aggs[parent], self.own[node])

    def fold(self, node: int) -> None:
        """Compute ⊕ over the entries of a node's subtree that it covers: its aggregate, or on a spine its own share."""
        flags, last = self.links[node, FLAGS], self.links[node, ARITY] - 1
        if last == 0:
            self.aggs[node] = self.identity
            return
        total = self.vals[node, 0]
        if flags & INNER:
            for i in range(1, last):
                total = self.combine(total, self.combine(self.aggs[self.links[node, CHILD + i]], self.vals[node, i]))
            if not flags & (LEFT | ROOT):
                total = self.combine(self.aggs[self.links[node, CHILD]], total)
            if not flags & (RIGHT | ROOT):
                total = self.combine(total, self.aggs[self.links[node, CHILD + last]])
        else:
            for i in range(1, last):
                total = self.combine(total, self.vals[node, i])
        if flags & (LEFT | RIGHT):
            self.own[node] = total
        else:
            self.aggs[node] = total
            self.own.close(node)

    def settle_left(self, node: int) -> None:
        while True:
            self.settle(node)
            if not self.links[node, FLAGS] & INNER:
                return
            node = self.links[node, CHILD]

    def release(self, node: int) -> None:
        self.own.close(node)

    def check_invariants(self) -> None:
        super().check_invariants()
        for node in self.nodes_below(self.root):
            if self.links[node, FLAGS] & (LEFT | RIGHT):
                expect(self, f"the own share of node {node}", self.own[node], fold(self.monoid, iter(self.share(node))))

    def defined(self, node: int) -> list[State]:
        """The entries that the aggregate of a node is ⊕ over, by definition."""
        flags, parent = self.links[node, FLAGS], self.links[node, PARENT]
        if flags & (LEFT | RIGHT) and not self.links[parent, FLAGS] & ROOT:
            own, above = self.share(node), self.defined(parent)
            return [*own, *above] if flags & LEFT else [*above, *own]
        return self.share(node)

    def share(self, node: int) -> list[State]:
        """The entries of a node's subtree that it covers, by definition."""
        flags, last = self.links[node, FLAGS], self.links[node, ARITY] - 1
        without = []
        if flags & INNER and flags & (LEFT | ROOT):
            without.append(self.links[node, CHILD])
        if flags & INNER and flags & (RIGHT | ROOT):
            without.append(self.links[node, CHILD + last])
        return [v for _, v in self.elements_below(node, tuple(without))]


# --- By position ---


class ByPosition(BTree):
    """A B-tree whose times are positions, with the methods of an in-order structure.

    time     3  4  5  6  7  8         F = 3: the oldest; E = 9: the next
    push     ──────────────── 9       at the right finger
    drop(2)  ·  ·                     one cut through F + 1: O(log n)
    """

    constants: ClassVar[tuple[str, ...]] = (*BTree.constants, "bulk")
    bulk: ClassVar[int] = 1
    """As for in-order structures: bulk eviction takes O(log n)."""

    F: int
    E: int

    def size(self) -> int:
        return self.E - self.F

    @noinline
    def push(self, v: State) -> None:
        """Add an element at the young end. Compiled, a struct begins as zeros, without a root."""
        if self.fresh == 0:
            self.begin()
        self.add(self.E, v)
        self.tidy()
        self.E += 1

    def pop(self) -> None:
        """Remove the oldest element."""
        self.take_out(self.left, 0)
        self.tidy()
        self.F += 1

    @noinline
    def drop(self, n: int) -> None:
        """Remove the n oldest elements at once."""
        self.cut(self.F + n - 1)
        self.tidy()
        self.F += n


class FiBAByPosition(ByPosition, FiBA):
    """FiBA over positions.

    >>> from sash.monoids import Collect
    >>> tree = FiBAByPosition(Collect())
    >>> for letter in "window": tree.push((letter,))
    >>> tree.drop(3); tree.pop(); tree.aggregate(), len(tree)
    (('o', 'w'), 2)
    """


class AugmentedBTreeByPosition(ByPosition, AugmentedBTree):
    """AugmentedBTree over positions."""
