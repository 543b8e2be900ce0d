"""SliceSeries: windows that end at slides, over partials: one item for all rows between two cuts.

    rows       · ·· ·   · ···   ·  · · ·
    slices     ├──────┼───┼──────┼───┼─────        cut where some window begins or ends
    windows    ├─────────────────┤
                          ├──────────────┤

Of Time windows cuts lie in time, of Count windows that slide in rows they lie in row numbers. A slice takes rows in
order only, so that any ⊕ will do; until a row may enter a slice, it waits where order is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from sash.kernels.lane import bounds
from sash.operator import grid
from sash.operator.frame import Answer, Flags, Ints, Items, Numbers, Rows, Segments
from sash.operator.series import Series, due_slides, items_of
from sash.query.resolved import Resolved, Span


class SliceSeries(Series):
    """Windows over slices in time."""

    folds: ClassVar[bool] = True

    def items(self, rows: Rows) -> Items:
        return items_of(rows, grid.cuts(self.spans, rows.time), [])

    def reach(self, span: Span, segments: Segments) -> tuple[Ints, Ints]:
        """By segment: the last slide that has left, and the last that is due."""
        return due_slides(span, segments)

    def straddled(self, rows: Rows, segments: Segments, runs: Items, beyond: Ints) -> Flags:
        found = np.zeros(len(runs), np.bool_)
        for span in self.spans:
            of, k = self._slides(span, segments, runs)
            low = grid.starts(span, k)
            run = bounds(runs.segment, runs.high, of, low, inclusive=True)
            there = run < len(runs)
            run, low, of = run[there], low[there], of[there]
            found[run[(runs.low[run] < low) & (runs.segment[run] == of)]] = True
        return found

    def _slides(self, span: Span, segments: Segments, items: Items) -> tuple[Ints, Ints]:
        """Segments and numbers of the due slides that may hold an item, in order."""
        left, due = self.reach(span, segments)
        first = np.maximum(grid.last_end(span, items.low, strict=False) + 1, left[items.segment] + 1)
        last = np.minimum(grid.last_start(span, items.high, strict=False), due[items.segment])
        if len(items):
            same = items.segment[1:] == items.segment[:-1]
            first[1:] = np.where(same, np.maximum(first[1:], last[:-1] + 1), first[1:])
        count = np.maximum(last - first + 1, 0)
        behind = np.cumsum(count)
        offset = np.arange(behind[-1] if len(behind) else 0) - np.repeat(behind - count, count)
        return np.repeat(items.segment, count), np.repeat(first, count) + offset

    def answers(self, rows: Rows, segments: Segments, items: Items, places: Ints) -> list[Answer]:
        found = []
        for place, span in zip(self.places, self.spans, strict=True):
            of, k = self._slides(span, segments, items)
            starts, ends = grid.starts(span, k), grid.ends(span, k)
            los = bounds(items.segment, items.low, of, starts, inclusive=True)
            his = bounds(items.segment, items.low, of, ends, inclusive=True)
            answer = Answer(place, of, los, his, np.ones(len(of), np.bool_), None, starts, ends, k)
            found.append(self.told(span, answer.only(his > los), items))
        return found

    def told(self, span: Span, answer: Answer, items: Items) -> Answer:
        """The answer with its start and end as they are told."""
        return answer

    def kept(self, segments: Segments, items: Items) -> Flags:
        found = np.zeros(len(items), np.bool_)
        for span in self.spans:
            _, due = self.reach(span, segments)
            found |= items.high >= grid.starts(span, np.where(segments.done, 0, due) + 1)[items.segment]
        return found & ~segments.done[items.segment]

    def due(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        _, there = self.last_of(segments, items, kept)
        when = None
        for span in self.spans:
            _, due = self.reach(span, segments)
            end = grid.ends(span, np.where(segments.done, 0, due) + 1)
            when = end if when is None else np.minimum(when, end)
        assert when is not None
        return when.astype(self.numbers), there


class CountedSeries(SliceSeries):
    """Windows over slices in row numbers: a slide is due with its last row, and nothing else makes it so."""

    def __init__(self, resolved: Resolved, places: Sequence[int]) -> None:
        super().__init__(resolved, places)
        self.spans = [replace(span, closed="left", offset=0) for span in self.spans]

    def items(self, rows: Rows) -> Items:
        return items_of(rows, grid.cuts(self.spans, rows.ordinal), [])

    def reach(self, span: Span, segments: Segments) -> tuple[Ints, Ints]:
        every = int(span.every or 1)
        return segments.rows // every, self.total // every

    def answers(self, rows: Rows, segments: Segments, items: Items, places: Ints) -> list[Answer]:
        self._count(rows, segments)
        return super().answers(rows, segments, items, places)

    def straddled(self, rows: Rows, segments: Segments, runs: Items, beyond: Ints) -> Flags:
        self._count(rows, segments)
        return super().straddled(rows, segments, runs, beyond)

    def _count(self, rows: Rows, segments: Segments) -> None:
        self.total = segments.rows + np.bincount(rows.segment, minlength=len(segments))

    def told(self, span: Span, answer: Answer, items: Items) -> Answer:
        if span.full:
            full = items.row[answer.los] == answer.ends - int(span.size or 1)
            answer = replace(answer, on=answer.on & full)
        if self.resolved.time is None:
            return replace(answer, starts=np.maximum(answer.starts, 0))
        return replace(answer, starts=items.first[answer.los], ends=items.last[answer.his - 1])

    def due(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        return Series.due(self, segments, items, kept)
