"""Range queries, bulk eviction and bulk insertion in the B-tree of `AugmentedBTree` and `FiBA`.

    between    descend to where the search paths of the two ends diverge, then along each: whole subtrees lie between

                       ·  v  ·  v  ·  v  ·
                         /─────────────\\           the paths diverge here
                  · v ·                 · v ·
                     \\───┘           └───/          two chains of nodes

    cut        evict all up to a time: free the subtrees to the left of the search path; then downwards, on the new left
               spine, refill nodes from their right siblings so that each has an entry to spare for the level below;
               then refill from the top upwards, as after a single evict
    merge_in   insert a sorted batch: each search starts where the last one ended, and aggregates are computed at the
               end, level by level, each once

`cut` removes m entries in O(log m), as in later work of FiBA's authors (Tangwongsan, Hirzel, Schneider: Out-of-Order
Sliding-Window Aggregation with Efficient Bulk Evictions and Insertions, PVLDB 2023).
"""

from __future__ import annotations

from collections.abc import Callable

from sash.aggregators.base import State
from sash.aggregators.btree_nodes import ARITY, CHILD, FLAGS, INNER, LEFT, PARENT, RIGHT, ROOT, SPINE
from sash.aggregators.btree_update import BTree
from sash.aggregators.time_ordered import Place, Time
from sash.monoids.algebra import noinline


