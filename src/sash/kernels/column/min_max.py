"""Minimum and maximum, and their places, over whole columns.

The first of equal values is the result, and a NaN takes precedence over every number, as in `sash.monoids.extremes`.

Cost: 3 comparisons per row, over Count windows (by the block algorithm of van Herk, and Gil and Werman, for image
filters) and over ranges.

Minimum and maximum over Count windows of many sizes, each computed from the next smaller one.

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

from sash.kernels.column.per_key import numpy_division, over_keys

# --- Min max ---


def greater(a: Any, b: Any) -> Any:
    """Does b replace a as the maximum?"""
    return (b > a) | ((b != b) & (a == a))  # without a branch, which random values would mispredict


def less(a: Any, b: Any) -> Any:
    """Does b replace a as the minimum?"""
    return (b < a) | ((b != b) & (a == a))


def _extreme(beats: Any, name: str) -> tuple[Any, Any, Any]:
    """The kernels of one order: over Count windows, over ranges, and the row of the extreme value over ranges."""

    @numpy_division
    def one_key(
        x: Any, begin: int, first: int, stop: int, size: int, _setting: int, out: Any, _uncertain: Any, scratch: Any
    ) -> None:
        front, following, back = scratch[0], scratch[1], scratch[2]
        # front[j]: the best of the rows [block - size + j, block), for 0 < j < size; not before the key begins
        fronted = first > begin and size > 1
        if fronted:
            least = max(begin, first - size + 1)
            best = x[first - 1]
            for row in range(first - 1, least - 1, -1):
                best = best if beats(x[row], best) else x[row]
                front[row - first + size] = best
            for j in range(1, least - first + size):
                front[j] = best
        block = first
        while block < stop:
            length = min(size, stop - block)
            end = block + length - 1
            forth, best = x[block], x[end]
            for j in range(length):
                value = x[block + j]
                forth = value if beats(forth, value) else forth
                back[j] = forth
                value = x[end - j]
                best = best if beats(value, best) else value
                following[length - 1 - j] = best
            if fronted:
                for j in range(min(length, size - 1)):
                    out[block + j] = back[j] if beats(front[j + 1], back[j]) else front[j + 1]
                if length == size:
                    out[end] = back[length - 1]
            else:
                for j in range(length):
                    out[block + j] = back[j]
            front, following = following, front
            fronted = size > 1
            block += length

    one_key.__qualname__ = f"{name}.one_key"

    @numpy_division
    def ranges(
        x: Any, los: Any, his: Any, first: int, stop: int, _setting: int, out: Any, _uncertain: Any, scratch: Any
    ) -> None:
        front = scratch[0]
        i = first
        while i < stop:
            low, flip = los[i], his[i]
            if low == flip:
                i += 1
                continue
            best = x[flip - 1]
            for row in range(flip - 1, low - 1, -1):
                best = best if beats(x[row], best) else x[row]
                front[row - low] = best
            after = flip
            back = best
            while i < stop and los[i] < flip:
                if after < his[i]:
                    if after == flip:
                        back = x[flip]
                    for row in range(after, his[i]):
                        back = x[row] if beats(back, x[row]) else back
                    after = his[i]
                best = front[los[i] - low]
                out[i] = back if after > flip and beats(best, back) else best
                i += 1

    ranges.__qualname__ = f"{name}.ranges"

    @numpy_division
    def places(
        x: Any, los: Any, his: Any, first: int, stop: int, _setting: int, out: Any, _uncertain: Any, scratch: Any
    ) -> None:
        front = scratch[0]
        i = first
        while i < stop:
            low, flip = los[i], his[i]
            if low == flip:
                i += 1
                continue
            at = flip - 1
            best = x[at]
            for row in range(flip - 1, low - 1, -1):
                if not beats(x[row], best):
                    best, at = x[row], row
                front[row - low] = at
            after = flip
            last, back = at, best
            while i < stop and los[i] < flip:
                if after < his[i]:
                    if after == flip:
                        last, back = flip, x[flip]
                    for row in range(after, his[i]):
                        if beats(back, x[row]):
                            back, last = x[row], row
                    after = his[i]
                at = front[los[i] - low]
                out[i] = last if after > flip and beats(x[at], back) else at
                i += 1

    places.__qualname__ = f"{name}.places"
    return over_keys(one_key), ranges, places


greatest_rows, greatest_ranges, greatest_places = _extreme(greater, "greatest")
least_rows, least_ranges, least_places = _extreme(less, "least")


# --- Size ladder ---


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
