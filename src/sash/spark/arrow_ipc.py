"""Blobs: record batches as bytes on their way through a shuffle, in Arrow's stream format."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

BYTES = 1 << 17
"""Bytes of a blob, about. Small beside a region of the JVM's heap, which keeps what is not in regions of its own; and
as many blobs as Spark may send to Python at once, where their bytes are not limited, are not too much."""


ROWS = 16
"""Rows that a blob takes in a shuffle: all but the first are empty."""


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices, each for a blob.

    >>> import pyarrow as pa
    >>> [part.num_rows for part in cut(pa.record_batch({"x": range(40_000)}))]
    [16384, 16384, 7232]
    """
    rows = max(1, BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def blob_of(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes.

    >>> import pyarrow as pa
    >>> [batch.to_pydict() for batch in batches_of(blob_of(pa.record_batch({"x": [1, None]})))]
    [{'x': [1, None]}]
    """
    return _written(batch).to_pybytes()  # type: ignore[no-any-return]


def blob_array(batch: pa.RecordBatch) -> pa.Array:
    """A batch as the first of some values of a binary column, without a copy of its bytes; the others are empty.

    Spark sends so many rows to Python at once, whatever bytes are in them: with empty ones between blobs these are few.
    """
    blob = _written(batch)
    offsets = struct.pack(f"={ROWS + 1}i", 0, *[blob.size] * ROWS)
    return pa.Array.from_buffers(pa.binary(), ROWS, [None, pa.py_buffer(offsets), blob])


def _written(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def batches_of(blob: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The batches in a blob, where they lie in its bytes."""
    with pa.ipc.open_stream(blob) as reader:
        yield from reader
