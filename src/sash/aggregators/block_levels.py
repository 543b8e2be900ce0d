"""Aggregates of aligned blocks by level and number: the storage of structures with a tree or a forest.

    level 2   [ 0 1 2 3 ]             [ 4 5 6 7 ]
    level 1   [ 0 1 ] [ 2 3 ]         [ 4 5 ] [ 6 7 ]
    level 0   [0] [1] [2] [3]         [4] [5] [6] [7]        positions

`levels[l, j]` is the aggregate of the positions from j·2^l up to (j + 1)·2^l. Two neighbours 2k and 2k + 1 are
the pair whose parent is k on the level above. Compiled code has a ring per level under the same names.

`Levels` keeps the blocks in memory, `StoredLevels` (`stored_levels.py`) most of them in a key-value store.
"""

from __future__ import annotations

from typing import Any, Self

from sash.aggregators.queue import Queue

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
