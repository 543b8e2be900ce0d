"""Sum, mean and range of decimals, exactly.

A query uses them for columns of decimals (`plan/types.py`). In a loop, and for decimals of more than 38
digits, the state is a Python integer: the unscaled value, 1.25 as 125. On columns of up to 38 digits it is three words,

    value = high * 2**96 + middle * 2**48 + low        0 <= middle, low < 2**48

so that additions are exact and carry at most one bit. A column has two words for each value, as Arrow does.

A result of more digits than its type has is an error of `lower`, not of `combine`: it does not depend on the order.
Quotients are rounded half up, away from zero, as in Spark and SQL.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from sash.monoids.algebra import Kind, Monoid

# --- Integer states ---


class IntegerSum(Monoid):
    """The base of sums: one integer."""

    identity: Any = 0
    commutative = True
    exact = True

    def combine(self, a: Any, b: Any) -> Any:
        return a + b

    def inverse(self, total: Any, oldest: Any) -> Any:
        return total - oldest


class IntegerSums(Monoid):
    """The base of quotients: two integers, such as a count and a sum."""

    identity: Any = (0, 0)
    commutative = True
    exact = True

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])

    def inverse(self, total: Any, oldest: Any) -> Any:
        return (total[0] - oldest[0], total[1] - oldest[1])


class IntegerRange(Monoid):
    """The base of ranges: (least, greatest), both None without input."""

    identity: Any = (None, None)
    commutative = True
    exact = True

    def combine(self, a: Any, b: Any) -> Any:
        if a[0] is None or b[0] is None:
            return b if a[0] is None else a
        return (min(a[0], b[0]), max(a[1], b[1]))


# --- Decimals ---

_BITS = 48
_MASK = 2**48 - 1
_LARGEST = (10**38 - 1 >> 96, 10**38 - 1 >> 48 & _MASK, 10**38 - 1 & _MASK)
_SMALLEST = (-(10**38 - 1) >> 96, -(10**38 - 1) >> 48 & _MASK, -(10**38 - 1) & _MASK)
_BEYOND = ((2**62, 0, 0), (-(2**62), 0, 0))
_EXACTLY = Context(prec=200)

Words = tuple[int, int, int]


def _overflow_message(what: str, digits: int = 38) -> str:
    return f"the {what} has more than {digits} digits: cast the column to fewer decimal places, or to float64"


_SUM_OVERFLOW, _MEAN_OVERFLOW, _RANGE_OVERFLOW = map(_overflow_message, ("sum", "mean", "range"))


class OfDecimals(Monoid):
    """An aggregate of decimals with `scale` decimal places, whose result has `precision` digits."""

    def __init__(self, precision: int, scale: int) -> None:
        self.precision, self.scale = precision, scale

    @property
    def arity(self) -> tuple[int, int | None]:
        """One decimal in a loop; on columns two words."""
        return 1, 2

    def unscaled(self, x: Any) -> Any:
        """A decimal as an integer, 1.25 as 125. Raises TypeError for what is no decimal or has more places."""
        if not isinstance(x, Decimal):
            raise TypeError(f"not a decimal: {x!r}, a {type(x).__name__}")
        numerator, denominator = x.as_integer_ratio()
        found, rest = divmod(int(numerator) * 10**self.scale, int(denominator))
        if rest:
            raise TypeError(f"{x} has more than {self.scale} decimal places")
        return found

    def fitting(self, total: int, scale: int) -> Decimal:
        """An unscaled value as a decimal. Raises OverflowError if it has more digits than the result's type."""
        if abs(total) >= 10**self.precision:
            raise OverflowError(_overflow_message(self.name, self.precision))
        return _EXACTLY.scaleb(Decimal(total), -scale)


class DecimalSum(OfDecimals, IntegerSum):
    """The sum of decimals with `scale` decimal places, of at most `precision` digits.

    >>> m = DecimalSum(15, 2)
    >>> m.lower(m.combine(m.lift(Decimal("0.10")), m.lift(Decimal("0.20"))))
    Decimal('0.30')
    """

    name = "sum"

    def typed(self, *_kinds: Kind) -> Monoid:
        return WideSum()

    def lift(self, x: Any) -> Any:
        return self.unscaled(x)

    def lower(self, a: Any) -> Any:
        return self.fitting(a, self.scale)

    def policy_value(self, a: Any) -> Any:
        """The sum, 0 without values."""
        return _EXACTLY.scaleb(Decimal(a), -self.scale)


class DecimalMean(OfDecimals, IntegerSums):
    """The mean of decimals with `scale` decimal places, rounded half up to `more` places more.

    >>> m = DecimalMean(9, 2, 4)
    >>> m.lower(m.combine(m.lift(Decimal("0.10")), m.lift(Decimal("0.25"))))
    Decimal('0.175000')
    """

    name = "mean"

    def __init__(self, precision: int, scale: int, more: int) -> None:
        super().__init__(precision, scale)
        self.more = more

    def typed(self, *_kinds: Kind) -> Monoid:
        return WideMean(10**self.more)

    def lift(self, x: Any) -> Any:
        return (1, self.unscaled(x))

    def lower(self, a: Any) -> Any:
        return self.fitting(half_up(a[1] * 10**self.more, a[0]), self.scale + self.more)

    def policy_value(self, a: Any) -> Any:
        """The mean, None without values."""
        return self.lower(a) if a[0] else None


