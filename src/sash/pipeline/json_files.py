"""JSON lines files, an object in each line: decoded to rows of a schema, and rows encoded as JSON objects.

With Python's parser, because Arrow's aborts the process at a top-level null.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Collection, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.arrow_arrays import together
from sash.columns.exact_columns import column_of
from sash.pipeline.file_format import (
    COMPRESSIONS,
    FileRows,
    from_text,
    naming,
    opened,
    require_text_types,
    share_of,
    text_format,
    whole_float,
)
from sash.pipeline.source import MalformedRecord, decode_valid

# --- Json rows ---


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
        if pa.types.is_temporal(field.type) or pa.types.is_decimal(field.type):
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


# --- Json files ---

SAMPLE = 1000
"""The number of lines from which types are inferred."""

_ENDINGS = (".jsonl", ".ndjson", ".json")


class JsonFiles:
    """Text files with a JSON object in each line; empty lines are skipped."""

    name = "json"
    suffixes: tuple[str, ...] = (*_ENDINGS, *(f"{ending}{more}" for ending in _ENDINGS for more in COMPRESSIONS))

    def schema(self, path: Path, known: Collection[str] = ()) -> pa.Schema:
        """The fields in the first thousand lines of a file, with types inferred from their values."""
        with naming(path), opened(path) as raw, _lines(raw) as file:
            objects = [_object(line) for line in islice(file, SAMPLE)]
        names = dict.fromkeys(name for found in objects for name in found)
        try:
            columns = {
                name: pa.array([None if name in known else found.get(name) for found in objects]) for name in names
            }
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(
                f"the columns of the file {path} cannot be inferred: {error}. Pass schema= ([source.schema] in a job)"
            ) from error
        if not columns and not known:
            what = "" if path.name.endswith(COMPRESSIONS) else text_format(path)
            more = f"It seems to be {what}" if what else "Pass schema= ([source.schema] in a job)"
            raise ValueError(f"the file {path} has no JSON object in its first {SAMPLE} lines. {more}")
        types = {name: pa.string() if pa.types.is_null(made.type) else made.type for name, made in columns.items()}
        return pa.schema(list(types.items()))

    def columns(self, _path: Path) -> None:
        """None: each line has its own fields."""

    def read(self, path: Path, schema: pa.Schema, done: int, rows: int) -> Iterator[FileRows]:
        """The rows of a file. A line that is not an object, or has a value of another type, is malformed."""
        require_json_types(schema, "a JSON file", "Parquet")
        with naming(path), opened(path) as raw, _lines(raw) as file:
            for _ in islice(file, done):
                pass
            while lines := list(islice(file, rows)):
                numbers = [number for number, line in enumerate(lines) if line.strip()]
                batch, bad = decode_json([lines[number] for number in numbers], schema)
                malformed = tuple(
                    MalformedRecord(lines[numbers[at]], reason, f"{path.name}, line {done + numbers[at] + 1}")
                    for at, reason in bad
                )
                done += len(lines)
                yield FileRows(batch, done, malformed, share_of(raw, path))


def _lines(file: pa.NativeFile) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, file))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# --- Json values ---


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
