"""Keys: the values of the `by` columns as codes from 0, and as hashes that determine a key's bucket.

    by columns        codes       distinct keys          hashes
    A  1              0           A 1                    3f…  ──▶ a bucket
    B  1        ──▶   1     ──▶   B 1              ──▶   a2…
    A  1              0           null 2                 07…
    null 2            2

Nulls are a key of their own, all NaN are one key, and -0.0 is 0.0. Codes are valid within one call. Hashes depend on
the values alone, are the same in every process, and have a version that is stored with the state.

Encode key columns as 64-bit words: fixed-width values directly, everything else by the code of its bytes.

    int, float, bool, date, time …    the bits of the value, and whether it is null
    text, binary, decimals, nested    a code from a dictionary of bytes; -1 for nulls

Equal values have equal words if they are normalised by `key_column` (one NaN, no -0.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array, bits_of, null_mask, validity, words_of
from sash.engine.atomic import all_at_once, attributes
from sash.kernels.loops import key_loops
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints
from sash.kernels.loops.key_loops import hash_texts
from sash.kernels.loops.loop_cache import call_loop, prepare_loop
from sash.plan.categories import categories_of, encode_categories
from sash.plan.types import value_type
from sash.stores.codec import dumps, loads

# --- Key columns ---

LARGEST_WASTE = 1024
"""A dictionary of up to this many entries is never rebuilt, however many of them are unused."""

_ALL_VALID = np.zeros(0, np.bool_)
_ENTRIES, _BYTES = 32, 512


def is_word(kind: pa.DataType) -> bool:
    """Does a value of this type fit into a word?"""
    if pa.types.is_nested(kind) or is_text(kind) or is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return False
    return bool(pa.types.is_null(kind) or kind.bit_width <= 64)


def is_text(kind: pa.DataType) -> bool:
    """Is it a type of text?"""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Is it a type of bytes?"""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def dumped(column: pa.Array) -> pa.Array:
    """Values as bytes by our codec: equal where the values are."""
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


