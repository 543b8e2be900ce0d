"""The slot table: the fixed-size state of every key.

    slot   │ keys │ stamps        │ heads …                 │ structures …      a row of words for each slot
    0      │ 17   │ 40  90  90    │ 0  4  2  5  0  2        │ …
    1      │ 3    │ 38  88  88    │ …

Arrays of 64-bit numbers share one block of memory, with a row of words for each slot, so that the state of a key is
contiguous and one copy saves it. Derived arrays come last in the row and are not saved. Arrays of other types have
their own memory. More slots are rows at the end: long arrays grow in place, and no call copies the state of all keys.

`table[name]` is an array as NumPy sees it. Kernels take `table.wide[name]`: the same memory from the array's first word
on, in contiguous rows that are as wide as the whole row, so that word j of slot s is `wide[s, j]`.
"""

from __future__ import annotations

import functools
import mmap
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sash.engine.atomic import all_at_once, attributes
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.slot_loops import copy_rows

ColumnName = str | tuple[str | int, ...]
"""The name of an array of a slot table, or of a column of an arena."""

NamedArrays = dict[ColumnName, NDArray[Any]]

WORDS = ("<i8", "<f8")
"""The types of arrays that consist of 64-bit words."""

_LINE = 8
"""Words of a cache line."""


# --- Memory ---

PLAIN = 1 << 16
"""The bytes up to which an array grows by copies."""

RESERVED = 1 << 34
"""The address space of a longer array, in bytes; memory that nobody has touched costs nothing."""


