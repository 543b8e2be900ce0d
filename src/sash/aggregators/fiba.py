"""FiBA, the finger B-tree aggregator: events out of order, at the cost of how far out of order they are.

Tangwongsan, Hirzel, Schneider: Optimal and General Out-of-Order Sliding-Window Aggregation, PVLDB 12 (2019),
sections 3.2 to 4; bulk operations after their later work (`span.py`).

Needs nothing but associativity, and times with an order. An insert or evict at distance d from the nearer end of the
window takes O(log d) on average, constant time for d = 0, and O(log n) at worst; a query at most 2 ⊕; a query of a
range O(log) of its size and of the distances of its ends; to evict the m oldest at once O(log m). Space O(n).

A B-tree (`nodes.py`, `tree.py`) with fingers, which are the numbers of its first and last leaf. Each node stores an
aggregate that suits its place, so that a change near an end of the window reaches no higher than it must:

                       [  root  ]                   inner    without its first and last subtree
                     /   │    │   \\
             [ left ]  [up]  [up]  [ right ]        left     all below the root's first child, without what is below
             /  │  \\              /  │   \\                   the node's own first child; right is its mirror image
      [left]  [up] [up]        [up] [up]  [right]   up       the subtree
        ▲ left finger              right finger ▲            query = left finger ⊕ root ⊕ right finger

Left and right aggregates take in that of the parent, unless it is the root: they are repaired downwards, up and inner
ones upwards. A change below an up node goes up to the first node that is on a spine, or the root, and from there, if
that is on a spine, down to the finger. The search starts at a finger as well: up the spine, then down.

Splits, merges and moves are paid with coins: two for each insert and evict are enough for ever, since a node of
MAX_ARITY = 2·MIN_ARITY children is split into two that are far from the next split or merge.

Invariants: sizes, order, depth, parents, fingers and flags of the B-tree; every stored aggregate by its definition;
each node either in the tree or, once, on the chain of those that are done with.
"""

from __future__ import annotations

from sash.aggregators.nodes import ARITY, CHILD, FLAGS, INNER, LEFT, PARENT, RIGHT, ROOT, SPINE
from sash.aggregators.span import Span
from sash.aggregators.timed import Time
from sash.aggregators.tree_check import Checked
from sash.aggregators.window import State, apart


class FiBA(Checked, Span):
    """A window in order of time, for events that come out of order.

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

    def near(self, t: Time) -> int:
        """From the nearer finger up its spine, to the first node that t belongs below; in the middle, the root."""
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
        """One ⊕ where the new entry is the first or last that its finger's aggregate takes in."""
        flags = self.links[node, FLAGS]
        if flags & (RIGHT | ROOT) and i == self.links[node, ARITY] - 2:
            self.aggs[node] = v if i == 0 else self.combine(self.aggs[node], v)
        elif flags & (LEFT | ROOT) and i == 0:
            self.aggs[node] = self.combine(v, self.aggs[node])
        else:
            self.mend(node, 0)

    def whole(self, node: int) -> bool:
        return not self.links[node, FLAGS] & SPINE

    def settle(self, node: int) -> None:
        if not self.links[node, FLAGS] & SPINE:
            self.fold(node)

    @apart
    def mend(self, node: int, hits: int) -> None:
        self.fold(node)
        while not self.links[node, FLAGS] & SPINE:
            node = self.links[node, PARENT]
            self.fold(node)
        flags = self.links[node, FLAGS]
        if flags & ROOT:
            flags = flags & INNER | hits & (LEFT | RIGHT)
        if flags & INNER == 0:
            return
        if flags & LEFT:
            young = node
            while self.links[young, FLAGS] & INNER:
                young = self.links[young, CHILD]
                self.fold(young)
        if flags & RIGHT:
            while self.links[node, FLAGS] & INNER:
                node = self.links[node, CHILD + self.links[node, ARITY] - 1]
                self.fold(node)

    @apart
    def fold(self, node: int) -> None:
        flags, parent, last = self.links[node, FLAGS], self.links[node, PARENT], self.links[node, ARITY] - 1
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
        if flags & (LEFT | RIGHT) and not self.links[parent, FLAGS] & ROOT:
            total = self.combine(total, self.aggs[parent]) if flags & LEFT else self.combine(self.aggs[parent], total)
        self.aggs[node] = total

    def defined(self, node: int) -> list[State]:
        """The entries that the aggregate of a node is ⊕ over, by definition."""
        flags, parent = self.links[node, FLAGS], self.links[node, PARENT]
        first = self.links[node, CHILD] if flags & INNER and flags & (LEFT | ROOT) else None
        last = (
            self.links[node, CHILD + self.links[node, ARITY] - 1] if flags & INNER and flags & (RIGHT | ROOT) else None
        )
        own = [v for _, v in self.elements_below(node, without=(first, last))]
        if flags & (LEFT | RIGHT) and not self.links[parent, FLAGS] & ROOT:
            above = self.defined(parent)
            return [*own, *above] if flags & LEFT else [*above, *own]
        return own
