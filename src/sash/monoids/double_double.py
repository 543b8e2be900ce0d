"""Double-double arithmetic: an unevaluated sum of two floats, hi + lo, as a number of some 106 bits.

    hi = the sum, rounded to a float      |lo| <= ulp(hi) / 2

Plain functions on (hi, lo) pairs that run interpreted and compiled. Intermediate sums may exceed the range of floats:
a sum must not depend on how it is grouped. So beyond the range a pair is scaled by 2**-48 and stored in reverse order,
which distinguishes it from every pair within the range:

    within the range     (hi, lo)                       |lo| <= 2**970
    beyond the range     (lo * 2**-48, hi * 2**-48)     |second| >= 2**976; good for 2**48 of the largest floats
    infinite, NaN        (inf, inf), (-inf, -inf), (nan, nan): from such inputs only

The additions are those of Knuth and Dekker; the sum of two pairs has a relative error below 3.1 * 2**-106, also
where they cancel, as shown for its accurate variant by Joldes, Muller and Popescu, ACM TOMS 44 (2017).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import TOLERANCE, Kind, agree
from sash.monoids.exact_integer import number

Pair = tuple[float, float]

LARGEST = sys.float_info.max
_DOWN = 2.0**-48
_UP = 2.0**48
_BEYOND = 2.0**976
_LIMIT = 2.0**973  # above every second part within the range, below every one beyond it
_SPLITTER = 2.0**27 + 1.0


def two_sum(a: float, b: float) -> Pair:
    """The exact sum a + b: the rounded sum and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def quick_two_sum(a: float, b: float) -> Pair:
    """The exact sum a + b, for |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


def two_square(a: float) -> Pair:
    """The exact square a * a, for 2**-485 <= |a| <= 2**500; below, the error term underflows."""
    c = _SPLITTER * a
    high = c - (c - a)
    low = a - high
    p = a * a
    return p, ((high * high - p) + 2.0 * high * low) + low * low


def two_product(a: float, b: float) -> Pair:
    """The exact product a * b, for factors up to 2**990 whose product is between 2**-960 and 2**1000."""
    c, d = _SPLITTER * a, _SPLITTER * b
    high_a, high_b = c - (c - a), d - (d - b)
    low_a, low_b = a - high_a, b - high_b
    p = a * b
    return p, (((high_a * high_b - p) + high_a * low_b) + low_a * high_b) + low_a * low_b


def raw_add(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs; not finite beyond the range."""
    s, s_rest = two_sum(a[0], b[0])
    t, t_rest = two_sum(a[1], b[1])
    v, v_rest = quick_two_sum(s, s_rest + t)
    return quick_two_sum(v, t_rest + v_rest)


def raw_add_float(a: Pair, x: float) -> Pair:
    """The sum of a pair and a float; not finite beyond the range."""
    s, rest = two_sum(a[0], x)
    return quick_two_sum(s, a[1] + rest)


def add(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs of any size."""
    c = raw_add(a, b)
    if abs(c[0]) <= LARGEST and abs(a[1]) + abs(b[1]) <= _LIMIT:
        return c
    return _add_beyond(a, b)


def _add_beyond(a: Pair, b: Pair) -> Pair:
    if not (abs(a[1]) <= LARGEST and abs(b[1]) <= LARGEST):
        infinite = a[1] + b[1]
        return infinite, infinite
    hi, lo = raw_add(_scaled(a), _scaled(b))
    if abs(hi) < _BEYOND:
        return hi * _UP, lo * _UP
    return lo, hi


def _scaled(a: Pair) -> Pair:
    if abs(a[1]) <= _LIMIT:
        return a[0] * _DOWN, a[1] * _DOWN
    return a[1], a[0]


def value(a: Pair) -> float:
    """The pair as a float; infinite beyond the range."""
    return a[0] if abs(a[1]) <= _LIMIT else a[1] * _UP


def split_value(a: Pair) -> tuple[float, int]:
    """The pair of any size as a float, and the exponent of two that it is to be multiplied by."""
    return (a[0], 0) if abs(a[1]) <= _LIMIT else (a[1], 48)


def ratio(a: Pair, n: int) -> float:
    """The pair divided by a count, as a float: it may be in range even if the pair is not."""
    return a[0] / n if abs(a[1]) <= _LIMIT else a[1] / n * _UP


def square(x: float) -> Pair:
    """x * x as a pair; infinite beyond the range, because sums of squares never decrease."""
    if abs(x) <= 2.0**500:
        return two_square(x)
    hi, lo = two_square(x * 2.0**-24)
    if hi * _UP <= LARGEST:
        return hi * _UP, lo * _UP
    infinite = x * x
    return infinite, infinite


def scaled_product(a: Pair, b: Pair, scale: float) -> Pair:
    """a * b * scale**2 for finite pairs, of floats exactly if the result is between 2**-960 and 2**1000."""
    a0, a1, b0, b1 = a[0] * scale, a[1] * scale, b[0] * scale, b[1] * scale
    hi, lo = two_product(a0, b0)
    return quick_two_sum(hi, lo + (a0 * b1 + a1 * b0))


def of_float(x: float) -> Pair:
    """A float as a pair."""
    x = float(x)
    return (x, 0.0) if abs(x) <= LARGEST else (x, x)


def of_int(x: int) -> Pair:
    """A 64-bit integer (or a boolean) as a pair, exactly."""
    return of_words(int(x) >> 32, int(x) & 0xFFFFFFFF)


def of_words(high: int, low: int) -> Pair:
    """high * 2**32 + low as a pair: exactly, for |high| up to 2**53."""
    return quick_two_sum(high * 4294967296.0, low * 1.0)


def of_any(x: Any) -> Pair:
    """A number that `exact_integer.number` accepts, as a pair; never compiled."""
    x = number(x)
    if isinstance(x, float):
        return of_float(x)
    hi = float(x)
    return hi, float(x - int(hi))


READERS: dict[Kind, Callable[[Any], Pair]] = {"bool": of_int, "int": of_int, "float": of_float}
"""The function that converts a value of a column to a pair."""


def same_pair(a: Pair, b: Pair) -> bool:
    """Are two pairs the same number, within `TOLERANCE` of it?"""
    if abs(a[1]) <= _LIMIT and abs(b[1]) <= _LIMIT:
        return agree(a, b, TOLERANCE)
    return agree(_scaled(a), _scaled(b), TOLERANCE)
