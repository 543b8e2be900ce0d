"""Order the rows of a table by key and time: the place of each row, and the first place of each key.

    rows      b5  a3  a∅  a1  b2           key and time; ∅: no time
    place      3   1  -1   0   2           a1 a3 b2 b5: by key, time, tie-breakers, arrival
    edges      0   2   4                   the first place of each key, and the number of rows

Keys are grouped by counting their rows; rows in order of time, such as logs, are not sorted. Places instead of an
order: reading rows in sequence and writing to one stream per key stays in the cache, in both directions; gathering by
an order misses the cache at every row.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.arrow_arrays import array
from sash.columns.input_encoding import numbers
from sash.columns.keys import decode, key_column, keys_of, ranks
from sash.kernels.column import group_rows as loops
from sash.kernels.column import group_rows as numpy_loops
from sash.kernels.column.column_kernels import Places, RowThreads, coded, gather, index_type
from sash.kernels.loops.array_types import NO_INTS, Flags, Numbers
from sash.plan.bound_query import BoundQuery


@dataclass
class RowOrder:
    """The order of rows by key and time; scatters values into it and gathers them from it."""

    threads: RowThreads
    rows: int
    """How many rows there are, with a time or without."""
    place: Places | None
    """By row: its place in the order, -1 without a time; None: the rows are in order."""
    edges: Places
    time: Numbers
    """By place: the time, if windows need it."""
    timed: Flags | None
    """By row: whether it has a time; None: all have one."""

    def __len__(self) -> int:
        return int(self.edges[-1])

    def scatter(self, values: Numbers) -> Numbers:
        """Values by row to values by place."""
        if self.place is None:
            return values
        return self.threads.put(values, self.place, np.empty(len(self), values.dtype))

    def gather(self, values: Numbers) -> Numbers:
        """Values by place to values by row; 0 for rows without a time."""
        if self.place is None:
            return values
        return self.threads.taken(values, self.place)

    def gather_into(self, values: Numbers, out: Numbers) -> None:
        """The same into a given array, by this thread alone."""
        if self.place is None:
            out[:] = values
        else:
            gather(values, self.place, out)

    def row(self, place: int) -> int:
        """The row at a place; the number of rows for the place after the last."""
        if place >= len(self):
            return self.rows
        if self.place is None:
            return place
        return int(np.flatnonzero(self.place == place)[0])

    @property
    def source(self) -> Places | None:
        """By place: the row; None: it is the same."""
        if self.place is None:
            return None
        return self.scatter(np.arange(self.rows, dtype=self.place.dtype))


def order_rows(
    table: pa.RecordBatch,
    encoded: Mapping[str, pa.DictionaryArray],
    bound_query: BoundQuery,
    threads: RowThreads,
    clock: Callable[[], float] = clocks.time,
    by_appearance: bool = False,
) -> RowOrder:
    """Order rows. Rows that are in order already cost one scan of times and keys.

    by_appearance: order keys by their first rows; else in any order.
    """
    rows = table.num_rows
    if bound_query.time is None and not bound_query.by:
        return RowOrder(threads, rows, None, np.array([0, rows]), NO_INTS, None)
    time, timed = times_of(table, bound_query, clock)
    if timed is not None:
        chosen = np.flatnonzero(timed)
        table, time = table.take(array(chosen)), time[chosen]
    columns = [encoded[name] if timed is None and name in encoded else table.column(name) for name in bound_query.by]
    codes = key_codes(columns, table.num_rows, threads)
    if by_appearance:
        codes = _by_appearance(*codes)
    ties = [ranks(table.column(name)) for name in bound_query.ties]
    return place_rows(rows, timed, time if bound_query.time is not None else None, codes, ties, threads)


def place_rows(
    rows: int,
    timed: Flags | None,
    time: Numbers | None,
    keys: tuple[Places | None, int],
    ties: list[Any],
    threads: RowThreads,
) -> RowOrder:
    """Order rows by key, time and tie-breakers; `timed` marks the rows with a time (None: all)."""
    codes, bound = keys
    count = rows if timed is None else int(np.count_nonzero(timed))
    counts = np.array([[count]]) if codes is None else _counts(codes, bound, threads)
    edges = np.zeros(bound + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=edges[1:])
    place = _places(codes, counts, time, ties, threads) if count else None
    if time is None:
        time = np.zeros(0, np.int64)
    elif place is not None:
        time = threads.put(time, place, np.empty_like(time))
    if timed is not None:
        places = np.full(rows, -1, index_type(rows))
        places[timed] = np.arange(count) if place is None else place
        place = places
    return RowOrder(threads, rows, place, edges, np.ascontiguousarray(time), timed)


def times_of(
    table: pa.RecordBatch, bound_query: BoundQuery, clock: Callable[[], float]
) -> tuple[Numbers, Flags | None]:
    """The times, and which rows have one, None if all do; without `on` no window needs a time."""
    if bound_query.time is None:
        return np.zeros(0, np.int64), None
    from sash.columns.watermark import WatermarkTracker

    classified = WatermarkTracker(bound_query, "sorted", clock).classify(table, None, 0)
    return classified.time, None if classified.taken.all() else classified.taken


def key_codes(columns: list[pa.Array], rows: int, threads: RowThreads) -> tuple[Places | None, int]:
    """A code for each row's key, and an upper bound of the codes; None without keys."""
    if not columns or not rows:
        return None, 1
    if len(columns) == 1:
        near = _near(columns[0], rows, threads)
        if near is not None:
            return near
    keys = keys_of([key_column(column) for column in columns], rows)
    return keys.codes.astype(index_type(keys.count)), keys.count


