"""Times as numbers: their type and limits, and arithmetic in which integers saturate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sash.kernels.loops.array_types import Numbers
from sash.plan.bound_query import BoundQuery

LIMIT = 2**63 - 1
"""The greatest integer time."""


def time_type(bound_query: BoundQuery) -> np.dtype[Any]:
    """The type of the times of a query: 64-bit integers or floats. Without `on` they are arrival numbers."""
    return np.dtype(np.int64 if bound_query.time is None or bound_query.time.kind == "int" else np.float64)


def stored_time_type(bound_query: BoundQuery) -> pa.DataType:
    """The type in which times are stored."""
    return pa.int64() if time_type(bound_query).kind == "i" else pa.float64()


def latest(numbers: np.dtype[Any]) -> Any:
    """The greatest time of a type: a timer that never comes."""
    return LIMIT if numbers.kind == "i" else math.inf


def earliest(numbers: np.dtype[Any]) -> Any:
    """The least time of a type."""
    return -LIMIT - 1 if numbers.kind == "i" else -math.inf


def finite(watermark: Any) -> Any:
    """A watermark below infinity; None if there is none."""
    return None if watermark is None or watermark == math.inf else watermark


def after(time: Any) -> Any:
    """The first time behind a single one, which is not the greatest integer."""
    return time + 1 if isinstance(time, int) else math.nextafter(time, math.inf)


def saturating(size: Any, numbers: np.dtype[Any]) -> tuple[Any, Any, Any]:
    """A length to add to times, the greatest time that it can be added to, and what others become."""
    if numbers.kind == "f":
        return float(size), math.inf, math.inf
    size = int(min(size, LIMIT))
    return size, LIMIT - size, LIMIT


def later(time: Numbers, size: Any) -> Numbers:
    """time + size; integers saturate."""
    if time.dtype.kind == "f":
        with np.errstate(over="ignore"):
            found: Numbers = time + size
            return found
    size, ceiling, most = saturating(size, time.dtype)
    return np.where(time <= ceiling, time + size, most)


def beyond(time: Numbers) -> Numbers:
    """The first time behind each; the greatest integer stays."""
    found: Numbers = np.nextafter(time, np.inf) if time.dtype.kind == "f" else time + (time < LIMIT)
    return found


def since(later: Numbers, earlier: Numbers) -> Numbers:
    """later - earlier, for later ≥ earlier, without overflow: integers as unsigned ones."""
    if later.dtype.kind == "f":
        return later - earlier
    return later.astype(np.int64).view(np.uint64) - earlier.astype(np.int64).view(np.uint64)


def lasts(gap: Any, time: Numbers, before: Numbers) -> Any:
    """Where at least `gap` lies between `before` and `time`, which is taken for `before` if it is earlier."""
    found = since(np.maximum(time, before), before)
    return found >= np.asarray(gap).astype(found.dtype)


def threshold(size: Any, numbers: np.dtype[Any], open_start: bool) -> tuple[Any, Any, bool]:
    """What to subtract from a window's end for its bound, from which end on, and whether the bound is in the window.

    Of integers the first value beyond an open start is the next one, so that the bound is always in the window. Below
    the least end all values are in the window. Of floats what is beyond is left to the comparison.
    """
    if numbers.kind == "f":
        return float(size), -math.inf, not open_start
    size = int(size) - open_start
    return min(size, LIMIT), min(max(size, 0), LIMIT) - LIMIT - 1, True


def below(x: Numbers, size: Any, open_start: bool) -> Numbers:
    """The bound of windows of this size that end at x, as `threshold` has it; integers saturate."""
    if x.dtype.kind == "f":
        return x - size
    less = int(size) - open_start
    if less > LIMIT:
        return np.full(len(x), -LIMIT - 1)
    return np.where(x >= max(less, 0) - LIMIT - 1, x - less, -LIMIT - 1)
