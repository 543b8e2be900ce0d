r"""Ranks over whole columns: of the keys of a chunk, of the last key of a window; sets of ranks; modes.

The keys of a chunk of rows get numbers from 0, all distinct, in the order of the keys and then of the rows.

A radix sort by the leading bits in which the keys of the chunk differ, and then a sort of the few keys that are equal
in these. Leading bits and row are packed into one word, so that a pass moves half the bytes:

    word    leading bits of key − least key │ row in the chunk

Trailing bits that are equal in all keys, as in floats that are integers, are left out.

Cost: 2 or 3 passes; runs of more than 16 keys that are equal in their leading bits, and not in order, are merged in
O(log n) passes.

Keys: 64-bit integers in the order of the values, so that one kernel serves every type of column.

integers, codes    themselves
floats             their bits, those of negative numbers inverted; -0.0 as 0.0; NaN is the greatest key

A set of ranks as bits, with the number of bits in each block of 16 words.

    words    0110… 0010… 0000… …        64 ranks each
    blocks   ├──── 1,024 ranks ────┤    how many are in the set

Adding and removing a rank take O(1). Counting the ranks below a rank, and finding the n-th rank, take
O(16 + ranks / 1,024), half of it in vectors.

The rank of the last key of each window among the window's keys, over whole columns.

In narrow windows the lesser and the equal keys are counted, in vectors. Wide windows are sets of ranks
(`ranks.py`), in which equal keys share a count, at the rank of the first:

    keys of a chunk, in order    2  5  5  5  8
    rank                         0  1  2  3  4       one bit for each key in the window
    first                        0  1  1  1  4       with "dense": one bit for each distinct key, here
    counts[first]                1  2  ·  ·  0

Cost per row: w / 8 vector operations for windows of w keys; for wide ones some 1.3 sorted keys, 2 changed bits and a
count of the bits below.

The most frequent key of each window, the least of equally frequent ones, over whole columns.

The keys are ranked chunk by chunk (`ranks.py`); each distinct key of a chunk has a number in order, a
count, and a leaf of a tournament tree:

            tree[1]  1                 a node is the child with the greater count, the left one if they are equal
            /        \
         1              2              an update stops at a node that is another key and does not change
       /   \          /   \
     0       1       2      3          numbers of the keys
     ×2      ×5      ×1     ×0         counts

Cost per row: some 1.3 sorted keys and two updates, each of up to log₂ of the distinct keys, mostly of a few nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.jit.word_operations import bit_count, lowest_bit
from sash.monoids.algebra import noinline

# --- Rank compression ---

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


# --- Order keys ---

GREATEST = 2**63 - 1
"""The key of NaN; in a column of integers, of the greatest integer."""

_LEAST = -(2**63)
_INFINITY = 0x7FF0000000000000


def float_keys(bits: Any, first: int, stop: int, keys: Any) -> None:
    """Fill `keys` with the keys of floats, given as their bits."""
    for i in range(first, stop):
        at = np.uint64(i)  # an index that may be negative prevents vectorisation
        own = bits[at]
        key = own ^ ((own >> 63) & GREATEST)
        key = GREATEST if (own & GREATEST) > _INFINITY else key
        keys[at] = 0 if own == _LEAST else key


def has_several_bits(bits: Any, first: int, stop: int) -> bool:
    """Is there a float, given as its bits, that equals floats with other bits: -0.0 or NaN?"""
    least = greatest = 0
    for i in range(first, stop):
        own = bits[np.uint64(i)]
        least, greatest = min(least, own), max(greatest, own & GREATEST)  # vectorised, eight at once
    return least == _LEAST or greatest > _INFINITY


def float_bits(key: Any) -> Any:
    """The bits of the float with this key."""
    return key ^ ((key >> 63) & GREATEST)


# --- Rank sets ---

BLOCK_WORDS = 16
ONE, SIX, TEN, LAST = np.uint64(1), np.uint64(6), np.uint64(10), np.uint64(63)


def words_needed(ranks: int) -> int:
    """The number of words for this many ranks: whole blocks, with a word more that a search may read."""
    return blocks_needed(ranks) * BLOCK_WORDS


def blocks_needed(ranks: int) -> int:
    """The number of blocks for this many ranks."""
    return (ranks >> 10) + 1


def clear(words: Any, blocks: Any, ranks: int) -> None:
    """Empty the set."""
    for i in range(words_needed(ranks)):
        words[i] = np.uint64(0)
    for i in range(blocks_needed(ranks)):
        blocks[i] = 0


def flip(words: Any, rank: Any) -> None:
    """Add a rank that is not in the set, or remove one that is; the caller updates the count of its block."""
    words[rank >> SIX] ^= ONE << (rank & LAST)


def add(words: Any, blocks: Any, rank: Any) -> None:
    """Add a rank that is not in the set."""
    flip(words, rank)
    blocks[rank >> TEN] += 1


def remove(words: Any, blocks: Any, rank: Any) -> None:
    """Remove a rank that is in the set."""
    flip(words, rank)
    blocks[rank >> TEN] -= 1


def count_below(words: Any, blocks: Any, rank: Any) -> int:
    """The number of ranks in the set that are less than a rank."""
    word = rank >> SIX
    before = 0
    for i in range(rank >> TEN):
        before += int(blocks[i])
    for at in range((rank >> TEN) * np.uint64(BLOCK_WORDS), word):
        before += bit_count(words[at])
    return before + bit_count(words[word] & ((ONE << (rank & LAST)) - ONE))


def count_blocks(words: Any, blocks: Any) -> None:
    """Count the ranks in each block."""
    for i in range(len(blocks)):
        blocks[i] = 0
        for at in range(BLOCK_WORDS * i, BLOCK_WORDS * (i + 1)):
            blocks[i] += bit_count(words[np.uint64(at)])


def word_of(words: Any, blocks: Any, n: int) -> tuple[Any, int]:
    """The word of the n-th rank, counted from 0, and the number of ranks before that word."""
    block, before = 0, 0
    while before + int(blocks[block]) <= n:
        before += int(blocks[block])
        block += 1
    word = np.uint64(block * BLOCK_WORDS)
    after = before + bit_count(words[word])
    while after <= n:
        before = after
        word += ONE
        after += bit_count(words[word])
    return word, before


# --- Window ranks ---

NARROW = 256
"""The longest window whose keys are compared one by one: a set of ranks takes some 30 ns a row on one core."""

AVERAGE, MIN, MAX, DENSE = range(4)
"""The places of the methods in `sash.monoids.rank_statistics.METHODS`."""


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


# --- Modes ---


def modes(
    keys: Any, los: Any, his: Any, first: int, stop: int, _longest: int, asked: Any, out: Any, scratch: Any
) -> None:
    """Modes of rows [first, stop).

    `asked` is whether keys are those of floats; `out` is one array, as floats and as integers.
    """
    ranks, order, numbers, counts, tree, sorting = scratch
    row = first
    while row < stop:
        begin = los[row]
        length = chunk_length(his[row] - begin, len(keys) - begin)
        if length == 0:  # the last windows are empty
            return
        rank_chunk(keys, begin, length, ranks, order, sorting)
        leaves = _start(keys, begin, length, ranks, order, (numbers, counts, tree))
        low = high = begin
        while row < stop and his[np.uint64(row)] <= begin + length:
            start, end = los[np.uint64(row)], his[np.uint64(row)]
            while high < end:
                _count_keys(numbers[np.uint64(high - begin)], 1, leaves, counts, tree)
                high += 1
            while low < start:
                _count_keys(numbers[np.uint64(low - begin)], -1, leaves, counts, tree)
                low += 1
            if end > start:
                key = keys[begin + order[ranks[tree[1]]]]
                out[1][np.uint64(row)] = float_bits(key) if asked[0] else key
            row += 1


def _start(keys: Any, begin: int, length: int, ranks: Any, order: Any, tournament: Any) -> int:
    """Number the distinct keys of a chunk, and start a tournament tree for them; returns its number of leaves.

    ranks[number] becomes the rank of a key with that number.
    """
    numbers, counts, tree = tournament
    number, last = -1, 0
    for rank in range(length):
        row = order[rank]
        if number < 0 or keys[begin + row] != keys[begin + last]:
            number += 1
            ranks[number] = rank
        last = row
        numbers[row] = number
    leaves = 1
    while leaves <= number:
        leaves *= 2
    for i in range(leaves):
        counts[i] = 0
        tree[leaves + i] = i
    for node in range(leaves - 1, 0, -1):
        tree[node] = tree[2 * node]
    return leaves


def _count_keys(number: Any, change: int, leaves: int, counts: Any, tree: Any) -> None:
    """Change the count of a key, and update the nodes above its leaf until one does not change."""
    counts[np.uint64(number)] += change
    node = (leaves + int(number)) >> 1
    while node > 0:
        left, right = tree[np.uint64(2 * node)], tree[np.uint64(2 * node + 1)]
        winner = right if counts[np.uint64(right)] > counts[np.uint64(left)] else left
        if winner == tree[np.uint64(node)] and winner != number:
            return
        tree[np.uint64(node)] = winner
        node >>= 1
