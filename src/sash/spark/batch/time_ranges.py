"""Ranges: one key's rows in parts by time, and what each part needs of the rows before it.

    rows        · ·  ·   · ··   ·  │ ·  ·· ·    │  ·  · ·
    parts       0                  b₁ 1         b₂ 2            t ≥ b₁ and t < b₂ is part 1: equal times never split
    tails                    c₁────┘    c₂──────┘               part 1 reads from c₁ on, and shows nothing of that

A window of time reaches back by its size, so c = b - size. For a window of n rows c is so far back that n rows lie
between for certain, by the counts of the summaries: a tail may be too long, never too short, and its worker drops what
is too much. A session is cut only where its gap is certain, and needs no tail. Which parts read a row follows from its
key and time alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.plan.bound_query import BoundQuery, WindowSpec

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Lookback:
    """How far back the windows of a query look: in time, in rows, and the gap that no cut may lie within."""

    time: Any
    rows: int
    gap: Any

    @staticmethod
    def of(bound_query: BoundQuery) -> Lookback:
        """The reach of all windows of a query that can be split."""
        spans = bound_query.windows
        times = [span.size or 0 for span in spans if span.kind == "time"]
        # of a slide of rows by time it is to be known whether it has new ones
        times += [span.every or 0 for span in spans if span.kind == "count" and span.slide == "time"]
        return Lookback(
            max(times, default=0),
            max((int(span.size or 0) for span in spans if span.kind == "count"), default=0),
            max((span.size or 0 for span in spans if span.kind == "session"), default=None),
        )


def why_whole(bound_query: BoundQuery) -> str | None:
    """Why a key's rows stay together; None if they may be split."""
    if bound_query.query.emit != "final":
        return f"emit={bound_query.query.emit!r} compares each result with the one before it"
    for span in bound_query.windows:
        if span.kind not in ("time", "count", "session", "lifetime"):
            return f"{span.window!r} depends on all rows before"
        if span.kind == "lifetime" and bound_query.forget is not None:
            return f"{span.window!r} starts anew where forget= says"
        if span.kind == "lifetime" and any(needs_rows(other) for other in bound_query.windows):
            return f"{span.window!r} stands beside windows that need a tail of rows: a query of its own is split"
        if span.slide == "rows":
            return f"{span.window!r} counts all rows before"
    return None


def needs_rows(span: WindowSpec) -> bool:
    """Do rows leave a window one by one, so that partials of them are of no use?"""
    return span.kind == "count" or (span.kind == "time" and span.slide != "time")


@dataclass(frozen=True)
class Buckets:
    """What is known of a key's times: at least so many rows lie within `low` and `high`, both included.

    `weight` is how many there are, as far as is known; where all were looked at, it is the same.
    """

    low: Numbers
    high: Numbers
    rows: NDArray[np.int64]
    weight: NDArray[np.int64]

    @property
    def total(self) -> int:
        """About how many rows the key has."""
        return int(self.weight.sum())


@dataclass(frozen=True)
class TimeRange:
    """The rows of a key from `begin` to before `end`, read from `tail` on. None: from the first row, to the last."""

    begin: Any
    end: Any
    tail: Any


def time_ranges(buckets: Buckets, reach: Lookback, most: int) -> list[TimeRange]:
    """At most so many parts of about equal size; fewer, or one, if tails would make them dear."""
    while most > 1:
        found = cut(buckets, reach, most)
        tails = lookbacks(buckets, reach, found)
        largest = max(tails, default=0) + buckets.total // len(found)
        if len(found) > 1 and sum(tails) <= buckets.total / 2 and largest <= buckets.total * 2 / 3:
            return found
        most //= 2
    return [TimeRange(None, None, None)]


def lookbacks(buckets: Buckets, reach: Lookback, parts: list[TimeRange]) -> list[int]:
    """About how many rows the tails hold, of all parts but the first."""
    return [_needed(buckets, reach, part.begin) for part in parts[1:]]


def reached(parts: list[TimeRange], reach: Lookback) -> list[int]:
    """By part: the last part whose windows reach back into it."""
    begins = [part.begin for part in parts[1:]]
    return [
        max((j for j, begin in enumerate(begins, 1) if j <= i or begin - reach.time <= begins[i]), default=0)
        for i in range(len(begins))
    ] + [len(begins)]


def cut(buckets: Buckets, reach: Lookback, most: int) -> list[TimeRange]:
    """At most so many parts of about equal size, whatever their tails."""
    edges = [*_begins(buckets, reach, most), None]
    found = [TimeRange(begin, end, _tail(buckets, reach, begin)) for begin, end in pairwise(edges)]
    return [TimeRange(None, edges[0], None), *found]


