"""Lookup for emit="eager": the aggregates of some keys now, or at a time, from the existing trees.

Windows hold the rows up to that time and all rows below the watermark, as with emit="final". A lookup costs O(log n)
for each key and window.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.keys import format_key, key_column
from sash.columns.row_errors import aggregate_failure
from sash.columns.time_numbers import Watermark, beyond
from sash.engine.keyed.lookup import (
    Pairs,
    holds_own_time,
    looked_up,
    next_end,
    shorter,
    with_empty,
)
from sash.engine.revise.eager_aggregate import LabelRanges
from sash.engine.revise.eager_engine import EagerEngine
from sash.engine.revise.eager_rules import EagerWindow
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
from sash.windows.rules import first_from, is_gap, later, moved


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
        state, asked = self.state, self.state.rules.windows
        query = self.engine.bound_query
        sizes = [own.window.size if last is None else shorter(own.window, query, last) for own in asked]
        parts = [
            self._range(own, size or 0, slot, at)
            for own, size in zip(asked, sizes, strict=True)
            for slot in self.slots.tolist()
        ]
        windows = None if state.asks_all else np.repeat(np.arange(len(asked)), len(self.slots))
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

    def _range(self, own: EagerWindow, size: Number, slot: int, at: Watermark) -> list[int]:
        """The range of a window of a slot."""
        rows, state = self.state.rows, self.state
        a, time = self._times(slot)
        count = len(time)
        kind = element_kind(own.window)
        until = count
        if at is not None:
            here = self.closed is None or holds_own_time(self.closed)
            until = int(time.searchsorted(at, "right" if here else "left"))
            if self.watermark is not None:
                until = max(until, int(time.searchsorted(self.watermark)))
        lo, hi = self._bounds(own, size, slot, at, until)
        silence = self.engine.bound_query.forget
        if silence is not None and at is not None and until and (beyond(later(time[until - 1 : until], silence)) <= at):
            lo = hi
        begin = 0
        forget, gap = own.forget, own.gap
        if hi > 0 and gap >= 0 and (kind == "running" or forget >= 0):
            column = gap if kind == "running" else forget
            breaks = rows.breaks[a : a + hi, column]
            begin = int(breaks.searchsorted(breaks[-1]))
        lo = max(lo, begin)
        some = lo < hi
        rids = rows.rids[a : a + count]
        base = -1
        if own.anchor >= 0 and lo == 0 and some and state.anchored[slot, own.anchor]:
            base = slot * state.rules.anchors + own.anchor
        on = not own.window.full or hi - lo >= int(size or 1)
        found = [0] * RANGE
        found[SLOT], found[SOME], found[BASE], found[ON] = slot, some, base, on
        found[LOW], found[HIGH] = (int(rows.labels[rids[lo]]), int(rows.labels[rids[hi - 1]])) if some else (0, 0)
        found[START_AT], found[END_AT] = lo, hi
        return found

    def _bounds(self, own: EagerWindow, size: Number, slot: int, at: Watermark, until: int) -> tuple[int, int]:
        """The indices of a window's rows among the first `until`, regardless of session and key expiry."""
        rule, rows = looked_up(own.window, self.closed, size), self.state.rows
        a, time = self._times(slot)
        if rule.measure == "restarts":
            last = time[max(until - 1, 0) : until]
            ended = rule.gap is not None and is_gap(rule.gap, np.asarray(at, last.dtype), last).all()
            return until if ended else 0, until
        if own.every and rule.measure == "rows":
            passed = int(rows.heads[slot, PASSED])
            return min(max(next_end(passed + until, rule) - rule.rows[0] - passed, 0), until), until
        if rule.in_time and rule.slides_in_time:
            k = rule.open_slide(np.array([at], rows.numbers))[0]
            lo, hi = (
                first_from(time, 0, len(time), edge, not rule.closed_end) for edge in (rule.starts(k), rule.ends(k))
            )
            return lo, max(min(hi, until), lo)
        hi = until
        if at is not None and own.window.slide == "row":
            hi = first_from(time, 0, len(time), at, not rule.closed_end)
        if rule.measure == "rows":
            return max(hi - rule.rows[0], 0), hi
        values, origin = time, at
        if rule.column is not None:
            values = rows.deltas[rule.column][rows.rids[a : a + len(time)]]
            origin = values[hi - 1] if hi else 0
        ends = np.array([origin], values.dtype)
        starts = [(rule.start, rule.origins(ends)[0])]
        if rule.calendar_size is not None:  # the range may be shorter
            starts.append((replace(rule, calendar_size=None).start, ends))
        return min(max(first_from(values, 0, hi, moved(x, start)[0], start[3]) for start, x in starts), hi), hi
