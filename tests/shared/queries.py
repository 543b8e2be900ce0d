"""Hypothesis strategies for queries: every kind of window and every option, in all combinations that are legal.

Times are counted in small whole *ticks*, and a `Scale` turns them into a column of timestamps, dates, integers or
floats, so that sizes, ties and gaps meet each other often and a failing case shrinks to small numbers.

The queries are for the columns that `tests.shared.streams` makes:

    k j     keys: text, and floats with NaN and both zeros      t   the time       q   a tie-breaker
    i f x b s d   values: int, tame float, wild float, bool, text, timestamp       n   int from 0, never null
    m u     values: decimal, duration
    g       never decreases, for Delta                          p   for Punctuation
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

import pyarrow as pa
from hypothesis import strategies as st

import sash
from sash import Count, Delta, Lifetime, Policy, Punctuation, Query, Session, Time, expr, monoid
from sash.monoids import Bound

Aggregated = Any
"""A `Bound`, or arithmetic on some."""

Closed = Literal["left", "right", "both", "neither"]
Align = Literal["start", "end"]

# ---- time ----


@dataclass(frozen=True)
class Scale:
    """A type of time column: how many of its units a tick has, and how a length of ticks is written."""

    type: pa.DataType
    units: int | float
    unit: str
    origin: int = 0
    zone: str | None = None
    """With a time zone, Time windows have calendar lengths."""
    calendar: str = ""
    """The unit of calendar lengths; lengths that must be fixed have `unit`."""

    def length(self, ticks: int) -> Any:
        """A length as a user of such a column gives it."""
        return f"{ticks}{self.unit}" if self.unit else ticks * self.units

    def time(self, ticks: int, **arguments: Any) -> Time:
        """A Time window of this length; `every` in ticks."""
        if isinstance(arguments.get("every"), int):
            arguments["every"] = self.calendar_length(arguments["every"])
        return Time(self.calendar_length(ticks), tz=self.zone, **arguments)

    def calendar_length(self, ticks: int) -> Any:
        """A length of a Time window: of the calendar, if there is a zone."""
        return f"{ticks}{self.calendar}" if self.calendar else self.length(ticks)

    def every(self, ticks: int) -> Any:
        """A slide in time, for windows that are not measured in time themselves."""
        if self.zone:
            return Time(self.calendar_length(ticks), tz=self.zone)
        return self.length(ticks) if self.unit else Time(self.length(ticks))

    def number(self, ticks: int) -> Any:
        """A time in units of the column."""
        return self.origin + ticks * self.units

    def moment(self, ticks: int) -> Any:
        """A time as `advance` takes it: a number for a column of numbers."""
        return pa.scalar(self.number(ticks), self.type) if self.unit else self.number(ticks)


SCALES = (
    Scale(pa.int64(), 1, ""),
    Scale(pa.timestamp("us"), 10**6, "s"),
    Scale(pa.timestamp("ns", "UTC"), 10**9, "s"),
    Scale(pa.timestamp("ms", "America/New_York"), 1000, "s"),
    Scale(pa.timestamp("s"), 1, "s"),
    Scale(pa.date32(), 1, "d"),
    Scale(pa.int32(), 10, ""),
    Scale(pa.float64(), 0.25, ""),
    Scale(pa.timestamp("s", "America/New_York"), 25_200, "d", 1_699_000_000, "America/New_York", "d"),
    Scale(pa.timestamp("us"), 100 * 3600 * 10**6, "w", 1_706_600_000 * 10**6, "America/Sao_Paulo", "mo"),
)
"""The time columns that are drawn, the simplest first."""


# ---- windows ----

_sizes = st.integers(1, 8) | st.sampled_from([1, 20, 60])
_steps = st.integers(1, 5) | st.just(20)
_shifts = st.integers(-6, 6) | st.sampled_from([-1, -30, 30])


@dataclass(frozen=True)
class KeepLast:
    """A policy over `count`: the last `size` rows stay."""

    size: int

    def __call__(self, total: Any, prefix: Any) -> bool:
        return bool(total - prefix >= self.size)


@dataclass(frozen=True)
class SumWithin:
    """A policy over a sum and the last value: the window sums to at most `most`, so a large value empties it."""

    most: int

    def __call__(self, total: Any, prefix: Any) -> bool:
        return bool(total[0] - prefix[0] + prefix[1] > self.most)


@dataclass(frozen=True)
class FromHigh:
    """A policy over the last value and `count`: a value of `least` or more gives up all before it.

    What is given up stays so when lower values follow, for a start does not move back.
    """

    least: int

    def __call__(self, total: Any, prefix: Any) -> bool:
        return bool(total[0] >= self.least and prefix[1] < total[1])


@st.composite
def _row_windows(draw: st.DrawFn, scale: Scale | None, eager: bool) -> Any:
    """A window for each row; without a scale one that needs no time."""
    kinds = ["count", "lifetime", "delta"]
    kinds += [] if eager else ["punctuation", "policy"]
    kinds += ["time", "time", "session"] if scale else []
    kind = draw(st.sampled_from(kinds))
    size = draw(_sizes)
    shift = 0 if eager or draw(st.booleans()) else draw(_shifts)
    if kind == "count":
        return Count(size, full=draw(st.booleans()), shift=shift)
    if kind == "time":
        assert scale is not None
        closed: Closed | None = draw(st.sampled_from([None, "left", "both", "neither"]))
        by = scale.length(shift) if not scale.calendar else scale.calendar_length(shift) if shift < 0 else 0
        return scale.time(size, closed=closed, shift=by)
    if kind == "session":
        assert scale is not None
        return Session(scale.length(size))
    if kind == "delta":
        return Delta("g", size)
    if kind == "policy":
        size = 3 if size < 5 else 20  # each policy is compiled, so there are few of them
        keep = Policy(KeepLast(size), sash.count())
        within = Policy(SumWithin(size), (sash.sum("n"), sash.last("n")))
        high = Policy(FromHigh(7), (sash.last("n"), sash.count()))
        return draw(st.sampled_from([keep, within, high]))
    return Lifetime() if kind == "lifetime" else Punctuation("p")


@st.composite
def _slide_windows(draw: st.DrawFn, scale: Scale | None, eager: bool) -> Any:
    """A window with `every`; without a scale one that needs no time."""
    kinds = ["count", "lifetime"]
    kinds += ["time", "time", "time by rows", "count by time", "lifetime by time"] if scale else []
    kinds += [] if eager else ["punctuation"]
    kinds += ["session"] if scale and not eager else []
    kind = draw(st.sampled_from(kinds))
    size, step = draw(_sizes), draw(_steps)
    if kind == "count":
        return Count(size, every=step, full=draw(st.booleans()))
    if kind == "lifetime":
        return Lifetime(every=step)
    if kind == "punctuation":
        return Punctuation("p", every="close")
    assert scale is not None
    if kind == "time":
        offset = scale.length(draw(st.integers(1, 4))) if draw(st.booleans()) else 0
        closed: Closed | None = draw(st.sampled_from([None, "right"]))
        align: Align = draw(st.sampled_from(["end", "start"]))
        return scale.time(size, every=step, closed=closed, offset=offset, align=align)
    if kind == "time by rows":
        closed = draw(st.sampled_from([None, "left", "both", "neither"]))
        return scale.time(size, every=Count(step), closed=closed)
    if kind == "session":
        return Session(scale.length(size), every="close")
    if kind == "count by time":
        return Count(size, every=scale.every(step), full=draw(st.booleans()))
    return Lifetime(every=scale.every(step))


@st.composite
def windows(draw: st.DrawFn, scale: Scale | None, per_row: bool, eager: bool = False) -> Any:
    """One window, or up to three named ones, all per row or all with `every`; `eager` leaves some kinds out."""
    one = _row_windows(scale, eager) if per_row else _slide_windows(scale, eager)
    found = draw(st.lists(one, min_size=1, max_size=3))
    return found[0] if len(found) == 1 and draw(st.booleans()) else {f"w{i}": w for i, w in enumerate(found)}


# ---- aggregates ----


def _lift(x: Any) -> Any:
    return (x % 7 + 1, x % 11)


def _compose(a: Any, b: Any) -> Any:
    return (a[0] * b[0] % 1009, (a[1] * b[0] + b[1]) % 1009)


def _second(a: Any) -> Any:
    return a[1]


AFFINE = monoid(identity=(1, 0), lift=_lift, combine=_compose, lower=_second, exact=True, name="affine")
"""A user's aggregate whose order matters: affine maps, one after the other."""

