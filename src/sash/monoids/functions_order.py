"""Functions that bind order statistics: exact medians, quantiles, ranks, modes and numbers of distinct values."""

from __future__ import annotations

from sash.monoids.algebra import Bound, ColumnLike, Condition
from sash.monoids.binding import binds
from sash.monoids.order_statistics import (
    CountDistinct,
    Interpolation,
    Median,
    Mode,
    PercentRank,
    Quantile,
    Rank,
    RankMethod,
)


@binds(Median)
def median(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Median: the middle value of column `x` in the window, exactly; of two, halfway between them.

    Nulls are skipped; a window without values gives null; a NaN makes the median NaN. Result: a float; a decimal with
    four more places for decimals, the type of `x` for durations, timestamps and times, a timestamp for dates.

    >>> import sash
    >>> window = sash.Window(3, sash.median("x"))
    >>> [window.push({"x": x}) for x in (7, 1, 4)]
    [7.0, 4.0, 4.0]
    """
    return Median()(x, where=where)


@binds(Quantile)
def quantile(x: ColumnLike, /, *, q: float, interpolation: Interpolation = "linear", where: Condition = None) -> Bound:
    """Quantile (percentile) of column `x` in the window, exactly: the value at position q * (n - 1) in sorted order.

    Nulls are skipped; a window without values gives null; a NaN makes the quantile NaN. Result: as of `median`, or the
    type of `x` if `interpolation` chooses a value.

    q: the quantile, in 0..1: 0.99 is the 99th percentile.
    interpolation: the rule for a position between two values. "linear" and "midpoint" compute a number between them;
        "lower", "higher" and "nearest" (the even position of two equally near ones) choose one of them, of any type
        with an order; "equiprobable" chooses the least value that at least the fraction `q` of the values does not
        exceed.

    >>> import sash
    >>> window = sash.Window(5, sash.quantile("x", q=0.75))
    >>> [window.push({"x": x}) for x in (1, 2, 3, 4)]
    [1.0, 1.75, 2.5, 3.25]

    Raises TypeError or ValueError if `q` is not a number in 0..1 or the interpolation unknown.
    """
    return Quantile(q, interpolation)(x, where=where)


@binds(Rank)
def rank(x: ColumnLike, /, *, method: RankMethod = "average", ascending: bool = True, where: Condition = None) -> Bound:
    """Rank of the newest row of the window by column `x`, from 1: RANK in SQL.

    A NaN is greater than every number. Nulls are not counted; if the newest row has one, the rank is null. Result: an
    int, a float with "average". Only for windows with a result at each row.

    method: the rule for equal values: their "average" rank, the "min" (RANK in SQL), the "max", or "dense", which
        counts each value once (DENSE_RANK).
    ascending: whether the least value has rank 1; else the greatest.

    >>> import sash
    >>> window = sash.Window(3, sash.rank("x", method="min"))
    >>> [window.push({"x": x}) for x in (5, 7, 6, 6)]
    [1, 2, 2, 1]

    Raises TypeError or ValueError if the method is unknown or `ascending` is not a boolean.
    """
    return Rank(method, ascending)(x, where=where)


@binds(PercentRank)
def percent_rank(
    x: ColumnLike, /, *, method: RankMethod = "average", ascending: bool = True, where: Condition = None
) -> Bound:
    """Rank of the window's newest row by column `x`, as a fraction of the number of values: in (0, 1].

    Nulls are not counted; if the newest row has one, the result is null. Result: a float. Only for windows with a
    result at each row.

    method: the rule for equal values, as in `rank`; with "dense" the fraction is that of the distinct values.
    ascending: whether the least value has the least rank; else the greatest.

    >>> import sash
    >>> window = sash.Window(4, sash.percent_rank("x"))
    >>> [window.push({"x": x}) for x in (5, 7, 8, 6)]
    [1.0, 1.0, 1.0, 0.5]

    Raises TypeError or ValueError if the method is unknown or `ascending` is not a boolean.
    """
    return PercentRank(method, ascending)(x, where=where)


@binds(Mode)
def mode(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Mode: the most frequent value of column `x` in the window, the least of equally frequent ones.

    Nulls are skipped; a window without values gives null. NaNs are one value, the greatest. Result: the type of `x`,
    which may be anything that can be ordered.

    >>> import sash
    >>> window = sash.Window(4, sash.mode("x"))
    >>> [window.push({"x": x}) for x in ("b", "a", "b", "c")]
    ['b', 'a', 'b', 'b']
    """
    return Mode()(x, where=where)


@binds(CountDistinct)
def count_distinct(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """COUNT(DISTINCT x): the number of different values of column `x` in the window, exactly.

    Nulls are skipped, NaNs are one value. Result: an int, 0 for a window without values.

    >>> import sash
    >>> window = sash.Window(3, sash.count_distinct("x"))
    >>> [window.push({"x": x}) for x in ("a", "b", "a", None)]
    [1, 2, 2, 2]
    """
    return CountDistinct()(x, where=where)
