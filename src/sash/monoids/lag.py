"""Values of earlier rows of the window: lag, and the difference and relative change since then.

All are relative to the last row of the window, which in a result at each row is the row itself. Rows are counted as by
LAG of SQL: a null is a row. The state holds the last n + 1 rows:

    in a loop     (x, …)                     the oldest first
    on columns    (rows, (x, …))             the newest first; of `delta` and `pct_change`
                  (rows, present, (x, …))    with a bit for each row that is not null
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.expressions.source_text import excerpt
from sash.monoids.algebra import MOST_ROWS, Kind, Monoid
from sash.monoids.exact_integer import (
    INT64_MAX,
    INT64_MIN,
    as_float,
    as_int,
    in_range,
    number,
    one_kind,
    overflow_message,
)
from sash.monoids.first_last import ZERO

MOST_COMPILED = 8
"""The greatest n whose rows are a compiled state: each is an array of its own."""

_OVERFLOW = overflow_message("delta")


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
        self.minus = _minus_floats if kind == "float" else _minus_ints

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


def _minus_floats(now: Any, before: Any) -> Any:
    return now - before


def _minus_ints(now: Any, before: Any) -> Any:
    if now > INT64_MAX + before if before < 0 else now < INT64_MIN + before:  # compiled, the difference would wrap
        raise OverflowError(_OVERFLOW)
    return now - before
