"""Functions that bind aggregates of values of any type, or of values that can be ordered.

This module shadows built-ins (`max`, `any`…) and uses none of them.
"""

from __future__ import annotations

from sash.monoids.algebra import Bound, ColumnLike, Condition
from sash.monoids.binding import binds
from sash.monoids.collect import Collect, CollectDistinct, Concat
from sash.monoids.first_last import M4, First, Last, Nth
from sash.monoids.logic import All, Any
from sash.monoids.longest_run import LongestRun
from sash.monoids.order import ArgMax, ArgMin, Max, MaxCount, Min, MinCount
from sash.monoids.sums import Count


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
def min(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def max(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
def min_count(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Count how often the minimum of column `x` occurs in the window; if there are NaNs, their number.

    Nulls are skipped; a window without values gives null. Result: an int.

    >>> import sash
    >>> window = sash.Window(3, sash.min_count("x"))
    >>> [window.push({"x": x}) for x in (1, 3, 1)]
    [1, 1, 2]
    """
    return MinCount()(x, where=where)


@binds(MaxCount)
def max_count(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Count how often the maximum of column `x` occurs in the window; if there are NaNs, their number.

    Nulls are skipped; a window without values gives null. Result: an int.

    >>> import sash
    >>> window = sash.Window(3, sash.max_count("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 3)]
    [1, 1, 2]
    """
    return MaxCount()(x, where=where)


@binds(First)
def first(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """First value (FIRST_VALUE): the oldest value of column `x` in the window that is not null.

    A window without values gives null. Result: the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.first("x"))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    ['a', 'a', 'b']
    """
    return First()(x, where=where)


@binds(Last)
def last(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Last value (LAST_VALUE): the newest value of column `x` in the window that is not null.

    A window without values gives null. Result: the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.last("x"))
    >>> [window.push({"x": x}) for x in ("a", None, "c")]
    ['a', 'a', 'c']
    """
    return Last()(x, where=where)


@binds(Nth)
def nth(x: ColumnLike, /, *, n: int, where: Condition = None) -> Bound:
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
def collect(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Collect the values of column `x` in the window into a list, oldest first: ARRAY_AGG, COLLECT_LIST.

    Nulls are left out, NaN is a value; a window without values gives null. Result: a list of the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.collect("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 2)]
    [[3], [3, 1], [1, 2]]
    """
    return Collect()(x, where=where)


@binds(CollectDistinct)
def collect_distinct(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Collect the distinct values of column `x` in the window, in the order of their first appearance: COLLECT_SET.

    Nulls are left out, NaNs are one value; a window without values gives null. Result: a list of the type of `x`.

    >>> import sash
    >>> window = sash.Window(3, sash.collect_distinct("x"))
    >>> window.push({"x": "b"}), window.push({"x": "a"}), window.push({"x": "b"})
    (['b'], ['b', 'a'], ['b', 'a'])
    """
    return CollectDistinct()(x, where=where)


@binds(Concat)
def concat(x: ColumnLike, /, *, separator: str = "", where: Condition = None) -> Bound:
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


@binds(Any)
def any(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Logical or (BOOL_OR): is any value of the boolean column `x` in the window true?

    Nulls are skipped; a window without values gives null. Result: a boolean.

    >>> import sash
    >>> window = sash.Window(2, sash.any("x"))
    >>> [window.push({"x": x}) for x in (True, False, False)]
    [True, True, False]
    """
    return Any()(x, where=where)


@binds(All)
def all(x: ColumnLike, /, *, where: Condition = None) -> Bound:
    """Logical and (BOOL_AND, EVERY): are all values of the boolean column `x` in the window true?

    Nulls are skipped; a window without values gives null. Result: a boolean.

    >>> import sash
    >>> window = sash.Window(2, sash.all("x"))
    >>> [window.push({"x": x}) for x in (True, False, True)]
    [True, False, False]
    """
    return All()(x, where=where)


@binds(M4)
def m4(x: ColumnLike, /, *, where: Condition = None) -> Bound:
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
