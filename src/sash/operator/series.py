"""Series: which items windows are made of, where each window begins and ends among them, what must be kept.

    series      items                          windows
    RowSeries   single rows                    Time, Count, Delta and Policy that end at a row; Count at slides in time
    SliceSeries partials between cuts          Time with slides in time, Count with slides in rows
    RunSeries   a partial and the new rows     Session, Punctuation, Lifetime

A series knows coordinates only: times, row numbers, cuts. States and results are the engine's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sash.operator import grid
from sash.operator.frame import Answer, Flags, Ints, Items, Numbers, Rows, Segments
from sash.operator.keys import plain
from sash.query.resolved import Resolved, Span


class Series(ABC):
    """What all series share."""

    folds: ClassVar[bool] = False
    """Are items of one coordinate folded into one?"""

    def __init__(self, resolved: Resolved, places: Sequence[int]) -> None:
        self.resolved = resolved
        self.places = tuple(places)
        self.spans = [_bounded(resolved.spans[place]) for place in places]
        self.numbers = np.dtype(np.int64 if resolved.time is None or resolved.time.kind == "int" else np.float64)

    # ---- filled by each series ----

    def items(self, rows: Rows) -> Items:
        """New rows as items."""
        return items_of(rows, rows.time, [])

    def straddled(self, rows: Rows, segments: Segments, runs: Items, beyond: Ints) -> Flags:
        """Of stored runs: in which a window begins, so that its items are needed one by one.

        `beyond` are the items of each segment that are stored behind its runs.
        """
        return np.zeros(len(runs), np.bool_)

    @abstractmethod
    def answers(self, rows: Rows, segments: Segments, items: Items, places: Ints) -> list[Answer]:
        """The results that are due; `places` are the items of the rows."""

    @abstractmethod
    def kept(self, segments: Segments, items: Items) -> Flags:
        """Which items a later window may hold."""

    def due(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        """By segment: when something of it is due without a further row, and whether anything ever is."""
        return np.zeros(len(segments), self.numbers), np.zeros(len(segments), np.bool_)

    def expiry(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        """By segment: from when on nothing of it is needed any more, and whether there is such a time."""
        return np.zeros(len(segments), self.numbers), np.zeros(len(segments), np.bool_)

    # ---- shared ----

    def last_of(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        """By segment: the time of its last kept item, and whether there is one."""
        found, there = np.zeros(len(segments), self.numbers), np.zeros(len(segments), np.bool_)
        found[items.segment[kept]] = items.last[kept]  # items are in order: the last one stays
        there[items.segment[kept]] = True
        return found, there


def later(time: Numbers, size: Any) -> Numbers:
    """time + size; integers saturate."""
    if time.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return time + size
    size = int(min(size, grid.LIMIT))
    return np.where(time <= grid.LIMIT - size, time + size, grid.LIMIT)


def _bounded(span: Span) -> Span:
    """A window of more rows than there will ever be is one of 2**61."""
    size = min(span.size, 2**61) if span.kind == "count" and span.size is not None else span.size
    every = min(span.every, 2**61) if span.slide == "rows" and span.every is not None else span.every
    return replace(span, size=size, every=every)


def items_of(rows: Rows, coordinate: Numbers, deltas: list[tuple[Numbers, Numbers]]) -> Items:
    """Rows as items, found by this coordinate."""
    ones = np.ones(len(rows), np.int64)
    return Items(rows.segment, rows.time, rows.time, ones, rows.ordinal, coordinate, coordinate, deltas)


def ends_at_rows(span: Span, rows: Rows) -> Ints:
    """The rows at which a window that slides by rows gives a result."""
    if span.slide == "row":
        return np.arange(len(rows))
    return np.flatnonzero((rows.ordinal + 1) % int(span.every or 1) == 0)


def due_slides(span: Span, segments: Segments) -> tuple[Ints, Ints]:
    """By segment: the last slide that has left, and the last that is due; without a limit beyond all others."""
    strict = span.closed == "right"
    before, now = np.where(segments.started, segments.before, 0), np.where(segments.done, 0, segments.now)
    left = np.where(segments.started, grid.last_end(span, before, strict), -(2**62))
    due = np.where(segments.done, 2**62, grid.last_end(span, now, strict))
    return left, due


def slides_with_rows(span: Span, segments: Segments, segment: Ints, time: Numbers) -> tuple[Ints, Ints]:
    """Segments and numbers of the due slides in which there is a new row (the last before the end)."""
    left, due = due_slides(span, segments)
    k = grid.last_end(span, time, span.closed == "right") + 1
    good = (k > left[segment]) & (k <= due[segment])
    segment, k = segment[good], k[good]
    fresh = np.concatenate([[True], (segment[1:] != segment[:-1]) | (k[1:] != k[:-1])]) if len(k) else np.zeros(0, bool)
    return segment[fresh], k[fresh]


def starts_of(count: int, segment: Ints) -> Ints:
    """By segment: where its items start; the last entry is their number."""
    return np.searchsorted(segment, np.arange(count + 1))


def column_numbers(rows: Rows, span: Span) -> tuple[Numbers, Flags]:
    """The values of a span's own column, and which are valid."""
    column = plain(rows.table.column(span.column))
    if span.kind == "punctuation":
        return column.fill_null(False).to_numpy(zero_copy_only=False), np.ones(len(rows), np.bool_)
    assert span.axis is not None
    return span.axis.numbers(column)
