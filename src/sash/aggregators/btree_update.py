"""Insert and evict single entries in the B-tree of `AugmentedBTree` and `FiBA`.

    insert    search, put the entry into a leaf; split overflowing nodes upwards
    evict     search, remove the entry from a leaf, or from an inner node, which gets a substitute from a leaf; upwards,
              merge underflowing nodes with a sibling, or move an entry over
    repair    of aggregates: the structure defines where and in which direction

         split                       merge                      move_back               move_on
      ·  p  ·      ·  p  d  ·       ·  p  ·      ·             ·  p  ·    ·  c  ·      ·  p  ·    ·  b  ·
       │       →    │  │             │  │    →   │              │  │   →   │  │         │  │   →   │  │
    abc d ef      abc  ef           a  bc      a p bc           a  cd     ap  d        ab  d      a  pd

`hits` collects the flags of the nodes that splits, merges and moves touched, for the repair: in `FiBA` a node on a
spine does not store the aggregate of its subtree. The paper's pseudocode (figures 7 and 8) is corrected in three
places: a sibling on the left spine counts as a hit, too (line 61); the node of a substitute is found by counting
levels, not by the ancestors of a node that may be freed (line 85); and all nodes on the way there are repaired
(line 90).
"""

from __future__ import annotations

from sash.aggregators.base import State
from sash.aggregators.btree_nodes import ARITY, CHILD, FLAGS, INNER, LEFT, NONE, PARENT, RIGHT, ROOT, BTreeNodes
from sash.aggregators.time_ordered import Time
from sash.monoids.algebra import noinline


