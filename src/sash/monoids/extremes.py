"""Minimum and maximum, arg_min and arg_max, counts of extremes and range, for all values with an order.

NaN is a value and wins over every number, for both; the first of equal values wins. Without input the state is None;
on columns it is the least (or greatest) value of the column's kind. States with a payload or a count have a flag for
"has a value" instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.exact_integer import (
    INT64_MAX,
    as_float,
    as_int,
    checked_kinds,
    difference,
    has_difference,
    in_range,
    minus,
    number,
    one_kind,
    overflow_message,
)

_LEAST: dict[Kind, Any] = {"bool": False, "int": -(2**63), "float": -math.inf}
_GREATEST: dict[Kind, Any] = {"bool": True, "int": 2**63 - 1, "float": math.inf}
_OVERFLOW = overflow_message("range")


class _Contest(Monoid):
    """The base of extremes: which of two values wins, and the initial value on columns."""

    worst: ClassVar[dict[Kind, Any]]
    loses: Callable[[Any, Any], bool]
    """Does the first value lose to the second, which is newer?"""


class _Least(_Contest):
    """Small values win."""

    worst: ClassVar[dict[Kind, Any]] = _GREATEST

    def loses(self, a: Any, b: Any) -> bool:
        return not (a <= b or a != a)


class _Greatest(_Contest):
    """Great values win."""

    worst: ClassVar[dict[Kind, Any]] = _LEAST

    def loses(self, a: Any, b: Any) -> bool:
        return not (a >= b or a != a)


class _Winner(_Contest):
    """The winning value itself. The state is the value, or None."""

    domain = ("ordered",)
    commutative = True
    selective = True
    exact = True

    def __init__(self, identity: Any = None) -> None:
        self.identity = identity

    def typed(self, *kinds: Kind) -> Monoid:
        return type(self)(self.worst[one_kind(self, kinds)])

    def lift(self, x: Any) -> Any:
        return x

    def picks_right(self, a: Any, b: Any) -> bool:
        if a is None:
            return True
        if b is None:
            return False
        return self.loses(a, b)

    def combine(self, a: Any, b: Any) -> Any:
        return b if self.picks_right(a, b) else a

    def lower(self, a: Any) -> Any:
        return a


class Min(_Winner, _Least):
    """The least value, the first of equals; see `sash.min`."""


class Max(_Winner, _Greatest):
    """The greatest value, the first of equals; see `sash.max`."""


class _WinnerCount(_Contest):
    """How often the winning value occurs. The state is (value, count)."""

    domain = ("ordered",)
    commutative = True
    exact = True

    def __init__(self, identity: Any = (None, 0)) -> None:
        self.identity = identity

    def typed(self, *kinds: Kind) -> Monoid:
        return type(self)((self.worst[one_kind(self, kinds)], 0))

    def lift(self, x: Any) -> Any:
        return (x, 1)

    def combine(self, a: Any, b: Any) -> Any:
        if a[1] == 0:
            return b
        if b[1] == 0:
            return a
        if self.loses(a[0], b[0]):
            return b
        if self.loses(b[0], a[0]):
            return a
        return (a[0], a[1] + b[1])

    def lower(self, a: Any) -> Any:
        # a test of the value, not of the count: typed, it is never None, and no optional result is compiled
        return None if a[0] is None else a[1]


class MinCount(_WinnerCount, _Least):
    """How many times the least value occurs; see `sash.min_count`."""


class MaxCount(_WinnerCount, _Greatest):
    """How many times the greatest value occurs; see `sash.max_count`."""


class _WinnerPayload(_Contest):
    """The payload of the winning value. The state is (has, value, payload)."""

    domain = ("ordered", "any")
    nullable = (1,)
    selective = True
    exact = True

    def __init__(self, identity: Any = (False, None, None)) -> None:
        self.identity = identity

    def typed(self, *kinds: Kind) -> Monoid:
        value, payload = checked_kinds(self, kinds, 2)
        return type(self)((False, self.worst[value], self.worst[payload]))

    def lift(self, value: Any, payload: Any) -> Any:
        return (True, value, payload)

    def picks_right(self, a: Any, b: Any) -> bool:
        if not a[0]:
            return True
        if not b[0]:
            return False
        return self.loses(a[1], b[1])

    def combine(self, a: Any, b: Any) -> Any:
        return b if self.picks_right(a, b) else a

    def lower(self, a: Any) -> Any:
        return a[2]


class ArgMin(_WinnerPayload, _Least):
    """The payload of the row with the least value; see `sash.arg_min`."""


class ArgMax(_WinnerPayload, _Greatest):
    """The payload of the row with the greatest value; see `sash.arg_max`."""


class Range(Monoid):
    """The greatest number minus the least; see `sash.range`. The state is both: (least, greatest)."""

    domain = ("number",)
    commutative = True
    exact = True

    def __init__(self, identity: Any = (None, None)) -> None:
        self.identity = identity
        self.least = Min()
        self.greatest = Max()
        self.read: Callable[[Any], Any] = _read
        self.minus: Callable[[Any, Any], Any] = _minus

    def typed(self, *kinds: Kind) -> Monoid:
        kind: Kind = "float" if one_kind(self, kinds) == "float" else "int"
        twin = Range((_GREATEST[kind], _LEAST[kind]))
        twin.read = as_float if kind == "float" else as_int
        twin.minus = minus if kind == "float" else _minus_ints
        return twin

    def lift(self, x: Any) -> Any:
        x = self.read(x)
        return (x, x)

    def combine(self, a: Any, b: Any) -> Any:
        return (self.least.combine(a[0], b[0]), self.greatest.combine(a[1], b[1]))

    def lower(self, a: Any) -> Any:
        return None if a[0] is None else self.minus(a[1], a[0])


def _read(x: Any) -> Any:
    return x if has_difference(x) else number(x)


def _minus(greatest: Any, least: Any) -> Any:
    if has_difference(greatest):
        return difference(greatest, least)
    found = greatest - least
    return found if isinstance(found, float) else in_range(found, "range")


def _minus_ints(greatest: Any, least: Any) -> Any:
    difference = greatest - least
    if difference < 0 or difference > INT64_MAX:  # compiled, it wraps to a negative number
        raise OverflowError(_OVERFLOW)
    return difference
