"""Values by their place in the window: first, last, n-th; earlier rows; the longest run; and M4, for plots.

Nulls are skipped by `First`, `Last`, `Nth`, `M4` and `LongestRun`, so the first value is the first that is not null.
NaN is a value like any other. States have a flag for "has a value", so that no value is reserved:

    First, Last   (has, value)
    M4            (has, first, min, max, last)

`Lag`, `Delta` and `PctChange` are relative to the last row of the window, which in a result at each row is the row
itself. Rows are counted as by LAG of SQL: a null is a row. The state holds the last n + 1 rows:

    in a loop     (x, …)                     the oldest first
    on columns    (rows, (x, …))             the newest first; of `delta` and `pct_change`
                  (rows, present, (x, …))    with a bit for each row that is not null

`LongestRun` has the runs that can still grow at either end, and the longest run within:

    prefix            best              suffix
    3 5 8 | 2 | 1 2 4 6 | 5 | 4 5
    ─────       ───────       ───

Two states join their runs if the last value of the older is below the first of the younger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.expressions.source_text import excerpt
from sash.monoids.algebra import MOST_ROWS, Kind, Monoid, itself
from sash.monoids.exact_integer import (
    INT64_MAX,
    INT64_MIN,
    as_float,
    as_int,
    checked_kinds,
    in_range,
    minus,
    number,
    one_kind,
    overflow_message,
)
from sash.monoids.extremes import Max, Min

# --- First and last ---


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


# --- Lag ---


MOST_COMPILED = 8
"""The greatest n whose rows are a compiled state: each is an array of its own."""

_DELTA_OVERFLOW = overflow_message("delta")


class Lag(Monoid):
    """The value of the n-th row before the last one of the window; see `sash.lag`. A combine costs O(n)."""

    identity: Any = ()
    exact = True
    nullable = (0,)

    def __init__(self, n: int = 1) -> None:
        self.n = check_rows(self.name, n)
        self.sample_rows = self.n + 1
        if n > MOST_COMPILED:
            self.interpreted_only = f"its state holds n + 1 rows, and n is above {MOST_COMPILED}"

    def typed(self, *kinds: Kind) -> Monoid:
        return LagOnColumns(self.n, one_kind(self, kinds))

    def lift(self, x: Any) -> Any:
        return (x,)

    def combine(self, a: Any, b: Any) -> Any:
        return (a + b)[-self.n - 1 :]

    def lower(self, a: Any) -> Any:
        return a[0] if len(a) > self.n else None


class _Change(Lag):
    """The base of aggregates of two values: that of the last row, and an earlier one."""

    domain = ("number",)
    counts_nulls = True

    def lift(self, x: Any) -> Any:
        return (None if x is None else number(x),)

    def lower(self, a: Any) -> Any:
        if len(a) <= self.n or a[0] is None or a[-1] is None:
            return None
        return self.change(a[-1], a[0])

    def change(self, now: Any, before: Any) -> Any:
        """The result of two values."""
        raise NotImplementedError


class Delta(_Change):
    """The value of the last row of the window minus that of the n-th row before it; see `sash.delta`."""

    def typed(self, *kinds: Kind) -> Monoid:
        return DeltaOnColumns(self.n, one_kind(self, kinds))

    def change(self, now: Any, before: Any) -> Any:
        difference = now - before
        return difference if isinstance(difference, float) else in_range(difference, "delta")


class PctChange(_Change):
    """The relative change since the n-th row before; see `sash.pct_change`."""

    def typed(self, *kinds: Kind) -> Monoid:
        return PctChangeOnColumns(self.n, one_kind(self, kinds))

    def change(self, now: Any, before: Any) -> Any:
        return relative_change(now, before)


def check_rows(name: str, n: Any) -> int:
    """The value of `n=`, a number of rows. Raises TypeError or ValueError, with the value, for anything else."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"n= of {name} must be a number of rows; got {n!r}, a {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n= of {name} counts rows back from the last one: it must be 1 or more; got {excerpt(n)}")
    if n > MOST_ROWS:
        raise ValueError(f"n= of {name} must be at most {MOST_ROWS}; got {excerpt(n)}")
    return n


def relative_change(now: Any, before: Any) -> Any:
    """now / before - 1, with all digits where both are near; None if `before` is 0."""
    if before == 0:
        return None
    ratio = now / before
    if 0.5 <= ratio <= 2.0:
        return (now - before) / before
    return ratio - 1.0


# ---- on columns ----


class LagOnColumns(Monoid):
    """`Lag` on a column of values, or of codes: (rows, (x, …)), at most n + 1 rows, the newest first."""

    name = "lag"
    exact = True
    nullable = (0,)

    def __init__(self, n: int, kind: Kind) -> None:
        self.n, self.kind = n, kind
        self.sample_rows = n + 1
        self.older = (ZERO[kind],) * n
        self.shift = _shifted(n + 1)
        self.identity = (0, (ZERO[kind], *self.older))

    def lift(self, x: Any) -> Any:
        return (1, (x, *self.older))

    def combine(self, a: Any, b: Any) -> Any:
        if b[0] == 0:
            return a
        if b[0] > self.n:
            return b
        return (min(a[0] + b[0], self.n + 1), self.shift(a[1], b[1], b[0]))

    def lower(self, a: Any) -> Any:
        return a[1][self.n] if a[0] > self.n else None


class _ChangeOnColumns(LagOnColumns):
    """Two of the last n + 1 rows: (rows, present, (x, …)); bit i of `present` is set if row i is not null."""

    domain = ("number",)
    read: Callable[[Any], Any]

    def __init__(self, n: int, kind: Kind) -> None:
        super().__init__(n, "float" if kind == "float" else "int")
        self.read = as_float if kind == "float" else as_int
        self.identity = (0, 0, self.identity[1])
        self.null_row = (1, 0, self.identity[2])
        self.all_rows = 2 ** (n + 1) - 1

    def lift(self, x: Any) -> Any:
        return (1, 1, (self.read(x), *self.older))

    def combine(self, a: Any, b: Any) -> Any:
        if b[0] == 0:
            return a
        if b[0] > self.n:
            return b
        present = (a[1] << b[0] | b[1]) & self.all_rows
        return (min(a[0] + b[0], self.n + 1), present, self.shift(a[2], b[2], b[0]))

    def lower(self, a: Any) -> Any:
        if a[0] <= self.n or a[1] & 1 == 0 or a[1] >> self.n == 0:
            return None
        return self.change(a[2][0], a[2][self.n])

    def change(self, now: Any, before: Any) -> Any:
        """The result of two values."""
        raise NotImplementedError


class DeltaOnColumns(_ChangeOnColumns):
    """`Delta` on a column of numbers."""

    name = "delta"

    def __init__(self, n: int, kind: Kind) -> None:
        super().__init__(n, kind)
        self.minus = minus if kind == "float" else _minus_ints

    def change(self, now: Any, before: Any) -> Any:
        return self.minus(now, before)


class PctChangeOnColumns(_ChangeOnColumns):
    """`PctChange` on a column of numbers."""

    name = "pct_change"

    def change(self, now: Any, before: Any) -> Any:
        return relative_change(now, before)


def _shifted(length: int) -> Callable[[Any, Any, int], Any]:
    """A function that puts the first `count` of the values b before those of a, both tuples of this length.

    Compiled code has no tuples of a variable length, so it is built value by value.
    """
    i = length - 1
    if length == 1:
        return lambda a, b, count: (_picked(a, b, count, 0),)
    newer = _shifted(length - 1)
    return lambda a, b, count: (*newer(a, b, count), _picked(a, b, count, i))


def _picked(a: Any, b: Any, count: int, i: int) -> Any:
    """Value i of the first `count` values of b, followed by those of a."""
    return b[i] if i < count else a[i - count]


def _minus_ints(now: Any, before: Any) -> Any:
    if now > INT64_MAX + before if before < 0 else now < INT64_MIN + before:  # compiled, the difference would wrap
        raise OverflowError(_DELTA_OVERFLOW)
    return now - before


# --- Longest run ---


# the indices of a state; `at` is the coordinate of an element, such as its time
N, FIRST, LAST, FIRST_AT, LAST_AT = 0, 1, 2, 3, 4
PREFIX, PREFIX_END, SUFFIX, SUFFIX_START = 5, 6, 7, 8
BEST, BEST_START, BEST_END = 9, 10, 11


_INTERVAL = "interval of longest_run"
_INTERVAL_OVERFLOW = overflow_message(_INTERVAL)


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
        twin.place = as_int if at == "bool" else itself
        twin.interval = minus if at == "float" else _interval_of_ints
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
        return None if start is None else (start, end, self.interval(end, start), a[BEST])


def _as_number(at: Any) -> Any:
    return int(at) if isinstance(at, bool) else at


def _interval(end: Any, start: Any) -> Any:
    interval = end - start
    return in_range(interval, _INTERVAL) if isinstance(interval, int) else interval


def _interval_of_ints(end: Any, start: Any) -> Any:
    interval = end - start
    if (interval < 0) != (end < start) or not INT64_MIN <= interval <= INT64_MAX:  # compiled, it wraps
        raise OverflowError(_INTERVAL_OVERFLOW)
    return interval
