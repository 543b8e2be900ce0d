"""Lookup for emit="eager": the aggregates of some keys now, or at a time, from the trees that are there.

Rows up to the time count, and all below the watermark: so an operator with emit="final" answers, which has only those
in its windows. A call costs by the keys asked for, and O(log n) for each of their windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine import slide_grid
from sash.engine.arrow_arrays import array
from sash.engine.eager_aggregate import LabelRanges
from sash.engine.eager_engine import EagerEngine
from sash.engine.eager_rules import WindowRule
from sash.engine.eager_state import AggregateRaised
from sash.engine.key_values import key_column
from sash.engine.lookup import shorter
from sash.engine.row_errors import failure
from sash.kernels.loops.eager_windows import (
    BASE,
    COUNT,
    END_AT,
    HIGH,
    LOW,
    OFFSET,
    ON,
    PASSED,
    RANGE,
    SLOT,
    SOME,
    START,
)
from sash.kernels.loops.eager_windows import START_AT as BEGIN_AT
from sash.plan.planner import element_kind

Ints = NDArray[np.int64]


class EagerLookup:
    """Some keys of an eager engine."""

    def __init__(self, engine: EagerEngine, columns: list[pa.Array], watermark: Any) -> None:
        self.engine, self.state, self.watermark = engine, engine.state, watermark
        self.rows = len(columns[0]) if columns else 1
        found = self.state.keys.find([key_column(column) for column in columns], self.rows, insert=False).slots
        alive = found >= 0
        if alive.any():
            alive[alive] = self.state.alive[found[alive]]
        self.asked = np.where(alive, found, -1)
        self.slots = np.unique(self.asked[alive])

    def newest(self) -> Any:
        """The time of the newest row of these keys; None if they have none."""
        return self.state.last[self.slots].max().item() if len(self.slots) else None

    def results(self, at: Any, last: Any) -> list[pa.Array]:
        """For each window and aggregate a column, in the order of the keys asked for. Raises what a monoid raises."""
        rules, state = self.state.rules.rules, self.state
        sizes = [r.span.size if last is None else shorter(r.span, self.engine.bound_query, last) for r in rules]
        parts = [
            self._range(rule, size, slot, at)
            for rule, size in zip(rules, sizes, strict=True)
            for slot in self.slots.tolist()
        ]
        ranges = LabelRanges(np.array(parts, np.int64).reshape(-1, RANGE), 0)
        try:
            works = [state.missing(aggregate, self.slots) for aggregate in state.aggregates]
            answers = state.turn(works, ranges)
        except AggregateRaised as blamed:
            what = f"the aggregate {self.engine.bound_query.aggregates[blamed.part].name!r}"
            raise failure(what, blamed.failed, "a window that lookup() asked for") from blamed.failed.error
        order = array(np.searchsorted(self.slots, self.asked), self.asked >= 0)
        found = []
        for w in range(len(rules)):
            places = np.arange(w * len(self.slots), (w + 1) * len(self.slots))
            for aggregate, answer in zip(state.aggregates, answers, strict=True):
                found.append(aggregate.column(answer, ranges, places).take(order))
        return found

    def _range(self, rule: WindowRule, size: Any, slot: int, at: Any) -> list[int]:
        """The range of a window of a slot."""
        rows, state = self.state.rows, self.state
        a, count = int(rows.heads[slot, OFFSET] + rows.heads[slot, START]), int(rows.heads[slot, COUNT])
        time = rows.time[a : a + count]
        kind = element_kind(rule.span)
        until = count
        if at is not None:
            until = int(time.searchsorted(at, "right"))
            if self.watermark is not None:
                until = max(until, int(time.searchsorted(self.watermark)))
        lo, hi = self._bounds(rule, size, (kind, time, a, until), at, slot)
        begin = 0
        if hi > 0 and rule.column >= 0 and (kind == "running" or rule.life >= 0):
            column = rule.column if kind == "running" else rule.life
            breaks = rows.breaks[a : a + hi, column]
            begin = int(breaks.searchsorted(breaks[-1]))
        lo = max(lo, begin)
        some = lo < hi
        rids = rows.rids[a : a + count]
        base = -1
        if rule.anchor >= 0 and lo == 0 and some and state.anchored[slot, rule.anchor]:
            base = slot * state.rules.anchors + rule.anchor
        on = not rule.span.full or hi - lo >= int(size or 1)
        found = [0] * RANGE
        found[SLOT], found[SOME], found[BASE], found[ON] = slot, some, base, on
        found[LOW], found[HIGH] = (int(rows.labels[rids[lo]]), int(rows.labels[rids[hi - 1]])) if some else (0, 0)
        found[BEGIN_AT], found[END_AT] = lo, hi
        return found

    def _bounds(self, rule: WindowRule, size: Any, held: Any, at: Any, slot: int) -> tuple[int, int]:
        """The indices of a window's rows, whatever their session or life."""
        span, rows = rule.span, self.state.rows
        kind, time, a, until = held
        if kind == "running":
            return (until, until) if span.kind == "session" and self._is_silent(rule, time, until, at) else (0, until)
        if kind == "row panes":
            passed = int(rows.heads[slot, PASSED])
            stop = ((passed + until) // rule.every + 1) * rule.every
            return min(max(stop - int(size) - passed, 0), until), until
        if kind == "time panes":
            k = slide_grid.last_end(span, np.array([at], rows.numbers), span.closed == "right")[0] + 1
            side: Any = "right" if span.closed == "right" else "left"
            lo = int(time.searchsorted(slide_grid.starts(span, k), side))
            return lo, max(min(int(time.searchsorted(slide_grid.ends(span, k), side)), until), lo)
        hi = until
        if at is not None and span.slide == "row":
            open_end = span.kind == "time" and span.closed in ("left", "neither")
            hi = int(time.searchsorted(at, "left" if open_end else "right"))
        if span.kind == "count":
            return max(hi - int(size), 0), hi
        values, newest = time, at
        if span.kind == "delta":
            values = rows.deltas[str(span.column)][rows.rids[a : a + len(time)]]
            newest = values[hi - 1] if hi else 0
        open_start = span.kind == "delta" or span.closed in ("right", "neither")
        least = slide_grid.below(np.array([newest], values.dtype), size, open_start)[0]
        inclusive = not open_start or values.dtype.kind != "f"
        return min(int(values[:hi].searchsorted(least, "left" if inclusive else "right")), hi), hi

    def _is_silent(self, rule: WindowRule, time: NDArray[Any], until: int, at: Any) -> bool:
        """Is the session of the last row over?"""
        if not until:
            return True
        last = time[until - 1 : until]
        gap = slide_grid.since(np.maximum(np.asarray(at, last.dtype), last), last)
        return bool(gap[0] >= np.asarray(rule.span.size).astype(gap.dtype))
