"""Covariance, correlation and the least-squares line of pairs (x, y); and the mean of x, weighted by w.

A row with a null in either column is missing. Arguments come in the order (x, y), the line is of y on x: SQL's
regr_slope and regr_intercept take (y, x).

The state is the number of pairs, both means as double-double pairs, the sums of squared distances from them and of
their products: (n, x hi, x lo, y hi, y lo, M2x, M2y, C). If one of the sums of squares would overflow, or lose digits
by underflow, it is (-n, x hi, x lo, y hi, y lo, deviation of x, deviation of y, correlation): as for the moments
(`moments.py`). NaN and infinite inputs make the result NaN.

Means have double-double precision: if values cancel, such as spikes of 1e16 up and down, the mean keeps the digits of
the others, and so does an intercept.

The weighted mean is Σ w·x / Σ w. In a loop both sums are exact (`exact_integer.py`): the products in units of 2**-2148,
the weights in units of 2**-1074. On columns they are double-double pairs (`double_double.py`), which hold a product of
two floats exactly. Products beyond the range in which a pair keeps all digits are summed separately, scaled by a power
of two:

    (Σ w·x hi, lo,  Σ w hi, lo,  Σ of large w·x hi, lo,  Σ of small w·x hi, lo)

Weights of either sign are summed as they are. If the total weight is zero, there is no result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import Kind, Monoid, noinline
from sash.monoids.decimals import IntegerSums
from sash.monoids.double_double import (
    LARGEST,
    READERS,
    Pair,
    add,
    of_any,
    quick_two_sum,
    raw_add,
    same_pair,
    scaled_product,
    split_value,
    two_product,
    two_sum,
)
from sash.monoids.exact_integer import checked_kinds, product_units, units, weighted_quotient
from sash.monoids.moments import blur, check_ddof, deviation, grown_deviation, is_moderate, magnitude, near, times_power

# --- Regression ---


_LEAST, _MOST = 2.0**-900, 2.0**900
_LOWEST, _HIGHEST = -899, 900  # the same as exponents
_SPLITS = 2.0**990  # products of larger factors have no exact rest

Sums = tuple[int, float, float, float, float, float, float, float]


def merged(a: Sums, b: Sums) -> Sums:
    """The merged sums of two moderate states."""
    n = a[0] + b[0]
    x, y = (a[1], a[2]), (a[3], a[4])
    x_gap = raw_add((b[1], b[2]), (-a[1], -a[2]))
    y_gap = raw_add((b[3], b[4]), (-a[3], -a[4]))
    each = 1.0 / n
    weight = a[0] * (b[0] * each)
    m2x = a[5] + b[5] + x_gap[0] * (x_gap[0] * weight)
    m2y = a[6] + b[6] + y_gap[0] * (y_gap[0] * weight)
    x_hi, x_lo = moved(x, x_gap, b[0], n, each)
    y_hi, y_lo = moved(y, y_gap, b[0], n, each)
    return (n, x_hi, x_lo, y_hi, y_lo, m2x, m2y, a[7] + b[7] + x_gap[0] * (y_gap[0] * weight))


def moved(mean: Pair, gap: Pair, part: int, n: int, each: float) -> Pair:
    """mean + gap * part / n, in double-double precision; `each` is 1 / n."""
    step = gap[0] * (part * each)
    whole, whole_rest = two_product(gap[0], float(part))
    taken, taken_rest = two_product(step, float(n))
    rest = (((whole - taken) + (whole_rest - taken_rest)) + gap[1] * part) * each
    hi, lost = two_sum(mean[0], step)
    return quick_two_sum(hi, (mean[1] + rest) + lost)


@noinline
def merged_far(a: Sums, b: Sums) -> Sums:
    """The merged sums of two states of any size; moderate if possible."""
    if a[5] != a[5] or b[5] != b[5]:
        return (abs(a[0]) + abs(b[0]), 0.0, 0.0, 0.0, 0.0, math.nan, math.nan, math.nan)
    x = magnitude(max(abs(a[1]), deviation(a[0], a[5])), max(abs(b[1]), deviation(b[0], b[5])))
    y = magnitude(max(abs(a[3]), deviation(a[0], a[6])), max(abs(b[3]), deviation(b[0], b[6])))
    return _grown(merged(_shrunk(a, x, y), _shrunk(b, x, y)), x, y)


def _shrunk(a: Sums, x: int, y: int) -> Sums:
    n = abs(a[0])
    x_hi, x_lo = math.ldexp(a[1], -x), math.ldexp(a[2], -x)
    y_hi, y_lo = math.ldexp(a[3], -y), math.ldexp(a[4], -y)
    if a[0] > 0:
        m2x, m2y, c = math.ldexp(a[5], -2 * x), math.ldexp(a[6], -2 * y), math.ldexp(a[7], -x - y)
    else:
        x_size, y_size = math.ldexp(a[5], -x), math.ldexp(a[6], -y)
        m2x, m2y, c = n * (x_size * x_size), n * (y_size * y_size), n * (a[7] * (x_size * y_size))
    return (n, x_hi, x_lo, y_hi, y_lo, m2x, m2y, c)


def _grown(a: Sums, x: int, y: int) -> Sums:
    n, m2x, m2y, c = a[0], a[5], a[6], a[7]
    x_hi, x_lo = times_power(a[1], x), times_power(a[2], x)
    y_hi, y_lo = times_power(a[3], y), times_power(a[4], y)
    if _is_grown_moderate(m2x, x) and _is_grown_moderate(m2y, y):
        m2x, m2y, c = math.ldexp(m2x, 2 * x), math.ldexp(m2y, 2 * y), math.ldexp(c, x + y)
        return (n, x_hi, x_lo, y_hi, y_lo, m2x, m2y, c)
    x_size = grown_deviation(n, m2x, x) if m2x > 0.0 else 0.0
    y_size = grown_deviation(n, m2y, y) if m2y > 0.0 else 0.0
    c = c / (math.sqrt(m2x) * math.sqrt(m2y)) if m2x > 0.0 and m2y > 0.0 else 0.0
    return (-n, x_hi, x_lo, y_hi, y_lo, x_size, y_size, c)


def _is_grown_moderate(m2: float, exponent: int) -> bool:
    return m2 == 0.0 or _LOWEST <= math.frexp(m2)[1] + 2 * exponent <= _HIGHEST


class _Regression(Monoid):
    """The base of regressions: everything except `lower`."""

    domain = ("number", "number")
    identity: Any = (0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    commutative = True
    read_x: Callable[[Any], Pair]
    read_y: Callable[[Any], Pair]

    def __init__(self) -> None:
        self.read_x = of_any
        self.read_y = of_any

    def typed(self, *kinds: Kind) -> Monoid:
        x, y = checked_kinds(self, kinds, 2)
        return self.changed(read_x=READERS[x], read_y=READERS[y])

    def lift(self, x: Any, y: Any) -> Any:
        x_hi, x_lo = self.read_x(x)
        y_hi, y_lo = self.read_y(y)
        if abs(x_hi) <= LARGEST and abs(y_hi) <= LARGEST:
            return (1, x_hi, x_lo, y_hi, y_lo, 0.0, 0.0, 0.0)
        return (1, 0.0, 0.0, 0.0, 0.0, math.nan, math.nan, math.nan)

    def combine(self, a: Any, b: Any) -> Any:
        if a[0] > 0 and b[0] > 0:
            both = merged(a, b)
            x_same, y_same = a[1] == b[1] and a[2] == b[2], a[3] == b[3] and a[4] == b[4]
            if is_moderate(both[5], x_same, _LEAST, _MOST) and is_moderate(both[6], y_same, _LEAST, _MOST):
                return both
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        return merged_far(a, b)

    def same(self, a: Any, b: Any) -> bool:
        a, b = _standard(a), _standard(b)
        x, y = max(a[5], b[5]), max(a[6], b[6])
        return (
            bool(a[0] == b[0])
            and near(a[1], b[1], max(abs(a[1]), abs(b[1]), x))
            and near(a[3], b[3], max(abs(a[3]), abs(b[3]), y))
            and near(a[5], b[5], x)
            and near(a[6], b[6], y)
            and near(a[7], b[7], 1.0 + blur(x) + blur(y))
        )


def _standard(a: Any) -> Sums:
    """A state of either form in its relative form with a positive count, for comparisons."""
    if a[0] <= 0:
        return (-a[0], *a[1:])
    x, y = deviation(a[0], a[5]), deviation(a[0], a[6])
    return (*a[:5], x, y, correlation(a) if x and y else 0.0)


def correlation(a: Any) -> Any:
    """The correlation of a state of either form in which x and y vary."""
    if a[0] < 0:
        return a[7]
    squares = a[5] * a[6]
    if _LEAST <= squares <= _MOST:
        return a[7] / math.sqrt(squares)
    return a[7] / math.sqrt(a[5]) / math.sqrt(a[6])


class Covariance(_Regression):
    """The covariance of x and y, over n - ddof; see `sash.covariance`."""

    def __init__(self, ddof: int = 1) -> None:
        super().__init__()
        self.ddof = check_ddof(ddof)

    def lower(self, a: Any) -> Any:
        n = abs(a[0])
        if n <= self.ddof:
            return None
        if a[0] > 0:
            return a[7] / (n - self.ddof)
        return (a[7] * a[5]) * (a[6] * (n / (n - self.ddof)))


class Correlation(_Regression):
    """Pearson's correlation of x and y; see `sash.correlation`. Null also for a single pair."""

    def lower(self, a: Any) -> Any:
        if a[5] == 0.0 or a[6] == 0.0:
            return None
        found = correlation(a)
        return math.copysign(1.0, found) if abs(found) > 1.0 else found


