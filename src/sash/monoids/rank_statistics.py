"""Order statistics: median, quantiles, ranks, mode and the number of distinct values, all exact.

Their states are not of bounded size: a state is the counted multiset of the window's values (`multiset.py`), from
which the oldest are removed exactly. NaN is a value, greater than every number and equal to itself; a median and a
quantile of values with a NaN are NaN. -0.0 is 0.0.

Each has a form that a counted tree computes (`aggregators/counted_tree.py`):

    lift         a value as an element: its count 1, and the value; a null is the identity, with the count 0
    precedes     the order of elements: NaN is greater than every number
    read(tree)   the few scalars that determine the result, in the shape of an element
    lower        the result

Forms are no monoids: two such states cannot be combined. A tree of elements takes the place of ⊕.

A median or quantile between two decimals, durations or times (`BetweenValues`, for columns of these types) is computed
from the two values around its place, as integers: low + (high - low) * fraction, rounded half up, away from zero. The
fraction has 18 decimal digits.

    of               result
    decimal(p, s)    decimal(p + 4, s + 4), as a mean
    duration, time   the same type
    timestamp        the same type
    date             timestamp, in seconds (of date64 in milliseconds)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Literal, NoReturn, Self, get_args

from sash.monoids import multiset
from sash.monoids.algebra import Domain, Kind, Monoid, itself
from sash.monoids.by_place import ZERO
from sash.monoids.decimals import half_up
from sash.monoids.durations import in_units
from sash.monoids.exact_integer import number, one_kind
from sash.monoids.multiset import hashable_key

# --- Order statistics ---

Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint", "equiprobable"]
"""The rules for a quantile between two values."""

RankMethod = Literal["average", "min", "max", "dense"]
"""The rules for the rank of equal values."""

INTERPOLATIONS: tuple[str, ...] = get_args(Interpolation)
METHODS: tuple[str, ...] = get_args(RankMethod)
BETWEEN = ("linear", "midpoint")
"""The interpolations that compute a number between two values; the others choose one of them."""

_WHY = "its state is a multiset that grows with the window"


def quantile_place(n: int, q: float, rule: int) -> tuple[int, float]:
    """The place in order of the value at or below a quantile of n values, and the fraction of the way to the next.

    `rule` is the place of the interpolation in INTERPOLATIONS. The virtual place is q * (n - 1), as in NumPy, pandas
    and polars.

    >>> quantile_place(4, 0.5, 0), quantile_place(4, 0.5, 1), quantile_place(4, 0.5, 2)
    ((1, 0.5), (1, 0.0), (2, 0.0))
    """
    if rule == 5:
        return max(math.ceil(q * n) - 1, 0), 0.0
    at = q * (n - 1)
    place = math.floor(at)
    fraction = at - place
    if fraction == 0.0:
        return place, 0.0
    if rule == 0:
        return place, fraction
    if rule == 4:
        return place, 0.5
    if rule == 2 or (rule == 3 and (fraction > 0.5 or (fraction == 0.5 and place % 2 == 1))):
        place += 1
    return place, 0.0


def interpolated(low: float, high: float, fraction: float) -> float:
    """The number a fraction of the way from `low` to `high`; does not overflow where both are finite.

    >>> interpolated(1.0, 2.0, 0.25), interpolated(-1.7e308, 1.7e308, 0.5), interpolated(-math.inf, 0.0, 0.5)
    (1.25, 0.0, -inf)
    """
    if fraction == 0.5:
        middle = low * 0.5 + high * 0.5
        return low if low == high else middle  # compiled to a select: a branch could not be predicted
    if fraction == 0.0 or low == high:
        return low
    step = high - low
    if math.isinf(step):
        return low * (1.0 - fraction) + high * fraction
    return low + step * fraction


class Counted(Monoid):
    """An aggregate of the multiset of values."""

    identity: Any = multiset.EMPTY
    domain: tuple[Domain, ...] = ("ordered",)
    commutative = True
    exact = True
    interpreted_only = _WHY
    order_statistic = True
    key: Callable[[Any], Any] = staticmethod(multiset.ordered_key)

    def lift(self, x: Any) -> Any:
        return multiset.single(self.key(x))

    def combine(self, a: Any, b: Any) -> Any:
        return multiset.union(a, b)

    def inverse(self, total: Any, oldest: Any) -> Any:
        return multiset.difference(total, oldest)


class Quantile(Counted):
    """The value below which the fraction `q` of the values lies, exactly; see `sash.quantile`."""

    def __init__(self, q: float, interpolation: Interpolation = "linear") -> None:
        self.q = _fraction(q)
        self.interpolation = _one_of("interpolation", interpolation, INTERPOLATIONS, "quantile")
        self.rule = INTERPOLATIONS.index(interpolation)
        if interpolation in BETWEEN:
            self.domain = ("number",)
            self.key = number_key

    def lower(self, a: Any) -> Any:
        return None if not a else quantile(a, self.q, self.rule)

    def on_tree(self) -> Monoid:
        return (BetweenForm if self.interpolation in BETWEEN else ChosenForm)(self.name, self.q, self.rule)


class Median(Counted):
    """The middle value, of two the number halfway between them; see `sash.median`."""

    domain = ("number",)
    q = 0.5
    rule = INTERPOLATIONS.index("linear")

    def __init__(self) -> None:
        self.key = number_key

    def lower(self, a: Any) -> Any:
        return None if not a else quantile(a, self.q, self.rule)

    def on_tree(self) -> Monoid:
        return BetweenForm(self.name, self.q, self.rule)


def quantile(values: multiset.Multiset, q: float, rule: int) -> Any:
    """The quantile of a multiset that is not empty."""
    if multiset.greatest(values) is None:
        return math.nan
    place, fraction = quantile_place(multiset.size(values), q, rule)
    low = multiset.select(values, place)
    if INTERPOLATIONS[rule] not in BETWEEN:
        return low
    high = multiset.select(values, place + 1) if fraction else low
    if not isinstance(low, int | float):
        from sash.monoids.rank_statistics import between_objects

        return between_objects(low, high, fraction)
    return interpolated(float(low), float(high), fraction)


class Mode(Counted):
    """The most frequent value, the least of equally frequent ones; see `sash.mode`."""

    order_statistic = False
    most_frequent = True

    def lower(self, a: Any) -> Any:
        return multiset.ordered_value(a[multiset.MODE]) if a else None

    def on_tree(self) -> Monoid:
        return ModeForm(self.name)


class CountDistinct(Counted):
    """The number of different values, exactly; see `sash.count_distinct`. 1, 1.0 and True are one value.

    Raises TypeError from `lift` if a value is not hashable.
    """

    domain = ("hashable",)
    empty: Any = 0
    key = staticmethod(multiset.hashable_key)

    def lower(self, a: Any) -> Any:
        return multiset.distinct(a)

    def on_tree(self) -> Monoid:
        return DistinctForm(self.name)


class Rank(Monoid):
    """The rank of the newest value among all values; see `sash.rank`.

    The state is (number of rows, the newest value or (), the multiset of values).
    """

    identity: Any = (0, (), multiset.EMPTY)
    domain = ("ordered",)
    nullable = (0,)
    exact = True
    interpreted_only = _WHY
    order_statistic = True

    def __init__(self, method: RankMethod = "average", ascending: bool = True) -> None:
        self.method = _one_of("method", method, METHODS, self.name)
        if not isinstance(ascending, bool):
            raise TypeError(f"ascending= of {self.name} must be True or False; got {ascending!r}")
        self.ascending = ascending

    def lift(self, x: Any) -> Any:
        if x is None:
            return (1, (), multiset.EMPTY)
        key = multiset.ordered_key(x)
        return (1, (key,), multiset.single(key))

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], b[1] if b[0] else a[1], multiset.union(a[2], b[2]))

    def inverse(self, total: Any, oldest: Any) -> Any:
        if total[0] == oldest[0]:
            return self.identity
        return (total[0] - oldest[0], total[1], multiset.difference(total[2], oldest[2]))

    def lower(self, a: Any) -> Any:
        return self.ranked(a[2], a[1][0])[0] if a[1] else None

    def on_tree(self) -> Monoid:
        finish = half if self.method == "average" else whole_half
        return RankForm(self.name, METHODS.index(self.method), self.ascending, finish)

    def ranked(self, values: multiset.Multiset, key: Any) -> tuple[int | float, int]:
        """The rank of a key, and the greatest rank there may be."""
        below, same, different = multiset.place(values, key)
        size, distinct = multiset.size(values), multiset.distinct(values)
        if self.method == "dense":
            return different + 1 if self.ascending else distinct - different, distinct
        if not self.ascending:
            below = size - below - same
        if self.method == "average":
            return below + (same + 1) / 2, size
        return below + (1 if self.method == "min" else same), size


class PercentRank(Rank):
    """The rank of the newest value divided by the number of values; see `sash.percent_rank`."""

    def lower(self, a: Any) -> Any:
        if not a[1]:
            return None
        rank, greatest = self.ranked(a[2], a[1][0])
        return rank / greatest

    def on_tree(self) -> Monoid:
        return RankForm(self.name, METHODS.index(self.method), self.ascending, fraction)


BETWEEN_OBJECTS = (Decimal, timedelta, date, time)
"""Objects other than numbers between which a value can lie."""


def number_key(x: Any) -> Any:
    """The key of a number, a decimal, a duration or a time. Raises TypeError for other objects."""
    return multiset.ordered_key(x if isinstance(x, BETWEEN_OBJECTS) else number(x))


def _fraction(q: Any) -> float:
    if isinstance(q, list | tuple) and q:
        each = ", ".join(f"q{place}=sash.quantile('x', q={one!r})" for place, one in enumerate(q, 1))
        raise TypeError(f"q= of quantile is one number in 0..1, as a result is one value; for several write {each}")
    if isinstance(q, bool) or not isinstance(q, int | float):
        raise TypeError(f"q= of quantile must be a number in 0..1; got {q!r}, a {type(q).__name__}")
    if not 0 <= q <= 1:
        raise ValueError(f"q= of quantile must be in 0..1; got {q!r}")
    return float(q)


def _one_of(name: str, value: Any, allowed: tuple[str, ...], of: str) -> Any:
    if value not in allowed:
        raise ValueError(f"{name}= of {of} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return value


# --- Order forms ---


class TreeForm(Monoid):
    """An order statistic on a counted tree. `clean` makes a value comparable: -0.0 becomes 0.0."""

    order_statistic = True
    domain: tuple[Domain, ...] = ("ordered",)
    exact = True

    def __init__(self, name: str, identity: Any) -> None:
        self.name, self.identity = name, identity
        self.clean: Callable[[Any], Any] = positive_zero

    def on_tree(self) -> Monoid:
        return self

    def _typed(self, kinds: tuple[Kind, ...], identity: Callable[[Any], Any]) -> Self:
        """A copy for columns of these kinds; `identity` makes it from a value."""
        kind = one_kind(self, kinds)
        return self.changed(identity=identity(ZERO[kind]), clean=add_zero if kind == "float" else itself)

    def combine(self, _a: Any, _b: Any) -> NoReturn:
        raise TypeError(f"{self.name} has no combine on a tree, which holds its elements one by one")

    def holds(self, a: Any) -> Any:
        """Is an element a value, and not null?"""
        return a[0] > 0

    def precedes(self, a: Any, b: Any) -> Any:
        """Is the value of element `a` less than that of `b`?"""
        return a[1] < b[1] or (b[1] != b[1] and a[1] == a[1])


class BetweenForm(TreeForm):
    """A quantile that is a number between two values. The state is (number of values, lower value, upper value)."""

    domain: tuple[Domain, ...] = ("number",)

    def __init__(self, name: str, q: float, rule: int) -> None:
        super().__init__(name, (0, None, None))
        self.q, self.rule = q, rule
        self.clean = number_with_zero

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, lambda zero: (0, zero, zero))

    def lift(self, x: Any) -> Any:
        x = self.clean(x)
        return (1, x, x)

    def read(self, tree: Any) -> Any:
        """The values around the place of the quantile; NaN if the window has one."""
        n, top = tree.total(), tree.greatest()[1]
        if top != top:
            return (n, top, top)
        place, fraction = quantile_place(n, self.q, self.rule)
        low = tree.select(place)[1]
        return (n, low, low if fraction == 0.0 else tree.select(place + 1)[1])

    def lower(self, a: Any) -> Any:
        if a[1] is None:  # a test of the value: typed, it is never None, and no optional result is compiled
            return None
        return interpolated(float(a[1]), float(a[2]), quantile_place(a[0], self.q, self.rule)[1])


class AroundForm(BetweenForm):
    """The values around the place of a quantile, and the fraction of the way from the lower to the upper one.

    The engine computes what lies between them (`columns/aggregate_batch.py`): they may be codes of values.
    """

    domain = ("ordered",)

    def __init__(self, name: str, q: float, rule: int) -> None:
        super().__init__(name, q, rule)
        self.clean = positive_zero

    def lower(self, a: Any) -> Any:
        if a[1] is None:
            return None
        return (a[1], a[2], quantile_place(a[0], self.q, self.rule)[1])


class ChosenForm(TreeForm):
    """A quantile that is one of the values. The state is (number of values, value)."""

    def __init__(self, name: str, q: float, rule: int) -> None:
        super().__init__(name, (0, None))
        self.q, self.rule = q, rule

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, _counted)

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x))

    def read(self, tree: Any) -> Any:
        """The value at the place of the quantile; NaN if the window has one."""
        n, top = tree.total(), tree.greatest()[1]
        if top != top:
            return (n, top)
        return (n, tree.select(quantile_place(n, self.q, self.rule)[0])[1])

    def lower(self, a: Any) -> Any:
        return a[1]


class ModeForm(TreeForm):
    """The most frequent value. The state is (how often it occurs, value)."""

    order_statistic = False
    most_frequent = True

    def __init__(self, name: str) -> None:
        super().__init__(name, (0, None))

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, _counted)

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x))

    def read(self, tree: Any) -> Any:
        """The most frequent value."""
        return (1, tree.mode()[1])

    def lower(self, a: Any) -> Any:
        return a[1]


class DistinctForm(TreeForm):
    """The number of distinct values. The state is (that number, a value)."""

    empty: Any = 0

    def __init__(self, name: str) -> None:
        super().__init__(name, (0, None))
        self.clean = hashable_key

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, _counted)

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x))

    def read(self, tree: Any) -> Any:
        """The number of distinct values."""
        return (tree.distinct(), tree.newest()[1])

    def lower(self, a: Any) -> Any:
        return a[0]


AVERAGE, LEAST, GREATEST, DENSE = range(4)
"""The rules for the rank of equal values."""


class RankForm(TreeForm):
    """The rank of the newest value. The state is (the greatest rank, value, twice the rank); 0 if it is null."""

    def __init__(self, name: str, rule: int, ascending: bool, finish: Callable[[Any, Any], Any]) -> None:
        super().__init__(name, (0, None, 0))
        self.rule, self.ascending, self.finish = rule, ascending, finish

    def typed(self, *kinds: Kind) -> Monoid:
        return self._typed(kinds, lambda zero: (0, zero, 0))

    def lift(self, x: Any) -> Any:
        return (1, self.clean(x), 2)

    def read(self, tree: Any) -> Any:
        """The rank of the newest element among the values."""
        newest = tree.newest()
        size, distinct = tree.total(), tree.distinct()
        if newest[0] == 0:
            return (size, newest[1], 0)
        below, same, different = tree.place(newest)
        if self.rule == DENSE:
            return (distinct, newest[1], 2 * (different + 1 if self.ascending else distinct - different))
        if not self.ascending:
            below = size - below - same
        twice = 2 * below + same + 1
        if self.rule == LEAST:
            twice = 2 * below + 2
        elif self.rule == GREATEST:
            twice = 2 * (below + same)
        return (size, newest[1], twice)

    def lower(self, a: Any) -> Any:
        return None if a[2] == 0 else self.finish(a[2], a[0])


def _counted(zero: Any) -> Any:
    return (0, zero)


def half(twice: Any, _of: Any) -> Any:
    """The rank."""
    return twice / 2


def whole_half(twice: Any, _of: Any) -> Any:
    """The rank, if it is whole."""
    return twice // 2


def fraction(twice: Any, of: Any) -> Any:
    """The rank as a fraction."""
    return twice / 2 / of


def add_zero(x: Any) -> Any:
    """A float; 0.0 for -0.0."""
    return x + 0.0


def positive_zero(x: Any) -> Any:
    """A value of any type; 0.0 for -0.0."""
    return x + 0.0 if isinstance(x, float) else x


def number_with_zero(x: Any) -> Any:
    """A number; 0.0 for -0.0. Raises TypeError for other objects."""
    return positive_zero(number(x))


# --- Between values ---


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
