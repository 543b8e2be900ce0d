"""PaneAssigner: windows that end at slides, over panes: one element for the rows between two neighbouring edges.

    rows       · ·· ·   · ···   ·  · · ·
    panes      ├──────┼───┼──────┼───┼─────        cut where any window starts or ends
    windows    ├─────────────────┤
                          ├──────────────┤

Order statistics have no partials of bounded size: where a window has one, each row is a pane of its own, which lies
between the same edges (`SlidRows`, `CountedSlidRows`).

Edges of Time windows are times, edges of Count windows that slide in rows are row numbers. Rows are folded into their
pane in order, so any ⊕ is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sash.columns.arrow_arrays import all_true
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepRows, WindowRanges
from sash.engine.keyed.window_assigner import ArenaAssigner, AssignedRows, Ending, emitting, limit
from sash.kernels.loops.array_types import NO_FLAGS, Flags, Ints, Numbers
from sash.kernels.loops.bound_kernel import Elements
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.slot_loops import assign_panes
from sash.kernels.loops.window_loops import NEVER, bound_places, due_slides, next_slides
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.stores import PageError
from sash.windows import rules


class AskedSlides(NamedTuple):
    """Slots whose slides may be due: up to which slide, before which pane, and whether they restart."""

    slots: Ints
    limits: Ints
    backs: Ints
    restarts: bool


class DueSlides(NamedTuple):
    """Slides that are due: the index of each slot, its number, the pane after its last; by window its first pane."""

    entries: Ints
    numbers: Ints
    his: Ints
    los: Ints


@dataclass(slots=True)
class PanePositions(AssignedRows):
    """Rows in their panes."""

    assigner: PaneAssigner
    pos: Ints
    """The position of each row's pane in its slot."""
    begin: Ints
    """The position of the first pane since the key last restarted."""

    def results(self, rows: StepRows, endings: Sequence[Ending]) -> list[WindowRanges]:
        return self.assigner.results(rows, self, endings)


