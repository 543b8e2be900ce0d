"""Arriving rows by definition: their keys, times and order, and whether they are late.

    number     0      1      2      3       4
    time       10     30     5      null    25          lateness 10
    W before   -∞     0      20     20      20
               timed  timed  late   untimed timed       a row at 20 would not be late: equal is not below

The watermark W is the greatest time so far minus `lateness`, row by row; a late row and an untimed one never move it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import ColumnNode, Node
from sash.testing.window_oracle import Row

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.bound_query import AggregateSpec, BoundQuery, TimeAxis
    from sash.plan.time_axis import Number

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def rows_of(batch: pa.RecordBatch, bound_query: BoundQuery, first: int) -> Iterator[Row]:
    """The rows of a batch, numbered from `first`."""
    values = {name: python_values(batch.column(name)) for name in batch.schema.names}
    times = places(bound_query.time, batch) if bound_query.time is not None else [None] * batch.num_rows
    axes = [spec.axis for spec in bound_query.windows if spec.kind == "delta" and spec.axis is not None]
    deltas = {axis.column: places(axis, batch) for axis in axes}
    specs = [*bound_query.aggregates, *(spec for window in bound_query.windows for spec in window.over)]
    for name, tree, kind in {column for spec in specs for column in _derived(spec)}:
        values[name] = derived_values(tree, kind, batch)
    for i in range(batch.num_rows):
        row = {name: column[i] for name, column in values.items()}
        yield Row(
            number=first + i,
            key=tuple(alike(row[name]) for name in bound_query.by),
            time=times[i],
            ties=tuple(tie(row[name]) for name in bound_query.ties),
            values=row,
            places={name: column[i] for name, column in deltas.items()},
        )


def _derived(spec: AggregateSpec) -> Iterator[tuple[str, Node, pa.DataType]]:
    """The derived columns of an aggregate (expressions, and columns with a condition): name, tree and type."""
    for name, tree, kind in zip(spec.columns, spec.trees, spec.types, strict=True):
        if not isinstance(tree, ColumnNode):
            yield name, tree, kind


def derived_values(tree: Node, kind: pa.DataType, batch: pa.RecordBatch) -> list[Any]:
    """The values of an expression, row by row."""
    import pyarrow as pa

    return python_values(pa.array([row_value(tree, row.__getitem__) for row in batch.to_pylist()], kind))


def python_values(column: Any) -> list[Any]:
    """A column as Python objects; nanoseconds, which Python's types lack, as integers."""
    nanoseconds = getattr(column.type, "unit", None) == "ns"
    return [scalar.value if nanoseconds else scalar.as_py() for scalar in column]


def places(axis: TimeAxis, batch: pa.RecordBatch) -> list[Number | None]:
    """The coordinates of rows on an axis; None for null, NaN and the infinities."""
    numbers, valid = axis.numbers(batch.column(axis.column))
    return [number if ok else None for number, ok in zip(numbers.tolist(), valid.tolist(), strict=True)]


def alike(value: Any) -> Any:
    """A value in a form to compare and to hash: NaN equals NaN, -0.0 equals 0.0, lists and the like by item.

    >>> alike(float("nan")) == alike(float("nan")), alike([-0.0, (1, None)])
    (True, (0.0, (1, None)))
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, tuple | list):
        return tuple(alike(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, alike(item)) for name, item in value.items())
    return frozenset(map(alike, value)) if isinstance(value, set | frozenset) else value


def tie(value: Any) -> tuple[int, Any]:
    """A sort key for a tie-breaker's value: NaN after every number, null after everything.

    >>> sorted([None, 2.0, float("nan"), 1.0], key=tie)
    [1.0, 2.0, nan, None]
    """
    if value is None:
        return (2, 0)
    return (1, 0) if value != value else (0, value)


def in_order(rows: list[Row]) -> list[Row]:
    """The rows of a key by time, then tie-breakers, then arrival."""
    return sorted(rows, key=lambda row: (row.time is not None and row.time, row.ties, row.number))


def latest_allowed(bound_query: BoundQuery, clock: Callable[[], float]) -> Number:
    """The time beyond which a row is untimed: `ahead` of the clock, or infinity where that is not set."""
    if bound_query.ahead is None or bound_query.time is None:
        return math.inf
    return clock_time(bound_query.time.type, clock()) + bound_query.ahead


def clock_time(kind: pa.DataType, seconds: float) -> int:
    """The clock in units of a column of timestamps or dates, rounded down."""
    import pyarrow.types as types

    if types.is_timestamp(kind):
        return math.floor(seconds * PER_SECOND[kind.unit])
    return math.floor(seconds / 86_400 if types.is_date32(kind) else seconds * 1000)
