"""PartitionTask: runs a query on the rows of one partition in a Spark worker.

    Spark's batches ──▶ rechunk to 64K rows ──▶ ChunkedExecutor or Operator ──▶ batches of Spark's types

cloudpickle sends it to the workers together with the query; monoids that are defined in a notebook are sent by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sash.columns.failed_rows import warn_failed
from sash.engine import Operator
from sash.engine.sorted_batches import ChunkedExecutor, over_sorted
from sash.plan.query import Query
from sash.spark.spark_types import casts, wire_schema
from sash.spark.worker_io import WorkerTask, rechunk

ROWS = 65536
"""Rows in a call of the operator, to amortise its fixed cost: with Spark's 10,000 a row takes two to three times as
long."""


def drop_failed(executor: ChunkedExecutor | Operator) -> None:
    """Drop the rows that have failed, of an executor that keeps them."""
    if isinstance(executor, Operator):
        executor.failed_rows()


def warn_of(executor: ChunkedExecutor | Operator) -> None:
    """Warn, in the log of the worker, of rows and results that have failed."""
    if isinstance(executor, Operator):
        now = executor.progress
        warn_failed(now.failed, now.failed_results, now.last_failure)


class PartitionTask(WorkerTask):
    """Runs a query on the batches of a partition. `now` is the clock, the same for all workers."""

    def __init__(self, query: Query, schema: pa.Schema, now: float) -> None:
        self.query, self.schema, self.now, self.rows = query, schema, now, ROWS

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = None
        for batch in rechunk(batches, self.schema, self.rows):
            if operator is None:  # many partitions may be empty, and creating an operator takes time
                operator = self._operator()
            yield self._own_results(operator.process(batch))
            drop_failed(operator)
        if operator is not None:
            yield self._own_results(operator.finish())
            warn_of(operator)

    def _operator(self) -> ChunkedExecutor | Operator:
        # one thread: Spark runs as many workers as there are cores
        return over_sorted(self.query, self.schema, clock=lambda: self.now, threads=1)

    def _own_results(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """The results of this task, in types that Spark reads."""
        return casts(results, wire_schema(results.schema))
