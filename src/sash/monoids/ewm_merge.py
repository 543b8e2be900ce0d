"""Merge weighted means and deviations, for exponentially weighted aggregates.

    mean       (W, mean hi, mean lo)                   W = Σ w, relative to the newest value
    moments    (W, mean hi, mean lo, D, P)             D = √(Σ w (x - mean)² / W),  P = Σ w·w' over pairs of values

`decay` ages the first state. Means and deviations never exceed the values, so that neither overflows; P is a sum of
products of different weights, Σ w w' = W² - Σ w², without the cancellation of that difference.
"""

from __future__ import annotations

import math
from typing import Any

from sash.monoids.algebra import noinline
from sash.monoids.double_double import LARGEST, Pair, raw_add_float
from sash.monoids.exact_integer import INT64_MAX
from sash.monoids.relative import gap_between

MeanState = tuple[float, float, float]
MomentState = tuple[float, float, float, float, float]

NO_MEAN: MeanState = (0.0, 0.0, 0.0)
NO_MOMENTS: MomentState = (0.0, 0.0, 0.0, 0.0, 0.0)

_LEAST_WEIGHT = 2.0**-500
"""A weight below counts as zero: its products with others would lose digits by underflow."""

_LEAST, _MOST = 2.0**-960, 2.0**1000


def decay_of(age: float, halflife: float) -> float:
    """The weight of a value of this age."""
    decay = 0.5 ** (age / halflife)
    return decay if decay >= _LEAST_WEIGHT else 0.0


def age_between(older: Any, newer: Any) -> float:
    """The time between both; beyond 64 bits, where compiled integers wrap around, as a difference of floats."""
    if older < 0 and newer > INT64_MAX + older:
        return float(newer) - float(older)
    return float(newer - older)


def merged_mean(a: MeanState, b: MeanState, decay: float) -> MeanState:
    """The mean of both, the first aged by `decay`."""
    old = a[0] * decay
    weight = old + b[0]
    gap = gap_between((a[1], a[2]), (b[1], b[2]))
    if not abs(gap) <= LARGEST:
        hi, lo = _far_mean((a[1], a[2]), (b[1], b[2]), old / weight, b[0] / weight)
        return (weight, hi, lo)
    # from the heavier mean: the error is relative to what the lighter one adds
    if old <= b[0]:
        hi, lo = raw_add_float((b[1], b[2]), -gap * (old / weight))
    else:
        hi, lo = raw_add_float((a[1], a[2]), gap * (b[0] / weight))
    return (weight, hi, lo)


@noinline
def _far_mean(a: Pair, b: Pair, p: float, q: float) -> Pair:
    """The mean of values whose distance exceeds the range, or that are not finite."""
    if abs(a[0]) <= LARGEST and abs(b[0]) <= LARGEST:
        return a[0] * p + b[0] * q, 0.0
    return a[0] + b[0], 0.0


def merged_moments(a: MomentState, b: MomentState, decay: float) -> MomentState:
    """The moments of both, the first aged by `decay`."""
    weight, hi, lo = merged_mean((a[0], a[1], a[2]), (b[0], b[1], b[2]), decay)
    old = a[0] * decay
    pairs = decay * (decay * a[4]) + b[4] + 2.0 * (old * b[0])
    p, q = old / weight, b[0] / weight
    gap = gap_between((a[1], a[2]), (b[1], b[2]))
    square = p * (a[3] * a[3]) + q * (b[3] * b[3]) + gap * (gap * (p * q))
    return (weight, hi, lo, merged_deviation(square, a, b, p, q), pairs)


def merged_deviation(square: float, a: MomentState, b: MomentState, p: float, q: float) -> float:
    """The merged deviation, from its square if that is within the range."""
    return math.sqrt(square) if _LEAST <= square <= _MOST else _far_deviation(a, b, p, q)


@noinline
def _far_deviation(a: MomentState, b: MomentState, p: float, q: float) -> float:
    """The merged deviation, if the squares are beyond the range: scaled by a power of two, which is exact."""
    if a[3] != a[3] or b[3] != b[3]:
        return math.nan
    gap = 0.5 * b[1] - 0.5 * a[1] + (0.5 * b[2] - 0.5 * a[2])
    largest = max(max(0.5 * a[3], 0.5 * b[3]), abs(gap))  # noqa: PLW3301 (of two, as compiled)
    if largest == 0.0:
        return 0.0
    exponent = math.frexp(largest)[1]
    gap, left, right = math.ldexp(gap, -exponent), math.ldexp(0.5 * a[3], -exponent), math.ldexp(0.5 * b[3], -exponent)
    square = p * (left * left) + q * (right * right) + p * q * (gap * gap)
    return min(math.ldexp(math.sqrt(square), exponent) * 2.0, LARGEST)
