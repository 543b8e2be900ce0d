"""Input and errors of tasks in Spark's workers: batches of a useful size, and readable errors."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from sash.spark.spark_types import casts

BYTES = 2**26
"""The size in bytes at which a batch is complete, however few rows it has."""

T = TypeVar("T")

_frozen: set[str] = set()
"""Modules whose objects the garbage collector skips."""


def freeze_modules() -> None:
    """Exclude the objects of imported modules from garbage collection, at the start of a task.

    Spark's workers collect garbage after every task: 60 ms of CPU with the engine and pandas imported, 0 after this.
    """
    if not sys.modules.keys() <= _frozen:
        _frozen.update(sys.modules)
        gc.freeze()


def rechunk(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of a schema, concatenated until there are enough rows or bytes."""
    waiting: list[pa.RecordBatch] = []
    count = nbytes = 0
    for batch in batches:
        waiting.append(casts(batch, schema))
        count, nbytes = count + batch.num_rows, nbytes + batch.nbytes
        if count >= rows or nbytes >= BYTES:
            yield _concatenated(waiting)
            waiting, count, nbytes = [], 0, 0
    if count:
        yield _concatenated(waiting)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class WorkerTask:
    """A task on the batches of a partition; if it raises, Spark shows the message alone."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return message_only(self._results(batches))

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def message_only(output: Iterator[T]) -> Iterator[T]:
    """Yield the output; if it raises, Spark shows the user the message without our traceback."""
    try:
        yield from output
    except Exception:
        # Spark reads this when it reports the error; then the process ends
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
