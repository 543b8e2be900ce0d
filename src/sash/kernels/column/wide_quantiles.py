"""Quantiles, the median among them, over wide windows of whole columns.

Windows are sets of ranks (`rank_sets.py`). The keys are ranked chunk by chunk, a chunk is several windows long, and a
cursor follows the quantile from row to row: a word of the set, and the number of ranks before it.

    chunk 0   ├───────────────────────┤          its last window is the first one of the next chunk
    chunk 1                      ├───────────────────────┤

The keys of a chunk are put into buckets (`value_buckets.py`), and the cursor sorts the buckets that it visits. If it
has visited most words of the previous chunk, and the chunk fits into the cache, all keys are ranked at once
(`rank_compression.py`).

Cost per row: some 1.2 keys put into buckets or sorted, 2 changed bits and a step of the cursor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.order_keys import GREATEST
from sash.kernels.column.per_key import key_at
from sash.kernels.column.quantile_results import write_quantile
from sash.kernels.column.rank_compression import chunk_length, rank_chunk
from sash.kernels.column.rank_sets import blocks_needed, clear, count_blocks, flip, word_of
from sash.kernels.column.value_buckets import (
    BUCKET,
    FIRST_WORD,
    LAST_WORD,
    LEFT,
    RIGHT,
    buckets_needed,
    fill_buckets,
    open_region,
    sort_next,
)
from sash.kernels.jit.word_operations import bit_count, lowest_bit, nth_bit
from sash.monoids.algebra import noinline
from sash.monoids.order_statistics import quantile_place

PATIENCE = 4
"""How many words per row of a chunk a cursor passes one by one, before the blocks of the set are counted."""

CACHED = 1 << 16
"""The longest chunk that may be ranked at once: longer ones do not fit into the second-level cache."""

LEAST_VISITED, MOST_VISITED = 4, 5
"""Fields of the region, after those of `value_buckets`: the least and greatest word that the cursor has visited."""

_ONE, _SIX, _TEN = np.uint64(1), np.uint64(6), np.uint64(10)


def bucketed_length(window: int, rows: int) -> int:
    """The length of a chunk: more windows than with other kernels, if it has many buckets and fits into the cache."""
    return chunk_length(max(window, min(2 * window, CACHED // 8)) if window >= BUCKET else window, rows)


def wide_quantile_rows(
    keys: Any, size: int, edges: Any, first: int, stop: int, _longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop) over Count windows; the arguments are those of `wide_quantiles`."""
    row, key, is_ranked = first, key_at(edges, first), False
    while row < stop:
        begin = high = max(edges[key], row + 1 - size)
        window = min(size, edges[key + 1] - begin)
        chunk, cursor, nan_places = _start(keys, begin, window, row + 1 - begin, is_ranked, asked, scratch)
        until = min(stop, begin + len(chunk[0]))
        while high < until:
            end, low = min(edges[key + 1], until), high
            while high < end and high - low < size:
                cursor = _entered(chunk, high - begin, nan_places, cursor)
                high += 1
                if high > row:
                    place, fraction = quantile_place(high - low, asked[0], asked[1])
                    at = low - begin, high - begin, high - 1
                    cursor = _found(chunk, cursor, place, fraction, at, asked, out)
            if high < end:
                place, fraction = quantile_place(size, asked[0], asked[1])
            for at_row in range(high, end):
                cursor = _entered(chunk, at_row - begin, nan_places, cursor)
                cursor = _left(chunk, at_row - size - begin, cursor)
                at = at_row + 1 - size - begin, at_row + 1 - begin, at_row
                cursor = _found(chunk, cursor, place, fraction, at, asked, out)
            high = end
            if end == edges[key + 1] and end < until:
                for at_row in range(max(low, end - size), end):
                    cursor = _left(chunk, at_row - begin, cursor)
                while edges[key + 1] <= end:
                    key += 1
        row, is_ranked = high, _is_visited(chunk)
        while row < stop and edges[key + 1] <= row:
            key += 1


