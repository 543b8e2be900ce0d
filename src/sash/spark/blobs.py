"""Blobs: record batches as bytes on their way through a shuffle, in Arrow's stream format."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def blob_of(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes.

    >>> import pyarrow as pa
    >>> [batch.to_pydict() for batch in batches_of(blob_of(pa.record_batch({"x": [1, None]})))]
    [{'x': [1, None]}]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def batches_of(blob: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The batches in a blob, where they lie in its bytes."""
    with pa.ipc.open_stream(blob) as reader:
        yield from reader
