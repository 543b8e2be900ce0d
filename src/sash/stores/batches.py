"""Read record batches from untrusted bytes: only valid ones are returned.

Arrow reads a batch as its head says. So the head is checked first: compressed buffers are refused, since we write
none and a few bytes of them may stand for gigabytes; so are buffers that do not lie at words, which compiled loops
read as words. Then the values themselves are validated: offsets of text and lists rise and stay within the data, text
is UTF-8, nulls are as many as the head says. 512 rows of four columns, one of them text, take 14 µs.

A head is a flatbuffer, which Arrow has verified when it gives us the message:

    Message      ─▶ version, type, header ─▶ RecordBatch      ─▶ length, nodes, buffers, compression
                                             DictionaryBatch  ─▶ id, data ─▶ RecordBatch
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

import pyarrow as pa

_OFFSET, _SIGNED, _SLOT = Struct("<I"), Struct("<i"), Struct("<H")
_HEADER, _BUFFERS, _COMPRESSION = 2, 2, 3
_DATA = 1
_KINDS = {"record batch": (), "dictionary": (_DATA,)}
_WORD = 8


def read_batch(item: Any, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of this schema, where it lies in the bytes of the item; its values are valid.

    Raises ValueError, EOFError, OSError or what Arrow raises, if it is none.
    """
    message = pa.ipc.read_message(pa.py_buffer(item))
    if message.type != "record batch":
        raise ValueError(f"it has a {message.type} where a record batch belongs")
    _check_head(message)
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if batch.num_rows > 8 * len(item):  # columns of nulls take no bytes at all
        raise ValueError(f"a batch of {len(item)} bytes claims {batch.num_rows} rows")
    return batch


def read_stream(data: Any, schema: pa.Schema) -> tuple[pa.RecordBatch, ...]:
    """The batches of a stream in Arrow's format, all of this schema; their values are valid.

    Raises ValueError, EOFError, OSError or what Arrow raises, if it is none.
    """
    for message in _messages(data):
        if message.type in _KINDS:
            _check_head(message)
    with pa.ipc.open_stream(data) as reader:
        if not reader.schema.equals(schema):
            raise ValueError(f"it has columns {reader.schema.names}; expected {schema.names}")
        batches = tuple(reader)
    for batch in batches:
        batch.validate(full=True)
    return batches


def _messages(data: Any) -> Iterator[Any]:
    reader = pa.ipc.MessageReader.open_stream(data)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _check_head(message: Any) -> None:
    """Raises ValueError for buffers that are compressed, or do not lie at words."""
    data = memoryview(message.metadata)
    table = _OFFSET.unpack_from(data)[0]
    for number in (_HEADER, *_KINDS[message.type]):
        at = _field(data, table, number)
        if not at:
            raise ValueError("it has a message without a header")
        table = at + _OFFSET.unpack_from(data, at)[0]
    if _field(data, table, _COMPRESSION):
        raise ValueError("its buffers are compressed, which sash never writes")
    at = _field(data, table, _BUFFERS)
    if not at:
        return
    at += _OFFSET.unpack_from(data, at)[0]
    lowest = data[at + 4 : at + 4 + 16 * _OFFSET.unpack_from(data, at)[0] : 16].tolist()  # bytes of their offsets
    if message.body.address % _WORD or any(byte % _WORD for byte in lowest):
        raise ValueError("its buffers are not aligned")


def _field(data: memoryview, table: int, number: int) -> int:
    """The offset of a table's field; 0 if it is missing."""
    slots = table - _SIGNED.unpack_from(data, table)[0]
    slot = 4 + 2 * number
    if slot >= _SLOT.unpack_from(data, slots)[0]:
        return 0
    offset: int = _SLOT.unpack_from(data, slots + slot)[0]
    return table + offset if offset else 0
