"""What belongs to waiting rows beside their aggregates: their columns, and tie-breakers as integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.engine.arrow_arrays import array
from sash.engine.input_encoding import numbers
from sash.engine.value_dictionary import RankLabels

Ints = NDArray[np.int64]

LARGEST_CHUNK = 1 << 30
"""Bytes of a merged chunk, at most: offsets of strings and lists have 32 bits."""

SMALLEST_CHUNK = 1024
"""Rows up to which chunks are always merged: to copy them costs less than to take rows from one more chunk."""

FEW_RUNS = 16
"""Runs of rows that are joined as slices; more are taken one by one."""

_UNCHECKED = pc.TakeOptions(boundscheck=False)


class Chunk(NamedTuple):
    """Some rows of a log."""

    rows: pa.RecordBatch
    length: int
    nbytes: int


class RowLog:
    """Record batches one after the other; a row's code is its place.

    Neighbours of similar size are merged, so that n rows form O(log n) batches and a row is copied O(log n) times.

    >>> log = RowLog(pa.schema([("x", pa.int64())]))
    >>> codes = [log.append(pa.record_batch({"x": part})) for part in ([1, 2], [3])]
    >>> codes[1].tolist(), log.take(np.array([2, 0])).to_pydict()
    ([2], {'x': [3, 1]})
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._state: tuple[tuple[Chunk, ...], Ints] = ((), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self._state[1][-1])

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return sum(chunk.nbytes for chunk in self._state[0])

    def append(self, batch: pa.RecordBatch) -> Ints:
        """Append rows; their codes are consecutive."""
        first = len(self)
        if batch.num_rows:
            last = Chunk(batch, batch.num_rows, int(batch.nbytes))
            chunks = list(self._state[0])
            while chunks and _mergeable(chunks[-1], last):
                before = chunks.pop()
                joined = pa.concat_batches([before.rows, last.rows])
                last = Chunk(joined, before.length + last.length, before.nbytes + last.nbytes)
            if last.rows is batch and batch.get_total_buffer_size() > 2 * last.nbytes + 1024:
                last = Chunk(_copied(batch), last.length, last.nbytes)
            chunks.append(last)
            starts = accumulate((chunk.length for chunk in chunks), initial=0)
            self._state = tuple(chunks), np.array([*starts], np.int64)
        return np.arange(first, first + batch.num_rows)

    def take(self, codes: Ints) -> pa.RecordBatch:
        """The rows of codes, in this order."""
        chunks, starts = self._state
        count = len(codes)
        if not count:
            return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in self.schema], schema=self.schema)
        within = starts.searchsorted(codes, side="right") - 1
        edges = ((codes[1:] - codes[:-1] != 1) | (within[1:] != within[:-1])).nonzero()[0] + 1
        if len(edges) < FEW_RUNS:  # rows that came one after the other are slices
            bounds = [0, *edges.tolist(), count]
            parts = [
                chunks[within.item(a)].rows.slice(codes.item(a) - starts.item(within.item(a)), b - a)
                for a, b in pairwise(bounds)
            ]
            return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        used = np.flatnonzero(np.bincount(within)).tolist()
        if len(used) == 1:
            return _taken(chunks[used[0]].rows, codes - starts[used[0]])
        parts, places, done = [], np.empty(count, np.int64), 0
        for number in used:
            rows = np.flatnonzero(within == number)
            parts.append(_taken(chunks[number].rows, codes[rows] - starts[number]))
            places[rows] = np.arange(done, done + len(rows))
            done += len(rows)
        return _taken(pa.concat_batches(parts), places)

    def mark(self) -> Any:
        """The state of now, for `rollback`."""
        return self._state

    def rollback(self, mark: Any) -> None:
        """Return to the state at `mark`."""
        self._state = mark


class BatchColumns(dict[str, pa.Array]):
    """The columns of a batch by name, each fetched once: that takes 1.5 µs."""

    def __init__(self, table: pa.RecordBatch) -> None:
        super().__init__()
        self.table = table

    def __missing__(self, name: str) -> pa.Array:
        found = self[name] = self.table.column(name)
        return found


