"""Quantiles, the median among them, over whole columns.

Narrow windows, of up to `NARROW` keys, are sorted arrays. Eight ranges of rows are processed at once, so that a vector
holds the i-th keys of eight arrays. Each step removes and inserts a key in all of them, without a branch:

    array 0    rows 0 …             old 7  new 2     a window that only grows removes a sentinel, which fills the
    array 1    rows 1,000 …         old 3  new 9     array behind its keys; one that only shrinks inserts one
    …

Wide windows are sets of ranks (`rank_sets.py`). The keys are ranked chunk by chunk (`rank_compression.py`), a chunk is
four windows long, and a cursor follows the quantile from row to row.

Cost a row: w / 8 vector operations for narrow windows of w keys; for wide ones some 1.3 sorted keys, 2 changed bits and
a step of the cursor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.kernels.column.order_keys import GREATEST, float_bits
from sash.kernels.column.per_key import key_at
from sash.kernels.column.rank_compression import rank_chunk
from sash.kernels.column.rank_sets import SELDOM, blocks_needed, clear, flip, moved_to
from sash.kernels.jit.word_operations import ARRAYS, bit_count, float_of, lowest_bit, nth_bit, slide_arrays
from sash.monoids.algebra import noinline
from sash.monoids.order_statistics import interpolated, quantile_place

NARROW = 96
"""The longest window that is kept as a sorted array: at 96 keys both ways take some 17 ns a row on one core."""

_ONE, _SIX, _TEN = np.uint64(1), np.uint64(6), np.uint64(10)


def narrow_quantile_rows(
    keys: Any, size: int, edges: Any, first: int, stop: int, longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop) over Count windows, of which none has more than `longest` keys.

    Each step processes a row: its key enters, that of the row `size` before it leaves. A range that begins within a key
    first processes the rows of its first window, without results. The other arguments are those of `narrow_quantiles`.
    """
    arrays, old, new, rows, ends, begins, following_keys = scratch
    for i in range(ARRAYS * (longest + 1)):
        arrays[i] = GREATEST
    steps = 0
    for number in range(ARRAYS):
        row = first + (stop - first) * number // ARRAYS
        ends[number] = first + (stop - first) * (number + 1) // ARRAYS
        key = key_at(edges, min(row, len(keys) - 1))
        begins[number] = max(edges[key], row + 1 - size)
        rows[number] = begins[number]
        following_keys[number] = key + 1
        steps = max(steps, ends[number] - begins[number])
    count, place, fraction = -1, 0, 0.0
    for _ in range(steps):
        for number in range(ARRAYS):
            row = rows[number]
            removed = inserted = np.int64(GREATEST)
            if row < ends[number]:
                inserted = keys[np.uint64(row)]
                removed = keys[np.uint64(row - size)] if row - size >= begins[number] else removed
            old[number], new[number] = removed, inserted
        slide_arrays(arrays, longest, old, new)
        for number in range(ARRAYS):
            row = rows[number]
            if row < ends[number]:
                held = min(row + 1 - begins[number], size)
                if row >= first + (stop - first) * number // ARRAYS:
                    if held != count:
                        count = held
                        place, fraction = quantile_place(count, asked[0], asked[1])
                    _write_sorted(row, arrays, number, (count, place, fraction), asked, out)
                row += 1
                rows[number] = row
                if row == edges[np.uint64(following_keys[number])] and row < ends[number]:
                    for i in range(held):
                        arrays[ARRAYS * i + number] = GREATEST
                    begins[number] = row
                    while edges[following_keys[number]] <= row:
                        following_keys[number] += 1


def narrow_quantiles(
    keys: Any, los: Any, his: Any, first: int, stop: int, longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop), whose windows have up to `longest` keys.

    `asked` are the quantile, the number of the interpolation, and whether keys are those of floats; `out` is one array,
    as floats and as integers.
    """
    arrays, old, new, rows, ends, lows, highs = scratch
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
        slide_arrays(arrays, longest, old, new)
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


def wide_quantile_rows(
    keys: Any, size: int, edges: Any, first: int, stop: int, _longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop) over Count windows; the arguments are those of `narrow_quantile_rows`."""
    ranks, order, words, blocks, sorting = scratch
    row, key = first, key_at(edges, first)
    while row < stop:
        begin = high = max(edges[key], row + 1 - size)
        length = rank_chunk(keys, begin, min(size, edges[key + 1] - begin), ranks, order, sorting)
        numbers = _start(keys, begin, length, order, words, blocks, asked[2])
        chunk = keys[begin : begin + length], ranks, order, numbers, words, blocks[: blocks_needed(length)]
        until = min(stop, begin + length)
        while high < until:
            cursor = np.uint64(0), 0, 0, 0
            end, low = min(edges[key + 1], until), high
            while high < end and high - low < size:
                cursor = _entered(chunk, high - begin, cursor)
                high += 1
                if high > row:
                    place, fraction = quantile_place(high - low, asked[0], asked[1])
                    cursor = _found(chunk, cursor, place, fraction, high - 1, asked, out)
            if high < end:
                place, fraction = quantile_place(size, asked[0], asked[1])
            for at in range(high, end):
                cursor = _entered(chunk, at - begin, cursor)
                cursor = _left(chunk, at - size - begin, cursor)
                cursor = _found(chunk, cursor, place, fraction, at, asked, out)
            high = end
            if end == edges[key + 1] and end < until:
                for at in range(max(low, end - size), end):
                    cursor = _left(chunk, at - begin, cursor)
                while edges[key + 1] <= end:
                    key += 1
        row = high
        while row < stop and edges[key + 1] <= row:
            key += 1


