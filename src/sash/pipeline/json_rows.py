"""Decode JSON objects to rows of a schema.

With Python's parser, because Arrow's aborts the process at a top-level null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Self

import numpy as np
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
    written = _Written if any(map(pa.types.is_decimal, schema.types)) else None
    objects: list[dict[str, Any]] = []
    places: list[int] = []
    bad: list[tuple[int, str]] = []
    for number, record in enumerate(records):
        try:
            found = json.loads(record, parse_float=written)
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
        if pa.types.is_dictionary(field.type):
            return _column(values, field.with_type(field.type.value_type)).dictionary_encode().cast(field.type)
        if _is_text(field.type):
            return from_text(pa.array([_text(value) for value in values], pa.string()), field.type)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            return pa.array(_numbers(values, field.type), field.type)
        return column_of(field.name, values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error)
        if not reason.startswith("field "):
            reason = f"field {field.name!r}: {reason}"
        if len(values) == 1 and str(values[0]) not in reason:
            reason += f"; the value is {values[0]!r}"
        raise ValueError(reason) from None


def _numbers(values: list[Any], dtype: pa.DataType) -> list[Any]:
    """The same values, checked: Arrow would truncate fractions. Raises ValueError."""
    kinds = set(map(type, values))
    if bool in kinds:
        raise ValueError("a JSON boolean is not a number")
    if pa.types.is_floating(dtype):
        values = (
            [whole_float(value, dtype) if type(value) is int else value for value in values] if int in kinds else values
        )
        if dtype.bit_width < 64:
            _require_finite(values, dtype)
        return values
    for value in values:
        if isinstance(value, float):
            if not value.is_integer():
                raise ValueError(f"{value} is not an integer")
            if abs(value) >= 2**53 and len(Decimal(repr(float(value))).normalize().as_tuple().digits) > 15:
                raise ValueError(
                    f"{value} is a float beyond 2**53, which may have lost digits: write it without a point"
                )
    return values


def _require_finite(values: list[Any], dtype: pa.DataType) -> None:
    """Raises ValueError for a finite number beyond the range of a narrow type."""
    most = float(np.finfo(dtype.to_pandas_dtype()).max)
    for value in values:
        if isinstance(value, float) and abs(value) > most and not math.isinf(value):
            raise ValueError(f"{value} is beyond the range of the type {dtype}")


class _Written(float):
    """A float with the text that it was read from: a decimal may have more digits."""

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(dtype) or pa.types.is_decimal(dtype))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, _Written):
        return value.text
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise ValueError(f"a JSON {_kind(value)} is neither a text nor a number")


def _kind(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
