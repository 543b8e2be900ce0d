"""States of Python integers of any size, which several aggregates share: sums, pairs of sums, and ranges."""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Monoid


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
