"""How near the inexact forms come to exact arithmetic, on streams made to break them.

Each window is folded from the left, as a balanced tree and in random groups; each result is held against
fractions. The goals: a relative error below 1e-12 for sum and mean, 1e-9 for the variance.
"""

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.monoids import double_double
from sash.monoids.algebra import Monoid
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.monoids.product import GeometricMean, Product
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope
from sash.monoids.sums import Mean, Sum, SumOfSquares
from tests.monoids.test_first_last import INT64

Rows = list[tuple[Any, ...]]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST = 1.7976931348623157e308
Fold = Callable[[Monoid, Rows], Any]


def from_the_left(monoid: Monoid, rows: Rows) -> Any:
    return reduce(monoid.combine, (monoid.lift(*row) for row in rows), monoid.identity)


def as_a_tree(monoid: Monoid, rows: Rows) -> Any:
    if len(rows) == 1:
        return monoid.lift(*rows[0])
    middle = len(rows) // 2
    return monoid.combine(as_a_tree(monoid, rows[:middle]), as_a_tree(monoid, rows[middle:]))


def in_random_groups(monoid: Monoid, rows: Rows) -> Any:
    chance = random.Random(len(rows))
    states = [monoid.lift(*row) for row in rows]
    while len(states) > 1:
        at = chance.randrange(len(states) - 1)
        states[at : at + 2] = [monoid.combine(states[at], states[at + 1])]
    return states[0]


FOLDS: list[Fold] = [from_the_left, as_a_tree, in_random_groups]


def _gauss(n: int, mean: float, deviation: float) -> list[float]:
    chance = random.Random(7)
    return [chance.gauss(mean, deviation) for _ in range(n)]


def _spikes(height: float) -> list[float]:
    """Values around 0 and, among them, spikes up and down that cancel."""
    values = _gauss(999, 0.3, 1.0)
    for at in range(0, 999, 100):
        values[at] = height if at % 200 else -height
    return values


STREAMS: dict[str, list[float]] = {
    "around 0": _gauss(1000, 0.0, 1.0),
    "offset 1e9": _gauss(1000, 1e9, 1.0),
    "offset -1e9, close": _gauss(1000, -1e9, 1e-6),
    "spikes 1e16": _spikes(1e16),
    "spikes 1e16, offset 1e9": [x + 1e9 for x in _spikes(1e16)],
    "spikes 1e22": _spikes(1e22),
    "one spike": [1e16, *_gauss(500, 1.0, 1.0)],
    "spikes beyond the range": [1.7e308, 1.6e308, *_gauss(100, 3e296, 1e296), -1.7e308, -1.6e308],
    "tiny": _gauss(500, 1e-140, 1e-141),
    "two values": [1e9, 1e9 + 1e-6],
    "level shift": [*_gauss(500, 0.0, 1e-3), *_gauss(500, 1e9, 1e-3)],
    "growing": [1.5**i for i in range(300)],
}
MODERATE = {name: values for name, values in STREAMS.items() if name != "spikes beyond the range"}


def one(values: list[float]) -> Rows:
    return [(x,) for x in values]


def fractions(values: list[float]) -> list[Fraction]:
    return [Fraction(x) for x in values]


