"""Quantiles, the median among them, over narrow windows of whole columns.

Windows of up to `NARROW` keys are sorted arrays. Eight ranges of rows are processed at once, so that a vector holds the
i-th keys of eight arrays. Each step removes and inserts a key in all of them, without a branch:

    array 0    rows 0 …             old 7  new 2     sentinels fill an array after its keys: a window that only grows
    array 1    rows 1,000 …         old 3  new 9     removes one, a window that only shrinks inserts one
    …

Over Count windows up to `BATCH` steps are one call, as long as no array reaches the end of a key: the keys of a range
are copied to vectors, and results back, a run of rows at a time.

Cost per row: w / 8 vector operations for windows of w keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.order_keys import GREATEST
from sash.kernels.column.per_key import key_at
from sash.kernels.column.quantile_results import write_quantile
from sash.kernels.jit.word_operations import ARRAYS, slide_arrays
from sash.monoids.order_statistics import quantile_place

NARROW = 128
"""The longest window that is a sorted array."""

BATCH = 32
"""The greatest number of steps in one call; twice as many take as long."""


def narrow_quantile_rows(
    keys: Any, size: int, edges: Any, first: int, stop: int, longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop) over Count windows of up to `longest` keys.

    Each step processes a row: its key enters, that of the row `size` before it leaves. A range that begins within a key
    first processes the rows of its first window, without results. The other arguments are those of `narrow_quantiles`.
    """
    arrays, old, new, found, rows, ends, begins, following_keys = scratch
    for i in range(ARRAYS * (longest + 1)):
        arrays[i] = GREATEST
    for number in range(ARRAYS):
        row = first + (stop - first) * number // ARRAYS
        ends[number] = first + (stop - first) * (number + 1) // ARRAYS
        key = key_at(edges, min(row, len(keys) - 1))
        begins[number] = max(edges[key], row + 1 - size)
        rows[number] = begins[number] if row < ends[number] else row
        following_keys[number] = key + 1
    place, fraction = quantile_place(size, asked[0], asked[1])
    steps = BATCH
    while steps > 0:
        steps, is_alike = _steps_at_once(size, edges, first, stop, scratch)
        _take_keys(keys, size, steps, scratch)
        slide_arrays(arrays, longest, old, new, steps, min(place, longest - 1), found)
        for number in range(ARRAYS):
            row, end = rows[number], ends[number]
            wanted = first + (stop - first) * number // ARRAYS
            if row < end:
                if is_alike and row >= wanted:
                    for step in range(steps):
                        at = np.uint64(3 * ARRAYS * step + number)
                        is_nan = asked[2] and found[at + np.uint64(2 * ARRAYS)] == GREATEST
                        following = found[at + np.uint64(ARRAYS)] if fraction != 0.0 else found[at]
                        write_quantile(row + step, found[at], following, fraction, is_nan, asked, out)
                elif row >= wanted:
                    held = min(row + 1 - begins[number], size)
                    _write_sorted(row, arrays, number, (held, *quantile_place(held, asked[0], asked[1])), asked, out)
                rows[number] = row + steps
                _begin_key(size, edges, number, scratch)


def _steps_at_once(size: int, edges: Any, first: int, stop: int, scratch: Any) -> tuple[int, bool]:
    """The number of steps up to the end of a key or range, 0 if all are at the end; and whether all windows with
    results are full.
    """
    _, _, _, _, rows, ends, begins, following_keys = scratch
    steps, is_alike, is_working = BATCH, True, False
    for number in range(ARRAYS):
        row, end = rows[number], ends[number]
        if row < end:
            is_working = True
            wanted = first + (stop - first) * number // ARRAYS
            steps = min(steps, min(end, edges[following_keys[number]]) - row)
            if row < wanted:
                steps = min(steps, wanted - row)
            elif row + 1 - begins[number] < size:
                is_alike = False
    if not is_working:
        return 0, True
    return steps if is_alike else 1, is_alike


