"""Split the rows of one key into time ranges, each with its lookback.

    rows        · ·  ·   · ··   ·  │ ·  ·· ·    │  ·  · ·
    ranges      0                  b₁ 1         b₂ 2            b₁ ≤ t < b₂ is range 1: equal times stay together
    lookback                 c₁────┘    c₂──────┘               range 1 reads from c₁ on, and emits nothing before b₁

The lookback of a Time window is its size: c = b - size; if it is shifted, its size less the shift. For a window of n
rows, c is early enough that the histogram guarantees n rows in between: a lookback may be too long, never too short,
and its worker drops the excess. Sessions are split only where a gap is certain, and need no lookback. The key and time
of a row determine the ranges that read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.derived_columns import may_reject_rows
from sash.plan.time_axis import Number
from sash.windows.rules import is_gap


@dataclass(frozen=True)
class Lookback:
    """The lookback of a query's windows: in time, in rows, and the session gap, within which no range may begin."""

    time: Number
    rows: int
    gap: Number | None

    @staticmethod
    def of(bound_query: BoundQuery) -> Lookback:
        """The lookback of all windows of a query that can be split."""
        rules = [spec.rule for spec in bound_query.windows]
        rows = [rule for rule in rules if rule.measure == "rows"]
        times = [rule.behind for rule in rules if rule.in_time]
        # a window of rows that slides by time must see whether its slide has new rows
        times += [rule.every for rule in rows if rule.slides_in_time]
        return Lookback(
            max(times, default=0),
            max((int(rule.behind) for rule in rows), default=0),
            max((rule.gap for rule in rules if rule.gap is not None), default=None),
        )


def has_lifetime(bound_query: BoundQuery) -> bool:
    """Does the query have a Lifetime window? Its time ranges start with partials instead of rows."""
    return any(spec.rule.is_unbounded for spec in bound_query.windows)


def why_not_split(bound_query: BoundQuery) -> str | None:
    """The reason why the rows of a key stay in one partition; None if they may be split."""
    if bound_query.query.emit != "final":
        return f"emit={bound_query.query.emit!r} compares each result with the one before it"
    if may_reject_rows(bound_query.query):
        return "failed='side' sets rows aside, which windows of the next range would have to look back past"
    leaves = [leaf for one in bound_query.query.aggregates.values() for leaf in one.leaves()]
    for spec in bound_query.windows:
        if spec.rule.column is not None or spec.rule.measure == "policy":
            return f"{spec.window!r} depends on all rows before"
        if spec.rule.is_unbounded and bound_query.forget is not None:
            return f"{spec.window!r} restarts where forget= expires a key"
        if spec.rule.is_unbounded and any(other.rule.measure != "restarts" for other in bound_query.windows):
            return (
                f"{spec.window!r} is combined with windows that look back at rows; in a separate query it can be split"
            )
        if spec.rule.is_unbounded and any(leaf.window is not None for leaf in leaves):
            return f"{spec.window!r} is combined with windows of single aggregates; in a separate query it can be split"
        if spec.slide == "rows":
            return f"{spec.window!r} counts all rows before"
        if spec.shift > 0:
            return f"{spec.window!r} holds rows after its own"
    return None


@dataclass(frozen=True)
class Buckets:
    """The histogram of a key's times: at least `rows` rows lie from `low` to `high`, both included.

    `weight` is an estimate of their number; if all rows were read, it is `rows`.
    """

    low: Numbers
    high: Numbers
    rows: Ints
    weight: Ints

    @property
    def total(self) -> int:
        """The estimated number of rows of the key."""
        return int(self.weight.sum())


@dataclass(frozen=True)
class TimeRange:
    """The rows of a key from `begin` to before `end`, read from `lookback` on. None: from the first, to the last."""

    begin: Number | None
    end: Number | None
    lookback: Number | None


def time_ranges(buckets: Buckets, lookback: Lookback, most: int) -> list[TimeRange]:
    """At most `most` ranges of about equal size; fewer, or one, if their lookbacks would cost too much."""
    while most > 1:
        found = equal_ranges(buckets, lookback, most)
        read = [_rows_read(buckets, lookback, one.begin) for one in found if one.begin is not None]
        largest = max(read, default=0) + buckets.total // len(found)
        if len(found) > 1 and sum(read) <= buckets.total / 2 and largest <= buckets.total * 2 / 3:
            return found
        most //= 2
    return [TimeRange(None, None, None)]


