"""The longest run of increasing values: its start and end, interval and count.

A state has the runs that can still grow at either end, and the longest run within:

    prefix            best              suffix
    3 5 8 | 2 | 1 2 4 6 | 5 | 4 5
    ─────       ───────       ───

Two states join their runs if the last value of the older is below the first of the younger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.exact_integer import INT64_MAX, INT64_MIN, as_int, checked_kinds, in_range, overflow_message
from sash.monoids.first_last import ZERO

# the indices of a state; `at` is the coordinate of an element, such as its time
N, FIRST, LAST, FIRST_AT, LAST_AT = 0, 1, 2, 3, 4
PREFIX, PREFIX_END, SUFFIX, SUFFIX_START = 5, 6, 7, 8
BEST, BEST_START, BEST_END = 9, 10, 11


_INTERVAL = "interval of longest_run"
_OVERFLOW = overflow_message(_INTERVAL)


def _nothing(value: Any, at: Any) -> Any:
    return (0, value, value, at, at, 0, at, 0, at, 0, at, at)


class LongestRun(Monoid):
    """The longest strictly increasing run of neighbouring values; see `sash.longest_run`.

    A row with a null in either column is missing, and its neighbours are neighbours. A NaN is in no order.
    """

    domain = ("ordered", "number")
    exact = True

    def __init__(self, identity: Any = _nothing(None, None)) -> None:  # noqa: B008 (a constant)
        self.identity = identity
        self.place: Callable[[Any], Any] = _as_number
        self.interval: Callable[[Any, Any], Any] = _interval

    def typed(self, *kinds: Kind) -> Monoid:
        value, at = checked_kinds(self, kinds, 2)
        twin = LongestRun(_nothing(ZERO[value], 0.0 if at == "float" else 0))
        twin.place = as_int if at == "bool" else _as_it_is
        twin.interval = _interval_of_floats if at == "float" else _interval_of_ints
        return twin

    def lift(self, value: Any, at: Any) -> Any:
        at = self.place(at)
        return (1, value, value, at, at, 1, at, 1, at, 1, at, at)

    def combine(self, a: Any, b: Any) -> Any:
        if a[N] == 0:
            return b
        if b[N] == 0:
            return a
        prefix, prefix_end = a[PREFIX], a[PREFIX_END]
        suffix, suffix_start = b[SUFFIX], b[SUFFIX_START]
        best, best_start, best_end = a[BEST], a[BEST_START], a[BEST_END]
        if a[LAST] < b[FIRST]:
            if prefix == a[N]:
                prefix, prefix_end = prefix + b[PREFIX], b[PREFIX_END]
            if suffix == b[N]:
                suffix, suffix_start = suffix + a[SUFFIX], a[SUFFIX_START]
            if a[SUFFIX] + b[PREFIX] > best:
                best, best_start, best_end = a[SUFFIX] + b[PREFIX], a[SUFFIX_START], b[PREFIX_END]
        if b[BEST] > best:
            best, best_start, best_end = b[BEST], b[BEST_START], b[BEST_END]
        ends = (a[N] + b[N], a[FIRST], b[LAST], a[FIRST_AT], b[LAST_AT])
        return ends + (prefix, prefix_end, suffix, suffix_start, best, best_start, best_end)  # noqa: RUF005 (compiles)

    def lower(self, a: Any) -> Any:
        start, end = a[BEST_START], a[BEST_END]
        # a test of a coordinate, not of the count: in typed states it is never None, and the test compiles to nothing
        return None if start is None else (start, end, self.interval(start, end), a[BEST])


def _as_it_is(at: Any) -> Any:
    return at


def _as_number(at: Any) -> Any:
    return int(at) if isinstance(at, bool) else at


def _interval(start: Any, end: Any) -> Any:
    interval = end - start
    return in_range(interval, _INTERVAL) if isinstance(interval, int) else interval


def _interval_of_ints(start: Any, end: Any) -> Any:
    interval = end - start
    if (interval < 0) != (end < start) or not INT64_MIN <= interval <= INT64_MAX:  # compiled, it wraps
        raise OverflowError(_OVERFLOW)
    return interval


def _interval_of_floats(start: Any, end: Any) -> Any:
    return end - start
