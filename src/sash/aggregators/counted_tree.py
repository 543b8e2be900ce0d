r"""CountedTree: the values of the window in a balanced search tree that counts them; FrequencyTree has their mode.

Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms, 4th edition, section 17.1 (order-statistic trees), on the
weight-balanced trees of Nievergelt and Reingold (STOC 1972), with the parameters of Hirai and Yamamoto (JFP 2011).

    elements   3  5  3  9  4                 by position; `follows` links equal values: 3 ─▶ 3
               F           E

                  5                          one node for each distinct value: its oldest element
                 / \
             3 ×2   9                        for each subtree: sizes, the number of elements,
                \                            and nodes, the number of distinct values
                 4

Inserting or evicting a value, finding the k-th value, and finding the rank of a value take O(log n) comparisons or
steps in the worst case. When the oldest element of a value leaves, the next one takes its node over.

Invariants: an in-order walk gives increasing values; sizes and nodes are those of the subtrees; neither subtree of a
node weighs more than three times the other, where an empty one weighs 1.

A link is the number of an element, from 1; 0 is none. A null element has a number but no node.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from sash.aggregators.base import State
from sash.aggregators.in_order import InOrder
from sash.aggregators.storage import Ints, Queue
from sash.monoids.algebra import Monoid, noinline


class CountedTree(InOrder):
    r"""Order statistics of a window: quantiles, ranks, the number of distinct values.

    >>> from sash.monoids import Median
    >>> window = CountedTree(Median())
    >>> for x in (3, 9, 5): window.insert(x)
    >>> window.query(); window.evict(); window.query()
    5.0
    7.0

    Raises TypeError for a monoid that is no order statistic.
    """

    needs: ClassVar[tuple[str, ...]] = ("order_statistic",)

    vals: Queue
    left: Ints
    right: Ints
    up: Ints
    sizes: Ints
    nodes: Ints
    follows: Ints
    latest: Ints
    root: int
    F: int
    E: int

    read: Callable[[Any], State]
    precedes: Callable[[State, State], bool]
    holds: Callable[[State], bool]

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        form: Any = self.monoid
        self.read, self.precedes, self.holds = form.read, form.precedes, form.holds

    @classmethod
    def form(cls, monoid: Monoid) -> Monoid:
        """The form of an order statistic that reads its result from the tree."""
        return monoid.on_tree()

    # ---- the window ----

    def aggregate(self) -> State:
        return self.identity if self.root == 0 else self.read(self)

    @noinline
    def push(self, v: State) -> None:
        self.E += 1
        n = self.E
        self.vals[n] = v
        self.left[n], self.right[n], self.up[n] = 0, 0, 0
        self.sizes[n], self.nodes[n] = 0, 0
        self.follows[n], self.latest[n] = 0, n
        self.begin(n)
        if not self.holds(v):
            return
        at, parent, right = self.root, 0, False
        while at != 0:
            self.sizes[at] = self.sizes[at] + 1
            parent = at
            if self.precedes(v, self.vals[at]):
                at, right = self.left[at], False
            elif self.precedes(self.vals[at], v):
                at, right = self.right[at], True
            else:
                self.follows[self.latest[at]] = n
                self.latest[at] = n
                self.climb(at)
                return
        self.sizes[n], self.nodes[n], self.up[n] = 1, 1, parent
        if parent == 0:
            self.root = n
        elif right:
            self.right[parent] = n
        else:
            self.left[parent] = n
        self.rebalance(parent, 1)

    @noinline
    def pop(self) -> None:
        n = self.F + 1
        if self.sizes[n] > 0:
            at = n
            while at != 0:
                self.sizes[at] = self.sizes[at] - 1
                at = self.up[at]
            if self.follows[n] != 0:
                self.take_over(self.follows[n], n)
            else:
                self.take_off(n)
        self.release(n)
        self.F += 1

    def begin(self, n: int) -> None:
        """Initialize the fields that a subclass adds to an element."""

    def end(self, n: int) -> None:
        """Release the fields that a subclass adds to an element."""

    def release(self, n: int) -> None:
        """Release the fields of an element."""
        self.end(n)
        self.vals.drop_front(n)
        self.left.drop_front(n)
        self.right.drop_front(n)
        self.up.drop_front(n)
        self.sizes.drop_front(n)
        self.nodes.drop_front(n)
        self.follows.drop_front(n)
        self.latest.drop_front(n)

    # ---- order statistics, for `read` ----

    def total(self) -> int:
        """The number of values."""
        return self.size_of(self.root)

    def distinct(self) -> int:
        """The number of distinct values."""
        return self.nodes_of(self.root)

    def newest(self) -> State:
        """The youngest element, which may be null."""
        return self.vals[self.E]

    def greatest(self) -> State:
        """An element with the greatest value."""
        at = self.root
        while self.right[at] != 0:
            at = self.right[at]
        return self.vals[at]

    def select(self, place: int) -> State:
        """An element with the value at this place in order, from 0."""
        at = self.root
        while True:
            before, after = self.size_of(self.left[at]), self.size_of(self.right[at])
            if place < before:
                at = self.left[at]
            elif place < self.sizes[at] - after:
                return self.vals[at]
            else:
                place -= self.sizes[at] - after
                at = self.right[at]

    def place(self, v: State) -> tuple[int, int, int]:
        """The numbers of values below an element's, of equal ones, and of distinct ones below."""
        at, below, different = self.root, 0, 0
        while at != 0:
            if self.precedes(v, self.vals[at]):
                at = self.left[at]
            else:
                before, after = self.size_of(self.left[at]), self.size_of(self.right[at])
                different += self.nodes_of(self.left[at])
                if not self.precedes(self.vals[at], v):
                    return below + before, self.sizes[at] - before - after, different
                below, different = below + self.sizes[at] - after, different + 1
                at = self.right[at]
        return below, 0, different

    def size_of(self, n: int) -> int:
        """The number of elements of a subtree."""
        return 0 if n == 0 else self.sizes[n]

    def nodes_of(self, n: int) -> int:
        """The number of nodes of a subtree."""
        return 0 if n == 0 else self.nodes[n]

    # ---- changes of the tree ----

    def climb(self, n: int) -> None:
        """Update the fields of a subclass after the number of elements of a node has changed."""

    def refresh(self, n: int) -> None:
        """Update the fields of a subclass after the subtrees of a node have changed."""

    def replace_node(self, n: int, by: int) -> None:
        """Replace a node below its parent by another one, or by none."""
        parent = self.up[n]
        if by != 0:
            self.up[by] = parent
        if parent == 0:
            self.root = by
        elif self.left[parent] == n:
            self.left[parent] = by
        else:
            self.right[parent] = by

    def set_children(self, n: int, left: int, right: int) -> None:
        """Set the children of a node."""
        self.left[n], self.right[n] = left, right
        if left != 0:
            self.up[left] = n
        if right != 0:
            self.up[right] = n

    def take_over(self, by: int, n: int) -> None:
        """Give a node to the next element of the same value."""
        self.set_children(by, self.left[n], self.right[n])
        self.sizes[by], self.nodes[by], self.latest[by] = self.sizes[n], self.nodes[n], self.latest[n]
        self.replace_node(n, by)
        self.climb(by)

    def take_off(self, n: int) -> None:
        """Remove a node whose elements have left."""
        left, right = self.left[n], self.right[n]
        if left == 0 or right == 0:
            self.replace_node(n, right if left == 0 else left)
            self.rebalance(self.up[n], -1)
            return
        after = right  # the node of the next value takes its place
        while self.left[after] != 0:
            after = self.left[after]
        moved = self.sizes[after] - self.size_of(self.right[after])
        lowest = self.up[after]
        at = lowest
        while at != n:
            self.sizes[at] = self.sizes[at] - moved
            at = self.up[at]
        if lowest == n:
            lowest = after
        self.replace_node(after, self.right[after])
        self.set_children(after, left, self.right[n])
        self.sizes[after], self.nodes[after] = self.sizes[n], self.nodes[n]
        self.replace_node(n, after)
        self.rebalance(lowest, -1)

    @noinline
    def rebalance(self, n: int, change: int) -> None:
        """Update and rebalance a node and all above it, after their subtrees have got one node more, or less."""
        while n != 0:
            self.nodes[n] = self.nodes[n] + change
            left, right = self.nodes_of(self.left[n]) + 1, self.nodes_of(self.right[n]) + 1
            if right > 3 * left:
                child = self.right[n]
                if self.nodes_of(self.left[child]) + 1 >= 2 * (self.nodes_of(self.right[child]) + 1):
                    self.turn(child, False)
                n = self.turn(n, True)
            elif left > 3 * right:
                child = self.left[n]
                if self.nodes_of(self.right[child]) + 1 >= 2 * (self.nodes_of(self.left[child]) + 1):
                    self.turn(child, True)
                n = self.turn(n, False)
            else:
                self.refresh(n)
            n = self.up[n]

    @noinline
    def turn(self, n: int, to_left: bool) -> int:
        """Rotate a node to the left or right, below its other child, which is returned."""
        child: int = self.right[n] if to_left else self.left[n]
        inner = self.left[child] if to_left else self.right[child]
        self.replace_node(n, child)
        size, nodes = self.sizes[n], self.nodes[n]
        self.sizes[n] = size - self.sizes[child] + self.size_of(inner)
        self.nodes[n] = nodes - self.nodes[child] + self.nodes_of(inner)
        self.sizes[child], self.nodes[child] = size, nodes
        if to_left:
            self.set_children(n, self.left[n], inner)
            self.set_children(child, n, self.right[child])
        else:
            self.set_children(n, inner, self.right[n])
            self.set_children(child, self.left[child], n)
        self.refresh(n)
        self.refresh(child)
        return child

    # ---- not compiled ----

    def elements(self) -> Iterator[State]:
        return (self.vals[n] for n in range(self.F + 1, self.E + 1))

    def check_invariants(self) -> None:
        groups: dict[int, int] = {}
        for n in self._walk(self.root):
            count, at = 0, n
            while at != 0:
                groups[at] = n
                count, last, at = count + 1, at, self.follows[at]
                assert at == 0 or at > last, f"CountedTree: element {at} follows {last}"
                same = at == 0 or not (self._before(n, at) or self._before(at, n))
                assert same, f"CountedTree: {self.vals[at]!r} is in the node of {self.vals[n]!r}"
            assert self.latest[n] == last, f"CountedTree: the latest of node {n} is {self.latest[n]}; expected {last}"
            self._check_node(n, count)
        non_null = [n for n in range(self.F + 1, self.E + 1) if self.holds(self.vals[n])]
        assert sorted(groups) == non_null, f"CountedTree: the nodes hold {sorted(groups)}; expected {non_null}"
        order = list(self._walk(self.root))
        for a, b in itertools.pairwise(order):
            assert self._before(a, b), f"CountedTree: {self.vals[a]!r} comes before {self.vals[b]!r}"

    def _before(self, a: int, b: int) -> bool:
        return self.precedes(self.vals[a], self.vals[b])

    def _check_node(self, n: int, count: int) -> None:
        """Compare the numbers of a node, which has `count` elements, with those of its children."""
        left, right = self.left[n], self.right[n]
        for child in (left, right):
            assert child == 0 or self.up[child] == n, f"CountedTree: {child} is not below {n}"
        sizes = self.size_of(left) + count + self.size_of(right)
        assert self.sizes[n] == sizes, f"CountedTree: the size of {n} is {self.sizes[n]}; expected {sizes}"
        nodes = self.nodes_of(left) + 1 + self.nodes_of(right)
        assert self.nodes[n] == nodes, f"CountedTree: {n} has {self.nodes[n]} nodes; expected {nodes}"
        weights = self.nodes_of(left) + 1, self.nodes_of(right) + 1
        assert max(weights) <= 3 * min(weights), f"CountedTree: the subtrees of {n} weigh {weights}"

    def _walk(self, n: int) -> Iterator[int]:
        if n != 0:
            yield from self._walk(self.left[n])
            yield n
            yield from self._walk(self.right[n])


