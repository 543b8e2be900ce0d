"""Live codes for values that an aggregate only chooses among or carries along.

    PlaceLog      any value; a code is its place in a log         "b" "a" null "b"  ──▶  0 1 2 3
    RankLabels    ordered values; codes compare as values do      "b" "a" null "b"  ──▶  7 3 -1 7

Codes let such aggregates run compiled on text, decimals and lists, with states that live from call to call. An operator
drops the values that no state refers to with `compact`, and maps its states with the function that it returns.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.atomic import all_at_once, attributes

Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]
Mapping = Callable[[Codes], Codes]

LARGEST_CHUNK = 1 << 30
"""Bytes of a merged chunk of a log, at most: offsets of strings and lists have 32 bits."""

END = 1 << 62
"""Labels are strictly between 0 and this."""

STEP = 1 << 32
"""The distance of labels at both ends of the order."""

_ONE_BY_ONE = 32


class PlaceLog:
    """Codes for values that are carried along: a code is the place of a value in a log; nulls are values.

    The log is a list of Arrow arrays, of which neighbours of similar size are merged, so n values form O(log n) arrays
    and a value is copied O(log n) times. Types are plain: Arrow takes no values by place from views.

    >>> log = PlaceLog(pa.string())
    >>> codes = log.encode(pa.array(["x", None, "y"]))
    >>> codes.tolist(), log.decode(np.array([2, 0, 99])).to_pylist()
    ([0, 1, 2], ['y', 'x', None])
    >>> renamed = log.compact(np.array([2]))
    >>> renamed(np.array([2, 99])).tolist(), log.decode(np.array([0])).to_pylist()
    ([0, 99], ['y'])
    """

    def __init__(self, type: pa.DataType) -> None:  # noqa: A002
        self.type = type
        self._chunks: tuple[pa.Array, ...] = ()
        self._starts: Codes = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def nbytes(self) -> int:
        """The memory of the values."""
        return sum(int(chunk.nbytes) for chunk in self._chunks)

    def encode(self, column: pa.Array) -> Codes:
        """Append a column; its codes are consecutive. Raises TypeError if it is not of the log's type."""
        _check(column, self.type)
        first = len(self)
        if len(column):
            chunks = [*self._chunks, _own(column)]
            while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]) and _mergeable(*chunks[-2:]):
                chunks[-2:] = [pa.concat_arrays(chunks[-2:])]
            self._set(chunks)
        return np.arange(first, first + len(column))

    def decode(self, codes: Codes, valid: Flags | None = None) -> pa.Array:
        """The values of codes; null for codes out of range, and where not valid."""
        good: Flags = (codes >= 0) & (codes < len(self))
        if valid is not None:
            good &= valid
        if not good.any():
            return pa.nulls(len(codes), self.type)
        within = np.searchsorted(self._starts, np.where(good, codes, 0), side="right") - 1
        numbers = np.flatnonzero(np.bincount(within[good])).tolist()
        if len(numbers) == 1:
            return self._chunks[numbers[0]].take(_indices(codes - self._starts[numbers[0]], good))
        parts, places, taken = [], np.zeros(len(codes), np.int64), 0
        for number in numbers:
            rows = np.flatnonzero(good & (within == number))
            parts.append(self._chunks[number].take(_indices(codes[rows] - self._starts[number])))
            places[rows] = np.arange(taken, taken + len(rows))
            taken += len(rows)
        return pa.concat_arrays(parts).take(_indices(places, good))

    def compact(self, live: Codes) -> Mapping:
        """Keep the values of these codes only, in any order and as often as they come, and number them anew.

        Returns the function from old codes to new ones: codes out of range stay as they are, dropped ones become -1.
        """
        size = len(self)
        kept = np.unique(live[(live >= 0) & (live < size)])
        self._set([self.decode(kept)] if len(kept) else [])
        return _mapping(kept, np.arange(len(kept)), lambda codes: (codes >= 0) & (codes < size))

    def mark(self) -> Any:
        """The state of now, for `rollback`; takes no time, and keeps the values of now in memory."""
        return self._chunks, self._starts

    def rollback(self, mark: Any) -> None:
        """Return to the state at `mark`: what was encoded since is forgotten, what was compacted is there again."""
        self._chunks, self._starts = mark

    def cut(self, length: int) -> None:
        """Forget what comes behind the first values, so many of them."""
        if length < len(self):
            pairs = zip(self._chunks, self._starts.tolist(), strict=False)
            self._set([chunk.slice(0, length - start) for chunk, start in pairs if start < length])

    def _set(self, chunks: list[pa.Array]) -> None:
        starts = np.cumsum([0, *map(len, chunks)], dtype=np.int64)
        all_at_once(attributes(self, _chunks=tuple(chunks), _starts=starts))