class BTree(BTreeNodes):
    """A B-tree that inserts and evicts single entries."""

    # ---- insert ----

    def add(self, t: Time, v: State) -> None:
        """Insert a lifted value."""
        node, i, found = self.find(t)
        self.put(node, i, found, t, v)

    def put(self, node: int, i: int, found: bool, t: Time, v: State) -> None:
        if found:
            self.vals[node, i] = self.combine(self.vals[node, i], v)
            self.repair(node, 0)
            return
        self.held += 1
        self.open_entry(node, i, t, v)
        if self.links[node, ARITY] > 2 * self.min_arity:
            self.split_upwards(node)
        else:
            self.added(node, i, v)

    def added(self, node: int, _i: int, _v: State) -> None:
        """Repair after an insert into a leaf that did not overflow."""
        self.repair(node, 0)

    @noinline
    def split_upwards(self, node: int) -> None:
        """Split overflowing nodes from a node upwards, and repair."""
        hits = self.links[node, FLAGS]
        while self.links[node, ARITY] > 2 * self.min_arity:
            if self.links[node, FLAGS] & ROOT:
                self.grow()
                hits |= LEFT | RIGHT
            self.split(node)
            node = self.links[node, PARENT]
            hits |= self.links[node, FLAGS]
        self.repair(node, hits)

    def grow(self) -> None:
        """Add a root above the old one, which is about to be split."""
        old, root = self.root, self.take()
        self.links[root, PARENT] = NONE
        self.links[root, ARITY] = 1
        self.links[root, FLAGS] = ROOT | INNER
        self.links[old, FLAGS] = LEFT | RIGHT | self.links[old, FLAGS] & INNER
        self.adopt(root, 0, old)
        self.root = root

    @noinline
    def split(self, node: int) -> None:
        """Split a node: the young half becomes its right sibling, the entry between them moves up."""
        half = self.min_arity
        parent, flags = self.links[node, PARENT], self.links[node, FLAGS]
        young = self.take()
        self.links[node, FLAGS] = flags & (LEFT | INNER)
        self.links[young, FLAGS] = flags & (RIGHT | INNER)
        self.links[young, ARITY] = half
        for i in range(half - 1):
            self.copy_entry(young, i, node, half + 1 + i)
            self.forget(node, half + 1 + i)
        if flags & INNER:
            for i in range(half):
                self.adopt(young, i, self.links[node, CHILD + half + 1 + i])
        self.links[node, ARITY] = half + 1
        i = self.index_of(parent, node)
        self.open_entry(parent, i, self.times[node, half], self.vals[node, half])
        self.forget(node, half)
        self.open_child(parent, i + 1, young)
        if self.right == node:
            self.right = young
        self.settle(node)
        self.settle(young)

    # ---- evict ----

    def pop(self) -> None:
        """Remove the oldest entry."""
        self.take_out(self.left, 0)

    def remove(self, t: Time) -> None:
        """Remove the entry of a time, if there is one."""
        node, i, found = self.find(t)
        if found:
            self.take_out(node, i)

    @noinline
    def take_out(self, node: int, i: int) -> None:
        self.held -= 1
        above = 0
        if self.links[node, FLAGS] & INNER:
            inner, place = node, i
            if self.links[self.links[node, CHILD + i + 1], ARITY] > self.min_arity:
                node, i, above = self.descend(self.links[node, CHILD + i + 1], 0)
            else:
                node, i, above = self.descend(self.links[node, CHILD + i], 1)
            self.copy_entry(inner, place, node, i)
        self.close_entry(node, i)
        if above == 0 and self.links[node, ARITY] >= self.min_arity:
            self.repair(node, 0)
        else:
            self.refill(node, above, 0)

    def descend(self, node: int, end: int) -> tuple[int, int, int]:
        """The oldest (end 0) or youngest (1) entry below a node: its leaf, its place, and the levels to the parent."""
        above = 1
        while self.links[node, FLAGS] & INNER:
            node = self.links[node, CHILD + end * (self.links[node, ARITY] - 1)]
            above += 1
        return node, end * (self.links[node, ARITY] - 2), above

    @noinline
    def refill(self, node: int, above: int, hits: int) -> None:
        """Merge or refill underflowing nodes from a node upwards, and repair.

        `above`: the number of levels up to a changed entry, which the repair must reach.
        """
        hits |= self.links[node, FLAGS]
        while not self.links[node, FLAGS] & ROOT and self.links[node, ARITY] < self.min_arity:
            parent = self.links[node, PARENT]
            i = self.index_of(parent, node)
            older = i - 1 if i > 0 else 0
            a, b = self.links[parent, CHILD + older], self.links[parent, CHILD + older + 1]
            hits |= self.links[a, FLAGS] | self.links[b, FLAGS]
            if self.links[b if a == node else a, ARITY] <= self.min_arity:
                self.merge(parent, older)
            elif a == node:
                self.move_back(parent, older)
            else:
                self.move_on(parent, older)
            node = parent
            if self.links[parent, ARITY] == 1 and self.links[parent, FLAGS] & ROOT:
                self.shrink(a)
                node = a
            above -= 1
            hits |= self.links[node, FLAGS]
        while above > 0:
            self.settle(node)
            node = self.links[node, PARENT]
            hits |= self.links[node, FLAGS]
            above -= 1
        self.repair(node, hits)

    @noinline
    def merge(self, parent: int, i: int) -> None:
        """Merge child i with the entry to its right and the next child."""
        a, b = self.links[parent, CHILD + i], self.links[parent, CHILD + i + 1]
        n, m = self.links[a, ARITY], self.links[b, ARITY]
        self.copy_entry(a, n - 1, parent, i)
        for k in range(m - 1):
            self.copy_entry(a, n + k, b, k)
        if self.links[b, FLAGS] & INNER:
            for k in range(m):
                self.adopt(a, n + k, self.links[b, CHILD + k])
        self.links[a, ARITY] = n + m
        self.links[a, FLAGS] |= self.links[b, FLAGS] & RIGHT
        self.close_child(parent, i + 1)
        self.close_entry(parent, i)
        if self.right == b:
            self.right = a
        self.free_emptied(b)
        self.settle(a)

    @noinline
    def move_back(self, parent: int, i: int) -> None:
        """Move the entry to the right of child i into it, and replace it by the oldest of the next child."""
        a, b = self.links[parent, CHILD + i], self.links[parent, CHILD + i + 1]
        n = self.links[a, ARITY]
        self.copy_entry(a, n - 1, parent, i)
        self.copy_entry(parent, i, b, 0)
        self.links[a, ARITY] = n + 1
        if self.links[a, FLAGS] & INNER:
            self.adopt(a, n, self.links[b, CHILD])
            self.close_child(b, 0)
        self.close_entry(b, 0)
        self.settle(a)
        self.settle(b)

    @noinline
    def move_on(self, parent: int, i: int) -> None:
        """Move the entry to the right of child i into the next child, and replace it by the youngest of child i."""
        a, b = self.links[parent, CHILD + i], self.links[parent, CHILD + i + 1]
        n = self.links[a, ARITY]
        self.open_entry(b, 0, self.times[parent, i], self.vals[parent, i])
        self.copy_entry(parent, i, a, n - 2)
        if self.links[b, FLAGS] & INNER:
            self.open_child(b, 0, self.links[a, CHILD + n - 1])
        self.close_entry(a, n - 2)
        self.settle(a)
        self.settle(b)

    def shrink(self, node: int) -> None:
        """Replace the root by its only child."""
        self.free_emptied(self.root)
        self.links[node, PARENT] = NONE
        self.links[node, FLAGS] = ROOT | self.links[node, FLAGS] & INNER
        self.root = node
