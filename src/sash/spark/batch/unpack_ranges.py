"""Unpack: the rows of pieces, from blobs, and in order. Behind the shuffle of a split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.key_values import key_column, keys_of, ranks
from sash.plan.bound_query import BoundQuery
from sash.spark.arrow_ipc import batches_of
from sash.spark.batch.pack_ranges import BLOB, OWN, PART, PIECE


@dataclass(frozen=True)
class RangeRows:
    """The rows of a piece, its part, and whether they are the part's own."""

    part: int
    piece: int
    own: bool
    rows: pa.RecordBatch


def unpack_ranges(batches: Iterable[pa.RecordBatch]) -> Iterator[RangeRows]:
    """The rows of each piece, from blobs ordered by part and piece."""
    waiting: list[pa.RecordBatch] = []
    known = (-1, 0, False)
    for batch in batches:
        parts, numbers, own = (batch.column(name).to_pylist() for name in (PART, PIECE, OWN))
        for at, piece in enumerate(zip(parts, numbers, own, strict=True)):
            blob = batch.column(BLOB)[at].as_buffer()
            if not blob.size:  # there to keep the others apart
                continue
            if piece != known and waiting:
                yield RangeRows(*known, pa.concat_batches(waiting))
                waiting = []
            known = piece
            waiting += batches_of(blob)
    if waiting:
        yield RangeRows(*known, pa.concat_batches(waiting))


def in_order(rows: pa.RecordBatch, bound_query: BoundQuery, by: tuple[str, ...]) -> pa.RecordBatch:
    """Rows by key, time and tie-breakers, those without a time first. Costs a look at rows that are in order."""
    assert bound_query.time is not None
    time, timed = bound_query.time.numbers(rows.column(bound_query.time.column))
    if not timed.all():
        least = -np.inf if time.dtype.kind == "f" else np.iinfo(np.int64).min
        time = np.where(timed, time, least)
    columns = [key_column(rows.column(name)) for name in by if name in rows.schema.names]
    codes = [keys_of(columns, rows.num_rows).codes] if columns else []
    after, same = np.zeros(rows.num_rows - 1, np.bool_), np.ones(rows.num_rows - 1, np.bool_)
    for numbers in (*codes, time):
        after, same = after | (same & (numbers[1:] > numbers[:-1])), same & (numbers[1:] == numbers[:-1])
    if after.all() or (not bound_query.ties and (after | same).all()):
        return rows
    ties = [ranks(rows.column(name)) for name in bound_query.ties]
    return rows.take(array(np.lexsort((*reversed(ties), time, *codes))))
