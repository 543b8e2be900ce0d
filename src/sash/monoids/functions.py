"""The aggregates as functions that bind them to columns: `max("price")`, `var("x", ddof=0)`.

Columns are positional and named as the inputs of the aggregate's `lift`; parameters are keywords and named as those
of its constructor. The names are those of built-ins (`sum`, `max`, `any`…), as users expect them.
The module shadows built-ins (`max`, `any`, `sum`, `range`…) and uses none of them.

Sketches (approximate aggregates in little memory) serve windows with `every`, and Lifetime. All but `bloom` need the
package datasketches.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

from sash.expressions.tree import Expr
from sash.monoids import logic
from sash.monoids.algebra import Bound, ColumnLike, Condition, Monoid
from sash.monoids.by_place import M4, Delta, First, Lag, Last, LongestRun, Nth, PctChange
from sash.monoids.collect import Collect, CollectDistinct, Concat
from sash.monoids.ewm import EwmMean, EwmStd, EwmVar
from sash.monoids.extremes import ArgMax, ArgMin, Max, MaxCount, Min, MinCount, Range
from sash.monoids.logic import All, BitAnd, BitOr, BitXor
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.monoids.product import GeometricMean, Product
from sash.monoids.rank_statistics import (
    CountDistinct,
    Interpolation,
    Median,
    Mode,
    PercentRank,
    Quantile,
    Rank,
    RankMethod,
)
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope, WeightedMean
from sash.monoids.sketches import ApproxDistinct, ApproxQuantile, Bloom, CountMin, FrequentItems
from sash.monoids.sums import Count, Mean, Sum, SumOfSquares
from sash.monoids.synonyms import parameter_advice

# --- Binding ---

AGGREGATES: dict[str, type[Monoid]] = {}
"""Every built-in aggregate, by the name of its function."""

F = TypeVar("F", bound=Callable[..., Bound])


def binds(aggregate: type[Monoid]) -> Callable[[F], F]:
    """Register a function as the one that binds this aggregate. Its signature stays visible to type checkers.

    Its docstring is extended by the arguments that all of them have.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def bind(*columns: ColumnLike, **given: Any) -> Bound:
            try:
                return function(*columns, **given)
            except TypeError:
                if _fits(signature, columns, given):
                    raise
            _require_columns(function.__name__, signature, columns)
            _require_parameters(function.__name__, signature, given)
            given.pop("where", None)
            return aggregate(**given)(*columns)  # raises an error that names the columns

        AGGREGATES[function.__name__] = aggregate
        bind.__doc__ = _with_common_arguments(function.__doc__, signature)
        return cast(F, bind)

    return decorate


def _fits(signature: inspect.Signature, columns: tuple[Any, ...], given: dict[str, Any]) -> bool:
    try:
        signature.bind(*columns, **given)
    except TypeError:
        return False
    return True


