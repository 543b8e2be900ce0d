"""CountedTree and FrequencyTree: counted comparisons, and `check_invariants`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from sash.aggregators import CountedTree, FrequencyTree
from sash.monoids import CountDistinct, Median, Mode, Monoid, Quantile, Rank
from sash.monoids.multiset import KEY, LEFT, RIGHT, difference, single, union

MOST = 8.0
"""Comparisons an operation for each bit of the size: two a node, on a path of at most 2.5 log2 n + 2 nodes."""

ORDERS: dict[str, Callable[[int], float]] = {
    "random": lambda _i: random.random(),
    "rising": float,
    "falling": lambda i: -float(i),
    "few values": lambda i: float(i % 7),
    "in and out": lambda i: float(i if i % 2 else -i),
}


class Compared(CountedTree):
    """A tree that counts comparisons."""

    count = 0

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        precedes = self.precedes

        def counted(a: Any, b: Any) -> bool:
            self.count += 1
            return precedes(a, b)

        self.precedes = counted

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.mark.parametrize("monoid", [Median(), Rank(), Quantile(0.9, "lower"), CountDistinct()], ids=repr)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [16, 128, 1024])
def test_comparisons_grow_with_the_logarithm(order: str, width: int, monoid: Monoid) -> None:
    window, most = Compared(monoid), MOST * math.log2(width)
    for i in range(2 * width):
        if len(window) == width:
            window.evict()
            assert window.taken() == 0, "an element knows its node"
        window.insert(ORDERS[order](i))
        window.query()
        assert window.taken() <= most, i
    window.check_invariants()


def height(tree: CountedTree, n: int) -> int:
    return 0 if n == 0 else 1 + max(height(tree, tree.left[n]), height(tree, tree.right[n]))


@pytest.mark.parametrize("structure", [CountedTree, FrequencyTree])
@pytest.mark.parametrize("order", ORDERS)
def test_the_tree_is_low(order: str, structure: type[CountedTree]) -> None:
    window = structure(Mode() if structure is FrequencyTree else Median())
    for i in range(1500):
        if len(window) == 700:
            window.evict()
        window.insert(ORDERS[order](i))
        if i % 100 == 0:
            nodes = window.nodes_of(window.root)
            assert height(window, window.root) <= 2.5 * math.log2(nodes + 1) + 1
    window.check_invariants()


def test_values_enter_and_leave_the_multiset_in_logarithmic_steps() -> None:
    """Counted in new nodes: what two multisets have in common is shared."""
    chance = random.Random(0)
    for width in (100, 1000, 4000):
        values = [chance.random() for _ in range(width)]
        tree: Any = ()
        for x in values:
            tree = union(tree, single(x))
        old = {id(node) for node in nodes(tree)}
        made = []
        for x in values[:40]:
            removed = difference(tree, single(x))
            made.append(sum(id(node) not in old for node in nodes(removed)))
            added = union(tree, single(chance.random()))
            made.append(sum(id(node) not in old for node in nodes(added)))
        assert sum(made) / len(made) <= 2.5 * math.log2(width)


def nodes(tree: Any) -> list[Any]:
    return [] if not tree else [*nodes(tree[LEFT]), tree, *nodes(tree[RIGHT])]


def test_a_multiset_does_not_depend_on_the_order_of_its_making() -> None:
    values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    trees = set()
    for seed in range(20):
        random.Random(seed).shuffle(values)
        tree: Any = ()
        for x in values:
            tree = union(tree, single(x))
        trees.add(tree)
    assert len(trees) == 1
    assert [node[KEY] for node in nodes(trees.pop())] == sorted({*values})
