"""Sort the rows that have a time for the operator, and return results in the order of the input.

input      b5  a3  a∅  a1  b2           key and time; ∅: no time
order       3   1   4   0               a1 a3 b2 b5: by key, time, tie-breakers, arrival
results    r0  r1  r2  r3
output     r3  r1  null r0  r2          in the order of the input
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.engine.arrow_arrays import array
from sash.engine.row_order import RowOrder, order_rows
from sash.frames.adapter import Ints
from sash.kernels.column.column_kernels import Places, RowThreads
from sash.plan.bound_query import BoundQuery


@dataclass(frozen=True)
class SortedFrame:
    """Rows in the order of the operator: those that have a time, by key, time, tie-breakers and arrival."""

    table: pa.RecordBatch
    source: Places | None
    """By row: its place in the input; None if it is the same."""
    timed: NDArray[np.bool_]
    """By row of the input: whether it has a time."""


def encoded(columns: Mapping[str, Any], by: Sequence[str]) -> dict[str, pa.DictionaryArray]:
    """The `by` columns that are dictionary-encoded: their codes are used instead of hashing each row."""
    found = {}
    for name in by:
        column = columns[name]
        if pa.types.is_dictionary(column.type):
            if isinstance(column, pa.ChunkedArray):
                column = column.unify_dictionaries().combine_chunks()
            if isinstance(column, pa.DictionaryArray):
                found[name] = column
    return found


def ordered(table: pa.RecordBatch, bound_query: BoundQuery, rows: RowOrder | None = None) -> SortedFrame:
    """Sort rows, with keys in order of first appearance. Cheap if rows are sorted already, or their order is given."""
    if rows is None:
        threads = RowThreads(bound_query.query.options.threads)
        rows = order_rows(table, {}, bound_query, threads, by_appearance=True)
    timed = np.ones(rows.rows, np.bool_) if rows.timed is None else rows.timed
    source = rows.source
    return SortedFrame(table if source is None else table.take(array(source)), source, timed)


@dataclass(frozen=True)
class ResultPlaces:
    """Where the result of each output row is among the results; a row may have none."""

    take: pa.Array | None
    """By output row: the position of its result, or null. None: results are in order."""
    kept: Ints | None
    """The rows of the input that are in the output; None: all."""

    def put(self, column: pa.Array) -> pa.Array:
        """Results in the order of the output, null for rows without a time."""
        return column if self.take is None else column.take(self.take)


def places(rows: SortedFrame, given: Ints | None) -> ResultPlaces:
    """The positions of the results of all rows, or of the rows `given` by their numbers in the input."""
    if rows.source is None and given is None and rows.timed.all():
        return ResultPlaces(None, None)
    source = given if given is not None else rows.source
    assert source is not None
    found = np.full(len(rows.timed), -1)
    found[source] = np.arange(len(source))
    kept = None
    if given is not None:
        kept = np.flatnonzero((found >= 0) | ~rows.timed)
        found = found[kept]
    missing = found < 0
    return ResultPlaces(pa.array(found, mask=missing if missing.any() else None), kept)


def peer_ranks(table: pa.RecordBatch, bound_query: BoundQuery) -> pa.Array:
    """Numbers in the order of a query's `on` columns, equal for rows that are equal in all; null without a time.

    They are floats, since every kind of frame has these with nulls.
    """
    rows = ordered(table, bound_query)
    count = rows.table.num_rows
    is_new = np.zeros(count, np.bool_)
    for name in bound_query.query.on:
        column = rows.table.column(name)
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
        codes = column.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
        is_new[1:] |= codes[1:] != codes[:-1]
    source = np.arange(count) if rows.source is None else np.asarray(rows.source)
    ranks = np.zeros(len(rows.timed))
    ranks[source] = np.cumsum(is_new)
    return pa.array(ranks, mask=~rows.timed)
