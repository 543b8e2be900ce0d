"""The number of distinct keys in each window, over whole columns.

Keys of a narrow range index a table of counts. Others are hashed, into a table with the last row of each key: a row
adds one if its key does not occur before it in the window, and subtracts one when it leaves if its key does not occur
after it:

    keys      a   b   a   c   a
    rows      0   1   2   3   4
    next      2   –   4   –   –       row 2 enters: next[0] = 2; a counts already
              ╰───────▶╰──────▶       row 0 leaves: next[0] is in the window; a still counts

The hash table is never cleared: an entry whose row is no longer in the window is free. If entries collide the newer one
comes first (Amble and Knuth: Ordered Hash Tables), so that a search ends at the first free entry:

    entry     5     6     7     8
              r9    r7    r2    –     window from row 4 on: the entry of r2 is free
    row 11, which hashes to 5, enters: r11  r9  r7  –

Cost per row: two accesses to the table of counts; or one to the hash table, which is prefetched, and a branch that is
mispredicted if two keys of the window collide: for a sixteenth of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.per_key import key_at
from sash.kernels.jit.word_operations import mixed, prefetch
from sash.monoids.algebra import noinline

_AHEAD = 16
"""How many rows ahead an entry of the hash table is prefetched: half or twice as many take as long."""


def key_range(keys: Any, first: int, stop: int) -> tuple[int, int]:
    """The least and the greatest key of some rows."""
    least = greatest = keys[first]
    for i in range(first, stop):
        least, greatest = min(least, keys[np.uint64(i)]), max(greatest, keys[np.uint64(i)])
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
    """Increase the count of a row's key; 1 if it is the first such row, else 0."""
    at = np.uint64(keys[np.uint64(row)] - least)
    count = table[at]
    table[at] = count + 1
    return int(count == 0)


def _leave(keys: Any, row: int, least: int, table: Any) -> int:
    """Decrease the count of a row's key; 1 if it was the last such row, else 0."""
    at = np.uint64(keys[np.uint64(row)] - least)
    count = table[at]
    table[at] = count - 1
    return int(count == 1)


# ---- keys that are hashed into a table of 2 ** bits entries, zeros at first ----


def hashed_rows(keys: Any, size: int, edges: Any, first: int, stop: int, bits: int, tables: Any, out: Any) -> None:
    """Counts for rows [first, stop) over Count windows; `tables` as in `hashed_ranges`."""
    nexts = tables[1]
    key = key_at(edges, first)
    base = max(edges[key], first + 1 - size)
    while edges[key] < stop:
        low, end = max(edges[key], base), min(edges[key + 1], stop)
        distinct = 0
        for row in range(low, end):
            if row - low >= size:
                low += 1
                distinct -= int(nexts[np.uint64(low - base)] == 0)
            distinct += _enter_hashed(keys, row, (low, base), bits, tables)
            if row >= first:
                out[np.uint64(row)] = distinct
        key += 1


def hashed_ranges(keys: Any, los: Any, his: Any, first: int, stop: int, bits: int, tables: Any, out: Any) -> None:
    """Counts for rows [first, stop) over ranges.

    `tables` are the hash table, and `nexts`: for each row from the first window's start on, the next row of the same
    key, and one place before these. Rows leave before others enter, so that the table never has more entries than a
    window has rows.
    """
    nexts = tables[1]
    low = high = base = los[first]
    distinct = 0
    for row in range(first, stop):
        start, end = los[np.uint64(row)], his[np.uint64(row)]
        if start >= high:  # nothing in common
            low = high = start
            distinct = 0
        while low < start:
            low += 1
            distinct -= int(nexts[np.uint64(low - base)] == 0)
        while high < end:
            distinct += _enter_hashed(keys, high, (low, base), bits, tables)
            high += 1
        out[np.uint64(row)] = distinct


def _enter_hashed(keys: Any, row: int, begins: Any, bits: int, tables: Any) -> int:
    """Make a row the last of its key; 1 if the key is new in the window, else 0.

    `begins` are the window's start and `base`. An entry is the last row of a key, plus 1, from `base` on. The key
    itself is read from its row: an entry without bits of the hash is 4 bytes, so twice as many fit into the cache.
    Whether the key is in the window is computed without a branch, because for some columns it is unpredictable.
    """
    low, base = begins
    table, nexts = tables
    down = np.uint64(64 - bits)
    prefetch(table, mixed(keys[np.uint64(min(row + _AHEAD, len(keys) - 1))]) >> down)
    key = keys[np.uint64(row)]
    at, entry = mixed(key) >> down, row - base + 1
    last = int(table[at])
    table[at] = entry
    is_held = last > low - base
    if keys[np.uint64(base + last - 1 if is_held else row)] != key:
        last = _displace(keys, row, (low, base), at, last, table)
        is_held = last > 0
    nexts[np.uint64(last if is_held else 0)] = entry
    nexts[np.uint64(entry)] = 0
    return int(not is_held)


@noinline
def _displace(keys: Any, row: int, begins: Any, at: Any, moved: int, table: Any) -> int:
    """Move the entry that a new one has replaced, and those that it replaces in turn, newer ones first.

    Returns the entry that the key of the row had, or 0.
    """
    low, base = begins
    key, mask = keys[np.uint64(row)], np.uint64(len(table) - 1)
    while True:
        at = (at + np.uint64(1)) & mask
        here = int(table[at])
        if here <= low - base:
            table[at] = moved
            return 0
        if keys[np.uint64(base + here - 1)] == key:
            table[at] = moved
            return here
        if here < moved:
            table[at] = moved
            moved = here
