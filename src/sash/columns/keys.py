"""Keys: the values of the `by` columns as codes from 0, and as hashes that determine a key's bucket.

    by columns        codes       distinct keys          hashes
    A  1              0           A 1                    3f…  ──▶ a bucket
    B  1        ──▶   1     ──▶   B 1              ──▶   a2…
    A  1              0           null 2                 07…
    null 2            2

Nulls are a key of their own, all NaN are one key, and -0.0 is 0.0. Codes are valid within one call. Hashes depend on
the values alone, are the same in every process, and have a version that is stored with the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array, validity, words_of
from sash.kernels.loops.array_types import Flags, Ints
from sash.plan.categories import categories_of, encode_categories
from sash.plan.types import is_text, value_type

# --- Bytes of values ---


def is_binary(kind: pa.DataType) -> bool:
    """Is it a type of bytes?"""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def dumped(column: pa.Array) -> pa.Array:
    """Values as bytes by our codec: equal where the values are."""
    from sash.stores.codec import dumps

    values = column.to_pylist()
    if "interval" in str(column.type):  # which the codec does not have
        values = [*map(_without_intervals, values)]
    return pa.array([None if value is None else dumps(value) for value in values], pa.large_binary())


def _without_intervals(value: Any) -> Any:
    """A value with tuples in the place of intervals."""
    if isinstance(value, pa.MonthDayNano):
        return tuple(value)
    if isinstance(value, list):
        return [*map(_without_intervals, value)]
    if isinstance(value, dict):
        return {name: _without_intervals(part) for name, part in value.items()}
    return tuple(map(_without_intervals, value)) if isinstance(value, tuple) else value


def value_bytes(column: pa.Array) -> tuple[Ints, NDArray[np.uint8]]:
    """The bytes of each text or binary value: offsets, and all bytes in one."""
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_string() if is_text(column.type) else pa.large_binary())
    _, bounds, data = column.buffers()
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    storage = np.dtype(np.int64 if large else np.int32)
    if bounds is None or not bounds.size:
        offsets: Ints = np.zeros(len(column) + 1, np.int64)
    else:
        found: Any = np.frombuffer(bounds, storage, len(column) + 1, storage.itemsize * column.offset)
        offsets = found.astype(np.int64, copy=False)
    return offsets, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)


# --- Key values ---

HASH_VERSION = 1

_NULL = np.uint64(0x9E3779B97F4A7C15)
_LARGEST = 2**62


@dataclass(frozen=True)
class Keys:
    """The keys of some rows: a code for each row, and the distinct keys by code."""

    codes: Ints
    columns: tuple[pa.Array, ...]
    count: int

    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each distinct key."""
        return hashes_of(self.columns, self.count)


def hashes_of(columns: Sequence[pa.Array], rows: int) -> NDArray[np.uint64]:
    """The hash of the key of each row."""
    found = np.zeros(rows, np.uint64)
    for column in columns:
        found = _mix(found * np.uint64(31) + _hash(column))
    return found


def keys_of(columns: Sequence[pa.Array], rows: int) -> Keys:
    """The keys of rows.

    >>> import pyarrow as pa
    >>> found = keys_of([pa.array(["a", "b", "a", None])], 4)
    >>> found.codes.tolist(), found.columns[0].to_pylist()
    ([0, 1, 0, 2], ['a', 'b', None])
    """
    if not columns:
        return Keys(np.zeros(rows, np.int64), (), 1)
    codes, count = _codes(columns[0])
    for column in columns[1:]:
        more, others = _codes(column)
        if count * others > _LARGEST:
            raise OverflowError(f"the by columns have {count} × {others} distinct values: too many to combine")
        codes, count = _dense(codes * others + more)
    firsts = np.zeros(count, np.int64)
    firsts[codes[::-1]] = np.arange(rows - 1, -1, -1)
    taken = array(firsts)
    return Keys(codes, tuple(column.take(taken) for column in columns), count)


_PLAIN = frozenset(
    kind.id
    for kind in (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.timestamp("us"))
)
"""The most usual types of plain values; there are others."""


