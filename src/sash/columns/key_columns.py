"""Key columns of an operator as 64-bit words: fixed-width values directly, all others by the code of their bytes.

    int, float, bool, date, time …    the bits of the value, and whether it is null
    text, binary, decimals, nested    a code from a dictionary of bytes; -1 for nulls

Equal values have equal words if they are normalised by `key_column` (one NaN, no -0.0).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.arrow_arrays import bits_of, null_mask, validity, words_of
from sash.columns.keys import dumped, is_binary, value_bytes
from sash.engine.atomic import all_at_once, attributes
from sash.kernels.loops import key_loops
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints
from sash.kernels.loops.loop_cache import call_loop, prepare_loop
from sash.plan.types import is_text
from sash.stores.codec import loads

LARGEST_WASTE = 1024
"""A dictionary of up to this many entries is never rebuilt, however many of them are unused."""

_ALL_VALID = np.zeros(0, np.bool_)
_ENTRIES, _BYTES = 32, 512


def is_word(kind: pa.DataType) -> bool:
    """Does a value of this type fit into a word?"""
    if pa.types.is_nested(kind) or is_text(kind) or is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return False
    return bool(pa.types.is_null(kind) or kind.bit_width <= 64)


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
        used: Ints = np.flatnonzero(self._uses[: len(self)])
        renamed: Ints = np.full(len(self), -1, np.int64)
        renamed[used] = np.arange(len(used))
        starts, data = self._gather(used, None)
        space = _power_of_two(2 * len(used), _ENTRIES), _power_of_two(2 * len(data), _BYTES)
        new = BytesColumn(self.type, *space)
        new._starts[: len(starts)] = starts
        new._arena[: len(data)] = data
        new._uses[: len(used)] = self._uses[used]
        new._counts[0] = new._used = len(used)
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
