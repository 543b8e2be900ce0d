"""Every kind of frame: made of an Arrow table, and back as rows. One test runs on all of them.

`lossy`: nulls of floats come back as NaN, as the kind has nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

Rows = list[dict[str, Any]]

_NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.int32(): pd.Int32Dtype()}


@dataclass(frozen=True)
class FrameKind:
    """A kind of frame: its conversion from a table, the type of results, and their conversion to a table."""

    make: Callable[[pa.Table], Any]
    comes_back: Any
    back: Callable[[Any], pa.Table]
    lossy: bool = False

    def rows(self, frame: Any) -> Rows:
        """The frame as a list of dicts."""
        return self.back(frame).to_pylist()


def _to_numpy(table: pa.Table) -> dict[str, Any]:
    def array(column: pa.Array) -> Any:
        mask = column.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_string(column.type):
            return column.to_numpy(zero_copy_only=False)
        filled = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
        return np.ma.MaskedArray(filled.to_numpy(zero_copy_only=False), mask=mask)

    return {name: array(table.column(name).combine_chunks()) for name in table.schema.names}


def _of_numpy(columns: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(np.ma.getdata(c), mask=np.ma.getmaskarray(c)) for name, c in columns.items()})


def _batch(table: pa.Table) -> pa.RecordBatch:
    columns = [pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _of_pandas(frame: Any) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


KINDS = {
    "pyarrow.Table": FrameKind(lambda table: table, pa.Table, lambda table: table),
    "pyarrow.RecordBatch": FrameKind(_batch, pa.RecordBatch, lambda batch: pa.Table.from_batches([batch])),
    "pyarrow.RecordBatchReader": FrameKind(
        lambda table: table.to_reader(3), pa.RecordBatchReader, lambda reader: reader.read_all()
    ),
    "polars.DataFrame": FrameKind(pl.from_arrow, pl.DataFrame, lambda frame: frame.to_arrow()),
    "polars.LazyFrame": FrameKind(
        lambda table: pl.DataFrame(table).lazy(), pl.LazyFrame, lambda frame: frame.collect().to_arrow()
    ),
    "pandas.DataFrame": FrameKind(
        lambda table: table.to_pandas(types_mapper=_NULLABLE.get), pd.DataFrame, _of_pandas, lossy=True
    ),
    "pandas.DataFrame of Arrow": FrameKind(
        lambda table: table.to_pandas(types_mapper=pd.ArrowDtype), pd.DataFrame, _of_pandas, lossy=True
    ),
    "dict of NumPy": FrameKind(_to_numpy, dict, _of_numpy, lossy=True),
    "dict of lists": FrameKind(lambda table: table.to_pydict(), dict, pa.table),
    "duckdb": FrameKind(lambda table: duckdb.connect().from_arrow(table), pa.Table, lambda table: table),
}
"""Every kind by name."""


def blurred(rows: Rows) -> Rows:
    """Rows in which NaN is null."""
    return [{name: None if _is_nan(value) else value for name, value in row.items()} for row in rows]


def without_nan(table: pa.Table) -> pa.Table:
    """A table in which NaN is null."""
    columns = [
        pa.array([None if _is_nan(value) else value for value in column.to_pylist()], column.type)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
