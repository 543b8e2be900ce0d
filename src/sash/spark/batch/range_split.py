"""Distribute a key with very many rows, or all rows of a query without keys, over several partitions.

    histogram of times ── one action ──▶ time ranges, and pieces of them
    rows ──▶ pack: blobs by piece ──▶ repartition by range, sort by piece ──▶ an executor for each range

Rows cross the shuffle as blobs of some thousand, and a worker sorts those of a piece: shuffling, sorting and sending
single rows to Python would cost more than the windows.

KeyHistogram: a histogram of the times of large keys, from one pass over unsorted rows, without a shuffle.

    a chunk of rows ──▶ by key, sorted ──▶ runs of rows ──▶ (key, low, high, rows, weight) for each

Only keys with a large share of a chunk have runs; the rows of all others are counted together. It is the only action
that a split runs, and its result is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from sash.columns.keys import key_column, keys_of
from sash.kernels.loops.array_types import Ints, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.plan.time_axis import Number, TimeAxis
from sash.spark.batch.pack_ranges import PACKED, PIECE, RANGE, LargeKey, PackRanges, ShuffleRouting
from sash.spark.batch.time_ranges import (
    Buckets,
    Lookback,
    TimeRange,
    equal_ranges,
    has_lifetime,
    piece_edges,
    time_ranges,
    why_not_split,
)
from sash.spark.column_exprs import plainly_named, quoted
from sash.spark.job_names import job
from sash.spark.shipping import by_value
from sash.spark.spark_types import arrow_schema, bytes_of, collected, spark_schema
from sash.spark.stream.pack_shards import labels, spark_hash
from sash.spark.worker_io import rechunk
from sash.windows.rules import since

# --- Key histogram ---

CHUNK = 1_000_000
"""Rows that are read together: only their keys and times."""

RUNS = 64
"""Runs for each range that is wanted: the bounds of ranges are then about 1/64 of a range off."""

LOW, HIGH, ROWS, WEIGHT, HOT = "low", "high", "rows", "weight", "hot"


class KeyHistogram:
    """Computes runs in a worker from batches of keys, times and weights.

    The last column is the weight of a row: the number of rows that it represents in a sample.
    """

    def __init__(self, schema: pa.Schema, by: tuple[str, ...], axis: TimeAxis, ranges: int, gap: Number | None) -> None:
        self.schema, self.by, self.axis, self.ranges, self.gap = schema, by, axis, ranges, gap

    def output(self) -> pa.Schema:
        """The schema of the runs: the columns of the key, named by position, then bounds and counts."""
        number = pa.float64() if self.axis.kind == "float" else pa.int64()
        keys = [pa.field(f"key{i}", self.schema.field(name).type) for i, name in enumerate(self.by)]
        return pa.schema(
            [*keys, (LOW, number), (HIGH, number), (ROWS, pa.int64()), (WEIGHT, pa.int64()), (HOT, pa.bool_())]
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rechunk(batches, self.schema, CHUNK):
            yield self.runs(batch)

    def runs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The runs of a chunk."""
        time, timed = self.axis.numbers(batch.column(self.axis.column))
        batch, time = batch.filter(pa.array(timed)), time[timed]
        weight = batch.column(batch.num_columns - 1).to_numpy()
        keys = keys_of([key_column(batch.column(name)) for name in self.by], len(time))
        counts = np.bincount(keys.codes, minlength=keys.count)
        # a key with a share of 1 / ranges of all rows has at least this share of the chunks where it is not rare
        hot = counts >= max(1.0, len(time) / (8 * self.ranges))
        width = max(1, len(time) // (RUNS * self.ranges))
        found = []
        for code in np.flatnonzero(hot):
            rows = np.flatnonzero(keys.codes == code)
            buckets = self._buckets(time[rows], weight[rows], width)
            of = pa.array(np.full(len(buckets.rows), code))
            values = (buckets.low, buckets.high, buckets.rows, buckets.weight, np.ones(len(of), np.bool_))
            columns = [*(column.take(of) for column in keys.columns), *map(pa.array, values)]
            found.append(pa.RecordBatch.from_arrays(columns, schema=self.output()))
        cold = ~hot[keys.codes]
        return pa.concat_batches([*found, self._others(int(cold.sum()), int(weight[cold].sum()))])

    def _buckets(self, time: Numbers, weight: Ints, width: int) -> Buckets:
        """The runs of one key: `width` rows each, and split at the longest gaps, where sessions may end."""
        order = np.argsort(time, kind="stable")
        time, weight = time[order], weight[order]
        starts = np.arange(0, len(time), width)
        if self.gap is not None:
            gaps = since(time[1:], time[:-1])
            wide = np.flatnonzero(gaps > self.gap)
            longest = wide[np.argsort(gaps[wide], kind="stable")[-RUNS * self.ranges :]]
            starts = np.union1d(starts, longest + 1)
        ends = np.append(starts[1:], len(time))
        return Buckets(time[starts], time[ends - 1], ends - starts, np.add.reduceat(weight, starts))

    def _others(self, rows: int, weight: int) -> pa.RecordBatch:
        """One row that counts the rows of all other keys."""
        nulls = [pa.nulls(1, field.type) for field in self.output()][:-3]
        counts = [pa.array([rows]), pa.array([weight]), pa.array([False])]
        return pa.RecordBatch.from_arrays([*nulls, *counts], schema=self.output())


def buckets_of(runs: pa.Table, keys: int) -> tuple[list[pa.Array], list[Buckets], int]:
    """The distinct large keys as columns, the buckets of each, and the total number of rows."""
    total = sum(runs.column(WEIGHT).to_pylist())
    hot = runs.filter(runs.column(HOT)).combine_chunks()
    found = keys_of([key_column(hot.column(i)) for i in range(keys)], hot.num_rows)
    numbers = [hot.column(name).to_numpy() for name in (LOW, HIGH, ROWS, WEIGHT)]
    chosen = [found.codes == code for code in range(found.count)] if hot.num_rows else []
    return list(found.columns), [Buckets(*(column[one] for column in numbers)) for one in chosen], total


# --- Range split ---

ENOUGH = 1_000_000
"""The default number of rows for a range: two ranges of this size take about as long as one partition, and of five
times this size less time (docs/performance.md)."""

FIRST, EACH = 2048, 16
"""The sample of each partition: this many first rows, then every n-th row."""

HELD, BATCH_ROWS = 2**25, 2**18
"""The maximum bytes and rows of a piece: a worker holds one or two pieces."""

MOST = 2048
"""The maximum number of ranges of a key."""


@dataclass(frozen=True)
class RangeSplit:
    """The time ranges of all large keys, by number, and the pieces of all rows."""

    ranges: list[TimeRange]
    lasts: list[int]
    """By range: the last range of its key, if ranges start with partials; else itself."""
    routing: ShuffleRouting
    partitions: int


def may_split(query: Query) -> bool:
    """Do the options allow that rows of a key are split by time ranges?"""
    asked = query.options.split
    return asked != 1 if asked is not None else not query.by


def split_of(data: Any, bound_query: BoundQuery) -> RangeSplit | None:
    """Plan a split of the rows; None if they are not split. Runs one action, if it is needed to decide."""
    asked = bound_query.query.options.split
    if not may_split(bound_query.query) or why_not_split(bound_query) is not None:
        return None
    wanted = asked or _partitions(data)
    if wanted == 1:
        return None
    lookback = Lookback.of(bound_query)
    # the cost of partials does not depend on the number of rows
    divided = equal_ranges if has_lifetime(bound_query) else time_ranges
    columns, buckets, total = _histogram(data, bound_query, wanted, lookback.gap)
    row_bytes = sum(bytes_of(field.type) or 64 for field in bound_query.schema)  # text, lists and the like: about 64
    size = max(1, min(BATCH_ROWS, HELD // row_bytes))
    large: dict[int, LargeKey] = {}
    for place, one in enumerate(buckets):
        most = min(-(-one.total * wanted // max(total, 1)), MOST)
        ranges = divided(one, lookback, most if asked else min(most, one.total // ENOUGH))
        # a large key is read in pieces even if it has one range: no worker holds all of it
        if len(ranges) > 1 or one.total > size:
            large[place] = LargeKey(ranges, piece_edges(one, size))
    if all(len(key.ranges) == 1 for key in large.values()):
        return None
    partitions = max(_partitions(data) if bound_query.by else 1, *(len(key.ranges) for key in large.values()))
    others = total - sum(buckets[place].total for place in large)
    groups = max(partitions, -(-others // size)) if bound_query.by else 0
    keys = tuple(column.take(pa.array(large)) for column in columns)
    found: list[TimeRange] = []
    lasts: list[int] = []
    for key in large.values():
        last = len(found) + len(key.ranges) - 1
        lasts += [last if has_lifetime(bound_query) else len(found) + i for i in range(len(key.ranges))]
        found += key.ranges
    return RangeSplit(found, lasts, ShuffleRouting.of(keys, [*large.values()], groups), partitions)


def _histogram(
    data: Any, bound_query: BoundQuery, ranges: int, gap: Number | None
) -> tuple[list[pa.Array], list[Buckets], int]:
    """The large keys as columns, the distribution in time of each, and the total number of rows."""
    assert bound_query.time is not None
    names = [*bound_query.by, bound_query.time.column]
    weight = "_".join(["weight", *names])  # longer than each of them
    read = data.select(*map(quoted, dict.fromkeys(names)))
    read = _sampled(read, weight) if gap is None else read.withColumn(weight, sf.lit(1).cast("long"))
    histogram = KeyHistogram(arrow_schema(read.schema), bound_query.by, bound_query.time, ranges, gap)
    name = "sash: times of large keys"
    with job(data.sparkSession, name):
        runs = collected(plainly_named(read).mapInArrow(by_value(histogram, name), spark_schema(histogram.output())))
    return buckets_of(runs, len(bound_query.by))


def _sampled(data: Any, weight: str) -> Any:
    """A sample: the first rows of each partition, then every n-th row, each with the number of rows it represents.

    Ranges may begin anywhere, and sampled rows are rows: a lookback with enough sampled rows has enough rows. A gap is
    certain only if all rows were read.
    """
    place = sf.monotonically_increasing_id().bitwiseAND(2**33 - 1)  # the lower bits count within a partition
    kept = (quoted(weight) < FIRST) | (quoted(weight) % EACH == 0)
    stands_for = sf.when(quoted(weight) < FIRST, sf.lit(1)).otherwise(sf.lit(EACH)).cast("long")
    return data.withColumn(weight, place).filter(kept).withColumn(weight, stands_for)


def _partitions(data: Any) -> int:
    return int(data.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def packed_ranges(data: Any, bound_query: BoundQuery, split: RangeSplit) -> Any:
    """The rows as blobs, one or more for each piece and each time range that reads it."""
    pack = PackRanges(bound_query.query, bound_query.schema, split.routing)
    return plainly_named(data).mapInArrow(by_value(pack, "sash: pack rows into time ranges"), spark_schema(PACKED))


def shuffled(packed: Any, split: RangeSplit) -> Any:
    """Blobs in the partitions of their ranges, sorted."""
    place, count = quoted(RANGE) % split.partitions, split.partitions
    if hasattr(packed, "repartitionById"):
        spread = packed.repartitionById(count, place)
    else:  # before Spark 4.1: by numbers whose hashes are the places
        numbers = sorted(labels(count), key=lambda label: spark_hash(label) % count)
        spread = packed.repartition(count, sf.array(*map(sf.lit, numbers))[place])
    return spread.sortWithinPartitions(RANGE, PIECE)
