"""Rows of a whole table grouped by key and in order of time: for each row its place, and where keys begin.

    rows      b5  a3  a∅  a1  b2           key and time; ∅: no time
    place      3   1  -1   0   2           a1 a3 b2 b5: by key, time, tie-breakers, arrival
    edges      0   2   4                   where keys begin, and the number of rows

Keys are grouped by counting their rows, and rows that are in order of time, as logs are, are not sorted at all. Places
rather than an order: to read rows one after the other and write to as many streams as there are keys keeps to the
cache, and so does the way back; to gather by an order misses it at every row.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.engine.arrow_arrays import array
from sash.engine.input_encoding import numbers
from sash.engine.key_values import decode, key_column, keys_of, ranks
from sash.engine.watermark import WatermarkTracker
from sash.kernels.column import group_rows as loops
from sash.kernels.column import numpy_loops
from sash.kernels.column.column_kernels import Places, RowThreads, coded, index_type
from sash.kernels.loops.array_types import Flags, Numbers
from sash.plan.bound_query import BoundQuery


@dataclass
class RowOrder:
    """Rows in an order by key and time, and how values are scattered to it and gathered from it."""

    threads: RowThreads
    rows: int
    """How many rows there are, with a time or without."""
    place: Places | None
    """By row: its place in the order, -1 without a time; None: every row is where it was."""
    edges: Places
    time: Numbers
    """By place: the time, where windows ask for it."""
    timed: Flags | None
    """By row: whether it has a time; None: all have one."""

    def __len__(self) -> int:
        return int(self.edges[-1])

    def scatter(self, values: Numbers) -> Numbers:
        """By row, to by place."""
        if self.place is None:
            return values
        return self.threads.put(values, self.place, np.empty(len(self), values.dtype))

    def gather(self, values: Numbers) -> Numbers:
        """By place, to by row; 0 for rows without a time."""
        if self.place is None:
            return values
        return self.threads.taken(values, self.place)

    def row(self, place: int) -> int:
        """The row at a place; behind the last place, behind the last row."""
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
) -> RowOrder:
    """Group rows. Costs a look at times and keys where they are in order already."""
    rows = table.num_rows
    time, timed = _times(table, bound_query, clock)
    chosen = None if timed is None else np.flatnonzero(timed)
    if chosen is not None:
        table, time = table.take(array(chosen)), time[chosen]
    count = table.num_rows
    columns = [encoded[name] if chosen is None and name in encoded else table.column(name) for name in bound_query.by]
    codes, keys = _codes(columns, count, threads)
    counts = np.array([[count]]) if codes is None else _counts(codes, keys, threads)
    edges = np.zeros(keys + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=edges[1:])
    ties = [ranks(table.column(name)) for name in bound_query.ties]
    place = _places(codes, counts, time if bound_query.time is not None else None, ties, threads) if count else None
    if chosen is not None:
        places = np.full(rows, -1, index_type(rows))
        places[chosen] = np.arange(count) if place is None else place
        time = time if place is None else threads.put(time, place, np.empty_like(time))
        return RowOrder(threads, rows, places, edges, np.ascontiguousarray(time), timed)
    if place is not None and bound_query.time is not None:
        time = threads.put(time, place, np.empty_like(time))
    return RowOrder(threads, rows, place, edges, np.ascontiguousarray(time), None)


def _times(table: pa.RecordBatch, bound_query: BoundQuery, clock: Callable[[], float]) -> tuple[Numbers, Flags | None]:
    """The times, and which rows have one, None if all do; without `on` no window asks for a time."""
    if bound_query.time is None:
        return np.zeros(0, np.int64), None
    arrived = WatermarkTracker(bound_query, "sorted", clock).classify(table, None, 0)
    return arrived.time, None if arrived.taken.all() else arrived.taken


def _codes(columns: list[pa.Array], rows: int, threads: RowThreads) -> tuple[Places | None, int]:
    """A number for each row's key, and how many there may be; None without keys."""
    if not columns or not rows:
        return None, 1
    if len(columns) == 1:
        near = _near(columns[0], rows, threads)
        if near is not None:
            return near
    keys = keys_of([key_column(column) for column in columns], rows)
    return keys.codes.astype(index_type(keys.count)), keys.count


def _near(column: pa.Array, rows: int, threads: RowThreads) -> tuple[Places, int] | None:
    """Integers that lie near to each other, or dictionaries, which need not be looked up one by one."""
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
    """By range of rows and code: how many rows there are."""
    counts = np.zeros((len(threads.ranges(len(codes))), keys), np.int64)
    number = {first: i for i, (first, _) in enumerate(threads.ranges(len(codes)))}
    code = coded(loops.counted, (codes, 0, 0, counts[0]))
    threads.run(lambda first, stop: code(codes, first, stop, counts[number[first]]), len(codes))
    return counts


def _places(
    codes: Places | None, counts: Any, time: Numbers | None, ties: list[Any], threads: RowThreads
) -> Places | None:
    """By row: its place in the order by key, time, tie-breakers and arrival; None if the rows have it."""
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
    """By row: its place in the order of codes, equal ones as they come."""
    # where the rows of each range and code begin: codes first, then ranges
    begins = np.cumsum(counts.T.ravel()) - counts.T.ravel()
    following = np.ascontiguousarray(begins.reshape(counts.shape[1], -1).T)
    places = np.empty(len(codes), index_type(len(codes)))
    number = {first: i for i, (first, _) in enumerate(threads.ranges(len(codes)))}
    code = coded(loops.grouped, (codes, 0, 0, following[0], places))
    threads.run(lambda first, stop: code(codes, first, stop, following[number[first]], places), len(codes))
    return places
