"""Compute a query with pandas, polars and DuckDB, if they support it: for `sash bench`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from sash.monoids.algebra import Bound
from sash.plan.query import Query
from sash.windows.duration import UNITS

FUNCTIONS = {
    "Max": "max",
    "Min": "min",
    "Sum": "sum",
    "Mean": "mean",
    "Median": "median",
    "Std": "std",
    "Var": "var",
}
"""By class of the monoid: the aggregates that all rivals have, with their names in pandas and polars."""

IN_SQL = {"mean": "avg", "std": "stddev_samp", "var": "var_samp"}


@dataclass(frozen=True)
class Comparable:
    """A query that rivals can compute: one window at each row, and aggregates of single columns.

    size: rows of the window, or its length in units of the time column.
    unit: nanoseconds in a unit of the time column; 0 for numbers; None for a window of rows.
    """

    by: tuple[str, ...]
    on: str | None
    size: int
    unit: int | None
    aggregates: dict[str, tuple[str, str]]
    """By name: the function and the column."""


def comparable(query: Query, schema: pa.Schema) -> Comparable | str:
    """The query in a form that rivals can compute, or the reason why they cannot."""
    bound = query.bind(schema)
    if len(bound.windows) != 1 or len(query.on) > 1:
        return "it has several windows, or several order columns"
    (window,) = bound.windows
    plain = window.kind in ("time", "count") and window.slide == "row" and window.closed in ("right", None)
    if not plain or window.full or window.shift or window.calendar_size is not None:
        return f"no rival has {window.window!r} at each row"
    found = {}
    for name, one in query.aggregates.items():
        function = _function(one)
        if function is None:
            return f"not all rivals have {name} = {one!r}"
        found[name] = function
    if query.min_periods:
        return "not all rivals have min_periods="
    on = query.on[0] if query.on else None
    unit = None if window.kind == "count" else _unit(schema.field(on).type)
    return Comparable(query.by, on, int(window.size or 0), unit, found)


def _function(one: Any) -> tuple[str, str] | None:
    """The function and the column of an aggregate; None if not all rivals have it."""
    if not isinstance(one, Bound) or not one.is_plain or one.window is not None:
        return None
    name = FUNCTIONS.get(type(one.monoid).__name__)
    if name is None or getattr(one.monoid, "ddof", 1) != 1 or len(one.columns) != 1:
        return None
    return name, str(one.columns[0])


def _unit(kind: pa.DataType) -> int:
    return UNITS[kind.unit] if pa.types.is_timestamp(kind) else 0


def rivals(query: Comparable, table: pa.Table) -> dict[str, Callable[[], Any]]:
    """By name of an installed rival: a function that computes the query, and returns its results by column.

    The table must be sorted by time. It is converted in advance, which is not measured.
    """
    made = {"pandas": _pandas, "polars": _polars, "duckdb": _duckdb}
    return {name: make(query, table) for name, make in made.items() if find_spec(name) is not None}


def _pandas(query: Comparable, table: pa.Table) -> Callable[[], Any]:
    import pandas as pd

    frame = table.to_pandas()
    if query.unit == 0:  # pandas has time windows only for timestamps
        frame[query.on] = frame[query.on].astype("datetime64[ns]")
    length: Any = query.size if query.unit is None else pd.Timedelta(query.size * (query.unit or 1), "ns")
    on = None if query.unit is None else query.on

    def compute() -> dict[str, Any]:
        grouped = frame.groupby(list(query.by), sort=False) if query.by else frame
        rolling = grouped.rolling(length, min_periods=1, on=on)
        return {name: getattr(rolling[column], how)().to_numpy() for name, (how, column) in query.aggregates.items()}

    return compute


def _polars(query: Comparable, table: pa.Table) -> Callable[[], Any]:
    import polars as pl

    frame: Any = pl.from_arrow(table)
    length = f"{query.size}i" if query.unit == 0 else f"{query.size * (query.unit or 1)}ns"
    expressions = []
    for name, (how, column) in query.aggregates.items():
        if query.unit is None:
            made = getattr(pl.col(column), f"rolling_{how}")(query.size, min_samples=1)
        else:
            made = getattr(pl.col(column), f"rolling_{how}_by")(query.on, length)
        expressions.append((made.over(query.by) if query.by else made).alias(name))

    def compute() -> dict[str, Any]:
        found = frame.select(expressions)
        return {name: found[name].to_numpy() for name in query.aggregates}

    return compute


def _duckdb(query: Comparable, table: pa.Table) -> Callable[[], Any]:
    import duckdb

    connection = duckdb.connect()
    connection.register("rows_of_job", table)
    connection.execute("CREATE TABLE data AS SELECT *, row_number() OVER () AS place FROM rows_of_job")
    order = f'"{query.on}"' if query.on else "place"
    if query.unit is None:
        frame = f"ROWS {query.size - 1} PRECEDING"
    elif query.unit == 0:
        frame = f"RANGE BETWEEN {query.size - 1} PRECEDING AND CURRENT ROW"
    else:  # RANGE includes both ends: subtract 1 µs, the resolution of DuckDB
        microseconds = max(query.size * query.unit // 1000 - 1, 0)
        frame = f"RANGE BETWEEN INTERVAL {microseconds} MICROSECONDS PRECEDING AND CURRENT ROW"
    keys = "PARTITION BY " + ", ".join(f'"{name}"' for name in query.by) if query.by else ""
    calls = [
        f'{IN_SQL.get(how, how)}("{column}") OVER w AS "{name}"' for name, (how, column) in query.aggregates.items()
    ]
    statement = f"SELECT {', '.join(calls)} FROM data WINDOW w AS ({keys} ORDER BY {order} {frame})"

    def compute() -> dict[str, Any]:
        found = connection.execute(statement).fetchnumpy()
        return {name: found[name] for name in query.aggregates}

    return compute
