"""Times as numbers: their type and limits, and saturating arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sash.kernels.loops.array_types import Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number
from sash.windows.rules import LIMIT

Watermark = int | float | None
"""A watermark in units of the time column; None: there is none."""


def time_type(bound_query: BoundQuery) -> np.dtype[Any]:
    """The type of the times of a query: 64-bit integers or floats. Without `on` they are arrival numbers."""
    return np.dtype(np.int64 if bound_query.time is None or bound_query.time.kind == "int" else np.float64)


def stored_time_type(bound_query: BoundQuery) -> pa.DataType:
    """The type in which times are stored."""
    return pa.int64() if time_type(bound_query).kind == "i" else pa.float64()


def latest(numbers: np.dtype[Any]) -> Number:
    """The greatest time of a type: a timer that is never due."""
    return LIMIT if numbers.kind == "i" else math.inf


def earliest(numbers: np.dtype[Any]) -> Number:
    """The least time of a type."""
    return -LIMIT - 1 if numbers.kind == "i" else -math.inf


def finite(watermark: Watermark) -> Watermark:
    """The watermark, or None if it is infinite."""
    return None if watermark is None or watermark == math.inf else watermark


def greater(one: Watermark, other: Watermark) -> Watermark:
    """The greater of two times; None is less than any."""
    return other if one is None or (other is not None and other > one) else one


def time_text(time: Watermark, dtype: pa.DataType | None) -> str | Number | None:
    """A time of a column as its type prints it; a number for columns of numbers, None without a finite time.

    >>> time_text(86_400_000, pa.timestamp("ms", "UTC")), time_text(17, pa.date32()), time_text(2.5, pa.float64())
    ('1970-01-02 00:00:00.000Z', '1970-01-18', 2.5)
    """
    if time is None or not -math.inf < time < math.inf or dtype is None:
        return finite(time)
    is_date = pa.types.is_date32(dtype)
    if not (is_date or pa.types.is_date64(dtype) or pa.types.is_timestamp(dtype)):
        return time
    try:
        return str(pa.scalar(int(time), pa.int32() if is_date else pa.int64()).cast(dtype).cast(pa.string()).as_py())
    except (pa.ArrowException, OverflowError):  # beyond the years that Arrow prints
        return time


def after(time: Number) -> Number:
    """The next greater time of a number, which must not be the greatest integer."""
    return time + 1 if isinstance(time, int) else math.nextafter(time, math.inf)


def saturating(size: Number, numbers: np.dtype[Any]) -> tuple[Number, Number, Number]:
    """A length to add to times, the greatest time that it can be added to, and the result for later times."""
    if numbers.kind == "f":
        return float(size), math.inf, math.inf
    size = int(min(size, LIMIT))
    return size, LIMIT - size, LIMIT


def beyond(time: Numbers) -> Numbers:
    """The next greater time of each; the greatest integer stays."""
    found: Numbers = np.nextafter(time, np.inf) if time.dtype.kind == "f" else time + (time < LIMIT)
    return found
