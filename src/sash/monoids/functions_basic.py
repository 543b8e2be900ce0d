"""Functions that bind aggregates of values of any type, or of values that can be ordered.

This module shadows built-ins (`max`, `any`…) and uses none of them.
"""

from __future__ import annotations

from sash.monoids.algebra import Bound
from sash.monoids.binding import binds
from sash.monoids.collect import Collect, CollectDistinct, Concat
from sash.monoids.first_last import M4, First, Last, Nth
from sash.monoids.logic import All, Any
from sash.monoids.longest_run import LongestRun
from sash.monoids.order import ArgMax, ArgMin, Max, MaxCount, Min, MinCount
from sash.monoids.sums import Count


@binds(Count)
def count(*row: str) -> Bound:
    """Count the rows of the window: SQL's COUNT(*), or, with columns, the rows without a null in any of them.

    Result: an int, 0 for an empty window.

    >>> import sash
    >>> window = sash.Window(3, sash.count("x"))
    >>> [window.push({"x": x}) for x in (1, None, 6)]
    [1, 1, 2]
    """
    return Count()(*row)


@binds(Min)
def min(x: str, /) -> Bound:
    """Minimum: the least value of column `x` in the window, the first of equal ones.

    Nulls are skipped; a window without values gives null. A NaN wins over every number. Result: the type of `x`, which
    may be anything that can be ordered.

    >>> import sash
    >>> window = sash.Window(2, sash.min("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 6)]
    [3, 1, 1]
    """
    return Min()(x)


@binds(Max)
def max(x: str, /) -> Bound:
    """Maximum: the greatest value of column `x` in the window, the first of equal ones.

    Nulls are skipped; a window without values gives null. A NaN wins over every number. Result: the type of `x`, which
    may be anything that can be ordered.

    >>> import sash
    >>> window = sash.Window(2, sash.max("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 2)]
    [3, 3, 2]
    """
    return Max()(x)


@binds(ArgMin)
def arg_min(value: str, payload: str, /) -> Bound:
    """Argmin (MIN_BY): column `payload` of the row with the least `value`, the first of equal ones.

    Rows with a null `value` are skipped, a null `payload` is kept; a window without values gives null. The first row
    whose `value` is NaN wins. Result: the type of `payload`.

    >>> import sash
    >>> window = sash.Window(2, sash.arg_min("price", "trader"))
    >>> [window.push({"price": p, "trader": t}) for p, t in ((3, "ada"), (1, "bob"), (2, "eve"))]
    ['ada', 'bob', 'bob']
    """
    return ArgMin()(value, payload)


@binds(ArgMax)
def arg_max(value: str, payload: str, /) -> Bound:
    """Argmax (MAX_BY): column `payload` of the row with the greatest `value`, the first of equal ones.

    Rows with a null `value` are skipped, a null `payload` is kept; a window without values gives null. The first row
    whose `value` is NaN wins. Result: the type of `payload`.

    >>> import sash
    >>> window = sash.Window(2, sash.arg_max("price", "trader"))
    >>> [window.push({"price": p, "trader": t}) for p, t in ((3, "ada"), (1, "bob"), (2, "eve"))]
    ['ada', 'ada', 'eve']
    """
    return ArgMax()(value, payload)


@binds(MinCount)
def min_count(x: str, /) -> Bound:
    """Count how often the minimum of column `x` occurs in the window; where there are NaNs, how many.

    Nulls are skipped; a window without values gives null. Result: an int.

    >>> import sash
    >>> window = sash.Window(3, sash.min_count("x"))
    >>> [window.push({"x": x}) for x in (1, 3, 1)]
    [1, 1, 2]
    """
    return MinCount()(x)


@binds(MaxCount)
def max_count(x: str, /) -> Bound:
    """Count how often the maximum of column `x` occurs in the window; where there are NaNs, how many.

    Nulls are skipped; a window without values gives null. Result: an int.

    >>> import sash
    >>> window = sash.Window(3, sash.max_count("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 3)]
    [1, 1, 2]
    """
    return MaxCount()(x)


@binds(First)
def first(x: str, /) -> Bound:
    """First value (FIRST_VALUE): the oldest value of column `x` in the window that is not null.

    A window without values gives null. Result: the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.first("x"))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    ['a', 'a', 'b']
    """
    return First()(x)


@binds(Last)
def last(x: str, /) -> Bound:
    """Last value (LAST_VALUE): the newest value of column `x` in the window that is not null.

    A window without values gives null. Result: the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.last("x"))
    >>> [window.push({"x": x}) for x in ("a", None, "c")]
    ['a', 'a', 'c']
    """
    return Last()(x)