def wide_quantiles(
    keys: Any, los: Any, his: Any, first: int, stop: int, _longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Quantiles of rows [first, stop); `asked` and `out` are those of `write_quantile`."""
    count, place, fraction = -1, 0, 0.0
    row, is_ranked = first, False
    while row < stop:
        begin = los[row]
        window = his[row] - begin
        if window == 0 and begin == len(keys):  # the last windows are empty
            return
        chunk, cursor, nan_places = _start(keys, begin, window, max(window, 1), is_ranked, asked, scratch)
        low = high = begin
        while row < stop and his[np.uint64(row)] <= begin + len(chunk[0]):
            start, end = los[np.uint64(row)], his[np.uint64(row)]
            while high < end:
                cursor = _entered(chunk, high - begin, nan_places, cursor)
                high += 1
            while low < start:
                cursor = _left(chunk, low - begin, cursor)
                low += 1
            if end > start:
                if end - start != count:
                    count = end - start
                    place, fraction = quantile_place(count, asked[0], asked[1])
                at = start - begin, end - begin, row
                cursor = _found(chunk, cursor, place, fraction, at, asked, out)
            row += 1
        is_ranked = _is_visited(chunk)


# ---- A chunk: its keys, ranks, order, the set of ranks in the window, scratch arrays for sorting, the buckets, and the
# ---- blocks of the set. A cursor: a word, the number of ranks before it, how many words more than allowed it has
# ---- passed, and the last row that is NaN.


def _start(
    keys: Any, begin: int, window: int, first_window: int, is_ranked: bool, asked: Any, scratch: Any
) -> tuple[Any, Any, Any]:
    """Start a chunk at a window; returns the chunk, a cursor in one of its sorted buckets, and the first place of NaNs.

    `first_window` is the number of rows in the first window with a result.
    """
    ranks, order, words, blocks, sorting, buckets = scratch
    length = bucketed_length(window, len(keys) - begin)
    region = buckets[5]
    if is_ranked and length <= CACHED:
        rank_chunk(keys, begin, length, ranks, order, sorting)
        places = nan_places = length
        while asked[2] and nan_places > 0 and keys[begin + order[nan_places - 1]] == GREATEST:
            nan_places -= 1
        clear(words, blocks, places)
        region[LEFT], region[RIGHT] = 0, buckets_needed(length)
        region[FIRST_WORD], region[LAST_WORD] = 0, (places >> 6) + 1
        region[LEAST_VISITED], region[MOST_VISITED] = region[LAST_WORD], 0
    else:
        fill_buckets(keys, begin, length, asked[2], ranks, order, buckets)
        count = buckets_needed(length)
        places, nan_places = buckets[0][count], buckets[0][count - 1]
        clear(words, blocks, places)
        place, _ = quantile_place(first_window, asked[0], asked[1])
        open_region(length, first_window, place, ranks, words, buckets)
        region[LEAST_VISITED] = region[MOST_VISITED] = region[FIRST_WORD]
    chunk = keys[begin : begin + length], ranks, order, words, sorting, buckets, blocks[: blocks_needed(places)]
    word = np.uint64(region[FIRST_WORD])
    if region[LEFT] == region[RIGHT]:
        sort_next(chunk[:6], 0, 0, True)
    return chunk, (word, 0, -PATIENCE * length, -1), np.uint64(nan_places)


def _is_visited(chunk: Any) -> bool:
    """Has the cursor visited most of the chunk?"""
    region = chunk[5][5]
    return bool(2 * 64 * (region[MOST_VISITED] - region[LEAST_VISITED]) > len(chunk[0]))


def _entered(chunk: Any, at: int, nan_places: Any, cursor: Any) -> Any:
    """Add a key to the window; returns the cursor."""
    _, ranks, _, words, _, _, blocks = chunk
    word, before, passed, nan = cursor
    rank = np.uint64(ranks[np.uint64(at)])
    flip(words, rank)
    if passed > 0:
        blocks[rank >> _TEN] += 1
    return word, before + int(rank < word << _SIX), passed, at if rank >= nan_places else nan


def _left(chunk: Any, at: int, cursor: Any) -> Any:
    """Remove a key from the window; returns the cursor."""
    _, ranks, _, words, _, _, blocks = chunk
    word, before, passed, nan = cursor
    rank = np.uint64(ranks[np.uint64(at)])
    flip(words, rank)
    if passed > 0:
        blocks[rank >> _TEN] -= 1
    return word, before - int(rank < word << _SIX), passed, nan


def _found(chunk: Any, cursor: Any, place: int, fraction: float, at: Any, asked: Any, out: Any) -> Any:
    """Write the result of a row: the key at a place, or a fraction of the way to the next; returns the cursor there.

    `at` are the rows [low, high) of the window in the chunk, and the row of the result.
    """
    keys, _, order, words, _, buckets, _ = chunk
    word, before, passed, nan = cursor
    low, high, row = at
    if before > place or before + bit_count(words[word]) <= place:
        word, before, passed, is_there = _walked_to(words, buckets[5], (word, before, passed), place)
        if not is_there:
            word, before, passed = _moved_to(chunk, (word, before, passed), place, low, high)
    left = words[word]
    bit = nth_bit(left, np.uint64(place - before))
    key = keys[np.uint64(order[(word << _SIX) + bit])]
    following = key
    if fraction != 0.0:
        left &= ~_ONE << bit
        here = word
        if left == 0:
            here, after, passed, is_there = _walked_to(words, buckets[5], (word, before, passed), place + 1)
            if not is_there:
                here, after, passed = _moved_to(chunk, (here, after, passed), place + 1, low, high)
            left = words[here]
        following = keys[np.uint64(order[(here << _SIX) + lowest_bit(left)])]
    write_quantile(row, key, following, fraction, nan >= low, asked, out)
    return word, before, passed, nan


@noinline
def _walked_to(words: Any, region: Any, cursor: Any, n: int) -> tuple[Any, int, int, bool]:
    """Move a cursor towards the word of the n-th rank, counted from 0, as far as buckets are sorted.

    Returns the cursor, and whether it has reached the word.
    """
    word, before, passed = cursor
    while passed <= 0:
        passed += 1
        if before > n:
            if int(word) == region[FIRST_WORD]:
                break
            word -= _ONE
            before -= bit_count(words[word])
        else:
            if int(word) == region[LAST_WORD]:
                break
            after = before + bit_count(words[word])
            if after > n:
                region[LEAST_VISITED] = min(region[LEAST_VISITED], int(word))
                region[MOST_VISITED] = max(region[MOST_VISITED], int(word))
                return word, before, passed, True
            before = after
            word += _ONE
    return word, before, passed, False


@noinline
def _moved_to(chunk: Any, cursor: Any, n: int, low: int, high: int) -> tuple[Any, int, int]:
    """Move a cursor to the word of the n-th rank, and sort the buckets on the way.

    When it has passed too many words, all buckets are sorted and the blocks of the set are counted; from then on the
    caller updates the blocks, and moves read them.
    """
    words, buckets, blocks = chunk[3], chunk[5], chunk[6]
    word, before, passed = cursor
    count, region = buckets_needed(len(chunk[0])), buckets[5]
    while passed <= 0:
        sort_next(chunk[:6], low, high, before <= n)
        word, before, passed, is_there = _walked_to(words, region, (word, before, passed), n)
        if is_there:
            return word, before, passed
    if region[LEFT] > 0 or region[RIGHT] < count or passed == 1:
        passed += 1
        while region[LEFT] > 0:
            sort_next(chunk[:6], low, high, False)
        while region[RIGHT] < count:
            sort_next(chunk[:6], low, high, True)
        count_blocks(words, blocks)
    word, before = word_of(words, blocks, n)
    return word, before, passed
