"""Append-only logs of values and of rows: a code is a position in the log, which consists of a few Arrow chunks.

    PlaceLog      any value                      "b" "a" null "b"  ──▶  0 1 2 3
    RowLog        rows of a record batch

Neighbours of similar size are merged, so that n values form O(log n) chunks and a value is copied O(log n) times.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.arrow_arrays import array, no_rows
from sash.kernels.loops.array_types import Flags, Ints

CodeMapping = Callable[[Ints], Ints]
"""From old codes to new ones."""

LARGEST_CHUNK = 1 << 30
"""The most bytes of a merged chunk: offsets of strings and lists have 32 bits."""

FEW_RUNS = 16
"""Runs of consecutive codes that are joined as slices; more are taken one by one."""

_UNCHECKED = pc.TakeOptions(boundscheck=False)


class Chunk(NamedTuple):
    """Consecutive values or rows of a log."""

    data: Any
    length: int
    nbytes: int


class ChunkLog:
    """A list of chunks: Arrow arrays or record batches. Its state is one tuple, so that rollback is an assignment."""

    smallest = 0
    """Values up to which chunks are always merged."""

    def __init__(self) -> None:
        self._state: tuple[tuple[Chunk, ...], Ints] = ((), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self._state[1][-1])

    @property
    def chunks(self) -> list[Any]:
        """The current chunks."""
        return [chunk.data for chunk in self._state[0]]

    @property
    def nbytes(self) -> int:
        """The memory of the values."""
        return sum(chunk.nbytes for chunk in self._state[0])

    def append(self, data: Any) -> Ints:
        """Append values; their codes are consecutive."""
        first, count = len(self), len(data)
        if count:
            last = Chunk(data, count, int(data.nbytes))
            chunks = list(self._state[0])
            while chunks and self._mergeable(chunks[-1], last):
                before = chunks.pop()
                joined = _concat([before.data, last.data])
                last = Chunk(joined, before.length + last.length, before.nbytes + last.nbytes)
            if last.data is data and data.get_total_buffer_size() > 2 * last.nbytes + 1024:
                last = Chunk(_copied(data), count, last.nbytes)  # releases the rest of the array that it is a slice of
            self._set([*chunks, last])
        return np.arange(first, first + count)

    def taken(self, codes: Ints) -> Any:
        """The values of codes (one at least), in this order."""
        chunks, starts = self._state
        count = len(codes)
        within = starts.searchsorted(codes, side="right") - 1
        edges = ((codes[1:] - codes[:-1] != 1) | (within[1:] != within[:-1])).nonzero()[0] + 1
        if len(edges) < FEW_RUNS:
            bounds = [0, *edges.tolist(), count]
            parts = [
                chunks[within.item(a)].data.slice(codes.item(a) - starts.item(within.item(a)), b - a)
                for a, b in pairwise(bounds)
            ]
            return parts[0] if len(parts) == 1 else _concat(parts)
        used = np.flatnonzero(np.bincount(within)).tolist()
        if len(used) == 1:
            return _taken(chunks[used[0]].data, codes - starts[used[0]])
        parts, places, done = [], np.empty(count, np.int64), 0
        for number in used:
            rows = np.flatnonzero(within == number)
            parts.append(_taken(chunks[number].data, codes[rows] - starts[number]))
            places[rows] = np.arange(done, done + len(rows))
            done += len(rows)
        return _taken(_concat(parts), places)

    def mark(self) -> Any:
        """The current state, for `rollback`, in constant time; it keeps the current values in memory."""
        return self._state

    def rollback(self, mark: Any) -> None:
        """Restore the state at `mark`: remove appended values, restore compacted ones."""
        self._state = mark

    def _set(self, chunks: list[Chunk]) -> None:
        starts = accumulate((chunk.length for chunk in chunks), initial=0)
        self._state = tuple(chunks), np.array([*starts], np.int64)

    def _mergeable(self, one: Chunk, two: Chunk) -> bool:
        """Whether the older chunk is not much larger, or both are so small that one copy costs less than two chunks."""
        alike = one.length < 2 * two.length or one.length + two.length <= self.smallest
        return alike and one.nbytes + two.nbytes <= LARGEST_CHUNK


class RowLog(ChunkLog):
    """A log of rows in record batches; a row's code is its position.

    >>> log = RowLog(pa.schema([("x", pa.int64())]))
    >>> codes = [log.append(pa.record_batch({"x": part})) for part in ([1, 2], [3])]
    >>> codes[1].tolist(), log.take(np.array([2, 0])).to_pydict()
    ([2], {'x': [3, 1]})
    """

    smallest = 1024

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__()
        self.schema = schema

    def take(self, codes: Ints) -> pa.RecordBatch:
        """The rows of codes, in this order."""
        return self.taken(codes) if len(codes) else no_rows(self.schema)


class PlaceLog(ChunkLog):
    """Codes for payload values: a code is the position of a value in a log; nulls are values.

    Types must be plain: Arrow cannot take values from views.

    >>> log = PlaceLog(pa.string())
    >>> codes = log.encode(pa.array(["x", None, "y"]))
    >>> codes.tolist(), log.decode(np.array([2, 0, 99])).to_pylist()
    ([0, 1, 2], ['y', 'x', None])
    >>> renamed = log.compact(np.array([2]))
    >>> renamed(np.array([2, 99])).tolist(), log.decode(np.array([0])).to_pylist()
    ([0, 99], ['y'])
    """

    def __init__(self, type: pa.DataType) -> None:  # noqa: A002
        super().__init__()
        self.type = type

    def encode(self, column: pa.Array) -> Ints:
        """Append a column; its codes are consecutive. Raises TypeError if it is not of the log's type."""
        require_type(column, self.type)
        return self.append(column)

    def decode(self, codes: Ints, valid: Flags | None = None) -> pa.Array:
        """The values of codes; null for codes out of range, and where not valid."""
        good: Flags = (codes >= 0) & (codes < len(self))
        if valid is not None:
            good &= valid
        if not good.any():
            return pa.nulls(len(codes), self.type)
        if good.all():
            return self.taken(codes)
        return self.taken(codes[good]).take(array(np.cumsum(good) - 1, good))

    def compact(self, live: Ints) -> CodeMapping:
        """Keep only the values of these codes (in any order, with duplicates), and renumber them.

        Returns the function from old codes to new ones: codes out of range stay as they are, dropped ones become -1.
        """
        size = len(self)
        retained = np.unique(live[(live >= 0) & (live < size)])
        values = self.decode(retained)
        self._set([Chunk(values, len(values), int(values.nbytes))] if len(values) else [])
        return code_mapping(retained, np.arange(len(retained)), lambda codes: (codes >= 0) & (codes < size))

    def cut(self, length: int) -> None:
        """Truncate the log to its first `length` values."""
        if length < len(self):
            pairs = zip(self.chunks, self._state[1].tolist(), strict=False)
            parts = [chunk.slice(0, length - start) for chunk, start in pairs if start < length]
            self._set([Chunk(part, len(part), int(part.nbytes)) for part in parts])


def code_mapping(old: Ints, new: Ints, known: Callable[[Ints], Flags]) -> CodeMapping:
    """The mapping of sorted old codes to new ones; other known codes become -1."""

    def mapped(codes: Ints) -> Ints:
        rest: Ints = np.where(known(codes), -1, codes)
        if not len(old):
            return rest
        places = np.minimum(np.searchsorted(old, codes), len(old) - 1)
        return np.where(old[places] == codes, new[places], rest)

    return mapped


def require_type(column: pa.Array, kind: pa.DataType) -> None:
    """Raises TypeError for a column of another type."""
    if column.type != kind:
        raise TypeError(f"values of type {kind} are expected, not {column.type}")


def _concat(parts: list[Any]) -> Any:
    return pa.concat_batches(parts) if isinstance(parts[0], pa.RecordBatch) else pa.concat_arrays(parts)


def _taken(data: Any, at: Ints) -> Any:
    return pc.call_function("take", [data, array(at)], _UNCHECKED)


def _copied(data: Any) -> Any:
    """A copy."""
    if isinstance(data, pa.Array):
        return pa.concat_arrays([data, data[:0]])
    return pa.RecordBatch.from_arrays([_copied(column) for column in data.columns], schema=data.schema)
