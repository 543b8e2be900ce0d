"""Rows of a whole table grouped by key and in order of time, without moving them: an order, and where keys begin.

    rows      b5  a3  a∅  a1  b2           key and time; ∅: no time
    source     3   1   4   0               a1 a3 b2 b5: by key, time, tie-breakers, arrival
    edges      0   2   4                   where keys begin, and the number of rows

Keys are grouped by counting their rows, and rows that are in order of time, as logs are, are not sorted at all.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.sweeps import order as loops
from sash.kernels.sweeps.sweep import Crew, Places, coded, index_type
from sash.operator.arrivals import Arrivals
from sash.operator.frame import Flags, Numbers
from sash.operator.keys import key_column, keys_of, plain
from sash.operator.segments import ranks
from sash.query.resolved import Resolved


@dataclass(frozen=True)
class Grouped:
    """An order of rows by key and time."""

    rows: int
    """How many rows there are, with a time or without."""
    source: Places | None
    """By place in the order: the row; None if it is the same."""
    edges: Places
    time: Numbers
    """By place in the order: the time."""
    timed: Flags | None
    """By row: whether it has a time; None: all have one."""

    def __len__(self) -> int:
        return int(self.edges[-1])


def grouped(
    table: pa.RecordBatch, encoded: Mapping[str, pa.DictionaryArray], resolved: Resolved, crew: Crew
) -> Grouped:
    """Group rows. Costs a look at times and keys where they are in order already."""
    rows = table.num_rows
    arrived = Arrivals(resolved, "sorted", clocks.time).judge(table, None, 0)
    timed, time = (None, arrived.time) if arrived.taken.all() else (arrived.taken, arrived.time)
    chosen: Any = None
    if timed is not None:
        chosen = np.flatnonzero(timed).astype(index_type(rows))
        table, time = table.take(pa.array(chosen)), time[chosen]
    keys = [encoded[name] if chosen is None and name in encoded else table.column(name) for name in resolved.by]
    codes, count = _codes(keys, len(time))
    ties = [ranks(table.column(name)) for name in resolved.ties]
    source = _source(codes, count, time, ties, crew)
    edges = np.array([0, len(time)])
    if codes is not None:
        edges = np.zeros(count + 1, np.int64)
        np.cumsum(_counts(codes, count, crew).sum(axis=0), out=edges[1:])
    if source is not None:
        time = crew.taken(time, source)
        chosen = source if chosen is None else chosen[source]
    return Grouped(rows, chosen, edges, np.ascontiguousarray(time), timed)


def _codes(columns: list[pa.Array], rows: int) -> tuple[Places | None, int]:
    """A number for each row's key, and how many there may be; None without keys."""
    if not columns or not rows:
        return None, 1
    if len(columns) == 1:
        near = _near(columns[0], rows)
        if near is not None:
            return near
    keys = keys_of([key_column(column) for column in columns], rows)
    return keys.codes.astype(np.int32) if keys.count < 2**31 else keys.codes, keys.count


def _near(column: pa.Array, rows: int) -> tuple[Places, int] | None:
    """Integers that lie near to each other, or dictionaries, which need not be looked up one by one."""
    if column.null_count:
        return None
    if pa.types.is_dictionary(column.type):
        if column.dictionary.null_count or len(column.dictionary) > rows:
            return None
        keys = keys_of([key_column(column.dictionary)], len(column.dictionary))
        return keys.codes.astype(np.int32)[column.indices.to_numpy(zero_copy_only=False)], keys.count
    if not pa.types.is_integer(column.type):
        return None
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if high - low > max(rows // 2, 1024):
        return None
    numbers = plain(column).to_numpy(zero_copy_only=False)
    return (numbers - numbers.dtype.type(low)).astype(np.int32), high - low + 1


def _counts(codes: Places, count: int, crew: Crew) -> Any:
    """By range of rows and code: how many rows there are."""

    def task(first: int, stop: int) -> Any:
        return np.bincount(codes[first:stop], minlength=count)

    return np.stack(crew.run(task, len(codes)))


def _source(codes: Places | None, count: int, time: Numbers, ties: list[Any], crew: Crew) -> Places | None:
    """The order by key, time, tie-breakers and arrival; None if the rows have it."""
    if not len(time):
        return None
    if ties:
        first = np.lexsort((*reversed(ties), time)).astype(index_type(len(time)))
        return first if codes is None else first[_by_code(codes[first], count, crew)]
    if codes is None:
        ascends = all(crew.loop(loops.ascending, len(time), (time,), ()))
        return None if ascends else np.argsort(time, kind="stable").astype(index_type(len(time)))
    found = min(crew.loop(loops.rising, len(time), (codes, time), ()))
    if found == 2:
        return None
    if found == 1:
        return _by_code(codes, count, crew)
    first = np.argsort(time, kind="stable").astype(index_type(len(time)))
    return first[_by_code(codes[first], count, crew)]


def _by_code(codes: Places, count: int, crew: Crew) -> Places:
    """The order of codes, equal ones as they come."""
    counts = _counts(codes, count, crew)
    # where the rows of each range and code begin: codes first, then ranges
    begins = np.cumsum(counts.T.ravel()) - counts.T.ravel()
    places = np.ascontiguousarray(begins.reshape(count, -1).T)
    order = np.empty(len(codes), index_type(len(codes)))
    starts = {first: number for number, (first, _) in enumerate(crew.ranges(len(codes)))}
    code = coded(loops.grouped, (codes, 0, 0, places[0], order))

    def task(first: int, stop: int) -> None:
        code(codes, first, stop, places[starts[first]], order)

    crew.run(task, len(codes))
    return order
