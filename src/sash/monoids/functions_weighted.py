"""Functions that bind weighted aggregates, and those that look back by rows.

Their weights are a column, or fall with the age of a row.
"""

from __future__ import annotations

from datetime import timedelta

from sash.monoids.algebra import Bound, ColumnLike, Condition
from sash.monoids.binding import binds
from sash.monoids.ewm import EwmMean, EwmStd, EwmVar
from sash.monoids.lag import Delta, Lag, PctChange
from sash.monoids.weighted import WeightedMean


@binds(WeightedMean)
def weighted_mean(x: ColumnLike, w: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Mean of column `x` in the window, weighted by column `w`: the sum of w·x over the sum of w, such as a VWAP.

    Rows with a null in either column are skipped; a window without rows, or whose weights sum to zero, gives null.
    Negative weights count as they are. Result: a float; NaN if a weight is infinite.

    >>> import sash
    >>> window = sash.Window(2, sash.weighted_mean("price", "quantity"))
    >>> [window.push({"price": p, "quantity": q}) for p, q in ((10, 1), (20, 3), (30, 0))]
    [10.0, 17.5, 20.0]
    """
    return WeightedMean()(x, w, where=where)


@binds(EwmMean)
def ewm_mean(  # noqa: PLR0913 (public, keyword-only)
    x: ColumnLike,
    /,
    *,
    halflife: float | str | timedelta | None = None,
    alpha: float | None = None,
    span: float | None = None,
    com: float | None = None,
    times: bool = False,
    ignore_nulls: bool = False,
    where: Condition = None,
) -> Bound:
    """Exponentially weighted mean (EWMA) of column `x` in the window, as pandas' `ewm(halflife=…).mean()`.

    A value's weight is 0.5 ** (age / halflife), relative to the newest row of the window. Nulls have no weight; a
    window without values gives null. Result: a float.

    halflife: the age at which a weight has halved: a number of rows, or a duration such as "10m", by the time of `on`.
    alpha: instead of `halflife`, the smoothing factor: each row reduces the weights of earlier ones by this fraction,
        1 - 0.5 ** (1 / halflife).
    span, com: instead of `halflife`, as in pandas: alpha = 2 / (span + 1), alpha = 1 / (1 + com).
    times: whether a number as `halflife` is in units of `on`, for columns of numbers; else it is in rows.
    ignore_nulls: whether a half-life in rows does not count the rows that are null.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.ewm_mean("x", halflife=1))
    >>> [window.push({"x": x}) for x in (0, 3, 9)]
    [0.0, 2.0, 6.0]

    Raises TypeError or ValueError, naming the parameter, if one is missing or out of range.
    """
    return EwmMean(halflife, alpha, times, ignore_nulls, span=span, com=com)(x, where=where)


@binds(EwmVar)
def ewm_var(  # noqa: PLR0913 (public, keyword-only)
    x: ColumnLike,
    /,
    *,
    halflife: float | str | timedelta | None = None,
    alpha: float | None = None,
    span: float | None = None,
    com: float | None = None,
    times: bool = False,
    ignore_nulls: bool = False,
    bias: bool = False,
    where: Condition = None,
) -> Bound:
    """Exponentially weighted variance of column `x` in the window, as pandas' `ewm(halflife=…).var()`.

    Nulls have no weight; a window without values gives null. Result: a float.

    halflife, alpha, span, com: how weights fall with age, as in `ewm_mean`; one of them is required.
    times, ignore_nulls: how ages are counted, as in `ewm_mean`.
    bias: True for the variance of the weighted values themselves; False to correct it for a sample, with null for a
        single value.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.ewm_var("x", halflife=1))
    >>> window.push({"x": 1}), round(window.push({"x": 3}), 9)
    (None, 2.0)

    Raises what `ewm_mean` raises, TypeError if bias is not a boolean.
    """
    return EwmVar(halflife, alpha, times, ignore_nulls, bias, span=span, com=com)(x, where=where)


@binds(EwmStd)
def ewm_std(  # noqa: PLR0913 (public, keyword-only)
    x: ColumnLike,
    /,
    *,
    halflife: float | str | timedelta | None = None,
    alpha: float | None = None,
    span: float | None = None,
    com: float | None = None,
    times: bool = False,
    ignore_nulls: bool = False,
    bias: bool = False,
    where: Condition = None,
) -> Bound:
    """Exponentially weighted standard deviation of column `x` in the window: the square root of `ewm_var`.

    Nulls have no weight; a window without values gives null. Result: a float.

    halflife, alpha, span, com: how weights fall with age, as in `ewm_mean`; one of them is required.
    times, ignore_nulls: how ages are counted, as in `ewm_mean`.
    bias: True for the deviation of the weighted values themselves; False to correct it for a sample, with null for a
        single value.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.ewm_std("x", halflife=1, bias=True))
    >>> [round(window.push({"x": x}), 3) for x in (0, 3)]
    [0.0, 1.414]

    Raises what `ewm_var` raises.
    """
    return EwmStd(halflife, alpha, times, ignore_nulls, bias, span=span, com=com)(x, where=where)


@binds(Lag)
def lag(x: ColumnLike, /, *, n: int = 1, where: Condition = None) -> Bound:
    """Value of column `x` n rows before the last row of the window (LAG).

    With a result at each row, the last row is that row. Nulls count as rows. The result is null if that value is
    null, or if the window has n or fewer rows. Result: the type of `x`, which may be anything.

    n: how many rows to look back.

    >>> import sash
    >>> window = sash.Window(10, sash.lag("x", n=2))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    [None, None, 'a']

    Raises TypeError if n is not an integer, ValueError if it is below 1.
    """
    return Lag(n)(x, where=where)


@binds(Delta)
def delta(x: ColumnLike, /, *, n: int = 1, where: Condition = None) -> Bound:
    """Difference of column `x`: the value of the window's last row minus that of the n-th row before it.

    Nulls count as rows; null if either value is, or if the window has n or fewer rows. Result: an int for ints and
    booleans, else a float.

    n: how many rows to look back.

    >>> import sash
    >>> window = sash.Window(10, sash.delta("x", n=1))
    >>> [window.push({"x": x}) for x in (3, 5, 4)]
    [None, 2, -1]

    Raises TypeError if n is not an integer, ValueError if it is below 1. The query raises OverflowError if a
    difference of ints exceeds 64 bits.
    """
    return Delta(n)(x, where=where)


@binds(PctChange)
def pct_change(x: ColumnLike, /, *, n: int = 1, where: Condition = None) -> Bound:
    """Relative change of column `x`: the value of the window's last row over that of the n-th row before it, minus 1.

    Nulls count as rows; null if either value is, if the earlier one is zero, or if the window has n or fewer rows.
    Result: a float; 0.5 is a rise by 50 %.

    n: how many rows to look back.

    >>> import sash
    >>> window = sash.Window(10, sash.pct_change("x", n=1))
    >>> [window.push({"x": x}) for x in (4, 5, 0, 1)]
    [None, 0.25, -1.0, None]

    Raises TypeError if n is not an integer, ValueError if it is below 1.
    """
    return PctChange(n)(x, where=where)
