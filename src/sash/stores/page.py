"""A page: Arrow record batches and some metadata, in an envelope.

    envelope of a kind ─┬─ meta       a dict, as JSON
                        ├─ batch 1    as Arrow's IPC writes it, without its schema
                        └─ batch 2    …

The schemas are not in the page: the fingerprint identifies them. That saves 8 µs of the writing and 5 of the reading;
without them 512 rows of 4 columns take some 17 µs each way, 5 of these for the checksum. Batches are read in place from
the bytes of the page, and keep those alive.
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
"""The last schema of each batch of a kind without dictionaries: comparing takes 0.1 µs, checking it 3."""

Schemas = Sequence[pa.Schema] | Callable[[Mapping[str, Any]], Sequence[pa.Schema]]
"""The schemas of a page's batches, or a function that gives them for its meta."""

_NO_FIELDS: Mapping[str, Check] = {}
_DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id


def pack(kind: str, fingerprint: str, meta: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> bytes:
    """A page of this kind. `meta` holds what JSON holds: keys are strings, and a tuple comes back as a list.

    >>> batch = pa.record_batch({"x": [1, 2, None]})
    >>> data = pack("run", "0f" * 16, {"rows": 3}, [batch])
    >>> meta, (again,) = unpack(data, "run", "0f" * 16, [batch.schema], "page 'k/7'")
    >>> meta, again.equals(batch)
    ({'rows': 3}, True)

    Raises TypeError if `meta` holds something else, or a column is dictionary-encoded, whose values no batch
    contains; ValueError for a fingerprint that has not 32 hexadecimal digits.
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
    """The meta and the batches of a page, which must be of this kind and query and have batches of these schemas.

    `name` names it in messages: "page 'k/7'"; `fields` are those that the meta must have. The batches are valid:
    nothing in them points beyond their bytes. Readers check what their values mean. Raises PageError, see `envelope`.
    """
    items = unwrap(data, kind, fingerprint, name)
    if not callable(schemas) and len(items) != len(schemas) + 1:
        raise PageError(f"{name} has {len(items) - 1} batches; a {kind} page of this query has {len(schemas)}")
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
