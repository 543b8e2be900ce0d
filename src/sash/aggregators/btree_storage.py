"""The storage of the B-trees: rows of slots by the number of a node.

    rows   { 0: [t t t · · · · ·],  1: [t · · · · · · ·],  7: [t t t t t · · ·] }
             └ node                                        └ five of eight slots in use

A row is created when its node is allocated and dropped when the node is freed, so memory grows and shrinks with the
tree; the number of a dropped node is not reused. Compiled code has rows of fixed width in raw memory with the same
methods (`kernels/jit/numba_arrays.py`). It drops no row: a freed node is reused by the next allocation.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")

BACK = 4
"""The number of free nodes whose memory an operation releases."""


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
        """Allocate a node: a row of empty slots."""
        self.rows[node] = [None] * width

    def close(self, node: int) -> None:
        """Free a node."""
        del self.rows[node]

    def forget(self, node: int, place: int) -> None:
        """Release the value of a slot. It is written before it is read again."""
        self.rows[node][place] = None

    def back(self) -> int:
        """The number of nodes whose memory an operation releases; 0 in compiled code, which reuses them instead."""
        return BACK

    def copy(self) -> Self:
        """A copy of the rows."""
        twin = type(self)()
        twin.rows = {node: row.copy() for node, row in self.rows.items()}
        return twin


class Times(NodePool[Any]):
    """A time in each slot; compiled, a column of 64-bit integers or floats."""

    __slots__ = ()


class States(NodePool[Any]):
    """An aggregate in each slot."""

    __slots__ = ()


class Links(NodePool[int]):
    """An integer in each slot."""

    __slots__ = ()


class Aggs:
    """One aggregate for each node."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}

    def __getitem__(self, node: int) -> Any:
        return self.rows[node]

    def __setitem__(self, node: int, value: Any) -> None:
        self.rows[node] = value

    def close(self, node: int) -> None:
        """Free a node."""
        self.rows.pop(node, None)

    def copy(self) -> Self:
        """A copy."""
        twin = type(self)()
        twin.rows = self.rows.copy()
        return twin
