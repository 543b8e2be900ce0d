"""Worker: what runs in a worker of Spark's, for the rows of one partition.

    batches of Spark's ──▶ joined to some 64K rows ──▶ flow, or operator ──▶ batches of Spark's types

It travels there by cloudpickle, and with it the query: monoids of a notebook's go by value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from sash.engine import Operator
from sash.engine.chunked import ChunkedExecutor, over_sorted
from sash.plan.query import Query
from sash.spark.spark_types import casts, wire_schema

ROWS = 65536
"""Rows for one call of the operator: its fixed cost is spread over them. With 10,000 a row takes two to three times as
long, and Spark sends no more at a time."""

BYTES = 2**26
"""Bytes that are enough for a call, however few rows they are."""


class PartitionTask:
    """A query as a function of a partition's batches. `now` is what the clock says, to all workers alike."""

    def __init__(self, query: Query, schema: pa.Schema, now: float) -> None:
        self.query, self.schema, self.now, self.rows = query, schema, now, ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return clearly(self._results(batches))

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = None
        for batch in joined(batches, self.schema, self.rows):
            if operator is None:  # of two hundred partitions most may be empty, and an operator is not made for nothing
                operator = self._operator()
            yield self._own_results(operator.process(batch))
        if operator is not None:
            yield self._own_results(operator.finish())

    def _operator(self) -> ChunkedExecutor | Operator:
        # one thread: Spark runs as many workers as there are cores
        return over_sorted(self.query, self.schema, clock=lambda: self.now, threads=1)

    def _own_results(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """The results that leave this task, in types that Spark reads."""
        return casts(results, wire_schema(results.schema))


def clearly(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker gives. What it raises reaches the user of Spark as its message alone."""
    try:
        yield from found
    except Exception:
        # read by Spark when it reports the error, after which the process ends: a message names the column, value
        # and key, and thirty lines of our code above it would hide it
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of a schema, small ones joined until there are enough rows, or bytes."""
    waiting: list[pa.RecordBatch] = []
    count = nbytes = 0
    for batch in batches:
        waiting.append(casts(batch, schema))
        count, nbytes = count + batch.num_rows, nbytes + batch.nbytes
        if count >= rows or nbytes >= BYTES:
            yield _one(waiting)
            waiting, count, nbytes = [], 0, 0
    if count:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
