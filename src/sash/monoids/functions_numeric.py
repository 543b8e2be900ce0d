"""Functions that bind aggregates of numbers: sums, moments, regression, bits.

This module shadows built-ins (`sum`, `range`) and uses none of them.
"""

from __future__ import annotations

from sash.monoids.algebra import Bound, ColumnLike, Condition
from sash.monoids.binding import binds
from sash.monoids.logic import BitAnd, BitOr, BitXor
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.monoids.order import Range
from sash.monoids.product import GeometricMean, Product
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope
from sash.monoids.sums import Mean, Sum, SumOfSquares


@binds(Sum)
def sum(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def product(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def mean(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def geometric_mean(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def range(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def bit_and(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Bitwise and (BIT_AND) of the integers of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int, unsigned for columns of uint64.

    >>> import sash
    >>> window = sash.Window(2, sash.bit_and("x"))
    >>> [window.push({"x": x}) for x in (0b110, 0b011)]
    [6, 2]
    """
    return BitAnd()(x, where=where)


@binds(BitOr)
def bit_or(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Bitwise or (BIT_OR) of the integers of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int, unsigned for columns of uint64.

    >>> import sash
    >>> window = sash.Window(2, sash.bit_or("x"))
    >>> [window.push({"x": x}) for x in (0b110, 0b011)]
    [6, 7]
    """
    return BitOr()(x, where=where)


@binds(BitXor)
def bit_xor(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Bitwise exclusive or (BIT_XOR) of the integers of column `x` in the window.

    Nulls are skipped; a window without values gives null. Result: an int, unsigned for columns of uint64.

    >>> import sash
    >>> window = sash.Window(2, sash.bit_xor("x"))
    >>> [window.push({"x": x}) for x in (0b110, 0b011)]
    [6, 5]
    """
    return BitXor()(x, where=where)


@binds(SumOfSquares)
def sum_of_squares(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def var(x: ColumnLike, /, *, ddof: int = 1, where: Condition = None) -> Bound:
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
def std(x: ColumnLike, /, *, ddof: int = 1, where: Condition = None) -> Bound:
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
def skewness(x: ColumnLike, /, *, bias: bool = True, where: Condition = None) -> Bound:
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
def kurtosis(x: ColumnLike, /, *, bias: bool = True, where: Condition = None) -> Bound:
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
