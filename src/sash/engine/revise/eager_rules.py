"""The rules of a query's windows as tables of numbers for the loops of emit="eager", with a row for each window."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sash.columns.time_numbers import earliest, time_type
from sash.kernels.loops.array_types import Numbers
from sash.kernels.loops.eager_windows import COUNTED, MEASURED, RUNNING, TIME
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.time_axis import Number
from sash.windows.rules import WindowRule, bound

KINDS = {"rows": COUNTED, "restarts": RUNNING}


class EagerWindow(NamedTuple):
    """One window, and the columns that it reads, by index; -1 for none."""

    window: WindowSpec
    forget: int
    """The column of gaps of `forget`."""
    gap: int
    """The column of gaps that bounds the window."""
    calendar: int
    """The column of starts of a window of a calendar length, among the integers of rows."""
    anchor: int
    """Its number among the windows that run until they restart; -1 for others."""

    @property
    def rule(self) -> WindowRule:
        """Where it begins and ends."""
        return self.window.rule

    @property
    def kind(self) -> int:
        """How it is measured, as the loops name it."""
        return KINDS.get(self.rule.measure, TIME if self.rule.in_time else MEASURED)

    @property
    def every(self) -> int:
        """How many rows it slides by; 0 if it does not slide by rows."""
        return int(self.rule.every) if self.window.slide == "rows" else 0

    def ints(self, column: tuple[bool, int]) -> list[Number]:
        """The integers of the rule, as `eager_windows` defines them; `column`: is it of floats, and its index."""
        rule, (of_floats, index) = self.rule, column
        ends = rule.closed_end if rule.in_time or rule.slides_in_time else rule.peers
        inclusive = rule.closed_start if rule.slides_in_time else rule.widest[3]
        by, floor = rule.widest[:2] if self.kind == MEASURED and not of_floats else (0, 0)
        rows = rule.rows[0] if rule.measure == "rows" else 0
        gaps = [self.gap, self.forget, self.anchor, int(self.window.full)]
        return [self.kind, ends, inclusive, rows, *gaps, index, of_floats, by, floor, self.calendar]

    def numbers(self, least: Number) -> list[Number]:
        """The start on the time of rows, or of slides, as `eager_windows` defines it."""
        rule = self.rule
        if not rule.in_time:
            return [0, least, least]
        start = bound(-rule.size, rule.numbers, inclusive=True) if rule.slides_in_time else rule.widest
        return [*start[:2], least]

    def grid(self, times: Numbers) -> tuple[Any, ...]:
        """Whether slides in time include their ends, and their grid around some times, as loops take it."""
        first = last = 0
        if self.rule.calendar_grid is not None:
            first, last = self.rule.last_slide(np.array([times.min(), times.max()])).tolist()
        return self.rule.closed_end, self.rule.scalars(times.dtype, first, last + 2)


def gap_row(gap: Number | None, forget: Number | None, numbers: np.dtype[Any]) -> list[Number]:
    """A row of the table of gaps: the gap of a window, that of `forget`, or both (None: neither)."""
    found: list[Number] = [numbers.kind == "f"]
    for one in (gap, forget):
        by, floor, _, _ = bound(-(one or 0), numbers, inclusive=True)
        found += [one is not None, -by, floor]
    return [*found, earliest(numbers)]


class WindowTables:
    """The windows of a query, and the gaps that they need.

    With `forget`, row 0 of the gaps is that of `forget` alone; each window with a gap has a row that combines both.
    """

    def __init__(self, bound_query: BoundQuery) -> None:
        self.numbers, least = time_type(bound_query), earliest(time_type(bound_query))
        forget = -1 if bound_query.forget is None else 0
        rows = [] if bound_query.forget is None else [gap_row(None, bound_query.forget, self.numbers)]
        self.measured: dict[str, tuple[bool, int]] = {}
        """The measured columns: whether they are floats, and their index among the columns of their type."""
        for window in bound_query.windows:
            if window.rule.measured is not None:
                of_floats = window.axis is not None and window.axis.kind == "float"
                index = sum(one == of_floats for one, _ in self.measured.values())
                self.measured.setdefault(window.rule.measured, (of_floats, index))
        self.ints = sum(not of_floats for of_floats, _ in self.measured.values())
        """How many of them are integers."""
        self.windows: list[EagerWindow] = []
        self.calendars: list[EagerWindow] = []
        """The windows of calendar lengths that end at rows; their starts follow the integers of measured columns."""
        self.anchored: list[EagerWindow] = []
        """The windows that run until they restart, and may continue from dropped rows."""
        for window in bound_query.windows:
            rule, gap, anchor, calendar = window.rule, forget, -1, -1
            if rule.gap is not None:
                gap = len(rows)
                rows.append(gap_row(rule.gap, bound_query.forget, self.numbers))
            if rule.measure == "restarts":
                anchor = len(self.anchored)
            is_calendar = rule.calendar_size is not None and not rule.slides_in_time
            if is_calendar:
                calendar = self.ints + len(self.calendars)
            found = EagerWindow(window, forget, gap, calendar, anchor)
            self.windows.append(found)
            self.calendars += [found] if is_calendar else []
            self.anchored += [found] if anchor >= 0 else []
        self.anchors = len(self.anchored)
        self.gaps = np.array(rows, self.numbers).reshape(len(rows), 8)
        ints = [one.ints(self.measured.get(str(one.rule.measured), (False, -1))) for one in self.windows]
        starts = [[one.rule.widest[0] if one.kind == MEASURED else 0.0] for one in self.windows]
        numbers = [one.numbers(least) for one in self.windows]
        self.tables = np.array(ints, np.int64), np.array(numbers, self.numbers), np.array(starts, np.float64)
        """The rules as the loops take them."""
