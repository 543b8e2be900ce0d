"""Moments and regressions of windows in fractions, and how far a result may lie from them.

A tolerance is relative to what a function is made of, not to its size: a covariance of 0 comes from products that
cancel, an intercept is the mean of y less slope times the mean of x.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate
from typing import Any

ONE = ("sum", "mean", "var", "std", "skewness", "kurtosis")
TWO = ("covariance", "correlation", "slope", "intercept")
DIGITS = Fraction(1, 10**12)
FEWER = Fraction(1, 10**9)
"""Of third and fourth powers."""
LARGEST = Fraction(1.7976931348623157e308)


class Exact:
    """Sums of powers of the columns x and y up to each row, in integers: those of a window are differences."""

    def __init__(self, x: list[float], y: list[float]) -> None:
        self.x_unit, xs = units(x)
        self.y_unit, ys = units(y)
        powers = [[a**k for a in xs] for k in range(1, 5)]
        powers += [ys, [b * b for b in ys], [a * b for a, b in zip(xs, ys, strict=True)]]
        self.sums = [[0, *accumulate(column)] for column in powers]

    def wrong(self, function: str, window: tuple[int, int], found: Any) -> str:
        """Errors of the results of the rows [start, end); empty if they are correct."""
        start, end = window
        n = end - start
        x1, x2, x3, x4, y1, y2, xy = (sums[end] - sums[start] for sums in self.sums)
        u, v = self.x_unit, self.y_unit
        if function in ("sum", "mean"):
            wanted = x1 * u if function == "sum" else x1 * u / n
            return judged(found, wanted, DIGITS * abs(wanted))
        xx, yy, c = n * x2 - x1 * x1, n * y2 - y1 * y1, n * xy - x1 * y1  # n times M2x, M2y and C
        still = not xx and function not in ("var", "std", "covariance")
        if n == 1 or still or (not yy and function == "correlation"):
            return "" if found is None else f"{found} where there is none"
        if function in ("var", "std"):
            variance = Fraction(xx, n * (n - 1))
            wanted = variance * u * u if function == "var" else root(variance) * u
            return judged(found, wanted, DIGITS * wanted)
        if function == "skewness":
            m3 = n * n * x3 - 3 * n * x1 * x2 + 2 * x1**3
            wanted = Fraction(m3, xx) / root(Fraction(xx))
            return judged(found, wanted, FEWER * (1 + abs(wanted)))
        if function == "kurtosis":
            m4 = n**3 * x4 - 4 * n * n * x1 * x3 + 6 * n * x1 * x1 * x2 - 3 * x1**4
            wanted = Fraction(m4, xx * xx) - 3
            return judged(found, wanted, FEWER * (1 + abs(wanted)))
        both = root(Fraction(xx * yy))
        if function == "covariance":
            return judged(found, Fraction(c, n * (n - 1)) * u * v, DIGITS * both / (n * (n - 1)) * u * v)
        if function == "correlation":
            return judged(found, c / both, DIGITS)
        if function == "slope":
            return judged(found, Fraction(c, xx) * v / u, DIGITS * both / xx * v / u)
        wanted = (y1 - Fraction(c * x1, xx)) * v / n
        return judged(found, wanted, DIGITS * (abs(y1) + both * abs(x1) / xx) * v / n)


def units(values: list[float]) -> tuple[Fraction, list[int]]:
    """A power of two of which all values are multiples, and the multipliers."""
    ratios = [value.as_integer_ratio() for value in values]
    most = max(denominator for _, denominator in ratios)
    whole = [numerator * (most // denominator) for numerator, denominator in ratios]
    zeros = min(((a & -a).bit_length() - 1 for a in whole if a), default=0)
    return Fraction(2**zeros, most), [a >> zeros for a in whole]


def root(x: Fraction) -> Fraction:
    """The square root, with some 60 digits, however large or small."""
    if x == 0:
        return x
    shift = (400 - x.numerator.bit_length() + x.denominator.bit_length()) // 2
    return Fraction(math.isqrt(int(x * Fraction(4) ** shift))) / Fraction(2) ** shift


def judged(found: Any, wanted: Fraction, slack: Fraction) -> str:
    """A result against a fraction; a few of the smallest floats are always allowed, and infinity beyond the largest."""
    if found is None or math.isnan(found):
        return f"{found} for {_formatted(wanted)}"
    if math.isinf(found):
        return "" if abs(wanted) > LARGEST * (1 - DIGITS) else f"{found} for {_formatted(wanted)}"
    if abs(Fraction(found) - wanted) <= slack + 64 * Fraction(5e-324):
        return ""
    return f"{found} for {_formatted(wanted)}"


def _formatted(x: Fraction) -> str:
    return f"{float(x)}" if abs(x) <= LARGEST else "beyond the range"
