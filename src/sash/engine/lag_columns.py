"""Lag, delta and pct_change on whole columns: values at two positions of each window, without a structure.

rows      a  b  c  d  e          n = 2, at e
                ▲     ▲
            before   last        null if the window begins after `before`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash.engine.input_encoding import numbers, present
from sash.kernels.column.column_kernels import Places, RangeBounds
from sash.kernels.loops.array_types import Flags
from sash.monoids import Delta, Lag, Monoid
from sash.monoids.null_rows import NullRows

if TYPE_CHECKING:
    from sash.engine.column_inputs import Inputs, ResultColumn

EXACT_AS_FLOAT = 2**53
"""Floats represent integers up to this exactly."""


class RangeOverflow(Exception):
    """A difference of integers exceeds 64 bits."""


class RowPairs(NamedTuple):
    """The two rows of each window that are compared."""

    last: Places
    before: Places
    in_window: Flags
    """Which windows hold both."""


def lag_of(monoid: Monoid) -> Lag | None:
    """The lag, delta or pct_change that a query computes by this monoid; None for others."""
    of = monoid.of if isinstance(monoid, NullRows) else monoid
    return of if isinstance(of, Lag) else None


def lag_column(inputs: Inputs, ranges: RangeBounds, on: Flags | None) -> ResultColumn | None:
    """The value of an earlier row of each window, or what has changed since; None if it needs a structure.

    Raises RangeOverflow.
    """
    monoid, lag = inputs.spec.monoid, lag_of(inputs.spec.monoid)
    if lag is None or (monoid is not lag and inputs.forms is None):
        return None
    enough = inputs.threads.holds_at_least(ranges, lag.n + 1)
    enough = enough if on is None else enough & on
    last = ranges.his - 1
    if monoid is lag:
        return inputs.payload(last - lag.n, enough, 0)
    values, known = (inputs.rows.scatter(of(inputs.columns[0])) for of in (column_numbers, present))
    found, valid = changes(lag, values, known, RowPairs(last, last - lag.n, enough))
    return inputs.back(inputs.spec.result, found, valid)


def column_numbers(column: Any) -> NDArray[Any]:
    """A column of numbers as int64 or float64."""
    found = numbers(column)
    return found.astype(np.float64 if found.dtype.kind == "f" else np.int64, copy=False)


def exact_floats(column: Any) -> NDArray[np.float64] | None:
    """A column of numbers as floats; None if a float does not represent one of its integers exactly."""
    values = numbers(column)  # not yet as int64, which would make negatives of large uint64
    if values.dtype.kind in "iu" and len(values) and max(-int(values.min()), int(values.max())) > EXACT_AS_FLOAT:
        return None
    return values.astype(np.float64, copy=False)


def changes(monoid: Monoid, values: NDArray[Any], non_null: Flags, pairs: RowPairs) -> tuple[NDArray[Any], Flags]:
    """The differences or relative changes between the values of pairs of rows, and which are valid.

    `non_null`: which values are not null. Raises RangeOverflow.
    """
    last, before = np.where(pairs.in_window, pairs.last, 0), np.where(pairs.in_window, pairs.before, 0)
    valid = pairs.in_window & non_null[last] & non_null[before]
    now, then = values[last], values[before]
    with np.errstate(all="ignore"):
        difference = now - then
        if isinstance(monoid, Delta):
            if now.dtype.kind == "i" and (((now ^ then) & (now ^ difference) < 0) & valid).any():
                raise RangeOverflow
            return difference, valid
        ratio = now / then
        near = (ratio >= 0.5) & (ratio <= 2.0)
        return np.where(near, difference / then, ratio - 1.0), valid & (then != 0)
