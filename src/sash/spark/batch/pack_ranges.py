"""The rows of keys that are split into time ranges, on their way through the shuffle.

    rows ──▶ grouped by piece ──▶ (range, piece, own, blob), once for each time range that reads the piece
         ──▶ repartition by range, sort by range and piece ──▶ rows of each piece

Spark shuffles and sorts blobs of some thousand rows instead of single rows.

    a large key     ─┼────┼────┼──│─┼────┼────┼─      pieces of about equally many rows; │ a time range begins
                             └╌╌╌╌┘                   pieces in the lookback of the next range go to that one, too
    other keys      by hash: all rows of a key in one piece

A worker reads a range piece by piece, so it holds the rows of one piece and one window. Pieces are numbered by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.keys import key_column, keys_of
from sash.columns.row_order import order_rows
from sash.kernels.column.column_kernels import RowThreads
from sash.kernels.loops.array_types import Ints, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.plan.time_axis import Number
from sash.spark.batch.time_ranges import Lookback, TimeRange, readers
from sash.spark.worker_io import WorkerTask, batches_of, blob_array, grouped, rechunk

# --- Shuffle routing ---


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


# --- Pack ranges ---

ROWS = 1 << 18
"""Rows that are packed together, to spread the fixed cost of a blob."""

RANGE, PIECE, OWN, BLOB = "range", "piece", "own", "rows"
PACKED = pa.schema([(RANGE, pa.int32()), (PIECE, pa.int32()), (OWN, pa.bool_()), (BLOB, pa.binary())])


class PackRanges(WorkerTask):
    """Packs the rows of a partition in a worker, before the shuffle."""

    def __init__(self, query: Query, schema: pa.Schema, routing: ShuffleRouting) -> None:
        self.query, self.schema, self.routing, self.rows = query, schema, routing, ROWS

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_query = self.query.bind(self.schema)
        for batch in rechunk(batches, self.schema, self.rows):
            pieces = self.routing.piece_of(batch, bound_query)
            for piece, rows in grouped(batch, pieces, len(self.routing.readers)):
                yield from self._encode(rows, piece)

    def _encode(self, rows: pa.RecordBatch, piece: int) -> Iterator[pa.RecordBatch]:
        """A blob for each range that reads the piece: first the range that it belongs to."""
        blob = blob_array(rows)
        for place, number in enumerate(self.routing.readers[piece]):
            values = zip((number, piece, place == 0), PACKED, strict=False)
            columns = [pa.repeat(pa.scalar(value, field.type), len(blob)) for value, field in values]
            yield pa.RecordBatch.from_arrays([*columns, blob], schema=PACKED)


# --- Unpack ranges ---


@dataclass(frozen=True)
class RangeRows:
    """The rows of a piece that a time range reads: its own rows, or lookback."""

    range: int
    piece: int
    own: bool
    rows: pa.RecordBatch


def unpack_ranges(batches: Iterable[pa.RecordBatch]) -> Iterator[RangeRows]:
    """The rows of each piece, from blobs sorted by range and piece."""
    waiting: list[pa.RecordBatch] = []
    current = (-1, 0, False)
    for batch in batches:
        ranges, pieces, own = (batch.column(name).to_pylist() for name in (RANGE, PIECE, OWN))
        for at, place in enumerate(zip(ranges, pieces, own, strict=True)):
            blob = batch.column(BLOB)[at].as_buffer()
            if not blob.size:  # see `blob_array`
                continue
            if place != current and waiting:
                yield RangeRows(*current, pa.concat_batches(waiting))
                waiting = []
            current = place
            waiting += batches_of(blob)
    if waiting:
        yield RangeRows(*current, pa.concat_batches(waiting))


def in_order(rows: pa.RecordBatch, bound_query: BoundQuery, clock: Callable[[], float]) -> pa.RecordBatch:
    """Rows by key, time and tie-breakers, those without a time first. Cheap for rows that are sorted already."""
    order = order_rows(rows, {}, bound_query, RowThreads(1), clock)
    source = order.source
    if source is None:
        return rows
    if order.timed is not None:
        source = np.concatenate([np.flatnonzero(~order.timed), source])
    return rows.take(array(source))


def trimmed_lookback(rows: pa.RecordBatch, bound_query: BoundQuery, begin: Number) -> pa.RecordBatch:
    """The rows before a range at `begin` that its windows hold: by time or by number, whichever is more."""
    lookback = Lookback.of(bound_query)
    assert bound_query.time is not None
    time, timed = bound_query.time.numbers(rows.column(bound_query.time.column))
    if not timed.all():
        rows, time = rows.filter(array(timed)), time[timed]
    start = int(np.searchsorted(time, begin - lookback.time)) if lookback.time else len(time)
    if lookback.rows > 0:
        # with all peers of the oldest row
        oldest = time[max(len(time) - lookback.rows, 0)] if len(time) else 0
        start = min(start, int(np.searchsorted(time, oldest)))
    return rows.slice(start)
