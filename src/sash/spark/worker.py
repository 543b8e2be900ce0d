"""Worker: what runs in a worker of Spark's, for the rows of one partition.

    batches of Spark's ──▶ joined to some 64K rows ──▶ operator, mode "sorted" ──▶ batches of Spark's types

It travels there by cloudpickle, and with it the query: monoids of a notebook's go by value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from sash.operator import Operator
from sash.query.query import Query
from sash.spark.types import casts, wire

ROWS = 65536
"""Rows for one call of the operator: its fixed cost is spread over them."""


class Worker:
    """A query as a function of a partition's batches. `now` is what the clock says, to all workers alike."""

    def __init__(self, query: Query, schema: pa.Schema, now: float) -> None:
        self.query, self.schema, self.now, self.rows = query, schema, now, ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of a partition. What is raised reaches the user of Spark as its message alone."""
        try:
            yield from self._results(batches)
        except Exception:
            # read by Spark when it reports the error, after which the process ends: a message names the column, value
            # and key, and thirty lines of our code above it would hide it
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = Operator(self.query, self.schema, mode="sorted", clock=lambda: self.now)
        wired = pa.schema([field.with_type(wire(field.type)) for field in operator.output.schema])
        for batch in joined(batches, self.schema, self.rows):
            yield casts(operator.process(batch), wired)
        yield casts(operator.finish(), wired)


def joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of a schema, small ones joined until there are enough rows."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(casts(batch, schema))
        count += batch.num_rows
        if count >= rows:
            yield _one(waiting)
            waiting, count = [], 0
    if count:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
