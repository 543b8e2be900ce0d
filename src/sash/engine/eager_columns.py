"""The columns of rows that an eager engine retains, and their tie-breakers as integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arrow_arrays import null_mask, validity, words_of
from sash.engine.atomic import all_at_once, attributes
from sash.engine.batch_columns import BatchColumns
from sash.engine.chunk_log import CodeMapping, RowLog
from sash.engine.input_encoding import numbers
from sash.engine.rank_labels import RankLabels
from sash.engine.value_encoder import is_wasteful
from sash.kernels.loops.array_types import Flags, Ints, longer


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
        self.valid: dict[str, Flags] = {}
        """The validity of fixed-width columns that have had a null."""
        self.log = RowLog(pa.schema([field for field in schema if field.name not in self.fixed]))
        self.code = np.zeros(0, np.int64)
        self._types = [(field.name, field.type) for field in schema]  # a schema creates its fields at each access

    def grow(self, length: int) -> None:
        """Reserve space for this many row numbers."""
        self.code = longer(self.code, length)
        self.valid = {name: longer(flags, length) for name, flags in self.valid.items()}
        self.fixed = {name: longer(values, length) for name, values in self.fixed.items()}

    def set(self, rids: Ints, columns: BatchColumns, known: Mapping[str, NDArray[Any]]) -> None:
        """Store the columns of rows; `known` are those without nulls that are arrays already."""
        if not len(rids):
            return
        for name, values in self.fixed.items():
            if name in known and name not in self.valid:
                values[rids] = known[name]
                continue
            column = columns.column(name)
            values[rids] = words_of(column, values.dtype)
            if column.null_count or name in self.valid:
                if name not in self.valid:
                    self.valid[name] = np.ones(len(values), np.bool_)
                flags = validity(column)
                self.valid[name][rids] = True if flags is None else flags
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
            mask = None if flags is None else null_mask(flags[rids])
            found.append(pa.Array.from_buffers(kind, len(rids), [mask, pa.py_buffer(values[rids])]))
        return found

    def batch(self, rids: Ints) -> pa.RecordBatch:
        """Some rows as a batch."""
        return pa.RecordBatch.from_arrays(self.take(rids), schema=self.schema)

    def compact(self, rows: int, live: Callable[[], Ints]) -> None:
        """Drop rows from the log that are not retained, if most are not; `rows` is the number of those that are."""
        if is_wasteful(len(self.log), rows):
            retained, log, codes = live(), RowLog(self.log.schema), self.code.copy()
            codes[retained] = log.append(self.log.take(codes[retained]))
            all_at_once(attributes(self, log=log, code=codes))

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        arrays = (*self.fixed.values(), *self.valid.values(), self.code)
        return sum(part.nbytes for part in arrays) + self.log.nbytes


def _width(kind: pa.DataType) -> str | None:
    """The storage type of a fixed-width column; None for other columns."""
    fixed = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and kind.bit_width in (8, 16, 32, 64)
    return f"i{kind.bit_width // 8}" if fixed and not pa.types.is_decimal(kind) else None


class TieCodes:
    """Encode tie-breakers as two integers each, in the order of their values: NaN after all numbers, nulls last.

    >>> ties = TieCodes([pa.float64(), pa.string()])
    >>> codes = ties.encode([pa.array([None, -0.5, float("nan"), 2.0]), pa.array(["b", None, "a", "a"])])
    >>> np.lexsort(codes.T[::-1]).tolist()
    [1, 3, 2, 0]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.labels = {k: RankLabels(kind) for k, kind in enumerate(self.types) if not _is_number(kind)}
        self.relabelled: dict[int, CodeMapping] = {}
        """By column of codes: the mapping by which the last `encode` has changed older codes."""

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

    def compact(self, rows: int, live: Callable[[], Ints]) -> dict[int, CodeMapping]:
        """Drop labels that no row has, if most are unused. Returns the mapping of codes, by column."""
        found: dict[int, CodeMapping] = {}
        for k, labels in self.labels.items():
            if is_wasteful(len(labels), rows):
                found[2 * k + 1] = labels.compact(live()[:, 2 * k + 1])
        return found

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