def allocated(length: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """An array of zeros (or objects) of at least this length: a long one has address space to grow in.

    Where address space is limited, or cannot be reserved, the array has just this length.
    """
    if kind.kind == "O":
        return np.empty(length, object)
    size = length * kind.itemsize
    if size > PLAIN and _can_reserve():
        _keep_freed_memory()
        for space in (max(RESERVED, 16 * size), 4 * size):
            try:
                memory = mmap.mmap(-1, space, flags=_FLAGS)
            except (OSError, ValueError, OverflowError, MemoryError):
                continue
            return np.frombuffer(memory, kind)
    return np.zeros(length, kind)


@functools.cache
def _keep_freed_memory() -> None:
    """Let the allocator keep the temporary arrays of calls.

    glibc returns freed memory above a limit, which is the largest block that was ever freed: arrays that grew by copies
    raised it. Without that, calls of 100,000 rows took 84 in place of 50 ns a row, for page faults.
    """
    np.empty(1 << 24, np.uint8)


_FLAGS = 0 if sys.platform == "win32" else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
if sys.platform == "linux":
    _FLAGS |= 0x4000  # MAP_NORESERVE, which `mmap` names from Python 3.13 on


def _can_reserve() -> bool:
    """Is address space free? A limit on it, such as Spark sets for its workers, counts what is only reserved."""
    if not _FLAGS:
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


# --- Slot table ---


@dataclass(frozen=True)
class _Layout:
    """Where arrays of words lie in a row: `first` has their first words, and `saved` words come before derived ones."""

    first: dict[ColumnName, int]
    saved: int
    blank: Ints

    @property
    def width(self) -> int:
        return len(self.blank)


class SlotTable:
    """Arrays with a row for each slot, by name.

    >>> table = SlotTable()
    >>> table.add("rows", np.int64, 0)
    >>> table.grow(4)
    >>> table["rows"][2] = 7
    >>> saved = table.save(np.array([2]))
    >>> table.clear(np.array([2])); int(table["rows"][2])
    0
    >>> table.restore(np.array([2]), saved); int(table["rows"][2])
    7
    """

    def __init__(self) -> None:
        self.capacity = 0
        self.arrays: NamedArrays = {}
        self.wide: NamedArrays = {}
        self.blanks: NamedArrays = {}
        self.derived: set[ColumnName] = set()
        self.version = 0
        """Changes whenever arrays are replaced."""
        self._in_words: list[ColumnName] = []
        self._others: list[ColumnName] = []
        """The arrays with their own memory."""
        self._layout = _Layout({}, 0, np.zeros(0, np.int64))
        self._words: Ints = np.zeros((0, 0), np.int64)
        self._whole: NamedArrays = {_ROWS: NO_INTS}
        """The words and the other arrays, with the space in which they grow."""

    def add(self, name: ColumnName, kind: DTypeLike, blank: Any, derived: bool = False, apart: bool = False) -> None:
        """Add an array whose rows are `blank` in a new slot. A derived array is not saved: it can be rebuilt.

        With `apart` the array has its own contiguous memory.
        """
        blank = np.asarray(blank, kind)
        self.blanks[name] = blank
        if derived:
            self.derived.add(name)
        if blank.dtype.str not in WORDS or apart:
            array = np.full((self.capacity, *blank.shape), blank, kind)
            self._hold(name, self._others, array, array)
            self._whole[name] = array.reshape(-1)
        elif not self.capacity:  # `grow` lays out all arrays at once
            self._hold(name, self._in_words, np.zeros((0, *blank.shape), kind), np.zeros((0, _LINE), kind))
        else:
            old, layout = self._layout, self._laid_out([*self._in_words, name])
            whole = self._blank(layout, self.capacity)
            words = self._rows(layout, whole[_ROWS], self.capacity)
            for other, first in old.first.items():
                at, size = layout.first[other], self.blanks[other].size
                words[:, at : at + size] = self._words[:, first : first + size]
            whole |= {other: self._whole[other] for other in self._others}
            change = self._replaced(layout, whole, self.capacity)
            all_at_once(change, partial(list.append, self._in_words, name))

    def _hold(self, name: ColumnName, names: list[ColumnName], array: NDArray[Any], wide: NDArray[Any]) -> None:
        arrays, both = {**self.arrays, name: array}, {**self.wide, name: wide}
        change = attributes(self, arrays=arrays, wide=both, version=self.version + 1)
        all_at_once(change, partial(list.append, names, name))

    def __getitem__(self, name: ColumnName) -> NDArray[Any]:
        return self.arrays[name]

    def grow(self, capacity: int) -> None:
        """Reserve space for this many slots."""
        layout, whole = self._layout_of_all(), dict(self._whole)
        length = (capacity + 1) * layout.width
        if len(whole[_ROWS]) < length:
            whole[_ROWS] = allocated(length, np.dtype(np.int64))
            if self.capacity:
                whole[_ROWS][: self._words.size] = self._words.reshape(-1)
        self._rows(layout, whole[_ROWS], capacity)[self.capacity :] = layout.blank
        for name in self._others:
            old, blank = self.arrays[name], self.blanks[name]
            if len(whole[name]) < capacity * blank.size:
                whole[name] = allocated(capacity * blank.size, blank.dtype)
                whole[name][: old.size] = old.reshape(-1)
            whole[name][: capacity * blank.size].reshape(capacity, *blank.shape)[len(old) :] = blank
        all_at_once(self._replaced(layout, whole, capacity))

    @staticmethod
    def _rows(layout: _Layout, words: Ints, capacity: int) -> Ints:
        """The rows of slots, and one more."""
        return words[: (capacity + 1) * layout.width].reshape(capacity + 1, layout.width)

    def _blank(self, layout: _Layout, capacity: int) -> NamedArrays:
        """New memory for the words of blank slots."""
        words = allocated((capacity + 1) * layout.width, np.dtype(np.int64))
        self._rows(layout, words, capacity)[:] = layout.blank
        return {_ROWS: words}

    def clear(self, slots: Ints) -> None:
        """Reset these slots to their blank values."""
        self._words[slots] = self._layout.blank
        for name in self._others:
            self.arrays[name][slots] = self.blanks[name]

    def renumbered(self, places: Ints, capacity: int) -> partial[Any]:
        """The change that renumbers slots: `places` has the new number of each old slot, -1 for free ones."""
        layout = self._layout_of_all()
        live = np.flatnonzero(places >= 0)
        whole = self._blank(layout, capacity)
        if self.capacity:
            self._rows(layout, whole[_ROWS], capacity)[places[live]] = self._words[live]
        for name in self._others:
            blank = self.blanks[name]
            new = np.full((capacity, *blank.shape), blank, blank.dtype)
            new[places[live]] = self.arrays[name][live]
            whole[name] = new.reshape(-1)
        return self._replaced(layout, whole, capacity)

    def save(self, slots: Ints) -> NamedArrays:
        """The rows of these slots, for `restore`."""
        rows = np.empty((len(slots), self._layout.saved), np.int64)
        call_loop(copy_rows, "", (self._words, slots, rows))
        saved: NamedArrays = {_ROWS: rows}
        for name in self._others:
            if name not in self.derived:
                saved[name] = self.arrays[name][slots]
        return saved

    def restore(self, slots: Ints, saved: NamedArrays) -> None:
        """Restore saved rows."""
        for name, rows in saved.items():
            if name is _ROWS:
                self._words[slots, : rows.shape[1]] = rows
            else:
                self.arrays[name][slots] = rows

    @property
    def row_bytes(self) -> int:
        """The memory of a slot."""
        return sum(blank.nbytes for blank in self.blanks.values())

    @property
    def nbytes(self) -> int:
        """The memory of the arrays."""
        return int(self._words.nbytes + sum(self.arrays[name].nbytes for name in self._others))

    # ---- layout ----

    def _layout_of_all(self) -> _Layout:
        return self._layout if self.capacity else self._laid_out(self._in_words)

    def _laid_out(self, names: list[ColumnName]) -> _Layout:
        """Assign every array of words its place in a row: saved arrays first, derived ones after them."""
        first, at = {}, 0
        for name in sorted(names, key=lambda name: name in self.derived):
            first[name] = at
            at += self.blanks[name].size
        saved = sum(self.blanks[name].size for name in names if name not in self.derived)
        blank = np.zeros(-(-at // _LINE) * _LINE, np.int64)
        for name, place in first.items():
            blank[place : place + self.blanks[name].size] = self.blanks[name].reshape(-1).view(np.int64)
        return _Layout(first, saved, blank)

    def _replaced(self, layout: _Layout, whole: NamedArrays, count: int) -> partial[Any]:
        """The change to other memory: the arrays over its words, and those with their own memory."""
        flat, width, wide = whole[_ROWS], layout.width, {}
        for name in self._others:
            blank = self.blanks[name]
            wide[name] = whole[name][: count * blank.size].reshape(count, *blank.shape)
        arrays = dict(wide)
        for name, first in layout.first.items():
            blank = self.blanks[name]
            wide[name] = flat[first : first + count * width].view(blank.dtype).reshape(count, width)
            arrays[name] = wide[name][:, : blank.size] if blank.ndim else wide[name][:, 0]
        words, version = self._rows(layout, flat, count), self.version + 1
        return attributes(
            self, _layout=layout, _whole=whole, _words=words, arrays=arrays, wide=wide, capacity=count, version=version
        )


_ROWS = "words of the rows"