def _begins(buckets: Buckets, reach: Lookback, most: int) -> list[Any]:
    """Where parts begin: times at which about equal numbers of rows have gone by."""
    if not len(buckets.rows):
        return []
    allowed = np.unique(buckets.high) if reach.gap is None else _breaks(buckets, reach.gap)
    allowed = allowed[allowed > buckets.low.min()]
    if not len(allowed):
        return []
    order = np.argsort(buckets.high, kind="stable")
    passed = np.cumsum(buckets.weight[order])
    found = []
    for share in range(1, most):
        at = buckets.high[order][np.searchsorted(passed, passed[-1] * share / most)]
        found.append(allowed[min(np.searchsorted(allowed, at), len(allowed) - 1)].item())
    return sorted(set(found))


def _breaks(buckets: Buckets, gap: Any) -> Numbers:
    """The times before which there is no row for at least a gap: sessions begin there."""
    order = np.argsort(buckets.low, kind="stable")
    low, reached = buckets.low[order], np.maximum.accumulate(buckets.high[order])
    wide = (low[1:] > reached[:-1]) & (_since(low[1:], reached[:-1]) >= gap)
    return np.unique(low[1:][wide])


def _since(later: Numbers, earlier: Numbers) -> Numbers:
    """How much later; of times near both ends of 64 bits, a number that does not wrap."""
    if later.dtype.kind == "f":
        return later - earlier
    return later.astype(np.uint64) - earlier.astype(np.uint64)


def _tail(buckets: Buckets, reach: Lookback, begin: Any) -> Any:
    """From where on a part reads the rows before it: None, from the first; its own begin, none of them."""
    tail = begin - reach.time if reach.time else begin
    if reach.rows > 0:
        few = _rows_before(buckets, begin, reach.rows)
        tail = few if few is None else min(tail, few)
    return None if tail is None or tail <= buckets.low.min() else tail


def _rows_before(buckets: Buckets, begin: Any, rows: int) -> Any:
    """A time from which on there are at least so many rows before `begin`; None if there may be fewer in all."""
    before = buckets.high < begin
    order = np.argsort(buckets.low[before], kind="stable")[::-1]
    place = np.searchsorted(np.cumsum(buckets.rows[before][order]), rows)
    return buckets.low[before][order][place].item() if place < len(order) else None


def _needed(buckets: Buckets, reach: Lookback, begin: Any) -> int:
    """About how many rows before it a part computes with. Its tail may hold more, to be certain; they are dropped."""
    reached = buckets.high >= begin - reach.time if reach.time else np.zeros(len(buckets.high), np.bool_)
    return max(int(buckets.weight[(buckets.low < begin) & reached].sum()), reach.rows)


def edges_of(buckets: Buckets, rows: int) -> list[Any]:
    """Times between which there are about so many rows each."""
    return _begins(buckets, Lookback(0, 0, None), -(-buckets.total // rows))


@dataclass(frozen=True)
class Reading:
    """Rows before `until` (None: all others) are of the first of `parts`, and in the tails of the rest."""

    until: Any
    parts: tuple[int, ...]


def readings(parts: list[TimeRange], first: int, more: Sequence[Any] = ()) -> list[Reading]:
    """Which parts, numbered from `first`, read a row: by its time, in order; and apart what `more` edges part."""
    edges = sorted({edge for part in parts[1:] for edge in (part.begin, part.tail) if edge is not None} | {*more})
    found = []
    for at, until in zip([None, *edges], [*edges, None], strict=True):
        own = max(i for i, part in enumerate(parts) if part.begin is None or (at is not None and part.begin <= at))
        later = [i for i in range(own + 1, len(parts)) if _reads(parts[i].tail, at)]
        found.append(Reading(until, tuple(first + i for i in (own, *later))))
    return found


def _reads(tail: Any, at: Any) -> bool:
    """Does a part with this tail read rows from `at` on?"""
    return tail is None or (at is not None and tail <= at)


def shows(part: TimeRange, span: WindowSpec, ends: Numbers) -> NDArray[np.bool_]:
    """Which slides, by their ends, a part shows: those that no part before it can know, and none after it must."""
    shown = np.ones(len(ends), np.bool_)
    holds_end = span.slide == "time" and span.closed == "right"
    if part.begin is not None:
        shown &= ends >= part.begin if holds_end else ends > part.begin
    if part.end is not None:
        shown &= ends < part.end if holds_end else ends <= part.end
    return shown
