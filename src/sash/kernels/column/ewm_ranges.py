"""Exponentially weighted aggregates over whole columns, by two stacks.

    values    a  b  c  d │ e  f  g          at the boundary: aggregates of each suffix of the older values, aged to d,
              └──front──┘ └─back─┘          and one of the younger ones, aged to the newest

`at` are the ages' coordinates: times, or numbers of rows. The half-life is an argument, so that another one compiles
nothing; a structure's would be a constant of its machine code.
"""

from __future__ import annotations

import math
from typing import Any

from sash.monoids.double_double import LARGEST
from sash.monoids.ewm_merge import age_between, decay_of, merged_mean, merged_moments


def ewm_means(
    x: Any, at: Any, los: Any, his: Any, first: int, stop: int, halflife: float, out: Any, valid: Any, front: Any
) -> None:
    """Weighted means of the values [los[row], his[row]); neither bound ever decreases."""
    boundary, base, after = -1, 0, 0
    step, shrink = -1.0, 0.0  # the last age between neighbours, and its weight: rows have one age
    back = (0.0, 0.0, 0.0)
    for row in range(first, stop):
        low, high = los[row], his[row]
        valid[row] = low < high
        if low >= high:
            continue
        if low >= boundary:
            boundary, base, after = high, low, high
            back = (0.0, 0.0, 0.0)
            older = (1.0, x[high - 1], 0.0)
            for j in range(high - 1, low - 1, -1):
                if j < high - 1:
                    decay = decay_of(age_between(at[j], at[high - 1]), halflife)
                    older = merged_mean((1.0, x[j], 0.0), older, decay)
                front[0, j - base], front[1, j - base], front[2, j - base] = older
        while after < high:
            if back[0] == 0.0:
                back = (1.0, x[after], 0.0)
            else:
                age = age_between(at[after - 1], at[after])
                if age != step:
                    step, shrink = age, decay_of(age, halflife)
                back = merged_mean(back, (1.0, x[after], 0.0), shrink)
            after += 1
        k = low - base
        if back[0] == 0.0:
            out[row] = front[1, k]
        else:
            decay = decay_of(age_between(at[boundary - 1], at[high - 1]), halflife)
            out[row] = merged_mean((front[0, k], front[1, k], front[2, k]), back, decay)[1]


def ewm_moments(
    x: Any, at: Any, los: Any, his: Any, first: int, stop: int, halflife: float, out: Any, valid: Any, front: Any
) -> None:
    """Weighted deviations of the values [los[row], his[row]), and in `out[1]` the factor that makes them unbiased.

    The factor is 0 if no two values have a weight.
    """
    boundary, base, after = -1, 0, 0
    step, shrink = -1.0, 0.0  # the last age between neighbours, and its weight: rows have one age
    back = (0.0, 0.0, 0.0, 0.0, 0.0)
    for row in range(first, stop):
        low, high = los[row], his[row]
        valid[row] = low < high
        if low >= high:
            continue
        if low >= boundary:
            boundary, base, after = high, low, high
            back = (0.0, 0.0, 0.0, 0.0, 0.0)
            older = _of_one(x[high - 1])
            for j in range(high - 1, low - 1, -1):
                if j < high - 1:
                    decay = decay_of(age_between(at[j], at[high - 1]), halflife)
                    older = merged_moments(_of_one(x[j]), older, decay)
                k = j - base
                front[0, k], front[1, k], front[2, k], front[3, k], front[4, k] = older
        while after < high:
            if back[0] == 0.0:
                back = _of_one(x[after])
            else:
                age = age_between(at[after - 1], at[after])
                if age != step:
                    step, shrink = age, decay_of(age, halflife)
                back = merged_moments(back, _of_one(x[after]), shrink)
            after += 1
        k = low - base
        found = (front[0, k], front[1, k], front[2, k], front[3, k], front[4, k])
        if back[0] > 0.0:
            found = merged_moments(found, back, decay_of(age_between(at[boundary - 1], at[high - 1]), halflife))
        out[0, row] = found[3]
        out[1, row] = 0.0 if found[4] == 0.0 else math.sqrt(found[0] * (found[0] / found[4]))


def _of_one(x: float) -> tuple[float, float, float, float, float]:
    if abs(x) <= LARGEST:
        return (1.0, x, 0.0, 0.0, 0.0)
    return (1.0, 0.0, 0.0, math.nan, 0.0)
