"""The windows of a query with emit="eager" as tables of numbers for the loops, with a row for each window."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sash.columns import slide_grid
from sash.columns.time_numbers import MOST_ROWS, earliest, threshold, time_type
from sash.kernels.loops.array_types import Numbers
from sash.kernels.loops.eager_windows import COUNTED, DELTA, LIFETIME, SESSION, TIME
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.time_axis import Number

KINDS = {"time": TIME, "count": COUNTED, "delta": DELTA, "session": SESSION, "lifetime": LIFETIME}


class RuleColumns(NamedTuple):
    """The columns that a window reads, by index; -1 for none."""

    forget: int
    """The column of gaps of `forget`."""
    gap: int
    """The column of gaps that bounds the window."""
    calendar: int
    """The column of starts of a window of a calendar length, among the integers of rows."""


class WindowRule:
    """One window: its kind, its bounds as numbers, and which columns it reads.

    `peers`: whether it includes the peers of its last row, or its end; `anchor`: its number among Session and Lifetime
    windows, -1 for others.
    """

    def __init__(self, bound_query: BoundQuery, place: int, columns: RuleColumns, anchor: int) -> None:
        window = self.window = bound_query.windows[place]
        self.place, self.columns, self.anchor = place, columns, anchor
        self.numbers = time_type(bound_query)
        self.kind = KINDS[window.kind]
        in_time = window.slide == "time"
        self.peers = window.closed in ("right", "both") if window.kind == "time" or in_time else window.kind != "count"
        open_start = window.closed in ("right", "neither")
        at_rows = window.kind == "time" and not in_time
        size = window.size if window.kind == "time" else 0
        self.size, self.floor, inclusive = threshold(size or 0, self.numbers, at_rows and open_start)
        self.inclusive = inclusive if at_rows else not open_start
        self.open_start = open_start
        self.count = min(int(window.size or 1), MOST_ROWS) if window.kind == "count" else 0
        self.every = min(int(window.every or 1), MOST_ROWS) if window.slide == "rows" else 0

    def ints(self, delta: int) -> list[Number]:
        """The integers of the rule, as `eager_windows` defines them; `delta`: the index of its Delta column."""
        of_floats = self.window.axis is not None and self.window.axis.kind != "int"
        is_int = self.kind == DELTA and not of_floats
        size, floor, _ = threshold(self.window.size or 1 if is_int else 1, np.dtype(np.int64), open_start=True)
        forget, gap, calendar = self.columns
        gaps = [gap, forget, self.anchor, int(self.window.full)]
        return [self.kind, self.peers, self.inclusive, self.count, *gaps, delta, of_floats, size, floor, calendar]

    def grid(self, times: Numbers) -> tuple[Any, ...]:
        """Whether slides in time include their ends, and their grid around some times, as loops take it."""
        first = last = 0
        if self.window.grid is not None:
            first, last = slide_grid.last_slide(self.window, np.array([times.min(), times.max()])).tolist()
        return self.window.closed == "right", slide_grid.scalars(self.window, self.numbers, first, last + 2)

    def starts(self, time: Numbers) -> Numbers:
        """The starts of windows of a calendar length that end at rows."""
        assert self.window.calendar_size is not None
        return self.window.calendar_size.before(time) + self.open_start


def gap_row(window: WindowSpec | None, forget: Number | None, numbers: np.dtype[Any]) -> list[Number]:
    """A row of the table of gaps: the gap of a session window, that of `forget`, or both (None: neither)."""
    gap, gap_floor, _ = threshold(0 if window is None else window.size or 0, numbers, open_start=False)
    silence, silence_floor, _ = threshold(forget or 0, numbers, open_start=False)
    has_gap, has_forget = window is not None, forget is not None
    return [numbers.kind == "f", has_gap, gap, gap_floor, has_forget, silence, silence_floor, earliest(numbers)]


class WindowRules:
    """The rules of a query's windows, and the gaps that they need.

    With `forget`, row 0 of the gaps is that of `forget` alone; each Session window has a row that combines both.
    """

    def __init__(self, bound_query: BoundQuery) -> None:
        self.numbers = time_type(bound_query)
        rows: list[list[Number]] = []
        self.forget_column = -1
        if bound_query.forget is not None:
            self.forget_column = 0
            rows.append(gap_row(None, bound_query.forget, self.numbers))
        self.deltas = delta_columns(bound_query)
        """The columns of Delta windows: whether they are floats, and their index among the columns of their kind."""
        self.delta_ints = sum(not of_floats for of_floats, _ in self.deltas.values())
        self.rules: list[WindowRule] = []
        self.calendars: list[WindowRule] = []
        """The windows of calendar lengths that end at rows; their starts follow the integers of Delta windows."""
        self.anchors = 0
        for place, window in enumerate(bound_query.windows):
            column, anchor, calendar = self.forget_column, -1, -1
            if window.kind == "session":
                column = len(rows)
                rows.append(gap_row(window, bound_query.forget, self.numbers))
            if window.kind in ("session", "lifetime"):
                anchor = self.anchors
                self.anchors += 1
            is_calendar = window.calendar_size is not None and window.slide != "time"
            if is_calendar:
                calendar = self.delta_ints + len(self.calendars)
            rule = WindowRule(bound_query, place, RuleColumns(self.forget_column, column, calendar), anchor)
            self.rules.append(rule)
            if is_calendar:
                self.calendars.append(rule)
        self.gaps = np.array(rows, self.numbers).reshape(len(rows), 8)
        ints = [rule.ints(self.deltas.get(str(rule.window.column), (False, -1))[1]) for rule in self.rules]
        least = earliest(self.numbers)
        numbers = [(rule.size, rule.floor, least) for rule in self.rules]
        sizes = [[float(rule.window.size or 0) if rule.kind == DELTA else 0.0] for rule in self.rules]
        self.tables = np.array(ints, np.int64), np.array(numbers, self.numbers), np.array(sizes, np.float64)
        """The rules as the loops take them."""

    @property
    def anchored(self) -> list[WindowRule]:
        """The Session and Lifetime windows, which may continue from dropped rows."""
        return [rule for rule in self.rules if rule.anchor >= 0]


def delta_columns(bound_query: BoundQuery) -> dict[str, tuple[bool, int]]:
    """The columns of Delta windows."""
    found: dict[str, tuple[bool, int]] = {}
    for window in bound_query.windows:
        if window.kind == "delta" and window.axis is not None and str(window.column) not in found:
            of_floats = window.axis.kind != "int"
            found[str(window.column)] = of_floats, sum(kind == of_floats for kind, _ in found.values())
    return found
