"""A page: Arrow record batches and some metadata, in an envelope.

    envelope of a kind ─┬─ meta       a dict, as JSON
                        ├─ batch 1    as Arrow's IPC writes it, without its schema
                        └─ batch 2    …

The schemas are not in the page: the fingerprint identifies them. That saves 8 µs of a write and 5 µs of a read; 512
rows of 4 columns take some 17 µs each way, 5 of them for the checksum. Batches are read in place from the bytes of the
page, and keep those alive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sash.stores.batches import read_batch
from sash.stores.checks import Check, check_meta
from sash.stores.envelope import PageError, decoding, read_json, unwrap, wrap

_encode = json.JSONEncoder(separators=(",", ":")).encode
_checked: dict[tuple[str, int], pa.Schema] = {}
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
        known = _checked.get((kind, position))
        if known is None or not schema.equals(known):
            _check(kind, schema)
            _checked[kind, position] = schema
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