LOOSE = {"var", "std", "skewness", "kurtosis", "covariance", "correlation", "slope", "intercept", "geometric_mean"}
LOOSE |= {"ewm_mean", "ewm_var", "ewm_std"}
"""Aggregates whose digits depend on the shape of the fold more than a sum's."""

_f = sash
_AGGREGATES: tuple[Bound, ...] = (
    _f.count(), _f.sum("i"), _f.max("f"), _f.count("f"), _f.mean("i"), _f.min("x"), _f.sum("x"), _f.mean("x"),
    _f.last("s"), _f.first("d"), _f.max("s"), _f.min("d"), _f.max("b"), _f.range("i"), _f.sum("b"), _f.nth("x", n=2),
    _f.nth("s", n=-2), _f.collect("i"), _f.collect("d"), _f.collect_distinct("x"), _f.concat("s", separator="-"),
    _f.any("b"), _f.all("b"), _f.bit_and("i"), _f.bit_or("i"), _f.bit_xor("i"), _f.sum_of_squares("f"),
    _f.arg_max("x", "s"), _f.arg_min("i", "d"), _f.arg_max("s", "i"), _f.max_count("x"), _f.min_count("i"),
    _f.m4("i"), _f.m4("x"), _f.longest_run("f", "i"), _f.var("f"), _f.std("i", ddof=0), _f.skewness("f"),
    _f.kurtosis("i"), _f.covariance("f", "i"), _f.correlation("f", "i"), _f.slope("f", "i"), _f.intercept("i", "f"),
    _f.geometric_mean("n"), _f.product("f"), _f.max("n"), AFFINE("i"), _f.weighted_mean("f", "n"),
    _f.weighted_mean("x", "i"), _f.ewm_mean("f", halflife=2), _f.ewm_mean("i", span=5.5, ignore_nulls=True),
    _f.ewm_var("f", halflife=1.5), _f.ewm_std("i", halflife=3, bias=True), _f.lag("s"), _f.lag("x", n=2),
    _f.lag("d", n=9), _f.delta("n"), _f.delta("x", n=2), _f.pct_change("f"), _f.pct_change("i", n=2),
    _f.median("i"), _f.median("x"), _f.quantile("f", q=0.9), _f.quantile("i", q=0.3, interpolation="nearest"),
    _f.quantile("s", q=0.5, interpolation="lower"), _f.quantile("d", q=0.8, interpolation="higher"),
    _f.quantile("x", q=0.4, interpolation="midpoint"), _f.mode("i"), _f.mode("x"), _f.mode("s"), _f.mode("b"),
    _f.count_distinct("x"), _f.count_distinct("s"), _f.count_distinct("d"), _f.count_distinct("i"),
    _f.sum("m"), _f.mean("m"), _f.range("m"), _f.max("m"), _f.sum("u"), _f.mean("u"), _f.range("u"), _f.range("d"),
    _f.mean("d"), _f.last("u"),
)  # fmt: skip