class RowColumns:
    """The columns of rows by row number: those of a fixed width as arrays, the others in a log.

    >>> rows = RowColumns(pa.schema([("x", pa.int32()), ("s", pa.string())]))
    >>> rows.grow(4)
    >>> batch = pa.record_batch([pa.array([7, None], pa.int32()), ["a", "b"]], names=["x", "s"])
    >>> rows.set(np.array([3, 1]), BatchColumns(batch), {})
    >>> [column.to_pylist() for column in rows.take(np.array([1, 3]))]
    [[None, 7], ['b', 'a']]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.fixed = {field.name: np.zeros(0, width) for field in schema if (width := _width(field.type)) is not None}
        self.valid: dict[str, NDArray[np.bool_]] = {}
        """Of columns of a fixed width that have had a null."""
        self.log = RowLog(pa.schema([field for field in schema if field.name not in self.fixed]))
        self.code = np.zeros(0, np.int64)
        self._types = [(field.name, field.type) for field in schema]  # a schema makes its fields anew each time

    def grow(self, length: int) -> None:
        """Make room for so many row numbers."""
        self.code = longer(self.code, length)
        self.valid = {name: longer(flags, length) for name, flags in self.valid.items()}
        self.fixed = {name: longer(values, length) for name, values in self.fixed.items()}

    def set(self, rids: Ints, columns: BatchColumns, known: Mapping[str, NDArray[Any]]) -> None:
        """Keep the columns of rows; `known` are those without nulls that are arrays already."""
        if not len(rids):
            return
        for name, values in self.fixed.items():
            if name in known and name not in self.valid:
                values[rids] = known[name]
                continue
            column = columns[name]
            data = column.buffers()[1]
            values[rids] = np.frombuffer(data, values.dtype, len(rids), column.offset * values.itemsize)
            if column.null_count or name in self.valid:
                if name not in self.valid:
                    self.valid[name] = np.ones(len(values), np.bool_)
                self.valid[name][rids] = column.is_valid().to_numpy(zero_copy_only=False)
        if len(self.log.schema):
            self.code[rids] = self.log.append(columns.table.select(self.log.schema.names))

    def take(self, rids: Ints) -> list[pa.Array]:
        """The columns of some rows."""
        logged = iter(self.log.take(self.code[rids]).columns if len(self.log.schema) else ())
        found = []
        for name, kind in self._types:
            values = self.fixed.get(name)
            if values is None:
                found.append(next(logged))
                continue
            flags = self.valid.get(name)
            mask = None if flags is None else pa.py_buffer(np.packbits(flags[rids], bitorder="little"))
            found.append(pa.Array.from_buffers(kind, len(rids), [mask, pa.py_buffer(values[rids])]))
        return found

    def batch(self, rids: Ints) -> pa.RecordBatch:
        """Some rows."""
        return pa.RecordBatch.from_arrays(self.take(rids), schema=self.schema)

    def compact(self, rows: int, live: Callable[[], Ints]) -> None:
        """Drop rows from the log that are not kept, where most are not; `rows` are."""
        if len(self.log) > 4096 and len(self.log) > 4 * rows:
            kept, log, codes = live(), RowLog(self.log.schema), self.code.copy()
            codes[kept] = log.append(self.log.take(codes[kept]))
            self.log, self.code = log, codes  # both at once: a call may be interrupted

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        arrays = (*self.fixed.values(), *self.valid.values(), self.code)
        return sum(part.nbytes for part in arrays) + self.log.nbytes


def _width(kind: pa.DataType) -> str | None:
    """How the values of a column of a fixed width are stored; None for other columns."""
    fixed = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and kind.bit_width in (8, 16, 32, 64)
    return f"i{kind.bit_width // 8}" if fixed and not pa.types.is_decimal(kind) else None


def longer(values: NDArray[Any], length: int) -> NDArray[Any]:
    """The values at the start of a longer array, zeros behind them."""
    made = np.zeros((length, *values.shape[1:]), values.dtype)
    made[: len(values)] = values
    return made


class TieCodes:
    """Tie-breakers as two integers each, in the order of their values: NaN behind all numbers, nulls last.

    >>> ties = TieCodes([pa.float64(), pa.string()])
    >>> codes = ties.encode([pa.array([None, -0.5, float("nan"), 2.0]), pa.array(["b", None, "a", "a"])])
    >>> np.lexsort(codes.T[::-1]).tolist()
    [1, 3, 2, 0]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.labels = {k: RankLabels(kind) for k, kind in enumerate(self.types) if not _is_number(kind)}
        self.relabelled: dict[int, Callable[[Ints], Ints]] = {}
        """By column of codes: how the last `encode` has changed older ones."""

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        """The codes of rows, two columns for each tie-breaker."""
        found = np.zeros((len(columns[0]) if columns else 0, 2 * len(self.types)), np.int64)
        self.relabelled = {}
        for k, column in enumerate(columns):
            if k in self.labels:
                codes = self.labels[k].encode(column)
                if self.labels[k].relabelled is not None:
                    self.relabelled[2 * k + 1] = self.labels[k].relabelled  # type: ignore[assignment]
            else:
                values = numbers(column.cast(pa.float64()) if pa.types.is_floating(column.type) else column)
                codes = _ordered(values)
                if values.dtype.kind == "f":
                    found[np.isnan(values), 2 * k] = 1
                    codes[np.isnan(values)] = 0
            found[:, 2 * k + 1] = codes
            if column.null_count:
                nulls = column.is_null().to_numpy(zero_copy_only=False)
                found[nulls, 2 * k], found[nulls, 2 * k + 1] = 2, 0
        return found

    def compact(self, rows: int, live: Callable[[], Ints]) -> dict[int, Callable[[Ints], Ints]]:
        """Drop labels that no row has, where most are unused. Returns how codes change, by their column."""
        found: dict[int, Callable[[Ints], Ints]] = {}
        for k, labels in self.labels.items():
            if len(labels) > 4096 and len(labels) > 4 * rows:
                found[2 * k + 1] = labels.compact(live()[:, 2 * k + 1])
        return found

    def mark(self) -> Any:
        """The state of now, for `rollback`."""
        return [(labels, labels.mark()) for labels in self.labels.values()]

    def rollback(self, mark: Any) -> None:
        """Forget the values that were encoded since `mark`."""
        for labels, before in mark:
            labels.rollback(before)

    @property
    def nbytes(self) -> int:
        """The memory of the labels."""
        return sum(labels.nbytes for labels in self.labels.values())


def _is_number(kind: pa.DataType) -> bool:
    fixed = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(fixed or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


def _ordered(values: NDArray[Any]) -> Ints:
    """Numbers as integers in the same order."""
    if values.dtype.kind == "f":
        bits = (values + 0.0).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64)
    return values.astype(np.int64)


def _taken(batch: pa.RecordBatch, at: Ints) -> pa.RecordBatch:
    return pc.call_function("take", [batch, array(at)], _UNCHECKED)


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.concat_arrays([column, column[:0]]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _mergeable(one: Chunk, two: Chunk) -> bool:
    """Is the older one smaller, or so small that to copy it costs less than to look into two?"""
    alike = one.length < 2 * two.length or one.length + two.length <= SMALLEST_CHUNK
    return alike and one.nbytes + two.nbytes <= LARGEST_CHUNK