def equal_ranges(buckets: Buckets, lookback: Lookback, most: int) -> list[TimeRange]:
    """At most `most` ranges of about equal size, regardless of their lookbacks."""
    begins = _begins(buckets, lookback, most)
    ends = [*begins[1:], None]
    found = [
        TimeRange(begin, end, _read_from(buckets, lookback, begin)) for begin, end in zip(begins, ends, strict=False)
    ]
    return [TimeRange(None, begins[0] if begins else None, None), *found]


def _begins(buckets: Buckets, lookback: Lookback, most: int) -> list[Number]:
    """The starts of ranges: times with about equally many rows in between."""
    if not len(buckets.rows):
        return []
    allowed = np.unique(buckets.high) if lookback.gap is None else _session_starts(buckets, lookback.gap)
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


def _session_starts(buckets: Buckets, gap: Number) -> Numbers:
    """The times before which there is certainly no row for longer than a gap."""
    order = np.argsort(buckets.low, kind="stable")
    low, latest = buckets.low[order], np.maximum.accumulate(buckets.high[order])
    return np.unique(low[1:][is_gap(gap, low[1:], latest[:-1])])


def _read_from(buckets: Buckets, lookback: Lookback, begin: Number) -> Number | None:
    """The start of a range's lookback. None: the first row; its own begin: no lookback."""
    earliest = begin - lookback.time if lookback.time else begin
    if lookback.rows > 0:
        for_rows = _rows_before(buckets, begin, lookback.rows)
        if for_rows is None:
            return None
        earliest = min(earliest, for_rows)
    return None if earliest <= buckets.low.min() else earliest


def _rows_before(buckets: Buckets, begin: Number, rows: int) -> Number | None:
    """A time with at least `rows` rows between it and `begin`; None if there may be fewer."""
    before = buckets.high < begin
    order = np.argsort(buckets.low[before], kind="stable")[::-1]
    place = np.searchsorted(np.cumsum(buckets.rows[before][order]), rows)
    low: list[Number] = buckets.low[before][order].tolist()
    return low[place] if place < len(low) else None


def _rows_read(buckets: Buckets, lookback: Lookback, begin: Number) -> int:
    """The estimated number of rows of a range's lookback. It may read more, which are dropped."""
    near = buckets.high >= begin - lookback.time if lookback.time else np.zeros(len(buckets.high), np.bool_)
    return max(int(buckets.weight[(buckets.low < begin) & near].sum()), lookback.rows)


def piece_edges(buckets: Buckets, rows: int) -> list[Number]:
    """Times with about `rows` rows in between."""
    return _begins(buckets, Lookback(0, 0, None), -(-buckets.total // rows))


def readers(
    ranges: list[TimeRange], first: int, more: Sequence[Number] = ()
) -> list[tuple[Number | None, tuple[int, ...]]]:
    """The ranges that read a row, numbered from `first`, by its time: below a time (None: no limit), these ranges.

    A row belongs to the first of them, and is lookback of the others. `more` are additional edges.
    """
    edges = sorted({edge for one in ranges[1:] for edge in (one.begin, one.lookback) if edge is not None} | {*more})
    found = []
    for at, until in zip([None, *edges], [*edges, None], strict=True):
        own = max(i for i, one in enumerate(ranges) if one.begin is None or (at is not None and one.begin <= at))
        later = [i for i in range(own + 1, len(ranges)) if _reads(ranges[i].lookback, at)]
        found.append((until, tuple(first + i for i in (own, *later))))
    return found


def _reads(lookback: Number | None, at: Number | None) -> bool:
    """Does a range with this lookback read rows from `at` on?"""
    return lookback is None or (at is not None and lookback <= at)


def emitted(time_range: TimeRange, spec: WindowSpec, ends: Numbers) -> Flags:
    """The slides, by their ends, that a range emits: the first range with all rows of a slide emits it."""
    found = np.ones(len(ends), np.bool_)
    holds_end = spec.slide == "time" and spec.closed == "right"
    if time_range.begin is not None:
        found &= ends >= time_range.begin if holds_end else ends > time_range.begin
    if time_range.end is not None:
        found &= ends < time_range.end if holds_end else ends <= time_range.end
    return found
