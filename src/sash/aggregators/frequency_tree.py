r"""FrequencyTree: a counted tree that stores the most frequent value of each subtree.

Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms, 4th edition, section 17.2: augmenting a tree by a field
that is computed from the children's. A node's best is the node with the most elements in its subtree, the leftmost of
equal ones:

               5 ×2, best 4
              /    \
    3 ×1, best 4    9 ×1, best 9
          \
           4 ×7, best 4

A change walks up to the root: O(log n). The mode is the best of the root.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.counted_tree import CountedTree
from sash.aggregators.in_order import State
from sash.aggregators.queue import Ints


class FrequencyTree(CountedTree):
    """A CountedTree that stores the most frequent value of each subtree, the least of equally frequent ones.

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