def total(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def central(values: list[float], power: int) -> Fraction:
    """The mean of the powers of the distances from the mean."""
    exact = fractions(values)
    mean = total(exact) / len(exact)
    return total((x - mean) ** power for x in exact) / len(exact)


def error(found: float, exact: Fraction) -> float:
    return float(abs((Fraction(found) - exact) / exact))


def ids(streams: dict[str, list[float]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("values", streams.values(), ids=streams.keys())


folded = pytest.mark.parametrize("fold", FOLDS)


@ids(STREAMS)
@folded
@pytest.mark.parametrize("form", ["loop", "column"])
def test_sum_and_mean(form: str, fold: Fold, values: list[float]) -> None:
    exact = total(fractions(values))
    for monoid, wanted in ((Sum(), exact), (Mean(), exact / len(values))):
        m: Monoid = monoid if form == "loop" else monoid.typed("float")
        found = m.lower(fold(m, one(values)))
        assert error(found, wanted) < 1e-12
        if form == "loop":
            assert found == float(wanted), "correctly rounded"


@ids(MODERATE)
@folded
def test_sum_of_squares(fold: Fold, values: list[float]) -> None:
    wanted = total(x * x for x in fractions(values))
    m = SumOfSquares()
    assert m.lower(fold(m, one(values))) == float(wanted)
    typed = m.typed("float")
    assert error(typed.lower(fold(typed, one(values))), wanted) < 1e-15


@ids(MODERATE)
@folded
def test_variance(fold: Fold, values: list[float]) -> None:
    n = len(values)
    wanted = central(values, 2) * n / (n - 1)
    for m in (Var(), Var().typed("float")):
        assert error(m.lower(fold(m, one(values))), wanted) < 1e-12
    assert Std().lower(fold(Std(), one(values))) == pytest.approx(math.sqrt(float(wanted)), rel=1e-12)


@ids({name: values for name, values in MODERATE.items() if name not in ("two values", "tiny")})
@folded
def test_skewness_and_kurtosis(fold: Fold, values: list[float]) -> None:
    m2, m3, m4 = (central(values, power) for power in (2, 3, 4))
    size = float(m2) ** 1.5
    assert Skewness().lower(fold(Skewness(), one(values))) == pytest.approx(float(m3) / size, rel=1e-9, abs=1e-12)
    wanted = float(m4 / m2**2) - 3.0
    assert Kurtosis().lower(fold(Kurtosis(), one(values))) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("start", [2**62, -(2**63), 10**15])
@folded
def test_integers_beyond_2_53_keep_their_digits(fold: Fold, start: int) -> None:
    values = [start + random.Random(i).randrange(100) for i in range(200)]
    rows: Rows = [(x,) for x in values]
    exact = [Fraction(x) for x in values]
    mean = total(exact) / len(exact)
    variance = total((x - mean) ** 2 for x in exact) / (len(exact) - 1)
    wanted = [(Var(), variance, 1e-12), (Mean(), mean, 2.0**-52)]
    for monoid, value, goal in wanted:
        for m in (monoid, monoid.typed("int")):
            assert error(m.lower(fold(m, rows)), value) < goal


@ids(MODERATE)
@folded
def test_regression(fold: Fold, values: list[float]) -> None:
    chance = random.Random(3)
    xs = values
    ys = [3.0 * x + chance.gauss(1e9, 1.0) for x in xs]
    rows: Rows = list(zip(xs, ys, strict=True))
    x, y = fractions(xs), fractions(ys)
    x_mean, y_mean = total(x) / len(x), total(y) / len(y)
    c = total((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    m2x = total((a - x_mean) ** 2 for a in x)
    m2y = total((b - y_mean) ** 2 for b in y)
    spread = math.sqrt(float(m2x)) * math.sqrt(float(m2y))  # what the products were before they cancelled
    for m in (Covariance(ddof=0), Covariance(ddof=0).typed("float", "float")):
        found = m.lower(fold(m, rows)) * len(rows)
        assert float(abs(Fraction(found) - c)) < 1e-12 * spread
    steepest = math.sqrt(float(m2y / m2x))
    assert abs(Slope().lower(fold(Slope(), rows)) - float(c / m2x)) < 1e-12 * steepest
    assert abs(Correlation().lower(fold(Correlation(), rows)) - float(c) / spread) < 1e-12
    wanted = float(y_mean - c / m2x * x_mean)
    scale = abs(float(y_mean)) + steepest * abs(float(x_mean))  # spikes that cancel are in neither
    for intercept in (Intercept(), Intercept().typed("float", "float")):
        assert abs(intercept.lower(fold(intercept, rows)) - wanted) < (1e-9 if max(xs) > 1e20 else 1e-12) * scale


@pytest.mark.parametrize(("low", "high"), [(0.5, 2.0), (1e-300, 1e-290), (1e290, 1.7e308), (1e-308, 1e308)])
@folded
def test_geometric_mean(fold: Fold, low: float, high: float) -> None:
    chance = random.Random(11)
    values = [math.exp(chance.uniform(math.log(low), math.log(high))) for _ in range(1000)]
    logs = math.fsum(math.log2(m) for m, _ in map(math.frexp, values))
    whole, rest = divmod(sum(e for _, e in map(math.frexp, values)), 1000)
    wanted = math.ldexp(2.0 ** ((logs + rest) / 1000), whole)
    for m in (GeometricMean(), GeometricMean().typed("float")):
        assert m.lower(fold(m, one(values))) == pytest.approx(wanted, rel=1e-14)


@folded
def test_product_of_many(fold: Fold) -> None:
    chance = random.Random(5)
    values = [chance.uniform(0.1, 10.0) * 10.0 ** chance.choice((-250, 250)) for _ in range(200)]
    wanted = math.prod(fractions(values))
    found = fold(Product().typed("float"), one(values))
    assert float(abs(Fraction(found[1]) * Fraction(2) ** found[2] / wanted - 1)) < 1e-13


# ---- pairs of floats ----


@given(FINITE, FINITE)
def test_a_pair_holds_the_sum_of_two_floats_exactly(x: float, y: float) -> None:
    a = double_double.add(double_double.of_float(x), double_double.of_float(y))
    assert pair_value(a) == Fraction(x) + Fraction(y)


def pair_value(a: tuple[float, float]) -> Fraction:
    beyond = abs(a[1]) > 2.0**973
    return (Fraction(a[0]) + Fraction(a[1])) * (2**48 if beyond else 1)


@example(1.0, 2.0**-60, -1.0, 2.0**-60)  # all that is left is the sum of the second parts
@given(FINITE, FINITE, FINITE, FINITE)
def test_the_sum_of_pairs_is_accurate_where_they_cancel(x: float, y: float, z: float, w: float) -> None:
    pairs = [double_double.add(double_double.of_float(p), double_double.of_float(q)) for p, q in ((x, y), (z, w))]
    wanted = pair_value(pairs[0]) + pair_value(pairs[1])
    found = pair_value(double_double.add(pairs[0], pairs[1]))
    assert abs(found - wanted) <= abs(wanted) * Fraction(4) * Fraction(2) ** -106


@given(st.floats(2.0**-480, 2.0**511) | st.floats(-(2.0**511), -(2.0**-480)))
def test_a_pair_holds_a_square_exactly(x: float) -> None:
    assert pair_value(double_double.square(x)) == Fraction(x) ** 2


@given(INT64)
def test_a_pair_holds_an_integer_exactly(x: int) -> None:
    assert pair_value(double_double.of_int(x)) == pair_value(double_double.of_any(x)) == x


def test_beyond_the_range_and_back() -> None:
    a = double_double.of_float(LARGEST)
    b = double_double.add(double_double.add(a, a), a)
    assert double_double.value(b) == math.inf
    assert double_double.ratio(b, 3) == LARGEST
    minus = double_double.of_float(-LARGEST)
    assert double_double.add(double_double.add(b, minus), minus) == a
    assert double_double.add(double_double.add(double_double.add(b, minus), minus), minus) == (0.0, 0.0)
    assert double_double.add(b, double_double.of_float(math.inf)) == (math.inf, math.inf)
    assert double_double.same_pair(double_double.add(b, double_double.of_float(math.nan)), (math.nan, math.nan))
