"""Keys of results: as JSON text for a page, and the rows of a key."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash.pipeline.json_values import encode_json


def key_texts(batches: list[pa.RecordBatch], by: Sequence[str], most: int) -> dict[str, tuple[pa.Scalar, ...]]:
    """The keys of some results, the newest first: a JSON array of the values of `by`, and the values themselves."""
    columns = [pa.chunked_array([_plain(batch.column(name)) for batch in batches]) for name in by]
    places = pa.array(range(len(columns[0])), pa.int64())
    table = pa.table([*columns, places], names=[*map(str, range(len(by))), "at"])
    keys = table.group_by(table.column_names[:-1]).aggregate([("at", "max")]).sort_by([("at_max", "descending")])
    keys = keys.slice(0, most).select(table.column_names[:-1]).combine_chunks()
    found: dict[str, tuple[pa.Scalar, ...]] = {}
    for batch in keys.to_batches():
        for i, row in enumerate(encode_json(batch)):
            scalars = tuple(column[i] for column in batch.columns)
            values = [_named(*one) for one in zip(json.loads(row).values(), scalars, strict=True)]
            found[json.dumps(values, ensure_ascii=False)] = scalars
    return found


def _named(value: Any, scalar: pa.Scalar) -> Any:
    """A JSON value; NaN and infinities, which are null in JSON, by name."""
    is_float = value is None and scalar.is_valid and pa.types.is_floating(scalar.type)
    return str(scalar.as_py()) if is_float else value


def key_of(text: str, by: Sequence[str], schema: pa.Schema) -> tuple[pa.Scalar, ...]:
    """Parse a key. Raises ValueError if its values do not fit the columns of `by`."""
    try:
        values = json.loads(text)
    except (RecursionError, ValueError):
        values = None
    if not isinstance(values, list) or len(values) != len(by):
        wanted = json.dumps([f"a {name}" for name in by])
        raise ValueError(f"key= takes a JSON array with a value for each of by, such as {wanted}; got {text[:100]!r}")
    return tuple(_value(value, name, schema) for value, name in zip(values, by, strict=True))


def _value(value: Any, name: str, schema: pa.Schema) -> pa.Scalar:
    dtype = schema.field(name).type
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    try:
        return pa.scalar(value, dtype)
    except (pa.ArrowException, TypeError, ValueError):
        try:
            return pa.scalar(str(value)).cast(dtype)
        except (pa.ArrowException, TypeError, ValueError):
            raise ValueError(f"{value!r} is not a value of the key column {name!r} of type {dtype}") from None


def rows_of(batch: pa.RecordBatch, by: Sequence[str], values: Sequence[pa.Scalar]) -> pa.RecordBatch:
    """The rows of a key."""
    chosen = None
    for name, value in zip(by, values, strict=True):
        column = _plain(batch.column(name))
        if not value.is_valid:
            fits = pc.is_null(column)
        elif pa.types.is_floating(column.type) and math.isnan(value.as_py()):
            fits = pc.is_nan(column)
        else:
            fits = pc.equal(column, value)
        chosen = fits if chosen is None else pc.and_(chosen, fits)
    return batch if chosen is None else batch.filter(chosen)


def _plain(column: Any) -> Any:
    """A column with its values, without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
