"""Encode rows as JSON objects."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def encode_json(batch: pa.RecordBatch) -> list[bytes]:
    """Each row as a JSON object.

    Times are ISO 8601 strings, decimals are strings, bytes are base64. NaN and infinities, which JSON lacks, are null.

    >>> encode_json(pa.record_batch({"k": ["a"], "x": [float("nan")], "n": [2]}))
    [b'{"k":"a","x":null,"n":2}']
    """
    columns = [_values(column) for column in batch.columns]
    names = batch.schema.names
    encode = json.JSONEncoder(separators=(",", ":"), default=_plain, ensure_ascii=False).encode
    return [encode(dict(zip(names, values, strict=True))).encode() for values in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    dtype = column.type
    if pa.types.is_timestamp(dtype):
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1).to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(dtype):
        return [value if value is None or math.isfinite(value) else None for value in values]
    return [_finite(value) for value in values] if pa.types.is_nested(dtype) else values


def _finite(value: Any) -> Any:
    """The value with null for NaN and infinities, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return {name: _finite(one) for name, one in value.items()} if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """Convert a value of a type that JSON does not have."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
