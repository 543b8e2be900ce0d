"""Timers: find the slots that are due without scanning all of them.

    slots    │ 256 slots │ 256 slots │ 256 slots │ …        the timer of each
    least    │    12     │    —      │    40     │          a lower bound of each block
    soonest  12                                             a lower bound of all

Only blocks whose bound is due are scanned. Setting a timer lowers the bound of its block; raising one does not change
it, and the next scan of the block updates it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.columns.time_numbers import Watermark, latest
from sash.engine.keyed.slot_table import SlotTable
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, Numbers, enlarged
from sash.kernels.loops.bound_kernel import Ring
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.slot_loops import DUE
from sash.kernels.loops.timer_loops import due_slots, set_timers, settle_rows
from sash.plan.time_axis import Number

BITS = 8


class BlockTimers:
    """The timers of slots, in a column of an array with a row for each slot.

    >>> timers = BlockTimers(np.dtype(np.int64))
    >>> timers.grow(1000)
    >>> timers.set(np.array([3, 700]), np.array([12, 40]))
    >>> timers.due(39).tolist(), timers.scanned, timers.next
    ([3], 256, 12)
    """

    column = 0

    def __init__(self, numbers: np.dtype[Any]) -> None:
        self.kind, self.never = numbers.str, latest(numbers)
        self.least = np.zeros(0, numbers)
        self.soonest: Number = self.never
        self.scanned = 0
        """The number of slots scanned so far."""
        self._scalar = int if numbers.kind == "i" else float
        self._rows = np.zeros((0, 1), numbers)

    @property
    def rows(self) -> Numbers:
        """The array that holds the timers."""
        return self._rows

    @property
    def times(self) -> Numbers:
        """The timer of each slot."""
        return self.rows[:, self.column]

    def grow(self, capacity: int) -> None:
        """Reserve space for this many slots."""
        self._rows = enlarged(np.full((capacity, 1), self.never, self._rows.dtype), self._rows)

    def set(self, slots: Ints, due: Numbers) -> None:
        """Set the timers of slots."""
        self.lowered(slots, due)
        self.times[slots] = due

    def lowered(self, slots: Ints, due: Numbers) -> None:
        """Lower the bounds of blocks to timers `due` that the caller sets."""
        self._follow()
        if len(slots):
            np.minimum.at(self.least, slots >> BITS, due)
            self.soonest = min(self.soonest, due.min().item())

    def clear(self, slots: Ints) -> None:
        """Remove the timers of slots."""
        self.times[slots] = self.never

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return len(self._rows)

    def _follow(self) -> None:
        """Add bounds for new slots, which have no timers."""
        count = (self.capacity >> BITS) + 1
        if len(self.least) < count:
            least = np.full(max(2 * len(self.least), count), self.never, self.least.dtype)
            least[: len(self.least)] = self.least
            self.least = least

    def rebuild(self) -> None:
        """Recompute the bounds: slots were renumbered or added."""
        times = self.times
        least = np.full((len(times) >> BITS) + 1, self.never, self.least.dtype)
        np.minimum.at(least, np.arange(len(times)) >> BITS, times)
        self.soonest = least.min().item()
        self.least = least

    def due(self, now: Watermark) -> Ints:
        """The slots whose timer is at most `now`; None: no slots."""
        self._follow()
        if now is None or now < self.soonest:
            return NO_INTS
        blocks = np.flatnonzero(self.least <= now)
        found = np.empty(len(blocks) << BITS, np.int64)
        self.scanned += len(found)
        limits = self._scalar(now), self._scalar(self.never)
        count = call_loop(due_slots, self.kind, (blocks, self.least, self.rows, self.column, *limits, BITS, found))
        self.soonest = self.least.min().item()
        return found[:count]

    @property
    def next(self) -> Number | None:
        """The least timer; None if there is none. A block is scanned again only if its least timer was raised."""
        self._follow()
        times = self.times
        while (before := self.least.min().item()) != self.never:
            block = int(self.least.argmin())
            self.scanned += 1 << BITS
            found = self.least[block] = times[block << BITS : (block + 1) << BITS].min(initial=self.never)
            if found == before:
                return before
        return None

    @property
    def nbytes(self) -> int:
        """The memory of the timers."""
        return self._rows.nbytes + self.least.nbytes


class Timers(BlockTimers):
    """The timers of all slots of a slot table, in the column DUE of their times."""

    column = DUE

    def __init__(self, table: SlotTable, numbers: np.dtype[Any]) -> None:
        super().__init__(numbers)
        self.table = table
        self._no_time, self._time = np.zeros(0, numbers), np.zeros(1, numbers)

    @property
    def rows(self) -> Numbers:
        return self.table.wide["stamps"]

    @property
    def capacity(self) -> int:
        return self.table.capacity

    def settle(
        self, slots: Ints, due: tuple[Numbers, Flags], expiry: tuple[Numbers, Flags], now: Watermark, over: Flags | None
    ) -> Ints:
        """Set the timers of distinct slots: to when a result is due, or to when the slot expires.

        `due` and `expiry` are times, each with flags whether there is one. Returns the slots that expire: those that
        are `over`, or not needed at the watermark `now`.
        """
        if not len(slots):
            return NO_INTS
        *rest, gone = self._arguments(slots, now, over)
        count, soonest = call_loop(set_timers, self.kind, (slots, *due, *expiry, *rest, gone))
        self.soonest = min(self.soonest, soonest)
        return gone[:count]

    def settle_rows(
        self,
        slots: Ints,
        windows: tuple[Ring, tuple[int, int]],
        reach: tuple[Number, Number, Number],
        now: Watermark,
        over: Flags | None,
    ) -> tuple[Ints, Ints]:
        """The same for slots whose rows are needed for the time `reach`; older rows are evicted.

        `windows`: the ring, and the range of columns of the heads with the windows' starts. Returns the slots with
        memory to free, and those that expire.
        """
        if not len(slots):
            return NO_INTS, NO_INTS
        ring, columns = windows
        sparse = np.empty(len(slots), NO_INTS.dtype)
        *rest, gone = self._arguments(slots, now, over)
        arguments = (slots, ring, columns, sparse, reach, *rest, gone)
        wasted, count, soonest = call_loop(settle_rows, self.kind, arguments)
        if soonest < self.soonest:
            self.soonest = soonest
        return sparse[:wasted], gone[:count]

    def _arguments(self, slots: Ints, now: Watermark, over: Flags | None) -> tuple[Any, ...]:
        """The common arguments of the loops that set timers: ended slots, the watermark, timers, and output arrays."""
        self._follow()
        at = self._no_time
        if now is not None:
            at = self._time
            at[0] = now
        gone = np.empty(len(slots), NO_INTS.dtype)
        return NO_FLAGS if over is None else over, at, self.never, self.table.wide["stamps"], self.least, BITS, gone
