"""Aggregates of aligned blocks, by level and number: the storage of the structures that keep a tree or a forest.

    level 2   [ 0 1 2 3 ]             [ 4 5 6 7 ]
    level 1   [ 0 1 ] [ 2 3 ]         [ 4 5 ] [ 6 7 ]
    level 0   [0] [1] [2] [3]         [4] [5] [6] [7]        positions

`levels[l, j]` is the aggregate of the positions from j·2^l up to (j + 1)·2^l. Two neighbours 2k and 2k + 1 are
the pair whose parent is k on the level above. Compiled code has a ring a level under the same names.

`Levels` keeps the blocks in memory, `StoredLevels` (`stored_levels.py`) most of them in a key-value store.
"""

from __future__ import annotations

from typing import Any, Self

from sash.aggregators.queue import Queue

UNUSED = -1
"""Up to where a level is done with that has no block yet."""


class Levels:
    """Blocks in memory: a queue of chunks a level.

    A block is written before it is read, and never written or read again once it is done with. The first block that
    is written to a level may have any number; none below it follows.

    What many blocks held goes back a few chunks a call, here and with each write, so that giving up any number
    of blocks takes constant time. A single block goes at once.
    """

    __slots__ = ("done", "kept", "owing", "queues")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.done: list[int] = []
        """By level: all blocks below this number are done with."""
        self.kept: list[int] = []
        """By level: all slots below this number are given back."""
        self.owing: list[int] = []
        """The levels that keep what is done with."""

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
        if self.owing:
            self._give_back()

    def drop_before(self, level: int, number: int) -> None:
        """All blocks of the level below `number` are done with, whether they were written or not."""
        if level < len(self.queues) and number > self.done[level] != UNUSED:
            self.queues[level].drop_some(number - 1, number)
            if self.kept[level] == number - 1:
                self.kept[level] = number
            elif self.kept[level] == self.done[level]:
                self.owing.append(level)
            self.done[level] = number
        if self.owing:
            self._give_back()

    def _give_back(self) -> None:
        for _ in range(4):
            level = self.owing[-1]
            self.kept[level] = self.queues[level].drop_some(self.kept[level], self.done[level])
            if self.kept[level] == self.done[level]:
                self.owing.pop()
                if not self.owing:
                    return

    def drop_all(self) -> None:
        """Give up every block."""
        for stored in (self.queues, self.done, self.kept, self.owing):
            stored.clear()

    def slots(self) -> int:
        """How many slots are allocated, in use or not."""
        return sum(queue.slots() for queue in self.queues)

    def copy(self) -> Self:
        """The same blocks, in memory of their own."""
        twin = type(self)()
        twin.queues = [queue.copy() for queue in self.queues]
        twin.done, twin.kept, twin.owing = self.done.copy(), self.kept.copy(), self.owing.copy()
        return twin
