"""Put the keys of a chunk of rows into buckets by value, and sort a bucket when a quantile reaches it.

A quantile visits few values: over windows of 10,000 random numbers, a fiftieth of them. So a row is put into a bucket
by one multiplication, and only the buckets that the quantile visits, which are neighbours, are sorted:

    values       less ◀──────────────────────────────────▶ greater    NaN
    buckets      0        1        2        3        4          5       the first and the last also take values beyond
    places       0 …      64 …     192 …    256 …    …                  the range of a sample
                          ╰──── sorted ────╯
    ranks[row]   its own place in a sorted bucket; the first place of another one

A bucket begins at a new word of the set of ranks. Until it is sorted, its first word has no meaning; sorting writes it.
In both cases a rank determines whether a row is before a word of a sorted bucket.

Cost per row: two passes; and those of a sort (`rank_compression.py`) if its bucket is visited. If most values are in
one bucket, that is a sort of all of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.kernels.column.order_keys import GREATEST, float_bits
from sash.kernels.column.rank_compression import sorted_keys
from sash.kernels.jit.word_operations import float_of
from sash.monoids.algebra import noinline

BUCKET = 512
"""The mean number of rows in a bucket: smaller buckets take longer to fill, larger ones longer to sort."""

SAMPLE = 64

LEFT, RIGHT, FIRST_WORD, LAST_WORD = range(4)
"""Fields of the sorted region: its first bucket, the bucket after it, its first word, the word after it."""

_ONE, _SIX, _LAST = np.uint64(1), np.uint64(6), np.uint64(63)


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
        words[np.uint64(ranks[np.uint64(i)]) >> _SIX] += _ONE
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
        words[place >> 6] |= np.uint64(low <= row < high) << (np.uint64(place) & _LAST)
