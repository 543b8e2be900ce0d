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

from sash.operator.arrays import array
from sash.operator.frame import Ints, stable_order
from sash.operator.keys import key_column, keys_of
from sash.query.resolved import Resolved
from sash.spark.ranges import Numbers, Part, readings


@dataclass(frozen=True)
class Large:
    """A large key: its parts, and the times between which its pieces lie."""

    parts: list[Part]
    edges: list[int | float]


@dataclass(frozen=True)
class Run:
    """Rows of one piece, next to each other."""

    piece: int
    start: int
    stop: int


@dataclass(frozen=True)
class Pieces:
    """The pieces of all rows, and the parts that read each. Parts of groups are numbered after those of large keys."""

    keys: tuple[pa.Array, ...]
    """The large keys, a column for each of `by`."""
    edges: tuple[Numbers, ...]
    """Of each large key the times at which its pieces begin, but for the first."""
    readers: tuple[tuple[int, ...], ...]
    """Of each piece the parts that read it: first whose own it is, then those in whose tail it lies."""
    groups: int

    @staticmethod
    def of(keys: tuple[pa.Array, ...], large: list[Large], groups: int) -> Pieces:
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
        return Pieces(keys, tuple(edges), tuple(readers), groups)

    def runs(self, batch: pa.RecordBatch, resolved: Resolved) -> tuple[pa.RecordBatch, list[Run]]:
        """The rows with those of a piece together, in the order they came in, and where each piece is.

        A row that has no time is in the first of its key. Rows that came in order of time cost little.
        """
        assert resolved.time is not None
        time, timed = resolved.time.numbers(batch.column(resolved.time.column))
        count = len(self.edges)
        if not resolved.by:
            chosen: list[Ints | None] = [None]
        else:
            columns = [
                pa.concat_arrays([key_column(known.cast(column.type)), key_column(column)])
                for known, column in zip(self.keys, map(batch.column, resolved.by), strict=True)
            ]
            keys = keys_of(columns, count + batch.num_rows)
            # the large keys come first, so they have the first codes
            codes = keys.codes[count:]
            chosen = [np.flatnonzero(codes == code) for code in range(count)]
        found: list[Run] = []
        orders: list[Ints] = []
        at = first = 0
        for edges, mine in zip(self.edges, chosen, strict=True):
            order, starts = _parted(time, timed, edges) if mine is None else _parted(time[mine], timed[mine], edges)
            found += _runs(first, at + starts)
            if mine is not None or order is not None:
                orders.append(order if mine is None else mine if order is None else mine[order])  # type: ignore[arg-type]
            at, first = at + int(starts[-1]), first + len(edges) + 1
        if resolved.by:
            others = np.flatnonzero(codes >= count)
            groups = (keys.hashes() % np.uint64(self.groups)).astype(np.int64)[codes[others]]
            order = stable_order(groups, self.groups)
            found += _runs(first, at + np.searchsorted(groups[order], np.arange(self.groups + 1)))
            orders.append(others[order])
        return (batch.take(array(np.concatenate(orders))) if orders else batch), found


def _parted(time: Numbers, timed: NDArray[np.bool_], edges: Numbers) -> tuple[Ints | None, Ints]:
    """The order of one key's rows by the range of time that they are in, None if they have it; where each begins."""
    if timed.all() and bool((time[1:] >= time[:-1]).all()):
        return None, np.concatenate([[0], np.searchsorted(time, edges), [len(time)]])
    places = np.where(timed, np.searchsorted(edges, time, side="right"), 0)
    order = stable_order(places, len(edges) + 1)
    return order, np.searchsorted(places[order], np.arange(len(edges) + 2))


def _runs(first: int, starts: Ints) -> list[Run]:
    """The pieces from `first` on that have rows."""
    edges = starts.tolist()
    return [Run(first + i, *edge) for i, edge in enumerate(pairwise(edges)) if edge[0] < edge[1]]
