"""Medians and quantiles between two decimals, durations or times.

A query uses them for columns of these types (`plan/types.py`). The result is computed from the two values
around the place of the quantile, as integers: low + (high - low) * fraction, rounded half up, away from zero. The
fraction has 18 decimal digits.

    of               result
    decimal(p, s)    decimal(p + 4, s + 4), as a mean
    duration, time   the same type
    timestamp        the same type
    date             timestamp, in seconds (of date64 in milliseconds)
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

from sash.monoids import multiset
from sash.monoids.decimals import half_up
from sash.monoids.durations import in_units
from sash.monoids.rank_statistics import AroundForm, Counted, quantile_place

ONE = 10**18
"""The units of a fraction."""

MORE = 4
"""The decimal places that a decimal between two others has more."""

_EXACTLY = Context(prec=200)
_MICROSECOND = timedelta(microseconds=1)


def between(low: int, high: int, fraction: float, factor: int = 1) -> int:
    """The integer a fraction of the way from `low` to `high`, times `factor`, rounded half up.

    >>> between(1, 2, 0.5), between(-2, -1, 0.5), between(1, 2, 0.5, 10), between(0, 2**64, 0.25) == 2**62
    (2, -2, 15, True)
    """
    return half_up((low * ONE + (high - low) * round(fraction * ONE)) * factor, ONE)


class BetweenValues(Counted):
    """A quantile of decimals with `scale` decimal places; without a scale of times, in units of a second's fraction.

    A column of dates counts days: `factor` seconds each.

    >>> m = BetweenValues("median", 0.5, 0, scale=2)
    >>> m.lower(m.combine(m.lift(Decimal("0.10")), m.lift(Decimal("0.25"))))
    Decimal('0.175000')
    """

    def __init__(
        self, name: str, q: float, rule: int, scale: int | None = None, per_second: int = 1, factor: int = 1
    ) -> None:
        self.name, self.q, self.rule, self.scale = name, q, rule, scale
        self.per_second, self.factor = per_second, factor

    def lift(self, x: Any) -> Any:
        if self.scale is None and not isinstance(x, int):
            x = in_units(x, self.per_second) // self.factor
        return multiset.single(multiset.ordered_key(x))

    def lower(self, a: Any) -> Any:
        if not a:
            return None
        low, high, fraction = around(a, self.q, self.rule)
        if self.scale is None:
            return between(low, high, fraction, self.factor)
        return _between_decimals(low, high, fraction, self.scale)

    def on_tree(self) -> Any:
        return AroundForm(self.name, self.q, self.rule)


def around(values: multiset.Multiset, q: float, rule: int) -> tuple[Any, Any, float]:
    """The values around the place of a quantile, and the fraction of the way from the lower to the upper one."""
    place, fraction = quantile_place(multiset.size(values), q, rule)
    low = multiset.select(values, place)
    return low, multiset.select(values, place + 1) if fraction else low, fraction


def _between_decimals(low: Decimal, high: Decimal, fraction: float, scale: int) -> Decimal:
    whole = [int(_EXACTLY.scaleb(one, scale)) for one in (low, high)]
    return _EXACTLY.scaleb(Decimal(between(whole[0], whole[1], fraction, 10**MORE)), -scale - MORE)


def between_objects(low: Any, high: Any, fraction: float) -> Any:
    """What lies between two objects that are no numbers: decimals, durations, times.

    >>> between_objects(timedelta(seconds=1), timedelta(seconds=2), 0.5)
    datetime.timedelta(seconds=1, microseconds=500000)
    """
    if isinstance(low, Decimal):
        return _between_decimals(low, high, fraction, max(0, *(-int(one.as_tuple().exponent) for one in (low, high))))
    if isinstance(low, time):
        day = datetime(1970, 1, 1)
        first, last = (datetime.combine(day, one.replace(tzinfo=None)) for one in (low, high))
        return between_objects(first, last, fraction).time().replace(tzinfo=low.tzinfo)
    if isinstance(low, date) and not isinstance(low, datetime):
        low, high = (datetime(one.year, one.month, one.day) for one in (low, high))
    if isinstance(low, timedelta):
        return _MICROSECOND * between(low // _MICROSECOND, high // _MICROSECOND, fraction)
    return low + _MICROSECOND * between(0, (high - low) // _MICROSECOND, fraction)
