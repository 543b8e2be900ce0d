"""The weighted mean, compared with exact arithmetic."""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.monoids import WeightedMean

TOP, LEAST = 1.7976931348623157e308, 5e-324


def exact(rows: list[tuple[float, float]]) -> Fraction | None:
    weight = sum((Fraction(w) for _, w in rows), Fraction(0))
    return sum((Fraction(x) * Fraction(w) for x, w in rows), Fraction(0)) / weight if weight else None


def fold(monoid: Any, rows: list[tuple[float, float]]) -> Any:
    state = monoid.identity
    for row in rows:
        state = monoid.combine(state, monoid.lift(*row))
    return monoid.lower(state)


FAR = [
    [(1e200, 1e200), (3e200, 1e200)],
    [(TOP, TOP), (-TOP, TOP / 2)],
    [(1e-200, 1e-200), (3e-200, 1e-200)],
    [(LEAST, LEAST), (2 * LEAST, LEAST)],
    [(1.5, LEAST), (2.5, LEAST)],
    [(TOP, LEAST), (1.0, 1.0)],
    [(1e300, 1e-300), (1e-300, 1e300)],
    [(1e16, 1.0), (1.0, 1.0), (-1e16, 1.0)],
    [(3.0, 1.0), (5.0, -0.5)],
]


@pytest.mark.parametrize("rows", FAR, ids=str)
def test_products_beyond_the_range_keep_their_digits(rows: list[tuple[float, float]]) -> None:
    wanted = exact(rows)
    assert wanted is not None
    assert fold(WeightedMean(), rows) == float(wanted)
    assert fold(WeightedMean().typed("float", "float"), rows) == pytest.approx(float(wanted), rel=1e-15, abs=0.0)


@pytest.mark.parametrize("monoid", [WeightedMean(), WeightedMean().typed("float", "float")], ids=str)
def test_what_has_no_mean_and_what_is_not_finite(monoid: Any) -> None:
    assert fold(monoid, [(3.0, 1.0), (5.0, -1.0)]) is None
    assert fold(monoid, [(math.inf, 0.0)]) is None
    assert fold(monoid, [(math.inf, 1.0), (1.0, 1.0)]) == math.inf
    assert fold(monoid, [(math.inf, -1.0), (1.0, -1.0)]) == math.inf
    for rows in ([(1.0, math.inf)], [(math.nan, 1.0)], [(1.0, math.nan)], [(math.inf, 1.0), (-math.inf, 1.0)]):
        assert math.isnan(fold(monoid, rows))


@pytest.mark.parametrize("window", [3, 50, sash.Lifetime()], ids=str)
def test_columns_have_their_digits(window: Any) -> None:
    chance = random.Random(3)
    x: list[Any] = [1e9 + chance.gauss(0, 1) for _ in range(400)]
    w: list[Any] = [chance.gauss(1, 1) for _ in x]
    x[::31] = [chance.choice((1e16, -1e16)) for _ in x[::31]]
    x[3::17], w[5::19] = [None] * len(x[3::17]), [None] * len(w[5::19])
    found = sash.rolling(pa.table({"x": x, "w": w}), window, m=sash.weighted_mean("x", "w"))["m"].to_pylist()
    for i in range(0, len(x), 7):
        first = 0 if isinstance(window, sash.Lifetime) else max(0, i + 1 - window)
        rows = [(a, b) for a, b in zip(x[first : i + 1], w[first : i + 1], strict=True) if None not in (a, b)]
        wanted = exact(rows) if rows else None
        assert (found[i] is None) == (wanted is None)
        if wanted is not None:
            assert abs(Fraction(found[i]) - wanted) <= abs(wanted) * Fraction(1, 10**12)


@pytest.mark.parametrize("rows", [*FAR, [(math.nan, 1.0), (1.0, 1.0)], [(2**62 + 1, 3), (5, 2**61 + 1)]], ids=str)
def test_columns_that_the_kernels_of_sums_leave_to_the_monoid(rows: list[tuple[Any, Any]]) -> None:
    table = pa.table({"x": [x for x, _ in rows], "w": [w for _, w in rows]})
    found = sash.rolling(table, sash.Lifetime(), m=sash.weighted_mean("x", "w"))["m"].to_pylist()[-1]
    assert np.isclose(found, fold(WeightedMean(), rows), rtol=1e-15, atol=0.0, equal_nan=True)