def counts_before(flags: Flags) -> Places:
    """The number of true flags before each place, and of all at the end."""
    found = np.zeros(len(flags) + 1, index_type(len(flags)))
    np.cumsum(flags, out=found[1:])
    return found


def _by_appearance(codes: Places | None, bound: int) -> tuple[Places | None, int]:
    """Codes that count up in the order in which they first occur."""
    if codes is None:
        return codes, bound
    first = np.full(bound, len(codes))
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last write remains
    number = np.empty(bound, codes.dtype)
    number[np.argsort(first, kind="stable")] = np.arange(bound)
    return number[codes], bound


def _near(column: pa.Array, rows: int, threads: RowThreads) -> tuple[Places, int] | None:
    """The codes of integers in a small range, or of dictionaries, without hashing; None for other columns."""
    if column.null_count:
        return None
    if pa.types.is_dictionary(column.type):
        if column.dictionary.null_count or len(column.dictionary) > rows:
            return None
        keys = keys_of([key_column(column.dictionary)], len(column.dictionary))
        return keys.codes.astype(np.int32)[numbers(column.indices)], keys.count
    if not pa.types.is_integer(column.type):
        return None
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if high - low > max(rows // 2, 1024):
        return None
    values = numbers(decode(column))
    codes = np.empty(rows, np.int32)

    def task(first: int, stop: int) -> None:
        np.subtract(values[first:stop], values.dtype.type(low), out=codes[first:stop], casting="unsafe")

    threads.run(task, rows)
    return codes, high - low + 1


def _counts(codes: Places, keys: int, threads: RowThreads) -> Any:
    """The number of rows, by range of rows and code."""
    counts = np.zeros((len(threads.ranges(len(codes))), keys), np.int64)
    number = {first: i for i, (first, _) in enumerate(threads.ranges(len(codes)))}
    code = coded(loops.counted, (codes, 0, 0, counts[0]))
    threads.run(lambda first, stop: code(codes, first, stop, counts[number[first]]), len(codes))
    return counts


def _places(
    codes: Places | None, counts: Any, time: Numbers | None, ties: list[Any], threads: RowThreads
) -> Places | None:
    """By row: its place in the order by key, time, tie-breakers and arrival; None if the rows are in order."""
    rows = int(counts.sum())
    if ties:
        return _by_order(codes, counts, np.lexsort((*reversed(ties), time)), threads)
    if time is None or all(threads.loop(numpy_loops.ascending, rows, (time,), ())):
        if codes is None or all(threads.loop(numpy_loops.ascending, rows, (codes,), ())):
            return None
        return _by_code(codes, counts, threads)
    if codes is not None and all(threads.loop(numpy_loops.rising, rows, (codes, time), ())):
        return None
    return _by_order(codes, counts, np.argsort(time, kind="stable"), threads)


def _by_order(codes: Places | None, counts: Any, order: Any, threads: RowThreads) -> Places:
    """By row: its place, given an order by time."""
    places = np.empty(len(order), index_type(len(order)))
    if codes is None:
        places[order] = np.arange(len(order))
    else:
        codes = codes[order]
        places[order] = _by_code(codes, _counts(codes, counts.shape[1], threads), threads)
    return places


def _by_code(codes: Places, counts: Any, threads: RowThreads) -> Places:
    """By row: its place in the stable order of codes."""
    # the first place of each code and range: codes first, then ranges
    begins = np.cumsum(counts.T.ravel()) - counts.T.ravel()
    following = np.ascontiguousarray(begins.reshape(counts.shape[1], -1).T)
    places = np.empty(len(codes), index_type(len(codes)))
    number = {first: i for i, (first, _) in enumerate(threads.ranges(len(codes)))}
    code = coded(loops.grouped, (codes, 0, 0, following[0], places))
    threads.run(lambda first, stop: code(codes, first, stop, following[number[first]], places), len(codes))
    return places