class Slope(_Regression):
    """The slope of the least-squares line of y on x; see `sash.slope`. Null also for a single pair."""

    def lower(self, a: Any) -> Any:
        if a[5] == 0.0:
            return None
        if a[0] > 0:
            return a[7] / a[5]
        return a[7] * a[6] / a[5]


class Intercept(_Regression):
    """Where the least-squares line of y on x meets x = 0; see `sash.intercept`. Null also for a single pair.

    It is the mean of y minus slope times the mean of x: the smaller it is relative to these, the fewer digits it has.
    """

    def lower(self, a: Any) -> Any:
        if a[5] == 0.0:
            return None
        if a[0] < 0:
            ratio, steep = a[1] / a[5], a[7] * a[6]
            return (a[3] - ratio * steep) + (a[4] - a[2] / a[5] * steep)
        slope = a[7] / a[5]
        if abs(slope) < _SPLITS and abs(a[1]) < _SPLITS and abs(slope * a[1]) < _MOST:
            back, back_rest = two_product(slope, a[5])
            slope_rest = ((a[7] - back) - back_rest) / a[5]
            drop, drop_rest = two_product(slope, a[1])
            return raw_add((a[3], a[4]), (-drop, -(drop_rest + slope * a[2] + slope_rest * a[1])))[0]
        return (a[3] - slope * a[1]) + (a[4] - slope * a[2])


