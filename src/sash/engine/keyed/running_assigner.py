"""RunningAssigner: windows that only grow until they restart, with one partial for each slot.

Session       · · ·     · ·  │ gap
              └───┘     └─┘           restarts where the gap to the row before is too long
Punctuation   · · ●  · ·●             restarts after a row whose column is true
              └───┘  └──┘
Lifetime      · · ·  · · ·            restarts only with a key that `forget` has expired
              └──────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sash.columns.arrow_arrays import all_false
from sash.columns.keys import decode
from sash.columns.time_numbers import Watermark, beyond
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepRows, WindowRanges
from sash.engine.keyed.window_assigner import AssignedRows, Ending, WindowAssigner, emitting, limit, lower_due
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.bound_kernel import Elements
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.window_loops import CLOSED, NEVER, OPEN, ROW, SLIDE, run_windows
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number
from sash.windows.rules import is_gap, later


@dataclass(slots=True)
class RunningReads(AssignedRows):
    """Rows of windows that only grow, and the results that are read among them, in order."""

    assigner: RunningAssigner
    ends: Ints | None
    """The rows that have a result; None: all."""
    after: Ints
    """By result: the number of rows after which it is read."""
    of: Ints
    """Its slot."""
    row: Ints
    """The row that makes it due; -1 for none."""
    slide: Ints
    """The number of its slide, for windows with slides in time."""
    opened: Ints
    """The number of the window's first row."""
    starts: Numbers
    """The time of the window's first row."""

    def results(self, rows: StepRows, endings: Sequence[Ending]) -> list[WindowRanges]:
        return self.assigner.results(rows, self, endings)