_RANKS: tuple[Bound, ...] = (
    _f.rank("x"), _f.rank("i", method="dense"), _f.rank("s", method="min", ascending=False), _f.rank("d", method="max"),
    _f.percent_rank("x", method="dense"), _f.percent_rank("i"), _f.rank("b", method="dense", ascending=False),
)  # fmt: skip
"""Aggregates of windows with a result at each row."""


_DERIVED: tuple[Bound, ...] = (
    _f.count(where="b"), _f.count("f", where="i > 0 or s = 'a'"), _f.sum(expr("i * 2 + n")), _f.max(expr("f / i")),
    _f.mean("x", where="i > 0"), _f.arg_max(expr("abs(i)"), "s", where="b is not null"), _f.last("s", where="s <> 'a'"),
    _f.collect("d", where="n < 5"), AFFINE("i", where="b or n > 3"), _f.first(expr("upper(s) || 'x'")),
    _f.min(expr("d + interval '1 hour'"), where="hour(d) < 12"), _f.var(expr("f + n"), where="not b"),
    _f.sum(expr("case when s in ('a', 'b') then i when b then -n end")), _f.m4("f", where="f between -1 and 3"),
)  # fmt: skip
"""Aggregates of expressions, and of rows for which a condition holds."""


@functools.cache
def aggregates(per_row: bool) -> st.SearchStrategy[dict[str, Bound]]:
    """One to four aggregates by name."""
    one = st.sampled_from(_AGGREGATES + _RANKS if per_row else _AGGREGATES) | st.sampled_from(_DERIVED)
    return st.lists(one, min_size=1, max_size=4).map(lambda bound: {f"a{i}": one for i, one in enumerate(bound)})


_NUMBERS: tuple[Bound, ...] = (
    _f.count(), _f.sum("i"), _f.max("n"), _f.count("f", where="b"), _f.sum("x"), _f.mean("f"), _f.min(expr("i - n")),
    _f.sum("i", where="b"), _f.var("f"),
)  # fmt: skip


@st.composite
def _formulas(draw: st.DrawFn, own: Any) -> Aggregated:
    """Arithmetic on two or three aggregates and numbers; `own` draws a window for some of them."""

    def leaf() -> Aggregated:
        bound = draw(st.sampled_from(_NUMBERS))
        return bound if own is None or draw(st.integers(0, 2)) else bound.over(draw(own))

    found = leaf()
    for _ in range(draw(st.integers(1, 2))):
        other: Any = leaf() if draw(st.integers(0, 3)) else draw(st.sampled_from([2, -0.5, 0]))
        found = draw(st.sampled_from([found + other, other - found, found * other, other / found, found / other]))
    return -found if draw(st.booleans()) else found


