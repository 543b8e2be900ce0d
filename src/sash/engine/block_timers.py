"""Timers of slots in blocks: which are due is found without a look at all of them.

    due      │ 256 slots │ 256 slots │ 256 slots │ …        the timer of each
    least    │    12     │    —      │    40     │          the least of each block, or below it
    soonest  12                                             the least of all, or below it

Setting a timer lowers the least of its block; raising one leaves it, and the next look at the block finds it anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.engine.atomic import all_at_once, attributes

Ints = NDArray[np.int64]

BITS = 8

_NONE = np.zeros(0, np.int64)


class BlockTimers:
    """The timers of slots.

    >>> timers = BlockTimers(np.dtype(np.int64))
    >>> timers.grow(1000)
    >>> timers.set(np.array([3, 700]), np.array([12, 40]))
    >>> timers.fired(39).tolist(), timers.looked_at, timers.next
    ([3], 256, 12)
    """

    def __init__(self, numbers: np.dtype[Any]) -> None:
        self.never: Any = np.iinfo(np.int64).max if numbers.kind == "i" else np.inf
        self.due = np.zeros(0, numbers)
        self.least = np.zeros(0, numbers)
        self.soonest: Any = self.never
        self.looked_at = 0
        """How many slots were looked at so far."""

    def grow(self, capacity: int) -> None:
        """Make room for so many slots."""
        blocks = (capacity >> BITS) + 1
        due = np.full(blocks << BITS, self.never, self.due.dtype)
        due[: len(self.due)] = self.due
        least = np.full(blocks, self.never, self.due.dtype)
        least[: len(self.least)] = self.least
        all_at_once(attributes(self, due=due, least=least))

    def set(self, slots: Ints, due: NDArray[Any]) -> None:
        """Set the timers of slots."""
        if len(slots):
            np.minimum.at(self.least, slots >> BITS, due)
            self.soonest = min(self.soonest, due.min().item())
            self.due[slots] = due

    def clear(self, slots: Ints) -> None:
        """Nothing is due of these slots any more."""
        self.due[slots] = self.never

    def fired(self, now: Any) -> Ints:
        """The slots whose timers are at most `now`."""
        if now is None or now < self.soonest:
            return _NONE
        blocks = np.flatnonzero(self.least <= now)
        timers = self._look(blocks)
        self.soonest = self.least.min().item()
        block, place = np.nonzero((timers <= now) & (timers < self.never))
        return (blocks[block] << BITS) + place

    @property
    def next(self) -> Any:
        """The least timer; None if there is none. A block is looked at again only if its least was raised."""
        while len(self.least):
            block = np.array([self.least.argmin()])
            before = self.least[block].item()
            if before == self.never:
                break
            if self._look(block).min() == before:
                return before
        return None

    def _look(self, blocks: Ints) -> NDArray[Any]:
        """The timers of blocks, a row each, whose least are known from now on."""
        timers: NDArray[Any] = self.due.reshape(-1, 1 << BITS)[blocks]
        self.looked_at += timers.size
        self.least[blocks] = timers.min(axis=1)
        return timers

    @property
    def nbytes(self) -> int:
        """The memory of the timers."""
        return self.due.nbytes + self.least.nbytes
