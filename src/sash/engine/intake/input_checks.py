"""Validate and convert the input of an operator: batches and times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import together
from sash.columns.exact_columns import ARROW_ERRORS, column_of, exact_cast, inferred_column, object_column
from sash.plan.api_types import EventTime, Frame
from sash.plan.bound_query import TimeAxis
from sash.windows.duration import UNITS

LAST = 2**63 - 1

GivenKeys = Mapping[str, Any] | Frame
"""Keys as users pass them: the columns of `by`."""

GivenTime: TypeAlias = EventTime | np.datetime64 | pa.Scalar
"""A time as users pass it to an operator."""


def check_schema(given: pa.Schema, schema: pa.Schema) -> None:
    """Raises ValueError, naming the column, if a batch does not have the operator's schema."""
    if given.equals(schema):
        return
    for field in schema:
        place = given.get_field_index(field.name)
        if place < 0:
            raise ValueError(f"the batch has no column {field.name!r}; it has {', '.join(given.names)}")
        if given.field(place).type != field.type:
            raise ValueError(
                f"the column {field.name!r} is of type {given.field(place).type}; "
                f"the operator was opened with {field.type}: cast it"
            )
    if given.names != schema.names:
        raise ValueError(
            f"the batch has the columns {', '.join(given.names)}; the operator was opened with "
            f"{', '.join(schema.names)}, in this order"
        )


def require_movable(schema: pa.Schema) -> None:
    """Raises TypeError, naming the column, for values that Arrow cannot reorder."""
    movable: set[pa.DataType] = set()
    for field in schema:
        if field.type in movable:
            continue
        try:
            pa.nulls(0, field.type).take(pa.array([], pa.int64()))
            pa.nulls(1, field.type).take(pa.array([0]))
        except pa.ArrowNotImplementedError as error:
            raise TypeError(
                f"the column {field.name!r} of type {field.type} cannot go through an operator, because Arrow cannot "
                "reorder its values: drop the column, or cast it"
            ) from error
        movable.add(field.type)


def json_copy(what: str, value: Any) -> Any:
    """Copy a JSON value, as it will be read from a page: later changes of the original have no effect.

    >>> json_copy("offset=", {0: (1, 2)})
    {'0': [1, 2]}

    Raises TypeError, naming the argument, for a value that JSON does not have, ValueError for one that contains itself.
    """
    if value is None or type(value) in (int, str):
        return value
    try:
        return json.loads(json.dumps(value))
    except TypeError as error:
        raise TypeError(f"{what} must be a JSON value: {error}") from None
    except (RecursionError, ValueError):
        raise ValueError(f"{what} must be a JSON value: it contains itself, or is nested too deeply") from None


def record_batch(given: Any, schema: pa.Schema | None) -> pa.RecordBatch:
    """Convert a table, a frame of pandas or polars, or a dict of columns to one batch, of this schema if it is known.

    NaN in a pandas frame becomes null. Raises ValueError, naming column and value, if one does not fit the schema,
    TypeError for anything else.
    """
    if isinstance(given, pa.Table):
        return _joined(given)
    package = type(given).__module__.partition(".")[0]
    if isinstance(given, dict):
        typed = {name: schema.field(name).type for name in given if schema is not None and name in schema.names}
        for name, values in given.items():
            if values is None or np.isscalar(values):
                raise TypeError(f"the column {name!r} must be a list or an array of values; got {values!r}")
        arrays = [column_of(name, values, typed.get(name)) for name, values in given.items()]
        return pa.RecordBatch.from_arrays(arrays, names=list(given))
    if package == "pandas" and hasattr(given, "columns"):
        columns = [_of_pandas(str(name), given.iloc[:, place]) for place, name in enumerate(given.columns)]
        table = pa.table(columns, names=[str(name) for name in given.columns])
    elif package == "polars" and hasattr(given, "__arrow_c_stream__"):
        table = _of_polars(given)
    else:
        raise TypeError(
            "process() takes a pyarrow RecordBatch or Table, a pandas or polars frame, or a dict of columns; got "
            f"a {type(given).__name__}"
        )
    if schema is not None and table.schema.names == schema.names and table.schema != schema:
        columns = [exact_cast(column, *of) for column, of in zip(table.columns, _named(schema), strict=True)]
        table = pa.Table.from_arrays(columns, schema=schema)
    return _joined(table)


def _of_pandas(name: str, column: Any) -> pa.Array:
    """A column of a pandas frame, where NaN is null. Raises TypeError, naming it, if Arrow has no such column."""
    return (object_column if column.dtype == object else inferred_column)(name, column, from_pandas=True)