@st.composite
def combined(draw: st.DrawFn, one: Any, per_row: bool) -> tuple[dict[str, Aggregated], bool]:
    """Aggregates by name: some are formulas, some have windows of their own, which `one` draws. Are all such?"""
    found: dict[str, Aggregated] = dict(draw(aggregates(per_row)))
    for name in found:
        if draw(st.integers(0, 3)) == 3:
            found[name] = draw(_formulas(one if per_row else None))
    if draw(st.integers(0, 2)) == 2:
        share = draw(st.sampled_from([1, 2, 3]))
        for name, aggregated in found.items():
            if draw(st.integers(1, 3)) <= share and all(leaf.window is None for leaf in aggregated.leaves()):
                found[name] = aggregated.over(draw(one))
    own = [all(leaf.window is not None for leaf in aggregated.leaves()) for aggregated in found.values()]
    return found, all(own)


def loose(query: Query) -> dict[str, float]:
    """Columns of a query's output that get a tolerance of their own, for `sash.testing.compare`."""
    made = query.aggregates.items()
    names = [name for name, one in made if any(leaf.monoid.name in LOOSE for leaf in one.leaves())]
    return {f"{name}_{window}" if window else name: 1e-9 for name in names for window in (*query.windows, "")}


# ---- queries ----


EMITS = ("final", "changes", "eager")
LATES = ("drop", "flag", "error")


@st.composite
def queries(
    draw: st.DrawFn, scale: Scale | None, emits: tuple[str, ...] = EMITS, lates: tuple[str, ...] = LATES
) -> Query:
    """A query for the columns of `streams`; without a scale arrival is its order."""
    per_row = draw(st.booleans())
    emit = draw(st.sampled_from(emits))
    found = draw(windows(scale, per_row, emit == "eager"))
    one = _row_windows(scale, emit == "eager") if per_row else _slide_windows(scale, emit == "eager")
    made, own = draw(combined(one, per_row))
    used = [] if own else [*found.values()] if isinstance(found, dict) else [found]
    used += [leaf.window for one in made.values() for leaf in one.leaves() if leaf.window is not None]
    by = draw(st.sampled_from([("k",), (), ("k", "j"), ("j",), ("b",), ("d", "i")]))
    arguments: dict[str, Any] = {"by": by, "emit": emit}
    if scale is not None:
        arguments["on"] = draw(st.sampled_from([["t"], ["t", "q"], ["t", "b", "s"], ["t", "x"]]))
        if draw(st.integers(0, 3)):
            arguments["lateness"] = scale.length(draw(st.integers(0, 10)))
        arguments["late"] = draw(st.sampled_from([late for late in lates if per_row or late != "flag"]))
        in_rows = any(one.slide == "rows" for one in used)
        if draw(st.integers(0, 2)) == 2 and not (emit == "eager" and in_rows):
            arguments["forget"] = scale.length(draw(_sizes))
    arguments["min_periods"] = min(draw(st.sampled_from([0, 0, 0, 1, 2, 3])), fewest_rows(used))
    if scale is not None and not own and draw(st.integers(0, 3)) == 3:
        made["e"] = _by_time(draw(st.sampled_from([_f.ewm_mean, _f.ewm_var])), scale)
    return Query(None if own else found, **arguments, **cast(dict[str, Any], made))


def fewest_rows(windows: Iterable[Any]) -> int:
    """The least size of the Count windows among these, which is the most that `min_periods` may be."""
    return min((one.size for one in windows if isinstance(one, Count)), default=1 << 30)


def _by_time(aggregate: Any, scale: Scale) -> Bound:
    """An exponentially weighted aggregate whose half-life is in time."""
    bound: Bound = aggregate("f", halflife=scale.length(3), times=True)
    return bound


def given_windows(query: Query) -> Any:
    """The windows of a query as `Query` takes them, for one with other aggregates; else those of its aggregates."""
    found = query.windows or query.all_windows
    return found.get("", found)


def rewritten(query: Query, **changes: Any) -> Query:
    """The query with some of its arguments changed.

    >>> rewritten(Query(2, emit="changes", n=sash.count()), emit="final")
    Query(Count(2), n=count())
    """
    return query.rewritten(**changes)


def columns_read(query: Query) -> set[str]:
    """The columns that a query reads.

    >>> sorted(columns_read(Query(Delta("g", 3), by="k", on=["t", "q"], n=sash.count(), s=sash.sum("i"))))
    ['g', 'i', 'k', 'q', 't']
    """
    windows = query.all_windows.values()
    bound = [*query.aggregates.values(), *(one for window in windows for one in getattr(window, "over", ()))]
    measured = [window.column for window in windows if isinstance(window, Delta | Punctuation)]
    leaves = [leaf for one in bound for leaf in one.leaves()]
    return {*query.by, *query.on, *measured, *(column for leaf in leaves for column in leaf.reads())}
