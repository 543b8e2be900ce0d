"""Kernels of exponentially weighted aggregates, against exact arithmetic, on sliding, growing and jumping windows."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sash.kernels.column.ewm_ranges import ewm_means, ewm_moments

ROWS = 120

WINDOWS: dict[str, Any] = {
    "growing": lambda i: (0, i + 1),
    "sliding": lambda i: (max(0, i - 16), i + 1),
    "jumping": lambda i: (i - i % 30, i + 1),
    "of the last": lambda i: (i, i + 1),
    "behind": lambda i: (max(0, i - 20), max(0, i - 9)),
    "with peers": lambda i: (max(0, i - i % 4 - 9), min(ROWS, i - i % 4 + 4)),
}


def values(kind: str) -> Any:
    chance = np.random.default_rng(5)
    x = chance.normal(size=ROWS)
    if kind == "offset":
        return x + 1e9
    x[7::40] = [1e16, -1e16, 1e16]
    return x


def exact(x: Any, at: Any, halflife: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """The mean, the biased variance, what it is divided by without bias, and the mean size: half-lives are whole."""
    weights = [Fraction(1, 2 ** ((int(at[-1]) - int(t)) // halflife)) for t in at]
    total = sum(weights)
    parts = [(weight / total, Fraction(value)) for weight, value in zip(weights, x.tolist(), strict=True)]
    mean = sum(p * value for p, value in parts)
    variance = sum(p * (value - mean) ** 2 for p, value in parts)
    size = sum(p * abs(value) for p, value in parts)
    return Fraction(mean), Fraction(variance), Fraction(1 - sum(p * p for p, _ in parts)), Fraction(size)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", ["offset", "spikes"])
def test_results_have_their_digits(kind: str, window: str) -> None:
    x = values(kind)
    at = np.cumsum(np.random.default_rng(2).integers(0, 3, ROWS)) * 3
    los, his = (np.array(bound) for bound in zip(*map(WINDOWS[window], range(ROWS)), strict=True))
    means, moments, valid = np.zeros(ROWS), np.zeros((2, ROWS)), np.zeros(ROWS, np.bool_)
    ewm_means(x, at, los, his, 0, ROWS, 3.0, means, valid, np.empty((3, ROWS)))
    ewm_moments(x, at, los, his, 0, ROWS, 3.0, moments, valid, np.empty((5, ROWS)))
    assert valid.tolist() == (his > los).tolist()
    for i in np.flatnonzero(valid).tolist():
        held = slice(los[i], his[i])
        mean, variance, share, size = exact(x[held], at[held], 3)
        assert abs(Fraction(means[i]) - mean) <= size * Fraction(1, 10**14)
        assert abs(Fraction(moments[0, i]) ** 2 - variance) <= variance * Fraction(1, 10**9)
        factor = Fraction(moments[1, i])
        assert factor == 0 if share == 0 else abs(factor**2 * share - 1) <= Fraction(1, 10**12)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan, 1.7e308, -1.7e308])
def test_values_at_the_limits_leave_with_their_windows(odd: float) -> None:
    x = np.array([1.0, 2.0, odd, 3.0, -1.7e308, 5.0, 6.0, 7.0])
    rows = len(x)
    at, los, his = np.arange(rows), np.maximum(np.arange(rows) - 2, 0), np.arange(rows) + 1
    means, moments, valid = np.zeros(rows), np.zeros((2, rows)), np.zeros(rows, np.bool_)
    with np.errstate(all="ignore"):
        ewm_means(x, at, los, his, 0, rows, 1.0, means, valid, np.empty((3, rows)))
        ewm_moments(x, at, los, his, 0, rows, 1.0, moments, valid, np.empty((5, rows)))
    held = [i for i in range(rows) if los[i] <= 2 < his[i]]
    assert np.isfinite(means[[i for i in range(rows) if i not in held]]).all()
    assert np.isfinite(moments[0, [i for i in range(rows) if i not in held]]).all()
    assert means[-1] == pytest.approx((5 + 2 * 6 + 4 * 7) / 7)
    for i in held:
        if math.isfinite(odd):
            assert math.isfinite(means[i])
            assert math.isfinite(moments[0, i])
        else:
            assert means[i] == odd or (math.isnan(odd) and math.isnan(means[i]))
            assert math.isnan(moments[0, i])
