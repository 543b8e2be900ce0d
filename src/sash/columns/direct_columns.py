"""Aggregates of whole columns that need no structure: lag and changes, exponential weights, weighted means.

Lag, delta and pct_change: values at two positions of each window.

rows      a  b  c  d  e          n = 2, at e
                ▲     ▲
            before   last        null if the window begins after `before`

Exponentially weighted aggregates on whole columns: their inputs, and the results of the kernels.

values    3  null  5  7         without nulls, each with its coordinate:
at        0        2  3         the number of its row (without null rows, if those are ignored), or its time

The weighted mean on whole columns, by the kernels of sums: (Σ p + Σ e) / Σ w.

A product w·x is p + e exactly, p rounded and e its rounding error (`two_product`). Each of the three sums has all its
digits. Columns with values beyond the range of exact products, and windows in which p and e cancel, need the monoid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash.columns.input_encoding import numbers, present
from sash.columns.row_order import RowOrder, counts_before
from sash.kernels.column.column_kernels import CountBounds, Places, RangeBounds, RowThreads, coded, column_kernel_of
from sash.kernels.column.ewm_ranges import ewm_means, ewm_moments
from sash.kernels.loops.array_types import Flags, Numbers
from sash.monoids import Delta, EwmMean, EwmStd, EwmVar, Lag, Monoid, Sum, WeightedMean
from sash.monoids.double_double import two_product
from sash.monoids.ewm import EwmMeanByTime, EwmStdByTime, EwmVarByTime
from sash.monoids.null_rows import NullRows
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import has_column_kernel

if TYPE_CHECKING:
    from sash.columns.column_inputs import Inputs, ResultColumn


# --- Lag columns ---

EXACT_AS_FLOAT = 2**53
"""Floats represent integers up to this exactly."""


class RangeOverflow(Exception):
    """A difference of integers exceeds 64 bits."""


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
    found, valid = changes(lag, values, known, last, last - lag.n, enough)
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


def changes(
    monoid: Monoid, values: NDArray[Any], non_null: Flags, last: Places, before: Places, in_window: Flags
) -> tuple[NDArray[Any], Flags]:
    """The differences or relative changes between the values of two rows of each window, and which are valid.

    `non_null`: which values are not null; `in_window`: which windows hold both rows. Raises RangeOverflow.
    """
    last, before = np.where(in_window, last, 0), np.where(in_window, before, 0)
    valid = in_window & non_null[last] & non_null[before]
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


# --- Ewm columns ---

MEANS = (EwmMean, EwmMeanByTime)
DEVIATIONS = (EwmStd, EwmStdByTime)
BY_TIME = (EwmMeanByTime, EwmVarByTime)


def ewm_of(monoid: Monoid) -> Monoid | None:
    """The exponentially weighted aggregate that a query computes by this monoid; None for others."""
    of = monoid.of if isinstance(monoid, NullRows) else monoid
    return of if isinstance(of, EwmMean | EwmVar | EwmMeanByTime | EwmVarByTime) else None


def ewm_column(inputs: Inputs, ranges: RangeBounds, on: Flags | None, bound_query: BoundQuery) -> ResultColumn | None:
    """The results of an exponentially weighted aggregate; None if it needs a structure."""
    spec, monoid = inputs.spec, ewm_of(inputs.spec.monoid)
    if monoid is None or inputs.forms is None or not has_column_kernel(bound_query, spec):
        return None
    values = weighted_values(monoid, inputs.columns[0], inputs.rows, ranges, inputs.threads)
    if values is None:
        return None
    found, valid = ewm_results(monoid, *values, inputs.threads)
    return inputs.back(spec.result, found, valid if on is None else valid & on)


def weighted_values(
    monoid: Monoid, column: Any, rows: RowOrder, ranges: RangeBounds, threads: RowThreads
) -> tuple[Numbers, Numbers, RangeBounds] | None:
    """The values that are not null, their coordinates, and ranges among them; None if a float is no value exactly."""
    values = exact_floats(column)
    if values is None:
        return None
    values, known = rows.scatter(values), rows.scatter(present(column))
    at = rows.time if isinstance(monoid, BY_TIME) else np.arange(len(rows))
    if not known.all():
        values, at, ranges = values[known], at[known], threads.among(counts_before(known), ranges)
        if getattr(monoid, "ignore_nulls", False) and not isinstance(monoid, BY_TIME):
            at = np.arange(len(values))
    return np.ascontiguousarray(values, np.float64), np.ascontiguousarray(at), ranges


def ewm_results(
    monoid: Any, x: Numbers, at: Numbers, ranges: RangeBounds, threads: RowThreads
) -> tuple[Numbers, Flags]:
    """The results of the ranges, and which are valid."""
    is_mean = isinstance(monoid, MEANS)
    count, width = len(ranges.los), 3 if is_mean else 5
    out, valid = np.zeros(count if is_mean else (2, count)), np.zeros(count, np.bool_)
    halflife = float(monoid.halflife if isinstance(monoid, BY_TIME) else monoid.rows)
    kernel = ewm_means if is_mean else ewm_moments
    before, after = (x, at, ranges.los, ranges.his), (halflife, out, valid)
    if count and len(x):
        code = coded(kernel, (*before, 0, count, *after, np.empty((width, 1))))

        def task(first: int, stop: int) -> None:
            code(*before, first, stop, *after, np.empty((width, max(ranges.longest, 1))))

        threads.run_fixed(task, count, ranges.longest)
    if is_mean:
        return out, valid
    deviation, factor = out
    if not monoid.bias:
        valid &= factor > 0.0
        deviation = deviation * factor
    with np.errstate(over="ignore"):
        return deviation if isinstance(monoid, DEVIATIONS) else deviation * deviation, valid


# --- Weighted columns ---

_LARGE, _SMALL = 2.0**970, 2.0**-900
_CANCELLED = 2.0**-8


def weighted_mean_column(
    inputs: Inputs, given: CountBounds | RangeBounds, on: Flags | None, bound_query: BoundQuery
) -> ResultColumn | None:
    """The weighted means of all windows; None for other aggregates, and if a structure has to compute them."""
    if type(inputs.spec.monoid) is not WeightedMean or not has_column_kernel(bound_query, inputs.spec):
        return None
    x, w = (_as_floats(inputs, place) for place in (0, 1))
    if x is None or w is None or not _in_range(x, w):
        return None
    exact: Any = two_product
    products, errors = exact(x, w)
    threads, count = inputs.threads, len(inputs.results)
    among, kernel = inputs.among(given), column_kernel_of(Sum(), ("float",))
    assert kernel is not None
    sums = [threads.aggregate(kernel, column, among, count) for column in (products, errors, w)]
    filled = threads.holds_at_least(threads.as_ranges(among, count), 1)
    valid = filled if on is None else filled & on
    (rounded, lost), uncertain = (sums[0][0], sums[1][0]), sums[0][1] | sums[1][1] | sums[2][1]
    with np.errstate(all="ignore"):
        total = rounded + lost
        uncertain |= np.abs(total) < _CANCELLED * np.abs(rounded)
        if (uncertain & valid).any():
            return None
        return inputs.back(inputs.spec.result, total / sums[2][0], valid & (sums[2][0] != 0.0))


def _as_floats(inputs: Inputs, place: int) -> Numbers | None:
    """A column as floats, in order and without the rows that are null; None if an integer is no float."""
    values = exact_floats(inputs.columns[place])
    if values is None:
        return None
    values = inputs.rows.scatter(values)
    values = values if inputs.places is None else values[inputs.back_places]
    return np.ascontiguousarray(values, np.float64)


def _in_range(x: Numbers, w: Numbers) -> bool:
    """Are all products exact as pairs of floats?"""
    with np.errstate(all="ignore"):
        sizes, products = np.maximum(np.abs(x), np.abs(w)), np.abs(x * w)
    moderate = (sizes <= _LARGE) & (products <= _LARGE) & ((products >= _SMALL) | (x == 0.0) | (w == 0.0))
    return bool(moderate.all())