@binds(Nth)
def nth(x: str, /, *, n: int) -> Bound:
    """N-th value (NTH_VALUE) of column `x` that is not null: from the oldest for n ≥ 1, from the newest for n ≤ -1.

    A window with fewer values gives null. Result: the type of `x`. The state holds |n| values, so keep n small.

    >>> import sash
    >>> window = sash.Window(3, sash.nth("x", n=2))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    [None, 'b', 'b']

    Raises TypeError if n is not an integer, ValueError if it is 0.
    """
    return Nth(n)(x)


@binds(Collect)
def collect(x: str, /) -> Bound:
    """Collect the values of column `x` in the window into a list, oldest first: ARRAY_AGG, COLLECT_LIST.

    Nulls are left out, NaN is a value; a window without values gives null. Result: a list of the type of `x`.

    >>> import sash
    >>> window = sash.Window(2, sash.collect("x"))
    >>> [window.push({"x": x}) for x in (3, 1, 2)]
    [[3], [3, 1], [1, 2]]
    """
    return Collect()(x)


@binds(CollectDistinct)
def collect_distinct(x: str, /) -> Bound:
    """Collect the distinct values of column `x` in the window, in the order of their first appearance: COLLECT_SET.

    Nulls are left out, NaNs are one value; a window without values gives null. Result: a list of the type of `x`.

    >>> import sash
    >>> window = sash.Window(3, sash.collect_distinct("x"))
    >>> window.push({"x": "b"}), window.push({"x": "a"}), window.push({"x": "b"})
    (['b'], ['b', 'a'], ['b', 'a'])
    """
    return CollectDistinct()(x)


@binds(Concat)
def concat(x: str, /, *, separator: str = "") -> Bound:
    """Concatenate the strings of column `x` in the window in order, with `separator` between: STRING_AGG, LISTAGG.

    Nulls are skipped, empty strings are not; a window without values gives null. Result: a string.

    >>> import sash
    >>> window = sash.Window(2, sash.concat("x", separator="-"))
    >>> [window.push({"x": x}) for x in ("a", "b", "c")]
    ['a', 'a-b', 'b-c']

    Raises TypeError if the separator is not a string.
    """
    return Concat(separator)(x)


@binds(Any)
def any(x: str, /) -> Bound:
    """Logical or (BOOL_OR): is any value of the boolean column `x` in the window true?

    Nulls are skipped; a window without values gives null. Result: a boolean.

    >>> import sash
    >>> window = sash.Window(2, sash.any("x"))
    >>> [window.push({"x": x}) for x in (True, False, False)]
    [True, True, False]
    """
    return Any()(x)


@binds(All)
def all(x: str, /) -> Bound:
    """Logical and (BOOL_AND, EVERY): are all values of the boolean column `x` in the window true?

    Nulls are skipped; a window without values gives null. Result: a boolean.

    >>> import sash
    >>> window = sash.Window(2, sash.all("x"))
    >>> [window.push({"x": x}) for x in (True, False, True)]
    [True, False, False]
    """
    return All()(x)


@binds(M4)
def m4(x: str, /) -> Bound:
    """M4 downsampling: first, minimum, maximum and last of column `x`, enough to draw a line plot's pixel column.

    Nulls are skipped; a window without values gives null. A NaN is both minimum and maximum. Result: a struct of four
    values of the type of `x`, in a loop a tuple.

    >>> import sash
    >>> window = sash.Window(4, sash.m4("x"))
    >>> [window.push({"x": x}) for x in (3, 9, 1, 5)][-1]
    (3, 1, 9, 5)
    """
    return M4()(x)


@binds(LongestRun)
def longest_run(value: str, at: str, /) -> Bound:
    """Longest strictly increasing run of consecutive values: its start and end in column `at`, interval and count.

    A row with a null in either column is skipped; a window without rows gives null. Of equally long runs the first
    counts; a NaN is a run of its own. Result: a struct (start, end, interval, count), in a loop a tuple.

    >>> import sash
    >>> window = sash.Window(4, sash.longest_run("x", "t"))
    >>> [window.push({"x": x, "t": t}) for t, x in enumerate((5, 3, 4, 7))][-1]
    (1, 3, 2, 3)

    The query raises OverflowError if `at` is of integers and the interval exceeds 64 bits.
    """
    return LongestRun()(value, at)
