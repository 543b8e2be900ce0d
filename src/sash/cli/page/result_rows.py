"""The newest results of a key as JSON: for the chart and the table of a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sash.cli.page.newest_results import ChosenKey
from sash.pipeline.json_values import encode_json
from sash.windows.duration import UNITS

EXACT = 2**53
"""Integers from here on are sent as strings: a browser would round them."""


def results_json(chosen: ChosenKey, by: tuple[str, ...], on: str | None, inputs: Sequence[str]) -> dict[str, Any]:
    """Rows of a key, with the positions on the axis and the numeric columns of a chart.

    chosen: the key and its rows.
    by, on: the key columns and the time column of the query.
    inputs: the columns of its rows; aggregates come before them.
    """
    table = chosen.table
    assert table is not None
    names = [name for name in table.column_names if name not in by]
    axis = next((name for name in ("window_end", on) if name in names), None)
    rows = [_row(row) for batch in table.select(names).to_batches() for row in encode_json(batch)]
    positions = None if axis is None else _positions(table[axis])
    measures = [name for name in names if name not in _not_measured(axis, on) and _is_number(table.schema.field(name))]
    measures.sort(key=lambda name: name in inputs)
    return {
        "columns": names,
        "rows": rows,
        "axis": axis,
        "axis_kind": "order" if positions is None else "time" if _is_time(table.schema.field(axis).type) else "number",
        "positions": [*range(len(rows))] if positions is None else positions,
        "measures": measures,
        "series": "window" if "window" in names else None,
        "skipped": chosen.skipped,
    }


def _not_measured(axis: str | None, on: str | None) -> set[str | None]:
    return {axis, on, "window", "window_start", "window_end", "_row", "_revision", "_late"}


def _row(text: bytes) -> list[Any]:
    return [
        str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= EXACT else value
        for value in json.loads(text).values()
    ]


def _is_number(field: pa.Field) -> bool:
    dtype = field.type
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))


def _is_time(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) or pa.types.is_date(dtype))


def _positions(column: pa.ChunkedArray) -> list[float | None] | None:
    """Times in milliseconds since the epoch, numbers unchanged; None if the column is neither."""
    dtype = column.type
    if pa.types.is_date(dtype):
        column, dtype = column.cast(pa.timestamp("ms")), pa.timestamp("ms")
    if pa.types.is_timestamp(dtype):
        return [
            None if value is None else value * UNITS[dtype.unit] / 1e6 for value in column.cast(pa.int64()).to_pylist()
        ]
    return column.cast(pa.float64(), safe=False).to_pylist() if _is_number(column) else None
