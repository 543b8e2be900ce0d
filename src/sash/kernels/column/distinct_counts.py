"""The number of different keys in each window, over whole columns.

Keys of a narrow range index a table of counts. Others are hashed, into a table of the last row of each key: a row adds
one if its key does not occur before it in the window, and takes one off when it leaves if its key does not occur after
it:

    keys      a   b   a   c   a
    rows      0   1   2   3   4
    next      2   –   4   –   –       row 2 enters: next[0] = 2; a counts already
              ╰───────▶╰──────▶       row 0 leaves: next[0] is in the window; a still counts

The hash table is built again, from the keys of the window, when it is a quarter full; its length follows their number.
Cost a row: two accesses of the table of counts; one of the hash table, some 1.15 if most keys differ. A fuller table
costs more than building it more often: its chains are mispredicted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.per_key import key_at
from sash.kernels.jit.word_operations import mixed
from sash.monoids.algebra import noinline

_FEWEST = 11
"""The bits of the length of a new hash table."""


def key_range(keys: Any, first: int, stop: int) -> tuple[int, int]:
    """The least and the greatest key of some rows."""
    least = greatest = keys[first]
    for i in range(first, stop):
        least, greatest = min(least, keys[i]), max(greatest, keys[i])
    return least, greatest


# ---- keys that index a table of counts, from `least` on; the table has zeros before and after ----


def indexed_rows(keys: Any, size: int, edges: Any, first: int, stop: int, least: int, table: Any, out: Any) -> None:
    """Counts for rows [first, stop) over Count windows; keys of the table begin at the edges."""
    key = key_at(edges, first)
    while first < stop:
        begin, end = edges[key], min(edges[key + 1], stop)
        if end > first:
            low, distinct = max(begin, first - size), 0  # the window of the row before
            for row in range(low, first):
                distinct += _enter(keys, row, least, table)
            full = min(max(first, begin + size), end)  # the first row whose window another row leaves
            for row in range(first, full):
                distinct += _enter(keys, row, least, table)
                out[np.uint64(row)] = distinct
            for row in range(full, end):
                distinct += _enter(keys, row, least, table) - _leave(keys, row - size, least, table)
                out[np.uint64(row)] = distinct
            for row in range(max(low, end - size), end):
                _leave(keys, row, least, table)
            first = end
        key += 1


def indexed_ranges(keys: Any, los: Any, his: Any, first: int, stop: int, least: int, table: Any, out: Any) -> None:
    """Counts for rows [first, stop) over ranges."""
    low = high = los[first]
    distinct = 0
    for row in range(first, stop):
        while high < his[row]:
            distinct += _enter(keys, high, least, table)
            high += 1
        while low < los[row]:
            distinct -= _leave(keys, low, least, table)
            low += 1
        out[row] = distinct


def _enter(keys: Any, row: int, least: int, table: Any) -> int:
    """Count the key of a row; is it the first?"""
    at = np.uint64(keys[np.uint64(row)] - least)
    count = table[at]
    table[at] = count + 1
    return int(count == 0)


def _leave(keys: Any, row: int, least: int, table: Any) -> int:
    """Take the key of a row off its count; was it the last?"""
    at = np.uint64(keys[np.uint64(row)] - least)
    count = table[at]
    table[at] = count - 1
    return int(count == 1)


# ---- keys that are hashed into a table of up to 2 ** most entries ----


def hashed_rows(keys: Any, size: int, edges: Any, first: int, stop: int, most: int, tables: Any, out: Any) -> None:
    """Counts for rows [first, stop) over Count windows; `tables` as in `hashed_ranges`."""
    table, nexts = tables
    key = key_at(edges, first)
    base = max(edges[key], first + 1 - size)
    bits, left = min(_FEWEST, most), 0
    while edges[key] < stop:
        low, end = max(edges[key], base), min(edges[key + 1], stop)
        distinct = 0
        for row in range(low, end):
            if left == 0:
                bits, left = _rebuild(keys, low, row, base, (bits, most), table)
            last, is_new = _replace(keys, row, base, bits, table)
            left -= is_new
            nexts[np.uint64(last)] = row + 1
            nexts[np.uint64(row + 1 - base)] = 0
            distinct += int(last + base <= low)
            if row - low >= size:
                low += 1
                distinct -= int(nexts[np.uint64(low - base)] == 0)
            if row >= first:
                out[np.uint64(row)] = distinct
        key += 1


def hashed_ranges(keys: Any, los: Any, his: Any, first: int, stop: int, most: int, tables: Any, out: Any) -> None:
    """Counts for rows [first, stop) over ranges.

    `tables` are the hash table, and the next rows: a place for each row from the first window's start on, and one
    before these.
    """
    table, nexts = tables
    low = high = base = los[first]
    distinct, bits, left = 0, min(_FEWEST, most), 0
    for row in range(first, stop):
        start, end = los[row], his[row]
        while high < end:
            if left == 0:
                bits, left = _rebuild(keys, low, high, base, (bits, most), table)
            last, is_new = _replace(keys, high, base, bits, table)
            left -= is_new
            high += 1
            nexts[np.uint64(last)] = high
            nexts[np.uint64(high - base)] = 0
            distinct += int(last + base <= low)
        while low < start:
            low += 1
            following = nexts[np.uint64(low - base)]  # 1 + the row, or 0
            distinct -= int((following == 0) | (following > end))
        out[row] = distinct


def _replace(keys: Any, row: int, base: int, bits: int, table: Any) -> tuple[int, int]:
    """Make a row the last of its key: 1 + the last one before, from `base` on, or 0; and whether the key is new.

    An entry is the last row of a key, plus 1, from `base` on; 0 is none. The key itself is read from its row: without
    bits of the hash an entry is 4 bytes, and twice as many are in the cache.
    """
    key = keys[np.uint64(row)]
    at, mask = mixed(key) >> np.uint64(64 - bits), np.uint64((1 << bits) - 1)
    last = table[at]
    while last != 0:
        if keys[np.uint64(base + last - 1)] == key:
            table[at] = row - base + 1
            return int(last), 0
        at = (at + np.uint64(1)) & mask
        last = table[at]
    table[at] = row - base + 1
    return 0, 1


@noinline
def _rebuild(keys: Any, low: int, high: int, base: int, lengths: Any, table: Any) -> tuple[int, int]:
    """Fill the table with the keys of rows [low, high).

    It grows until these fill no more than a sixteenth of it, so that few different keys need few entries. `lengths` are
    its bits and the most that they may become; returns its bits, and how many keys may still be added.
    """
    bits, most = lengths
    while True:
        for i in range(1 << bits):
            table[i] = 0
        left = 1 << (bits - 2)
        for row in range(low, high):
            left -= _replace(keys, row, base, bits, table)[1]
            if left == 0:
                break
        if 16 * left >= 3 << bits or bits == most:
            return bits, left
        bits += 1