def _of_polars(frame: Any) -> pa.Table:
    """A frame of polars. Raises TypeError, naming the column, for one that is no column of Arrow."""
    try:
        return pa.table(frame)
    except ARROW_ERRORS:
        for name in frame.columns:
            inferred_column(name, frame[name])
        raise


def _named(schema: pa.Schema) -> Iterable[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in schema)


def _joined(table: pa.Table) -> pa.RecordBatch:
    return together(table.combine_chunks().to_batches(), table.schema)


def number(watermark: GivenTime, axis: TimeAxis, what: str = "advance()") -> float:
    """A time as a number in units of its column. Raises TypeError, naming `what`, if it is of another kind.

    For a column of dates or timestamps a number is of another kind: it does not say in what unit it counts.
    """
    is_number = not isinstance(watermark, bool) and isinstance(watermark, int | float | np.integer | np.floating)
    if is_number and watermark != watermark:
        raise ValueError(f"{what} takes a time; got NaN")
    found = _of_time(watermark, axis) if axis.timed or not is_number else in_units(watermark, axis)
    if found is None:
        raise TypeError(
            f"{what} takes a time of column {axis.column!r}, of type {axis.type}; got {watermark!r}"
            + (_time_advice(watermark, axis) if axis.timed else "")
        )
    return found


def in_units(watermark: Any, axis: TimeAxis) -> float:
    """A number in units of a column, rounded up and limited to the numbers that the column can have."""
    if axis.kind == "float":
        try:
            return float(watermark)
        except OverflowError:  # an integer beyond the range of floats
            return math.inf if watermark > 0 else -math.inf
    if isinstance(watermark, float | np.floating):  # a row at 2 is final with W = 2.5, as it is with 3
        watermark = math.ceil(max(min(watermark, 2.0**64), -(2.0**64)))
    return max(min(int(watermark), LAST), -LAST - 1)  # no row is beyond 64 bits


def _time_advice(value: Any, axis: TimeAxis) -> str:
    """The line to write for a time of a column of dates or timestamps; "" where it is not known."""
    zone = getattr(axis.type, "tz", None)
    in_zone = "" if zone is None else f", tz={zone!r}"
    if isinstance(value, str):
        return f": write pd.Timestamp({value!r}{in_zone})"
    value = value.item() if isinstance(value, np.integer | np.floating) else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        size = abs(float(max(min(value, LAST), -LAST))) if isinstance(value, int) else abs(value)
        if math.isinf(size):
            return ": call finish() to end the stream" if value > 0 else ""
        if axis.has_dates and size < 1e6:
            return f": write pd.Timestamp({value!r}, unit='D')"
        unit = next((unit for unit, most in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if size < most), "ns")
        return f": write pd.Timestamp({value!r}, unit={unit!r}{in_zone})"
    if isinstance(value, datetime) and not axis.has_dates and (value.tzinfo is None) != (zone is None):
        return ": give it without a time zone" if zone is None else f": give it a time zone, such as {zone!r}"
    return ""


def _scalar(value: Any) -> pa.Scalar:
    """A time as an Arrow scalar; Arrow truncates pandas' times to microseconds by default."""
    if getattr(value, "nanosecond", 0):
        return pa.scalar(value, pa.timestamp("ns", None if value.tzinfo is None else "UTC"))
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] in ("Y", "M", "W", "D", "h", "m"):
        return pa.scalar(value.astype("datetime64[s]"))  # Arrow knows the units from seconds on
    return pa.scalar(value)


def _of_time(watermark: Any, axis: TimeAxis) -> float | None:
    """A datetime, date or Arrow scalar in units of the column, rounded up; None if it is of another kind."""
    if axis.timed and isinstance(watermark, int | float | np.integer | np.floating | str):
        return None
    try:
        scalar = watermark if isinstance(watermark, pa.Scalar) else _scalar(watermark)
        if pa.types.is_timestamp(scalar.type) and axis.timed:
            if (scalar.type.tz is None) != (getattr(axis.type, "tz", None) is None):
                return None
            return -(-scalar.value * UNITS[scalar.type.unit] // axis.unit)
        if pa.types.is_timestamp(scalar.type) and axis.has_dates and scalar.type.tz is None:
            day = scalar.cast(pa.date32(), safe=False)
            later = day.cast(scalar.type) != scalar
            scalar = pa.scalar(day.as_py() + timedelta(days=later))
        numbers, valid = axis.numbers(column_of(axis.column, [scalar.as_py()], axis.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return numbers[0].item() if valid[0] else None
