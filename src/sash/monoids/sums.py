"""Count, sum, mean, sum of squares.

In a loop sums are exact (`exact_integer.py`): an int for ints, with a float among them a float, correctly rounded. On
columns their states are wider than the column:

    int, bool    two words, value = high * 2**32 + low, 0 <= low < 2**32      exact, invertible
    float        a double-double pair (`double_double.py`)                    never undone by subtraction

An integer sum beyond 64 bits is an error of `lower`, not of `combine`: it does not depend on the order of combining.
NaN and infinities are values: inf + -inf is NaN, and so is every sum with a NaN.
"""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.decimals import IntegerSum
from sash.monoids.double_double import add, of_float, of_words, ratio, same_pair, square, value
from sash.monoids.exact_integer import (
    UNIT,
    lowered_mean,
    lowered_sum,
    one_kind,
    overflow_message,
    plain_sum,
    squared_units,
    units,
)

_LOW = 2**32 - 1
_WORD = 2**31
_ROOT = 3037000499  # the largest integer whose square is below 2**63
_SUM_OVERFLOW = overflow_message("sum")
_SQUARES_OVERFLOW = overflow_message("sum of squares")


class Count(IntegerSum):
    """The number of rows, or, given columns, of rows without a null in them; see `sash.count`."""

    empty: Any = 0

    def lift(self, *row: Any) -> Any:  # noqa: ARG002 - the name that `help(sash.count)` shows
        return 1

    def lower(self, a: Any) -> Any:
        return a


class _Exact(IntegerSum):
    """A state of `exact_integer.py`: one Python integer."""

    domain = ("number",)

    def lift(self, x: Any) -> Any:
        return units(x)


class Sum(_Exact):
    """The sum of numbers; see `sash.sum`.

    >>> m = Sum()
    >>> spikes = m.combine(m.lift(1e16), m.combine(m.lift(1.0), m.lift(-1e16)))
    >>> m.lower(spikes)
    1.0
    """

    def typed(self, *kinds: Kind) -> Monoid:
        return FloatSum() if one_kind(self, kinds) == "float" else IntSum()

    def lower(self, a: Any) -> Any:
        return lowered_sum(a, UNIT, "sum")

    def policy_value(self, a: Any) -> Any:
        """The sum, 0 without values; an int of any size."""
        return plain_sum(a, UNIT)


class Mean(_Exact):
    """The arithmetic mean; see `sash.mean`. That of the two largest floats is the largest float."""

    def typed(self, *kinds: Kind) -> Monoid:
        return FloatMean() if one_kind(self, kinds) == "float" else IntMean()

    def lower(self, a: Any) -> Any:
        return lowered_mean(a, UNIT)

    def policy_value(self, a: Any) -> Any:
        """The mean, None without values."""
        return lowered_mean(a, UNIT)


class SumOfSquares(_Exact):
    """The sum of the squares; see `sash.sum_of_squares`."""

    def typed(self, *kinds: Kind) -> Monoid:
        return FloatSumOfSquares() if one_kind(self, kinds) == "float" else IntSumOfSquares()

    def lift(self, x: Any) -> Any:
        return squared_units(x)

    def lower(self, a: Any) -> Any:
        return lowered_sum(a, 2 * UNIT, "sum of squares")

    def policy_value(self, a: Any) -> Any:
        """The sum of squares, 0 without values; an int of any size."""
        return plain_sum(a, 2 * UNIT)


# ---- on columns ----


class IntSum(Monoid):
    """The sum of a column of integers: (high, low)."""

    name = "sum"
    domain = ("int",)
    identity: Any = (0, 0)
    commutative = True
    exact = True

    def lift(self, x: Any) -> Any:
        return (int(x) >> 32, int(x) & _LOW)

    def combine(self, a: Any, b: Any) -> Any:
        low = a[1] + b[1]
        return (a[0] + b[0] + (low >> 32), low & _LOW)

    def inverse(self, total: Any, oldest: Any) -> Any:
        low = total[1] - oldest[1]
        return (total[0] - oldest[0] + (low >> 32), low & _LOW)

    def lower(self, a: Any) -> Any:
        if not -_WORD <= a[0] < _WORD:
            raise OverflowError(_SUM_OVERFLOW)
        return (a[0] << 32) + a[1]

    def policy_value(self, a: Any) -> Any:
        """The sum. Raises OverflowError beyond 64 bits: a compiled policy gets 64-bit integers."""
        return self.lower(a)


class IntSumOfSquares(IntSum):
    """The sum of squares of a column of integers: (high, low).

    A square beyond 64 bits counts as 2**63: squares are not negative, so `lower` raises either way.
    """

    name = "sum_of_squares"

    def lift(self, x: Any) -> Any:
        x = int(x)
        if -_ROOT <= x <= _ROOT:
            return (x * x >> 32, x * x & _LOW)
        return (_WORD, 0)

    def lower(self, a: Any) -> Any:
        if a[0] >= _WORD:
            raise OverflowError(_SQUARES_OVERFLOW)
        return (a[0] << 32) + a[1]


class IntMean(Monoid):
    """The mean of a column of integers: (n, high, low)."""

    name = "mean"
    domain = ("int",)
    identity: Any = (0, 0, 0)
    commutative = True
    exact = True

    def lift(self, x: Any) -> Any:
        return (1, int(x) >> 32, int(x) & _LOW)

    def combine(self, a: Any, b: Any) -> Any:
        low = a[2] + b[2]
        return (a[0] + b[0], a[1] + b[1] + (low >> 32), low & _LOW)

    def inverse(self, total: Any, oldest: Any) -> Any:
        low = total[2] - oldest[2]
        return (total[0] - oldest[0], total[1] - oldest[1] + (low >> 32), low & _LOW)

    def lower(self, a: Any) -> Any:
        return ratio(of_words(a[1], a[2]), a[0])

    def policy_value(self, a: Any) -> Any:
        return ratio(of_words(a[1], a[2]), a[0]) if a[0] else None


class FloatSum(Monoid):
    """The sum of a column of floats: (hi, lo)."""

    name = "sum"
    domain = ("number",)
    identity: Any = (0.0, 0.0)
    commutative = True

    def lift(self, x: Any) -> Any:
        return of_float(x)

    def combine(self, a: Any, b: Any) -> Any:
        return add(a, b)

    def lower(self, a: Any) -> Any:
        return value(a)

    def policy_value(self, a: Any) -> Any:
        return value(a)

    def same(self, a: Any, b: Any) -> bool:
        return same_pair(a, b)


class FloatSumOfSquares(FloatSum):
    """The sum of squares of a column of floats: (hi, lo)."""

    name = "sum_of_squares"

    def lift(self, x: Any) -> Any:
        return square(x)


class FloatMean(Monoid):
    """The mean of a column of floats: (n, hi, lo)."""

    name = "mean"
    domain = ("number",)
    identity: Any = (0, 0.0, 0.0)
    commutative = True

    def lift(self, x: Any) -> Any:
        hi, lo = of_float(x)
        return (1, hi, lo)

    def combine(self, a: Any, b: Any) -> Any:
        hi, lo = add((a[1], a[2]), (b[1], b[2]))
        return (a[0] + b[0], hi, lo)

    def lower(self, a: Any) -> Any:
        return ratio((a[1], a[2]), a[0])

    def policy_value(self, a: Any) -> Any:
        return ratio((a[1], a[2]), a[0]) if a[0] else None

    def same(self, a: Any, b: Any) -> bool:
        return bool(a[0] == b[0]) and same_pair((a[1], a[2]), (b[1], b[2]))
