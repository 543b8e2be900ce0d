"""The storage of the structures: slots by position, blocks by level and number, rows by node.

Queue and Ints have slots by absolute position, in fixed chunks:

    chunks   {  7: [· · · v v v v v],  8: [v v v v v v v v],  9: [v v · · · · · ·] }
    positions             ▲ oldest                                  ▲ youngest

Reading, writing and dropping a slot take constant time in the worst case: a chunk is created when its first slot is
written and dropped with its last, nothing is copied, and memory grows and shrinks with the window.

Levels has the aggregates of aligned blocks, for structures with a tree or a forest:

    level 2   [ 0 1 2 3 ]             [ 4 5 6 7 ]
    level 1   [ 0 1 ] [ 2 3 ]         [ 4 5 ] [ 6 7 ]
    level 0   [0] [1] [2] [3]         [4] [5] [6] [7]        positions

`levels[l, j]` is the aggregate of the positions from j·2^l up to (j + 1)·2^l. Two neighbours 2k and 2k + 1 are the pair
whose parent is k on the level above. `Levels` keeps the blocks in memory, `StoredLevels` (`stored_levels.py`) most of
them in a key-value store.

Times, States, Links and Aggs are those of the B-trees, by the number of a node:

    rows   { 0: [t t t · · · · ·],  1: [t · · · · · · ·],  7: [t t t t t · · ·] }
             └ node                                        └ five of eight slots in use

A row is created when its node is allocated and dropped when the node is freed; the number of a dropped node is not
reused.

Compiled code has the same methods on raw memory (`kernels/jit/numba_arrays.py`): rings of fixed capacity, and rows of
fixed width, none of which it drops.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

# --- Queues ---


BITS = 7
SIZE = 1 << BITS
MASK = SIZE - 1


class Queue:
    """Slots addressed by an absolute position, dropped at either end."""

    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: dict[int, list[Any]] = {}

    def __getitem__(self, position: int) -> Any:
        return self.chunks[position >> BITS][position & MASK]

    def __setitem__(self, position: int, value: Any) -> None:
        chunk = self.chunks.get(position >> BITS)
        if chunk is None:
            chunk = self.chunks[position >> BITS] = [None] * SIZE
        chunk[position & MASK] = value

    def drop_front(self, position: int) -> None:
        """Drop the lowest slot in use."""
        if position & MASK == MASK:
            del self.chunks[position >> BITS]
        else:
            self.chunks[position >> BITS][position & MASK] = None

    def drop_back(self, position: int) -> None:
        """Drop the highest slot in use."""
        if position & MASK == 0:
            del self.chunks[position >> BITS]
        else:
            self.chunks[position >> BITS][position & MASK] = None

    def drop_some(self, start: int, stop: int) -> int:
        """Drop the slots from `start` up to `stop` that are in the first chunk; all before must have been dropped.

        Returns the first slot that is not dropped. Slots that were never written count as dropped.
        """
        stop = min(stop, (start | MASK) + 1)
        if stop & MASK == 0:
            self.chunks.pop(start >> BITS, None)
        elif (chunk := self.chunks.get(start >> BITS)) is not None:
            chunk[start & MASK : stop & MASK] = [None] * (stop - start)
        return stop

    def drop_all(self) -> None:
        """Drop every slot."""
        self.chunks.clear()

    def forget(self, position: int) -> None:
        """Release the value of a slot. The slot stays in use: it is written before it is read again."""
        self.chunks[position >> BITS][position & MASK] = None

    def slots(self) -> int:
        """The number of allocated slots, in use or not."""
        return SIZE * len(self.chunks)

    def copy(self) -> Self:
        """A copy with the same positions."""
        twin = type(self)()
        twin.chunks = {number: chunk.copy() for number, chunk in self.chunks.items()}
        return twin


class Ints(Queue):
    """A queue of integers (positions, lengths): compiled, a column of 64-bit integers."""

    __slots__ = ()


# --- Levels ---


UNUSED = -1
"""Marks a level without blocks."""


class Levels:
    """Blocks in memory: a queue of chunks per level.

    A block is written before it is read. A dropped block is never read or written again. The first block of a level
    may have any number; later ones have greater numbers.

    `drop_before` takes constant time for any number of blocks: it only marks them, and each write frees a few chunks.
    A single block is freed at once.
    """

    __slots__ = ("done", "kept", "queues", "reclaimable")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.done: list[int] = []
        """By level: all blocks below this number are dropped."""
        self.kept: list[int] = []
        """By level: the memory of all blocks below this number is freed."""
        self.reclaimable: list[int] = []
        """The levels with dropped blocks whose memory is not freed yet."""

    def __getitem__(self, key: tuple[int, int]) -> Any:
        level, number = key
        return self.queues[level][number]

    def __setitem__(self, key: tuple[int, int], value: Any) -> None:
        level, number = key
        while level >= len(self.queues):
            self.queues.append(Queue())
            self.done.append(UNUSED)
            self.kept.append(UNUSED)
        if self.done[level] == UNUSED:
            self.done[level] = self.kept[level] = number
        self.queues[level][number] = value
        if self.reclaimable:
            self._free_some()

    def drop_before(self, level: int, number: int) -> None:
        """Drop all blocks of the level below `number`, whether they were written or not."""
        if level < len(self.queues) and number > self.done[level] != UNUSED:
            self.queues[level].drop_some(number - 1, number)
            if self.kept[level] == number - 1:
                self.kept[level] = number
            elif self.kept[level] == self.done[level]:
                self.reclaimable.append(level)
            self.done[level] = number
        if self.reclaimable:
            self._free_some()

    def _free_some(self) -> None:
        for _ in range(4):
            level = self.reclaimable[-1]
            self.kept[level] = self.queues[level].drop_some(self.kept[level], self.done[level])
            if self.kept[level] == self.done[level]:
                self.reclaimable.pop()
                if not self.reclaimable:
                    return

    def drop_all(self) -> None:
        """Drop every block."""
        for stored in (self.queues, self.done, self.kept, self.reclaimable):
            stored.clear()

    def slots(self) -> int:
        """The number of allocated slots, in use or not."""
        return sum(queue.slots() for queue in self.queues)

    def copy(self) -> Self:
        """An independent copy."""
        twin = type(self)()
        twin.queues = [queue.copy() for queue in self.queues]
        twin.done, twin.kept, twin.reclaimable = self.done.copy(), self.kept.copy(), self.reclaimable.copy()
        return twin


# --- Nodes ---


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