class PaneAssigner(ArenaAssigner):
    """Windows over panes in time."""

    elements: ClassVar[Elements] = "panes"
    slides_in_time: ClassVar[bool] = True

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        super().__init__(bound_query, places, table, name, [0, -NEVER] * len(places))
        self._capacities: dict[int, int] = {}
        """By window: the capacity for slides of one step, from the number in earlier steps."""
        self.arena.add("low", self.cut_type)
        table.add(f"{name}.low", self.cut_type, 0)
        grids: dict[Any, int] = {}
        known_of: list[int] = []
        for w, window in enumerate(self.windows):
            # the first slide of a pane depends on the ends of slides alone, so windows of equal slides have one column
            known = grids.setdefault((window.every, window.offset) if window.grid is None else ("calendar", w), w)
            known_of.append(known)
            if known == w:
                self.arena.add(("first", w), np.int64)
            else:
                self.arena.share(("first", w), ("first", known))
        self.of_grids = sorted(grids.values())
        """The windows with their own column of first slides; others share one of these."""
        by_first: dict[int, list[int]] = {}
        for w in range(len(self.windows)):
            by_first.setdefault(known_of[w], []).append(w)
        self.of_slide = [sorted(some, key=lambda w: -(self.windows[w].size or 0)) for some in by_first.values()]
        """The windows by their slides; of equal slides the longest first."""

    @property
    def cut_type(self) -> np.dtype[Any]:
        """The type of edges."""
        return self.numbers

    def coordinate(self, rows: StepRows) -> Numbers:
        """The coordinate of rows that edges are compared with."""
        return rows.time

    def assign(self, rows: StepRows) -> PanePositions:
        count = len(rows)
        cuts = rules.cuts([window.rule for window in self.windows], self.coordinate(rows))
        cuts = np.ascontiguousarray(cuts, self.cut_type)
        pos, begin, fresh = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.bool_)
        lows = self.table.wide[f"{self.name}.low"]
        single, heads = self.elements == "rows", self.arena.heads
        arguments = (rows.slots, rows.restarts, cuts, single, heads, lows, pos, begin, fresh)
        call_loop(assign_panes, self.cut_type.str, arguments)
        self.arena.reserve(rows.touched)
        at = self.located(rows.slots, pos)
        new = np.flatnonzero(fresh)
        self.describe(at[new], cuts[new], rows.time[new])
        return PanePositions(rows.slots, at, NO_FLAGS if single else fresh, self, pos, begin)

    def describe(self, places: Ints, cuts: Numbers, _times: Numbers) -> None:
        """Write the coordinates of new panes: their edges, and the times of their first rows."""
        self.arena.columns["low"][places] = cuts
        for w in self.of_grids:
            self.arena.columns["first", w][places] = self.windows[w].rule.last_end(cuts, strict=False) + 1

    def load_newest(self, slots: Ints, cuts: Numbers) -> None:
        """Load the edges of the newest panes of slots."""
        self.table[f"{self.name}.low"][slots] = cuts

    # ---- results ----

    def results(self, rows: StepRows, assigned: PanePositions, endings: Sequence[Ending]) -> list[WindowRanges]:
        """The results that are due, window by window."""
        found: dict[int, WindowRanges] = {}
        for members in self.of_slide:
            found |= self._slides(members, rows, assigned, endings)
        return [found[w] for w in range(len(self.windows))]

    def _slides(
        self, members: list[int], rows: StepRows, assigned: PanePositions, endings: Sequence[Ending]
    ) -> dict[int, WindowRanges]:
        """The slides of windows that differ only in size, the longest first: it has those of all others."""
        asked: list[AskedSlides] = []
        window = self.windows[members[0]]
        counts = rows.restarted
        if counts is not None:  # results of expired keys come first
            restarts = np.flatnonzero(rows.restarts)
            counts = counts[restarts]
            limits = window.rule.last_slide(rows.time[restarts])
            asked.append(AskedSlides(rows.slots[restarts], limits, assigned.pos[restarts], True))
        for ending in endings:
            limits = np.full(len(ending.slots), limit(window.rule, ending.now, self.numbers))
            asked.append(AskedSlides(ending.slots, limits, self.backs(ending.slots), False))
        parts = [self._due(members, one) for one in asked]
        restarted = None
        if counts is not None:
            first = counts[parts[0].entries] - 1
            others = [
                rows.restarted_of(one.slots[part.entries]) for one, part in zip(asked[1:], parts[1:], strict=True)
            ]
            restarted = np.concatenate([first, *others])
        slots = _joined([one.slots[part.entries] for one, part in zip(asked, parts, strict=True)])
        k, los = _joined([part.numbers for part in parts]), _joined([part.los for part in parts])
        his = _joined([part.his for part in parts])
        longest = WindowRanges(
            self.places[members[0]], slots, all_true(len(slots)), window.rule.starts(k),
            window.rule.ends(k), k, None, los[0], his, restarted=restarted, by_slide=True, all_on=True,
            every_lo=los[0],
        )  # fmt: skip
        return {w: self._shorter(w, longest, los[i]) if i else longest for i, w in enumerate(members)}

    def _shorter(self, w: int, longest: WindowRanges, los: Ints) -> WindowRanges:
        """The slides of a window, given the first panes at those of the longest."""
        assert longest.his is not None
        size, place, held = self.windows[w].size, self.places[w], los < longest.his
        if held.all():
            return replace(longest, window=place, starts=None, length=size, los=los, every_lo=los)
        at = np.flatnonzero(held)
        slots, ends, k, his = (of.take(at) for of in (longest.slots, longest.ends, longest.ident, longest.his))
        return WindowRanges(
            place, slots, all_true(len(at)), None, ends, k, None, los.take(at), his,
            restarted=None if longest.restarted is None else longest.restarted[at], by_slide=True, all_on=True,
            among=at, length=size, every_lo=los,
        )  # fmt: skip

    def _due(self, members: list[int], asked: AskedSlides) -> DueSlides:
        """The slides that are due of some slots, up to limits and before panes. Raises PageError for damaged state."""
        of, limits, backs, restarts = asked
        longest = members[0]
        grid_of = self._grid(longest, of, backs)
        columns = np.array([self.columns(w) for w in members])
        sizes = np.array([self.windows[w].size for w in members], self.cut_type)
        edges = self.arena.columns["low"], self.arena.columns["first", longest]
        found: list[DueSlides] = []
        first, capacity = 0, max(len(of) + 16, self._capacities.get(longest, 0))
        while first < len(of) or not found:
            out = (*(np.empty(capacity, np.int64) for _ in range(3)), np.empty((len(members), capacity), np.int64))
            arguments = (of, limits, backs, first, restarts, grid_of, sizes, self.arena.ring, columns, edges, out)
            first, count = call_loop(due_slides, self.cut_type.str, arguments)
            if first < 0:
                raise PageError(
                    "the state is damaged: a window has a slide that a longer one of the same slides has not"
                )
            found.append(DueSlides(out[0][:count], out[1][:count], out[2][:count], out[3][:, :count]))
            capacity = max(4 * capacity, 1 << 12)
        self._capacities[longest] = min(2 * sum(len(part.entries) for part in found), 1 << 20)
        return found[0] if len(found) == 1 else DueSlides(*(_joined(arrays) for arrays in zip(*found, strict=True)))

    def _grid(self, w: int, of: Ints, backs: Ints) -> tuple[Any, ...]:
        """The grid of a window for loops over slots with panes before the positions `backs`."""
        rule, heads = self.windows[w].rule, self.arena.heads
        if rule.calendar_grid is None:
            return rule.scalars(self.cut_type)
        start, _, number = self.columns(w)
        some = np.flatnonzero(heads[of, start] < backs)
        if not len(some):
            return rule.scalars(self.cut_type)
        first, last = self.located(of[some], heads[of[some], start]), self.located(of[some], backs[some] - 1)
        begun = heads[of[some], number]
        least = np.where(begun == -NEVER, self.arena.columns["first", w][first], begun).min()
        greatest = rule.last_start(self.arena.columns["low"][last].max(keepdims=True), strict=False)[0]
        return rule.scalars(self.cut_type, int(least), int(max(greatest, least)) + 1)

    def columns(self, w: int) -> tuple[int, int, int]:
        """The columns of a head for a window: its first pane, the pane after its last, its next slide."""
        stop = self.first + len(self.places) + 2 * w
        return self.start_column(w), stop, stop + 1

    # ---- retention ----

    def timers(self, slots: Ints, due: Numbers, is_due: Flags) -> None:
        for w in range(len(self.windows)):
            grid_of = self._grid(w, slots, self.backs(slots))
            edges = self.arena.columns["low"], self.arena.columns["first", w]
            arguments = (slots, grid_of, self.arena.ring, self.columns(w), edges, due, is_due)
            call_loop(next_slides, self.cut_type.str, arguments)

    def expiry(self, slots: Ints, expiry: Numbers, expires: Flags) -> None:
        """Does nothing: a slot without panes is not needed, and one with panes has a timer."""