def decode(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array of plain values, without dictionaries, run ends and views."""
    if column.type.id in _PLAIN and isinstance(column, pa.Array):
        return column
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 0:
            return pa.array([], value_type(column.type))
        # chunk by chunk: they may have different dictionaries
        chunks = [decode(chunk) for chunk in column.chunks]
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    elif pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    kind = value_type(column.type)
    return column if column.type == kind else column.cast(kind)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of plain values."""
    return pa.schema([pa.field(field.name, value_type(field.type)) for field in schema])


def encode_as(column: pa.Array, kind: pa.DataType, categories: pa.Array | None) -> pa.Array:
    """Plain values as a column of their original type; `categories`: those of an ordered dictionary."""
    if column.type == kind:
        return column
    if categories is not None and pa.types.is_dictionary(kind):
        return encode_categories(column, kind, categories)
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(column.cast(kind.value_type), kind.run_end_type)
    return column.cast(kind)


def format_row(table: pa.RecordBatch, at: int) -> str:
    """A row, for a message."""
    return "row {" + ", ".join(f"{name!r}: {format_value(table.column(name)[at])}" for name in table.schema.names) + "}"


def format_key(names: Sequence[str], columns: Sequence[pa.Array]) -> str:
    """The key of the first row of its columns, for a message; empty if keys have no columns."""
    values = key_text(names, columns)
    return f" of key {values}" if values else ""


def has_key(columns: Sequence[Any], values: Sequence[pa.Scalar]) -> Any:
    """By row: are the columns those of a key? A null equals a null, and a NaN a NaN; there is at least one column.

    >>> has_key([pa.array([1.0, None, float("nan")])], [pa.scalar(float("nan"))]).to_pylist()
    [False, False, True]
    """
    found = None
    for column, value in zip(columns, values, strict=True):
        if not value.is_valid:
            fits = pc.is_null(column)
        elif pa.types.is_floating(column.type) and np.isnan(value.as_py()):
            fits = pc.fill_null(pc.is_nan(column), False)
        else:
            fits = pc.fill_null(pc.equal(column, value), False)
        found = fits if found is None else pc.and_(found, fits)
    return found


def key_text(names: Sequence[str], columns: Sequence[pa.Array]) -> str:
    """The key of the first row of its columns as text, such as symbol='A', venue='X'."""
    return ", ".join(f"{name}={format_value(column[0])}" for name, column in zip(names, columns, strict=True))


def format_value(scalar: pa.Scalar) -> str:
    """A value, for a message."""
    try:
        return repr(scalar.as_py())
    except (ValueError, OverflowError):  # Python has no nanoseconds, and no years beyond 9999
        pass
    try:
        return repr(scalar.cast(pa.string()).as_py())
    except pa.ArrowException:
        return f"{scalar.value} as {scalar.type}"


def key_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Normalise a `by` column: 0.0 for -0.0, and one NaN for all."""
    array = decode(column)
    if pa.types.is_floating(array.type):
        numbers = array.to_numpy(zero_copy_only=False)
        tidy = np.where(numbers == 0, np.zeros(1, numbers.dtype), numbers)
        tidy[np.isnan(tidy)] = np.nan
        return pa.array(tidy, array.type, mask=array.is_null().to_numpy(zero_copy_only=False))
    return array


def _codes(column: pa.Array) -> tuple[Ints, int]:
    if pa.types.is_nested(column.type):
        column = dumped(column)
    elif pa.types.is_floating(column.type):
        bits = {16: np.int16, 32: np.int32, 64: np.int64}[column.type.bit_width]
        numbers = column.to_numpy(zero_copy_only=False).view(bits)
        column = array(numbers, column.is_valid().to_numpy(zero_copy_only=False))
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return _words(encoded.indices).astype(np.int64), len(encoded.dictionary)


def _dense(codes: Ints) -> tuple[Ints, int]:
    encoded = array(codes).dictionary_encode()
    return _words(encoded.indices).astype(np.int64), len(encoded.dictionary)


def _hash(column: pa.Array) -> NDArray[np.uint64]:
    valid = validity(column)
    kind = column.type
    if pa.types.is_boolean(kind):
        found = column.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    elif pa.types.is_primitive(kind) and kind.bit_width <= 64 and not pa.types.is_decimal(kind):
        found = _words(column)
    else:
        from sash.kernels.loops.key_loops import hash_texts

        found = hash_texts(*_bytes(column))
    found = _mix(found)
    if valid is not None:
        found[~valid] = _NULL
    return found


def _words(column: pa.Array) -> NDArray[np.uint64]:
    """Fixed-width values as 64-bit words."""
    return words_of(column, np.dtype(f"u{column.type.bit_width // 8}")).astype(np.uint64)


def _bytes(column: pa.Array) -> tuple[Ints, NDArray[np.uint8]]:
    """The bytes of each value: offsets and all bytes in one."""
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.large_binary())
    elif not is_text(kind) and not is_binary(kind):
        column = dumped(column)
    return value_bytes(column)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits: every bit of the result depends on all bits of the word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def ranks(column: Any) -> Ints:
    """The dense ranks of a column's values, nulls last."""
    values = decode(column)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    found: Ints = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return found


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch without dictionaries."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([decode(column) for column in batch.columns], schema=schema)


def chosen_rows(batch: pa.RecordBatch, schema: pa.Schema, bare: pa.Schema, chosen: Flags) -> pa.RecordBatch:
    """Some rows of a batch; `bare` is the schema without dictionaries and views."""
    rows = plain_batch(batch, bare).filter(pa.array(chosen))
    columns = [
        encode_as(column, field.type, categories_of(field)) for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
