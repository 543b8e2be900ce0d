"""pandas frames. NaN in a column of NumPy floats is null, as in pandas; queries may name index levels as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array
from sash.columns.exact_columns import object_column
from sash.frames.adapter import FrameResult, Ints, not_in_arrow, series_hint
from sash.kernels.column.column_kernels import RowThreads

INDEX = "index"
"""The name of an index that has none, as in `reset_index`."""

SHORT, FEW = 8192, 8
"""In frames of up to this many rows a copy of each new column is cheaper than to make the frame anew, unless it has
few columns: 45 µs, and 22 µs with one column, 33 with five, 69 with twenty."""

NARROW = 64
"""Frames of up to this many columns hold each separately, which is cheap; pandas handles wide frames as blocks."""


def pandas_adapter(data: Any) -> PandasAdapter:
    """An adapter for pandas. Raises TypeError for other data."""
    if not isinstance(data, pd.DataFrame):
        raise TypeError(f"a query runs on a pandas DataFrame; got a {type(data).__qualname__}{series_hint(data)}")
    return PandasAdapter(data)


class PandasAdapter:
    """A DataFrame. Its columns are found by name, and after them the levels of its index.

    Columns whose names are not text are not found: a query cannot name them. An index without a name is "index".
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        levels = [name for name in frame.index.names if isinstance(name, str)]
        levels += [INDEX] if [*frame.index.names] == [None] else []
        columns = [name for name in frame.columns if isinstance(name, str)]
        self.names: list[str] = [*columns, *(name for name in levels if name not in columns)]
        self.rows: int = len(frame)

    def series(self, name: str) -> Any:
        """A column as pandas has it, or a level of the index."""
        if name not in self.frame.columns:
            index = self.frame.index
            return (index if [*index.names] == [None] else index.get_level_values(name)).to_series()
        if self.frame.columns.is_unique:
            return self.frame[name]
        return self.frame.iloc[:, list(self.frame.columns).index(name)]

    def column(self, name: str) -> pa.Array:
        column = self.series(name)
        if isinstance(column.dtype, pd.SparseDtype):
            column = column.sparse.to_dense()
        if isinstance(column.dtype, np.dtype) and column.dtype.isnative:
            values = column.to_numpy()
            if _without_nulls(values):
                return array(values)
        if column.dtype == object:
            return object_column(name, column, from_pandas=True)
        try:
            return pa.Array.from_pandas(column)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise not_in_arrow(name, column.dtype, error) from error

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        # without copying the columns
        frame = self.frame if kept is None else self.frame.iloc[kept]
        made = {one.name: self._as_pandas(one) for one in results}
        plain = type(frame) is pd.DataFrame and frame.columns.nlevels == 1
        narrow = plain and frame.columns.is_unique and len(frame.columns) < NARROW
        if narrow and (len(frame) > SHORT or len(frame.columns) <= FEW):
            return _extended(frame, made)
        frame = frame.copy(deep=False)
        if narrow:
            for name, values in made.items():
                frame.insert(len(frame.columns), name, values)
            return frame
        for name, values in made.items():
            frame[name] = values
        return frame

    def of_slides(self, results: Sequence[FrameResult]) -> Any:
        return pd.DataFrame({one.name: self._as_pandas(one) for one in results})

    def _as_pandas(self, result: FrameResult) -> Any:
        """Results as a pandas array; with the type of their source column, if they have one."""
        found = result.source_in(self)
        kind = None if found is None else found[0].series(found[1]).dtype
        numbers = result.column.take_numbers()
        if numbers is not None and kind in (None, numbers.dtype):
            return numbers
        if isinstance(kind, pd.ArrowDtype):  # null is not NaN here
            return pd.arrays.ArrowExtensionArray(pa.chunked_array([result.column.arrow().cast(kind.pyarrow_dtype)]))
        if isinstance(kind, pd.Float64Dtype | pd.Float32Dtype):
            return _masked(result.column.arrow(), kind.numpy_dtype)
        values = as_pandas(result.column.arrow())
        if kind is None:
            return values
        if values.dtype == kind or not isinstance(kind, pd.api.extensions.ExtensionDtype):
            return values
        return pd.Series(values).astype(kind).array


class PandasSeriesAdapter(PandasAdapter):
    """A Series of pandas, whose results are a Series."""

    def __init__(self, series: Any, name: str) -> None:
        self.given, self.frame = series, series.to_frame(name)
        self.names, self.rows = [name], len(series)

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        assert kept is None
        values = self._as_pandas(results[0])
        return pd.Series(values, index=self.given.index, name=self.given.name, copy=False)


def _extended(frame: Any, made: dict[str, Any]) -> Any:
    """The frame with more columns, in writable memory; assigning columns would copy each.

    Only columns from Arrow, which are read-only, are copied.
    """
    columns = frame.columns
    made = {name: values if isinstance(values, np.ndarray) else values.copy() for name, values in made.items()}
    extended = pd.DataFrame({**dict(frame.items()), **made}, index=frame.index, copy=False)
    if columns.name is not None or columns.dtype != extended.columns.dtype:
        for name in made:
            columns = columns.insert(len(columns), name)
        extended.columns = columns
    return extended.__finalize__(frame)


def _without_nulls(values: NDArray[Any]) -> bool:
    """Are they numbers or times without NaN or NaT? Such a column is not copied."""
    if values.dtype.kind in "iu":
        return True
    if values.dtype.char in "fd":
        return not any(RowThreads().run(lambda first, stop: np.isnan(values[first:stop].min(initial=0.0)), len(values)))
    if values.dtype.kind == "M":
        return bool(values.view(np.int64).min(initial=0) > np.iinfo(np.int64).min)
    return False


def _masked(values: pa.Array, kind: np.dtype[Any]) -> Any:
    """Floats in a nullable array, in which NaN is a value and null is not."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return pd.arrays.FloatingArray(values.fill_null(0.0).to_numpy(zero_copy_only=False).astype(kind), missing)


def as_pandas(values: pa.Array) -> Any:
    """A column of results: integers and booleans with nulls are nullable arrays, since floats would lose digits."""
    kind = values.type
    if values.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        mask = values.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_boolean(kind):
            return pd.arrays.BooleanArray(values.fill_null(False).to_numpy(zero_copy_only=False), mask)
        return pd.arrays.IntegerArray(np.array(values.fill_null(0)), mask)
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
    return values.to_pandas().array
