"""Dicts of columns as frames.

of NumPy arrays     a masked value is null, NaN is a value; null results are NaN, NaT, None, or masked
of sequences        lists, tuples, and columns of other libraries among them; results are lists
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.exact_columns import column_of, inferred_column, object_column
from sash.frames.adapter import FrameResult, Ints, not_in_arrow


class SequenceAdapter:
    """Columns by name. Raises TypeError or ValueError, naming the column, if they do not form a table."""

    def __init__(self, columns: dict[Any, Any]) -> None:
        self.columns = columns
        self.names: list[str] = list(columns)
        for name, column in columns.items():
            if not isinstance(name, str):
                raise TypeError(f"column names must be text; got the column {name!r}, a {type(name).__name__}")
            if getattr(column, "ndim", 1) != 1:
                raise ValueError(f"the column {name!r} has {column.ndim} dimensions; it must have one")
        first = self.names[0]
        self.rows = len(columns[first])
        for name, column in columns.items():
            if len(column) != self.rows:
                raise ValueError(f"the column {name!r} has {len(column)} rows, and {first!r} has {self.rows}")

    def column(self, name: str) -> pa.Array:
        return column_of(name, self.columns[name], None)

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> dict[str, Any]:
        given = self.columns if kept is None else {name: self._taken(name, kept) for name in self.names}
        return {**given, **self.of_slides(results)}

    def of_slides(self, results: Sequence[FrameResult]) -> dict[str, Any]:
        return {one.name: one.column.arrow().to_pylist() for one in results}

    def _taken(self, name: str, kept: Ints) -> Any:
        """The rows `kept` of a column."""
        values = self.columns[name]
        if isinstance(values, list | tuple):
            return [values[place] for place in kept.tolist()]
        return self.column(name).take(array(kept)).to_pylist()


class NumpyAdapter(SequenceAdapter):
    """Arrays by name."""

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

    def of_slides(self, results: Sequence[FrameResult]) -> dict[str, Any]:
        found = {}
        for one in results:
            numbers = one.column.take_numbers()
            found[one.name] = as_numpy(one.column.arrow()) if numbers is None else numbers
        return found

    def _taken(self, name: str, kept: Ints) -> Any:
        return self.columns[name][kept]


def as_numpy(values: pa.Array) -> Any:
    """A column of results as an array: integers and booleans with nulls are masked, since floats would lose digits."""
    kind = values.type
    masked = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if masked and values.null_count:
        mask = values.is_null().to_numpy(zero_copy_only=False)
        filled = values.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
        return np.ma.MaskedArray(filled, mask=mask)
    return values.to_numpy(zero_copy_only=False)
