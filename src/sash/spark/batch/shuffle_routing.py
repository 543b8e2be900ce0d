"""ShuffleRouting: assigns rows to pieces, and pieces to the time ranges that read them.

    a large key     ─┼────┼────┼──│─┼────┼────┼─      pieces of about equally many rows; │ a time range begins
                             └╌╌╌╌┘                   pieces in the lookback of the next range go to that one, too
    other keys      by hash: all rows of a key in one piece

A worker reads a range piece by piece, so it holds the rows of one piece and one window. Pieces are numbered by time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.engine.key_values import key_column, keys_of
from sash.kernels.loops.array_types import Ints, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number
from sash.spark.batch.time_ranges import TimeRange, readers


@dataclass(frozen=True)
class LargeKey:
    """The time ranges of a large key, and the times at which its pieces begin."""

    ranges: list[TimeRange]
    edges: list[Number]


@dataclass(frozen=True)
class ShuffleRouting:
    """The pieces of all rows. Ranges of groups of small keys are numbered after those of large keys."""

    keys: tuple[pa.Array, ...]
    """The large keys, a column for each of `by`."""
    edges: tuple[Numbers, ...]
    """By large key: the times at which its pieces begin, except the first."""
    readers: tuple[tuple[int, ...], ...]
    """By piece: the ranges that read it. It belongs to the first, and is lookback of the others."""
    groups: int

    @staticmethod
    def of(keys: tuple[pa.Array, ...], large: list[LargeKey], groups: int) -> ShuffleRouting:
        """The pieces of these keys, and of `groups` groups of all others."""
        edges: list[Numbers] = []
        found: list[tuple[int, ...]] = []
        first = 0
        for key in large:
            read = readers(key.ranges, first, key.edges)
            edges.append(np.array([until for until, _ in read[:-1]]))
            found += [ranges for _, ranges in read]
            first += len(key.ranges)
        found += [(first + group,) for group in range(groups)]
        return ShuffleRouting(keys, tuple(edges), tuple(found), groups)

    def piece_of(self, batch: pa.RecordBatch, bound_query: BoundQuery) -> Ints:
        """By row: its piece. A row without a time is in the first piece of its key."""
        assert bound_query.time is not None
        time, timed = bound_query.time.numbers(batch.column(bound_query.time.column))
        if not bound_query.by:
            return np.where(timed, np.searchsorted(self.edges[0], time, side="right"), 0)
        codes, groups = self._codes(batch, bound_query)
        pieces = groups[codes]
        first = 0
        for code, edges in enumerate(self.edges):
            rows = np.flatnonzero(codes == code)
            pieces[rows] = first + np.where(timed[rows], np.searchsorted(edges, time[rows], side="right"), 0)
            first += len(edges) + 1
        pieces[codes >= len(self.edges)] += first
        return pieces

    def _codes(self, batch: pa.RecordBatch, bound_query: BoundQuery) -> tuple[Ints, Ints]:
        """The key of each row as a code, large keys first; and by code the group that the key would be in."""
        columns = [
            pa.concat_arrays([key_column(known.cast(column.type)), key_column(column)])
            for known, column in zip(self.keys, map(batch.column, bound_query.by), strict=True)
        ]
        keys = keys_of(columns, len(self.edges) + batch.num_rows)
        return keys.codes[len(self.edges) :], (keys.hashes() % np.uint64(self.groups)).astype(np.int64)