# --- Weighted mean ---


_LARGE, _SMALL = 2.0**970, 2.0**-900
_DOWN, _UP = 2.0**-550, 2.0**550
_FACTOR = 1100
"""The exponent by which sums of large and of small products are scaled."""

WeightedSums = tuple[float, float, float, float, float, float, float, float]


class WeightedMean(IntegerSums):
    """The mean of x, weighted by w; see `sash.weighted_mean`. NaN if a value or a weight is NaN."""

    domain = ("number", "number")

    def typed(self, *kinds: Kind) -> Monoid:
        return PairWeightedMean(*checked_kinds(self, kinds, 2))

    def lift(self, x: Any, w: Any) -> Any:
        return (product_units(x, w), units(w))

    def lower(self, a: Any) -> Any:
        return weighted_quotient(a[0], a[1])

    def policy_value(self, a: Any) -> Any:
        """The mean, None without values."""
        return weighted_quotient(a[0], a[1])


class PairWeightedMean(Monoid):
    """The weighted mean of columns of these kinds: the sums above."""

    name = "weighted_mean"
    domain = ("number", "number")
    identity: Any = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    commutative = True

    def __init__(self, value: Kind, weight: Kind) -> None:
        self.value, self.weight = value, weight
        self.read: Callable[[Any], Pair] = READERS[value]
        self.read_weight: Callable[[Any], Pair] = READERS[weight]

    def lift(self, x: Any, w: Any) -> Any:
        return lifted_product(self.read(x), self.read_weight(w))

    def combine(self, a: Any, b: Any) -> Any:
        hi, lo = add((a[0], a[1]), (b[0], b[1]))
        weight = add((a[2], a[3]), (b[2], b[3]))
        if a[4] == 0.0 and b[4] == 0.0 and a[6] == 0.0 and b[6] == 0.0:
            return (hi, lo, weight[0], weight[1], 0.0, 0.0, 0.0, 0.0)
        large, small = raw_add((a[4], a[5]), (b[4], b[5])), raw_add((a[6], a[7]), (b[6], b[7]))
        return (hi, lo, weight[0], weight[1], large[0], large[1], small[0], small[1])

    def lower(self, a: Any) -> Any:
        if a[2] == 0.0:
            return None
        if abs(a[3]) <= _LARGE and a[4] == 0.0 and a[6] == 0.0:
            return a[0] / a[2]
        return far_quotient(a)

    def policy_value(self, a: Any) -> Any:
        return self.lower(a)

    def same(self, a: Any, b: Any) -> bool:
        return all(same_pair((a[i], a[i + 1]), (b[i], b[i + 1])) for i in (0, 2, 4, 6))


