"""A set of ranks as bits, with the number of bits in each block of 16 words.

    words    0110… 0010… 0000… …        64 ranks each
    blocks   ├──── 1,024 ranks ────┤    how many are in the set

Adding and removing a rank take O(1). Counting the ranks below a rank, and finding the n-th rank, take
O(16 + ranks / 1,024), half of it in vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.jit.word_operations import bit_count

BLOCK_WORDS = 16
_ONE, _SIX, _TEN, _LAST = np.uint64(1), np.uint64(6), np.uint64(10), np.uint64(63)


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
    words[rank >> _SIX] ^= _ONE << (rank & _LAST)


def add(words: Any, blocks: Any, rank: Any) -> None:
    """Add a rank that is not in the set."""
    flip(words, rank)
    blocks[rank >> _TEN] += 1


def remove(words: Any, blocks: Any, rank: Any) -> None:
    """Remove a rank that is in the set."""
    flip(words, rank)
    blocks[rank >> _TEN] -= 1


def count_below(words: Any, blocks: Any, rank: Any) -> int:
    """The number of ranks in the set that are less than a rank."""
    word = rank >> _SIX
    before = 0
    for i in range(rank >> _TEN):
        before += int(blocks[i])
    for at in range((rank >> _TEN) * np.uint64(BLOCK_WORDS), word):
        before += bit_count(words[at])
    return before + bit_count(words[word] & ((_ONE << (rank & _LAST)) - _ONE))


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
        word += _ONE
        after += bit_count(words[word])
    return word, before
