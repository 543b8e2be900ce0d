"""Windows of a query with emit="eager" as the loops take them: tables of numbers, with a row for each window."""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.engine.time_numbers import time_type
from sash.kernels.loops.eager_windows import COUNTED, DELTA, LEAST_INT, LIFETIME, SESSION, TIME
from sash.plan.bound_query import BoundQuery, WindowSpec

KINDS = {"time": TIME, "count": COUNTED, "delta": DELTA, "session": SESSION, "lifetime": LIFETIME}
MOST_ROWS = 2**61


class WindowRule:
    """One window: its kind, its bounds as numbers, and which column of gaps bounds it.

    `peers`: whether it ends behind the peers of its last row, or at its closed end; `anchor`: its number among the
    windows that start where a session or life does, -1 for others; `life`: the column of gaps of `forget`, or -1.
    """

    def __init__(self, bound_query: BoundQuery, place: int, life: int, column: int, anchor: int) -> None:
        window = self.window = bound_query.windows[place]
        self.place, self.life, self.column, self.anchor = place, life, column, anchor
        self.numbers = time_type(bound_query)
        self.kind = KINDS[window.kind]
        in_time = window.slide == "time"
        self.peers = window.closed in ("right", "both") if window.kind == "time" or in_time else window.kind != "count"
        open_start = window.closed in ("right", "neither")
        is_time = window.kind == "time"
        is_int = self.numbers.kind == "i"
        size: Any = window.size if is_time else 0
        inclusive = not open_start
        if is_int and is_time and not in_time and open_start:
            size, inclusive = int(size) - 1, True
        self.size, self.floor, self.least = bounds(size, is_int)
        self.inclusive = inclusive
        self.count = min(int(window.size or 1), MOST_ROWS) if window.kind == "count" else 0
        self.every = min(int(window.every or 1), MOST_ROWS) if window.slide == "rows" else 0

    def ints(self, delta: int) -> list[int]:
        """The integers of the rule, as `eager_windows` has them; `delta`: the place of its column among its kind."""
        of_floats = self.window.axis is not None and self.window.axis.kind != "int"
        is_int = self.kind == DELTA and not of_floats
        size, floor, _ = bounds(int(self.window.size or 1) - 1 if is_int else 0, True)
        gaps = [self.column, self.life, self.anchor, int(self.window.full)]
        return [self.kind, self.peers, self.inclusive, self.count, *gaps, delta, of_floats, size, floor]

    @property
    def grid(self) -> tuple[Any, ...]:
        """The slides of a window in time."""
        scalar: Any = int if self.numbers.kind == "i" else float
        of_floats = self.numbers.kind == "f"
        return of_floats, scalar(self.window.offset), scalar(self.window.every or 1), self.window.closed == "right"


def bounds(size: Any, is_int: bool) -> tuple[Any, Any, Any]:
    """A size, the least number from which it can be subtracted, and the least number there is."""
    if is_int:
        return int(size), LEAST_INT + max(int(size), 0), LEAST_INT
    return float(size), -np.inf, -np.inf


def gap_row(window: WindowSpec | None, forget: Any, numbers: np.dtype[Any]) -> list[Any]:
    """A kind of gap: that of a session (None: of none), and that of `forget` (None: none)."""
    is_int = numbers.kind == "i"
    gap: Any = 0 if window is None else window.size
    size, floor, least = bounds(gap - 1 if is_int and window is not None else gap, is_int)
    silence, silence_floor, _ = bounds(forget or 0, is_int)
    has_gap, has_forget = window is not None, forget is not None
    finite = (least, floor, silence_floor) if is_int else (0.0, 0.0, 0.0)
    return [not is_int, has_gap, size, finite[1], has_forget, silence, finite[2], finite[0]]


class WindowRules:
    """The rules of a query's windows, and the kinds of gaps that they need.

    Column 0 of the gaps is that of `forget`, where it is set; each Session window has one that heeds both.
    """

    def __init__(self, bound_query: BoundQuery) -> None:
        self.numbers = time_type(bound_query)
        rows: list[list[Any]] = []
        self.life = -1
        if bound_query.forget is not None:
            self.life = 0
            rows.append(gap_row(None, bound_query.forget, self.numbers))
        self.rules: list[WindowRule] = []
        self.anchors = 0
        for place, window in enumerate(bound_query.windows):
            column, anchor = self.life, -1
            if window.kind == "session":
                column = len(rows)
                rows.append(gap_row(window, bound_query.forget, self.numbers))
            if window.kind in ("session", "lifetime"):
                anchor = self.anchors
                self.anchors += 1
            self.rules.append(WindowRule(bound_query, place, self.life, column, anchor))
        self.gaps = np.array(rows, self.numbers).reshape(len(rows), 8)
        self.deltas = delta_columns(bound_query)
        """The columns of Delta windows: whether they are of floats, and their places among those of their kind."""
        ints = [rule.ints(self.deltas.get(str(rule.window.column), (False, -1))[1]) for rule in self.rules]
        numbers = [(rule.size, rule.floor, rule.least) for rule in self.rules]
        sizes = [[float(rule.window.size or 0) if rule.kind == DELTA else 0.0] for rule in self.rules]
        self.tables = np.array(ints, np.int64), np.array(numbers, self.numbers), np.array(sizes, np.float64)
        """The rules as the loops take them."""

    @property
    def anchored(self) -> list[WindowRule]:
        """The windows that start where a session or life does."""
        return [rule for rule in self.rules if rule.anchor >= 0]


def delta_columns(bound_query: BoundQuery) -> dict[str, tuple[bool, int]]:
    """The columns of Delta windows."""
    found: dict[str, tuple[bool, int]] = {}
    for window in bound_query.windows:
        if window.kind == "delta" and window.axis is not None and str(window.column) not in found:
            of_floats = window.axis.kind != "int"
            found[str(window.column)] = of_floats, sum(kind == of_floats for kind, _ in found.values())
    return found
