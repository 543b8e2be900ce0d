"""Times as numbers: their type and limits, and saturating arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sash.kernels.loops.array_types import Flags, Numbers
from sash.kernels.loops.bound_rules import MovedBound
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.time_axis import Number

Watermark = int | float | None
"""A watermark in units of the time column; None: there is none."""

LIMIT = 2**63 - 1
"""The greatest integer time."""

MOST_ROWS = 2**61
"""The size, slide or shift of a window in rows is limited to this: positions do not overflow."""


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


def later(time: Numbers, size: Number) -> Numbers:
    """time + size; integers saturate."""
    if time.dtype.kind == "f":
        with np.errstate(over="ignore"):
            found: Numbers = time + size
            return found
    size, ceiling, most = saturating(size, time.dtype)
    return np.where(time <= ceiling, time + size, most)


def beyond(time: Numbers) -> Numbers:
    """The next greater time of each; the greatest integer stays."""
    found: Numbers = np.nextafter(time, np.inf) if time.dtype.kind == "f" else time + (time < LIMIT)
    return found


def since(later: Numbers, earlier: Numbers) -> Numbers:
    """later - earlier, for later ≥ earlier, without overflow: integers as unsigned ones."""
    if later.dtype.kind == "f":
        return later - earlier
    return later.astype(np.int64).view(np.uint64) - earlier.astype(np.int64).view(np.uint64)


def is_gap(gap: Number, time: Numbers, before: Numbers) -> Flags:
    """Is time - before longer than `gap`? A `time` earlier than `before` counts as `before`."""
    found = since(np.maximum(time, before), before)
    return found > np.asarray(gap).astype(found.dtype)


def threshold(size: Number, numbers: np.dtype[Any], open_start: bool) -> tuple[Number, Number, bool]:
    """The rule for starts of windows: the size to subtract from an end, the least end that allows it, and whether the
    start is in the window (`bound_rules`).

    For integers an open start becomes an inclusive one at the next integer. A window with a lower end holds all values.
    For floats the comparison excludes an open start.
    """
    if numbers.kind == "f":
        return float(size), -math.inf, not open_start
    size = int(size) - open_start
    return min(size, LIMIT), min(max(size, 0), LIMIT) - LIMIT - 1, True


def moved_bounds(window: WindowSpec, numbers: np.dtype[Any]) -> tuple[MovedBound, MovedBound]:
    """The bounds of a shifted Time window, as distances from `moved_times`: its first time, and the first after it."""
    closed_start, closed_end = window.closed in ("left", "both"), window.closed in ("right", "both")
    end = window.shift if window.calendar_shift is None else 0
    start = end - (window.size or 0) if window.calendar_size is None else 0
    return moved_bound(start, numbers, closed_start), moved_bound(end, numbers, not closed_end)


def moved_times(window: WindowSpec, time: Numbers) -> tuple[Numbers, Numbers]:
    """The times from which start and end of a shifted Time window are measured: those of rows, or by the calendar."""
    ends = time if window.calendar_shift is None else window.calendar_shift.before(time)
    if window.calendar_size is None:
        return ends, ends
    return window.calendar_size.before(ends if window.calendar_shift is not None else later(time, window.shift)), ends


def moved_bound(by: Number, numbers: np.dtype[Any], inclusive: bool) -> MovedBound:
    """A bound at a distance from a row (`bound_rules`). For integers an exclusive one is inclusive at the next."""
    if numbers.kind == "f":
        return float(by), -math.inf, math.inf, inclusive
    by = min(max(int(by) + (not inclusive), -LIMIT), LIMIT)
    return by, max(-LIMIT - 1 - by, -LIMIT - 1), min(LIMIT - by, LIMIT), True


def below(x: Numbers, size: Number, open_start: bool) -> Numbers:
    """The starts of windows of this size that end at x, by the rule of `threshold`; integers saturate."""
    if x.dtype.kind == "f":
        return x - size
    less, floor, _ = threshold(size, x.dtype, open_start)
    return np.where(x >= floor, x - less, -LIMIT - 1)
