"""Moments of values whose squares exceed the range of floats: states as sizes and unit-free shapes.

    moderate     ( n, mean hi, mean lo, M2,        M3,       M4)         sums of powers of the distances from the mean
    relative     (-n, mean hi, mean lo, deviation, skewness, kurtosis)   where M2 is not within the range below

The deviation, √(M2 / n), is a float whenever the values are; skewness and kurtosis have no unit. The sign of the count
tells the form of a state, so that moderate states cost one comparison more. Two states that do not merge into a
moderate one are scaled to a size of 1 by a power of two, which is exact, merged, and scaled back.
"""

from __future__ import annotations

import math

from sash.monoids.algebra import noinline
from sash.monoids.double_double import LARGEST, Pair, raw_add, raw_add_float

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
