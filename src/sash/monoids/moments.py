"""Variance, standard deviation, skewness and kurtosis, by forms that merge and keep their digits.

The state is the number of values, their mean as a double-double pair (an offset of 1e9 costs no digits of what
lies around it), and sums of powers of the distances from it: M2 = Σ (x - mean)², M3, M4. Two states merge by the
gap between their means; the formulas are those of Chan, Golub and LeVeque for M2, of Pébay for M3 and M4.

NaN and infinite inputs make the result NaN. M2 only grows as values come in, so to judge by it whether the
state still fits in floats does not depend on the order of combining: once it is beyond, the state is
(n, 0, 0, infinite or NaN …) for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import TOLERANCE, Kind, Monoid
from sash.monoids.exact import one_kind
from sash.monoids.twofold import LARGEST, READERS, Pair, of_any, raw_add, raw_add_float

_TINY = 1e-300
_WIDE_3, _NARROW_3 = 1e200, 1e-200  # |M3| <= M2**1.5 is a float for M2 between them, and keeps its digits
_WIDE_4, _NARROW_4 = 1e150, 1e-150  # the same for M4 <= M2**2


def gap_between(a: Pair, b: Pair) -> float:
    """b - a of two means, rounded only at the end; not finite beyond the range."""
    return raw_add(b, (-a[0], -a[1]))[0]


def near(a: float, b: float, scale: float) -> bool:
    """Are two floats equal within `TOLERANCE` of a scale (NaN to NaN, infinities exactly)?"""
    return a == b or (a != a and b != b) or abs(a - b) <= min(TOLERANCE * scale + _TINY, LARGEST)


def check_ddof(ddof: Any) -> int:
    """The delta degrees of freedom, if they are a count. Raises TypeError or ValueError, naming what came."""
    if isinstance(ddof, bool) or not isinstance(ddof, int):
        raise TypeError(f"ddof= is what is taken off the count, an integer; got {ddof!r}, a {type(ddof).__name__}")
    if ddof < 0:
        raise ValueError(f"ddof= is what is taken off the count, 0 or more; got {ddof}")
    return ddof


class _Moments(Monoid):
    """What all moments share: how a number is read, and when two states mean the same."""

    domain = ("number",)
    commutative = True
    read: Callable[[Any], Pair]

    def __init__(self) -> None:
        self.read = of_any

    def typed(self, *kinds: Kind) -> Monoid:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.read = READERS[one_kind(self, kinds)]
        return twin

    def same(self, a: Any, b: Any) -> bool:
        m2 = max(a[3], b[3])
        mean = max(abs(a[1]), abs(b[1]), math.sqrt(m2))
        return (
            bool(a[0] == b[0])
            and near(a[1], b[1], mean)
            and all(near(a[at], b[at], m2 ** ((at - 1) / 2)) for at in range(3, len(a)))
        )


class Var(_Moments):
    """The variance: the mean square distance from the mean, over n - ddof.

    Null for n <= ddof. Infinite where the squares leave the range of floats (values some 1e154 apart).

    >>> m = Var()
    >>> m.lower(m.combine(m.lift(1e9 + 1), m.lift(1e9 + 2)))
    0.5

    Raises TypeError for inputs that are no numbers, TypeError or ValueError if ddof is no count.
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
        n = a[0] + b[0]
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        mean = (a[1], a[2])
        gap = gap_between(mean, (b[1], b[2]))
        share = b[0] / n
        m2 = a[3] + b[3] + gap * (gap * (a[0] * share))
        if not m2 <= LARGEST:
            nan = a[3] != a[3] or b[3] != b[3]
            return (n, 0.0, 0.0, math.nan if nan else math.inf)
        hi, lo = raw_add_float(mean, gap * share)
        return (n, hi, lo, m2)

    def lower(self, a: Any) -> Any:
        if a[0] <= self.ddof:
            return None
        return a[3] / (a[0] - self.ddof)


class Std(Var):
    """The standard deviation: the square root of the variance, over n - ddof.

    Null for n <= ddof, infinite where the variance is.

    >>> m = Std(ddof=0)
    >>> m.lower(m.combine(m.lift(1), m.lift(3)))
    1.0

    Raises what `Var` raises.
    """

    def lower(self, a: Any) -> Any:
        if a[0] <= self.ddof:
            return None
        return math.sqrt(a[3] / (a[0] - self.ddof))


class Skewness(_Moments):
    """The skewness: the third moment over the second to the power 3/2.

    Of the population (bias=True, as in Spark and polars) or adjusted for a sample (bias=False, as in pandas).
    Null where it is undefined: without variance (or with one too small to be told, M2 < 1e-200), and, adjusted,
    below 3 values. NaN where M2 exceeds 1e200.

    >>> m = Skewness()
    >>> m.lower(m.combine(m.combine(m.lift(1), m.lift(1)), m.lift(4))) == 0.5**0.5
    True

    Raises TypeError for inputs that are no numbers, and if bias is no boolean.
    """

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
        n = a[0] + b[0]
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        mean = (a[1], a[2])
        gap = gap_between(mean, (b[1], b[2]))
        p, q = a[0] / n, b[0] / n
        between = gap * (gap * (a[0] * q))
        m2 = a[3] + b[3] + between
        if not m2 <= _WIDE_3:
            return (n, 0.0, 0.0, math.nan, math.nan)
        m3 = a[4] + b[4] + between * (gap * (p - q)) + 3.0 * gap * (p * b[3] - q * a[3])
        hi, lo = raw_add_float(mean, gap * q)
        return (n, hi, lo, m2, m3)

    def lower(self, a: Any) -> Any:
        n, m2 = a[0], a[3]
        if m2 < _NARROW_3 or (n < 3 and not self.bias):
            return None
        skewness = math.sqrt(n) * a[4] / (m2 * math.sqrt(m2))
        if self.bias:
            return skewness
        return skewness * math.sqrt(n * (n - 1.0)) / (n - 2.0)


class Kurtosis(_Moments):
    """The excess kurtosis: the fourth moment over the square of the second, minus 3.

    Of the population (bias=True, as in Spark and polars) or adjusted for a sample (bias=False, as in pandas).
    Null where it is undefined: without variance (or with one too small to be told, M2 < 1e-150), and, adjusted,
    below 4 values. NaN where M2 exceeds 1e150.

    >>> m = Kurtosis()
    >>> m.lower(m.combine(m.lift(0), m.lift(1)))
    -2.0

    Raises TypeError for inputs that are no numbers, and if bias is no boolean.
    """

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
        n = a[0] + b[0]
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        mean = (a[1], a[2])
        gap = gap_between(mean, (b[1], b[2]))
        p, q = a[0] / n, b[0] / n
        between = gap * (gap * (a[0] * q))
        m2 = a[3] + b[3] + between
        if not m2 <= _WIDE_4:
            return (n, 0.0, 0.0, math.nan, math.nan, math.nan)
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

    def lower(self, a: Any) -> Any:
        n, m2 = a[0], a[3]
        if m2 < _NARROW_4 or (n < 4 and not self.bias):
            return None
        kurtosis = n * (a[5] / m2) / m2 - 3.0
        if self.bias:
            return kurtosis
        return (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * kurtosis + 6.0)


def check_bias(bias: Any) -> bool:
    """The flag, if it is one. Raises TypeError, naming what came."""
    if not isinstance(bias, bool):
        raise TypeError(f"bias= is True (of the population) or False (adjusted for a sample); got {bias!r}")
    return bias
