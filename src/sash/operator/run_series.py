"""RunSeries: windows that only grow until they start anew: one partial a key, and the new rows behind it.

Session       · · ·     · ·  │ gap
              └───┘     └─┘           starts anew where the gap to the row before is too long
Punctuation   · · ●  · ·●             starts anew behind a row whose column is true
              └───┘  └──┘
Lifetime      · · ·  · · ·            never, but with a new life of the key
              └──────────┘
"""

from __future__ import annotations

import numpy as np

from sash.kernels.lane import bounds
from sash.operator import grid
from sash.operator.frame import Answer, Flags, Ints, Items, Numbers, Rows, Segments
from sash.operator.series import (
    Series,
    column_numbers,
    ends_at_rows,
    later,
    slides_with_rows,
    starts_of,
)
from sash.query.resolved import Span


class RunSeries(Series):
    """The windows of one span that grow and start anew."""

    @property
    def span(self) -> Span:
        """Its only window."""
        return self.spans[0]

    def answers(self, rows: Rows, segments: Segments, items: Items, places: Ints) -> list[Answer]:
        self.begins = self._begins(rows, items, places)
        start = np.maximum.accumulate(np.where(self.begins, np.arange(len(items)), 0))
        span, place = self.span, self.places[0]
        if span.slide == "close":
            return [self._closed(place, rows, segments, items, places, start)]
        if span.slide == "time":
            return [self._at_slides(place, segments, items, start)]
        ends = ends_at_rows(span, rows)
        _, late = rows.peers
        his = (places[late[ends] - 1] if span.kind != "punctuation" else places[ends]) + 1
        los = start[places[ends]]
        on = np.ones(len(ends), np.bool_)
        told = items.first[los], rows.time[ends]
        if self.resolved.time is None:
            told = items.row[los], rows.ordinal[ends] + 1
        ident = (rows.ordinal[ends] + 1) // int(span.every or 1)
        return [Answer(place, rows.segment[ends], los, his, on, ends, *told, ident)]

    def _begins(self, rows: Rows, items: Items, places: Ints) -> Flags:
        """Which items begin a window."""
        begins = np.concatenate([[True], items.segment[1:] != items.segment[:-1]]) if len(items) else np.zeros(0, bool)
        if self.span.kind == "session" and len(items):
            gaps = grid.since(items.first[1:], items.last[:-1])
            begins[1:] |= ~begins[1:] & (gaps >= np.asarray(self.span.size).astype(gaps.dtype))
        if self.span.kind == "punctuation":
            self.closing = np.zeros(len(items), np.bool_)
            self.closing[places] = column_numbers(rows, self.span)[0]
            begins[1:] |= self.closing[:-1]
        return begins

    def _silent(self, now: Numbers, last: Numbers) -> Flags:
        """Is a session over that had its last row at `last`?"""
        gap = grid.since(np.maximum(now, last), last)
        return gap >= np.asarray(self.span.size).astype(gap.dtype)

    def _closed(self, place: int, rows: Rows, segments: Segments, items: Items, places: Ints, start: Ints) -> Answer:
        """The windows that are complete: sessions by time, or by a later one; punctuated ones by their last row."""
        last = np.flatnonzero(np.append(self.begins[1:], True)) if len(items) else np.zeros(0, np.int64)
        of = items.segment[last]
        if self.span.kind == "punctuation":
            good = self.closing[last]
        else:
            more = np.append(of[1:] == of[:-1], False) if len(of) else np.zeros(0, np.bool_)
            good = more | segments.done[of] | segments.over[of] | self._silent(segments.now[of], items.last[last])
        last, of = last[good], of[good]
        los, his = start[last], last + 1
        on = np.ones(len(last), np.bool_)
        if self.span.kind == "session":
            told = items.first[los], later(items.last[last], self.span.size)
        elif self.resolved.time is None:
            told = items.row[los], items.row[last] + items.rows[last]
        else:
            told = items.first[los], items.last[last]
        return Answer(place, of, los, his, on, None, *told, items.row[los])

    def _at_slides(self, place: int, segments: Segments, items: Items, start: Ints) -> Answer:
        of, k = slides_with_rows(self.span, segments, items.segment, items.last)
        ends = grid.ends(self.span, k)
        his = bounds(items.segment, items.last, of, ends, inclusive=self.span.closed != "right")
        los = starts_of(len(segments), items.segment)[of]
        return Answer(place, of, los, his, np.ones(len(of), np.bool_), None, items.first[los], ends, k)

    def kept(self, segments: Segments, items: Items) -> Flags:
        """The items of each segment's last window, if it is still open."""
        if not len(items):
            return np.zeros(0, np.bool_)
        window = np.cumsum(self.begins)
        ends = starts_of(len(segments), items.segment)[1:]
        found = window == window[ends - 1][items.segment]
        if self.span.kind == "punctuation":
            found &= ~self.closing[ends - 1][items.segment]
        elif self.span.kind == "session":
            found &= ~self._silent(segments.now, items.last[ends - 1])[items.segment]
        return found & ~segments.done[items.segment]

    def due(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        last, there = self.last_of(segments, items, kept)
        if self.span.slide == "close" and self.span.kind == "session":
            return later(last, self.span.size), there
        if self.span.slide == "time":
            strict = self.span.closed == "right"
            end = grid.ends(self.span, grid.last_end(self.span, last, strict) + 1)
            return end.astype(self.numbers), there & (end >= segments.now if strict else end > segments.now)
        return super().due(segments, items, kept)

    def expiry(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        if self.span.kind == "session":
            last, there = self.last_of(segments, items, kept)
            return later(last, self.span.size), there
        return super().expiry(segments, items, kept)
