"""The key table: maps keys to slots of the live state.

    by columns        words           slots          touched   fresh
    A  1              0  1            7              7         4
    B  1        ──▶   1  1     ──▶    4       ──▶    4         5
    A  1              0  1            7              5
    null 2           -1  2            5

A slot is a small integer. A key has the same slot until it is released; then the slot is reused. The cost of a call
depends on its rows, not on the number of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import word_type, words_of
from sash.columns.key_columns import BytesColumn, WordColumn, is_word
from sash.engine.atomic import all_at_once, attributes
from sash.engine.keyed.slot_table import allocated
from sash.kernels.loops import key_loops
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints
from sash.kernels.loops.key_loops import FREED, FRESH, HASH, KNOWN, MOVED, NULLS, TOUCHED, WORDS
from sash.kernels.loops.loop_cache import call_loop, prepare_loop
from sash.kernels.loops.slot_loops import distinct_slots, gather_words

SMALLEST = 64
"""Slots of a new table; it grows by doubling, and then by `MOST`."""

MOST = 4096
"""Slots by which a table grows at most, if a call does not bring more keys."""

LARGEST_IDLE = 1024
"""Slots up to which a table never shrinks."""

_BITS = 63
_WORD = np.dtype(np.int64)


@dataclass(slots=True)
class FoundKeys:
    """The slots of rows; the distinct slots in the order of first appearance; those of new keys."""

    slots: Ints
    touched: Ints
    fresh: Ints

    def reorder(self, order: Ints) -> None:
        """Put the rows in an order by slot; `touched` follows it."""
        self.slots = self.slots[order]
        call_loop(distinct_slots, "", (self.slots, self.touched))


@dataclass(slots=True)
class Shrunk:
    """A smaller key table: the new slot of each old one, -1 for free ones; its capacity; the change to it."""

    places: Ints
    capacity: int
    change: partial[Any]


class KeyTable:
    """Maps keys (values of the `by` columns) to slots: small integers, reused when released.

    Columns must be normalised by `key_column`; a null is a value of its own. Without columns there is one key, with
    slot 0. Finding a row takes constant expected time: for an integer 17 ns among 1,000 keys, 170 ns among a million.

    >>> table = KeyTable([pa.string(), pa.int64()])
    >>> found = table.find([pa.array(["a", "b", "a", None]), pa.array([1, 1, 1, 2])], 4)
    >>> found.slots.tolist(), found.touched.tolist(), found.fresh.tolist()
    ([0, 1, 0, 2], [0, 1, 2], [0, 1, 2])
    >>> table.release(np.array([1]))
    >>> table.find([pa.array(["b", "c"]), pa.array([1, 1])], 2, insert=False).slots.tolist()
    [-1, -1]
    >>> table.find([pa.array(["c"]), pa.array([1])], 1).slots.tolist(), table.count
    ([1], 3)
    >>> [column.to_pylist() for column in table.keys(np.array([2, 1]))]
    [[None, 'c'], [2, 1]]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._columns = [WordColumn(kind) if is_word(kind) else BytesColumn(kind) for kind in self.types]
        self._interned = [(i, column) for i, column in enumerate(self._columns) if isinstance(column, BytesColumn)]
        # null bits of the first 63 columns share a word of the record; those of later columns follow the values
        self._width = len(self.types) + max(len(self.types) - 1, 0) // _BITS
        self._is_word = len(self.types) == 1 and word_type(self.types[0]) is not None
        """Whether a key is one column of 64-bit words, which need no encoding."""
        self._call = 0
        self._can_release = False
        """Are the loops loaded that remove keys?"""
        self._table: Ints = NO_INTS
        self._old: Ints = NO_INTS
        """The smaller table whose entries move to the table; empty if all have."""
        self._records: Ints = NO_INTS
        self._free: Ints = NO_INTS
        self._whole: list[Ints] = []
        """The records and the free slots, with the space in which they grow."""
        self._counts: Ints = np.zeros(5, np.int64)
        self._capacity = 0
        all_at_once(self._resized(SMALLEST if self.types else 1))

    @property
    def count(self) -> int:
        """The number of live keys."""
        return int(self._counts[KNOWN] - self._counts[FREED])

    @property
    def capacity(self) -> int:
        """All slots are below this number. It falls only by `shrunk`."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """The memory of the table and its dictionaries."""
        own = self._table.nbytes + self._old.nbytes + 8 * self._capacity * (WORDS + self._width + 1)
        return own + sum(column.nbytes for _, column in self._interned)

    def find(self, columns: Sequence[pa.Array], rows: int, insert: bool = True) -> FoundKeys:
        """The slots of rows. A new key gets a slot; without `insert` it gets -1, and nothing changes.

        If memory runs out, no key is added. Raises TypeError and ValueError for columns that are not of the table's
        types, or not of this length.
        """
        self._check(columns, rows)
        if not rows:
            return FoundKeys(NO_INTS, NO_INTS, NO_INTS)
        words, nulls = self._words(columns, rows, insert)
        if insert and not self._can_release:
            self._prepare_release()
        slots, touched, fresh = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
        self._call += 1
        self._counts[TOUCHED] = self._counts[FRESH] = 0
        row = 0
        try:
            while row < rows:
                table = self._table, self._old, self._records, self._free, self._counts
                given = words, nulls, self._width, *table, self._call, slots, touched, fresh, row, insert
                row = call_loop(key_loops.find_keys, "", given)
                if row < rows:
                    self._extend(rows - row)
            _, _, reached, made, moved = self._counts.tolist()
            if 2 * moved == len(self._old) > 0:
                self._old = NO_INTS
            fresh = fresh[:made] if made else NO_INTS
            for position, column in self._interned if made else ():
                column.use(self._matrix()[fresh, WORDS + position], 1)
        except BaseException:
            made = fresh[: int(self._counts[FRESH])]
            call_loop(key_loops.release_keys, "", (made, self._width, *self._arrays))
            raise
        return FoundKeys(slots, touched[:reached], fresh)

    def _prepare_release(self) -> None:
        """Load the loops that remove keys, before the first call that may have to remove its own."""
        prepare_loop(key_loops.release_keys, "", (NO_INTS, self._width, *self._arrays))
        for _, column in self._interned:
            column.prepare_use()
        self._can_release = True

    def release(self, slots: Ints) -> None:
        """Remove the keys of slots, and free the slots. Ignores slots that are free already.

        Raises IndexError, and changes nothing, for a slot that was never in use.
        """
        if not len(slots):
            return
        before = int(self._counts[FREED])
        given = np.ascontiguousarray(slots, np.int64), self._width, *self._arrays
        released = call_loop(key_loops.release_keys, "", given)
        if released < 0:
            raise IndexError(f"slots to release are from 0 to {int(self._counts[KNOWN]) - 1}")
        gone = self._free[before : before + released]
        for position, column in self._interned:
            column.use(self._matrix()[gone, WORDS + position], -1)
        wasteful = [(position, column) for position, column in self._interned if column.wasteful]
        if wasteful:
            self._reclaim(wasteful)

    def keys(self, slots: Ints) -> list[pa.Array]:
        """The by columns of live slots, of the table's types."""
        columns = []
        for position, column in enumerate(self._columns):
            words = self._gathered(WORDS + position, slots)
            if isinstance(column, BytesColumn):
                columns.append(column.decode(words))
            else:
                columns.append(column.decode(words, self._valid(position, slots)))
        return columns

    def _valid(self, position: int, slots: Ints) -> Flags | None:
        """Whether a column is not null in the keys of live slots; None if it is in none."""
        word, known = self._null_word(position), int(self._counts[KNOWN])
        if len(slots) > known and not self._matrix()[:known, word].any():  # all keys are fewer than these slots
            return None
        found: Flags = self._gathered(word, slots) >> position % _BITS & 1 == 0
        return found

    def _gathered(self, word: int, slots: Ints) -> Ints:
        """A word of the records of live slots."""
        found = np.empty(len(slots), np.int64)
        arguments = (self._records, WORDS + self._width, word, np.ascontiguousarray(slots), found)
        if not call_loop(gather_words, "", arguments):
            raise IndexError("slots without a key have no key values")
        return found

    def live(self) -> Ints:
        """The slots that have a key."""
        return np.flatnonzero(self._matrix()[: int(self._counts[KNOWN]), HASH] >= 0)

    def shrunk(self, idle: int = LARGEST_IDLE) -> Shrunk | None:
        """If less than a quarter of a large table is live: how to renumber the live slots from 0; else None.

        idle: the capacity up to which a table is not large.

        >>> table = KeyTable([pa.int64()])
        >>> slots = table.find([pa.array(range(2000))], 2000).slots
        >>> table.release(slots[:-1])
        >>> found = table.shrunk()
        >>> all_at_once(found.change)
        >>> found.places[[0, 1, 1999]].tolist(), table.shrunk(), (table.capacity, found.capacity)
        ([-1, -1, 0], None, (64, 64))
        """
        if self.capacity <= idle or 4 * self.count >= self.capacity:
            return None
        live = self.live()
        moved = np.full(self.capacity, -1, np.int64)
        moved[live] = np.arange(len(live))
        capacity = max(1 << (2 * len(live)).bit_length(), SMALLEST)
        return Shrunk(moved, capacity, self._resized(capacity, live))

    def _check(self, columns: Sequence[pa.Array], rows: int) -> None:
        if len(columns) != len(self.types):
            raise ValueError(f"keys have {len(self.types)} columns; got {len(columns)}")
        for i, column in enumerate(columns):
            if column.type != self.types[i]:
                raise TypeError(f"a key column of type {self.types[i]} was given values of type {column.type}")
            if len(column) != rows:
                raise ValueError(f"a key column has {len(column)} values for {rows} rows")

    def _words(self, columns: Sequence[pa.Array], rows: int, insert: bool) -> tuple[Ints, Ints]:
        """The words of the rows' keys, row after row, and their null bits (empty: there are none)."""
        if self._is_word and not columns[0].null_count:
            return words_of(columns[0], _WORD), NO_INTS
        single = self._width == 1
        words, nulls = NO_INTS if single else np.zeros((rows, self._width), np.int64), NO_INTS
        for position, (column, given) in enumerate(zip(self._columns, columns, strict=True)):
            if isinstance(column, BytesColumn):
                found, valid = column.encode(given, insert), None
            else:
                found, valid = column.encode(given)
            if single:
                words = found
            else:
                words[:, position] = found
            if valid is not None:
                absent = (~valid).astype(np.int64) << position % _BITS
                if position >= _BITS:
                    words[:, self._null_word(position) - WORDS] |= absent
                else:
                    nulls = nulls | absent if len(nulls) else absent
        return words.reshape(-1), nulls

    def _null_word(self, position: int) -> int:
        """The place of a column's null bit in a record."""
        return NULLS if position < _BITS else WORDS + len(self.types) + position // _BITS - 1

    def _matrix(self) -> Ints:
        return self._records.reshape(-1, WORDS + self._width)

    @property
    def _arrays(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """The arrays, as loops take them."""
        return self._table, self._old, self._records, self._free, self._counts

    def _extend(self, rows: int) -> None:
        """Add slots, and begin a larger table if this one is half full, for up to this many new keys."""
        live, places = int(self._counts[KNOWN] - self._counts[FREED]), len(self._table) >> 1
        changes: dict[str, Any] = {}
        if 2 * live >= places:
            assert 2 * int(self._counts[MOVED]) >= len(self._old), "a table is full before the last one has moved"
            counts = self._counts.copy()
            counts[MOVED] = 0
            changes |= {"_table": np.zeros(2 * len(self._table), np.int64), "_old": self._table, "_counts": counts}
        if not self._counts[FREED] and self._counts[KNOWN] == self._capacity:
            capacity = self._capacity + min(self._capacity, max(MOST, rows))
            whole = []
            for old, used, width in zip(self._whole, (self._records, self._free), self._widths, strict=True):
                new = old
                if len(old) < capacity * width:
                    new = allocated(capacity * width, _WORD)
                    new[: len(used)] = used
                whole.append(new)
            changes |= self._sized(whole, capacity)
        all_at_once(attributes(self, **changes))

    def _resized(self, capacity: int, live: Ints = NO_INTS) -> partial[Any]:
        """The change to this many slots for the live keys, in this order."""
        whole, known = [np.zeros(capacity * width, np.int64) for width in self._widths], len(live)
        records, table = whole[0].reshape(capacity, -1), np.zeros(4 * capacity, np.int64)
        if known:
            records[:known] = self._matrix()[live]
        call_loop(key_loops.index_keys, "", (self._width, table, whole[0], known))
        counts = self._counts.copy()
        counts[KNOWN], counts[FREED] = known, 0
        return attributes(self, _table=table, _old=NO_INTS, _counts=counts, **self._sized(whole, capacity))

    @property
    def _widths(self) -> tuple[int, int]:
        """The words of a slot in the records, and in the list of free slots."""
        return WORDS + self._width, 1

    def _sized(self, whole: list[Ints], capacity: int) -> dict[str, Any]:
        """The attributes of a table of this many slots in these arrays, which may be longer."""
        records, free = (array[: capacity * width] for array, width in zip(whole, self._widths, strict=True))
        return {"_whole": whole, "_records": records, "_free": free, "_capacity": capacity}

    def _reclaim(self, columns: Sequence[tuple[int, BytesColumn]]) -> None:
        """Rebuild dictionaries from the codes in use, and rehash the keys by their new codes."""
        known, live = int(self._counts[KNOWN]), self.live()
        records, table = self._matrix().copy(), np.zeros(len(self._table), np.int64)
        changes = []
        for position, column in columns:
            codes = records[live, WORDS + position]
            renamed, change = column.rebuilt()
            records[live, WORDS + position] = np.where(codes < 0, codes, renamed[codes]) if len(renamed) else codes
            changes.append(change)
        flat = records.reshape(-1)
        call_loop(key_loops.index_keys, "", (self._width, table, flat, known))
        sized = self._sized([flat, self._whole[1]], self._capacity)
        all_at_once(*changes, attributes(self, _table=table, _old=NO_INTS, **sized))
