"""Sums of decimals and of durations in a Python loop, where no column declares their type.

    Decimal        exact, with as many digits as it takes; a mean has four places more, rounded half up
    timedelta      exact; a mean is rounded half up to a microsecond

A total is used like the integer that is the state of a sum of numbers (`exact_integer.py`): it adds and subtracts, and
0 is its identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal, Inexact
from typing import Any

from sash.monoids.decimals import half_up

EXACTLY = Context(prec=100_000, traps=[Inexact])
"""Additions of decimals are exact."""

MORE_PLACES = 4
_MICROSECOND = timedelta(microseconds=1)

Summed = Decimal | timedelta


@dataclass(frozen=True)
class LoopTotal:
    """The sum of `n` decimals, or of `n` durations.

    >>> total = LoopTotal(1, Decimal("0.1")) + LoopTotal(1, Decimal("0.25"))
    >>> total.total, total.mean(), total - total
    (Decimal('0.35'), Decimal('0.175000'), 0)
    """

    n: int
    total: Any

    def __add__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self
        return self._joined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self
        found = self._joined(other, -1)
        return found if found.n else 0

    def _joined(self, other: Any, sign: int) -> LoopTotal:
        if not isinstance(other, LoopTotal) or isinstance(self.total, Decimal) != isinstance(other.total, Decimal):
            raise TypeError(f"{_kinds(self)} cannot be added to {_kinds(other)}: convert them to one type")
        total = EXACTLY.fma(other.total, sign, self.total) if isinstance(self.total, Decimal) else None
        if total is None:
            total = self.total + sign * other.total
        return LoopTotal(self.n + sign * other.n, total)

    def mean(self) -> Summed:
        """The mean, rounded half up."""
        if isinstance(self.total, timedelta):
            return half_up(self.total // _MICROSECOND, self.n) * _MICROSECOND
        places = max(-self.total.as_tuple().exponent, 0)
        scaled = int(EXACTLY.scaleb(self.total, places + MORE_PLACES))
        return EXACTLY.scaleb(Decimal(half_up(scaled, self.n)), -places - MORE_PLACES)


def _kinds(total: Any) -> str:
    if not isinstance(total, LoopTotal):
        return "numbers"
    return "decimals" if isinstance(total.total, Decimal) else "durations"


def total_of(x: Any) -> LoopTotal | None:
    """A decimal or a duration as a total of one; None for anything else. Raises ValueError for NaN and infinities."""
    if isinstance(x, Decimal):
        if not x.is_finite():
            raise ValueError(f"a decimal must be finite; got {x}")
        return LoopTotal(1, x)
    return LoopTotal(1, x) if isinstance(x, timedelta) else None


def difference(greatest: Any, least: Any) -> Any:
    """The difference of two decimals, durations, dates or times, exactly."""
    return EXACTLY.subtract(greatest, least) if isinstance(greatest, Decimal) else greatest - least


def has_difference(x: Any) -> bool:
    """Is it a decimal, a duration, a date or a time, for `difference`?"""
    return isinstance(x, Decimal | timedelta | date)