def _take_keys(keys: Any, size: int, steps: int, scratch: Any) -> None:
    """Copy the keys that leave and enter to vectors."""
    _, old, new, _, rows, ends, begins, _ = scratch
    for number in range(ARRAYS):
        row = rows[number]
        held = min(max(begins[number] + size - row, 0), steps) if row < ends[number] else steps
        for step in range(held):  # nothing leaves
            old[np.uint64(ARRAYS * step + number)] = GREATEST
        for step in range(held, steps):
            old[np.uint64(ARRAYS * step + number)] = keys[np.uint64(row + step - size)]
        for step in range(steps):
            new[np.uint64(ARRAYS * step + number)] = keys[np.uint64(row + step)] if row < ends[number] else GREATEST


def _begin_key(size: int, edges: Any, number: int, scratch: Any) -> None:
    """Empty an array whose next row is the first of a key."""
    arrays, _, _, _, rows, ends, begins, following_keys = scratch
    row = rows[number]
    if row == edges[following_keys[number]] and row < ends[number]:
        for i in range(min(row - begins[number], size)):
            arrays[ARRAYS * i + number] = GREATEST
        begins[number] = row
        while edges[following_keys[number]] <= row:
            following_keys[number] += 1


def narrow_quantiles(
    keys: Any, los: Any, his: Any, first: int, stop: int, longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop), whose windows have up to `longest` keys.

    `asked` and `out` are those of `write_quantile`.
    """
    arrays, old, new, found, rows, ends, lows, highs = scratch
    for i in range(ARRAYS * (longest + 1)):
        arrays[i] = GREATEST
    for number in range(ARRAYS):
        rows[number] = first + (stop - first) * number // ARRAYS
        ends[number] = first + (stop - first) * (number + 1) // ARRAYS
        if rows[number] < ends[number]:
            lows[number] = highs[number] = los[rows[number]]
    count, place, fraction = -1, 0, 0.0
    working = True
    while working:
        working = False
        for number in range(ARRAYS):
            row = rows[number]
            removed = inserted = np.int64(GREATEST)
            if row < ends[number]:
                working = True
                low, high = lows[number], highs[number]
                leaves, enters = low < los[np.uint64(row)], high < his[np.uint64(row)]
                removed = keys[np.uint64(low)] if leaves else removed
                inserted = keys[np.uint64(high)] if enters else inserted
                lows[number], highs[number] = low + leaves, high + enters
            old[number], new[number] = removed, inserted
        slide_arrays(arrays, longest, old, new, 1, 0, found)
        for number in range(ARRAYS):
            row, low, high = rows[number], lows[number], highs[number]
            if row < ends[number] and low == los[np.uint64(row)] and high == his[np.uint64(row)]:
                if high > low:
                    if high - low != count:
                        count = high - low
                        place, fraction = quantile_place(count, asked[0], asked[1])
                    _write_sorted(row, arrays, number, (count, place, fraction), asked, out)
                row += 1
                rows[number] = row
                if row < ends[number] and los[np.uint64(row)] >= high:  # nothing in common
                    for i in range(high - low):
                        arrays[ARRAYS * i + number] = GREATEST
                    lows[number] = highs[number] = los[np.uint64(row)]


def _write_sorted(row: int, arrays: Any, number: int, sought: Any, asked: Any, out: Any) -> None:
    """Write the result of a row from a sorted array; `sought`: its number of keys, a place and a fraction beyond it."""
    count, place, fraction = sought
    at = np.uint64(ARRAYS * place + number)
    is_nan = asked[2] and arrays[np.uint64(ARRAYS * (count - 1) + number)] == GREATEST
    following = arrays[at + np.uint64(ARRAYS)] if fraction != 0.0 else arrays[at]
    write_quantile(row, arrays[at], following, fraction, is_nan, asked, out)
