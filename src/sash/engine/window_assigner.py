"""Window assigners: where each row goes among the elements of its slot, and over which elements each window lies.

    assigner         elements of a slot                windows
    RowAssigner      its rows                          Time, Count, Delta and Policy that end at a row; Count at slides
    PaneAssigner     partials between slide edges      Time with slides in time
    CountedPanes     partials between row numbers      Count with slides in rows
    RunningAssigner  one partial that only grows       Session, Punctuation, Lifetime

An assigner knows coordinates only: times, row numbers, edges. Aggregates are computed by `live_aggregate`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sash.engine import slide_grid
from sash.engine.arena import SMALL, Arena
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import StepRows, WindowRanges
from sash.engine.time_numbers import saturating, time_type
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.kernels.loops.live_kernel import Elements, call_loop
from sash.kernels.loops.live_loops import BACK, HEAD
from sash.kernels.loops.slot_loops import LAST, locate
from sash.kernels.loops.timer_loops import needed_until, retain
from sash.kernels.loops.window_loops import NEVER
from sash.plan.bound_query import BoundQuery, WindowSpec

NO_LIMIT = NEVER - 1
"""All slides are due."""


@dataclass(frozen=True)
class Ending:
    """Slots whose results are due up to a watermark; None: all of them, and no row will follow."""

    slots: Ints
    now: Any


class WindowAssigner(ABC):
    """What all assigners share. `name` is that of its arrays in the slot table."""

    elements: ClassVar[Elements]

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        self.bound_query, self.table, self.name = bound_query, table, name
        self.places = tuple(places)
        self.windows = [_bounded(bound_query.windows[place]) for place in places]
        self.numbers = time_type(bound_query)
        self.kind = self.numbers.str
        self.arena: Arena | None = None

    # ---- filled by each assigner ----

    @abstractmethod
    def assign(self, rows: StepRows) -> None:
        """Give the rows their places among the elements. Raises ValueError, naming the row, if one has none."""

    @abstractmethod
    def place(self, rows: StepRows) -> tuple[Any, ...]:
        """Slots and places of the assigned rows, as the loops of the aggregates take them."""

    @abstractmethod
    def results(self, rows: StepRows, endings: Sequence[Ending]) -> list[WindowRanges]:
        """The results that the rows and the watermark make due, window by window, in order within each slot."""

    @abstractmethod
    def expiry(self, slots: Ints, when: Numbers, there: Flags) -> None:
        """Raise `when` to the time from which on nothing of these slots is needed; say in `there` if there is none."""

    def timers(self, slots: Ints, due: Numbers, ever: Flags) -> None:  # noqa: B027 (most have nothing to do)
        """Lower `due` to when something of these slots is due without a further row, and say so in `ever`."""

    def retain(self, slots: Ints) -> None:  # noqa: B027 (most have nothing to do)
        """Give up the elements of these slots that no window needs any more."""

    # ---- shared ----

    def last(self, slots: Ints) -> Numbers:
        """The time of each slot's last row."""
        return self.table["stamps"][slots, LAST]

    def needed(self, slots: Ints, size: Any, when: Numbers) -> None:
        """Raise `when` to the time of each slot's last row plus `size`; integers saturate."""
        call_loop(needed_until, self.kind, (slots, self.table.wide["stamps"], *saturating(size, self.numbers), when))


def lower_due(due: Numbers, ever: Flags, waits: Flags, end: Numbers) -> None:
    """Lower `due` to `end` where something waits, and say so in `ever`."""
    sooner = waits & (~ever | (end < due))
    due[sooner] = end[sooner]
    ever |= waits


class ArenaAssigner(WindowAssigner):
    """An assigner whose elements lie in an arena; the heads have a column with the start of each window."""

    def __init__(
        self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str, more: Sequence[int]
    ) -> None:
        super().__init__(bound_query, places, table, name)
        self.arena: Arena = Arena(table, f"{name}.heads", [0] * len(places) + list(more))
        self.first = HEAD
        """The column of the first window's start."""
        self.sparse: Ints = np.zeros(0, np.int64)
        """Slots whose rings are far larger than what they hold."""

    def start_column(self, window: int) -> int:
        """The column with the start of a window."""
        return self.first + window

    def located(self, slots: Ints, pos: Ints) -> Ints:
        """Where positions of slots lie in the arena."""
        found = np.empty(len(slots), np.int64)
        call_loop(locate, "", (slots, pos, self.arena.heads, found))
        return found

    def retain(self, slots: Ints) -> None:
        sparse = np.empty(len(slots), np.int64)
        windows = self.first, self.first + len(self.places)
        count = call_loop(retain, "", (slots, self.arena.heads, *windows, SMALL, sparse))
        self.sparse = sparse[:count]

    def shrink(self) -> bool:
        """Move rings to smaller blocks that were found far too large, if any; not before the step is over."""
        if not len(self.sparse):
            return False
        sparse, self.sparse = self.sparse, self.sparse[:0]
        self.arena.reserve(sparse)
        return True

    def backs(self, slots: Ints) -> Ints:
        """The position behind each slot's last element."""
        return self.arena.heads[slots, BACK]


def _bounded(window: WindowSpec) -> WindowSpec:
    """A window of more rows than there will ever be is one of 2**61."""
    size = min(window.size, 2**61) if window.kind == "count" and window.size is not None else window.size
    every = min(window.every, 2**61) if window.slide == "rows" and window.every is not None else window.every
    return replace(window, size=size, every=every)


def emitting(window: WindowSpec, rows: StepRows) -> Ints | None:
    """The rows at which a window that slides by rows has a result; None: all."""
    if window.slide == "row":
        return None
    return np.flatnonzero((rows.ordinal + 1) % int(window.every or 1) == 0)


def limit(window: WindowSpec, now: Any, numbers: np.dtype[Any]) -> int:
    """The last slide that is due at a watermark; None: there is no end."""
    if now is None:
        return NO_LIMIT
    return int(slide_grid.last_end(window, np.array([now], numbers), window.closed == "right")[0])
