"""Policies: windows whose oldest part leaves when a function of the user's says so.

One AMTA a segment finds how much leaves, row by row, in Python; the aggregates of the query then run on the starts
that were found, like those of every other window. A start, once moved, does not move back: how many rows a window
holds is kept with its key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.aggregators import AMTA
from sash.kernels.lane import Failed
from sash.monoids import Monoid
from sash.operator.forms import objects
from sash.operator.frame import Ints, Items, Rows, Segments
from sash.operator.keys import plain
from sash.query.resolved import Part, Span


class Over(Monoid):
    """What a policy looks at: one aggregate, or several side by side, each on columns of its own."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.monoids = tuple(part.monoid for part in parts)
        self.identity = tuple(monoid.identity for monoid in self.monoids)

    def lift(self, *rows: Any) -> Any:
        return tuple(monoid.lifted(row) for monoid, row in zip(self.monoids, rows, strict=True))

    def lifted(self, row: tuple[Any, ...]) -> Any:
        return self.lift(*row)

    def combine(self, a: Any, b: Any) -> Any:
        return tuple(monoid.combine(x, y) for monoid, x, y in zip(self.monoids, a, b, strict=True))

    def seen(self, a: Any) -> Any:
        return tuple(monoid.seen(x) for monoid, x in zip(self.monoids, a, strict=True))


class Policies:
    """The Policy windows of a series. `held` is how many rows each has, by key, between steps."""

    def __init__(self, spans: list[tuple[int, Span]]) -> None:
        self.spans = dict(spans)
        self.over = {place: Over(span.over) for place, span in spans}
        self.columns = sorted({name for span in self.spans.values() for part in span.over for name in part.columns})
        self.held: dict[int, Ints] = {}
        self.given: list[Any] = []
        self._sizes: dict[int, Ints] = {}

    def starts(self, place: int, rows: Rows, segments: Segments, items: Items, places: Ints) -> Ints:
        """By row: the first item of the window that ends at it."""
        span, over = self.spans[place], self.over[place]
        lifted = self._lifted(over, len(items))
        found = np.zeros(len(rows), np.int64)
        sizes = np.zeros(len(segments), np.int64)
        bounds = np.searchsorted(items.segment, np.arange(len(segments) + 1)).tolist()
        new = np.searchsorted(rows.segment, np.arange(len(segments) + 1)).tolist()
        for segment in range(len(segments)):
            window = AMTA(over)
            fresh = range(new[segment], new[segment + 1])
            stored = bounds[segment + 1] - len(fresh)
            first = stored - int(self.held[place][segments.key[segment]]) if segments.stored[segment] else stored
            for item in range(first, stored):
                window._step(window.push, lifted[item])
            for row in fresh:
                window._step(window.push, lifted[int(places[row])])
                try:
                    first += window.enforce(span.window.gives_up)  # type: ignore[attr-defined]
                except Exception as error:
                    raise Failed(row, error) from error
                found[row] = first
            sizes[segment] = len(window)
        self._sizes[place] = sizes
        return found

    def _lifted(self, over: Over, count: int) -> list[Any]:
        """The state of every item, in order; `given` holds their columns."""
        columns = dict(zip(self.columns, self.given, strict=True))
        inputs = []
        for part in over.parts:
            ours = [objects(plain(columns[name]), ours=True) for name in part.columns]
            inputs.append(list(zip(*ours, strict=True)) if ours else None)
        return [over.lift(*(() if rows is None else rows[i] for rows in inputs)) for i in range(count)]

    def sizes(self, place: int, segments: Segments) -> Ints:
        """By segment: how many rows its window has now."""
        return self._sizes[place]

    def after(self, place: int, segments: Segments, held: Ints) -> Ints:
        """How many rows the window of each key has now."""
        held = held.copy()
        held[segments.key] = self._sizes[place]
        return held
