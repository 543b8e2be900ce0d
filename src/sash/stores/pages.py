"""A page: Arrow record batches and some metadata, in an envelope; batches are read from untrusted bytes.

    envelope of a kind ─┬─ meta       a dict, as JSON
                        ├─ batch 1    as Arrow's IPC writes it, without its schema
                        └─ batch 2    …

The schemas are not in the page: the fingerprint identifies them. That saves 8 µs of a write and 5 µs of a read; 512
rows of 4 columns take some 17 µs each way, 5 of them for the checksum. Batches are read in place from the bytes of the
page, and keep those alive.

Arrow trusts the metadata of a batch, so the metadata is checked first. Compressed buffers are refused: sash writes
none, and a few bytes of them may expand to gigabytes. So are buffers that are not aligned to 8 bytes, because compiled
loops read them as words. Then the values are validated: offsets of text and lists do not decrease and stay within the
data, text is UTF-8, and there are as many nulls as the metadata says. 512 rows of four columns, one of them text, take
14 µs.

The metadata is a flatbuffer, which Arrow verifies when it reads the message:

    Message      ─▶ version, type, header ─▶ RecordBatch      ─▶ length, nodes, buffers, compression
                                             DictionaryBatch  ─▶ id, data ─▶ RecordBatch
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

import pyarrow as pa

from sash.stores.envelope import Check, PageError, check_meta, decoding, read_json, unwrap, wrap

# --- Batches ---

_OFFSET, _SIGNED, _SLOT = Struct("<I"), Struct("<i"), Struct("<H")
_HEADER, _BUFFERS, _COMPRESSION = 2, 2, 3
_DATA = 1
_BATCH_PATHS = {"record batch": (), "dictionary": (_DATA,)}
"""For each type of message that has buffers, the fields from its header to the RecordBatch."""

_WORD = 8
_ALIGNED = bytes(range(0, 256, _WORD))


def read_batch(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Read a batch of this schema and validate it. Its columns are not copied.

    Raises ValueError, EOFError, OSError or an error of Arrow if the bytes are not such a batch.
    """
    message = pa.ipc.read_message(pa.py_buffer(data))
    if message.type != "record batch":
        raise ValueError(f"it has a {message.type} where a record batch belongs")
    _check_metadata(message)
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if batch.num_rows > 8 * len(data):  # columns of nulls take no bytes at all
        raise ValueError(f"a batch of {len(data)} bytes claims {batch.num_rows} rows")
    return batch


def read_stream(data: bytes | memoryview, schema: pa.Schema) -> tuple[pa.RecordBatch, ...]:
    """Read the batches of an Arrow IPC stream of this schema and validate them.

    Raises ValueError, EOFError, OSError or an error of Arrow if the bytes are not such a stream.
    """
    for message in _messages(data):
        if message.type in _BATCH_PATHS:
            _check_metadata(message)
    with pa.ipc.open_stream(data) as reader:
        if not reader.schema.equals(schema):
            raise ValueError(f"it has columns {reader.schema.names}; expected {schema.names}")
        batches = tuple(reader)
    for batch in batches:
        batch.validate(full=True)
    return batches


def _messages(data: bytes | memoryview) -> Iterator[Any]:
    reader = pa.ipc.MessageReader.open_stream(data)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _check_metadata(message: Any) -> None:
    """Raises ValueError for buffers that are compressed or not aligned to words."""
    data = memoryview(message.metadata)
    table = _OFFSET.unpack_from(data)[0]
    for number in (_HEADER, *_BATCH_PATHS[message.type]):
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
    low_bytes = data[at + 4 : at + 4 + 16 * _OFFSET.unpack_from(data, at)[0] : 16].tobytes()  # of the buffers' offsets
    if message.body.address % _WORD or low_bytes.strip(_ALIGNED):
        raise ValueError("its buffers are not aligned")


def _field(data: memoryview, table: int, number: int) -> int:
    """The offset of a table's field; 0 if it is missing."""
    slots = table - _SIGNED.unpack_from(data, table)[0]
    slot = 4 + 2 * number
    if slot >= _SLOT.unpack_from(data, slots)[0]:
        return 0
    offset: int = _SLOT.unpack_from(data, slots + slot)[0]
    return table + offset if offset else 0


# --- Page ---

_encode = json.JSONEncoder(separators=(",", ":")).encode
_checked_rows: dict[tuple[str, int], pa.Schema] = {}
"""For each kind of page and position of a batch, the last schema that passed `_check`: an equal one needs no check
(0.1 µs instead of 3)."""

Schemas = Sequence[pa.Schema] | Callable[[Mapping[str, Any]], Sequence[pa.Schema]]
"""The schemas of a page's batches, or a function that gives them for its meta."""

_NO_FIELDS: Mapping[str, Check] = {}
_DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id


def pack(kind: str, fingerprint: str, meta: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> bytes:
    """Encode a page of this kind. `meta` must be JSON: keys are strings, and a tuple is decoded as a list.

    >>> batch = pa.record_batch({"x": [1, 2, None]})
    >>> data = pack("run", "0f" * 16, {"rows": 3}, [batch])
    >>> meta, (again,) = unpack(data, "run", "0f" * 16, [batch.schema], "page 'k/7'")
    >>> meta, again.equals(batch)
    ({'rows': 3}, True)

    Raises TypeError if `meta` is not JSON, or if a column is dictionary-encoded, because a batch does not contain the
    values of a dictionary; ValueError for a fingerprint that does not have 32 hexadecimal digits.
    """
    try:
        items: list[Any] = [_encode(meta).encode()]
    except TypeError as error:
        raise TypeError(f"the meta of a {kind} page must be JSON: {error}") from None
    for position, batch in enumerate(batches):
        schema = batch.schema
        known = _checked_rows.get((kind, position))
        if known is None or not schema.equals(known):
            _check(kind, schema)
            _checked_rows[kind, position] = schema
        items.append(memoryview(batch.serialize()))
    return wrap(kind, fingerprint, items)


def unpack(
    data: bytes,
    kind: str,
    fingerprint: str,
    schemas: Schemas,
    name: str,
    fields: Mapping[str, Check] = _NO_FIELDS,
) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Decode a page of this kind and query, and return its meta and its batches, which must have these schemas.

    `name` names it in messages: "page 'k/7'"; `fields` are those that the meta must have. The batches are valid:
    nothing in them points beyond their bytes. Callers check the values. Raises PageError as `envelope.unwrap` does.
    """
    items = unwrap(data, kind, fingerprint, name)
    with decoding(name):
        meta: Any = read_json(items[0]) if items else None
        check_meta(meta, fields, name)
        expected = schemas(meta) if callable(schemas) else schemas
        if len(items) != len(expected) + 1:
            raise PageError(f"{name} has {len(items) - 1} batches; a {kind} page of this query has {len(expected)}")
        batches = [read_batch(item, schema) for item, schema in zip(items[1:], expected, strict=True)]
    return meta, batches


def _check(kind: str, schema: pa.Schema) -> None:
    for position, dtype in enumerate(schema.types):
        if dtype.id == _DICTIONARY or (dtype.num_fields and _encoded(dtype)):
            raise TypeError(
                f"column {schema.names[position]!r} of a {kind} page is dictionary-encoded, {dtype}; "
                "decode it first: column.dictionary_decode()"
            )


def _encoded(dtype: pa.DataType) -> bool:
    """Is a dictionary anywhere in this type?"""
    if dtype.id == _DICTIONARY:
        return True
    return any(_encoded(dtype.field(i).type) for i in range(dtype.num_fields))
