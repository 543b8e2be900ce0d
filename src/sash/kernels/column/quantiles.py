"""Quantiles, the median among them, over whole columns: in narrow windows, and in wide ones.

Windows of up to `NARROW` keys are sorted arrays. Eight ranges of rows are processed at once, so that a vector holds
the i-th keys of eight arrays. Each step removes and inserts a key in all of them, without a branch:

    array 0    rows 0 …             old 7  new 2     sentinels fill an array after its keys: a window that only grows
    array 1    rows 1,000 …         old 3  new 9     removes one, a window that only shrinks inserts one
    …

Over Count windows up to `BATCH` steps are one call, as long as no array reaches the end of a key: the keys of a range
are copied to vectors, and results back, a run of rows at a time.

Cost per row: w / 8 vector operations for windows of w keys.

Quantiles, the median among them, over wide windows of whole columns.

Windows are sets of ranks (`ranks.py`). The keys are ranked chunk by chunk, a chunk is several windows long, and a
cursor follows the quantile from row to row: a word of the set, and the number of ranks before it.

    chunk 0   ├───────────────────────┤          its last window is the first one of the next chunk
    chunk 1                      ├───────────────────────┤

The keys of a chunk are put into buckets (`quantiles.py`), and the cursor sorts the buckets that it visits. If it has
visited most words of the previous chunk, and the chunk fits into the cache, all keys are ranked at once (`ranks.py`).

Cost per row: some 1.2 keys put into buckets or sorted, 2 changed bits and a step of the cursor.

Write a quantile: a number between two keys, the first of them, or NaN.

Put the keys of a chunk of rows into buckets by value, and sort a bucket when a quantile reaches it.

A quantile visits few values: over windows of 10,000 random numbers, a fiftieth of them. So a row is put into a bucket
by one multiplication, and only the buckets that the quantile visits, which are neighbours, are sorted:

    values       less ◀──────────────────────────────────▶ greater    NaN
    buckets      0        1        2        3        4          5       the first and the last also take values beyond
    places       0 …      64 …     192 …    256 …    …                  the range of a sample
                          ╰──── sorted ────╯
    ranks[row]   its own place in a sorted bucket; the first place of another one

A bucket begins at a new word of the set of ranks. Until it is sorted, its first word has no meaning; sorting writes
it. In both cases a rank determines whether a row is before a word of a sorted bucket.

Cost per row: two passes; and those of a sort (`ranks.py`) if its bucket is visited. If most values are in one bucket,
that is a sort of all of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.kernels.column.per_key import key_at
from sash.kernels.column.ranks import (
    GREATEST,
    LAST,
    ONE,
    SIX,
    TEN,
    blocks_needed,
    chunk_length,
    clear,
    count_blocks,
    flip,
    float_bits,
    rank_chunk,
    sorted_keys,
    word_of,
)
from sash.kernels.jit.word_operations import ARRAYS, bit_count, float_of, lowest_bit, nth_bit, slide_arrays
from sash.monoids.algebra import noinline
from sash.monoids.rank_statistics import interpolated, quantile_place

# --- Quantile results ---


def write_quantile(row: int, key: Any, following: Any, fraction: float, is_nan: bool, asked: Any, out: Any) -> None:
    """Write the result of a row.

    `asked` are the quantile, the number of the interpolation, and whether keys are those of floats; `out` is one array,
    as floats and as integers.
    """
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


# --- Narrow quantiles ---

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


# --- Value buckets ---

BUCKET = 512
"""The mean number of rows in a bucket: smaller buckets take longer to fill, larger ones longer to sort."""

SAMPLE = 64

LEFT, RIGHT, FIRST_WORD, LAST_WORD = range(4)
"""Fields of the sorted region: its first bucket, the bucket after it, its first word, the word after it."""


def buckets_needed(rows: int) -> int:
    """The number of buckets for this many rows: one is for NaN."""
    return max(1, rows // BUCKET) + 1


def places_needed(rows: int) -> int:
    """The greatest number of places: each bucket begins at a new word."""
    return rows + 64 * buckets_needed(rows)


def fill_buckets(keys: Any, begin: int, length: int, is_float: bool, ranks: Any, order: Any, buckets: Any) -> None:
    """Put the rows of a chunk into buckets: `order` has the members of each bucket, in the order of rows."""
    starts, ends, sample, _, _, _ = buckets
    count = buckets_needed(length)
    low, scale = _spread(keys, begin, length, is_float, count - 2, sample)
    top = float(count - 2)
    for i in range(length):
        key = keys[np.uint64(begin + i)]
        at = ((float_of(float_bits(key)) if is_float else float(key)) - low) * scale
        at = at if at > 0.0 else 0.0  # noqa: FURB136 - compiled, max(0.0, NaN) may be NaN
        at = min(top, at)
        ranks[np.uint64(i)] = np.int32(count - 1) if is_float and key == GREATEST else np.int32(at)
    for bucket in range(count):
        ends[bucket] = 0
    for i in range(length):
        ends[np.uint64(ranks[np.uint64(i)])] += 1
    place = 0
    for bucket in range(count):
        starts[bucket] = place
        members = ends[bucket]
        ends[bucket] = place
        place = (place + members + 63) & ~63
    starts[count] = place
    for i in range(length):
        own = np.uint64(ranks[np.uint64(i)])
        at = ends[own]
        order[np.uint64(at)] = i
        ends[own] = at + 1
        ranks[np.uint64(i)] = starts[own]


def _spread(keys: Any, begin: int, length: int, is_float: bool, top: int, sample: Any) -> tuple[float, float]:
    """The second least value of a sample, and the number of buckets per unit of value up to its second greatest.

    Values are mapped to buckets linearly, so that near values are in near buckets.
    """
    count = 0
    for i in range(SAMPLE):
        key = keys[begin + length * i // SAMPLE]
        value = float_of(float_bits(key)) if is_float else float(key)
        if math.isfinite(value):
            at = count
            while at > 0 and sample[at - 1] > value:
                sample[at] = sample[at - 1]
                at -= 1
            sample[at] = value
            count += 1
    if count == 0:
        return 0.0, 0.0
    low, high = sample[min(1, count - 1)], sample[max(count - 2, 0)]
    return low, top / (high - low) if high > low else 0.0


def open_region(length: int, window: int, place: int, ranks: Any, words: Any, buckets: Any) -> None:
    """Start the sorted region at the bucket with the given place of the first window, which has `window` rows."""
    starts, _, _, _, _, region = buckets
    for i in range(window):
        words[np.uint64(ranks[np.uint64(i)]) >> SIX] += ONE
    bucket, before = 0, 0
    while True:
        here = int(words[starts[bucket] >> 6]) if starts[bucket + 1] > starts[bucket] else 0
        if before + here > place:
            break
        before += here
        bucket += 1
    region[LEFT] = region[RIGHT] = bucket
    region[FIRST_WORD] = region[LAST_WORD] = starts[bucket] >> 6
    for i in range(starts[buckets_needed(length)] >> 6):
        words[i] = np.uint64(0)


@noinline
def sort_next(chunk: Any, low: int, high: int, to_right: bool) -> None:
    """Sort the bucket to the left or right of the sorted region.

    Its rows that are in the window, rows [low, high) of the chunk, are added to the set of ranks.
    """
    keys, ranks, order, words, sorting, buckets = chunk
    starts, ends, _, bucket_keys, members, region = buckets
    if to_right:
        bucket = region[RIGHT]
        region[RIGHT] = bucket + 1
        region[LAST_WORD] = starts[bucket + 1] >> 6
    else:
        bucket = region[LEFT] - 1
        region[LEFT] = bucket
        region[FIRST_WORD] = starts[bucket] >> 6
    start, length = starts[bucket], ends[bucket] - starts[bucket]
    is_sorted = True
    for i in range(length):
        row = order[start + i]
        members[i], bucket_keys[i] = row, keys[row]
        is_sorted &= i == 0 or bucket_keys[i - 1] <= bucket_keys[i]
    if not is_sorted:
        in_order, mask = sorted_keys(bucket_keys, 0, length, sorting)
        for i in range(length):
            order[start + i] = members[in_order[np.uint64(i)] & mask]
    for i in range(start >> 6, starts[bucket + 1] >> 6):
        words[i] = np.uint64(0)
    for place in range(start, start + length):
        row = order[place]
        ranks[row] = place
        words[place >> 6] |= np.uint64(low <= row < high) << (np.uint64(place) & LAST)


# --- Wide quantiles ---

PATIENCE = 4
"""How many words per row of a chunk a cursor passes one by one, before the blocks of the set are counted."""

CACHED = 1 << 16
"""The longest chunk that may be ranked at once: longer ones do not fit into the second-level cache."""

LEAST_VISITED, MOST_VISITED = 4, 5
"""Fields of the region, after those of the buckets: the least and greatest word that the cursor has visited."""


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
        blocks[rank >> TEN] += 1
    return word, before + int(rank < word << SIX), passed, at if rank >= nan_places else nan


def _left(chunk: Any, at: int, cursor: Any) -> Any:
    """Remove a key from the window; returns the cursor."""
    _, ranks, _, words, _, _, blocks = chunk
    word, before, passed, nan = cursor
    rank = np.uint64(ranks[np.uint64(at)])
    flip(words, rank)
    if passed > 0:
        blocks[rank >> TEN] -= 1
    return word, before - int(rank < word << SIX), passed, nan


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
    key = keys[np.uint64(order[(word << SIX) + bit])]
    following = key
    if fraction != 0.0:
        left &= ~ONE << bit
        here = word
        if left == 0:
            here, after, passed, is_there = _walked_to(words, buckets[5], (word, before, passed), place + 1)
            if not is_there:
                here, after, passed = _moved_to(chunk, (here, after, passed), place + 1, low, high)
            left = words[here]
        following = keys[np.uint64(order[(here << SIX) + lowest_bit(left)])]
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
            word -= ONE
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
            word += ONE
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
