"""The rank of the last key of each window among the window's keys, over whole columns.

In narrow windows the lesser and the equal keys are counted, in vectors. Wide windows are sets of ranks
(`rank_sets.py`), in which equal keys share a count, at the rank of the first:

    keys of a chunk, in order    2  5  5  5  8
    rank                         0  1  2  3  4       one bit for each key in the window
    first                        0  1  1  1  4       with "dense": one bit for each distinct key, here
    counts[first]                1  2  ·  ·  0

Cost per row: w / 8 vector operations for windows of w keys; for wide ones some 1.3 sorted keys, 2 changed bits and a
count of the bits below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.rank_compression import chunk_length, rank_chunk
from sash.kernels.column.rank_sets import add, clear, count_below, remove

NARROW = 256
"""The longest window whose keys are compared one by one: a set of ranks takes some 30 ns a row on one core."""

AVERAGE, MIN, MAX, DENSE = range(4)
"""The places of the methods in `sash.monoids.order_statistics.METHODS`."""


def narrow_ranks(
    keys: Any, los: Any, his: Any, first: int, stop: int, _longest: int, asked: Any, out: Any, _scratch: Any
) -> None:
    """Ranks of rows [first, stop) by a method other than "dense".

    `asked` begins with the number of the method, whether the least key has rank 1, and whether ranks are divided by the
    number of keys; `out` is one array, as floats and as integers.
    """
    for row in range(first, stop):
        start, end = los[row], his[row]
        if end > start:
            key = keys[end - 1]
            below = same = 0
            for at in range(start, end):
                below += int(keys[np.uint64(at)] < key)
                same += int(keys[np.uint64(at)] == key)
            _write(row, below, same, end - start, asked, out)


def wide_ranks(
    keys: Any, los: Any, his: Any, begin_row: int, stop: int, _longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Ranks of rows [begin_row, stop) by any method; the arguments are those of `narrow_ranks`."""
    ranks, order, words, blocks, sorting, firsts, counts = scratch
    is_dense = asked[0] == DENSE
    row = begin_row
    while row < stop:
        begin = los[row]
        length = chunk_length(his[row] - begin, len(keys) - begin)
        if length == 0:  # the last windows are empty
            return
        rank_chunk(keys, begin, length, ranks, order, sorting)
        _first_of_equals(keys, begin, length, order, firsts, counts)
        clear(words, blocks, length)
        low = high = begin
        distinct = 0
        while row < stop and his[np.uint64(row)] <= begin + length:
            start, end = los[np.uint64(row)], his[np.uint64(row)]
            while high < end:
                at = np.uint64(high - begin)
                first = np.uint64(firsts[at])
                if not is_dense:
                    add(words, blocks, np.uint64(ranks[at]))
                elif counts[first] == 0:
                    add(words, blocks, first)
                    distinct += 1
                counts[first] += 1
                high += 1
            while low < start:
                at = np.uint64(low - begin)
                first = np.uint64(firsts[at])
                counts[first] -= 1
                if not is_dense:
                    remove(words, blocks, np.uint64(ranks[at]))
                elif counts[first] == 0:
                    remove(words, blocks, first)
                    distinct -= 1
                low += 1
            if end > start:
                first = np.uint64(firsts[np.uint64(end - 1 - begin)])
                below = count_below(words, blocks, first)
                same, size = (1, distinct) if is_dense else (int(counts[first]), int(end - start))
                _write(row, below, same, size, asked, out)
            row += 1


def _first_of_equals(keys: Any, begin: int, length: int, order: Any, firsts: Any, counts: Any) -> None:
    """The rank of the first key that is equal to that of a row, for each row of a chunk; sets all counts to 0."""
    first = 0
    for rank in range(length):
        row = order[rank]
        if keys[begin + row] != keys[begin + order[first]]:
            first = rank
        firsts[row] = first
        counts[rank] = 0


def _write(row: int, below: int, same: int, size: int, asked: Any, out: Any) -> None:
    """Write the rank of a key with `below` lesser keys and `same` equal ones, of `size`."""
    floats, integers = out
    method, ascending, is_percent = asked[0], asked[1], asked[2]
    if not ascending:
        below = size - below - same
    if method == AVERAGE:
        rank = below + (same + 1) / 2
        floats[np.uint64(row)] = rank / size if is_percent else rank
    else:
        place = below + (same if method == MAX else 1)
        if is_percent:
            floats[np.uint64(row)] = place / size
        else:
            integers[np.uint64(row)] = place
