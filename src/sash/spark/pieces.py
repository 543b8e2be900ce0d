"""Pieces: where rows go that are split. Ranges of a large key's time, and groups of all other keys.

    a large key     ─┼────┼────┼──│─┼────┼────┼─      pieces of about as many rows each; │ a part begins
                             └╌╌╌╌┘                   pieces in the tail of the next part go to that one, too
    other keys      by hash: all rows of a key in one piece

A part is read in one go, piece by piece, so a worker holds the rows of a piece beside its window, in whatever order
they come. Pieces are numbered in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.operator.keys import key_column, keys_of
from sash.query.resolved import Resolved
from sash.spark.ranges import Numbers, Part, readings


@dataclass(frozen=True)
class Large:
    """A large key: its parts, and the times between which its pieces lie."""

    parts: list[Part]
    edges: list[int | float]


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

    def places(self, batch: pa.RecordBatch, resolved: Resolved) -> NDArray[np.int64]:
        """The piece of each row. One that has no time is in the first of its key."""
        assert resolved.time is not None
        time, timed = resolved.time.numbers(batch.column(resolved.time.column))
        if not resolved.by:
            return np.where(timed, np.searchsorted(self.edges[0], time, side="right"), 0)
        count = len(self.edges)
        columns = [
            pa.concat_arrays([key_column(known.cast(column.type)), key_column(column)])
            for known, column in zip(self.keys, map(batch.column, resolved.by), strict=True)
        ]
        keys = keys_of(columns, count + batch.num_rows)
        # the large keys come first, so they have the first codes
        found: NDArray[np.int64] = (keys.hashes() % np.uint64(self.groups)).astype(np.int64)
        found += len(self.readers) - self.groups
        codes = keys.codes[count:]
        places = found[codes]
        first = 0
        for code, edges in enumerate(self.edges):
            at = np.flatnonzero(codes == code)
            places[at] = first + np.where(timed[at], np.searchsorted(edges, time[at], side="right"), 0)
            first += len(edges) + 1
        return places
