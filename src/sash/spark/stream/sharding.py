"""Assign keys of a stream to shards, and choose the labels by which Spark distributes shards.

    key ──hash, ours──▶ shard 0 … n-1 ──▶ label ──hash, Spark's──▶ partition

Spark sends a label to the partition `pmod(hash(label), partitions)`, so the labels 0, 1, 2 … often share a partition.
Labels are chosen such that their hashes differ modulo the number of shards: with as many partitions as shards, each
has one; the load is even for any number of partitions that divides the number of shards or is a multiple of it. Labels
depend only on the number of shards, because state is keyed by them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.key_values import key_column, keys_of

FIRST = 0
"""A label that exists for every number of shards."""

_WORD = 0xFFFFFFFF


@cache
def labels(shards: int) -> tuple[int, ...]:
    """The labels of this many shards: the smallest numbers whose hashes are distributed evenly.

    >>> labels(2)
    (0, 2)
    """
    free = set(range(shards))
    found = []
    label = FIRST
    while free:
        place = spark_hash(label) % shards
        if place in free:
            free.remove(place)
            found.append(label)
        label += 1
    return tuple(found)


def spark_hash(number: int) -> int:
    """Spark's `hash` of an int: Murmur3 of 32 bits with the seed 42, signed."""
    word = (number * 0xCC9E2D51) & _WORD
    word = (_rotated(word, 15) * 0x1B873593) & _WORD
    mixed = (_rotated(42 ^ word, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & _WORD
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD


def shard_of(batch: pa.RecordBatch, by: tuple[str, ...], shards: int) -> NDArray[np.int64]:
    """The shard of each row, by a hash of its key that is the same in every process."""
    if shards == 1 or not by:
        return np.zeros(batch.num_rows, np.int64)
    keys = keys_of([key_column(batch.column(name)) for name in by], batch.num_rows)
    places: NDArray[np.int64] = (keys.hashes() % np.uint64(shards)).astype(np.int64)
    return np.take(places, keys.codes)
