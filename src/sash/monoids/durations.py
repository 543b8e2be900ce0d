"""Sum, mean and range of durations and times, as integers in units of their column.

A query uses them for columns of durations, timestamps, dates and times of day (`plan/types.py`), whose
values are 64-bit integers. A loop may also insert objects of Python's `datetime`. Sums are wider than 64 bits, as those
of integers (`sums.py`): a result that leaves them is an error of `lower`. Means are rounded half up, away from zero.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.decimals import IntegerRange, IntegerSum, IntegerSums, half_up
from sash.monoids.exact_integer import INT64_MAX, INT64_MIN
from sash.monoids.sums import IntMean, IntSum

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_LOW = 2**32 - 1
_WORD = 2**31
_SUM_OVERFLOW = (
    "the sum of durations left the range of 64-bit integers, -2**63 to 2**63 - 1 units: cast the column to a "
    "coarser unit"
)
_RANGE_OVERFLOW = "the range left that of 64-bit integers, -2**63 to 2**63 - 1 units: cast the column to a coarser unit"


def in_units(x: Any, per_second: int) -> int:
    """A duration or a time in units, 1 / `per_second` of a second: times since 1970 or midnight; integers unchanged.

    >>> in_units(timedelta(minutes=1), 1000), in_units(date(1970, 1, 3), 1), in_units(7, 1)
    (60000, 172800, 7)

    Raises TypeError for other objects, ValueError for one that is no whole number of units.
    """
    if isinstance(x, int) and not isinstance(x, bool):
        return x
    micros = _microseconds(x)
    found, rest = divmod(micros * per_second, 10**6)
    if rest:
        raise ValueError(f"{x!r} is not a whole number of units, 1/{per_second} of a second")
    return found


def _microseconds(x: Any) -> int:
    if isinstance(x, datetime):
        x = x - (datetime(1970, 1, 1) if x.tzinfo is None else datetime(1970, 1, 1, tzinfo=UTC))
    elif isinstance(x, date):
        x = x - date(1970, 1, 1)
    elif isinstance(x, time):
        x = timedelta(hours=x.hour, minutes=x.minute, seconds=x.second, microseconds=x.microsecond)
    if not isinstance(x, timedelta):
        raise TypeError(f"not a duration or a time: {x!r}, a {type(x).__name__}")
    return x // timedelta(microseconds=1)


class DurationSum(IntegerSum):
    """The sum of durations, in units of 1 / `per_second` of a second.

    >>> m = DurationSum(1000)
    >>> m.lower(m.combine(m.lift(timedelta(seconds=2)), m.lift(500)))
    2500
    """

    name = "sum"

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second

    def typed(self, *_kinds: Kind) -> Monoid:
        return WordSum()

    def lift(self, x: Any) -> Any:
        return in_units(x, self.per_second)

    def lower(self, a: Any) -> Any:
        if not INT64_MIN <= a <= INT64_MAX:
            raise OverflowError(_SUM_OVERFLOW)
        return a


class DurationMean(IntegerSums):
    """The mean of durations, or of times, in units of 1 / `per_second` of a second, rounded half up.

    >>> m = DurationMean(1)
    >>> m.lower(m.combine(m.lift(timedelta(seconds=2)), m.lift(5)))
    4
    """

    name = "mean"

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second

    def typed(self, *_kinds: Kind) -> Monoid:
        return WordMean()

    def lift(self, x: Any) -> Any:
        return (1, in_units(x, self.per_second))

    def lower(self, a: Any) -> Any:
        return half_up(a[1], a[0])

    def policy_value(self, a: Any) -> Any:
        """The mean, None without values."""
        return half_up(a[1], a[0]) if a[0] else None


class DurationRange(IntegerRange):
    """The greatest duration or time minus the least, in units of 1 / `per_second` of a second.

    A column of dates counts days: `factor` seconds each.

    >>> m = DurationRange(1, 86_400)
    >>> m.lower(m.combine(m.lift(date(2024, 2, 28)), m.lift(date(2024, 3, 1)))) == 2 * 86_400
    True
    """

    name = "range"

    def __init__(self, per_second: int, factor: int) -> None:
        self.per_second, self.factor = per_second, factor

    def typed(self, *_kinds: Kind) -> Monoid:
        return WordRange(self.factor)

    def lift(self, x: Any) -> Any:
        units = x if isinstance(x, int) else in_units(x, self.per_second) // self.factor
        return (units, units)

    def lower(self, a: Any) -> Any:
        if a[0] is None:
            return None
        if (a[1] - a[0]) * self.factor > INT64_MAX:
            raise OverflowError(_RANGE_OVERFLOW)
        return (a[1] - a[0]) * self.factor


# ---- on columns ----


class WordSum(IntSum):
    """The sum of a column of durations: (high, low)."""

    def lower(self, a: Any) -> Any:
        if not -_WORD <= a[0] < _WORD:
            raise OverflowError(_SUM_OVERFLOW)
        return (a[0] << 32) + a[1]


class WordMean(IntMean):
    """The mean of a column of durations or times: (n, high, low)."""

    def lower(self, a: Any) -> Any:
        n, high, low = a[0], a[1], a[2]
        negative = high < 0
        if negative:
            high, low = -high - (1 if low else 0), -low & _LOW
        found, rest = high // n, high % n
        for shift in (16, 0):  # long division, in digits of 16 bits, for n below 2**46
            rest = rest << 16 | (low >> shift & 0xFFFF)
            found = (found << 16) + rest // n
            rest %= n
        if 2 * rest >= n:
            found += 1
        return -found if negative else found

    def policy_value(self, a: Any) -> Any:
        return self.lower(a) if a[0] else None


class WordRange(Monoid):
    """The range of a column of durations or times: (least, greatest)."""

    name = "range"
    domain = ("int",)
    identity: Any = (INT64_MAX, INT64_MIN)
    commutative = True
    exact = True

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def lift(self, x: Any) -> Any:
        return (int(x), int(x))

    def combine(self, a: Any, b: Any) -> Any:
        return (min(a[0], b[0]), max(a[1], b[1]))

    def lower(self, a: Any) -> Any:
        difference = a[1] - a[0]
        if difference < 0 or difference > INT64_MAX // self.factor:  # compiled, it wraps to a negative number
            raise OverflowError(_RANGE_OVERFLOW)
        return difference * self.factor
