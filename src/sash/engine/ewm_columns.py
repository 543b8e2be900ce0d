"""Exponentially weighted aggregates on whole columns: their inputs, and the results of the kernels.

values    3  null  5  7         without nulls, each with its coordinate:
at        0        2  3         the number of its row (without null rows, if those are ignored), or its time
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sash.engine.input_encoding import present
from sash.engine.lag_columns import exact_floats
from sash.engine.row_order import RowOrder, counts_before
from sash.kernels.column.column_kernels import RangeBounds, RowThreads, coded
from sash.kernels.column.ewm_ranges import ewm_means, ewm_moments
from sash.kernels.loops.array_types import Flags, Numbers
from sash.monoids import EwmMean, EwmStd, EwmVar, Monoid
from sash.monoids.ewm_by_time import EwmMeanByTime, EwmStdByTime, EwmVarByTime
from sash.monoids.null_rows import NullRows
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import has_column_kernel

if TYPE_CHECKING:
    from sash.engine.column_inputs import Inputs, ResultColumn

MEANS = (EwmMean, EwmMeanByTime)
DEVIATIONS = (EwmStd, EwmStdByTime)
BY_TIME = (EwmMeanByTime, EwmVarByTime)


class WeightedValues(NamedTuple):
    """The values that are not null, their coordinates, and ranges among them."""

    x: Numbers
    at: Numbers
    ranges: RangeBounds


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
    found, valid = ewm_results(monoid, values, inputs.threads)
    return inputs.back(spec.result, found, valid if on is None else valid & on)


def weighted_values(
    monoid: Monoid, column: Any, rows: RowOrder, ranges: RangeBounds, threads: RowThreads
) -> WeightedValues | None:
    """The inputs of an aggregate; None if a value is an integer that no float holds exactly."""
    values = exact_floats(column)
    if values is None:
        return None
    values, known = rows.scatter(values), rows.scatter(present(column))
    at = rows.time if isinstance(monoid, BY_TIME) else np.arange(len(rows))
    if not known.all():
        values, at, ranges = values[known], at[known], threads.among(counts_before(known), ranges)
        if getattr(monoid, "ignore_nulls", False) and not isinstance(monoid, BY_TIME):
            at = np.arange(len(values))
    return WeightedValues(np.ascontiguousarray(values, np.float64), np.ascontiguousarray(at), ranges)


def ewm_results(monoid: Any, given: WeightedValues, threads: RowThreads) -> tuple[Numbers, Flags]:
    """The results of the ranges, and which are valid."""
    is_mean, (x, at, ranges) = isinstance(monoid, MEANS), given
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