def _with_common_arguments(text: str | None, signature: inspect.Signature) -> str | None:
    """The docstring with the columns and `where` explained, before its example; other arguments stand between them."""
    if text is None:  # python -OO
        return None
    inputs = [one for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
    is_single = len(inputs) == 1 and inputs[0].kind is inputs[0].POSITIONAL_ONLY
    noun = "a column's name, or an expression" if is_single else "names of columns, or expressions"
    none = "; without it the input is the array that `sash.rolling` gets" if is_single else ""
    first = f"{', '.join(one.name for one in inputs)}: {noun} made with `sash.expr`{none}."
    last = 'where: a condition such as "x > 0", or the name of a boolean column; the input of other rows is null.'
    about, example, rest = inspect.cleandoc(text).partition("\n\n>>> ")
    *paragraphs, own = about.split("\n\n")
    if re.split("[:,]", own)[0] in signature.parameters:
        return "\n\n".join([*paragraphs, f"{first}\n{own}\n{last}"]) + example + rest
    return f"{about}\n\n{first}\n{last}{example}{rest}"


def _require_columns(name: str, signature: inspect.Signature, columns: tuple[Any, ...]) -> None:
    """Raises TypeError for a parameter that is passed behind the columns: `lag("price", 2)`."""
    named = [one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY and one.name != "where"]
    inputs = [one for one in signature.parameters.values() if one.kind is one.POSITIONAL_ONLY]
    rest = columns[len(inputs) :]
    if named and rest and not isinstance(rest[0], str | Expr):
        call = ", ".join([*map(repr, columns[: len(inputs)]), f"{named[0]}={rest[0]!r}"])
        raise TypeError(f"{name}() takes its parameters by name: sash.{name}({call})")


def _require_parameters(name: str, signature: inspect.Signature, given: dict[str, Any]) -> None:
    """Raises TypeError for an unknown parameter, and for one that is missing."""
    known = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
    names = [one.name for one in known]
    for key in given:
        if key not in names:
            takes = f"the parameters {', '.join(names)}" if names else "no parameters"
            advice = parameter_advice(key, names)
            raise TypeError(f"{name}() got an unknown parameter {key!r}{advice}; it takes {takes}")
    for one in known:
        if one.default is one.empty and one.name not in given:
            raise TypeError(f"{name}() needs the parameter {one.name}=")


# --- Functions basic ---


@binds(Count)
def count(*row: ColumnLike, where: Condition = None) -> Bound:
    """Count the rows of the window: SQL's COUNT(*), or, with columns, the rows without a null in any of them.

    Result: an int, 0 for an empty window.

    >>> import sash
    >>> window = sash.Window(3, sash.count("x"))
    >>> [window.push({"x": x}) for x in (1, None, 6)]
    [1, 1, 2]
    """
    return Count()(*row, where=where)


@binds(Min)
def min(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Minimum: the least value of column `x` in the window, the first of equal ones.

    Nulls are skipped; a window without values gives null. With a NaN in the window, the result is NaN. Result: the
    type of `x`, which may be anything that can be ordered.

    >>> import sash
    >>> window = sash.Window(2, sash.min("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 6)]
    [3, 1, 1]
    """
    return Min()(x, where=where)


@binds(Max)
def max(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Maximum: the greatest value of column `x` in the window, the first of equal ones.

    Nulls are skipped; a window without values gives null. With a NaN in the window, the result is NaN. Result: the
    type of `x`, which may be anything that can be ordered.

    >>> import sash
    >>> window = sash.Window(2, sash.max("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 2)]
    [3, 3, 2]
    """
    return Max()(x, where=where)


@binds(ArgMin)
def arg_min(value: ColumnLike, payload: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Argmin (MIN_BY): column `payload` of the row with the least `value`, the first of equal ones.

    Rows with a null `value` are skipped, a null `payload` is kept; a window without values gives null. If a
    `value` is NaN, the first such row is chosen. Result: the type of `payload`.

    >>> import sash
    >>> window = sash.Window(2, sash.arg_min("price", "trader"))
    >>> [window.push({"price": p, "trader": t}) for p, t in ((3, "ada"), (1, "bob"), (2, "eve"))]
    ['ada', 'bob', 'bob']
    """
    return ArgMin()(value, payload, where=where)


@binds(ArgMax)
def arg_max(value: ColumnLike, payload: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Argmax (MAX_BY): column `payload` of the row with the greatest `value`, the first of equal ones.

    Rows with a null `value` are skipped, a null `payload` is kept; a window without values gives null. If a
    `value` is NaN, the first such row is chosen. Result: the type of `payload`.

    >>> import sash
    >>> window = sash.Window(2, sash.arg_max("price", "trader"))
    >>> [window.push({"price": p, "trader": t}) for p, t in ((3, "ada"), (1, "bob"), (2, "eve"))]
    ['ada', 'ada', 'eve']
    """
    return ArgMax()(value, payload, where=where)


@binds(MinCount)
def min_count(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Count how often the minimum of column `x` occurs in the window; if there are NaNs, their number.

    Nulls are skipped; a window without values gives null. Result: an int.

    >>> import sash
    >>> window = sash.Window(3, sash.min_count("x"))
    >>> [window.push({"x": x}) for x in (1, 3, 1)]
    [1, 1, 2]
    """
    return MinCount()(x, where=where)


@binds(MaxCount)
def max_count(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Count how often the maximum of column `x` occurs in the window; if there are NaNs, their number.

    Nulls are skipped; a window without values gives null. Result: an int.

    >>> import sash
    >>> window = sash.Window(3, sash.max_count("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 3)]
    [1, 1, 2]
    """
    return MaxCount()(x, where=where)


@binds(First)
def first(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """First value (FIRST_VALUE): the oldest value of column `x` in the window that is not null.

    A window without values gives null. Result: the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.first("x"))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    ['a', 'a', 'b']
    """
    return First()(x, where=where)


@binds(Last)
def last(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Last value (LAST_VALUE): the newest value of column `x` in the window that is not null.

    A window without values gives null. Result: the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.last("x"))
    >>> [window.push({"x": x}) for x in ("a", None, "c")]
    ['a', 'a', 'c']
    """
    return Last()(x, where=where)


@binds(Nth)
def nth(x: ColumnLike | None = None, /, *, n: int, where: Condition = None) -> Bound:
    """N-th value (NTH_VALUE) of column `x` in the window, without nulls.

    A window with fewer values gives null. Result: the type of `x`.

    n: the position, counted from the oldest value (1, 2, …) or from the newest (-1, -2, …). The state holds |n| values.

    >>> import sash
    >>> window = sash.Window(3, sash.nth("x", n=2))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    [None, 'b', 'b']

    Raises TypeError if n is not an integer, ValueError if it is 0.
    """
    return Nth(n)(x, where=where)


@binds(Collect)
def collect(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Collect the values of column `x` in the window into a list, oldest first: ARRAY_AGG, COLLECT_LIST.

    Nulls are left out, NaN is a value; a window without values gives null. Result: a list of the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.collect("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 2)]
    [[3], [3, 1], [1, 2]]
    """
    return Collect()(x, where=where)


@binds(CollectDistinct)
def collect_distinct(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Collect the distinct values of column `x` in the window, in the order of their first appearance: COLLECT_SET.

    Nulls are left out, NaNs are one value; a window without values gives null. Result: a list of the type of `x`.

    >>> import sash
    >>> window = sash.Window(3, sash.collect_distinct("x"))
    >>> window.push({"x": "b"}), window.push({"x": "a"}), window.push({"x": "b"})
    (['b'], ['b', 'a'], ['b', 'a'])
    """
    return CollectDistinct()(x, where=where)


@binds(Concat)
def concat(x: ColumnLike | None = None, /, *, separator: str = "", where: Condition = None) -> Bound:
    """Concatenate the strings of column `x` in the window, oldest first: STRING_AGG, LISTAGG.

    Nulls are skipped, empty strings are not; a window without values gives null. Result: a string.

    separator: the text between two strings.

    >>> import sash
    >>> window = sash.Window(2, sash.concat("x", separator="-"))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    ['a', 'a-b', 'b-c']

    Raises TypeError if the separator is not a string.
    """
    return Concat(separator)(x, where=where)


@binds(logic.Any)
def any(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Logical or (BOOL_OR): is any value of the boolean column `x` in the window true?

    Nulls are skipped; a window without values gives null. Result: a boolean.

    >>> import sash
    >>> window = sash.Window(2, sash.any("x"))
    >>> [window.push({"x": x}) for x in (True, False, False)]
    [True, True, False]
    """
    return logic.Any()(x, where=where)


@binds(All)
def all(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Logical and (BOOL_AND, EVERY): are all values of the boolean column `x` in the window true?

    Nulls are skipped; a window without values gives null. Result: a boolean.

    >>> import sash
    >>> window = sash.Window(2, sash.all("x"))
    >>> [window.push({"x": x}) for x in (True, False, True)]
    [True, False, False]
    """
    return All()(x, where=where)


@binds(M4)
def m4(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """M4 downsampling: first, minimum, maximum and last of column `x`, enough to draw a line plot's pixel column.

    Nulls are skipped; a window without values gives null. A NaN is both minimum and maximum. Result: a struct of four
    values of the type of `x`, in a loop a tuple.

    >>> import sash
    >>> window = sash.Window(4, sash.m4("x"))
    >>> [window.push({"x": x}) for x in (3, 9, 1, 5)][-1]
    (3, 1, 9, 5)
    """
    return M4()(x, where=where)


@binds(LongestRun)
def longest_run(value: ColumnLike, at: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Longest strictly increasing run of consecutive values: its start and end in column `at`, interval and count.

    A row with a null in either column is skipped; a window without rows gives null. Of equally long runs the first
    counts; a NaN is a run of its own. Result: a struct (start, end, interval, count), in a loop a tuple.

    >>> import sash
    >>> window = sash.Window(4, sash.longest_run("x", "t"))
    >>> [window.push({"x": x, "t": t}) for t, x in enumerate((5, 3, 4, 7))][-1]
    (1, 3, 2, 3)

    The query raises OverflowError if `at` is of integers and the interval exceeds 64 bits.
    """
    return LongestRun()(value, at, where=where)


# --- Functions numeric ---


@binds(Sum)
def sum(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Sum of column `x` in the window: the moving total.

    Nulls are skipped; a window without values gives null. Result: an int for ints and booleans, else a float.

    >>> import sash
    >>> window = sash.Window(2, sash.sum("x"))
    >>> [window.push({"x": x}) for x in (1, 2, 6)]
    [1, 3, 8]

    The query raises OverflowError if a sum of ints exceeds 64 bits.
    """
    return Sum()(x, where=where)


@binds(Product)
def product(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Product of the values of column `x` in the window, as for compounded growth.

    Nulls are skipped; a window without values gives null. Intermediate products neither overflow nor underflow.
    Result: an int for ints and booleans, else a float; an infinity and a zero give NaN.

    >>> import sash
    >>> window = sash.Window(2, sash.product("x"))
    >>> [window.push({"x": x}) for x in (3, 5, 2)]
    [3, 15, 10]

    The query raises OverflowError if a product of ints exceeds 64 bits.
    """
    return Product()(x, where=where)


@binds(Mean)
def mean(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Mean of column `x` in the window: the moving average (AVG).

    Nulls are skipped; a window without values gives null. Result: a float, also where the sum exceeds the range of
    floats.

    >>> import sash
    >>> window = sash.Window(3, sash.mean("x"))
    >>> [window.push({"x": x}) for x in (1, 2, 6)]
    [1.0, 1.5, 3.0]
    """
    return Mean()(x, where=where)


@binds(GeometricMean)
def geometric_mean(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Geometric mean of column `x` in the window: the n-th root of the product of n values.

    Nulls are skipped; a window without values gives null. Result: a float; NaN if a value is negative or NaN, 0.0 if
    one is zero, NaN if one is zero and one infinite.

    >>> import sash
    >>> window = sash.Window(2, sash.geometric_mean("x"))
    >>> [window.push({"x": x}) for x in (2, 8)]
    [2.0, 4.0]
    """
    return GeometricMean()(x, where=where)


@binds(Range)
def range(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Range of column `x` in the window: maximum minus minimum.

    Nulls are skipped; a window without values gives null. Result: an int for ints and booleans, else a float; NaN if
    a value is NaN.

    >>> import sash
    >>> window = sash.Window(2, sash.range("x"))
    >>> [window.push({"x": x}) for x in (3, 5, 9)]
    [0, 2, 4]

    The query raises OverflowError if the range of ints exceeds 64 bits.
    """
    return Range()(x, where=where)


@binds(BitAnd)
def bit_and(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Bitwise and (BIT_AND) of the integers of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int, unsigned for columns of uint64.

    >>> import sash
    >>> window = sash.Window(2, sash.bit_and("x"))
    >>> [window.push({"x": x}) for x in (0b110, 0b011)]
    [6, 2]
    """
    return BitAnd()(x, where=where)


@binds(BitOr)
def bit_or(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Bitwise or (BIT_OR) of the integers of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int, unsigned for columns of uint64.

    >>> import sash
    >>> window = sash.Window(2, sash.bit_or("x"))
    >>> [window.push({"x": x}) for x in (0b110, 0b011)]
    [6, 7]
    """
    return BitOr()(x, where=where)


@binds(BitXor)
def bit_xor(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Bitwise exclusive or (BIT_XOR) of the integers of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int, unsigned for columns of uint64.

    >>> import sash
    >>> window = sash.Window(2, sash.bit_xor("x"))
    >>> [window.push({"x": x}) for x in (0b110, 0b011)]
    [6, 5]
    """
    return BitXor()(x, where=where)


@binds(SumOfSquares)
def sum_of_squares(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """Sum of the squares of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int for ints and booleans, else a float.

    >>> import sash
    >>> window = sash.Window(2, sash.sum_of_squares("x"))
    >>> [window.push({"x": x}) for x in (3, 4)]
    [9, 25]

    The query raises OverflowError if the result for ints exceeds 64 bits.
    """
    return SumOfSquares()(x, where=where)


@binds(Var)
def var(x: ColumnLike | None = None, /, *, ddof: int = 1, where: Condition = None) -> Bound:
    """Variance of column `x` in the window: VAR_SAMP, or VAR_POP with ddof=0.

    Nulls are skipped; null for n <= ddof. Result: a float.

    ddof: delta degrees of freedom: the sum of squares is divided by n - ddof.

    >>> import sash
    >>> window = sash.Window(2, sash.var("x"))
    >>> [window.push({"x": x}) for x in (1, 3)]
    [None, 2.0]

    Raises TypeError or ValueError if ddof is not an integer of at least 0.
    """
    return Var(ddof)(x, where=where)


@binds(Std)
def std(x: ColumnLike | None = None, /, *, ddof: int = 1, where: Condition = None) -> Bound:
    """Standard deviation of column `x` in the window: STDDEV_SAMP, or STDDEV_POP with ddof=0.

    Nulls are skipped; null for n <= ddof. Result: a float.

    ddof: delta degrees of freedom: the sum of squares is divided by n - ddof.

    >>> import sash
    >>> window = sash.Window(2, sash.std("x", ddof=0))
    >>> [window.push({"x": x}) for x in (1, 3)]
    [0.0, 1.0]

    Raises TypeError or ValueError if ddof is not an integer of at least 0.
    """
    return Std(ddof)(x, where=where)


@binds(Skewness)
def skewness(x: ColumnLike | None = None, /, *, bias: bool = True, where: Condition = None) -> Bound:
    """Skewness of column `x` in the window: the third central moment over the second to the power 3/2.

    Nulls are skipped; null if all values are equal, and, with bias=False, below 3 values. Result: a float.

    bias: True for the skewness of the population, as in Spark and polars; False to adjust it for a sample, as in
        pandas.

    >>> import sash
    >>> window = sash.Window(3, sash.skewness("x"))
    >>> [window.push({"x": x}) for x in (1, 2, 3)]
    [None, 0.0, 0.0]

    Raises TypeError if bias is not a boolean.
    """
    return Skewness(bias)(x, where=where)


@binds(Kurtosis)
def kurtosis(x: ColumnLike | None = None, /, *, bias: bool = True, where: Condition = None) -> Bound:
    """Excess kurtosis of column `x` in the window: the fourth central moment over the square of the second, minus 3.

    Nulls are skipped; null if all values are equal, and, with bias=False, below 4 values. Result: a float.

    bias: True for the kurtosis of the population, as in Spark and polars; False to adjust it for a sample, as in
        pandas.

    >>> import sash
    >>> window = sash.Window(2, sash.kurtosis("x"))
    >>> [window.push({"x": x}) for x in (0, 1)]
    [None, -2.0]

    Raises TypeError if bias is not a boolean.
    """
    return Kurtosis(bias)(x, where=where)


@binds(Covariance)
def covariance(x: ColumnLike, y: ColumnLike, /, *, ddof: int = 1, where: Condition = None) -> Bound:
    """Covariance of columns `x` and `y` in the window: COVAR_SAMP, or COVAR_POP with ddof=0.

    Rows with a null in either column are skipped; null for n <= ddof. Result: a float.

    ddof: delta degrees of freedom: the sum of products is divided by n - ddof.

    >>> import sash
    >>> window = sash.Window(2, sash.covariance("x", "y"))
    >>> [window.push({"x": x, "y": y}) for x, y in ((1, 10), (3, 20))]
    [None, 10.0]

    Raises TypeError or ValueError if ddof is not an integer of at least 0.
    """
    return Covariance(ddof)(x, y, where=where)


@binds(Correlation)
def correlation(x: ColumnLike, y: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Pearson correlation (CORR) of columns `x` and `y` in the window, from -1.0 to 1.0.

    Rows with a null in either column are skipped; null where `x` or `y` does not vary. Result: a float.

    >>> import sash
    >>> window = sash.Window(2, sash.correlation("x", "y"))
    >>> [window.push({"x": x, "y": y}) for x, y in ((1, 10), (3, 20))]
    [None, 1.0]
    """
    return Correlation()(x, y, where=where)


@binds(Slope)
def slope(x: ColumnLike, y: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Slope of the linear regression (least squares) of column `y` on column `x` in the window.

    Rows with a null in either column are skipped; null where `x` does not vary. Result: a float.

    >>> import sash
    >>> window = sash.Window(2, sash.slope("x", "y"))
    >>> [window.push({"x": x, "y": y}) for x, y in ((1, 10), (3, 20))]
    [None, 5.0]
    """
    return Slope()(x, y, where=where)


@binds(Intercept)
def intercept(x: ColumnLike, y: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Intercept of the linear regression (least squares) of column `y` on column `x` in the window.

    Rows with a null in either column are skipped; null where `x` does not vary. Result: a float.

    >>> import sash
    >>> window = sash.Window(2, sash.intercept("x", "y"))
    >>> [window.push({"x": x, "y": y}) for x, y in ((1, 10), (3, 20))]
    [None, 5.0]
    """
    return Intercept()(x, y, where=where)


# --- Functions order ---


@binds(Median)
def median(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
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
def quantile(
    x: ColumnLike | None = None, /, *, q: float, interpolation: Interpolation = "linear", where: Condition = None
) -> Bound:
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
def rank(
    x: ColumnLike | None = None, /, *, method: RankMethod = "average", ascending: bool = True, where: Condition = None
) -> Bound:
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
    x: ColumnLike | None = None, /, *, method: RankMethod = "average", ascending: bool = True, where: Condition = None
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
def mode(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
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
def count_distinct(x: ColumnLike | None = None, /, *, where: Condition = None) -> Bound:
    """COUNT(DISTINCT x): the number of different values of column `x` in the window, exactly.

    Nulls are skipped, NaNs are one value. Result: an int, 0 for a window without values.

    >>> import sash
    >>> window = sash.Window(3, sash.count_distinct("x"))
    >>> [window.push({"x": x}) for x in ("a", "b", "a", None)]
    [1, 2, 2, 2]
    """
    return CountDistinct()(x, where=where)


# --- Functions sketches ---


@binds(ApproxDistinct)
def approx_distinct(x: ColumnLike | None = None, /, *, lg_k: int = 12, where: Condition = None) -> Bound:
    """Approximate COUNT(DISTINCT x) of the window: a HyperLogLog sketch.

    Nulls are skipped. Result: an int, 0 for an empty window.

    lg_k: the sketch has 2**lg_k registers of a byte, and a standard error of about 1.04 / sqrt(2**lg_k), 1.6% by
        default.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.approx_distinct("x"))
    >>> [window.push({"x": x}) for x in ("a", "b", "a")]
    [1, 2, 2]

    Raises TypeError or ValueError if lg_k is not an integer in 4..21; ImportError without datasketches.
    """
    return ApproxDistinct(lg_k)(x, where=where)


@binds(ApproxQuantile)
def approx_quantile(
    x: ColumnLike | None = None, /, *, q: float | tuple[float, ...] = 0.5, k: int = 200, where: Condition = None
) -> Bound:
    """Approximate quantile of column `x` in the window: median, percentiles; a KLL sketch.

    Nulls are skipped; a window without values gives null; a NaN makes every quantile NaN. Result: a float, which is a
    value of the window, or a list of floats (in a loop a tuple).

    q: the quantile, in 0..1, or a tuple of several.
    k: the size of the sketch: with 200 the rank is within 1.3% in 99 of 100 cases, and exact up to about k values.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.approx_quantile("x", q=(0.5, 1.0)))
    >>> [window.push({"x": x}) for x in (7, 1, 3)][-1]
    (3.0, 7.0)

    Raises TypeError or ValueError if a q is not in 0..1 or k not an integer in 8..65535; ImportError without
    datasketches.
    """
    return ApproxQuantile(q, k)(x, where=where)


@binds(FrequentItems)
def frequent_items(
    x: ColumnLike | None = None, /, *, k: int = 10, lg_max_k: int = 10, where: Condition = None
) -> Bound:
    """Most frequent values (top k, heavy hitters) of column `x` in the window, with estimated counts.

    A Misra-Gries sketch. Nulls are skipped. Result: a list of structs (item, count), in a loop of tuples, most frequent
    first.

    k: the number of values in the result.
    lg_max_k: the sketch holds at most 0.75 * 2**lg_max_k values, and is exact up to as many distinct ones. Beyond, a
        count is too high by at most 3.5 / 2**lg_max_k of all counted.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.frequent_items("word", k=1))
    >>> [window.push({"word": word}) for word in ("to", "be", "to")][-1]
    [('to', 2)]

    Raises TypeError or ValueError if k is not a positive integer or lg_max_k not in 3..26; ImportError without
    datasketches.
    """
    return FrequentItems(k, lg_max_k)(x, where=where)


@binds(CountMin)
def count_min(
    x: ColumnLike | None = None,
    /,
    *,
    items: tuple[Any, ...] = (),
    buckets: int = 1024,
    hashes: int = 5,
    where: Condition = None,
) -> Bound:
    """Approximate how often given values occur in column `x` of the window: a count-min sketch, never too low.

    Nulls are skipped. Result: a list of ints, one for each item, in a loop a tuple.

    items: the values to count; in a loop they may be left out, and the result then has the count of any value:
        `result["a"]`.
    buckets, hashes: the size of the sketch: a count is too high by at most e / buckets of all counted (0.27%) in all
        but e**-hashes of cases (0.7%).

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.count_min("x", items=("a", "b")))
    >>> [window.push({"x": x}) for x in ("b", "a", "b")][-1]
    (1, 2)

    Raises TypeError or ValueError if `items` is not a tuple or list of hashable values, `buckets` not in 3..2**26 or
    `hashes` not in 1..255; ImportError without datasketches.
    """
    return CountMin(items, buckets, hashes)(x, where=where)


@binds(Bloom)
def bloom(x: ColumnLike | None = None, /, *, bits: int = 2**14, hashes: int = 7, where: Condition = None) -> Bound:
    """Bloom filter of the values of column `x` in the window: approximate membership, without false negatives.

    Nulls are skipped; a window without values gives null. Result: binary, which `BloomFilter.from_bytes` of
    `sash.monoids.sketches` reads; in a loop a `BloomFilter`, which supports `in`.

    bits, hashes: the size of the filter, and the number of bits set for each value. With the defaults (2 KiB) one "yes"
        in a hundred is wrong at about 1,700 distinct values; use ten bits per value.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.bloom("x"))
    >>> "a" in window.push({"x": "a"})
    True

    Raises TypeError or ValueError if `bits` is not a multiple of 64 in 64..2**32, or `hashes` not in 1..255.
    """
    return Bloom(bits, hashes)(x, where=where)


# --- Functions weighted ---


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
def ewm_mean(
    x: ColumnLike | None = None,
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
def ewm_var(
    x: ColumnLike | None = None,
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
def ewm_std(
    x: ColumnLike | None = None,
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
def lag(x: ColumnLike | None = None, /, *, n: int = 1, where: Condition = None) -> Bound:
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
def delta(x: ColumnLike | None = None, /, *, n: int = 1, where: Condition = None) -> Bound:
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
def pct_change(x: ColumnLike | None = None, /, *, n: int = 1, where: Condition = None) -> Bound:
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


# --- Functions ---

__all__ = [
    "all", "any", "approx_distinct", "approx_quantile", "arg_max", "arg_min", "bit_and", "bit_or", "bit_xor", "bloom",
    "collect", "collect_distinct", "concat", "correlation", "count", "count_distinct", "count_min", "covariance",
    "delta", "ewm_mean", "ewm_std", "ewm_var", "first", "frequent_items", "geometric_mean", "intercept", "kurtosis",
    "lag", "last", "longest_run", "m4", "max", "max_count", "mean", "median", "min", "min_count", "mode", "nth",
    "pct_change", "percent_rank", "product", "quantile", "range", "rank", "skewness", "slope", "std", "sum",
    "sum_of_squares", "var", "weighted_mean",
]  # fmt: skip
