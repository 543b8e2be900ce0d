"""Windows of a query with emit="eager" as the loops take them: tables of numbers, with a row for each window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.kernels.loops.eager_windows import COUNTED, DELTA, LEAST_INT, LIFETIME, SESSION, TIME
from sash.plan.bound_query import BoundQuery, WindowSpec

KINDS = {"time": TIME, "count": COUNTED, "delta": DELTA, "session": SESSION, "lifetime": LIFETIME}
MOST_ROWS = 2**61

Ints = NDArray[np.int64]


class WindowRule:
    """One window: its kind, its bounds as numbers, and which column of gaps bounds it.

    `peers`: whether it ends behind the peers of its last row, or at its closed end; `anchor`: its number among the
    windows that start where a session or life does, -1 for others; `life`: the column of gaps of `forget`, or -1.
    """

    def __init__(self, bound_query: BoundQuery, place: int, life: int, column: int, anchor: int) -> None:
        span = self.span = bound_query.windows[place]
        self.place, self.life, self.column, self.anchor = place, life, column, anchor
        self.numbers = np.dtype(np.int64 if bound_query.time is None or bound_query.time.kind == "int" else np.float64)
        self.kind = KINDS[span.kind]
        in_time = span.slide == "time"
        self.peers = span.closed in ("right", "both") if span.kind == "time" or in_time else span.kind != "count"
        open_start = span.closed in ("right", "neither")
        is_time = span.kind == "time"
        whole = self.numbers.kind == "i"
        size: Any = span.size if is_time else 0
        inclusive = not open_start
        if whole and is_time and not in_time and open_start:
            size, inclusive = int(size) - 1, True
        self.size, self.floor, self.least = bounds(size, whole)
        self.inclusive = inclusive
        self.count = min(int(span.size or 1), MOST_ROWS) if span.kind == "count" else 0
        self.every = min(int(span.every or 1), MOST_ROWS) if span.slide == "rows" else 0

    def ints(self, delta: int) -> list[int]:
        """The integers of the rule, as `eager_windows` has them; `delta`: the place of its column among its kind."""
        of_floats = self.span.axis is not None and self.span.axis.kind != "int"
        is_whole = self.kind == DELTA and not of_floats
        size, floor, _ = bounds(int(self.span.size or 1) - 1 if is_whole else 0, True)
        gaps = [self.column, self.life, self.anchor, int(self.span.full)]
        return [self.kind, self.peers, self.inclusive, self.count, *gaps, delta, of_floats, size, floor]

    @property
    def grid(self) -> tuple[Any, ...]:
        """The slides of a window in time."""
        scalar: Any = int if self.numbers.kind == "i" else float
        of_floats = self.numbers.kind == "f"
        return of_floats, scalar(self.span.offset), scalar(self.span.every or 1), self.span.closed == "right"


def bounds(size: Any, whole: bool) -> tuple[Any, Any, Any]:
    """A size, the least number from which it can be subtracted, and the least number there is."""
    if whole:
        return int(size), LEAST_INT + max(int(size), 0), LEAST_INT
    return float(size), -np.inf, -np.inf


def gap_row(span: WindowSpec | None, forget: Any, numbers: np.dtype[Any]) -> list[Any]:
    """A kind of gap: that of a session (None: of none), and that of `forget` (None: none)."""
    whole = numbers.kind == "i"
    gap: Any = 0 if span is None else span.size
    size, floor, least = bounds(gap - 1 if whole and span is not None else gap, whole)
    silence, silence_floor, _ = bounds(forget or 0, whole)
    has_gap, has_forget = span is not None, forget is not None
    finite = (least, floor, silence_floor) if whole else (0.0, 0.0, 0.0)
    return [not whole, has_gap, size, finite[1], has_forget, silence, finite[2], finite[0]]


class WindowRules:
    """The rules of a query's windows, and the kinds of gaps that they need.

    Column 0 of the gaps is that of `forget`, where it is set; each Session window has one that heeds both.
    """

    def __init__(self, bound_query: BoundQuery) -> None:
        self.numbers = np.dtype(np.int64 if bound_query.time is None or bound_query.time.kind == "int" else np.float64)
        rows: list[list[Any]] = []
        self.life = -1
        if bound_query.forget is not None:
            self.life = 0
            rows.append(gap_row(None, bound_query.forget, self.numbers))
        self.rules: list[WindowRule] = []
        self.anchors = 0
        for place, span in enumerate(bound_query.windows):
            column, anchor = self.life, -1
            if span.kind == "session":
                column = len(rows)
                rows.append(gap_row(span, bound_query.forget, self.numbers))
            if span.kind in ("session", "lifetime"):
                anchor = self.anchors
                self.anchors += 1
            self.rules.append(WindowRule(bound_query, place, self.life, column, anchor))
        self.gaps = np.array(rows, self.numbers).reshape(len(rows), 8)
        self.deltas = delta_columns(bound_query)
        """The columns of Delta windows: whether they are of floats, and their places among those of their kind."""
        ints = [rule.ints(self.deltas.get(str(rule.span.column), (False, -1))[1]) for rule in self.rules]
        numbers = [(rule.size, rule.floor, rule.least) for rule in self.rules]
        sizes = [[float(rule.span.size or 0) if rule.kind == DELTA else 0.0] for rule in self.rules]
        self.tables = np.array(ints, np.int64), np.array(numbers, self.numbers), np.array(sizes, np.float64)
        """The rules as the loops take them."""

    @property
    def anchored(self) -> list[WindowRule]:
        """The windows that start where a session or life does."""
        return [rule for rule in self.rules if rule.anchor >= 0]


def delta_columns(bound_query: BoundQuery) -> dict[str, tuple[bool, int]]:
    """The columns of Delta windows."""
    found: dict[str, tuple[bool, int]] = {}
    for span in bound_query.windows:
        if span.kind == "delta" and span.axis is not None and str(span.column) not in found:
            of_floats = span.axis.kind != "int"
            found[str(span.column)] = of_floats, sum(kind == of_floats for kind, _ in found.values())
    return found