class CountedPanes(PaneAssigner):
    """Windows over panes in row numbers: a slide is due with its last row."""

    slides_in_time: ClassVar[bool] = False

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        super().__init__(bound_query, places, table, name)
        self.arena.add("first row", self.numbers)

    @property
    def cut_type(self) -> np.dtype[Any]:
        return np.dtype(np.int64)

    def coordinate(self, rows: StepRows) -> Numbers:
        return rows.ordinal

    def describe(self, places: Ints, cuts: Numbers, times: Numbers) -> None:
        self.arena.columns["low"][places] = cuts
        self.arena.columns["first row"][places] = times

    def results(self, rows: StepRows, assigned: PanePositions, _endings: Sequence[Ending]) -> list[WindowRanges]:
        return [self._counted(w, window, rows, assigned) for w, window in enumerate(self.windows)]

    def _counted(self, w: int, window: WindowSpec, rows: StepRows, assigned: PanePositions) -> WindowRanges:
        ends = emitting(window, rows)
        assert ends is not None
        slots, his, begin = rows.slots[ends], assigned.pos[ends] + 1, assigned.begin[ends]
        stop = rows.ordinal[ends] + 1
        start = stop - window.rule.rows[0]
        los = np.empty(len(slots), np.int64)
        lows = self.arena.columns["low"]
        from_there = rules.bound(0, lows.dtype, inclusive=True)
        arguments = (slots, start, begin, his, from_there, self.arena.ring, self.start_column(w), lows, los)
        call_loop(bound_places, lows.dtype.str, arguments)
        on = start >= 0 if window.full else np.ones(len(slots), np.bool_)
        bounds: tuple[Numbers, Numbers] = np.maximum(start, 0), stop
        if self.bound_query.time is not None:
            firsts = self.arena.columns["first row"][self.located(slots, los)] if len(los) else start
            bounds = firsts, rows.time[ends]
        return WindowRanges(
            self.places[w], slots, on, *bounds, stop // int(window.rule.every), None, los, his,
            restarted=None if rows.restarted is None else rows.restarted[ends], error_rows=ends,
        )  # fmt: skip

    def timers(self, slots: Ints, due: Numbers, is_due: Flags) -> None:
        """Does nothing: rows alone make slides due."""

    def expiry(self, _slots: Ints, _expiry: Numbers, expires: Flags) -> None:
        expires[:] = False


class SlidRows(PaneAssigner):
    """Windows over single rows, with slides in time."""

    elements: ClassVar[Elements] = "rows"


class CountedSlidRows(CountedPanes):
    """Windows over single rows, with slides in rows."""

    elements: ClassVar[Elements] = "rows"


def _joined(parts: Sequence[Ints]) -> Ints:
    """Arrays one after the other, along their last axis."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
