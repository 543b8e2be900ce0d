"""Minimum and maximum over Count windows of many sizes, each computed from the next smaller one.

    rows        a b c d e f g h
    size 4            └─────┘ └─ …      the results of size 4, known for every row
    size 7      └───────────┘           that at row d joined with that at row g: they overlap, and cover a to g

A window of up to twice the size of another one is the union of two such windows, one `by` rows before the other. Min
and max are idempotent, so a row may be counted twice. Sizes that are further apart are reached by doubling.

Cost: 1 comparison per row and size, and 1 for each doubling in between; computed one size at a time it is 3 per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sash.kernels.column.min_max import greater, less
from sash.kernels.column.per_key import numpy_division


def _joined(beats: Any, name: str) -> Any:
    """The kernel of one order."""

    @numpy_division
    def over(x: Any, by: int, edges: Any, out: Any) -> None:
        """Join the result at each row with that `by` rows before it, if its key has begun there."""
        for key in range(len(edges) - 1):
            begin, end = edges[key], edges[key + 1]
            first = min(end, begin + by)
            for i in range(begin, first):
                out[np.uint64(i)] = x[np.uint64(i)]
            before, here, there = x[first - by : end - by], x[first:end], out[first:end]
            for j in range(end - first):
                older, newer = before[np.uint64(j)], here[np.uint64(j)]
                there[np.uint64(j)] = newer if beats(older, newer) else older

    over.__qualname__ = f"joined.{name}"  # the name of its machine code
    return over


greatest_joined, least_joined = _joined(greater, "greatest"), _joined(less, "least")


def steps(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The steps from single rows to ascending sizes: by how many rows to shift each time, and the resulting size.

    >>> list(steps([1, 3, 5, 20]))
    [(1, 2), (1, 3), (2, 5), (5, 10), (10, 20)]
    """
    have = 1
    for size in sizes:
        while have < size:
            by = min(have, size - have)
            have += by
            yield by, have
