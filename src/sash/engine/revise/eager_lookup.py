"""Lookup for emit="eager": the aggregates of some keys now, or at a time, from the existing trees.

Windows hold the rows up to that time and all rows below the watermark, as with emit="final". A lookup costs O(log n)
for each key and window.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.columns import slide_grid
from sash.columns.arrow_arrays import array
from sash.columns.keys import format_key, key_column
from sash.columns.row_errors import aggregate_failure
from sash.columns.time_numbers import Watermark, beyond, is_gap, later
from sash.engine.keyed.lookup import (
    Pairs,
    Side,
    closed_as,
    ends_with_peers,
    holds_own_time,
    open_slide,
    shorter,
    window_start,
    with_empty,
)
from sash.engine.revise.eager_aggregate import LabelRanges
from sash.engine.revise.eager_engine import EagerEngine
from sash.engine.revise.eager_rules import WindowRule
from sash.engine.revise.eager_state import AggregateRaised
from sash.kernels.loops.array_types import Numbers
from sash.kernels.loops.eager_trees import ASKING
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
    START_AT,
)
from sash.plan.planner import element_kind
from sash.plan.time_axis import Number
from sash.windows.arguments import Length


class EagerLookup:
    """A lookup of some keys in an eager engine."""

    def __init__(self, engine: EagerEngine, columns: list[pa.Array], watermark: Watermark, closed: str | None) -> None:
        self.engine, self.state, self.watermark, self.closed = engine, engine.state, watermark, closed
        self.rows = len(columns[0]) if columns else 1
        found = self.state.keys.find([key_column(column) for column in columns], self.rows, insert=False).slots
        alive = found >= 0
        if alive.any():
            alive[alive] = self.state.alive[found[alive]]
        self.asked = np.where(alive, found, -1)
        self.slots = np.unique(self.asked[alive])

    def results(self, at: Watermark, last: Length | None) -> Pairs:
        """A column for each pair of window and aggregate, in the order of the keys. Raises a monoid's exception."""
        rules, state = self.state.rules.rules, self.state
        sizes = [r.window.size if last is None else shorter(r.window, self.engine.bound_query, last) for r in rules]
        parts = [
            self._range(rule, size or 0, slot, at)
            for rule, size in zip(rules, sizes, strict=True)
            for slot in self.slots.tolist()
        ]
        windows = None if state.asks_all else np.repeat(np.arange(len(rules)), len(self.slots))
        ranges = LabelRanges(np.array(parts, np.int64).reshape(-1, RANGE), 0, windows)
        try:
            works = [state.missing(aggregate, self.slots) for aggregate in state.aggregates]
            answers = state.update_trees(works, ranges)
        except AggregateRaised as raised:
            failed, where = raised.failed, "the lookup"
            if failed.phase == ASKING:
                slot = ranges.table[failed.place : failed.place + 1, SLOT]
                where += format_key(self.engine.bound_query.by, state.keys.keys(slot))
            raise aggregate_failure(self.engine.bound_query, raised.number, failed, where) from failed.error
        absent = self.asked < 0
        order = array(np.searchsorted(self.slots, self.asked), ~absent)
        found: Pairs = {}
        for w, number in self.engine.bound_query.projection.asked:
            places = np.arange(w * len(self.slots), (w + 1) * len(self.slots))
            column = state.aggregates[number].column(answers[number], ranges, places).take(order)
            found[w, number] = with_empty(self.engine.bound_query, (w, number), column, absent)
        return found

    def _times(self, slot: int) -> tuple[int, Numbers]:
        """The place of a slot's first row in its block, and the times of its rows."""
        rows = self.state.rows
        a, count = int(rows.heads[slot, OFFSET] + rows.heads[slot, START]), int(rows.heads[slot, COUNT])
        return a, rows.time[a : a + count]

    def _range(self, rule: WindowRule, size: Number, slot: int, at: Watermark) -> list[int]:
        """The range of a window of a slot."""
        rows, state = self.state.rows, self.state
        a, time = self._times(slot)
        count = len(time)
        kind = element_kind(rule.window)
        until = count
        if at is not None:
            own = self.closed is None or holds_own_time(self.closed)
            until = int(time.searchsorted(at, "right" if own else "left"))
            if self.watermark is not None:
                until = max(until, int(time.searchsorted(self.watermark)))
        lo, hi = self._bounds(rule, size, slot, at, until)
        silence = self.engine.bound_query.forget
        if silence is not None and at is not None and until and (beyond(later(time[until - 1 : until], silence)) <= at):
            lo = hi
        begin = 0
        forget, gap, _ = rule.columns
        if hi > 0 and gap >= 0 and (kind == "running" or forget >= 0):
            column = gap if kind == "running" else forget
            breaks = rows.breaks[a : a + hi, column]
            begin = int(breaks.searchsorted(breaks[-1]))
        lo = max(lo, begin)
        some = lo < hi
        rids = rows.rids[a : a + count]
        base = -1
        if rule.anchor >= 0 and lo == 0 and some and state.anchored[slot, rule.anchor]:
            base = slot * state.rules.anchors + rule.anchor
        on = not rule.window.full or hi - lo >= int(size or 1)
        found = [0] * RANGE
        found[SLOT], found[SOME], found[BASE], found[ON] = slot, some, base, on
        found[LOW], found[HIGH] = (int(rows.labels[rids[lo]]), int(rows.labels[rids[hi - 1]])) if some else (0, 0)
        found[START_AT], found[END_AT] = lo, hi
        return found

    def _bounds(self, rule: WindowRule, size: Number, slot: int, at: Watermark, until: int) -> tuple[int, int]:
        """The indices of a window's rows among the first `until`, regardless of session and key expiry."""
        window, rows = closed_as(rule.window, self.closed), self.state.rows
        kind, (a, time) = element_kind(window), self._times(slot)
        if kind == "running":
            last = time[max(until - 1, 0) : until]
            if window.kind == "session" and is_gap(window.size or 0, np.asarray(at, last.dtype), last).all():
                return until, until
            return 0, until
        if kind == "row panes":
            passed = int(rows.heads[slot, PASSED])
            stop = ((passed + until) // rule.every + 1) * rule.every
            return min(max(stop - int(size) - passed, 0), until), until
        if kind == "time panes":
            k = open_slide(window, at, rows.numbers)
            side: Side = "right" if window.closed == "right" else "left"
            lo = int(time.searchsorted(slide_grid.starts(window, k), side))
            return lo, max(min(int(time.searchsorted(slide_grid.ends(window, k), side)), until), lo)
        hi = until
        if at is not None and window.slide == "row":
            hi = int(time.searchsorted(at, "right" if ends_with_peers(window, self.closed) else "left"))
        values = time
        if window.kind == "delta":
            values = rows.deltas[str(window.column)][rows.rids[a : a + len(time)]]
        return window_start(window, size, at, values, hi), hi
