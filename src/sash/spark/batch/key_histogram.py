"""KeyHistogram: a histogram of the times of large keys, from one pass over unsorted rows, without a shuffle.

    a chunk of rows ──▶ by key, sorted ──▶ runs of rows ──▶ (key, low, high, rows, weight) for each

Only keys with a large share of a chunk have runs; the rows of all others are counted together. It is the only action
that a split runs, and its result is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from sash.engine.key_values import key_column, keys_of
from sash.engine.time_numbers import since
from sash.kernels.loops.array_types import Ints, Numbers
from sash.plan.time_axis import Number, TimeAxis
from sash.spark.batch.time_ranges import Buckets
from sash.spark.worker_io import rechunk

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
