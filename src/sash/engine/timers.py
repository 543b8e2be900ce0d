"""Timers: which slots have something due, found without a look at all of them.

    slots    │ 256 slots │ 256 slots │ 256 slots │ …        the timer of each
    least    │    12     │    —      │    40     │          the least of each block, or below it
    soonest  12                                             the least of all, or below it

Only blocks whose least timer has come are looked at; setting a timer lowers the least of its block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.engine.slot_table import SlotTable
from sash.kernels.loops.live_kernel import call_loop
from sash.kernels.loops.slot_loops import DUE, due_slots, set_timers, settle_rows

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
BITS = 8

_NONE = np.zeros(0, np.int64)
_NOBODY = np.zeros(0, np.bool_)


class Timers:
    """The timers of all slots, in the column DUE of their times."""

    def __init__(self, table: SlotTable, numbers: np.dtype[Any]) -> None:
        self.table, self.kind = table, numbers.str
        self.never: Any = np.iinfo(np.int64).max if numbers.kind == "i" else np.inf
        self.least = np.zeros(0, numbers)
        self.soonest: Any = self.never
        self.looked_at = 0
        """How many slots were looked at so far, to find those that are due."""
        self._never = int(self.never) if numbers.kind == "i" else float(self.never)
        self._scalar = int if numbers.kind == "i" else float
        self._no_time, self._time = np.zeros(0, numbers), np.zeros(1, numbers)

    def settle(
        self,
        slots: Ints,
        due: NDArray[Any],
        ever: Flags,
        when: NDArray[Any],
        there: Flags,
        now: Any,
        over: Flags | None,
    ) -> Ints:
        """Set the timers of slots, each once, to `due` where there is one ever, or to when it is not needed any more.

        Returns the slots that are gone: those that are over, or not needed at the watermark `now`.
        """
        if not len(slots):
            return _NONE
        *rest, gone = self._arguments(slots, now, over)
        count, soonest = call_loop(set_timers, self.kind, (slots, due, ever, when, there, *rest, gone))
        self.soonest = min(self.soonest, soonest)
        return gone[:count]

    def settle_rows(self, slots: Ints, windows: Any, reach: Any, now: Any, over: Flags | None) -> tuple[Ints, Ints]:
        """The same for slots whose rows are needed for a time, and no longer; what is older is given up.

        `windows` are the heads and the columns of the windows' starts. Returns the slots whose rings are far too large,
        and those that are gone.
        """
        if not len(slots):
            return _NONE, _NONE
        heads, columns = windows
        sparse = np.empty(len(slots), np.int64)
        *rest, gone = self._arguments(slots, now, over)
        arguments = (slots, heads, columns, sparse, reach, *rest, gone)
        wasted, count, soonest = call_loop(settle_rows, self.kind, arguments)
        self.soonest = min(self.soonest, soonest)
        return sparse[:wasted], gone[:count]

    def _arguments(self, slots: Ints, now: Any, over: Flags | None) -> tuple[Any, ...]:
        """What the loops that set timers share: which slots are over, the watermark, the timers, room for results."""
        if len(self.least) != (self.table.capacity >> BITS) + 1:
            self.rebuild()
        at = self._no_time
        if now is not None:
            at = self._time
            at[0] = now
        stamps, gone = self.table.wide["stamps"], np.empty(len(slots), np.int64)
        return _NOBODY if over is None else over, at, self._never, stamps, self.least, BITS, gone

    def lowered(self, slots: Ints, due: NDArray[Any]) -> None:
        """The timers of slots have changed."""
        if len(self.least) != (self.table.capacity >> BITS) + 1:
            self.rebuild()
        elif len(slots):
            np.minimum.at(self.least, slots >> BITS, due)
            self.soonest = min(self.soonest, due.min().item())

    def rebuild(self) -> None:
        """Find the least timers anew: slots have new numbers, or there are more of them."""
        least = np.full((self.table.capacity >> BITS) + 1, self.never, self.least.dtype)
        everyone = self.table["stamps"][:, DUE]
        np.minimum.at(least, np.arange(len(everyone)) >> BITS, everyone)
        self.soonest = least.min().item()
        self.least = least

    def due(self, now: Any) -> Ints:
        """The slots whose timer is at most `now`."""
        if len(self.least) != (self.table.capacity >> BITS) + 1:
            self.rebuild()
        if now < self.soonest:
            return _NONE
        blocks = np.flatnonzero(self.least <= now)
        found = np.empty(len(blocks) << BITS, np.int64)
        self.looked_at += len(found)
        stamps = self.table.wide["stamps"]
        arguments = (blocks, self.least, stamps, self._scalar(now), self._never, BITS, found)
        count = call_loop(due_slots, self.kind, arguments)
        self.soonest = self.least.min().item()
        return found[:count]

    @property
    def next(self) -> Any:
        """The least timer; None if there is none. A block is looked at again only if its least was raised."""
        if len(self.least) != (self.table.capacity >> BITS) + 1:
            self.rebuild()
        timers = self.table["stamps"][:, DUE]
        while (before := self.least.min().item()) != self.never:
            block = int(self.least.argmin())
            self.looked_at += 1 << BITS
            found = self.least[block] = timers[block << BITS : (block + 1) << BITS].min(initial=self.never)
            if found == before:
                return before
        return None
