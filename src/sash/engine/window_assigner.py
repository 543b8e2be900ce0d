"""Window assigners: where each row goes among the elements of its slot, and over which elements each window lies.

    assigner         elements of a slot                windows
    RowAssigner      its rows                          Time, Count, Delta and Policy that end at a row; Count at slides
    PaneAssigner     partials between slide edges      Time with slides in time
    CountedPanes     partials between row numbers      Count with slides in rows
    RunningAssigner  one partial that only grows       Session, Punctuation, Lifetime

An assigner knows coordinates only: times, row numbers, edges. Aggregates are computed by `live_aggregate`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sash.engine import slide_grid
from sash.engine.arena import SMALL, Arena
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import Flags, Ints, Numbers, StepRows, WindowRanges
from sash.kernels.loops.live_kernel import Elements, call_loop
from sash.kernels.loops.live_loops import BACK, HEAD
from sash.kernels.loops.slot_loops import LAST, NEVER, locate, needed_until, retain
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
        self.numbers = np.dtype(np.int64 if bound_query.time is None or bound_query.time.kind == "int" else np.float64)
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


def saturating(size: Any, numbers: np.dtype[Any]) -> tuple[Any, Any, Any]:
    """A length to add to times, the greatest time that it can be added to, and what others become."""
    if numbers.kind == "f":
        return float(size), math.inf, math.inf
    size = int(min(size, slide_grid.LIMIT))
    return size, slide_grid.LIMIT - size, slide_grid.LIMIT


def later(time: Numbers, size: Any) -> Numbers:
    """time + size; integers saturate."""
    if time.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return time + size
    size = int(min(size, slide_grid.LIMIT))
    return np.where(time <= slide_grid.LIMIT - size, time + size, slide_grid.LIMIT)


def beyond(time: Numbers) -> Numbers:
    """The first time behind each; the greatest integer stays."""
    if time.dtype.kind == "f":
        return np.nextafter(time, np.inf)
    return time + (time < slide_grid.LIMIT)


def _bounded(span: WindowSpec) -> WindowSpec:
    """A window of more rows than there will ever be is one of 2**61."""
    size = min(span.size, 2**61) if span.kind == "count" and span.size is not None else span.size
    every = min(span.every, 2**61) if span.slide == "rows" and span.every is not None else span.every
    return replace(span, size=size, every=every)


def emitting(span: WindowSpec, rows: StepRows) -> Ints | None:
    """The rows at which a window that slides by rows has a result; None: all."""
    if span.slide == "row":
        return None
    return np.flatnonzero((rows.ordinal + 1) % int(span.every or 1) == 0)


def limit(span: WindowSpec, now: Any, numbers: np.dtype[Any]) -> int:
    """The last slide that is due at a watermark; None: there is no end."""
    if now is None:
        return NO_LIMIT
    return int(slide_grid.last_end(span, np.array([now], numbers), span.closed == "right")[0])
