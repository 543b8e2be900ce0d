"""The most frequent key of each window, the least of equally frequent ones, over whole columns.

The keys are ranked chunk by chunk (`rank_compression.py`); each distinct key of a chunk has a number in order, a
count, and a leaf of a tournament tree:

            tree[1]  1                 a node is the child with the greater count, the left one if they are equal
            /        \\
         1              2              an update stops at a node that is another key and does not change
       /   \\          /   \\
     0       1       2      3          numbers of the keys
     ×2      ×5      ×1     ×0         counts

Cost per row: some 1.3 sorted keys and two updates, each of up to log₂ of the distinct keys, mostly of a few nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.order_keys import float_bits
from sash.kernels.column.rank_compression import chunk_length, rank_chunk

_ONE = np.uint64(1)


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
                _count(numbers[np.uint64(high - begin)], 1, leaves, counts, tree)
                high += 1
            while low < start:
                _count(numbers[np.uint64(low - begin)], -1, leaves, counts, tree)
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


def _count(number: Any, change: int, leaves: int, counts: Any, tree: Any) -> None:
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
