r"""The B-tree of `AugmentedBTree` and `FiBA`: nodes, updates, range queries, invariants; and `AugmentedBTree`.

    node     times   t0   t1   t2                     between MIN_ARITY and 2·MIN_ARITY children,
             vals    v0   v1   v2                     the root at least 2; one entry less than children;
             links   z0   z1   z2   z3                all leaves on one level
             aggs    ⊕ over some part of the tree     (the structure defines which)

A node is a number: its row in the pools. Its links are its parent, its arity (one more than its entries, in leaves as
well), its flags, and its children. The flags say whether it is on the left spine, on the right spine, or the root, and
whether it is an inner node.

Removed subtrees are linked into the free chain by their roots. Allocating a node replaces it on the chain by its
children, so that freeing a subtree takes constant time. Only inserts allocate nodes, and they free none: no node is
reused within the operation that freed it. Interpreted, each operation releases the memory of a few free nodes. `held`
counts the entries of free nodes too, and `size()` corrects it.

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

    between    descend to where the search paths of the two ends diverge, then along each: whole subtrees lie between

                       ·  v  ·  v  ·  v  ·
                         /─────────────\           the paths diverge here
                  · v ·                 · v ·
                     \───┘           └───/          two chains of nodes

    cut        evict all up to a time: free the subtrees to the left of the search path; then downwards, on the new left
               spine, refill nodes from their right siblings so that each has an entry to spare for the level below;
               then refill from the top upwards, as after a single evict
    merge_in   insert a sorted batch: each search starts where the last one ended, and aggregates are computed at the
               end, level by level, each once

`cut` removes m entries in O(log m), as in later work of FiBA's authors (Tangwongsan, Hirzel, Schneider: Out-of-Order
Sliding-Window Aggregation with Efficient Bulk Evictions and Insertions, PVLDB 2023).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from operator import index
from typing import Any, ClassVar, Self

from sash.aggregators.base import State, expect, fold
from sash.aggregators.storage import Aggs, Links, States, Times
from sash.aggregators.time_ordered import Place, Time, TimeOrdered
from sash.monoids import Monoid
from sash.monoids.algebra import noinline

PARENT, ARITY, FLAGS, CHILD = 0, 1, 2, 3
"""The links of a node; the children follow from CHILD on."""

LEFT, RIGHT, ROOT, INNER = 1, 2, 4, 8
SPINE = LEFT | RIGHT | ROOT
"""The flags of a node: on the left spine below the root, on the right spine below the root, the root; inner node."""

NONE = -1

NOWHERE = -1
"""The node before the first search."""


class BTree(TimeOrdered):
    """A time-ordered B-tree with an aggregate in each node.

    Raises TypeError if `min_arity` is no integer, ValueError if it is below 2.
    """

    constants: ClassVar[tuple[str, ...]] = ("min_arity",)
    min_arity = 4

    times: Times
    vals: States
    links: Links
    aggs: Aggs
    root: int
    left: int
    right: int
    fresh: int
    free_head: int
    held: int

    # ---- what a structure defines ----

    fold: Callable[[int], None]
    """Compute the aggregate of a node from its entries and children."""

    settle: Callable[[int], None]
    """`fold` during a split, merge or move: nodes above may be incomplete."""

    repair: Callable[[int, int], None]
    """Repair all aggregates that depend on a node, its own included, and those on the spines in `hits`."""

    covers_subtree: Callable[[int], bool]
    """Is the aggregate of a node ⊕ over its subtree, so that the parent's depends on it? Not for the root."""

    settle_left: Callable[[int], None]
    """Compute the aggregates of the left spine, from a node downwards."""

    defined: Callable[[int], list[State]]
    """The entries that the aggregate of a node is ⊕ over, by definition."""

    search_start: Callable[[Time], int]
    """A node whose subtree covers a time, to search downwards from."""

    def __init__(self, monoid: Monoid, min_arity: int | None = None) -> None:
        if min_arity is not None:
            self.min_arity = checked_arity(min_arity)
        super().__init__(monoid)

    def _empty_twin(self) -> Self:
        return type(self)(self.monoid, self.min_arity)

    @staticmethod
    def width(field: str, min_arity: int) -> int:
        """The number of slots of a node in a field, with one entry and child too many, until it is split."""
        return {"links": CHILD + 2 * min_arity + 1, "aggs": 1, "own": 1}.get(field, 2 * min_arity)

    @classmethod
    def slots(cls, field: str, largest: int) -> int:
        """The number of nodes for up to `largest` entries: at least MIN_ARITY - 1 in each except the root."""
        return (largest // (cls.min_arity - 1) + 2) * cls.width(field, cls.min_arity)

    def begin(self) -> None:
        self.fresh = 0
        self.held = 0
        self.free_head = NONE
        self.root = self.take()
        self.left = self.root
        self.right = self.root
        self.links[self.root, PARENT] = NONE
        self.links[self.root, ARITY] = 1
        self.links[self.root, FLAGS] = ROOT
        self.aggs[self.root] = self.identity

    # ---- allocation ----

    def take(self) -> int:
        """Allocate a node: a free one, if there is any."""
        if self.free_head != NONE:
            node = self.pop_free()
        else:
            node = self.fresh
            self.fresh += 1
        self.times.open(node, 2 * self.min_arity)
        self.vals.open(node, 2 * self.min_arity)
        self.links.open(node, CHILD + 2 * self.min_arity + 1)
        return node

    def free_subtree(self, node: int) -> None:
        """Free a node with its subtree."""
        self.links[node, PARENT] = self.free_head
        self.free_head = node

    def free_emptied(self, node: int) -> None:
        """Free a node whose entries and children have moved."""
        self.links[node, ARITY] = 1
        self.links[node, FLAGS] = 0
        self.free_subtree(node)

    def pop_free(self) -> int:
        """Take a node from the free chain, and put its children there."""
        node = self.free_head
        self.free_head = self.links[node, PARENT]
        arity = self.links[node, ARITY]
        self.held -= arity - 1
        if self.links[node, FLAGS] & INNER:
            for i in range(arity):
                self.free_subtree(self.links[node, CHILD + i])
        return node

    def tidy(self) -> None:
        """Release the memory of a few free nodes."""
        for _ in range(self.links.back()):
            if self.free_head == NONE:
                return
            self.close(self.pop_free())

    def close(self, node: int) -> None:
        self.times.close(node)
        self.vals.close(node)
        self.links.close(node)
        self.aggs.close(node)
        self.release(node)

    def release(self, node: int) -> None:
        """Release other values that a structure stores for a node."""

    def size(self) -> int:
        """The number of entries. After `cut` it takes time for each free node, and releases their memory."""
        while self.free_head != NONE and self.links.back() > 0:
            self.close(self.pop_free())
        return self.held - sum(self.links[node, ARITY] - 1 for node in self.free_nodes())

    def free_nodes(self) -> Iterator[int]:
        """Every free node."""
        head = self.free_head
        while head != NONE:
            yield from self.nodes_below(head)
            head = self.links[head, PARENT]

    def nodes_below(self, node: int) -> Iterator[int]:
        """A node and all below it."""
        yield node
        if self.links[node, FLAGS] & INNER:
            for i in range(self.links[node, ARITY]):
                yield from self.nodes_below(self.links[node, CHILD + i])

    def vacant(self) -> bool:
        return self.links[self.root, ARITY] == 1

    def first(self) -> Time:
        return self.times[self.left, 0]

    def last(self) -> Time:
        return self.times[self.right, self.links[self.right, ARITY] - 2]

    def first_node(self) -> int:
        return self.left

    # ---- search ----

    def rank(self, node: int, t: Time) -> int:
        """The number of entries of a node older than t."""
        i, n = 0, self.links[node, ARITY] - 1
        while i < n and self.times[node, i] < t:
            i += 1
        return i

    def rank_through(self, node: int, t: Time) -> int:
        """The number of entries of a node not younger than t."""
        i, n = 0, self.links[node, ARITY] - 1
        while i < n and not t < self.times[node, i]:
            i += 1
        return i

    def find(self, t: Time) -> Place:
        return self.find_below(self.search_start(t), t)

    def find_below(self, node: int, t: Time) -> Place:
        """The place of t in the subtree of a node."""
        i = self.rank(node, t)
        while self.links[node, FLAGS] & INNER:
            if i < self.links[node, ARITY] - 1 and not t < self.times[node, i]:
                return node, i, True
            node = self.links[node, CHILD + i]
            i = self.rank(node, t)
        return node, i, i < self.links[node, ARITY] - 1 and not t < self.times[node, i]

    def index_of(self, parent: int, node: int) -> int:
        i = 0
        while self.links[parent, CHILD + i] != node:
            i += 1
        return i

    # ---- entries and children ----

    def open_entry(self, node: int, i: int, t: Time, v: State) -> None:
        """Insert an entry at place i; for an inner node the caller inserts a child afterwards."""
        k = self.links[node, ARITY] - 1
        while k > i:
            self.times[node, k] = self.times[node, k - 1]
            self.vals[node, k] = self.vals[node, k - 1]
            k -= 1
        self.times[node, i] = t
        self.vals[node, i] = v
        self.links[node, ARITY] += 1

    def close_entry(self, node: int, i: int) -> None:
        """Remove the entry at place i; for an inner node the caller has removed a child before."""
        last = self.links[node, ARITY] - 2
        for k in range(i, last):
            self.times[node, k] = self.times[node, k + 1]
            self.vals[node, k] = self.vals[node, k + 1]
        self.forget(node, last)
        self.links[node, ARITY] -= 1

    def copy_entry(self, node: int, i: int, source: int, k: int) -> None:
        self.times[node, i] = self.times[source, k]
        self.vals[node, i] = self.vals[source, k]

    def forget(self, node: int, i: int) -> None:
        self.times.forget(node, i)
        self.vals.forget(node, i)

    def adopt(self, node: int, i: int, child: int) -> None:
        self.links[node, CHILD + i] = child
        self.links[child, PARENT] = node

    def open_child(self, node: int, i: int, child: int) -> None:
        """Insert a child at place i, after its entry."""
        k = self.links[node, ARITY] - 1
        while k > i:
            self.links[node, CHILD + k] = self.links[node, CHILD + k - 1]
            k -= 1
        self.adopt(node, i, child)

    def close_child(self, node: int, i: int) -> None:
        """Remove the child at place i, before its entry."""
        for k in range(i, self.links[node, ARITY] - 1):
            self.links[node, CHILD + k] = self.links[node, CHILD + k + 1]

    def elements(self) -> Iterator[tuple[Time, State]]:
        return self.elements_below(self.root)

    def elements_below(self, node: int, without: tuple[int | None, ...] = ()) -> Iterator[tuple[Time, State]]:
        """(time, state) of the entries of a subtree, in order of time; without some of its root's children."""
        arity, inner = self.links[node, ARITY], self.links[node, FLAGS] & INNER
        for i in range(arity):
            if inner and self.links[node, CHILD + i] not in without:
                yield from self.elements_below(self.links[node, CHILD + i])
            if i < arity - 1:
                yield self.times[node, i], self.vals[node, i]

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

    # ---- invariants ----

    def check_invariants(self) -> None:
        nodes = [*self.nodes_below(self.root)]
        self._expect(len({*self._depths(self.root, 0)}) == 1, "leaves lie at different depths")
        times = [t for t, _ in self.elements()]
        self._expect(all(a < b for a, b in itertools.pairwise(times)), "times are not in order")
        for node in nodes:
            self._check_size(node)
            self._check_place(node)
            expect(self, f"the aggregate of node {node}", self.aggs[node], fold(self.monoid, iter(self.defined(node))))
        self._expect(
            self.links[self.left, FLAGS] & (INNER | LEFT | ROOT) in (LEFT, ROOT), "the left finger is not an end"
        )
        self._expect(
            self.links[self.right, FLAGS] & (INNER | RIGHT | ROOT) in (RIGHT, ROOT), "the right finger is not an end"
        )
        self._check_pool({*nodes}, len(times))

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(f"{type(self).__name__}: {what}")

    def _depths(self, node: int, depth: int) -> Iterator[int]:
        """The depth of every leaf."""
        if self.links[node, FLAGS] & INNER:
            for child in self._children(node):
                yield from self._depths(child, depth + 1)
        else:
            yield depth

    def _children(self, node: int) -> list[int]:
        return [self.links[node, CHILD + i] for i in range(self.links[node, ARITY])]

    def _check_size(self, node: int) -> None:
        arity, flags = self.links[node, ARITY], self.links[node, FLAGS]
        least = self.min_arity if not flags & ROOT else 2 if flags & INNER else 1
        self._expect(least <= arity <= 2 * self.min_arity, f"node {node} has arity {arity}")

    def _check_place(self, node: int) -> None:
        """Check the parent and flags of the root, and of each child: they follow from its position in its parent."""
        flags = self.links[node, FLAGS]
        if node == self.root:
            self._expect(flags & SPINE == ROOT, f"the root {node} has flags {flags}")
            self._expect(self.links[node, PARENT] == NONE, f"the root {node} has a parent")
        if not flags & INNER:
            return
        children = self._children(node)
        for i, child in enumerate(children):
            spine = LEFT if i == 0 and flags & (LEFT | ROOT) else 0
            spine |= RIGHT if i == len(children) - 1 and flags & (RIGHT | ROOT) else 0
            found = self.links[child, FLAGS] & SPINE
            self._expect(found == spine, f"node {child} has spine flags {found}, not {spine}")
            self._expect(self.links[child, PARENT] == node, f"node {child} does not know its parent {node}")

    def _check_pool(self, tree: set[int], entries: int) -> None:
        """Check that each node is in the tree or on the free chain, once, and that the entries of both are counted."""
        free: list[int] = []
        for node in self.free_nodes():
            self._expect(node not in tree, f"node {node} is in the tree and free")
            self._expect(len(free) < self.fresh, "the free chain has no end")
            free.append(node)
        self._expect(len({*free}) == len(free), "a node is free twice")
        rows = getattr(self.links, "rows", range(self.fresh))
        self._expect({*rows} == tree.union(free), "a node is neither in the tree nor free")
        entries += sum(self.links[node, ARITY] - 1 for node in free)
        self._expect(self.held == entries, f"{self.held} entries are counted, there are {entries}")


def checked_arity(min_arity: Any) -> int:
    """Raises TypeError if it is no integer, ValueError if it is below 2."""
    try:
        arity = index(min_arity)
    except TypeError:
        raise TypeError(f"min_arity must be a whole number of children; got {min_arity!r}") from None
    if arity < 2:
        raise ValueError(f"min_arity must be at least 2; got {arity}")
    return arity


# --- Augmented B-tree ---


class AugmentedBTree(BTree):
    r"""A B-tree with the aggregate of each subtree, the baseline for FiBA: logarithmic in the size of the window.

    Tangwongsan, Hirzel, Schneider: Optimal and General Out-of-Order Sliding-Window Aggregation, PVLDB 12 (2019),
    section 3.1.

    Needs nothing but associativity, and times with an order. Each insert and evict takes O(log n): the search begins at
    the root, and every aggregate from the changed node up to the root is repaired. A query takes no ⊕, a query of a
    range O(log n), and evicting any number of the oldest at once O(log n). Space O(n).

                    [  7:g   15:o  ]              ab…u
                   /       │        \
            [ 2 4 ]    [ 9 11 13 ]    [ 17 19 ]   ab…f    hi…n    pq…u     each the aggregate of its subtree

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
