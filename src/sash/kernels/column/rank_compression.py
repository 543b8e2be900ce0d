"""Rank the keys of a chunk of rows: numbers from 0, all distinct, in the order of the keys and then of the rows.

A radix sort by the leading bits in which the keys of the chunk differ, and then a sort of the few keys that are equal
in these. Leading bits and row are packed into one word, so that a pass moves half the bytes:

    word    leading bits of key − least key │ row in the chunk

Trailing bits that are equal in all keys, as in floats that are integers, are left out.

Cost: 2 or 3 passes; runs of more than 16 keys that are equal in their leading bits, and not in order, are merged in
O(log n) passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.jit.word_operations import lowest_bit
from sash.monoids.algebra import noinline

LEAST_CHUNK = 2048
"""The least number of rows in a chunk: the passes over counts take as long as those over some thousand rows."""

_CHUNK = 4
"""The length of a chunk in windows: longer ones are sorted less often, shorter ones stay in a faster cache."""

_DIGIT = 12
_PASSES = 3
_SHORT = 16
_SIGN = np.uint64(1 << 63)


def chunk_length(window: int, rows: int) -> int:
    """The length of a chunk that begins with a window of this many rows, with `rows` up to the end of the column.

    0 if the window is empty and the column ends there.
    """
    return min(max(LEAST_CHUNK, _CHUNK * window), rows)


def counts_needed() -> int:
    """The length of the array of counts."""
    return _PASSES << _DIGIT


def rank_chunk(keys: Any, begin: int, length: int, ranks: Any, order: Any, sorting: Any) -> None:
    """Rank the keys of a chunk: write ranks[row] and order[rank], rows being counted from `begin`.

    `sorting` are the scratch arrays of `sorted_keys`.
    """
    words, mask = sorted_keys(keys, begin, length, sorting)
    for rank in range(length):
        row = words[np.uint64(rank)] & mask
        ranks[row] = rank
        order[np.uint64(rank)] = row


def sorted_keys(keys: Any, begin: int, length: int, sorting: Any) -> tuple[Any, Any]:
    """Sort the keys from `begin` on: returns their words in order, and the mask of the row in a word.

    Rows are counted from `begin`. `sorting` are scratch arrays: two of as many words as there are rows, and counts.
    """
    words, spare, counts = sorting
    least = greatest = keys[begin]
    differences = 0
    for i in range(begin, begin + length):
        key = keys[np.uint64(i)]
        least, greatest = min(least, key), max(greatest, key)
        differences |= key ^ keys[begin]
    base = np.uint64(least) ^ _SIGN
    differing = _bit_length((np.uint64(greatest) ^ _SIGN) - base)
    row_bits = _bit_length(np.uint64(length - 1))
    most, digit = _digits(row_bits)
    same = int(lowest_bit(np.uint64(differences))) if differences != 0 else 0
    shift = max(same, differing - min(most * digit, 64 - row_bits))
    passes = max(1, -((shift - differing) // digit))
    _count(keys, begin, length, (base, shift, digit, passes), counts)
    by, mask, size = np.uint64(shift), np.uint64((1 << digit) - 1), 1 << digit
    for i in range(length):
        lead = ((np.uint64(keys[np.uint64(i + begin)]) ^ _SIGN) - base) >> by
        at = np.uint64(lead & mask)
        words[np.uint64(counts[at])] = (lead << np.uint64(row_bits)) | np.uint64(i)
        counts[at] += 1
    for number in range(1, passes):
        offset, down = np.uint64(size * number), np.uint64(row_bits + digit * number)
        for i in range(length):
            word = words[np.uint64(i)]
            at = ((word >> down) & mask) + offset
            spare[np.uint64(counts[at])] = word
            counts[at] += 1
        words, spare = spare, words
    if shift > same:
        _settle(keys, begin, length, row_bits, words, spare)
    return words, np.uint64((1 << row_bits) - 1)


def _bit_length(word: Any) -> int:
    bits = 0
    while bits < 64 and (word >> np.uint64(bits)) != 0:
        bits += 1
    return bits


def _digits(row_bits: int) -> tuple[int, int]:
    """The number of passes and the bits of each, for 2 ** row_bits rows, as measured.

    Together they have at least 10 bits more than a row, because floats around 0 leave most leading bits unused. A pass
    is fast as long as the ends of all its runs are in the first-level cache.
    """
    if row_bits <= 10:
        return 3, 8
    if row_bits <= 12:
        return 2, 11
    return 3, 10 if row_bits < 20 else _DIGIT


def _count(keys: Any, begin: int, length: int, leading: Any, counts: Any) -> None:
    """Compute the place of the first key of each digit, for all passes."""
    base, shift, digit, passes = leading
    size, mask, by, one = 1 << digit, np.uint64((1 << digit) - 1), np.uint64(shift), np.uint64(digit)
    for i in range(passes * size):
        counts[np.uint64(i)] = 0
    for i in range(begin, begin + length):
        lead = ((np.uint64(keys[np.uint64(i)]) ^ _SIGN) - base) >> by
        counts[np.uint64(lead & mask)] += 1
        if passes > 1:
            counts[np.uint64(size) + ((lead >> one) & mask)] += 1
        if passes > 2:
            counts[np.uint64(2 * size) + ((lead >> (one + one)) & mask)] += 1
    for number in range(passes):
        place = 0
        for i in range(number * size, (number + 1) * size):
            here = counts[np.uint64(i)]
            counts[np.uint64(i)] = place
            place += here


def _settle(keys: Any, begin: int, length: int, row_bits: int, words: Any, spare: Any) -> None:
    """Sort words with equal leading bits by their keys; equal keys stay in the order of the rows."""
    by = np.uint64(row_bits)
    start = 0
    while start < length:
        lead = words[np.uint64(start)] >> by
        stop = start + 1
        while stop < length and words[np.uint64(stop)] >> by == lead:
            stop += 1
        if stop - start > 1:
            _settle_run(keys, begin, row_bits, words, spare, start, stop)
        start = stop


@noinline
def _settle_run(keys: Any, begin: int, row_bits: int, words: Any, spare: Any, start: int, stop: int) -> None:
    if stop - start <= _SHORT:
        _insertion_sort(keys, begin, row_bits, words, start, stop)
        return
    mask, first = np.uint64((1 << row_bits) - 1), np.uint64(begin)
    at = start + 1
    while at < stop and keys[first + (words[at - 1] & mask)] <= keys[first + (words[at] & mask)]:
        at += 1
    if at < stop:
        _merge_sort(keys, begin, row_bits, words, spare, start, stop)


def _insertion_sort(keys: Any, begin: int, row_bits: int, words: Any, start: int, stop: int) -> None:
    mask, first = np.uint64((1 << row_bits) - 1), np.uint64(begin)
    for i in range(start + 1, stop):
        word = words[i]
        key = keys[first + (word & mask)]
        at = i
        while at > start and keys[first + (words[at - 1] & mask)] > key:
            words[at] = words[at - 1]
            at -= 1
        words[at] = word


def _merge_sort(keys: Any, begin: int, row_bits: int, words: Any, spare: Any, start: int, stop: int) -> None:
    mask, first = np.uint64((1 << row_bits) - 1), np.uint64(begin)
    for low in range(start, stop, _SHORT):
        _insertion_sort(keys, begin, row_bits, words, low, min(low + _SHORT, stop))
    width = _SHORT
    while width < stop - start:
        for low in range(start, stop, 2 * width):
            a, b = low, min(low + width, stop)
            middle, high = b, min(low + 2 * width, stop)
            for at in range(low, high):
                from_a = a < middle
                if from_a and b < high:
                    from_a = keys[first + (words[a] & mask)] <= keys[first + (words[b] & mask)]
                spare[at] = words[a] if from_a else words[b]
                a, b = a + from_a, b + (not from_a)
        for at in range(start, stop):
            words[at] = spare[at]
        width *= 2
