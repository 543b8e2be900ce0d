"""Summaries: how a key's rows lie in time, found in one pass over the rows as they come, without a shuffle.

    a chunk of rows ──▶ by key, sorted ──▶ runs of some rows ──▶ (key, low, high, rows, weight) each

Only keys that hold a good share of a chunk have runs of their own; of the others the rows are counted. This is what the
one action of a split computes; what it gives is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.key_values import key_column, keys_of
from sash.plan.time_axis import TimeAxis
from sash.spark.batch.partition_task import joined
from sash.spark.batch.time_ranges import Buckets

CHUNK = 1_000_000
"""Rows that are looked at together: their keys and times, nothing else of them."""

RUNS = 64
"""Runs for each part that is wanted: a bound then lies within some hundredth of a part of where it should."""

LOW, HIGH, ROWS, WEIGHT, HOT = "low", "high", "rows", "weight", "hot"


class KeyHistogram:
    """What runs in a worker: batches of keys, times and weights in, runs out.

    The last column is the weight of a row: how many it stands for, where not all are looked at.
    """

    def __init__(self, schema: pa.Schema, by: tuple[str, ...], axis: TimeAxis, parts: int, gap: Any) -> None:
        self.schema, self.by, self.axis, self.parts, self.gap = schema, by, axis, parts, gap

    def output(self) -> pa.Schema:
        """The schema of the runs: the columns of the key, by their places, then theirs."""
        number = pa.float64() if self.axis.kind == "float" else pa.int64()
        keys = [pa.field(f"key{i}", self.schema.field(name).type) for i, name in enumerate(self.by)]
        return pa.schema(
            [*keys, (LOW, number), (HIGH, number), (ROWS, pa.int64()), (WEIGHT, pa.int64()), (HOT, pa.bool_())]
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in joined(batches, self.schema, CHUNK):
            yield self.runs(batch)

    def runs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The runs of a chunk."""
        time, timed = self.axis.numbers(batch.column(self.axis.column))
        batch, time = batch.filter(pa.array(timed)), time[timed]
        weight = batch.column(batch.num_columns - 1).to_numpy()
        keys = keys_of([key_column(batch.column(name)) for name in self.by], len(time))
        counts = np.bincount(keys.codes, minlength=keys.count)
        # a key with a share of 1 / parts in all has at least this much of the chunks where it is not rare
        hot = counts >= max(1.0, len(time) / (8 * self.parts))
        width = max(1, len(time) // (RUNS * self.parts))
        chosen = [np.flatnonzero(keys.codes == code) for code in np.flatnonzero(hot)]
        pieces = [self._of_key(time[one], weight[one], width) for one in chosen]
        of = np.repeat(np.flatnonzero(hot), [len(piece[0]) for piece in pieces])
        columns = [*(column.take(pa.array(of)) for column in keys.columns)]
        kinds: tuple[Any, ...] = (time.dtype, time.dtype, np.int64, np.int64)
        columns += [
            pa.array(np.concatenate([piece[i] for piece in pieces] or [time[:0]]).astype(kind))
            for i, kind in enumerate(kinds)
        ]
        found = pa.RecordBatch.from_arrays([*columns, pa.array(np.ones(len(of), np.bool_))], schema=self.output())
        cold = ~hot[keys.codes]
        return pa.concat_batches([found, self._others(int(cold.sum()), int(weight[cold].sum()))])

    def _of_key(self, time: NDArray[Any], weight: NDArray[np.int64], width: int) -> tuple[NDArray[Any], ...]:
        """The runs of one key: some rows each, and cut at the longest gaps where sessions may end."""
        order = np.argsort(time, kind="stable")
        time, weight = time[order], weight[order]
        starts = np.arange(0, len(time), width)
        if self.gap is not None:
            gaps = np.diff(time)
            wide = np.flatnonzero(gaps >= self.gap)
            longest = wide[np.argsort(gaps[wide], kind="stable")[-RUNS * self.parts :]]
            starts = np.union1d(starts, longest + 1)
        ends = np.append(starts[1:], len(time))
        return time[starts], time[ends - 1], ends - starts, np.add.reduceat(weight, starts)

    def _others(self, rows: int, weight: int) -> pa.RecordBatch:
        nothing = [pa.nulls(1, field.type) for field in self.output()][:-3]
        told = [pa.array([rows]), pa.array([weight]), pa.array([False])]
        return pa.RecordBatch.from_arrays([*nothing, *told], schema=self.output())


def buckets_of(runs: pa.Table, keys: int) -> tuple[list[pa.Array], list[Buckets], int]:
    """The distinct hot keys as columns, the buckets of each, and how many rows there are in all."""
    total = sum(runs.column(WEIGHT).to_pylist())
    hot = runs.filter(runs.column(HOT)).combine_chunks()
    found = keys_of([key_column(hot.column(i)) for i in range(keys)], hot.num_rows)
    numbers = [hot.column(name).to_numpy() for name in (LOW, HIGH, ROWS, WEIGHT)]
    chosen = [found.codes == code for code in range(found.count)] if hot.num_rows else []
    return list(found.columns), [Buckets(*(column[one] for column in numbers)) for one in chosen], total
