"""Exponentially weighted mean, variance and standard deviation: a value's weight halves with each half-life.

    weight of a value = 0.5 ** (age / halflife)        age: rows, or time, from the value to the newest one

as `ewm(halflife=…, adjust=True)` of pandas. A common factor of all weights cancels in the results, so ages are counted
from the newest *value* of a state: its weight is 1, and no window with values is ever without weight.

    in rows    (lead, tail, …)   rows up to the newest value, and null rows after it: a null row ages the others
    in time    (time, …)         the time of the newest value; null rows are skipped, for they change no age

What follows in both is the merged state of the values:

    mean       (W, mean hi, mean lo)                   W = Σ w, relative to the newest value
    moments    (W, mean hi, mean lo, D, P)             D = √(Σ w (x - mean)² / W),  P = Σ w·w' over pairs of values

To combine two states, the older one is aged by the distance of their newest values (in time whichever comes first), and
both merge by the gap between their means, so that an offset costs no digits. Very old weights underflow to zero. Means
and deviations never exceed the values, so that neither overflows; P is a sum of products of different weights,
Σ w w' = W² - Σ w², without the cancellation of that difference.

If the half-life is in time, the inputs are a value and its time: a query replaces `EwmMean`, `EwmVar` and `EwmStd` by
those of time, and adds the column of `on` as the second input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from sash.expressions.source_text import excerpt
from sash.monoids.algebra import Kind, Monoid, noinline
from sash.monoids.double_double import LARGEST, READERS, Pair, of_any, raw_add_float
from sash.monoids.exact_integer import INT64_MAX, checked_kinds, one_kind
from sash.monoids.moments import check_bias, gap_between, near

# --- Ewm merge ---

MeanState = tuple[float, float, float]
MomentState = tuple[float, float, float, float, float]

NO_MEAN: MeanState = (0.0, 0.0, 0.0)
NO_MOMENTS: MomentState = (0.0, 0.0, 0.0, 0.0, 0.0)

_LEAST_WEIGHT = 2.0**-500
"""A weight below counts as zero: its products with others would lose digits by underflow."""

_LEAST, _MOST = 2.0**-960, 2.0**1000


def decay_of(age: float, halflife: float) -> float:
    """The weight of a value of this age."""
    decay = 0.5 ** (age / halflife)
    return decay if decay >= _LEAST_WEIGHT else 0.0


def age_between(older: Any, newer: Any) -> float:
    """The time between both; beyond 64 bits, where compiled integers wrap around, as a difference of floats."""
    if older < 0 and newer > INT64_MAX + older:
        return float(newer) - float(older)
    return float(newer - older)


def merged_mean(a: MeanState, b: MeanState, decay: float) -> MeanState:
    """The mean of both, the first aged by `decay`."""
    old = a[0] * decay
    weight = old + b[0]
    gap = gap_between((a[1], a[2]), (b[1], b[2]))
    if not abs(gap) <= LARGEST:
        hi, lo = _far_mean((a[1], a[2]), (b[1], b[2]), old / weight, b[0] / weight)
        return (weight, hi, lo)
    # from the heavier mean: the error is relative to what the lighter one adds
    if old <= b[0]:
        hi, lo = raw_add_float((b[1], b[2]), -gap * (old / weight))
    else:
        hi, lo = raw_add_float((a[1], a[2]), gap * (b[0] / weight))
    return (weight, hi, lo)


@noinline
def _far_mean(a: Pair, b: Pair, p: float, q: float) -> Pair:
    """The mean of values whose distance exceeds the range, or that are not finite."""
    if abs(a[0]) <= LARGEST and abs(b[0]) <= LARGEST:
        return a[0] * p + b[0] * q, 0.0
    return a[0] + b[0], 0.0


def merged_moments(a: MomentState, b: MomentState, decay: float) -> MomentState:
    """The moments of both, the first aged by `decay`."""
    weight, hi, lo = merged_mean((a[0], a[1], a[2]), (b[0], b[1], b[2]), decay)
    old = a[0] * decay
    pairs = decay * (decay * a[4]) + b[4] + 2.0 * (old * b[0])
    p, q = old / weight, b[0] / weight
    gap = gap_between((a[1], a[2]), (b[1], b[2]))
    square = p * (a[3] * a[3]) + q * (b[3] * b[3]) + gap * (gap * (p * q))
    return (weight, hi, lo, merged_deviation(square, a, b, p, q), pairs)


def merged_deviation(square: float, a: MomentState, b: MomentState, p: float, q: float) -> float:
    """The merged deviation, from its square if that is within the range."""
    return math.sqrt(square) if _LEAST <= square <= _MOST else _far_deviation(a, b, p, q)


@noinline
def _far_deviation(a: MomentState, b: MomentState, p: float, q: float) -> float:
    """The merged deviation, if the squares are beyond the range: scaled by a power of two, which is exact."""
    if a[3] != a[3] or b[3] != b[3]:
        return math.nan
    gap = 0.5 * b[1] - 0.5 * a[1] + (0.5 * b[2] - 0.5 * a[2])
    largest = max(max(0.5 * a[3], 0.5 * b[3]), abs(gap))  # noqa: PLW3301 (of two, as compiled)
    if largest == 0.0:
        return 0.0
    exponent = math.frexp(largest)[1]
    gap, left, right = math.ldexp(gap, -exponent), math.ldexp(0.5 * a[3], -exponent), math.ldexp(0.5 * b[3], -exponent)
    square = p * (left * left) + q * (right * right) + p * q * (gap * gap)
    return min(math.ldexp(math.sqrt(square), exponent) * 2.0, LARGEST)


# --- Ewm ---


class Merged(Monoid):
    """The base of exponentially weighted aggregates: merges values to their weighted mean."""

    rounding = 1e-12
    no_value: ClassVar[tuple[float, ...]] = NO_MEAN
    """The merged state of no value."""

    def first(self, x: Pair) -> Any:
        """The merged state of one value."""
        return (1.0, x[0], x[1])

    def merge(self, a: Any, b: Any, decay: float) -> Any:
        """Merge two states; the first is aged by `decay`."""
        return merged_mean(a, b, decay)

    def result(self, merged: Any) -> Any:
        """The result of a merged state."""
        raise NotImplementedError


class MergedMoments(Merged):
    """Merges values to their weighted moments, for the variance."""

    no_value: ClassVar[tuple[float, ...]] = NO_MOMENTS

    def first(self, x: Pair) -> Any:
        return first_moments(x)

    def merge(self, a: Any, b: Any, decay: float) -> Any:
        return merged_moments(a, b, decay)


class _Ewm(Merged):
    """The base of half-lives in rows: counts the ages of rows. State: (lead, tail, *merged)."""

    domain = ("number",)

    def __init__(
        self,
        halflife: float | str | timedelta | None = None,
        alpha: float | None = None,
        times: bool = False,
        ignore_nulls: bool = False,
        *,
        span: float | None = None,
        com: float | None = None,
    ) -> None:
        alpha = row_alpha(self.name, times, halflife=halflife, alpha=alpha, span=span, com=com)
        self.halflife, self.alpha = halflife, alpha
        self.times = check_flag("times", times) or not (halflife is None or _is_number(halflife))
        self.ignore_nulls = check_flag("ignore_nulls", ignore_nulls)
        self.rows = _in_rows(self.name, halflife, alpha, self.times)
        """The half-life in rows; 1.0 if it is in time."""
        self.read: Callable[[Any], Pair] = _refuse if self.times else of_any
        self.identity = (0, 0, *self.no_value)
        self.null_row = (0, 1, *self.no_value)
        self.counts_nulls = not (self.times or self.ignore_nulls)
        self.nullable = (0,) if self.counts_nulls else ()
        self.reads_time = self.times

    def typed(self, *kinds: Kind) -> Monoid:
        return self.changed(read=READERS[one_kind(self, kinds)])

    def parameters(self) -> dict[str, Any]:
        """Without `times` for a duration, which is always in time."""
        found = super().parameters()
        return found if _is_number(self.halflife) else {name: one for name, one in found.items() if name != "times"}

    def lift(self, x: Any) -> Any:
        if x is None:
            return self.null_row
        return (1, 0, *self.first(self.read(x)))

    def combine(self, a: Any, b: Any) -> Any:
        if b[2] == 0.0:
            return (a[0], a[1] + b[1], *a[2:])
        if a[2] == 0.0:
            return (a[1] + b[0], b[1], *b[2:])
        decay = decay_of(float(a[1] + b[0]), self.rows)
        return (a[0] + a[1] + b[0], b[1], *self.merge(a[2:], b[2:], decay))

    def lower(self, a: Any) -> Any:
        return self.result(a[2:])

    def same(self, a: Any, b: Any) -> bool:
        return bool(a[0] == b[0] and a[1] == b[1]) and same_merged(a[2:], b[2:])


class EwmMean(_Ewm):
    """The exponentially weighted mean; see `sash.ewm_mean`. Null rows age the others, unless `ignore_nulls`."""

    def result(self, merged: Any) -> Any:
        return merged[1] if merged[0] > 0.0 else None

    def by_time(self, length: float) -> Monoid:
        return EwmMeanByTime(length)


class EwmVar(MergedMoments, _Ewm):
    """The exponentially weighted variance; see `sash.ewm_var`.

    With `bias=False` it is divided by 1 - Σ w² / (Σ w)², as a sample's variance is by (n - 1) / n; it is null for a
    single value, and where all others are too old to have a weight.
    """

    def __init__(
        self,
        halflife: float | str | timedelta | None = None,
        alpha: float | None = None,
        times: bool = False,
        ignore_nulls: bool = False,
        bias: bool = False,
        *,
        span: float | None = None,
        com: float | None = None,
    ) -> None:
        super().__init__(halflife, alpha, times, ignore_nulls, span=span, com=com)
        self.bias = check_bias(bias)

    def result(self, merged: Any) -> Any:
        return variance(merged, self.bias)

    def by_time(self, length: float) -> Monoid:
        return EwmVarByTime(length, self.bias)


class EwmStd(EwmVar):
    """The exponentially weighted standard deviation: the square root of `EwmVar`; see `sash.ewm_std`."""

    def result(self, merged: Any) -> Any:
        return deviation(merged, self.bias)

    def by_time(self, length: float) -> Monoid:
        return EwmStdByTime(length, self.bias)


# ---- merged states ----


def first_moments(x: Pair) -> tuple[float, float, float, float, float]:
    """The moments of one value; NaN if it is not finite."""
    if abs(x[0]) <= LARGEST:
        return (1.0, x[0], x[1], 0.0, 0.0)
    return (1.0, 0.0, 0.0, math.nan, 0.0)


def variance(a: Any, bias: bool) -> Any:
    """The variance; None without values, and, unbiased, without two values that have a weight."""
    if a[0] == 0.0 or (a[4] == 0.0 and not bias):
        return None
    if bias:
        return a[3] * a[3]
    return (a[3] * a[0]) * (a[3] * (a[0] / a[4]))


def deviation(a: Any, bias: bool) -> Any:
    """The square root of the variance; finite even if the variance exceeds the range of floats."""
    if a[0] == 0.0 or (a[4] == 0.0 and not bias):
        return None
    return a[3] if bias else a[3] * math.sqrt(a[0] * (a[0] / a[4]))


def same_merged(a: Any, b: Any) -> bool:
    """Are both equal within the tolerance, relative to the larger of mean and deviation?"""
    spread = max(a[3], b[3]) if len(a) > 3 else 0.0
    alike = near(a[0], b[0], max(a[0], b[0])) and near(a[1], b[1], max(abs(a[1]), abs(b[1]), spread))
    return alike and (len(a) == 3 or (near(a[3], b[3], spread) and near(a[4], b[4], a[0] * a[0])))


# ---- parameters ----


def check_flag(name: str, value: Any) -> bool:
    """The value of a boolean parameter. Raises TypeError, with the value, for anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}= must be True or False; got {value!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_RANGES = {"alpha": (0.0, 1.0), "span": (1.0, math.inf), "com": (0.0, math.inf)}
"""The range of each parameter, exclusive: at one end only the newest value would count, at the other all equally."""


def row_alpha(name: str, times: Any, **given: Any) -> float | None:
    """The smoothing factor alpha that alpha=, span= or com= sets; None with halflife=.

    `span` and `com` are converted as in pandas. Raises TypeError or ValueError, naming the parameter.

    >>> row_alpha("ewm_mean", False, halflife=None, alpha=None, span=9, com=None)
    0.2
    """
    found = {key: value for key, value in given.items() if value is not None}
    if len(found) != 1:
        listed = " and ".join(f"{key}={value!r}" for key, value in found.items()) or "none"
        raise TypeError(f"{name} takes halflife=, alpha=, span= or com=, one of them; got {listed}")
    ((key, value),) = found.items()
    if key == "halflife":
        return None
    if times is True:
        raise TypeError(f"{name} with times=True takes halflife=, in units of the time; got {key}={value!r}")
    low, high = _RANGES[key]
    allowed = f"between {low:g} and {high:g}" if high < math.inf else f"above {low:g}, and finite"
    if not _is_number(value):
        raise TypeError(f"{key}= of {name} must be a number {allowed}; got {value!r}")
    value = _as_float(value)
    if not low < value < high:
        newest = value == (high if key == "alpha" else low)
        more = ": only the newest value would count, which is sash.last" if newest else ""
        raise ValueError(f"{key}= of {name} must be {allowed}, exclusive; got {value!r}{more}")
    if key == "alpha":
        return float(value)
    mass: float = float(value) if key == "com" else (value - 1.0) / 2.0
    return 1.0 / (1.0 + mass)


def _in_rows(name: str, halflife: Any, alpha: float | None, times: bool) -> float:
    """The half-life in rows. Raises TypeError or ValueError, naming the parameter."""
    if alpha is not None:
        return -math.log(2.0) / math.log1p(-alpha)
    if isinstance(halflife, bool):
        raise TypeError(f"halflife= of {name} must be a number of rows or a duration such as '10m'; got {halflife!r}")
    if _is_number(halflife) and not 0.0 < _as_float(halflife) < math.inf:
        raise ValueError(f"halflife= of {name} must be positive and finite; got {excerpt(halflife)}")
    return 1.0 if times else float(halflife)


def _as_float(value: Any) -> Any:
    """A number, or infinity for an integer that no float holds."""
    return math.inf if isinstance(value, int) and value.bit_length() > 1023 else value


def _refuse(_: Any) -> Pair:
    raise TypeError(
        "the halflife is in time, so the aggregate needs the time of each row: use it in a query with on=, or in a "
        "sash.Window with push(x, time)"
    )


# --- Ewm by time ---


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
