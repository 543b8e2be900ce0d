"""The nodes of the B-tree of `AugmentedBTree` and `FiBA`: allocation, entries, children, search.

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index
from typing import Any, ClassVar, Self

from sash.aggregators.base import State
from sash.aggregators.btree_storage import Aggs, Links, States, Times
from sash.aggregators.time_ordered import Place, Time, TimeOrdered
from sash.monoids import Monoid

PARENT, ARITY, FLAGS, CHILD = 0, 1, 2, 3
"""The links of a node; the children follow from CHILD on."""

LEFT, RIGHT, ROOT, INNER = 1, 2, 4, 8
SPINE = LEFT | RIGHT | ROOT
"""The flags of a node: on the left spine below the root, on the right spine below the root, the root; inner node."""

NONE = -1


class BTreeNodes(TimeOrdered):
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


def checked_arity(min_arity: Any) -> int:
    """Raises TypeError if it is no integer, ValueError if it is below 2."""
    try:
        arity = index(min_arity)
    except TypeError:
        raise TypeError(f"min_arity must be a whole number of children; got {min_arity!r}") from None
    if arity < 2:
        raise ValueError(f"min_arity must be at least 2; got {arity}")
    return arity
