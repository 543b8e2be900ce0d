"""The column kernels of order statistics, and their execution: threads compute ranges of rows.

              keys          narrow windows          wide windows
    median    float_keys    sorted arrays           sets of ranks (`quantiles`)
    quantile
    rank                    compared one by one     sets of ranks (`ranks`)
    mode                    a tournament of counts (`ranks`)
    distinct                distinct_counts: a table of counts, or of the last row of each key

Results are exact, so they do not depend on where ranges of rows begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sash.kernels.column import column_kernels, distinct_counts, quantiles, ranks
from sash.kernels.column.column_kernels import CountBounds, RangeBounds, RowThreads, coded, index_type
from sash.kernels.jit.word_operations import ARRAYS
from sash.kernels.loops.array_types import Numbers
from sash.monoids.algebra import Monoid
from sash.monoids.rank_statistics import (
    BETWEEN,
    INTERPOLATIONS,
    METHODS,
    CountDistinct,
    Median,
    Mode,
    PercentRank,
    Quantile,
    Rank,
)

_INDEXED = 1 << 16
"""A range of keys for which a table of counts is always used: it fits into the second-level cache."""

Scratch = Callable[[int, int], Any]
"""Creates the arrays that a kernel works in, for the longest window and the number of keys."""


@dataclass(frozen=True)
class RankKernel:
    """Kernels of an order statistic over windows of up to `narrow` keys, and over wider ones."""

    asked: Any
    """The parameters of the statistic, as the kernels take them."""
    result: str
    """The kind of a result: "same" as the column, "float" or "int"."""
    kernels: tuple[Any, Any]
    scratch: tuple[Scratch, Scratch]
    narrow: int = 0
    rows: tuple[Any, Any] = (None, None)
    """The kernels over Count windows; None: those over ranges are used."""
    least: int = 1
    """The least number of values in a window with a result."""

    def aggregate(self, threads: RowThreads, x: Numbers, given: CountBounds | RangeBounds, rows: int) -> Numbers:
        """The results; those of windows without values are undefined."""
        kinds: dict[str, Any] = {"same": x.dtype, "float": np.float64, "int": np.int64}
        out: Numbers = np.zeros(rows, kinds[self.result])
        if given.longest:
            self._fill(threads, keys_of(threads, x), x.dtype == np.float64, given, out)
        return out

    def _fill(
        self, threads: RowThreads, keys: Numbers, is_float: bool, given: CountBounds | RangeBounds, out: Numbers
    ) -> None:
        longest = int(given.longest)
        is_wide = int(longest > self.narrow)
        kernel, scratch = self.kernels[is_wide], self.scratch[is_wide]
        before: Any
        if isinstance(given, CountBounds) and self.rows[is_wide] is not None:
            kernel, before = self.rows[is_wide], (keys, given.size, given.edges)
        else:
            ranges = threads.as_ranges(given, len(out))
            before = keys, ranges.los, ranges.his
        after = (longest, (*self.asked, is_float), (out.view(np.float64), out.view(np.int64)))
        code = coded(kernel, (*before, 0, 0, *after, scratch(longest, len(keys))))

        def task(first: int, stop: int) -> None:
            code(*before, first, stop, *after, scratch(longest, len(keys)))

        share(threads, task, len(out), longest)


@dataclass(frozen=True)
class DistinctKernel:
    """The kernels of the number of distinct values."""

    result: str = "int"
    least: int = 0

    def aggregate(self, threads: RowThreads, x: Numbers, given: CountBounds | RangeBounds, rows: int) -> Numbers:
        """The results."""
        out = np.zeros(rows, np.int64)
        if not given.longest:
            return out
        keys, is_float = equal_keys(threads, x), x.dtype == np.float64
        least, greatest = (0, 2**64) if is_float else _key_range(threads, keys)
        if greatest - least < max(_INDEXED, 4 * given.longest):
            self._indexed(threads, keys, given, least, greatest - least + 1, out)
        else:
            self._hashed(threads, keys, given, out)
        return out

    def _indexed(
        self,
        threads: RowThreads,
        keys: Numbers,
        given: CountBounds | RangeBounds,
        least: int,
        length: int,
        out: Numbers,
    ) -> None:
        kernel, bounds = _by_bounds(given, distinct_counts.indexed_rows, distinct_counts.indexed_ranges)
        index = index_type(given.longest)
        code = coded(kernel, (keys, *bounds, 0, 0, least, np.empty(1, index), out))

        def task(first: int, stop: int) -> None:
            code(keys, *bounds, first, stop, least, np.zeros(length, index), out)

        share(threads, task, len(out), given.longest)

    def _hashed(self, threads: RowThreads, keys: Numbers, given: CountBounds | RangeBounds, out: Numbers) -> None:
        kernel, bounds = _by_bounds(given, distinct_counts.hashed_rows, distinct_counts.hashed_ranges)
        bits, index = table_bits(int(given.longest)), index_type(len(keys))

        def tables(first: int, stop: int) -> Any:
            if isinstance(given, CountBounds):
                length = stop - first + given.longest
            else:
                length = int(given.his[stop - 1] - given.los[first])
            return np.zeros(1 << bits, index), np.empty(length + 1, index)

        code = coded(kernel, (keys, *bounds, 0, 0, bits, tables(0, 1), out))

        def task(first: int, stop: int) -> None:
            code(keys, *bounds, first, stop, bits, tables(first, stop), out)

        share(threads, task, len(out), given.longest)


def _by_bounds(given: CountBounds | RangeBounds, rows: Any, ranges: Any) -> tuple[Any, Any]:
    """The kernel for bounds of this kind, and the bounds as its arguments."""
    if isinstance(given, CountBounds):
        return rows, (given.size, given.edges)
    return ranges, (given.los, given.his)


def rank_kernel_of(monoid: Monoid) -> RankKernel | DistinctKernel | None:
    """The kernels of an order statistic; None for other aggregates."""
    one = type(monoid)
    if one is CountDistinct:
        return DistinctKernel()
    if isinstance(monoid, Mode) and one is Mode:
        return RankKernel((), "same", (None, ranks.modes), (_no_scratch, _mode_scratch))
    if isinstance(monoid, Quantile | Median) and one in (Quantile, Median):
        result = "float" if INTERPOLATIONS[monoid.rule] in BETWEEN else "same"
        kernels = quantiles.narrow_quantiles, quantiles.wide_quantiles
        scratch = _arrays_scratch, _bucket_scratch
        by_rows = quantiles.narrow_quantile_rows, quantiles.wide_quantile_rows
        return RankKernel((monoid.q, monoid.rule), result, kernels, scratch, quantiles.NARROW, by_rows)
    if isinstance(monoid, Rank) and one in (Rank, PercentRank):
        method, is_percent = METHODS.index(monoid.method), one is PercentRank
        narrow = 0 if method == ranks.DENSE else ranks.NARROW
        result = "float" if is_percent or method == ranks.AVERAGE else "int"
        by_method = ranks.narrow_ranks, ranks.wide_ranks
        return RankKernel(
            (method, monoid.ascending, is_percent), result, by_method, (_no_scratch, _rank_scratch), narrow
        )
    return None


def keys_of(threads: RowThreads, x: Numbers) -> Numbers:
    """The keys of a column: 64-bit integers in the order of its values."""
    if x.dtype != np.float64:
        return x
    keys = np.empty(len(x), np.int64)
    threads.loop(ranks.float_keys, len(x), (x.view(np.int64),), (keys,))
    return keys


def equal_keys(threads: RowThreads, x: Numbers) -> Numbers:
    """Keys of a column that are equal if its values are: the bits of floats, unless there are -0.0 or NaN."""
    if x.dtype == np.float64 and not any(threads.loop(ranks.has_several_bits, len(x), (x.view(np.int64),), ())):
        return x.view(np.int64)
    return keys_of(threads, x)


def _key_range(threads: RowThreads, keys: Numbers) -> tuple[int, int]:
    found = threads.loop(distinct_counts.key_range, len(keys), (keys,), ())
    return min(int(low) for low, _ in found), max(int(high) for _, high in found)


def share(threads: RowThreads, task: Callable[[int, int], None], rows: int, longest: int) -> None:
    """Run a task for ranges of rows, each at least two windows long, because it also reads the window before it."""
    threads.run(task, rows, max(column_kernels.SHARE, 2 * longest))


def table_bits(longest: int) -> int:
    """The bits of the length of a hash table, so that the keys of a window fill at most a sixteenth of it.

    The keys of very long windows fill up to a quarter: there memory matters more than collisions.
    """
    return max(11, min(20, (16 * longest - 1).bit_length()), (4 * longest - 1).bit_length())


# ---- scratch ----


def _no_scratch(_longest: int, _keys: int) -> Any:
    return ()


def _arrays_scratch(longest: int, _keys: int) -> Any:
    """The sorted arrays, the keys that leave and enter them, the keys found in them, and the state of their ranges."""
    steps = quantiles.BATCH
    vectors = longest + 1, steps, steps, 3 * steps, 1, 1, 1, 1
    return tuple(_at_once(*((ARRAYS * length, np.int64) for length in vectors)))


def _at_once(*arrays: tuple[int, Any]) -> list[Numbers]:
    """Allocate arrays of these lengths and types at once: a large allocation gets large pages, with few TLB misses."""
    cuts = np.cumsum([0, *(-(-length * np.dtype(kind).itemsize // 64) * 64 for length, kind in arrays)])
    memory = np.empty(cuts[-1] + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :]  # vectors of 64 bytes within a cache line take half the time
    return [
        memory[cut : cut + length * np.dtype(kind).itemsize].view(kind)
        for cut, (length, kind) in zip(cuts, arrays, strict=False)
    ]


def _sorting(length: int, index: Any) -> list[tuple[int, Any]]:
    """The arrays in which a chunk is sorted: two of words, counts."""
    return [(length, np.uint64), (length, np.uint64), (ranks.counts_needed(), index)]


def _ranking(length: int, index: Any) -> list[tuple[int, Any]]:
    """The arrays in which a chunk is ranked: ranks, order, and those to sort in."""
    return [(length, index), (length, index), *_sorting(length, index)]


def _set_scratch(longest: int, keys: int) -> Any:
    length = ranks.chunk_length(longest, keys)
    index = index_type(length)
    of_set = (ranks.words_needed(length), np.uint64), (ranks.blocks_needed(length), index)
    ranked, order, *sorting, words, blocks = _at_once(*_ranking(length, index), *of_set)
    return ranked, order, words, blocks, tuple(sorting)


def _bucket_scratch(longest: int, keys: int) -> Any:
    length = quantiles.bucketed_length(longest, keys)
    places, count = quantiles.places_needed(length), quantiles.buckets_needed(length)
    index = index_type(places)
    of_set = (ranks.words_needed(places), np.uint64), (ranks.blocks_needed(places), index)
    of_buckets = (count + 1, index), (count, index), (quantiles.SAMPLE, np.float64), (length, np.int64)
    arrays = _at_once(
        (length, index), (places, index), *of_set, *_sorting(length, index), *of_buckets, (length, index), (6, np.int64)
    )
    return *arrays[:4], tuple(arrays[4:7]), tuple(arrays[7:])


def _rank_scratch(longest: int, keys: int) -> Any:
    length = ranks.chunk_length(longest, keys)
    index = index_type(length)
    return (*_set_scratch(longest, keys), np.empty(length, index), np.empty(length, index))


def _mode_scratch(longest: int, keys: int) -> Any:
    length = ranks.chunk_length(longest, keys)
    index = index_type(length)
    leaves = 1 << (length - 1).bit_length()
    own = (length, index), (leaves, index), (2 * leaves, index)
    ranked, order, *sorting, numbers, counts, tree = _at_once(*_ranking(length, index), *own)
    return ranked, order, numbers, counts, tree, tuple(sorting)
