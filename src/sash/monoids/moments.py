"""Variance, standard deviation, skewness and kurtosis, by forms that merge and keep their digits.

The state is the number of values, their mean as a double-double pair (an offset of 1e9 costs no digits of what
lies around it), and sums of powers of the distances from it: M2 = Σ (x - mean)², M3, M4. Two states merge by the
gap between their means; the formulas are those of Chan, Golub and LeVeque for M2, of Pébay for M3 and M4.

If those sums would overflow, or lose digits by underflow, the state takes another form, sizes and unit-free shapes, so
that there is a result whenever it is a float. NaN and infinite inputs make the result NaN.

    moderate     ( n, mean hi, mean lo, M2,        M3,       M4)         sums of powers of the distances from the mean
    relative     (-n, mean hi, mean lo, deviation, skewness, kurtosis)   where M2 is not within the range below

The deviation, √(M2 / n), is a float whenever the values are; skewness and kurtosis have no unit. The sign of the count
tells the form of a state, so that moderate states cost one comparison more. Two states that do not merge into a
moderate one are scaled to a size of 1 by a power of two, which is exact, merged, and scaled back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sash.expressions.source_text import excerpt
from sash.monoids.algebra import MOST_ROWS, TOLERANCE, Kind, Monoid, noinline
from sash.monoids.double_double import LARGEST, READERS, Pair, of_any, raw_add, raw_add_float
from sash.monoids.exact_integer import one_kind

# --- Relative ---

Moments = tuple[int, float, float, float, float, float]
"""The state of a kurtosis, of either form. For a variance M3 and M4 are 0."""

_SMALLEST = 5e-324


def is_moderate(m2: float, same_mean: bool, least: float, most: float) -> bool:
    """Is a merged M2 within the range? 0 is, unless the square of a gap between the means has underflowed."""
    return least <= m2 <= most or (m2 == 0.0 and same_mean)


def gap_between(a: Pair, b: Pair) -> float:
    """b - a of two means, rounded only at the end; not finite beyond the range."""
    return raw_add(b, (-a[0], -a[1]))[0]


def merged(a: Moments, b: Moments) -> Moments:
    """The merged moments of two moderate states."""
    n = a[0] + b[0]
    mean = (a[1], a[2])
    gap = gap_between(mean, (b[1], b[2]))
    p, q = a[0] / n, b[0] / n
    between = gap * (gap * (a[0] * q))
    m2 = a[3] + b[3] + between
    m3 = a[4] + b[4] + between * (gap * (p - q)) + 3.0 * gap * (p * b[3] - q * a[3])
    m4 = (
        a[5]
        + b[5]
        + between * (gap * gap * (p * p - p * q + q * q))
        + 6.0 * gap * gap * (p * p * b[3] + q * q * a[3])
        + 4.0 * gap * (p * b[4] - q * a[4])
    )
    hi, lo = raw_add_float(mean, gap * q)
    return (n, hi, lo, m2, m3, m4)


@noinline
def merged_far(a: Moments, b: Moments, least: float, most: float) -> Moments:
    """The merged moments of two states of any size; moderate if M2 is between `least` and `most`."""
    if a[3] != a[3] or b[3] != b[3]:
        return (abs(a[0]) + abs(b[0]), 0.0, 0.0, math.nan, math.nan, math.nan)
    exponent = magnitude(max(abs(a[1]), deviation(a[0], a[3])), max(abs(b[1]), deviation(b[0], b[3])))
    return _grown(merged(_shrunk(a, exponent), _shrunk(b, exponent)), exponent, least, most)


def magnitude(a: float, b: float) -> int:
    """The exponent of the larger of two sizes: over 2 to its power, both are below 1."""
    return int(math.frexp(max(a, b))[1])


def deviation(n: int, m2: float) -> float:
    """The root of the mean square distance, from the count and the fourth part of a state of either form."""
    return m2 if n < 0 else math.sqrt(m2 / n)


def times_power(x: float, exponent: int) -> float:
    """x * 2**exponent, for exponents up to 2000; infinite beyond the range, where `math.ldexp` raises."""
    return math.ldexp(x, min(exponent, 1000)) * 2.0 ** min(max(exponent - 1000, 0), 1000)


def grown_deviation(n: int, m2: float, exponent: int) -> float:
    """The deviation that belongs to an M2 other than 0 over 4**exponent: never 0, and not infinite by rounding."""
    return min(max(times_power(math.sqrt(m2 / n), exponent), _SMALLEST), LARGEST)


def _shrunk(a: Moments, exponent: int) -> Moments:
    n, hi, lo = abs(a[0]), math.ldexp(a[1], -exponent), math.ldexp(a[2], -exponent)
    if a[0] > 0:
        m2, m3 = math.ldexp(a[3], -2 * exponent), math.ldexp(a[4], -3 * exponent)
        return (n, hi, lo, m2, m3, math.ldexp(a[5], -4 * exponent))
    size = math.ldexp(a[3], -exponent)
    square = size * size
    return (n, hi, lo, n * square, n * (a[4] * (square * size)), n * (a[5] * (square * square)))


def _grown(a: Moments, exponent: int, least: float, most: float) -> Moments:
    n, m2, m3, m4 = a[0], a[3], a[4], a[5]
    hi, lo = times_power(a[1], exponent), times_power(a[2], exponent)
    if m2 == 0.0:
        return (n, hi, lo, 0.0, 0.0, 0.0)
    if math.frexp(least)[1] <= math.frexp(m2)[1] + 2 * exponent < math.frexp(most)[1]:
        m3, m4 = times_power(m3, 3 * exponent), times_power(m4, 4 * exponent)
        return (n, hi, lo, math.ldexp(m2, 2 * exponent), m3, m4)
    return (-n, hi, lo, grown_deviation(n, m2, exponent), skewness(n, m2, m3), kurtosis(n, m2, m4))


def skewness(n: int, m2: float, m3: float) -> float:
    """The skewness of a population, from its moderate sums; M2 is not 0."""
    return math.sqrt(n) * m3 / (m2 * math.sqrt(m2))


def kurtosis(n: int, m2: float, m4: float) -> float:
    """The kurtosis of a population, not less 3, from its moderate sums; M2 is not 0."""
    return n * (m4 / m2) / m2


def standard(a: Moments) -> Moments:
    """A state of either form in its relative form with a positive count, for comparisons."""
    if a[0] <= 0:
        return (-a[0], *a[1:])
    if a[3] == 0.0 or a[3] != a[3]:
        return a
    skewed = skewness(a[0], a[3], a[4]) if a[4] else 0.0  # M2 of a variance may be so small that M2**1.5 is 0
    return (a[0], a[1], a[2], deviation(a[0], a[3]), skewed, kurtosis(a[0], a[3], a[5]))


# --- Moments ---

_TINY = 1e-320  # some thousand of the smallest floats
_LEAST_2, _MOST_2 = 2.0**-960, 2.0**1000
_LEAST_3, _MOST_3 = 2.0**-600, 2.0**600  # |M3| <= M2**1.5 is a float for M2 between them, and keeps its digits
_LEAST_4, _MOST_4 = 2.0**-450, 2.0**450  # the same for M4 <= M2**2


def near(a: float, b: float, scale: float) -> bool:
    """Are two floats equal within `TOLERANCE` of a scale (NaN to NaN, infinities exactly)?"""
    return a == b or (a != a and b != b) or abs(a - b) <= min(TOLERANCE * scale + _TINY, LARGEST)


def blur(deviation: float) -> float:
    """A scale for quotients by a deviation: floats at the lower end of the range have few digits."""
    return _TINY / deviation / TOLERANCE if deviation > 0.0 else 0.0


def check_ddof(ddof: Any) -> int:
    """The value of `ddof=`, 0 or more. Raises TypeError or ValueError, with the value, for anything else."""
    if isinstance(ddof, bool) or not isinstance(ddof, int):
        raise TypeError(
            f"ddof= is subtracted from the count: it must be an integer; got {ddof!r}, a {type(ddof).__name__}"
        )
    if ddof < 0:
        raise ValueError(f"ddof= is subtracted from the count: it must be 0 or more; got {excerpt(ddof)}")
    if ddof > MOST_ROWS:
        raise ValueError(f"ddof= is subtracted from the count: it must be at most {MOST_ROWS}; got {excerpt(ddof)}")
    return ddof


class _Moments(Monoid):
    """The base of moments: reads numbers, and compares states."""

    domain = ("number",)
    commutative = True
    read: Callable[[Any], Pair]

    def __init__(self) -> None:
        self.read = of_any

    def typed(self, *kinds: Kind) -> Monoid:
        return self.changed(read=READERS[one_kind(self, kinds)])

    def same(self, a: Any, b: Any) -> bool:
        a, b = standard(_six(a)), standard(_six(b))
        deviation = max(a[3], b[3])
        mean = max(abs(a[1]), abs(b[1]), deviation)
        return (
            bool(a[0] == b[0])
            and near(a[1], b[1], mean)
            and near(a[3], b[3], deviation)
            and near(a[4], b[4], math.sqrt(a[0]) + blur(deviation))
            and near(a[5], b[5], a[0] + blur(deviation))
        )


def _six(a: Any) -> Moments:
    """A state with M3 and M4, 0 where it has none."""
    return (*a, 0.0, 0.0)[:6]


class Var(_Moments):
    """The variance: the mean square distance from the mean, over n - ddof; see `sash.var`.

    Infinite beyond the range of floats (values some 1e154 apart).

    >>> m = Var()
    >>> m.lower(m.combine(m.lift(1e9 + 1), m.lift(1e9 + 2)))
    0.5
    """

    identity: Any = (0, 0.0, 0.0, 0.0)

    def __init__(self, ddof: int = 1) -> None:
        super().__init__()
        self.ddof = check_ddof(ddof)

    def lift(self, x: Any) -> Any:
        hi, lo = self.read(x)
        if abs(hi) <= LARGEST:
            return (1, hi, lo, 0.0)
        return (1, 0.0, 0.0, math.nan)

    def combine(self, a: Any, b: Any) -> Any:
        if a[0] > 0 and b[0] > 0:
            n = a[0] + b[0]
            mean = (a[1], a[2])
            gap = gap_between(mean, (b[1], b[2]))
            share = b[0] / n
            m2 = a[3] + b[3] + gap * (gap * (a[0] * share))
            if is_moderate(m2, gap == 0.0, _LEAST_2, _MOST_2):
                hi, lo = raw_add_float(mean, gap * share)
                return (n, hi, lo, m2)
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        far = merged_far((a[0], a[1], a[2], a[3], 0.0, 0.0), (b[0], b[1], b[2], b[3], 0.0, 0.0), _LEAST_2, _MOST_2)
        return (far[0], far[1], far[2], far[3])

    def lower(self, a: Any) -> Any:
        n = abs(a[0])
        if n <= self.ddof:
            return None
        if a[0] > 0:
            return a[3] / (n - self.ddof)
        return a[3] * (a[3] * (n / (n - self.ddof)))


class Std(Var):
    """The standard deviation; see `sash.std`. It is finite even if the variance exceeds the range of floats.

    >>> m = Std(ddof=0)
    >>> m.lower(m.combine(m.lift(1e-200), m.lift(3e-200)))
    1e-200
    """

    def lower(self, a: Any) -> Any:
        n = abs(a[0])
        if n <= self.ddof:
            return None
        if a[0] > 0:
            return math.sqrt(a[3] / (n - self.ddof))
        return a[3] * math.sqrt(n / (n - self.ddof))


class Skewness(_Moments):
    """The skewness: the third moment over the second to the power 3/2; see `sash.skewness`."""

    identity: Any = (0, 0.0, 0.0, 0.0, 0.0)

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.bias = check_bias(bias)

    def lift(self, x: Any) -> Any:
        hi, lo = self.read(x)
        if abs(hi) <= LARGEST:
            return (1, hi, lo, 0.0, 0.0)
        return (1, 0.0, 0.0, math.nan, math.nan)

    def combine(self, a: Any, b: Any) -> Any:
        if a[0] > 0 and b[0] > 0:
            n = a[0] + b[0]
            mean = (a[1], a[2])
            gap = gap_between(mean, (b[1], b[2]))
            p, q = a[0] / n, b[0] / n
            between = gap * (gap * (a[0] * q))
            m2 = a[3] + b[3] + between
            if is_moderate(m2, gap == 0.0, _LEAST_3, _MOST_3):
                m3 = a[4] + b[4] + between * (gap * (p - q)) + 3.0 * gap * (p * b[3] - q * a[3])
                hi, lo = raw_add_float(mean, gap * q)
                return (n, hi, lo, m2, m3)
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        far = merged_far((a[0], a[1], a[2], a[3], a[4], 0.0), (b[0], b[1], b[2], b[3], b[4], 0.0), _LEAST_3, _MOST_3)
        return (far[0], far[1], far[2], far[3], far[4])

    def lower(self, a: Any) -> Any:
        n = abs(a[0])
        if a[3] == 0.0 or (n < 3 and not self.bias):
            return None
        found = skewness(n, a[3], a[4]) if a[0] > 0 else a[4]
        if self.bias:
            return found
        return found * math.sqrt(n * (n - 1.0)) / (n - 2.0)


class Kurtosis(_Moments):
    """The excess kurtosis: the fourth moment over the square of the second, minus 3; see `sash.kurtosis`."""

    identity: Any = (0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.bias = check_bias(bias)

    def lift(self, x: Any) -> Any:
        hi, lo = self.read(x)
        if abs(hi) <= LARGEST:
            return (1, hi, lo, 0.0, 0.0, 0.0)
        return (1, 0.0, 0.0, math.nan, math.nan, math.nan)

    def combine(self, a: Any, b: Any) -> Any:
        if a[0] > 0 and b[0] > 0:
            both = merged(a, b)
            if is_moderate(both[3], a[1] == b[1] and a[2] == b[2], _LEAST_4, _MOST_4):
                return both
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        return merged_far(a, b, _LEAST_4, _MOST_4)

    def lower(self, a: Any) -> Any:
        n = abs(a[0])
        if a[3] == 0.0 or (n < 4 and not self.bias):
            return None
        found = (kurtosis(n, a[3], a[5]) if a[0] > 0 else a[5]) - 3.0
        if self.bias:
            return found
        return (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * found + 6.0)


def check_bias(bias: Any) -> bool:
    """The value of `bias=`. Raises TypeError, with the value, unless it is a boolean."""
    if not isinstance(bias, bool):
        raise TypeError(f"bias= must be True (for the population) or False (adjusted for a sample); got {bias!r}")
    return bias