def wide_quantiles(
    keys: Any, los: Any, his: Any, first: int, stop: int, _longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop); the arguments are those of `narrow_quantiles`."""
    ranks, order, words, blocks, sorting = scratch
    count, place, fraction = -1, 0, 0.0
    row = first
    while row < stop:
        begin = los[row]
        length = rank_chunk(keys, begin, his[row] - begin, ranks, order, sorting)
        if length == 0:  # the last windows are empty
            return
        numbers = _start(keys, begin, length, order, words, blocks, asked[2])
        chunk = keys[begin : begin + length], ranks, order, numbers, words, blocks[: blocks_needed(length)]
        cursor = np.uint64(0), 0, 0, 0
        low = high = begin
        while row < stop and his[np.uint64(row)] <= begin + length:
            start, end = los[np.uint64(row)], his[np.uint64(row)]
            while high < end:
                cursor = _entered(chunk, high - begin, cursor)
                high += 1
            while low < start:
                cursor = _left(chunk, low - begin, cursor)
                low += 1
            if end > start:
                if end - start != count:
                    count = end - start
                    place, fraction = quantile_place(count, asked[0], asked[1])
                cursor = _found(chunk, cursor, place, fraction, row, asked, out)
            row += 1


# ---- a chunk: its keys, ranks, order, the number of its keys that are not NaN, and the set of ranks in the window.
# ---- A cursor: as in `moved_to`, and the number of NaNs.


def _start(keys: Any, begin: int, length: int, order: Any, words: Any, blocks: Any, is_float: bool) -> Any:
    """Empty the set of ranks; returns how many keys are not NaN: these are the last in order."""
    clear(words, blocks, length)
    numbers = length
    while is_float and numbers > 0 and keys[begin + order[numbers - 1]] == GREATEST:
        numbers -= 1
    return np.uint64(numbers)


def _entered(chunk: Any, at: int, cursor: Any) -> Any:
    """The cursor after a key has entered."""
    _, ranks, _, numbers, words, blocks = chunk
    word, before, far, nans = cursor
    rank = np.uint64(ranks[np.uint64(at)])
    flip(words, rank)
    if far > SELDOM:
        blocks[rank >> _TEN] += 1
    return word, before + int(rank < word << _SIX), far, nans + int(rank >= numbers)


def _left(chunk: Any, at: int, cursor: Any) -> Any:
    """The cursor after a key has left."""
    _, ranks, _, numbers, words, blocks = chunk
    word, before, far, nans = cursor
    rank = np.uint64(ranks[np.uint64(at)])
    flip(words, rank)
    if far > SELDOM:
        blocks[rank >> _TEN] -= 1
    return word, before - int(rank < word << _SIX), far, nans - int(rank >= numbers)


def _found(chunk: Any, cursor: Any, place: int, fraction: float, row: int, asked: Any, out: Any) -> Any:
    """Write the result of a row: the key at a place, or a fraction of the way to the next; returns the cursor there."""
    keys, _, order, _, words, blocks = chunk
    word, before, far, nans = cursor
    if before > place or before + bit_count(words[word]) <= place:
        word, before, far = moved_to(words, blocks, (word, before, far), place)
    here, left = word, words[word]
    bit = nth_bit(left, np.uint64(place - before))
    key = keys[np.uint64(order[(here << _SIX) + bit])]
    following = key
    if fraction != 0.0:
        left &= ~_ONE << bit
        while left == 0:
            here += _ONE
            left = words[here]
        following = keys[np.uint64(order[(here << _SIX) + lowest_bit(left)])]
    _write(row, key, following, fraction, nans > 0, asked, out)
    return word, before, far, nans


def _write_sorted(row: int, arrays: Any, number: int, sought: Any, asked: Any, out: Any) -> None:
    """Write the result of a row from a sorted array; `sought`: its number of keys, a place and a fraction beyond it."""
    count, place, fraction = sought
    at = np.uint64(ARRAYS * place + number)
    is_nan = asked[2] and arrays[np.uint64(ARRAYS * (count - 1) + number)] == GREATEST
    following = arrays[at + np.uint64(ARRAYS)] if fraction != 0.0 else arrays[at]
    _write(row, arrays[at], following, fraction, is_nan, asked, out)


def _write(row: int, key: Any, following: Any, fraction: float, is_nan: bool, asked: Any, out: Any) -> None:
    """Write the result of a row: a number between two keys, the first of them, or NaN."""
    if asked[2] and (asked[1] == 0 or asked[1] == 4):
        low, high = float_of(float_bits(key)), float_of(float_bits(following))
        out[0][np.uint64(row)] = math.nan if is_nan else interpolated(low, high, fraction)
    else:
        _write_other(row, key, following, fraction, is_nan, asked, out)


@noinline
def _write_other(row: int, key: Any, following: Any, fraction: float, is_nan: bool, asked: Any, out: Any) -> None:
    """Write an interpolated integer, or a key that was chosen."""
    floats, bits = out
    _, rule, is_float = asked
    if is_nan:
        floats[row] = math.nan
    elif rule == 0 or rule == 4:
        floats[row] = interpolated(float(key), float(following), fraction)
    else:
        bits[row] = float_bits(key) if is_float else key
