"""The weighted mean on whole columns, by the kernels of sums: (Σ p + Σ e) / Σ w.

A product w·x is p + e exactly, p rounded and e its rounding error (`two_product`). Each of the three sums has all its
digits. Columns with values beyond the range of exact products, and windows in which p and e cancel, need the monoid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sash.engine.lag_columns import exact_floats
from sash.kernels.column.column_kernels import CountBounds, RangeBounds, column_kernel_of
from sash.kernels.loops.array_types import Flags, Numbers
from sash.monoids import Sum, WeightedMean
from sash.monoids.double_double import two_product
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import has_column_kernel

if TYPE_CHECKING:
    from sash.engine.column_inputs import Inputs, ResultColumn

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