class DecimalRange(OfDecimals, IntegerRange):
    """The greatest decimal minus the least.

    >>> m = DecimalRange(10, 2)
    >>> m.lower(m.combine(m.lift(Decimal("0.10")), m.lift(Decimal("-0.25"))))
    Decimal('0.35')
    """

    name = "range"

    def typed(self, *_kinds: Kind) -> Monoid:
        return WideRange()

    def lift(self, x: Any) -> Any:
        value = self.unscaled(x)
        return (value, value)

    def lower(self, a: Any) -> Any:
        return None if a[0] is None else self.fitting(a[1] - a[0], self.scale)


def half_up(numerator: int, denominator: int) -> int:
    """The quotient by a positive number, rounded half up, away from zero.

    >>> half_up(5, 2), half_up(-5, 2), half_up(7, 3)
    (3, -3, 2)
    """
    whole = (2 * abs(numerator) + denominator) // (2 * denominator)
    return whole if numerator >= 0 else -whole


# ---- on columns: plain arithmetic on 64-bit words, which compiles ----


def words(high: int, low: int) -> Words:
    """The three words of a decimal in the two words of Arrow, both signed."""
    return (high >> 32, (high & 0xFFFFFFFF) << 16 | (low >> 48 & 0xFFFF), low & _MASK)


def plus(a: Words, b: Words) -> Words:
    """The sum."""
    low = a[2] + b[2]
    middle = a[1] + b[1] + (low >> _BITS)
    return (a[0] + b[0] + (middle >> _BITS), middle & _MASK, low & _MASK)


def minus(a: Words, b: Words) -> Words:
    """The difference."""
    low = a[2] - b[2]
    middle = a[1] - b[1] + (low >> _BITS)
    return (a[0] - b[0] + (middle >> _BITS), middle & _MASK, low & _MASK)


def quotient(a: Words, n: int, factor: int) -> Words:
    """a * factor / n for n below 2**46 and a factor of up to 10**4, rounded half up.

    By long division in digits of 16 bits; the remainder alone is multiplied, so that no word overflows.
    """
    negative = a[0] < 0
    if negative:
        a = minus((0, 0, 0), a)
    high, rest = a[0] // n, a[0] % n
    middle, rest = _digits(a[1], rest, n)
    low, rest = _digits(a[2], rest, n)
    rest *= factor
    more = rest // n
    if 2 * (rest % n) >= n:
        more += 1
    low = low * factor + more
    middle = middle * factor + (low >> _BITS)
    found = (high * factor + (middle >> _BITS), middle & _MASK, low & _MASK)
    return minus((0, 0, 0), found) if negative else found


def _digits(word: int, rest: int, n: int) -> tuple[int, int]:
    """The next 48 bits of a quotient, and the remainder."""
    found = 0
    for shift in (32, 16, 0):
        rest = rest << 16 | (word >> shift & 0xFFFF)
        found = found << 16 | rest // n
        rest %= n
    return found, rest


class WideSum(Monoid):
    """The sum of a column of decimals: three words."""

    name = "sum"
    domain = ("int", "int")
    identity: Any = (0, 0, 0)
    commutative = True
    exact = True

    def lift(self, high: Any, low: Any) -> Any:
        return words(high, low)

    def combine(self, a: Any, b: Any) -> Any:
        return plus(a, b)

    def inverse(self, total: Any, oldest: Any) -> Any:
        return minus(total, oldest)

    def lower(self, a: Any) -> Any:
        if a < _SMALLEST or a > _LARGEST:
            raise OverflowError(_SUM_OVERFLOW)
        return a


class WideMean(Monoid):
    """The mean of a column of decimals, times `factor`: (n, its sum)."""

    name = "mean"
    domain = ("int", "int")
    identity: Any = (0, (0, 0, 0))
    commutative = True
    exact = True

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def lift(self, high: Any, low: Any) -> Any:
        return (1, words(high, low))

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], plus(a[1], b[1]))

    def inverse(self, total: Any, oldest: Any) -> Any:
        return (total[0] - oldest[0], minus(total[1], oldest[1]))

    def lower(self, a: Any) -> Any:
        found = quotient(a[1], a[0], self.factor)
        if found < _SMALLEST or found > _LARGEST:
            raise OverflowError(_MEAN_OVERFLOW)
        return found


class WideRange(Monoid):
    """The range of a column of decimals: (least, greatest)."""

    name = "range"
    domain = ("int", "int")
    identity: Any = _BEYOND
    commutative = True
    exact = True

    def lift(self, high: Any, low: Any) -> Any:
        found = words(high, low)
        return (found, found)

    def combine(self, a: Any, b: Any) -> Any:
        return (b[0] if b[0] < a[0] else a[0], b[1] if b[1] > a[1] else a[1])  # noqa: FURB136 (Numba has no min of tuples)

    def lower(self, a: Any) -> Any:
        found = minus(a[1], a[0])
        if found > _LARGEST:
            raise OverflowError(_RANGE_OVERFLOW)
        return found
