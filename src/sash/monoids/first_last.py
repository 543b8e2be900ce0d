"""Values by position in the window: the first, the last, the n-th value; and M4, for plots.

Nulls are skipped, so the first value is the first that is not null. NaN is a value like any other. States have a flag
for "has a value", so that no value is reserved:

    First, Last   (has, value)
    M4            (has, first, min, max, last)
"""

from __future__ import annotations

from typing import Any

from sash.expressions.source_text import excerpt
from sash.monoids.algebra import MOST_ROWS, Kind, Monoid
from sash.monoids.exact_integer import one_kind
from sash.monoids.extremes import Max, Min

ZERO: dict[Kind, Any] = {"bool": False, "int": 0, "float": 0.0}
"""The value of a typed state without a value yet."""


class _End(Monoid):
    """The base of `First` and `Last`."""

    selective = True
    exact = True

    def __init__(self, identity: Any = (False, None)) -> None:
        self.identity = identity

    def typed(self, *kinds: Kind) -> Monoid:
        return type(self)((False, ZERO[one_kind(self, kinds)]))

    def lift(self, x: Any) -> Any:
        return (True, x)

    def combine(self, a: Any, b: Any) -> Any:
        return b if self.picks_right(a, b) else a

    def lower(self, a: Any) -> Any:
        return a[1]

    def policy_value(self, a: Any) -> Any:
        """The value; None without one."""
        return a[1]


class First(_End):
    """The oldest value that is not null; see `sash.first`."""

    def picks_right(self, a: Any, _b: Any) -> bool:
        return not a[0]


class Last(_End):
    """The newest value that is not null; see `sash.last`."""

    def picks_right(self, _a: Any, b: Any) -> bool:
        return bool(b[0])


class Nth(Monoid):
    """The n-th value that is not null; see `sash.nth`. A combine costs O(|n|)."""

    identity: Any = ()
    exact = True
    interpreted_only = "its state is a tuple that grows up to |n| values"

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n= of nth must be an integer; got {n!r}, a {type(n).__name__}")
        if n == 0:
            raise ValueError("n= of nth counts from 1 (the oldest) or from -1 (the newest); got 0")
        if abs(n) > MOST_ROWS:
            raise ValueError(f"n= of nth must be between -{MOST_ROWS} and {MOST_ROWS}; got {excerpt(n)}")
        self.n = n

    def lift(self, x: Any) -> Any:
        return (x,)

    def combine(self, a: Any, b: Any) -> Any:
        return (a + b)[: self.n] if self.n > 0 else (a + b)[self.n :]

    def lower(self, a: Any) -> Any:
        if len(a) < abs(self.n):
            return None
        return a[-1] if self.n > 0 else a[0]


class M4(Monoid):
    """First, minimum, maximum and last as a tuple; see `sash.m4`."""

    domain = ("ordered",)
    exact = True

    def __init__(self, identity: Any = (False, None, None, None, None)) -> None:
        self.identity = identity
        self.least = Min()
        self.greatest = Max()

    def typed(self, *kinds: Kind) -> Monoid:
        zero = ZERO[one_kind(self, kinds)]
        return M4((False, zero, zero, zero, zero))

    def lift(self, x: Any) -> Any:
        return (True, x, x, x, x)

    def combine(self, a: Any, b: Any) -> Any:
        if not a[0]:
            return b
        if not b[0]:
            return a
        return (True, a[1], self.least.combine(a[2], b[2]), self.greatest.combine(a[3], b[3]), b[4])

    def lower(self, a: Any) -> Any:
        # a test of the value, not of `has`: in typed states it is never None, and the test compiles to nothing
        if a[1] is None:
            return None
        return (a[1], a[2], a[3], a[4])