class BTreeRanges(BTree):
    """A B-tree with range queries, bulk eviction and bulk insertion."""

    settle_left: Callable[[int], None]
    """Compute the aggregates of the left spine, from a node downwards."""

    # ---- range queries ----

    @noinline
    def between(self, lo: Time, hi: Time, bounded: bool, limited: bool) -> tuple[bool, State]:
        """⊕ over the entries from lo (if bounded) to hi (if limited), and whether there are any."""
        node = self.root
        if bounded and self.links[node, ARITY] > 1 and self.times[node, self.links[node, ARITY] - 2] < lo:
            node = self.search_start(lo)
        elif limited and self.links[node, ARITY] > 1 and hi < self.times[node, 0]:
            node = self.search_start(hi)
        i, j = self.ends(node, lo, hi, bounded, limited)
        while i >= j and self.links[node, FLAGS] & INNER:
            if i > j:
                return False, self.identity
            node = self.links[node, CHILD + i]
            i, j = self.ends(node, lo, hi, bounded, limited)
        if i >= j:
            return False, self.identity
        inner = self.links[node, FLAGS] & INNER
        total = self.vals[node, i]
        for k in range(i + 1, j):
            if inner:
                total = self.combine(total, self.aggs[self.links[node, CHILD + k]])
            total = self.combine(total, self.vals[node, k])
        if inner:
            total = self.combine_suffix(self.links[node, CHILD + i], lo, bounded, total)
            total = self.combine_prefix(self.links[node, CHILD + j], hi, limited, total)
        return True, total

    def ends(self, node: int, lo: Time, hi: Time, bounded: bool, limited: bool) -> tuple[int, int]:
        """The entries [i, j) of a node that are in the range: subtrees between them are in it as a whole."""
        i = self.rank(node, lo) if bounded else 0
        return i, self.rank_through(node, hi) if limited else self.links[node, ARITY] - 1

    def combine_suffix(self, node: int, lo: Time, bounded: bool, total: State) -> State:
        """⊕ over the entries of a subtree not older than lo, ⊕ total."""
        while True:
            inner, last = self.links[node, FLAGS] & INNER, self.links[node, ARITY] - 1
            i = self.rank(node, lo) if bounded else 0
            k = last
            while k > i:
                if inner:
                    total = self.combine(self.aggs[self.links[node, CHILD + k]], total)
                k -= 1
                total = self.combine(self.vals[node, k], total)
            if not inner:
                return total
            node = self.links[node, CHILD + i]

    def combine_prefix(self, node: int, hi: Time, limited: bool, total: State) -> State:
        """total ⊕ the entries of a subtree not younger than hi."""
        while True:
            inner, last = self.links[node, FLAGS] & INNER, self.links[node, ARITY] - 1
            j = self.rank_through(node, hi) if limited else last
            for k in range(j):
                if inner:
                    total = self.combine(total, self.aggs[self.links[node, CHILD + k]])
                total = self.combine(total, self.vals[node, k])
            if not inner:
                return total
            node = self.links[node, CHILD + j]

    # ---- bulk eviction ----

    @noinline
    def cut(self, t: Time) -> None:
        if self.vacant() or t < self.first():
            return
        if not t < self.last():
            self.remove_all()
            return
        top = self.left
        while not self.links[top, FLAGS] & ROOT and not t < self.times[self.links[top, PARENT], 0]:
            top = self.links[top, PARENT]
        self.drop_path(top, t)
        start = top if self.links[top, FLAGS] & ROOT else self.links[top, PARENT]
        hits = self.fill_path(top)
        if hits & RIGHT:  # the root was reached, and may have changed
            start = self.root
        self.settle_left(start)
        self.refill(start, 0, hits | LEFT)

    def remove_all(self) -> None:
        """Empty the tree. The root stays."""
        root, arity = self.root, self.links[self.root, ARITY]
        if self.links[root, FLAGS] & INNER:
            for i in range(arity):
                self.free_subtree(self.links[root, CHILD + i])
        for i in range(arity - 1):
            self.forget(root, i)
        self.held -= arity - 1
        self.links[root, ARITY] = 1
        self.links[root, FLAGS] = ROOT
        self.left = root
        self.right = root
        self.aggs[root] = self.identity

    def drop_path(self, node: int, t: Time) -> None:
        """Remove the entries not younger than t below a node; the nodes on the search path become the left spine."""
        while True:
            gone, arity, flags = self.rank_through(node, t), self.links[node, ARITY], self.links[node, FLAGS]
            if flags & ROOT == 0:
                self.links[node, FLAGS] = flags | LEFT
            if gone > 0:
                if flags & INNER:
                    for i in range(gone):
                        self.free_subtree(self.links[node, CHILD + i])
                    for i in range(arity - gone):
                        self.links[node, CHILD + i] = self.links[node, CHILD + i + gone]
                for i in range(arity - 1 - gone):
                    self.copy_entry(node, i, node, i + gone)
                for i in range(arity - 1 - gone, arity - 1):
                    self.forget(node, i)
                self.links[node, ARITY] = arity - gone
                self.held -= gone
            if flags & INNER == 0:
                self.left = node
                return
            node = self.links[node, CHILD]

    def fill_path(self, node: int) -> int:
        """Refill the left spine from a node downwards, so that each node has an entry to spare. Returns `hits`."""
        hits = 0
        while True:
            arity = self.links[node, ARITY]
            if self.links[node, FLAGS] & ROOT:
                if arity == 1:
                    node = self.links[node, CHILD]
                    self.shrink(node)
                    hits |= LEFT | RIGHT
                    continue
            elif arity <= self.min_arity:
                parent = self.links[node, PARENT]
                sibling = self.links[parent, CHILD + 1]
                hits |= self.links[sibling, FLAGS]
                total = arity + self.links[sibling, ARITY]
                if total > 2 * self.min_arity:
                    for _ in range((total + 1) // 2 - arity):
                        self.move_back(parent, 0)
                else:
                    self.merge(parent, 0)
                    if self.links[parent, FLAGS] & ROOT and self.links[parent, ARITY] == 1:
                        self.shrink(node)
                        hits |= LEFT | RIGHT
            if self.links[node, FLAGS] & INNER == 0:
                return hits
            node = self.links[node, CHILD]

    # ---- bulk insertion: interpreted only ----

    def merge_in(self, times: list[Time], states: list[State]) -> None:
        touched: list[set[int]] = [set()]
        node = NOWHERE
        for t, v in zip(times, states, strict=True):
            node, i, found = self.find(t) if node == NOWHERE else self.find_after(node, t)
            if found:
                self.vals[node, i] = self.combine(self.vals[node, i], v)
                self._touch(touched, self.level(node), node)
            else:
                self.held += 1
                self.open_entry(node, i, t, v)
                self._touch(touched, 0, node)
                self._split_up(touched, node)
        self._repair_all(touched)

    def find_after(self, node: int, t: Time) -> Place:
        """As `find`, from a node with a time before t."""
        while not self.links[node, FLAGS] & (ROOT | RIGHT):
            parent = self.links[node, PARENT]
            i = self.index_of(parent, node)
            if i < self.links[parent, ARITY] - 1 and t < self.times[parent, i]:
                break
            node = parent
        return self.find_below(node, t)

    def level(self, node: int) -> int:
        """The height of a node above the leaves."""
        level = 0
        while self.links[node, FLAGS] & INNER:
            node, level = self.links[node, CHILD], level + 1
        return level

    def _touch(self, touched: list[set[int]], level: int, node: int) -> None:
        while level >= len(touched):
            touched.append(set())
        touched[level].add(node)

    def _split_up(self, touched: list[set[int]], node: int) -> None:
        level = 0
        while self.links[node, ARITY] > 2 * self.min_arity:
            if self.links[node, FLAGS] & ROOT:
                self.grow()
            self.split(node)
            node, older = self.links[node, PARENT], node
            self._touch(touched, level, self.links[node, CHILD + self.index_of(node, older) + 1])
            level += 1
            self._touch(touched, level, node)

    def _repair_all(self, touched: list[set[int]]) -> None:
        """Compute the aggregates of subtrees from the leaves upwards, then those on a spine from its top downwards."""
        spines: dict[int, int] = {}
        for level, nodes in enumerate(touched):  # grows during the loop
            for node in nodes:
                self.fold(node)
                if self.covers_subtree(node):
                    self._touch(touched, level + 1, self.links[node, PARENT])
                else:
                    spines[self.links[node, FLAGS] & SPINE] = node
        if ROOT in spines:
            self.repair(self.root, LEFT | RIGHT)
        else:
            for node in spines.values():
                self.repair(node, 0)


NOWHERE = -1
"""The node before the first search."""
