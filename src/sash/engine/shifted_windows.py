"""Starts and ends of shifted windows over the rows of slots.

    rows               · · · · · · · ▼ · · · ·
    Count(4, shift=-2)     └─────┘                    ends before its row
    Count(5, shift=2)            └─────────┘          ends after it

Both ends never decrease from one row of a key to the next, so a search continues from where the last one stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.engine.arena import Arena
from sash.engine.time_numbers import MOST_ROWS, moved_bounds, moved_times
from sash.kernels.loops.array_types import Ints, Numbers
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.window_loops import shifted_rows, shifted_times
from sash.plan.bound_query import WindowSpec


class PlacedAt(NamedTuple):
    """Rows with results: their slots, positions and times, and the elements of their keys that windows may hold."""

    slots: Ints
    pos: Ints
    time: Numbers
    begin: Ints
    stops: Ints


class ShiftedWindow:
    """A shifted Time or Count window over an arena; heads have its last start and, for Time, its last end."""

    def __init__(self, window: WindowSpec, arena: Arena, start: int, end: int) -> None:
        self.window, self.arena, self.columns = window, arena, (start, end)
        self.behind, self.ahead = (int(min(max(by, -MOST_ROWS), MOST_ROWS)) for by in (window.behind, window.shift))

    def ranges(self, rows: PlacedAt) -> tuple[Ints, Ints]:
        """The elements [lo, hi) of the windows of rows that are in order within each slot."""
        heads, count = self.arena.heads, len(rows.slots)
        los, his = np.empty(count, np.int64), np.empty(count, np.int64)
        if self.window.kind == "count":
            given = (rows.slots, rows.pos, rows.begin, rows.stops, self.behind, self.ahead)
            call_loop(shifted_rows, "", (*given, heads, self.columns[0], los, his))
            return los, his
        values = self.arena.columns["time"]
        bounds = (rows.begin, rows.stops, *moved_bounds(self.window, values.dtype))
        arguments = (rows.slots, *moved_times(self.window, rows.time), *bounds, heads, self.columns, values, los, his)
        call_loop(shifted_times, values.dtype.str, arguments)
        return los, his