class WordColumn:
    """A key column whose values fit into words.

    >>> column = WordColumn(pa.float32())
    >>> words, valid = column.encode(pa.array([1.5, None], pa.float32()))
    >>> column.decode(words, valid).to_pylist()
    [1.5, None]
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self._bits = 0 if pa.types.is_null(kind) else kind.bit_width
        self._storage: Any = np.dtype(f"i{self._bits // 8}") if self._bits >= 8 else None

    def encode(self, column: pa.Array) -> tuple[Ints, Flags | None]:
        """The words of a column, 0 for nulls, and which are valid (None: all). No copy of 64-bit values."""
        rows, valid = len(column), validity(column)
        if self._storage is not None:
            words: Ints = words_of(column, self._storage).astype(np.int64, copy=False)
        elif self._bits:
            words = bits_of(column.buffers()[1], column.offset, rows).astype(np.int64)
        else:
            words = np.zeros(rows, np.int64)
        return (words if valid is None else np.where(valid, words, 0)), valid

    def decode(self, words: Ints, valid: Flags | None) -> pa.Array:
        """The values of words."""
        if not self._bits:
            return pa.nulls(len(words))
        if self._storage is None:
            data = np.packbits(words.astype(np.bool_), bitorder="little")
        else:
            data = np.ascontiguousarray(words, self._storage)
        return pa.Array.from_buffers(self.type, len(words), [null_mask(valid), pa.py_buffer(data)])


class BytesColumn:
    """A key column whose values are interned in a dictionary of bytes that counts the keys that use each entry.

    >>> column = BytesColumn(pa.string())
    >>> codes = column.encode(pa.array(["b", "a", None, "b"]), True)
    >>> codes.tolist(), column.decode(codes).to_pylist()
    ([0, 1, -1, 0], ['b', 'a', None, 'b'])
    """

    def __init__(self, kind: pa.DataType, entries: int = _ENTRIES, size: int = _BYTES) -> None:
        """`entries` and `size`: for how many values and bytes it reserves space, powers of two."""
        self.type = kind
        self._nested = bool(pa.types.is_nested(kind))
        self._fixed = -1 if self._nested or is_text(kind) or is_binary(kind) else max(kind.bit_width, 8) // 8
        self._table: Ints = np.zeros(4 * entries, np.int64)
        self._starts: Ints = np.zeros(entries + 1, np.int64)
        self._arena: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self._uses: Ints = np.zeros(entries, np.int64)
        self._counts: Ints = np.zeros(1, np.int64)
        self._used = 0

    def __len__(self) -> int:
        return int(self._counts[0])

    @property
    def nbytes(self) -> int:
        """The memory of the dictionary."""
        return self._table.nbytes + self._starts.nbytes + self._arena.nbytes + self._uses.nbytes

    @property
    def wasteful(self) -> bool:
        """Whether the dictionary is large and more than half of its entries are unused."""
        return len(self) > LARGEST_WASTE and 2 * self._used < len(self)

    def encode(self, column: pa.Array, insert: bool) -> Ints:
        """The codes of values: -1 for nulls; without `insert`, -2 for unknown values."""
        offsets, data, valid = self._bytes(column)
        codes: Ints = np.empty(len(column), np.int64)
        row = 0
        while True:
            into = self._table, self._starts, self._arena, self._counts
            row = call_loop(key_loops.intern_bytes, "", (offsets, data, valid, *into, codes, row, insert))
            if row == len(codes):
                return codes
            self._grow(int(offsets[row + 1] - offsets[row]))

    def decode(self, codes: Ints) -> pa.Array:
        """The values of codes, null for those below 0."""
        valid: Flags = codes >= 0
        starts, data = self._gather(codes, valid)
        mask = null_mask(valid)
        if self._nested:
            raw, cuts = data.tobytes(), starts.tolist()
            values = [loads(raw[a:b]) if b > a else None for a, b in pairwise(cuts)]
            return pa.array(values, self.type)
        if self._fixed >= 0:
            return pa.Array.from_buffers(self.type, len(codes), [mask, pa.py_buffer(data)])
        wide = pa.large_string() if is_text(self.type) else pa.large_binary()
        made = pa.Array.from_buffers(wide, len(codes), [mask, pa.py_buffer(starts), pa.py_buffer(data)])
        return made if self.type == wide else made.cast(self.type)

    def prepare_use(self) -> None:
        """Load the loop that counts uses."""
        prepare_loop(key_loops.count_uses, "", (NO_INTS, 1, self._uses))

    def use(self, codes: Ints, by: int) -> None:
        """Keys with these codes were added (by 1) or released (by -1)."""
        self._used += call_loop(key_loops.count_uses, "", (np.ascontiguousarray(codes), by, self._uses))

    def rebuilt(self) -> tuple[Ints, partial[Any]]:
        """Remove the entries that no key uses: the new code of each old one, -1 for a removed entry; the change."""
        live: Ints = np.flatnonzero(self._uses[: len(self)])
        renamed: Ints = np.full(len(self), -1, np.int64)
        renamed[live] = np.arange(len(live))
        starts, data = self._gather(live, None)
        space = _power_of_two(2 * len(live), _ENTRIES), _power_of_two(2 * len(data), _BYTES)
        new = BytesColumn(self.type, *space)
        new._starts[: len(starts)] = starts
        new._arena[: len(data)] = data
        new._uses[: len(live)] = self._uses[live]
        new._counts[0] = new._used = len(live)
        call_loop(key_loops.index_bytes, "", (self._table, renamed, new._table))
        return renamed, attributes(self, **vars(new))

    def _bytes(self, column: pa.Array) -> tuple[Ints, NDArray[np.uint8], Flags]:
        """The bytes of each value: offsets, all bytes in one, and which are valid (empty: all)."""
        valid = validity(column)
        flags = _ALL_VALID if valid is None else valid
        if self._fixed < 0:
            return *value_bytes(dumped(column) if self._nested else column), flags
        data = column.buffers()[1]
        offsets: Ints = np.arange(column.offset, column.offset + len(column) + 1) * self._fixed
        return offsets, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), flags

    def _gather(self, codes: Ints, valid: Flags | None) -> tuple[Ints, NDArray[np.uint8]]:
        """The bytes of codes, one after the other: offsets and bytes."""
        known = codes if valid is None else np.where(valid, codes, 0)
        sizes = self._starts[known + 1] - self._starts[known]
        if valid is not None:
            sizes = np.where(valid, sizes, max(self._fixed, 0))
        starts: Ints = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        data = np.zeros(int(starts[-1]), np.uint8)
        call_loop(key_loops.gather_bytes, "", (np.ascontiguousarray(codes), self._starts, self._arena, starts, data))
        return starts, data

    def _grow(self, size: int) -> None:
        """Reserve space for one more entry of this size; doubles full arrays."""
        entries = len(self)
        if entries + 1 >= len(self._starts):
            table = np.zeros(2 * len(self._table), np.int64)
            call_loop(key_loops.index_bytes, "", (self._table, np.zeros(0, np.int64), table))
            starts, uses = np.zeros(2 * entries + 1, np.int64), np.zeros(2 * entries, np.int64)
            starts[: entries + 1], uses[:entries] = self._starts, self._uses
            all_at_once(attributes(self, _table=table, _starts=starts, _uses=uses))
        needed = int(self._starts[entries]) + size
        if needed > len(self._arena):
            arena = np.zeros(max(2 * len(self._arena), _power_of_two(needed, _BYTES)), np.uint8)
            arena[: len(self._arena)] = self._arena
            self._arena = arena


def _power_of_two(wanted: int, least: int) -> int:
    return max(1 << (wanted - 1).bit_length() if wanted > 1 else 1, least)


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
        found = np.zeros(self.count, np.uint64)
        for column in self.columns:
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
