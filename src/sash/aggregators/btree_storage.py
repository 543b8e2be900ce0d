"""The storage of the trees: rows of slots by the number of a node.

    rows   { 0: [t t t · · · · ·],  1: [t · · · · · · ·],  7: [t t t t t · · ·] }
             └ node                                        └ five of eight slots in use

A row is made when its node comes into use and dropped when the node is given up, so memory follows the tree both ways;
the number of a dropped node is forgotten. Compiled code has rows of fixed width in raw memory under the same names
(`kernels/columns.py`). It drops nothing: there, a node that is given up is the next to be taken.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")

BACK = 4
"""How many nodes that were given up in bulk an operation gives back."""


class NodePool(Generic[Item]):
    """Rows of slots, addressed by node and place."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = {}

    def __getitem__(self, key: tuple[int, int]) -> Item:
        node, place = key
        return self.rows[node][place]  # type: ignore[no-any-return]

    def __setitem__(self, key: tuple[int, int], value: Item) -> None:
        node, place = key
        self.rows[node][place] = value

    def open(self, node: int, width: int) -> None:
        """A node comes into use: a row of empty slots."""
        self.rows[node] = [None] * width

    def close(self, node: int) -> None:
        """A node is given up."""
        del self.rows[node]

    def forget(self, node: int, place: int) -> None:
        """Let go of what a slot holds. It is written before it is read again."""
        self.rows[node][place] = None

    def back(self) -> int:
        """How many nodes an operation gives back; none in compiled code, which takes them again instead."""
        return BACK

    def copy(self) -> Self:
        """The same values in rows of their own."""
        twin = type(self)()
        twin.rows = {node: row.copy() for node, row in self.rows.items()}
        return twin


class Times(NodePool[Any]):
    """A time a slot; compiled, a column of 64-bit integers or floats."""

    __slots__ = ()


class States(NodePool[Any]):
    """An aggregate a slot."""

    __slots__ = ()


class Links(NodePool[int]):
    """An integer a slot."""

    __slots__ = ()


class Aggs:
    """One aggregate a node."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}

    def __getitem__(self, node: int) -> Any:
        return self.rows[node]

    def __setitem__(self, node: int, value: Any) -> None:
        self.rows[node] = value

    def close(self, node: int) -> None:
        """A node is given up."""
        self.rows.pop(node, None)

    def copy(self) -> Self:
        """The same values in memory of their own."""
        twin = type(self)()
        twin.rows = self.rows.copy()
        return twin