# --- Frequency tree ---


class FrequencyTree(CountedTree):
    r"""A CountedTree that stores the most frequent value of each subtree, the least of equally frequent ones.

    Section 17.2 of the same book: augmenting a tree by a field that is computed from the children's. A node's best is
    the node with the most elements in its subtree, the leftmost of equal ones:

                   5 ×2, best 4
                  /    \
        3 ×1, best 4    9 ×1, best 9
              \
               4 ×7, best 4

    A change walks up to the root: O(log n). The mode is the best of the root.

    >>> from sash.monoids import Mode
    >>> window = FrequencyTree(Mode())
    >>> for x in (3, 5, 5): window.insert(x)
    >>> window.query(); window.evict(); window.evict(); window.query()
    5
    5

    Raises TypeError for a monoid that is not the most frequent value.
    """

    needs: ClassVar[tuple[str, ...]] = ("most_frequent",)

    best: Ints

    def begin(self, n: int) -> None:
        self.best[n] = n

    def end(self, n: int) -> None:
        self.best.drop_front(n)

    def mode(self) -> State:
        """An element with the most frequent value."""
        return self.vals[self.best[self.root]]

    def frequency(self, n: int) -> int:
        """The number of elements of a node."""
        return self.size_of(n) - self.size_of(self.left[n]) - self.size_of(self.right[n])

    def refresh(self, n: int) -> None:
        best, most = n, self.frequency(n)
        left, right = self.left[n], self.right[n]
        if left != 0 and self.frequency(self.best[left]) >= most:
            best, most = self.best[left], self.frequency(self.best[left])
        if right != 0 and self.frequency(self.best[right]) > most:
            best = self.best[right]
        self.best[n] = best

    def climb(self, n: int) -> None:
        while n != 0:
            self.refresh(n)
            n = self.up[n]

    def _check_node(self, n: int, count: int) -> None:
        super()._check_node(n, count)
        found = max(self._walk(n), key=self.frequency)  # of equal ones the first
        assert self.best[n] == found, f"FrequencyTree: the best of {n} is {self.best[n]}; expected {found}"
