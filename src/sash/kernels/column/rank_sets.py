"""A set of ranks as bits, with the number of bits in each block of 16 words.

    words    0110… 0010… 0000… …        64 ranks each
    blocks   ├──── 1,024 ranks ────┤    how many are in the set

Adding and removing take O(1), counting those below a rank O(16 + ranks / 1,024), half of it in vectors. A cursor, that
is a word and the number of ranks before it, finds the n-th rank in O(1) if n and the set have changed little. It needs
the blocks only if it often moves far; until then nobody counts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.jit.word_operations import bit_count
from sash.monoids.algebra import noinline

BLOCK_WORDS = 16
_NEAR = 32
"""The words that a cursor passes one by one before its move counts as far."""

SELDOM = 8
"""So many times a cursor moves far, word by word, before the blocks are counted."""

_ONE, _SIX, _TEN, _LAST = np.uint64(1), np.uint64(6), np.uint64(10), np.uint64(63)


def words_needed(ranks: int) -> int:
    """The number of words for this many ranks: whole blocks, and one word more that a search may read."""
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
    """Add a rank that is not in the set, or remove one that is; its block's count is left to the caller."""
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


@noinline
def moved_to(words: Any, blocks: Any, cursor: Any, n: int) -> tuple[Any, int, int]:
    """Move a cursor to the word of the n-th rank, counted from 0.

    A cursor is a word, the number of ranks before it, and how many times it has moved far. When that becomes greater
    than `SELDOM` the blocks are counted; from then on the caller updates them.
    """
    word, before, far = cursor
    steps = _NEAR
    while steps > 0 or far < SELDOM:
        steps -= 1
        if before > n:
            word -= _ONE
            before -= bit_count(words[word])
        else:
            after = before + bit_count(words[word])
            if after > n:
                return word, before, far + int(steps < 0)
            before = after
            word += _ONE
    if far == SELDOM:
        far += 1
        for i in range(len(blocks)):
            blocks[i] = 0
            for at in range(BLOCK_WORDS * i, BLOCK_WORDS * (i + 1)):
                blocks[i] += bit_count(words[np.uint64(at)])
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
    return word, before, far
