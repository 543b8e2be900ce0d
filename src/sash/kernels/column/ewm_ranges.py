"""Exponentially weighted aggregates over whole columns, by two stacks.

    values    a  b  c  d │ e  f  g          front: the aggregate of each suffix of the older values, with ages up to d
              └──front──┘ └─back─┘          back: one aggregate of the younger values, with ages up to the newest

Windows that only grow have no front. `at` are the coordinates that ages are measured in: times, or numbers of rows. The
half-life is an argument, so that another half-life does not need another compilation; a structure's would be a constant
in its machine code.

A step adds one value to an aggregate (`_added`), and must wait for the step before it: the critical path is a
difference, a product and a sum of doubles with its error, some 25 cycles. That of `merged_mean`, which takes two
aggregates, is 60.
"""

from __future__ import annotations

import math
from typing import Any

from sash.monoids.double_double import LARGEST, two_sum
from sash.monoids.ewm import (
    MeanState,
    MomentState,
    age_between,
    decay_of,
    merged_deviation,
    merged_mean,
)


def ewm_means(
    x: Any, at: Any, los: Any, his: Any, first: int, stop: int, halflife: float, out: Any, valid: Any, front: Any
) -> None:
    """Weighted means of the values [los[row], his[row]); neither bound ever decreases."""
    boundary = base = after = -1
    step, shrink = -1.0, 0.0  # the last age between neighbours, and its weight: equal for all rows of Count windows
    back = (0.0, 0.0, 0.0)
    for row in range(first, stop):
        low, high = los[row], his[row]
        valid[row] = low < high
        if low >= high:
            continue
        if low >= after:  # nothing in common with the window before
            boundary, after, back = low, low, (0.0, 0.0, 0.0)
        elif low > boundary:
            boundary, base, after, back = high, low, high, (0.0, 0.0, 0.0)
            older = (1.0, x[high - 1], 0.0)
            front[0, high - 1 - base], front[1, high - 1 - base], front[2, high - 1 - base] = older
            for j in range(high - 2, low - 1, -1):
                older = _added(older, x[j], decay_of(age_between(at[j], at[high - 1]), halflife))
                front[0, j - base], front[1, j - base], front[2, j - base] = older
        while after < high:
            if back[0] == 0.0:
                back = (1.0, x[after], 0.0)
            else:
                age = age_between(at[after - 1], at[after])
                if age != step:
                    step, shrink = age, decay_of(age, halflife)
                back = _added((back[0] * shrink, back[1], back[2]), x[after], 1.0)
            after += 1
        if low == boundary:
            out[row] = back[1]
        elif back[0] == 0.0:
            out[row] = front[1, low - base]
        else:
            k = low - base
            decay = decay_of(age_between(at[boundary - 1], at[high - 1]), halflife)
            out[row] = _joined((front[0, k] * decay, front[1, k], front[2, k]), back)


def ewm_moments(
    x: Any, at: Any, los: Any, his: Any, first: int, stop: int, halflife: float, out: Any, valid: Any, front: Any
) -> None:
    """Weighted deviations of the values [los[row], his[row]), and in `out[1]` the factor that makes them unbiased.

    The factor is 0 if no two values have a weight.
    """
    boundary = base = after = -1
    step, shrink = -1.0, 0.0  # the last age between neighbours, and its weight: equal for all rows of Count windows
    back = (0.0, 0.0, 0.0, 0.0, 0.0)
    for row in range(first, stop):
        low, high = los[row], his[row]
        valid[row] = low < high
        if low >= high:
            continue
        if low >= after:  # nothing in common with the window before
            boundary, after, back = low, low, (0.0, 0.0, 0.0, 0.0, 0.0)
        elif low > boundary:
            boundary, base, after, back = high, low, high, (0.0, 0.0, 0.0, 0.0, 0.0)
            older = _of_one(x[high - 1])
            for j in range(high - 1, low - 1, -1):
                if j < high - 1:
                    older = _with(older, x[j], decay_of(age_between(at[j], at[high - 1]), halflife))
                k = j - base
                front[0, k], front[1, k], front[2, k], front[3, k], front[4, k] = older
        while after < high:
            if back[0] == 0.0:
                back = _of_one(x[after])
            else:
                age = age_between(at[after - 1], at[after])
                if age != step:
                    step, shrink = age, decay_of(age, halflife)
                aged = (back[0] * shrink, back[1], back[2], back[3], shrink * (shrink * back[4]))
                back = _with(aged, x[after], 1.0)
            after += 1
        found = back
        if low < boundary:
            k = low - base
            found = (front[0, k], front[1, k], front[2, k], front[3, k], front[4, k])
            if back[0] > 0.0:
                decay = decay_of(age_between(at[boundary - 1], at[high - 1]), halflife)
                found = _joined_moments((found[0] * decay, *found[1:4], decay * (decay * found[4])), back)
        out[0, row] = found[3]
        out[1, row] = 0.0 if found[4] == 0.0 else math.sqrt(found[0] * (found[0] / found[4]))


def _added(a: MeanState, x: float, weight: float) -> MeanState:
    """Add a value of this weight to a mean."""
    gap = (x - a[1]) - a[2]  # to 2 units in the last place: if both nearly cancel, the first difference is exact
    if not abs(gap) <= LARGEST:
        return merged_mean(a, (weight, x, 0.0), 1.0)
    total = a[0] + weight
    # start from the heavier side: the error is relative to what the lighter side adds
    if a[0] < weight:
        hi, lo = two_sum(x, -gap * (a[0] / total))
    else:
        hi, lo = two_sum(a[1], a[2] + gap * (weight / total))
    return (total, hi, lo)


def _joined(a: MeanState, b: MeanState) -> float:
    """The mean of two aggregates."""
    gap = (b[1] - a[1]) + (b[2] - a[2])
    if not abs(gap) <= LARGEST:
        return merged_mean(a, b, 1.0)[1]
    if a[0] <= b[0]:
        return b[1] + (b[2] - gap * (a[0] / (a[0] + b[0])))
    return a[1] + (a[2] + gap * (b[0] / (a[0] + b[0])))


def _joined_moments(a: MomentState, b: MomentState) -> MomentState:
    """The moments of two aggregates, without the mean."""
    total = a[0] + b[0]
    p, q = a[0] / total, b[0] / total
    gap = (b[1] - a[1]) + (b[2] - a[2])
    square = p * (a[3] * a[3]) + q * (b[3] * b[3]) + gap * (gap * (p * q))
    return (total, 0.0, 0.0, merged_deviation(square, a, b, p, q), a[4] + b[4] + 2.0 * (a[0] * b[0]))


def _with(a: MomentState, x: float, weight: float) -> MomentState:
    """Add a value of this weight to moments."""
    if not abs(x) <= LARGEST:
        return (a[0] + weight, a[1], a[2], math.nan, a[4] + 2.0 * (a[0] * weight))
    total, hi, lo = _added((a[0], a[1], a[2]), x, weight)
    p, q = a[0] / total, weight / total
    gap = (x - a[1]) - a[2]
    square = p * (a[3] * a[3]) + gap * (gap * (p * q))
    return (total, hi, lo, merged_deviation(square, a, (weight, x, 0.0, 0.0, 0.0), p, q), a[4] + 2.0 * (a[0] * weight))


def _of_one(x: float) -> MomentState:
    if abs(x) <= LARGEST:
        return (1.0, x, 0.0, 0.0, 0.0)
    return (1.0, 0.0, 0.0, math.nan, 0.0)
