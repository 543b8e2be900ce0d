"""Exponentially weighted aggregates whose half-life is in time: the inputs are a value and its time.

A query replaces `EwmMean`, `EwmVar` and `EwmStd` by them, and adds the column of `on` as the second input.

    state    (time of the newest value, …)       as in `ewm.py`; null rows are skipped, for they change no age

The state with the older time is aged, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.double_double import READERS, Pair, of_any
from sash.monoids.ewm import Merged, MergedMoments, deviation, same_merged, variance
from sash.monoids.ewm_merge import age_between, decay_of
from sash.monoids.exact_integer import checked_kinds


class _ByTime(Merged):
    """The base of half-lives in units of the times. State: (time, *merged)."""

    domain = ("number", "int")

    def __init__(self, halflife: float) -> None:
        self.halflife = float(halflife)
        self.read: Callable[[Any], Pair] = of_any
        self.identity = (0, *self.no_value)

    def typed(self, *kinds: Kind) -> Monoid:
        value, time = checked_kinds(self, kinds, 2)
        return self.changed(read=READERS[value], identity=(0.0 if time == "float" else 0, *self.no_value))

    def lift(self, x: Any, time: Any) -> Any:
        return (time + 0, *self.first(self.read(x)))

    def combine(self, a: Any, b: Any) -> Any:
        if b[1] == 0.0:
            return a
        if a[1] == 0.0:
            return b
        if a[0] <= b[0]:
            return (b[0], *self.merge(a[1:], b[1:], decay_of(age_between(a[0], b[0]), self.halflife)))
        return (a[0], *self.merge(b[1:], a[1:], decay_of(age_between(b[0], a[0]), self.halflife)))

    def lower(self, a: Any) -> Any:
        return self.result(a[1:])

    def same(self, a: Any, b: Any) -> bool:
        alike = a[0] == b[0] or (a[0] != a[0] and b[0] != b[0])
        return bool(alike) and same_merged(a[1:], b[1:])


class EwmMeanByTime(_ByTime):
    """The exponentially weighted mean of values at times; `halflife` is in units of the times.

    >>> m = EwmMeanByTime(10)
    >>> m.lower(m.combine(m.lift(0.0, 100), m.lift(3.0, 110)))
    2.0
    """

    name = "ewm_mean"

    def result(self, merged: Any) -> Any:
        return merged[1] if merged[0] > 0.0 else None


class EwmVarByTime(MergedMoments, _ByTime):
    """The exponentially weighted variance of values at times; `halflife` is in units of the times.

    >>> m = EwmVarByTime(10)
    >>> round(m.lower(m.combine(m.lift(1, 100), m.lift(3, 110))), 9)
    2.0
    """

    name = "ewm_var"

    def __init__(self, halflife: float, bias: bool = False) -> None:
        super().__init__(halflife)
        self.bias = bias

    def result(self, merged: Any) -> Any:
        return variance(merged, self.bias)


class EwmStdByTime(EwmVarByTime):
    """The exponentially weighted standard deviation of values at times; `halflife` is in units of the times."""

    name = "ewm_std"

    def result(self, merged: Any) -> Any:
        return deviation(merged, self.bias)
