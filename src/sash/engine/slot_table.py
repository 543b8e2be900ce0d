"""The slot table: the fixed-size state of every key.

    slot   │ keys │ stamps        │ heads …                 │ structures …      one row of words a slot
    0      │ 17   │ 40  90  90    │ 0  4  2  5  0  2        │ …
    1      │ 3    │ 38  88  88    │ …

Arrays of 64-bit numbers share one block of memory, with a row of words for each slot, so that the state of a key is
contiguous and one copy saves it. Derived arrays come last in the row and are not saved. Arrays of other types have
their own memory.

`table[name]` is an array as NumPy sees it. Kernels take `table.wide[name]`: the same memory from the array's first word
on, in contiguous rows that are as wide as the whole row, so that word j of slot s is `wide[s, j]`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.engine.atomic import all_at_once, attributes
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_kernel import call_loop
from sash.kernels.loops.slot_loops import copy_rows

_WORDS = ("<i8", "<f8")
_LINE = 8
"""Words of a cache line."""


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
        self.arrays: dict[Any, NDArray[Any]] = {}
        self.wide: dict[Any, NDArray[Any]] = {}
        self.blanks: dict[Any, Any] = {}
        self.derived: set[Any] = set()
        self.version = 0
        """Changes whenever arrays are replaced."""
        self._first: dict[Any, int] = {}
        self._others: list[Any] = []
        """The arrays with their own memory."""
        self._width = self._saved = 0
        self._blank: Ints = np.zeros(0, np.int64)
        self._words: Ints = np.zeros((0, 0), np.int64)

    def add(self, name: Any, kind: Any, blank: Any, derived: bool = False, apart: bool = False) -> None:
        """Add an array whose rows are `blank` in a new slot. A derived array is not saved: it can be rebuilt.

        With `apart` the array has its own contiguous memory.
        """
        blank = np.asarray(blank, kind)
        self.blanks[name] = blank
        if derived:
            self.derived.add(name)
        if blank.dtype.str in _WORDS and not apart:
            self._first[name] = -1
            if not self.capacity:  # `grow` lays out all arrays at once
                self.arrays[name], self.wide[name] = np.zeros((0, *blank.shape), kind), np.zeros((0, _LINE), kind)
                self.version += 1
                return
            old = {other: self.arrays[other] for other in self._first if other != name}
            self._lay_out()
            words = np.empty((self.capacity + 1, self._width), np.int64)
            words[:] = self._blank
            all_at_once(self._replaced(words, {name: self.arrays[name] for name in self._others}, self.capacity))
            for other, rows in old.items():
                self.arrays[other][:] = rows
        else:
            self._others.append(name)
            self.arrays[name] = np.full((self.capacity, *blank.shape), blank, kind)
            self.wide[name] = self.arrays[name]
        self.version += 1

    def __getitem__(self, name: Any) -> NDArray[Any]:
        return self.arrays[name]

    def grow(self, capacity: int) -> None:
        """Reserve space for this many slots."""
        if not self.capacity:
            self._lay_out()
        words = np.empty((capacity + 1, self._width), np.int64)
        words[: self.capacity] = self._words[: self.capacity]
        words[self.capacity :] = self._blank
        others = {}
        for name in self._others:
            old, blank = self.arrays[name], self.blanks[name]
            more = np.full((capacity - len(old), *blank.shape), blank, old.dtype)
            others[name] = np.concatenate([old, more])
        all_at_once(self._replaced(words, others, capacity))

    def clear(self, slots: Ints) -> None:
        """Reset these slots to their blank values."""
        self._words[slots] = self._blank
        for name in self._others:
            self.arrays[name][slots] = self.blanks[name]

    def renumbered(self, places: Ints, capacity: int) -> partial[Any]:
        """The change that renumbers slots: `places` has the new number of each old slot, -1 for free ones."""
        if not self.capacity:
            self._lay_out()
        live = np.flatnonzero(places >= 0)
        words = np.empty((capacity + 1, self._width), np.int64)
        words[:] = self._blank
        words[places[live]] = self._words[live]
        others = {}
        for name in self._others:
            blank = self.blanks[name]
            new = others[name] = np.full((capacity, *blank.shape), blank, self.arrays[name].dtype)
            new[places[live]] = self.arrays[name][live]
        return self._replaced(words, others, capacity)

    def save(self, slots: Ints) -> dict[Any, NDArray[Any]]:
        """The rows of these slots, for `restore`."""
        rows = np.empty((len(slots), self._saved), np.int64)
        call_loop(copy_rows, "", (self._words, slots, rows))
        saved: dict[Any, NDArray[Any]] = {_ROWS: rows}
        for name in self._others:
            if name not in self.derived:
                saved[name] = self.arrays[name][slots]
        return saved

    def restore(self, slots: Ints, saved: dict[Any, NDArray[Any]]) -> None:
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

    # ---- where the words lie ----

    def _lay_out(self) -> None:
        """Assign every array of words its place in a row: saved arrays first, derived ones after them."""
        words = sorted(self._first, key=lambda name: name in self.derived)
        self._first, at = {}, 0
        for name in words:
            self._first[name] = at
            at += self.blanks[name].size
        self._saved = sum(self.blanks[name].size for name in words if name not in self.derived)
        self._width = -(-at // _LINE) * _LINE
        self._blank = np.zeros(self._width, np.int64)
        for name, first in self._first.items():
            self._blank[first : first + self.blanks[name].size] = self.blanks[name].reshape(-1).view(np.int64)
        if not self.capacity:
            self._words = np.zeros((0, self._width), np.int64)

    def _replaced(self, words: Ints, others: dict[Any, NDArray[Any]], count: int) -> partial[Any]:
        """The change to other memory: the arrays over these words, and those with their own memory."""
        flat, width = words.reshape(-1), self._width
        wide, arrays = dict(others), dict(others)
        for name, first in self._first.items():
            blank = self.blanks[name]
            wide[name] = flat[first : first + count * width].view(blank.dtype).reshape(count, width)
            arrays[name] = wide[name][:, : blank.size] if blank.ndim else wide[name][:, 0]
        version = self.version + 1
        return attributes(self, _words=words, arrays=arrays, wide=wide, capacity=count, version=version)


_ROWS = "words of the rows"
