"""Covariance, correlation and the least-squares line of pairs (x, y).

Arguments come in the order (x, y), the line is of y on x: SQL's regr_slope and regr_intercept take (y, x). A row
with a null in either column is missing.

The state is the number of pairs, both means as double-double pairs, the sums of squared distances from them and
of their products: (n, x hi, x lo, y hi, y lo, M2x, M2y, C). As for the moments, NaN and infinite inputs make the
result NaN, and so do values so far apart (some 1e154) that M2x or M2y leaves the range of floats: these only
grow, and |C| <= √(M2x M2y), so the order of combining does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.exact import checked_kinds
from sash.monoids.moments import check_ddof, gap_between, near
from sash.monoids.twofold import LARGEST, READERS, Pair, of_any, raw_add_float

_FLAT = 1e-300
"""A sum of squares below this has lost its digits to underflow: as good as no variance."""


class _Regression(Monoid):
    """What all of them share: all but `lower`."""

    domain = ("number", "number")
    identity: Any = (0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    commutative = True
    read_x: Callable[[Any], Pair]
    read_y: Callable[[Any], Pair]

    def __init__(self) -> None:
        self.read_x = of_any
        self.read_y = of_any

    def typed(self, *kinds: Kind) -> Monoid:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.read_x, twin.read_y = (READERS[kind] for kind in checked_kinds(self, kinds, 2))
        return twin

    def lift(self, x: Any, y: Any) -> Any:
        x_hi, x_lo = self.read_x(x)
        y_hi, y_lo = self.read_y(y)
        if abs(x_hi) <= LARGEST and abs(y_hi) <= LARGEST:
            return (1, x_hi, x_lo, y_hi, y_lo, 0.0, 0.0, 0.0)
        return (1, 0.0, 0.0, 0.0, 0.0, math.nan, math.nan, math.nan)

    def combine(self, a: Any, b: Any) -> Any:
        n = a[0] + b[0]
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        x, y = (a[1], a[2]), (a[3], a[4])
        x_gap = gap_between(x, (b[1], b[2]))
        y_gap = gap_between(y, (b[3], b[4]))
        share = b[0] / n
        weight = a[0] * share
        m2x = a[5] + b[5] + x_gap * (x_gap * weight)
        m2y = a[6] + b[6] + y_gap * (y_gap * weight)
        if not (m2x <= LARGEST and m2y <= LARGEST):
            return (n, 0.0, 0.0, 0.0, 0.0, math.nan, math.nan, math.nan)
        x_hi, x_lo = raw_add_float(x, x_gap * share)
        y_hi, y_lo = raw_add_float(y, y_gap * share)
        return (n, x_hi, x_lo, y_hi, y_lo, m2x, m2y, a[7] + b[7] + x_gap * (y_gap * weight))

    def same(self, a: Any, b: Any) -> bool:
        x, y = math.sqrt(max(a[5], b[5], _FLAT)), math.sqrt(max(a[6], b[6], _FLAT))
        return (
            bool(a[0] == b[0])
            and near(a[1], b[1], max(abs(a[1]), abs(b[1]), x))
            and near(a[3], b[3], max(abs(a[3]), abs(b[3]), y))
            and near(a[5], b[5], x * x)
            and near(a[6], b[6], y * y)
            and near(a[7], b[7], x * y)
        )


class Covariance(_Regression):
    """The covariance of x and y, over n - ddof.

    Null for n <= ddof.

    >>> m = Covariance()
    >>> m.lower(m.combine(m.lift(1, 10), m.lift(3, 20)))
    10.0

    Raises TypeError for inputs that are no numbers, TypeError or ValueError if ddof is no count.
    """

    def __init__(self, ddof: int = 1) -> None:
        super().__init__()
        self.ddof = check_ddof(ddof)

    def lower(self, a: Any) -> Any:
        if a[0] <= self.ddof:
            return None
        return a[7] / (a[0] - self.ddof)


class Correlation(_Regression):
    """Pearson's correlation of x and y, from -1.0 to 1.0.

    Null where x or y does not vary (M2 < 1e-300), so also for a single pair.

    >>> m = Correlation()
    >>> m.lower(m.combine(m.lift(1, 10), m.lift(3, 20)))
    1.0

    Raises TypeError for inputs that are no numbers.
    """

    def lower(self, a: Any) -> Any:
        if a[5] < _FLAT or a[6] < _FLAT:
            return None
        squares = a[5] * a[6]
        if _FLAT <= squares <= LARGEST:
            correlation = a[7] / math.sqrt(squares)
        else:
            correlation = a[7] / math.sqrt(a[5]) / math.sqrt(a[6])
        return math.copysign(1.0, correlation) if abs(correlation) > 1.0 else correlation


class Slope(_Regression):
    """The slope of the least-squares line of y on x.

    Null where x does not vary (M2x < 1e-300), so also for a single pair.

    >>> m = Slope()
    >>> m.lower(m.combine(m.lift(1, 10), m.lift(3, 20)))
    5.0

    Raises TypeError for inputs that are no numbers.
    """

    def lower(self, a: Any) -> Any:
        if a[5] < _FLAT:
            return None
        return a[7] / a[5]


class Intercept(_Regression):
    """Where the least-squares line of y on x meets x = 0.

    Null where x does not vary (M2x < 1e-300), so also for a single pair.

    >>> m = Intercept()
    >>> m.lower(m.combine(m.lift(1, 10), m.lift(3, 20)))
    5.0

    Raises TypeError for inputs that are no numbers.
    """

    def lower(self, a: Any) -> Any:
        if a[5] < _FLAT:
            return None
        slope = a[7] / a[5]
        return (a[3] - slope * a[1]) + (a[4] - slope * a[2])
