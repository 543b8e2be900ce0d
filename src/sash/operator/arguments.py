"""What an operator is given: batches of its columns, and times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sash.query.resolved import Axis
from sash.windows.duration import UNITS

LAST = 2**63 - 1


def check_schema(given: pa.Schema, schema: pa.Schema) -> None:
    """Raises ValueError, naming the column, if a batch is not of the operator's schema."""
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


def number(watermark: Any, axis: Axis) -> Any:
    """A time as a number in units of its column. Raises TypeError if it is none of this column."""
    if isinstance(watermark, bool) or not isinstance(watermark, int | float | np.integer | np.floating):
        found = _of_time(watermark, axis)
        if found is None:
            raise TypeError(f"advance() takes a time of column {axis.column!r}, of type {axis.type}; got {watermark!r}")
        return found
    if watermark != watermark:
        raise ValueError("advance() takes a time; got NaN")
    if axis.kind == "float":
        try:
            return float(watermark)
        except OverflowError:  # an integer that no float holds
            return math.inf if watermark > 0 else -math.inf
    # a row at 2 is final with W = 2.5, as it is with 3; beyond 64 bits no row is
    return max(min(math.ceil(max(min(watermark, 2.0**64), -(2.0**64))), LAST), -LAST - 1)


def _of_time(watermark: Any, axis: Axis) -> Any:
    """A datetime, date or Arrow scalar in units of the column, rounded up; None if it is none of its kind."""
    try:
        scalar = watermark if isinstance(watermark, pa.Scalar) else pa.scalar(watermark)
        if pa.types.is_timestamp(scalar.type) and axis.timed:
            if (scalar.type.tz is None) != (getattr(axis.type, "tz", None) is None):
                return None
            return -(-scalar.value * UNITS[scalar.type.unit] // axis.unit)
        numbers, valid = axis.numbers(pa.array([scalar.as_py()], axis.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return numbers[0].item() if valid[0] else None
