"""Before the shuffle: keys get shards, and PackShards makes blobs of the rows of a partition, for each shard.

    shard  max_ts   rows    side     malformed
    4      null     blob                          rows of shard 4
    9      null     blob                          rows of shard 9
    0      null             blob     3            malformed rows, always to the first shard
    0      12:07                                  the latest time, for the watermark; dropped before the shards

Spark drops rows below its watermark, and a blob is one row. So blobs have a null time, which is never late and does
not advance the watermark; the latest time has its own row.

    key ──hash, ours──▶ shard 0 … n-1 ──▶ label ──hash, Spark's──▶ partition

Spark sends a label to the partition `pmod(hash(label), partitions)`, so the labels 0, 1, 2 … often share a partition.
Labels are chosen such that their hashes differ modulo the number of shards: with as many partitions as shards, each
has one; the load is even for any number of partitions that divides the number of shards or is a multiple of it. Labels
depend only on the number of shards, because state is keyed by them.

All rows of a key go to one shard, so a key with most rows of a stream limits its throughput. For the monitor, the key
with the most rows of a micro-batch is found:

    rows ──▶ a random sample ──▶ its most frequent key ──▶ count all rows of that key

A sample is enough, since only a key with a large share matters, and its cost does not grow with the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.keys import has_key, key_column, key_text, keys_of
from sash.columns.watermark import WatermarkTracker
from sash.spark.stream.shard_progress import ShardProgress
from sash.spark.stream.stream_spec import PACKED, PackedRow, StreamSpec
from sash.spark.worker_io import WorkerTask, blob_batch, blob_of, blob_slices, grouped, rechunk

# --- Sharding ---

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


# --- Hot keys ---

SAMPLE = 2048
"""Rows of a sample. A key with a tenth of the rows has 205 ± 14 of them."""
LENGTH = 200
"""The maximum length of a key's text."""


def with_rows(
    progress: ShardProgress, packed: Sequence[PackedRow], batches: Sequence[pa.RecordBatch], by: tuple[str, ...]
) -> ShardProgress:
    """The progress with what is known of the rows of the micro-batch: malformed ones, the latest row, the hot key."""
    timed = [(row.greatest, row) for row in packed if row.greatest is not None]
    latest = max(timed, key=lambda one: one[0], default=(None, PackedRow(FIRST)))[1]
    key, rows, keys = hot_key(batches, by)
    return replace(
        progress,
        malformed=sum(row.malformed for row in packed),
        greatest=latest.greatest,
        latest_key=latest.latest_key,
        latest_shard=latest.latest_shard,
        hot_key=key,
        hot_rows=rows,
        sampled_keys=keys,
    )


def hot_key(batches: Sequence[pa.RecordBatch], by: tuple[str, ...]) -> tuple[str | None, int | None, int | None]:
    """The most frequent key of a sample of the rows, as text, the number of all its rows, and the keys of the sample.

    >>> hot_key([pa.record_batch({"k": ["A", "B", "A"], "x": [1, 2, 3]})], ("k",))
    ("k='A'", 2, 2)
    """
    rows = [batch.select(by) for batch in batches if batch.num_rows]
    if not rows or not by:
        return None, None, None
    batch = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
    count = batch.num_rows
    # random rows: with every n-th row, a key that occurs periodically would be all of the sample, or missing
    places = None if count <= SAMPLE else np.random.default_rng(count).integers(0, count, SAMPLE)
    sample = batch if places is None else batch.take(pa.array(places))
    keys = keys_of([key_column(column) for column in sample.columns], sample.num_rows)
    found = np.bincount(keys.codes)
    code = int(found.argmax())
    columns = [column.slice(code, 1) for column in keys.columns]
    counted = int(found[code]) if places is None else _rows_of(batch, columns)
    if counted is None:
        counted = round(int(found[code]) / SAMPLE * count)
    return _name(by, columns), counted, keys.count


def key_name(row: pa.RecordBatch, by: tuple[str, ...]) -> str | None:
    """The key of a batch of one row as text; None without keys."""
    return _name(by, [row.column(name) for name in by])


def _name(by: tuple[str, ...], columns: Sequence[pa.Array]) -> str | None:
    text = key_text(by, columns)
    return (text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…") or None


def _rows_of(batch: pa.RecordBatch, key: Sequence[pa.Array]) -> int | None:
    """The number of rows of a key; None for values that Arrow does not compare."""
    if any(pa.types.is_nested(value.type) and not value.null_count for value in key):
        return None
    return int(pc.sum(has_key(batch.columns, [value[0] for value in key])).as_py())


# --- Pack shards ---

ROWS = 1 << 17
"""Rows that are packed together, to spread the fixed cost of a blob."""


@dataclass
class PackShards(WorkerTask):
    """Packs the rows of a partition."""

    spec: StreamSpec

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest = PackedRow(FIRST)
        has_rows = False
        for batch in rechunk(batches, self.spec.given, ROWS):
            has_rows = True
            now = time.time()
            good, malformed = self._split_malformed(batch)
            rows = [*self._shards(good.select(self.spec.packed.names), now), *self._malformed(malformed, now)]
            if rows:
                yield blob_batch(rows, PACKED)
            latest = self._latest(good, now, latest)
        if has_rows:
            last = [latest]
            if latest.greatest is not None:
                last.append(PackedRow(FIRST, max_ts=self.spec.clock.ticks(latest.greatest)))
            yield blob_batch(last, PACKED)

    def _split_malformed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that could be parsed, and those that could not."""
        if self.spec.corrupt is None:
            return batch, batch.slice(0, 0)
        bad = batch.column(self.spec.corrupt).is_valid()
        return batch.filter(pc.invert(bad)), batch.filter(bad)

    def _shards(self, batch: pa.RecordBatch, now: float) -> Iterator[PackedRow]:
        shards = self.spec.shards
        for shard, rows in grouped(batch, shard_of(batch, self.spec.bound_query.by, shards), shards):
            yield PackedRow(labels(shards)[shard], rows=blob_of(rows), now=now)

    def _malformed(self, batch: pa.RecordBatch, now: float) -> Iterator[PackedRow]:
        """The number of malformed rows, and the rows themselves where there is a side output."""
        if batch.num_rows:
            yield PackedRow(FIRST, now=now, malformed=batch.num_rows)
            for rows in blob_slices(batch) if self.spec.side_output else ():
                yield PackedRow(FIRST, now=now, side=blob_of(rows))

    def _latest(self, batch: pa.RecordBatch, now: float, before: PackedRow) -> PackedRow:
        """The row with the latest time, in this batch or before, without rows too far ahead of the clock (`ahead=`)."""
        classified = WatermarkTracker(self.spec.bound_query, "sorted", lambda: now).classify(batch, None, 0)
        places = np.flatnonzero(classified.taken)
        if not len(places):
            return before
        place = int(places[classified.time[places].argmax()])
        greatest = classified.time[place].item()
        if before.greatest is not None and greatest <= before.greatest:
            return before
        by, row = self.spec.bound_query.by, batch.slice(place, 1)
        shard = labels(self.spec.shards)[int(shard_of(row, by, self.spec.shards)[0])]
        return PackedRow(FIRST, greatest=greatest, latest_key=key_name(row, by), latest_shard=shard)
