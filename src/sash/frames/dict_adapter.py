"""Dicts of columns as frames: NumPy arrays, or lists and other sequences.

NumPy arrays: a masked value is null, NaN is a value; null results are NaN, NaT, None, or masked.

Dicts of sequences of Python: lists, tuples, and columns of other libraries among them. Results are lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.exact_columns import column_of, inferred_column, object_column
from sash.frames.adapter import FrameResult, Ints, not_in_arrow

# --- Numpy adapter ---


class NumpyAdapter:
    """Columns by name. Raises TypeError or ValueError, naming the column, if they do not form a table."""

    def __init__(self, columns: dict[Any, Any]) -> None:
        self.columns = columns
        self.names: list[str] = list(columns)
        for name, column in columns.items():
            if not isinstance(name, str):
                raise TypeError(f"column names must be text; got the column {name!r}, a {type(name).__name__}")
            if column.ndim != 1:
                raise ValueError(f"the column {name!r} has {column.ndim} dimensions; it must have one")
        first = self.names[0]
        self.rows = len(columns[first])
        for name, column in columns.items():
            if len(column) != self.rows:
                raise ValueError(f"the column {name!r} has {len(column)} rows, and {first!r} has {self.rows}")

    def column(self, name: str) -> pa.Array:
        column = self.columns[name]
        mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
        try:
            if column.dtype == object:
                return object_column(name, column if mask is None else column.filled(None), from_pandas=False)
            if column.dtype.kind in "US":
                return inferred_column(name, column)
            return pa.array(np.asarray(np.ma.getdata(column)), mask=mask)
        except pa.ArrowException as error:
            raise not_in_arrow(name, column.dtype, error) from error

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> dict[str, Any]:
        given = self.columns if kept is None else {name: column[kept] for name, column in self.columns.items()}
        return {**given, **self.of_slides(results)}

    def of_slides(self, results: Sequence[FrameResult]) -> dict[str, Any]:
        return {one.name: _array(one) for one in results}


class ArrayAdapter(NumpyAdapter):
    """An array, whose results are an array."""

    def __init__(self, array: Any, name: str) -> None:
        if array.ndim != 1:
            raise ValueError(f"an array must have one dimension, and this one has {array.ndim}: write a dict of arrays")
        super().__init__({name: array})

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        assert kept is None
        return _array(results[0])


def _array(result: FrameResult) -> Any:
    numbers = result.take_numbers()
    return as_numpy(result.values) if numbers is None else numbers


def as_numpy(values: pa.Array) -> Any:
    """A column of results as an array: integers and booleans with nulls are masked, since floats would lose digits."""
    kind = values.type
    masked = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if masked and values.null_count:
        mask = values.is_null().to_numpy(zero_copy_only=False)
        filled = values.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
        return np.ma.MaskedArray(filled, mask=mask)
    return values.to_numpy(zero_copy_only=False)


# --- Sequence adapter ---


class SequenceAdapter:
    """Columns by name. Raises TypeError or ValueError, naming the column, if they do not form a table."""

    def __init__(self, columns: dict[Any, Any]) -> None:
        self.columns = columns
        self.names: list[str] = list(columns)
        first = self.names[0]
        self.rows = len(columns[first])
        for name, column in columns.items():
            if not isinstance(name, str):
                raise TypeError(f"column names must be text; got the column {name!r}, a {type(name).__name__}")
            if len(column) != self.rows:
                raise ValueError(f"the column {name!r} has {len(column)} rows, and {first!r} has {self.rows}")

    def column(self, name: str) -> pa.Array:
        return column_of(name, self.columns[name], None)

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> dict[str, Any]:
        given = self.columns
        if kept is not None:
            given = {name: self._taken(name, kept) for name in self.names}
        return {**given, **self.of_slides(results)}

    def _taken(self, name: str, kept: Ints) -> Any:
        values = self.columns[name]
        if isinstance(values, list | tuple):
            return [values[place] for place in kept.tolist()]
        return _listed(self.column(name).take(array(kept)))

    def of_slides(self, results: Sequence[FrameResult]) -> dict[str, Any]:
        return {one.name: _listed(one.values) for one in results}


def _listed(values: pa.Array) -> list[Any]:
    """Values as objects of Python."""
    found: list[Any] = values.to_pylist()
    return found
