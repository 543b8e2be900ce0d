"""Functions that bind sketches: approximate aggregates in little memory.

They serve windows with `every`, and Lifetime. All but `bloom` need the package datasketches.
"""

from __future__ import annotations

from typing import Any

from sash.monoids.algebra import Bound, ColumnLike, Condition
from sash.monoids.binding import binds
from sash.monoids.bloom import Bloom
from sash.monoids.count_min import CountMin
from sash.monoids.sketches import ApproxDistinct, ApproxQuantile, FrequentItems


@binds(ApproxDistinct)
def approx_distinct(x: ColumnLike, /, *, lg_k: int = 12, where: Condition = None) -> Bound:
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
    x: ColumnLike, /, *, q: float | tuple[float, ...] = 0.5, k: int = 200, where: Condition = None
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
def frequent_items(x: ColumnLike, /, *, k: int = 10, lg_max_k: int = 10, where: Condition = None) -> Bound:
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
    x: ColumnLike, /, *, items: tuple[Any, ...] = (), buckets: int = 1024, hashes: int = 5, where: Condition = None
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
def bloom(x: ColumnLike, /, *, bits: int = 2**14, hashes: int = 7, where: Condition = None) -> Bound:
    """Bloom filter of the values of column `x` in the window: approximate membership, without false negatives.

    Nulls are skipped; a window without values gives null. Result: binary, which `BloomFilter.from_bytes` of
    `sash.monoids.bloom` reads; in a loop a `BloomFilter`, which supports `in`.

    bits, hashes: the size of the filter, and the number of bits set for each value. With the defaults (2 KiB) one "yes"
        in a hundred is wrong at about 1,700 distinct values; use ten bits per value.

    >>> import sash
    >>> window = sash.Window(sash.Lifetime(), sash.bloom("x"))
    >>> "a" in window.push({"x": "a"})
    True

    Raises TypeError or ValueError if `bits` is not a multiple of 64 in 64..2**32, or `hashes` not in 1..255.
    """
    return Bloom(bits, hashes)(x, where=where)