class RankLabels:
    """Codes for ordered values (text, binary, decimals): integers in the order of the values, -1 for nulls.

    A label holds until there is no room between two neighbours for a new one. Then `encode` spreads all labels evenly
    and sets `relabelled`, the function from old labels to new ones: map every state with it before using new labels.
    Work in Python is for the distinct values of a call only, and for all values where they are relabelled.

    >>> labels = RankLabels(pa.string())
    >>> b, a, null, again = labels.encode(pa.array(["b", "a", None, "b"])).tolist()
    >>> a < b == again, null, labels.relabelled
    (True, -1, None)
    >>> labels.decode(np.array([b, -1, a])).to_pylist()
    ['b', None, 'a']
    """

    relabelled: Mapping | None
    """From old labels to new ones, if the last `encode` has changed them; what is no label stays as it is."""

    def __init__(self, type: pa.DataType) -> None:  # noqa: A002
        self.type = type
        self.relabelled = None
        self._labels: dict[Any, int] = {}
        self._values: dict[int, Any] = {}
        self._order: list[Any] = []
        self._generation = 0
        self._size = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def nbytes(self) -> int:
        """The memory of values and labels, about: what Python says of its objects."""
        return sum(map(sys.getsizeof, (self._labels, self._values, self._order))) + 32 * len(self) + self._size

    def encode(self, column: pa.Array) -> Codes:
        """The labels of a column's values, -1 for nulls. Raises TypeError if it is not of the labels' type."""
        _check(column, self.type)
        self.relabelled = None
        encoded = column.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        fresh = sorted(value for value in distinct if value not in self._labels)
        if fresh:
            self._insert(fresh)
        known = np.array([*map(self._labels.__getitem__, distinct), -1], np.int64)
        return known[_numbers(encoded.indices, -1)]

    def decode(self, codes: Codes, valid: Flags | None = None) -> pa.Array:
        """The values of labels; null for what is no label, and where not valid."""
        encoded = _indices(codes, valid).dictionary_encode()
        values = [self._values.get(label) for label in encoded.dictionary.to_pylist()]
        return pa.array(values, self.type).take(encoded.indices)

    def compact(self, live: Codes) -> Mapping:
        """Keep the values of these labels only, and spread their labels evenly.

        Returns the function from old labels to new ones: what is no label stays as it is, dropped ones become -1.
        """
        old = self._sorted_labels()
        wanted = set(np.unique(live).tolist())
        order = [value for label, value in zip(old.tolist(), self._order, strict=True) if label in wanted]
        kept = old[np.isin(old, live)]
        self._relabel(order, lambda labels: None)
        return _mapping(kept, self._sorted_labels(), lambda codes: np.isin(codes, old))

    def mark(self) -> Any:
        """The state of now, for `rollback`; takes no time."""
        return self._generation, len(self._labels)

    def rollback(self, mark: Any) -> None:
        """Forget the values that were encoded since `mark`.

        If labels were relabelled or compacted since, the values and their new labels stay: the caller keeps its states
        as it has mapped them, and the values that no state refers to do no harm.
        """
        generation, count = mark
        if generation != self._generation:
            return
        while len(self._labels) > count:
            value, label = self._labels.popitem()  # the last that was added
            self._values.pop(label, None)
            place = bisect_left(self._order, value)
            if place < len(self._order) and self._order[place] == value:
                del self._order[place]
            self._size -= sys.getsizeof(value)
        if not len(self._order) == len(self._values) == count:  # an interrupt has come between them
            order = sorted(self._labels)
            values = {label: value for value, label in self._labels.items()}
            all_at_once(attributes(self, _order=order, _values=values, _size=sum(map(sys.getsizeof, order))))

    def _insert(self, fresh: list[Any]) -> None:
        """Give labels to new values, which are sorted."""
        places = [bisect_left(self._order, value) for value in fresh]
        found = self._room(places)
        if found is None:
            old, values = self._sorted_labels(), self._order

            def relabelled(labels: dict[Any, int]) -> Mapping:
                new = np.fromiter(map(labels.__getitem__, values), np.int64, len(values))
                return _mapping(old, new, lambda codes: np.zeros(len(codes), np.bool_))

            self._relabel(sorted(values + fresh), relabelled)
            return
        if len(fresh) <= _ONE_BY_ONE:
            for place, value in zip(reversed(places), reversed(fresh), strict=True):
                self._order.insert(place, value)
        else:
            self._order = sorted(self._order + fresh)
        self._labels.update(zip(fresh, found, strict=True))
        self._values.update(zip(found, fresh, strict=True))
        self._size += sum(map(sys.getsizeof, fresh))

    def _room(self, places: list[int]) -> list[int] | None:
        """Labels for new values before these places of the order; None if there is no room for all of them."""
        found: list[int] = []
        cuts = [0, *(i for i in range(1, len(places)) if places[i] != places[i - 1]), len(places)]
        for start, stop in pairwise(cuts):
            labels = self._between(places[start], stop - start)
            if labels is None:
                return None
            found.extend(labels)
        return found

    def _between(self, place: int, count: int) -> list[int] | None:
        """Labels for so many values before one place: in steps at the ends, else evenly spaced in the gap."""
        order = self._order
        low = self._labels[order[place - 1]] if place else 0
        high = self._labels[order[place]] if place < len(order) else END
        if not order:
            low = max((END - STEP * count) // 2, 0)
        if place == len(order) and low + STEP * count < END:
            return [low + STEP * (i + 1) for i in range(count)]
        if place == 0 and high - STEP * count > 0:
            return [high - STEP * (count - i) for i in range(count)]
        gap = high - low
        return [low + gap * (i + 1) // (count + 1) for i in range(count)] if gap > count else None

    def _relabel(self, order: list[Any], relabelled: Callable[[dict[Any, int]], Mapping | None]) -> None:
        """Take these values, and spread their labels evenly over the middle half: appending is to find room."""
        gap = END // 2 // (len(order) + 1)
        labels = [END // 4 + gap * (i + 1) for i in range(len(order))]
        named, values = dict(zip(order, labels, strict=True)), dict(zip(labels, order, strict=True))
        all_at_once(
            attributes(
                self,
                relabelled=relabelled(named),
                _order=order,
                _labels=named,
                _values=values,
                _generation=self._generation + 1,
                _size=sum(map(sys.getsizeof, order)),
            )
        )

    def _sorted_labels(self) -> Codes:
        return np.fromiter(map(self._labels.__getitem__, self._order), np.int64, len(self._order))


def _mapping(old: Codes, new: Codes, known: Callable[[Codes], Flags]) -> Mapping:
    """The function from sorted old codes to new ones; of others, those that were known become -1."""

    def mapped(codes: Codes) -> Codes:
        rest: Codes = np.where(known(codes), -1, codes)
        if not len(old):
            return rest
        places = np.minimum(np.searchsorted(old, codes), len(old) - 1)
        return np.where(old[places] == codes, new[places], rest)

    return mapped


def _check(column: pa.Array, kind: pa.DataType) -> None:
    if column.type != kind:
        raise TypeError(f"values of type {kind} are expected, not {column.type}")


def _own(column: pa.Array) -> pa.Array:
    """The column without the rest of a larger one that it is a slice of."""
    if column.get_total_buffer_size() <= 2 * column.nbytes + 256:
        return column
    return pa.concat_arrays([column, column[:0]])


def _mergeable(one: pa.Array, two: pa.Array) -> bool:
    return bool(one.nbytes + two.nbytes <= LARGEST_CHUNK)


def _indices(values: Codes, valid: Flags | None = None) -> pa.Array:
    """Integers as a column, in the same memory; null where not valid."""
    mask = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [mask, data])


def _numbers(indices: pa.Array, null: int) -> Codes:
    """Indices of a dictionary as an array."""
    if indices.null_count:
        indices = indices.fill_null(null)
    found: Codes = indices.to_numpy(zero_copy_only=False)
    return found
