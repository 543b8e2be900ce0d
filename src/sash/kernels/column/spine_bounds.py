"""Bounds of windows over one table at the times of another: for each row of a spine, a place among the events.

    events    a1  a4  a4  a9  b2  b7        by key and time
    spine     a4  a8  b1                    by key and time
    place      1   3   4                    the first event of the key at or after the row's time

Places never decrease, so a search continues from the last one, in steps that double: O(log d) for a distance d. That is
a few comparisons if the spine is dense, and no scan of all events if it is sparse.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.column.per_key import key_at
from sash.kernels.loops.bound_rules import first_from, precedes


def spine_places(
    times: Any, targets: Any, bound: Any, event_edges: Any, spine_edges: Any, first: int, stop: int, out: Any
) -> None:
    """Fill `out` for spine rows [first, stop): the first event of the key that does not precede the row's bound.

    `times` are those of the events, `targets` those of the spine, `bound` a MovedBound. Both tables have the same keys,
    which begin at their edges.
    """
    key = key_at(spine_edges, first)
    while first < stop:
        at, end = event_edges[key], event_edges[key + 1]
        upto = min(spine_edges[key + 1], stop)
        for i in range(first, upto):
            at = _next(times, at, end, targets[i], bound)
            out[i] = at
        first = max(first, upto)
        key += 1


def _next(times: Any, a: int, b: int, t: Any, bound: Any) -> int:
    """The first place in [a, b) that does not precede the bound of a row at t; b if there is none."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return a
    if t > ceiling:
        return b
    target, width = t + by, 1
    while a + width <= b and precedes(times[a + width - 1], target, inclusive):
        a += width
        width *= 2
    return first_from(times, a, min(a + width - 1, b), target, inclusive)
