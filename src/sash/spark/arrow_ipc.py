"""Record batches as bytes in Arrow's stream format: the blobs that cross a shuffle."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

BYTES = 1 << 17
"""Approximate bytes of a blob: much less than a region of the JVM's heap, since larger objects need regions of their
own. Spark limits the blobs that it sends to Python together by their number, not by their bytes."""

ROWS = 16
"""The number of rows of a blob in a shuffle: all but the first are empty."""


def blob_slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slice a batch into pieces of about the size of a blob.

    >>> import pyarrow as pa
    >>> [rows.num_rows for rows in blob_slices(pa.record_batch({"x": range(40_000)}))]
    [16384, 16384, 7232]
    """
    rows = max(1, BYTES * batch.num_rows // max(batch.nbytes, 1))
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
    offsets = struct.pack(f"={ROWS + 1}i", 0, *[blob.size] * ROWS)
    return pa.Array.from_buffers(pa.binary(), ROWS, [None, pa.py_buffer(offsets), blob])


def batches_of(blob: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The batches of a blob, without a copy of its bytes."""
    with pa.ipc.open_stream(blob) as reader:
        yield from reader
