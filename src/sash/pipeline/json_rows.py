"""Decode JSON objects to rows of a schema.

With Python's parser, because Arrow's aborts the process at a top-level null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sash.engine.arrow_arrays import together
from sash.engine.exact_columns import column_of
from sash.pipeline.file_format import from_text, require_text_types, whole_float
from sash.pipeline.source import decode_valid


def decode_json(records: Sequence[bytes], schema: pa.Schema) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """Decode JSON objects. Returns the rows, and the numbers of the records that could not be decoded, with reasons.

    A missing field is null, and a field that the schema does not name is ignored. Times, dates and decimals are
    strings.

    >>> rows, bad = decode_json([b'{"n": 1}', b'{"n": "x"}', b'[', b'{"m": 2}'], pa.schema([("n", pa.int64())]))
    >>> rows["n"].to_pylist(), [number for number, _ in bad]
    ([1, None], [1, 2])
    """
    objects: list[dict[str, Any]] = []
    places: list[int] = []
    bad: list[tuple[int, str]] = []
    for number, record in enumerate(records):
        try:
            found = json.loads(record)
        except (ValueError, RecursionError) as error:
            bad.append((number, f"it is not JSON: {error}"))
            continue
        if isinstance(found, dict):
            objects.append(found)
            places.append(number)
        else:
            bad.append((number, f"it is a JSON {_kind(found)}, not an object"))

    def decode(start: int, stop: int) -> pa.RecordBatch:
        columns = [_column([row.get(field.name) for row in objects[start:stop]], field) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    good, malformed = decode_valid(len(objects), decode)
    bad += [(places[place], reason) for place, reason in malformed]
    return together(good, schema), sorted(bad)


def require_json_types(schema: pa.Schema, what: str, instead: str) -> None:
    """Raises TypeError, naming the column, for a type that no JSON value can be converted to."""
    require_text_types(pa.schema([field for field in schema if not pa.types.is_nested(field.type)]), what, instead)


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    """Values as a column. Raises ValueError, naming the column, for a value of another type."""
    try:
        if _is_text(field.type):
            return from_text(pa.array([_text(value) for value in values], pa.string()), field.type)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            return pa.array(_numbers(values, field.type), field.type)
        return column_of(field.name, values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"field {field.name!r}: {error}") from None


def _numbers(values: list[Any], dtype: pa.DataType) -> list[Any]:
    """The same values, checked: Arrow would truncate fractions. Raises ValueError."""
    kinds = set(map(type, values))
    if bool in kinds:
        raise ValueError("a JSON boolean is not a number")
    if pa.types.is_floating(dtype):
        return [whole_float(value) if type(value) is int else value for value in values] if int in kinds else values
    if float in kinds:
        for value in values:
            if type(value) is float and not value.is_integer():
                raise ValueError(f"{value} is not an integer")
    return values


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(dtype) or pa.types.is_decimal(dtype) or pa.types.is_dictionary(dtype))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise ValueError(f"a JSON {_kind(value)} is neither a text nor a number")


def _kind(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
