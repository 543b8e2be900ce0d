"""The weighted mean: Σ w·x / Σ w.

In a loop both sums are exact (`exact_integer.py`): the products in units of 2**-2148, the weights in units of 2**-1074.
On columns they are double-double pairs (`double_double.py`), which hold a product of two floats exactly. Products
beyond the range in which a pair keeps all digits are summed separately, scaled by a power of two:

    (Σ w·x hi, lo,  Σ w hi, lo,  Σ of large w·x hi, lo,  Σ of small w·x hi, lo)

Weights of either sign are summed as they are. If the total weight is zero, there is no result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import Kind, Monoid, noinline
from sash.monoids.decimals import IntegerSums
from sash.monoids.double_double import LARGEST, READERS, Pair, add, raw_add, same_pair, scaled_product, split_value
from sash.monoids.exact_integer import checked_kinds, product_units, units, weighted_quotient
from sash.monoids.moments import times_power

_LARGE, _SMALL = 2.0**970, 2.0**-900
_DOWN, _UP = 2.0**-550, 2.0**550
_FACTOR = 1100
"""The exponent by which sums of large and of small products are scaled."""

Sums = tuple[float, float, float, float, float, float, float, float]


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


def lifted_product(x: Pair, w: Pair) -> Sums:
    """The sums of one product."""
    p = abs(x[0] * w[0])
    if _SMALL <= p <= _LARGE and abs(x[0]) <= _LARGE and abs(w[0]) <= _LARGE:
        hi, lo = scaled_product(x, w, 1.0)
        return (hi, lo, w[0], w[1], 0.0, 0.0, 0.0, 0.0)
    return _far_product(x, w)


@noinline
def _far_product(x: Pair, w: Pair) -> Sums:
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
def far_quotient(a: Sums) -> float:
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
