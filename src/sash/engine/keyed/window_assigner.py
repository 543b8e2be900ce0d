"""Window assigners: assign each row to an element of its slot, and each window to a range of elements.

    assigner         elements of a slot                windows
    RowAssigner      its rows                          Time, Count, Delta and Policy that end at a row; Count at slides
    AheadAssigner    its rows                          Time and Count that end after their row
    PaneAssigner     partials between slide edges      Time with slides in time
    CountedPanes     partials between row numbers      Count with slides in rows
    SlidRows         its rows                          Time with slides in time that have an order statistic
    CountedSlidRows  its rows                          Count with slides in rows that have one
    RunningAssigner  one partial that only grows       Session, Punctuation, Lifetime

An assigner handles coordinates only: times, row numbers, edges. `live_aggregate` computes the aggregates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sash.columns.time_numbers import Watermark, saturating, time_type
from sash.engine.keyed.arena import Arena
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepRows, WindowRanges
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.kernels.loops.bound_kernel import Elements
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.ring_loops import BACK, HEAD, locate
from sash.kernels.loops.slot_loops import LAST
from sash.kernels.loops.timer_loops import needed_until, retain
from sash.kernels.loops.window_loops import NEVER
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.time_axis import Number
from sash.windows.rules import WindowRule

NO_LIMIT = NEVER - 1
"""The limit of slides if all of them are due."""


class Ending(NamedTuple):
    """Slots whose results are due up to a watermark; None: all results, and no row will follow."""

    slots: Ints
    now: Watermark


class StepScope(NamedTuple):
    """The slots that a step changes, the watermarks up to which their results are due, and the slots that end."""

    slots: Ints
    endings: Sequence[Ending]
    done: Ints | None = None
    """None: no slot ends, unless it expires."""


@dataclass(slots=True)
class AssignedRows(ABC):
    """The rows of a step, assigned to elements. Each assigner adds what its results need."""

    slots: Ints
    """By row: its slot."""
    places: Ints
    """The place of its element in the arena; empty for windows that only grow."""
    fresh: Flags
    """Whether it begins a pane, or a window that only grows; empty where rows are elements."""

    @abstractmethod
    def results(self, rows: StepRows, endings: Sequence[Ending]) -> list[WindowRanges]:
        """The results that the rows and the watermark make due, window by window, in order within each slot."""


class WindowAssigner(ABC):
    """The base of assigners. `name` is that of its arrays in the slot table."""

    elements: ClassVar[Elements]
    slides_in_time: ClassVar[bool] = False
    """Whether the watermark alone makes its slides due."""

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        self.bound_query, self.table, self.name = bound_query, table, name
        self.places = tuple(places)
        self.windows = [bound_query.windows[place] for place in places]
        self.numbers = time_type(bound_query)
        self.kind = self.numbers.str
        self.arena: Arena | None = None

    # ---- implemented by each assigner ----

    @abstractmethod
    def assign(self, rows: StepRows) -> AssignedRows:
        """Assign rows to elements. Raises ValueError, naming the row, for an invalid one."""

    @abstractmethod
    def expiry(self, slots: Ints, expiry: Numbers, expires: Flags) -> None:
        """Raise `expiry` to the time at which slots expire; clear `expires` for slots that never do."""

    def timers(self, slots: Ints, due: Numbers, is_due: Flags) -> None:  # noqa: B027 (most have nothing to do)
        """Lower `due` to the time at which results of slots are due without a further row, and set `is_due`."""

    def retain(self, slots: Ints) -> None:  # noqa: B027 (most have nothing to do)
        """Evict the elements of these slots that no window needs."""

    # ---- shared ----

    def last(self, slots: Ints) -> Numbers:
        """The time of each slot's last row."""
        return self.table["stamps"][slots, LAST]

    def needed(self, slots: Ints, size: Number, expiry: Numbers) -> None:
        """Raise `expiry` to the time of each slot's last row plus `size`; integers saturate."""
        call_loop(needed_until, self.kind, (slots, self.table.wide["stamps"], *saturating(size, self.numbers), expiry))


def lower_due(due: Numbers, is_due: Flags, waits: Flags, end: Numbers) -> None:
    """Lower `due` to `end` where a result waits, and set `is_due`."""
    sooner = waits & (~is_due | (end < due))
    due[sooner] = end[sooner]
    is_due |= waits


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
        """Slots with memory to free."""

    def start_column(self, window: int) -> int:
        """The column with the start of a window."""
        return self.first + window

    def located(self, slots: Ints, pos: Ints) -> Ints:
        """The places of positions in the arena."""
        found = np.empty(len(slots), np.int64)
        call_loop(locate, "", (slots, pos, self.arena.ring, found))
        return found

    def retain(self, slots: Ints) -> None:
        sparse = np.empty(len(slots), np.int64)
        windows = self.first, self.first + len(self.places)
        count = call_loop(retain, "", (slots, self.arena.ring, *windows, sparse))
        self.sparse = sparse[:count]

    def shrink_later(self, sparse: Ints) -> None:
        """Let `shrink` free memory of these slots."""
        self.sparse = sparse

    def shrink(self) -> bool:
        """Free the memory that slots no longer need; only after the step."""
        if not len(self.sparse):
            return False
        sparse, self.sparse = self.sparse, self.sparse[:0]
        self.arena.trim(sparse)
        return True

    def backs(self, slots: Ints) -> Ints:
        """The position after each slot's last element."""
        return self.arena.heads[slots, BACK]


def emitting(window: WindowSpec, rows: StepRows) -> Ints | None:
    """The rows at which a window that slides by rows has a result; None: all."""
    if window.slide == "row":
        return None
    return np.flatnonzero((rows.ordinal + 1) % int(window.rule.every) == 0)


def limit(rule: WindowRule, now: Watermark, numbers: np.dtype[Any]) -> int:
    """The number of the last slide that is due at a watermark; None: all slides are due."""
    if now is None:
        return NO_LIMIT
    return int(rule.last_slide(np.array([now], numbers))[0])
