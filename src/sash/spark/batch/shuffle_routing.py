"""Pieces: where rows go that are split. Ranges of a large key's time, and groups of all other keys.

    a large key     ─┼────┼────┼──│─┼────┼────┼─      pieces of about as many rows each; │ a part begins
                             └╌╌╌╌┘                   pieces in the tail of the next part go to that one, too
    other keys      by hash: all rows of a key in one piece

A part is read in one go, piece by piece, so a worker holds the rows of a piece beside its window, in whatever order
they come. Pieces are numbered in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arrow_arrays import array, stable_order
from sash.engine.key_values import key_column, keys_of
from sash.kernels.loops.array_types import Ints
from sash.plan.bound_query import BoundQuery
from sash.spark.batch.time_ranges import Numbers, TimeRange, readings


@dataclass(frozen=True)
class LargeKey:
    """A large key: its parts, and the times between which its pieces lie."""

    parts: list[TimeRange]
    edges: list[int | float]


@dataclass(frozen=True)
class PieceRows:
    """Rows of one piece, next to each other."""

    piece: int
    start: int
    stop: int


@dataclass(frozen=True)
class ShuffleRouting:
    """The pieces of all rows, and the parts that read each. Parts of groups are numbered after those of large keys."""

    keys: tuple[pa.Array, ...]
    """The large keys, a column for each of `by`."""
    edges: tuple[Numbers, ...]
    """Of each large key the times at which its pieces begin, but for the first."""
    readers: tuple[tuple[int, ...], ...]
    """Of each piece the parts that read it: first whose own it is, then those in whose tail it lies."""
    groups: int

    @staticmethod
    def of(keys: tuple[pa.Array, ...], large: list[LargeKey], groups: int) -> ShuffleRouting:
        """The pieces of these keys, and of so many groups of all others."""
        edges: list[Numbers] = []
        readers: list[tuple[int, ...]] = []
        first = 0
        for one in large:
            read = readings(one.parts, first, one.edges)
            edges.append(np.array([reading.until for reading in read[:-1]]))
            readers += [reading.parts for reading in read]
            first += len(one.parts)
        readers += [(first + group,) for group in range(groups)]
        return ShuffleRouting(keys, tuple(edges), tuple(readers), groups)

    def runs(self, batch: pa.RecordBatch, bound_query: BoundQuery) -> tuple[pa.RecordBatch, list[PieceRows]]:
        """The rows with those of a piece together, in the order they came in, and where each piece is.

        A row that has no time is in the first of its key. Rows that came in order of time cost little.
        """
        assert bound_query.time is not None
        time, timed = bound_query.time.numbers(batch.column(bound_query.time.column))
        if not bound_query.by:
            order, starts = _parted(time, timed, self.edges[0])
            return (batch if order is None else batch.take(array(order))), _runs(0, starts)
        large, codes, groups = len(self.edges), *self._codes(batch, bound_query)
        orders: list[Ints] = []
        found: list[PieceRows] = []
        first = at = 0
        for code, edges in enumerate(self.edges):
            mine = np.flatnonzero(codes == code)
            order, starts = _parted(time[mine], timed[mine], edges)
            orders.append(mine if order is None else mine[order])
            found += _runs(first, at + starts)
            first, at = first + len(edges) + 1, at + len(mine)
        others = np.flatnonzero(codes >= large)
        places = groups[codes[others]]
        order = stable_order(places, self.groups)
        orders.append(others[order])
        found += _runs(first, at + np.searchsorted(places[order], np.arange(self.groups + 1)))
        return batch.take(array(np.concatenate(orders))), found

    def _codes(self, batch: pa.RecordBatch, bound_query: BoundQuery) -> tuple[Ints, Ints]:
        """The key of each row as a number, the large ones first; and by number the group that it would be in."""
        columns = [
            pa.concat_arrays([key_column(known.cast(column.type)), key_column(column)])
            for known, column in zip(self.keys, map(batch.column, bound_query.by), strict=True)
        ]
        keys = keys_of(columns, len(self.edges) + batch.num_rows)
        return keys.codes[len(self.edges) :], (keys.hashes() % np.uint64(self.groups)).astype(np.int64)


def _parted(time: Numbers, timed: NDArray[np.bool_], edges: Numbers) -> tuple[Ints | None, Ints]:
    """The order of one key's rows by the range of time that they are in, None if they have it; where each begins."""
    if timed.all() and bool((time[1:] >= time[:-1]).all()):
        return None, np.concatenate([[0], np.searchsorted(time, edges), [len(time)]])
    places = np.where(timed, np.searchsorted(edges, time, side="right"), 0)
    order = stable_order(places, len(edges) + 1)
    return order, np.searchsorted(places[order], np.arange(len(edges) + 2))


def _runs(first: int, starts: Ints) -> list[PieceRows]:
    """The pieces from `first` on that have rows."""
    edges = starts.tolist()
    return [PieceRows(first + i, *edge) for i, edge in enumerate(pairwise(edges)) if edge[0] < edge[1]]