def lifted_product(x: Pair, w: Pair) -> WeightedSums:
    """The sums of one product."""
    p = abs(x[0] * w[0])
    if _SMALL <= p <= _LARGE and abs(x[0]) <= _LARGE and abs(w[0]) <= _LARGE:
        hi, lo = scaled_product(x, w, 1.0)
        return (hi, lo, w[0], w[1], 0.0, 0.0, 0.0, 0.0)
    return _far_product(x, w)


@noinline
def _far_product(x: Pair, w: Pair) -> WeightedSums:
    p = x[0] * w[0]
    if not (abs(x[0]) <= LARGEST and abs(w[0]) <= LARGEST):
        return (p, p, w[0], w[1], 0.0, 0.0, 0.0, 0.0)
    if x[0] == 0.0 or w[0] == 0.0:
        return (0.0, 0.0, w[0], w[1], 0.0, 0.0, 0.0, 0.0)
    if abs(p) < _SMALL:
        hi, lo = scaled_product(x, w, _UP)
        return (0.0, 0.0, w[0], w[1], 0.0, 0.0, hi, lo)
    if abs(p) > _LARGE:
        hi, lo = scaled_product(x, w, _DOWN)
        return (0.0, 0.0, w[0], w[1], hi, lo, 0.0, 0.0)
    # a moderate product with one factor near the end of the range: split that range between both
    down = abs(x[0]) > abs(w[0])
    scale = 2.0**-100 if down else 2.0**100
    hi, lo = scaled_product((x[0] * scale, x[1] * scale), (w[0] / scale, w[1] / scale), 1.0)
    return (hi, lo, w[0], w[1], 0.0, 0.0, 0.0, 0.0)


@noinline
def far_quotient(a: WeightedSums) -> float:
    """The quotient of sums of any size."""
    total, exponent = (a[0], a[1]), 0
    if abs(total[0]) <= LARGEST and a[4] != 0.0:
        total, exponent = raw_add((a[4], a[5]), (a[0] * _DOWN * _DOWN, a[1] * _DOWN * _DOWN)), _FACTOR
    elif abs(total[0]) < _SMALL * 2.0**200:
        total, exponent = raw_add((a[6], a[7]), (a[0] * _UP * _UP, a[1] * _UP * _UP)), -_FACTOR
    weight, shift = split_value((a[2], a[3]))
    value, more = split_value(total)
    if not (abs(value) <= LARGEST and abs(weight) <= LARGEST) or value == 0.0:
        return value / weight
    m, e = math.frexp(value)
    n, f = math.frexp(weight)
    return times_power(m / n, e - f + exponent + more - shift)