class RunningAssigner(WindowAssigner):
    """One window that only grows until it restarts."""

    elements: ClassVar[Elements] = "running"

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        super().__init__(bound_query, places, table, name)
        self.window = self.windows[0]
        self.rule = self.window.rule
        table.add(f"{name}.heads", np.int64, [0, 0, NEVER, 0])
        table.add(f"{name}.start", self.numbers, 0)

    def assign(self, rows: StepRows) -> RunningReads:
        count, window = len(rows), self.window
        begins, marks = rows.restarts, all_false(count)
        if self.rule.gap is not None:
            begins = begins | ((rows.ordinal > 0) & is_gap(self.rule.gap, rows.time, rows.previous))
        elif self.rule.column is not None:
            marks = decode(rows.column(self.rule.column)).fill_null(False).to_numpy(zero_copy_only=False)
            marks = np.ascontiguousarray(marks)
        wanted, ends = self._wanted(rows, marks)
        numbers = np.zeros(0, np.int64)
        if window.slide == "time":
            numbers = self.rule.open_slide(rows.time)
        fresh = np.empty(count, np.bool_)
        out = tuple(np.empty(2 * count, np.int64) for _ in range(5))
        starts = np.empty(2 * count, self.numbers)
        heads, stamps = self.table.wide[f"{self.name}.heads"], self.table.wide[f"{self.name}.start"]
        arguments = (
            *(rows.slots, rows.time, begins, marks, numbers, wanted, rows.ordinal, heads),
            *(stamps, fresh, out, starts),
        )
        made = call_loop(run_windows, self.kind, arguments)
        after, of, row, slide, opened = (part[:made] for part in out)
        return RunningReads(rows.slots, NO_INTS, fresh, self, ends, after, of, row, slide, opened, starts[:made])

    def _wanted(self, rows: StepRows, marks: Flags) -> tuple[NDArray[np.int8], Ints | None]:
        """The rows after which results are read, and the rows they belong to (None: all)."""
        wanted = np.zeros(len(rows), np.int8)
        if self.window.slide == "close":
            wanted[:] = np.where(marks, 1, 0) if self.rule.gap is None else 2
            return wanted, None
        if self.window.slide == "time":
            return wanted, None
        ends = emitting(self.window, rows)
        peer = rows.last_peer if self.rule.peers else None
        if ends is None and peer is None:
            wanted[:] = 1
        else:
            at = np.arange(len(rows)) if ends is None else ends
            wanted[at if peer is None else peer[at]] = 1
        return wanted, ends

    def results(self, rows: StepRows, assigned: RunningReads, endings: Sequence[Ending]) -> list[WindowRanges]:
        """The results that are due, of the only window."""
        if self.window.slide == "close":
            return [self._closed(rows, assigned, endings)]
        if self.window.slide == "time":
            return [self._at_slides(rows, assigned, endings)]
        return [self._at_rows(rows, assigned)]

    def _restarted_of(self, rows: StepRows, assigned: RunningReads, of: Ints) -> Ints | None:
        """How often each result's key has restarted: results of the rows first, then those of the slots `of`."""
        if rows.restarted is None:
            return None
        at_row = assigned.after == assigned.row + 1
        row = np.where(at_row, assigned.row, np.minimum(assigned.after, len(rows) - 1))
        found = rows.restarted[row] - np.where(at_row, 0, rows.restarts[row])
        return np.concatenate([found, rows.restarted_of(of)])

    def _at_rows(self, rows: StepRows, assigned: RunningReads) -> WindowRanges:
        number = np.zeros(len(rows), np.int64)
        number[assigned.row] = np.arange(len(assigned.row))
        peer = rows.last_peer if self.rule.peers else None
        at = np.arange(len(rows)) if assigned.ends is None else assigned.ends
        results = None if peer is None and assigned.ends is None else number[at if peer is None else peer[at]]
        chosen = slice(None) if results is None else results
        of, ends = assigned.of, rows.time[at]
        starts = assigned.starts[chosen]
        if self.bound_query.time is None:
            starts, ends = assigned.opened[chosen], rows.ordinal[at] + 1
        ident = (rows.ordinal[at] + 1) // int(self.rule.every)
        on = np.ones(len(at), np.bool_)
        return WindowRanges(
            self.places[0], rows.slots[at], on, starts, ends, ident, results, None, of, assigned.after,
            None if rows.restarted is None else rows.restarted[at], assigned.row,
        )  # fmt: skip

    def _closed(self, rows: StepRows, assigned: RunningReads, endings: Sequence[Ending]) -> WindowRanges:
        """The complete windows: a later row or the watermark ends sessions, the last row ends punctuated windows."""
        gap = self.rule.gap
        last = rows.time[assigned.row] if gap is None else rows.previous[assigned.row]
        parts = [(assigned.after, assigned.of, assigned.starts, last, assigned.opened)]
        if gap is not None:
            heads, stamps = self.table[f"{self.name}.heads"], self.table[f"{self.name}.start"]
            for ending in endings:
                of = ending.slots[heads[ending.slots, OPEN] != 0]
                if ending.now is not None:
                    of = of[self.has_ended(ending.now, self.last(of))]
                parts.append((np.full(len(of), len(rows)), of, stamps[of], self.last(of), heads[of, ROW]))
                heads[of, OPEN] = 0
        after, of, starts, last, opened = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        ends = last if gap is None else later(last, gap)
        if self.bound_query.time is None:
            starts, ends = opened, rows.ordinal[assigned.row] + 1
        on = np.ones(len(of), np.bool_)
        restarted = self._restarted_of(rows, assigned, of[len(assigned.after) :])
        return WindowRanges(self.places[0], of, on, starts, ends, opened, after=after, his=of, restarted=restarted)

    def has_ended(self, now: Watermark, last: Numbers) -> Flags:
        """Has a session ended whose last row was at `last`?"""
        return is_gap(self.rule.gap or 0, np.asarray(now, last.dtype), last)

    def _at_slides(self, rows: StepRows, assigned: RunningReads, endings: Sequence[Ending]) -> WindowRanges:
        heads, stamps = self.table[f"{self.name}.heads"], self.table[f"{self.name}.start"]
        parts = [(assigned.after, assigned.of, assigned.starts, assigned.slide)]
        for ending in endings:
            k = heads[ending.slots, SLIDE]
            of = ending.slots[k <= limit(self.rule, ending.now, self.numbers)]
            parts.append((np.full(len(of), len(rows)), of, stamps[of], heads[of, SLIDE]))
            heads[of, SLIDE] = NEVER
        after, of, starts, k = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        on = np.ones(len(of), np.bool_)
        restarted, ends = self._restarted_of(rows, assigned, of[len(assigned.after) :]), self.rule.ends(k)
        return WindowRanges(self.places[0], of, on, starts, ends, k, after=after, his=of, restarted=restarted)

    def is_open(self, slots: Ints) -> Flags:
        """Whether slots have a window that no row has closed."""
        heads = self.table[f"{self.name}.heads"]
        found: Flags = (heads[slots, OPEN] != 0) & (heads[slots, CLOSED] == 0)
        return found

    # ---- partials of another assigner ----

    def copy_partials(self, slots: Ints, other: RunningAssigner, theirs: Ints) -> None:
        """Continue the windows of another assigner's slots."""
        for part in ("heads", "start"):
            self.table[f"{self.name}.{part}"][slots] = other.table[f"{other.name}.{part}"][theirs]

    def continue_from(self, slot: int, start: Number, last: Number) -> None:
        """Continue a window that opened at `start`, and whose last row so far is at `last`."""
        heads, window = self.table[f"{self.name}.heads"], self.window
        heads[slot, OPEN], heads[slot, ROW] = 1, 0
        if window.slide == "time":
            heads[slot, SLIDE] = self.rule.open_slide(np.array([last], self.numbers))[0]
        self.table[f"{self.name}.start"][slot] = start

    # ---- retention ----

    def timers(self, slots: Ints, due: Numbers, is_due: Flags) -> None:
        heads = self.table[f"{self.name}.heads"]
        if self.window.slide == "close" and self.rule.gap is not None:
            waits = heads[slots, OPEN] != 0
            end = self._session_end(slots)
        elif self.window.slide == "time":
            k = heads[slots, SLIDE]
            waits = k < NEVER
            end = self.rule.ends(np.where(waits, k, 0)).astype(self.numbers)
        else:
            return
        lower_due(due, is_due, waits, end)

    def _session_end(self, slots: Ints) -> Numbers:
        """The first watermark at which no row can join the session of a slot: a row at last + gap still does."""
        return beyond(later(self.last(slots), self.rule.gap or 0))

    def expiry(self, slots: Ints, expiry: Numbers, expires: Flags) -> None:
        if self.rule.gap is not None:
            np.maximum(expiry, self._session_end(slots), out=expiry)
        elif self.rule.column is not None:
            expires &= self.table[f"{self.name}.heads"][slots, CLOSED] != 0
        else:
            expires[:] = False
