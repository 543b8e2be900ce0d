"""RowSeries: windows over single rows, however many of them, from one store of rows.

    rows     · · · · · · · · · · ·
             └──────────────┘               Time(1h), at its last row
                   └────────┘               Count(3)
                      └─────────────┘       Delta(odometer, 5)

A window's start is found by a threshold, on time, on a Delta's column or on the number of rows, that never goes
back; a Policy's by asking it. An item is a row, or a run of rows that lies inside of every window that reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.kernels.lane import bounds
from sash.operator import grid
from sash.operator.frame import Answer, Flags, Ints, Items, Numbers, Rows, Segments
from sash.operator.policy import Policies
from sash.operator.series import (
    Series,
    column_numbers,
    due_slides,
    ends_at_rows,
    items_of,
    later,
    slides_with_rows,
    starts_of,
)
from sash.query.resolved import Resolved, Span


class RowSeries(Series):
    """Windows over single rows."""

    def __init__(self, resolved: Resolved, places: Sequence[int]) -> None:
        super().__init__(resolved, places)
        self.delta_columns = sorted({span.column for span in self.spans if span.kind == "delta" and span.column})
        self.delta_axes = [next(s.axis for s in self.spans if s.column == name) for name in self.delta_columns]
        self.policies = Policies([(p, s) for p, s in zip(places, self.spans, strict=True) if s.kind == "policy"])

    def items(self, rows: Rows) -> Items:
        deltas = []
        for name in self.delta_columns:
            span = next(span for span in self.spans if span.column == name)
            values, _ = column_numbers(rows, span)
            deltas.append((values, values))
        return items_of(rows, rows.time, deltas)

    def check(self, items: Items, places: Ints, rows: Rows) -> None:
        """Raises ValueError, naming the row, if the column of a Delta window decreases."""
        if not self.delta_columns:
            return
        before = np.maximum(places - 1, 0)
        same = (places > 0) & (items.segment[before] == items.segment[places])
        for name, (values, lasts) in zip(self.delta_columns, items.deltas, strict=True):
            last = lasts[before]
            bad = np.flatnonzero(same & (values[places] < last))
            if len(bad):
                at = int(bad[0])
                raise ValueError(
                    f"the column {name!r} of a Delta window must not decrease, but goes from {last[at]} to "
                    f"{values[places[at]]} at {rows.told(at)}"
                )

    # ---- thresholds ----

    def _thresholds(self, span: Span, rows: Rows, ends: Ints) -> tuple[Numbers, bool]:
        """By row that a window ends at: the least coordinate inside, and whether it is itself inside."""
        if span.kind == "delta":
            at = column_numbers(rows, span)[0][ends]
            return grid.below(at, span.size, open_start=True), at.dtype.kind != "f"
        open_start = span.closed in ("right", "neither")
        low = grid.below(rows.time[ends], span.size, open_start)
        return low, not open_start or low.dtype.kind != "f"

    def _coordinate(self, span: Span, items: Items) -> tuple[Numbers, Numbers]:
        if span.kind == "delta":
            return items.deltas[self.delta_columns.index(str(span.column))]
        return items.low, items.high

    def straddled(self, rows: Rows, segments: Segments, runs: Items, beyond: Ints) -> Flags:
        found = np.zeros(len(runs), np.bool_)
        for span in self.spans:
            if span.kind == "policy":
                found[:] = True
            elif span.kind == "count":
                self._straddled_count(span, rows, segments, runs, beyond, found)
            else:
                ends = ends_at_rows(span, rows)
                low, inclusive = self._thresholds(span, rows, ends)
                firsts, lasts = self._coordinate(span, runs)
                run = bounds(runs.segment, lasts, rows.segment[ends], low, inclusive)
                there = run < len(runs)
                run, low, of = run[there], low[there], rows.segment[ends][there]
                partly = firsts[run] < low if inclusive else firsts[run] <= low
                found[run[partly & (runs.segment[run] == of)]] = True
        return found

    def _straddled_count(
        self, span: Span, rows: Rows, segments: Segments, runs: Items, beyond: Ints, found: Flags
    ) -> None:
        """Runs in which one of the starts lies: those are as many rows from the young end as windows have."""
        total = beyond.copy()
        np.add.at(total, runs.segment, runs.rows)
        starts = starts_of(len(segments), runs.segment)
        counted = np.concatenate([[0], np.cumsum(runs.rows)])
        until = counted[1:] - counted[starts[runs.segment]]  # rows of the segment up to the run's end
        new = np.bincount(rows.segment, minlength=len(segments))
        size = int(span.size or 1)
        least = total - size + (1 if span.slide != "time" else 0)
        most = total + new - size
        if span.slide == "time":
            left, _ = due_slides(span, segments)
            pending = grid.ends(span, left)[runs.segment] <= runs.last
            found |= pending | ~segments.started[runs.segment]
        inside = (until > least[runs.segment]) & (until - runs.rows < most[runs.segment])
        found |= inside & (most[runs.segment] > 0)

    # ---- answers ----

    def answers(self, rows: Rows, segments: Segments, items: Items, places: Ints) -> list[Answer]:
        self.check(items, places, rows)
        found = []
        behind = items.behind
        first = starts_of(len(segments), items.segment)
        for place, span in zip(self.places, self.spans, strict=True):
            if span.slide == "time":
                found.append(self._count_at_slides(place, span, rows, segments, items, behind, first))
                continue
            ends = ends_at_rows(span, rows)
            of = rows.segment[ends]
            his = places[ends] + 1
            on = np.ones(len(ends), np.bool_)
            if span.kind == "time":
                early, late = rows.peers
                his = places[late[ends] - 1] + 1 if span.closed in ("right", "both") else places[early[ends]]
                low, inclusive = self._thresholds(span, rows, ends)
                los = bounds(items.segment, items.high, of, low, inclusive)
                starts, ending = grid.below(rows.time[ends], span.size, open_start=False), rows.time[ends]
            else:
                if span.kind == "count":
                    los = self._counted_starts(span, items, behind, first, of, his)
                    if span.full:
                        on = behind[his - 1] - behind[los] + items.rows[los] >= int(span.size or 1)
                elif span.kind == "delta":
                    low, inclusive = self._thresholds(span, rows, ends)
                    los = bounds(items.segment, self._coordinate(span, items)[1], of, low, inclusive)
                else:
                    los = self.policies.starts(place, rows, segments, items, places)[ends]
                starts, ending = items.first[np.minimum(los, len(items) - 1)], rows.time[ends]
            los = np.minimum(los, his)
            ident = (rows.ordinal[ends] + 1) // int(span.every or 1)
            answer = Answer(place, of, los, his, on, ends, starts, ending, ident)
            found.append(answer if span.slide == "row" else answer.only(los < his))  # an empty slide gives no row
        return found

    def _counted_starts(self, span: Span, items: Items, behind: Ints, first: Ints, of: Ints, his: Ints) -> Ints:
        """The first item of the last `size` rows before each end, within the segment."""
        start = behind[his - 1] - int(min(int(span.size or 1), 2**62))
        return np.maximum(np.searchsorted(behind, start, "right"), first[of])

    def _count_at_slides(
        self, place: int, span: Span, rows: Rows, segments: Segments, items: Items, behind: Ints, first: Ints
    ) -> Answer:
        of, k = slides_with_rows(span, segments, items.segment, items.last)
        ends = grid.ends(span, k)
        his = bounds(items.segment, items.low, of, ends, inclusive=span.closed != "right")
        los = self._counted_starts(span, items, behind, first, of, his) if len(his) else his
        on = np.ones(len(of), np.bool_)
        if span.full and len(his):
            on = behind[his - 1] - behind[los] + items.rows[los] >= int(span.size or 1)
        starts = items.first[los] if len(los) else ends
        return Answer(place, of, los, his, on, None, starts, ends, k)

    # ---- what is kept ----

    def kept(self, segments: Segments, items: Items) -> Flags:
        found = np.zeros(len(items), np.bool_)
        behind = items.behind
        starts = starts_of(len(segments), items.segment)
        counted = np.concatenate([[0], behind])
        total = counted[starts[1:]]
        rest = total[items.segment] - behind  # rows of the segment beyond the item
        for place, span in zip(self.places, self.spans, strict=True):
            if span.kind == "time":
                open_start = span.closed in ("right", "neither")
                low = grid.below(segments.now, span.size, open_start)[items.segment]
                found |= items.high > low if open_start and low.dtype.kind == "f" else items.high >= low
            elif span.kind == "count":
                found |= rest < int(span.size or 1) - (span.slide != "time")
                if span.slide == "time":
                    _, due = due_slides(span, segments)
                    found |= items.high >= grid.ends(span, due)[items.segment]
            elif span.kind == "delta":
                values = self._coordinate(span, items)[1]
                low = grid.below(values[starts[1:] - 1], span.size, open_start=True)[items.segment]
                found |= values > low if low.dtype.kind == "f" else values >= low
            else:
                found |= rest < self.policies.sizes(place, segments)[items.segment]
        return found & ~segments.done[items.segment]

    def due(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        when, ever = super().due(segments, items, kept)
        last, there = self.last_of(segments, items, kept)
        for span in self.spans:
            if span.slide == "time":
                strict = span.closed == "right"
                end = grid.ends(span, grid.last_end(span, last, strict) + 1)
                pending = there & (end >= segments.now if strict else end > segments.now)
                when = np.where(pending & (~ever | (end < when)), end, when)
                ever |= pending
        return when, ever

    def expiry(self, segments: Segments, items: Items, kept: Flags) -> tuple[Numbers, Flags]:
        last, there = self.last_of(segments, items, kept)
        if all(span.kind == "time" for span in self.spans):
            return later(last, max(span.size or 0 for span in self.spans)), there
        return last, np.zeros(len(segments), np.bool_)
