"""Unpack and sort the rows of pieces from blobs, after the shuffle of a split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.row_order import order_rows
from sash.kernels.column.column_kernels import RowThreads
from sash.plan.bound_query import BoundQuery
from sash.spark.arrow_ipc import batches_of
from sash.spark.batch.pack_ranges import BLOB, OWN, PIECE, RANGE


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
