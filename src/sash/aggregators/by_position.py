"""Time-ordered structures as in-order ones: the time of an element is its position.

FiBA and AugmentedBTree find an element by its time. If elements arrive in order, positions serve as times, and the tree
gets the methods of an in-order structure: `push` at the young end, `pop` and `drop` at the old one.

    time     3  4  5  6  7  8         F = 3: the oldest; E = 9: the next
    push     ──────────────── 9       at the right finger
    drop(2)  ·  ·                     one cut through F + 1: O(log n)
"""

from __future__ import annotations

from typing import ClassVar, cast

from sash.aggregators.augmented_b_tree import AugmentedBTree
from sash.aggregators.base import Aggregator, State
from sash.aggregators.btree import BTreeRanges
from sash.aggregators.catalogue import CATALOGUE, IN_ORDER
from sash.aggregators.fiba import FiBA
from sash.aggregators.in_order import InOrder
from sash.monoids.algebra import noinline


class ByPosition(BTreeRanges):
    """A B-tree whose times are positions, with the methods of an in-order structure."""

    constants: ClassVar[tuple[str, ...]] = (*BTreeRanges.constants, "bulk")
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


BY_POSITION: dict[str, type[ByPosition]] = {
    "FiBA": FiBAByPosition,
    "AugmentedBTree": AugmentedBTreeByPosition,
}
"""The time-ordered structures, by their names in the catalogue."""


def sequential(name: str) -> type[InOrder]:
    """The class that runs a structure of the catalogue on ordered elements. Raises KeyError for another name."""
    return cast("type[InOrder]", BY_POSITION[name] if name in BY_POSITION else IN_ORDER[name].cls)


def catalogue_name(structure: type[Aggregator]) -> str:
    """The name in the catalogue of a structure's class, or of its base."""
    return next((cls.__name__ for cls in structure.__mro__ if cls.__name__ in CATALOGUE), structure.__name__)
