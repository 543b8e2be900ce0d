"""Hash tables of the live engine, compiled: from keys to slots, and from bytes to codes.

Both are open-addressing tables with linear probing, at most half full. An entry is two words, the hash and the slot or
code plus one, so that 0 is an empty place. A table of keys that is half full gets one of twice the size beside it, to
which each new key moves some entries: no call rehashes all keys.

    table      hash │ slot + 1 │ hash │ slot + 1 │ …
    record     hash │ mark │ null bits │ word │ word │ …      for each slot; the hash of a free slot is -1

The functions are plain Python, with the same results interpreted. Therefore hashes have 63 bits: Python's integers,
masked, and 64-bit arithmetic agree.

Hashes of texts: polynomials modulo two primes below 2**31, so that plain Python and compiled code agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.kernels.jit.numba_methods import NATIVE
from sash.kernels.loops.loop_cache import call_loop, with_python_integers

# --- Key loops ---

HASH, MARK, NULLS, WORDS = 0, 1, 2, 3
"""The columns of a record: its hash (-1: the slot is free), the last call that touched it, null bits, and words."""

KNOWN, FREED, TOUCHED, FRESH, MOVED = 0, 1, 2, 3, 4
"""Counters of a table: slots ever used, free ones among them, slots that the last call touched and created, and the
places of the old table whose entries are in the new one."""

GONE = -1
"""The slot plus one of an entry of the old table whose key was released."""

STEPS = 8
"""The places of the old table that each new key moves: all are moved before the new one is half full."""

MASK = 0x7FFFFFFFFFFFFFFF


# ---- hashes ----


def product(a: int, b: int) -> int:
    """The lowest 63 bits of a product of two numbers that are not negative."""
    return (a * b) & MASK


@njit(forceinline=True)
def _native_product(a: Any, b: Any) -> Any:
    """`product` compiled, unsigned: LLVM assumes that signed integers do not wrap (`nsw`), and would drop the mask."""
    return np.int64((np.uint64(a) * np.uint64(b)) & np.uint64(MASK))


NATIVE[product] = _native_product


def mixed(h: int) -> int:
    """Mix 63 bits: every bit of the result depends on all of them."""
    h = product(h ^ (h >> 30), 0x3F58476D1CE4E5B9)
    h = product(h ^ (h >> 27), 0x14D049BB133111EB)
    return h ^ (h >> 31)


def key_hash(words: Any, first: int, width: int, nulls: int) -> int:
    """The hash of a key: of the words from `first` on, and the null bits."""
    h = nulls
    for i in range(first, first + width):
        word = words[i]
        h = mixed(product(h, 0x1E3779B97F4A7C15) ^ ((word ^ (word >> 32)) & MASK))
    return h


def bytes_hash(data: Any, start: int, end: int) -> int:
    """The hash of data[start:end], taken four bytes at a time."""
    h = end - start
    i = start
    while i + 4 <= end:
        word = data[i] | (data[i + 1] << 8) | (data[i + 2] << 16) | (data[i + 3] << 24)
        h = product(h ^ word, 0x1E3779B97F4A7C15)
        i += 4
    while i < end:
        h = product(h ^ data[i], 0x1E3779B97F4A7C15)
        i += 1
    return mixed(h)


# ---- keys ----


@with_python_integers
def find_keys(
    words: Any,
    nulls: Any,
    width: int,
    table: Any,
    old: Any,
    records: Any,
    free: Any,
    counts: Any,
    call: int,
    slots: Any,
    touched: Any,
    fresh: Any,
    start: int,
    insert: bool,
) -> int:
    """Find the slot of each row from `start` on; returns the first row without a free slot, else the number of rows.

    A row has no free slot either if its table is half full. Entries of the table `old` move to `table`.

    Row i has the words [i * width, (i + 1) * width); `nulls` is empty if there are none.
    """
    mask = (len(table) >> 1) - 1
    stride = WORDS + width
    known, freed = counts[KNOWN], counts[FREED]
    reached, made = (counts[TOUCHED], counts[FRESH]) if start > 0 else (0, 0)
    stop = len(slots)
    for row in range(start, len(slots)):
        absent = nulls[row] if len(nulls) > 0 else 0
        first = row * width
        h = key_hash(words, first, width, absent)
        at, slot = probe(table, h, records, stride, words, first, width, absent)
        if slot < 0 and len(old) > 0:
            _, slot = probe(old, h, records, stride, words, first, width, absent)
        if slot < 0:
            if not insert:
                slots[row] = -1
                continue
            if 2 * (known - freed) > mask:
                stop = row
                break
            if freed > 0:
                freed -= 1
                slot = free[freed]
            elif known < len(free):
                slot = known
                known += 1
            else:
                stop = row
                break
            table[2 * at] = h
            table[2 * at + 1] = slot + 1
            base = slot * stride
            records[base + HASH] = h
            records[base + MARK] = -1
            records[base + NULLS] = absent
            for i in range(width):
                records[base + WORDS + i] = words[first + i]
            fresh[made] = slot
            made += 1
            if len(old) > 0:
                move_entries(old, table, counts)
        if records[slot * stride + MARK] != call:
            records[slot * stride + MARK] = call
            touched[reached] = slot
            reached += 1
        slots[row] = slot
    counts[KNOWN] = known
    counts[FREED] = freed
    counts[TOUCHED] = reached
    counts[FRESH] = made
    return stop


def probe(table: Any, h: int, records: Any, stride: int, words: Any, first: int, width: int, absent: int) -> Any:
    """The slot of a key in a table, -1 if it is not there, and the place after it or where it would be."""
    mask = (len(table) >> 1) - 1
    at, slot = h & mask, -1
    while slot < 0 and table[2 * at + 1] != 0:
        if table[2 * at] == h and table[2 * at + 1] != GONE:
            base = (table[2 * at + 1] - 1) * stride
            same = records[base + NULLS] == absent
            for i in range(width):
                same = same and records[base + WORDS + i] == words[first + i]
            if same:
                slot = table[2 * at + 1] - 1
        at = (at + 1) & mask
    return at, slot


def move_entries(old: Any, table: Any, counts: Any) -> None:
    """Copy the entries of some places of the old table to the new one."""
    mask = (len(table) >> 1) - 1
    first = counts[MOVED]
    last = min(first + STEPS, len(old) >> 1)
    for i in range(first, last):
        if old[2 * i + 1] > 0:
            at = old[2 * i] & mask
            while table[2 * at + 1] != 0:
                at = (at + 1) & mask
            table[2 * at] = old[2 * i]
            table[2 * at + 1] = old[2 * i + 1]
    counts[MOVED] = last


def place_of(table: Any, h: int, slot: int) -> int:
    """The place of a slot in a table; -1 if it is not there."""
    mask = (len(table) >> 1) - 1
    at = h & mask
    while table[2 * at + 1] != 0:
        if table[2 * at + 1] == slot + 1:
            return at
        at = (at + 1) & mask
    return -1


@with_python_integers
def release_keys(slots: Any, width: int, table: Any, old: Any, records: Any, free: Any, counts: Any) -> int:
    """Remove the keys of slots, and add the slots to the free list; returns how many were live.

    Returns -1, and changes nothing, if a slot is out of range. Backward-shift deletion moves up the entries that
    follow, so the table has no tombstones; the old one has, for it is moved in order.
    """
    mask = (len(table) >> 1) - 1
    stride = WORDS + width
    freed = counts[FREED]
    for slot in slots:
        if slot < 0 or slot >= counts[KNOWN]:
            return -1
    for slot in slots:
        h = records[slot * stride + HASH]
        if h < 0:
            continue
        if len(old) > 0:
            at = place_of(old, h, slot)
            if at >= 0:
                old[2 * at + 1] = GONE
        hole = place_of(table, h, slot)
        if hole >= 0:
            at = (hole + 1) & mask
            while table[2 * at + 1] != 0:
                if ((at - table[2 * at]) & mask) >= ((at - hole) & mask):
                    table[2 * hole] = table[2 * at]
                    table[2 * hole + 1] = table[2 * at + 1]
                    hole = at
                at = (at + 1) & mask
            table[2 * hole + 1] = 0
        records[slot * stride + HASH] = -1
        free[freed] = slot
        freed += 1
    released: int = freed - counts[FREED]
    counts[FREED] = freed
    return released


@with_python_integers
def index_keys(width: int, table: Any, records: Any, known: int) -> int:
    """Rehash the live records among the first `known` into an empty table; returns their number."""
    mask = (len(table) >> 1) - 1
    stride = WORDS + width
    live = 0
    for slot in range(known):
        base = slot * stride
        if records[base + HASH] < 0:
            continue
        h = key_hash(records, base + WORDS, width, records[base + NULLS])
        records[base + HASH] = h
        at = h & mask
        while table[2 * at + 1] != 0:
            at = (at + 1) & mask
        table[2 * at] = h
        table[2 * at + 1] = slot + 1
        live += 1
    return live


# ---- bytes ----


@with_python_integers
def intern_bytes(
    offsets: Any,
    data: Any,
    valid: Any,
    table: Any,
    starts: Any,
    arena: Any,
    counts: Any,
    codes: Any,
    start: int,
    insert: bool,
) -> int:
    """Find the code of each value from `start` on: -1 for nulls; without `insert`, -2 for unknown values.

    Value i is data[offsets[i] : offsets[i + 1]], and null if not valid (empty: all are). The bytes of code c are
    arena[starts[c] : starts[c + 1]]; counts[0] is the number of codes. Returns the first value that does not fit, else
    the number of values.
    """
    mask = (len(table) >> 1) - 1
    entries = counts[0]
    stop = len(codes)
    for row in range(start, len(codes)):
        if len(valid) > 0 and not valid[row]:
            codes[row] = -1
            continue
        first, size = offsets[row], offsets[row + 1] - offsets[row]
        h = bytes_hash(data, first, first + size)
        at = h & mask
        code = -2
        while code < 0 and table[2 * at + 1] != 0:
            if table[2 * at] == h:
                known = table[2 * at + 1] - 1
                begin = starts[known]
                same = starts[known + 1] - begin == size
                i = 0
                while same and i < size:
                    same = arena[begin + i] == data[first + i]
                    i += 1
                if same:
                    code = known
            at = (at + 1) & mask
        if code < 0 and insert:
            begin = starts[entries]
            if entries + 1 >= len(starts) or begin + size > len(arena):
                stop = row
                break
            code = entries
            entries += 1
            table[2 * at] = h
            table[2 * at + 1] = code + 1
            for i in range(size):
                arena[begin + i] = data[first + i]
            starts[code + 1] = begin + size
        codes[row] = code
    counts[0] = entries
    return stop


@with_python_integers
def index_bytes(old: Any, renamed: Any, table: Any) -> int:
    """Fill an empty table with the entries of an old one, by their new codes (-1: dropped; empty: unchanged)."""
    mask = (len(table) >> 1) - 1
    moved = 0
    for i in range(len(old) >> 1):
        code = old[2 * i + 1] - 1
        if code >= 0 and len(renamed) > 0:
            code = renamed[code]
        if code < 0:
            continue
        at = old[2 * i] & mask
        while table[2 * at + 1] != 0:
            at = (at + 1) & mask
        table[2 * at] = old[2 * i]
        table[2 * at + 1] = code + 1
        moved += 1
    return moved


@with_python_integers
def gather_bytes(codes: Any, starts: Any, arena: Any, places: Any, out: Any) -> int:
    """Copy the bytes of each code of 0 or more to out[places[i] : places[i + 1]]; returns their number."""
    copied = 0
    for i in range(len(codes)):
        code = codes[i]
        if code >= 0:
            begin, to = starts[code], places[i]
            for j in range(starts[code + 1] - begin):
                out[to + j] = arena[begin + j]
            copied += 1
    return copied


@with_python_integers
def count_uses(codes: Any, by: int, uses: Any) -> int:
    """Add `by` to the uses of each code of 0 or more; returns the change of the number of used codes."""
    changed = 0
    for i in range(len(codes)):
        code = codes[i]
        if code >= 0:
            before = uses[code] > 0
            uses[code] += by
            after = uses[code] > 0
            changed += int(after) - int(before)
    return changed


# --- Hashing ---


def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A 62-bit hash of each text data[offsets[i] : offsets[i + 1]].

    >>> import numpy as np
    >>> hash_texts(np.array([0, 1, 2]), np.frombuffer(b"aa", np.uint8)).tolist()[0]
    762356760737
    """
    out = np.zeros(len(offsets) - 1, np.int64)
    call_loop(hash_all, "", (np.ascontiguousarray(offsets), np.ascontiguousarray(data), out))
    return out.astype(np.uint64)


@with_python_integers
def hash_all(offsets: Any, data: Any, out: Any) -> None:
    """Fill `out` with the hash of each text."""
    for i in range(len(out)):
        one, two = 1, 1
        for j in range(offsets[i], offsets[i + 1]):
            one = (one * 257 + data[j] + 1) % 2147483647
            two = (two * 65599 + data[j] + 1) % 2147483629
        out[i] = (one << 31) | two
