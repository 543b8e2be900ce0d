"""Check the invariants of the B-trees: compare everything that is stored with its definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from sash.aggregators.base import State, expect, fold
from sash.aggregators.btree_nodes import ARITY, CHILD, FLAGS, INNER, LEFT, NONE, PARENT, RIGHT, ROOT, SPINE, BTreeNodes


class BTreeCheck(BTreeNodes):
    """A B-tree that checks its invariants."""

    defined: Callable[[int], list[State]]
    """The entries that the aggregate of a node is ⊕ over, by definition."""

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
