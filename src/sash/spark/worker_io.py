"""Input, output and errors of tasks in Spark's workers.

Tasks: batches of a useful size, and readable errors.

Blobs: record batches as bytes in Arrow's stream format, which cross a shuffle.

Groups of rows: by their destination in the shuffle, in slices of the size of a blob.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, stable_order
from sash.kernels.loops.array_types import Ints
from sash.spark.spark_types import casts

# --- Tasks ---

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


# --- Blobs ---

BLOB_BYTES = 1 << 17
"""Approximate bytes of a blob: much less than a region of the JVM's heap, since larger objects need regions of their
own. Spark limits the blobs that it sends to Python together by their number, not by their bytes."""

BLOB_ROWS = 16
"""The number of rows of a blob in a shuffle: all but the first are empty."""


def blob_slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slice a batch into pieces of about the size of a blob.

    >>> import pyarrow as pa
    >>> [rows.num_rows for rows in blob_slices(pa.record_batch({"x": range(40_000)}))]
    [16384, 16384, 7232]
    """
    rows = max(1, BLOB_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def blob_of(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as bytes.

    >>> import pyarrow as pa
    >>> [batch.to_pydict() for batch in batches_of(blob_of(pa.record_batch({"x": [1, None]})))]
    [{'x': [1, None]}]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def blob_column(blobs: Sequence[pa.Buffer | None]) -> pa.Array:
    """Blobs as a binary column, copied once, into memory that Arrow reuses.

    With bytes objects it takes four times as long: each is new memory, which the system has to provide and clear.

    >>> import pyarrow as pa
    >>> blob_column([pa.py_buffer(b"ab"), None, pa.py_buffer(b"c")]).to_pylist()
    [b'ab', None, b'c']
    """
    sizes = [0 if blob is None else blob.size for blob in blobs]
    offsets = struct.pack(f"={len(blobs) + 1}i", *accumulate(sizes, initial=0))
    data = pa.allocate_buffer(sum(sizes))
    with pa.FixedSizeBufferWriter(data) as writer:
        for blob in blobs:
            if blob is not None:
                writer.write(blob)
    valid = pa.array([blob is not None for blob in blobs]).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(blobs), [valid, pa.py_buffer(offsets), data])


def blob_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch of this schema, whose binary columns contain blobs."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [
        blob_column(values) if field.type == pa.binary() else pa.array(values, field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def blob_array(batch: pa.RecordBatch) -> pa.Array:
    """A batch as the first value of a binary column, without a copy of its bytes; the other values are empty.

    Spark sends a fixed number of rows to Python together, whatever their size: empty rows between blobs limit the
    bytes.
    """
    blob = blob_of(batch)
    offsets = struct.pack(f"={BLOB_ROWS + 1}i", 0, *[blob.size] * BLOB_ROWS)
    return pa.Array.from_buffers(pa.binary(), BLOB_ROWS, [None, pa.py_buffer(offsets), blob])


def batches_of(blob: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The batches of a blob, without a copy of its bytes."""
    with pa.ipc.open_stream(blob) as reader:
        yield from reader


# --- Groups of rows ---


def grouped(batch: pa.RecordBatch, numbers: Ints, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number below `count`, in the order in which they came.

    >>> batch = pa.record_batch({"x": [1, 2, 3]})
    >>> [(number, rows.to_pydict()) for number, rows in grouped(batch, np.array([2, 0, 2]), 3)]
    [(0, {'x': [2]}), (2, {'x': [1, 3]})]
    """
    if (numbers[1:] < numbers[:-1]).any():
        order = stable_order(numbers, count)
        batch, numbers = batch.take(array(order)), numbers[order]
    edges = np.searchsorted(numbers, np.arange(count + 1)).tolist()
    for number in range(count):
        for rows in blob_slices(batch.slice(edges[number], edges[number + 1] - edges[number])):
            yield number, rows


@dataclass
class UnpackShards:
    """Unpacks results and, if there is one, the side output."""

    schema: pa.Schema
    results: int
    """The number of columns of results; the reason, the message and the row of the side output follow them."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("results"):
                if blob.is_valid:
                    yield from map(self._result, batches_of(blob.as_buffer()))
            for blob in batch.column("side"):
                if blob.is_valid:
                    yield from map(self._side_output, batches_of(blob.as_buffer()))

    def _result(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        nulls = [pa.nulls(batch.num_rows, field.type) for field in list(self.schema)[self.results :]]
        return pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=self.schema)

    def _side_output(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        width = batch.num_columns - (len(self.schema) - self.results - 1)
        given = pa.StructArray.from_arrays(batch.columns[:width], fields=list(batch.schema)[:width])
        nulls = [pa.nulls(batch.num_rows, field.type) for field in list(self.schema)[: self.results]]
        columns = [*nulls, *batch.columns[width:], given]
        return casts(pa.RecordBatch.from_arrays(columns, names=self.schema.names), self.schema)
