"""Product and geometric mean.

Zeros are counted separately, so that the other factors have a magnitude and a sign. No intermediate result overflows:

    int      (zeros, sign, minus)            minus = -|product of the others|, 0 once that exceeds 2**63
    float    (zeros, mantissa, exponent)     product of the others = mantissa * 2**exponent

The magnitude of a product of nonzero integers only grows, so "beyond 64 bits" is permanent, for any grouping. The sign
is separate and the magnitude negative because 2**63 is out of range and -2**63 is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import TOLERANCE, Kind, Monoid, agree
from sash.monoids.double_double import LARGEST, READERS, Pair, add, of_any, same_pair
from sash.monoids.exact_integer import INT64_MIN, number, one_kind, overflow_message

_OVERFLOW = overflow_message("product")
_LN2 = math.log(2.0)
_ZERO, _INFINITE, _BAD = 1, 2, 4


class IntProduct(Monoid):
    """The product of integers: (zeros, sign, minus)."""

    name = "product"
    domain = ("int",)
    identity: Any = (0, 1, -1)
    commutative = True
    exact = True

    def lift(self, x: Any) -> Any:
        x = int(x)
        if x == 0:
            return (1, 1, -1)
        sign = -1 if x < 0 else 1
        minus = x if x < 0 else -x
        return (0, sign, minus if minus >= INT64_MIN else 0)

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] * b[1], minus_product(a[2], b[2]))

    def lower(self, a: Any) -> Any:
        if a[0] > 0:
            return 0
        if a[2] == 0 or (a[1] > 0 and a[2] == INT64_MIN):
            raise OverflowError(_OVERFLOW)
        return -a[1] * a[2]


def minus_product(a: int, b: int) -> int:
    """-(a * b) for integers from -2**63 to 0; 0 if that is below -2**63.

    Compiled, the product wraps: up to 9.3e18, less than 2**64, which the wrong sign reveals.
    """
    size = float(a) * float(b)
    minus = -(a * b)
    return minus if size < 9.3e18 and INT64_MIN <= minus <= 0 else 0


class FloatProduct(Monoid):
    """The product of floats: (zeros, mantissa, exponent), 0.5 <= |mantissa| < 1 where it is finite."""

    name = "product"
    domain = ("number",)
    identity: Any = (0, 0.5, 1)
    commutative = True

    def lift(self, x: Any) -> Any:
        x = float(x)
        if x == 0.0:
            return (1, 0.5, 1)
        if not abs(x) <= LARGEST:
            return (0, x, 0)
        mantissa, exponent = math.frexp(x)
        return (0, mantissa, exponent)

    def combine(self, a: Any, b: Any) -> Any:
        zeros = a[0] + b[0]
        mantissa = a[1] * b[1]
        exponent = a[2] + b[2]
        if not abs(mantissa) <= 1.0:
            return (zeros, mantissa, 0)
        if abs(mantissa) < 0.5:
            return (zeros, mantissa * 2.0, exponent - 1)
        return (zeros, mantissa, exponent)

    def lower(self, a: Any) -> Any:
        if a[0] > 0:
            return 0.0 if abs(a[1]) <= 1.0 else math.nan
        return scaled(a[1], a[2])

    def same(self, a: Any, b: Any) -> bool:
        apart = b[2] - a[2]
        return bool(a[0] == b[0]) and abs(apart) <= 1 and agree(a[1], math.ldexp(b[1], apart), TOLERANCE)


def scaled(mantissa: float, exponent: int) -> float:
    """mantissa * 2**exponent, rounded once; an infinity beyond the range."""
    if exponent > 1000:
        return math.ldexp(mantissa, min(exponent - 64, 1000)) * 2.0**64
    return math.ldexp(mantissa, max(exponent, -1200))


class Product(Monoid):
    """The product of numbers; see `sash.product`.

    A zero makes the product 0 (0.0 among floats, without a sign), an infinity beside it NaN.

    >>> m = Product()
    >>> m.lower(m.combine(m.combine(m.lift(2.0**600), m.lift(2.0**600)), m.lift(2.0**-1000))) == 2.0**200
    True
    """

    domain = ("number",)
    commutative = True

    def __init__(self) -> None:
        self.ints = IntProduct()
        self.floats = FloatProduct()
        self.identity = (0, 0, self.ints.identity, self.floats.identity)

    def typed(self, *kinds: Kind) -> Monoid:
        return FloatProduct() if one_kind(self, kinds) == "float" else IntProduct()

    def lift(self, x: Any) -> Any:
        x = number(x)
        if isinstance(x, float):
            return (1, 1, self.ints.identity, self.floats.lift(x))
        return (1, 0, self.ints.lift(x), self.floats.lift(x))

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1], self.ints.combine(a[2], b[2]), self.floats.combine(a[3], b[3]))

    def lower(self, a: Any) -> Any:
        if a[0] == 0:
            return None
        return self.floats.lower(a[3]) if a[1] else self.ints.lower(a[2])

    def same(self, a: Any, b: Any) -> bool:
        return bool(a[:3] == b[:3]) and self.floats.same(a[3], b[3])


class GeometricMean(Monoid):
    """The n-th root of the product of n numbers; see `sash.geometric_mean`.

    Held as a sum of exponents and a double-double sum of the mantissas' logarithms: (n, flags, exponent, hi, lo).
    """

    domain = ("number",)
    identity: Any = (0, 0, 0, 0.0, 0.0)
    commutative = True

    def __init__(self) -> None:
        self.read: Callable[[Any], Pair] = of_any

    def typed(self, *kinds: Kind) -> Monoid:
        return self.changed(read=READERS[one_kind(self, kinds)])

    def lift(self, x: Any) -> Any:
        x = self.read(x)[0]
        if 0.0 < x <= LARGEST:
            mantissa, exponent = math.frexp(x)
            return (1, 0, exponent, math.log(mantissa), 0.0)
        if x == 0.0:
            return (1, _ZERO, 0, 0.0, 0.0)
        return (1, _INFINITE if x > 0.0 else _BAD, 0, 0.0, 0.0)

    def combine(self, a: Any, b: Any) -> Any:
        hi, lo = add((a[3], a[4]), (b[3], b[4]))
        return (a[0] + b[0], a[1] | b[1], a[2] + b[2], hi, lo)

    def lower(self, a: Any) -> Any:
        n, flags, exponent = a[0], a[1], a[2]
        if n == 0:
            return None
        if flags & _BAD or flags == _ZERO | _INFINITE:
            return math.nan
        if flags != 0:
            return 0.0 if flags == _ZERO else math.inf
        whole = exponent // n
        root = math.exp((a[3] + (exponent - whole * n) * _LN2) / n)
        return min(scaled(root, whole), LARGEST)

    def same(self, a: Any, b: Any) -> bool:
        return bool(a[:3] == b[:3]) and same_pair((a[3], a[4]), (b[3], b[4]))
