"""Finish a stream whose state is larger than memory: compute the last results some buckets at a time.

    buckets     │ b0 b1 b2 │ b3 │ b4 b5 │       groups that take a fraction of the memory bound
    rows        the buffered rows of each group
    results     one batch, in the same order as from a single step

Each group is loaded, closed and released before the next one. Until the call is committed the store has all keys in
their old state: a failed call leaves memory empty, and keys are loaded again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sash.engine.bucket_directory import Hashes
from sash.engine.key_values import key_column, keys_of
from sash.engine.memory_bound import MemoryBound
from sash.engine.reorder_buffer import TimedRows
from sash.kernels.loops.array_types import Ints

if TYPE_CHECKING:
    from sash.engine.live_backend import LiveBackend

_SHARE = 4
"""A group takes 1/4 of the bound: arrays have up to twice the capacity that they need, and structures have queues."""


def closes_in_groups(backend: LiveBackend) -> bool:
    """Are there keys that are only in the store, and can keys be closed independently?"""
    durable = backend.durable
    if backend.bound is None or durable is None or backend.engine.ahead is not None:
        return False
    return len(durable.buckets.absent()) > 0 and not durable.transaction.uncertain


def close_groups(backend: LiveBackend, bound: MemoryBound, settled: TimedRows) -> pa.RecordBatch:
    """Process these rows, close all keys, and return their last results. No key is in memory afterwards."""
    durable, engine, emitter = bound.durable, backend.engine, backend.emitter
    bound.empty()
    of = durable.buckets.of(_hashes(backend, settled))
    results, rows = [], []
    for group in _groups(bound, of):
        durable.load_buckets(group)
        mine = np.flatnonzero((of >= group[0]) & (of <= group[-1]))
        step = engine.step(settled.take(mine), closing=True)
        chosen = None if emitter is None else emitter.chosen(step)
        results.append(backend.output.final(engine.keys, step, chosen))
        rows.append(mine if chosen is None or not backend.bound_query.per_row else mine[chosen[0]])
        engine.commit()
        if emitter is not None:
            emitter.compact()
            emitter.begin()
        durable.drop_buckets(group)
    return backend.output.merged(results, rows)


def _hashes(backend: LiveBackend, rows: TimedRows) -> Hashes:
    columns = [key_column(rows.table.column(name)) for name in backend.bound_query.by]
    if not columns:
        return np.zeros(len(rows), np.uint64)
    found = keys_of(columns, len(rows))
    return found.hashes()[found.codes]


def _groups(bound: MemoryBound, of: Ints) -> Iterator[Ints]:
    """Groups of neighbouring buckets, at least one each, that take an estimated fraction of the limit.

    `of`: the buckets of the rows that will be processed.
    """
    buckets, engine = bound.durable.buckets, bound.engine
    columns = [column for assigner in engine.arena_assigners for column in assigner.arena.columns.values()]
    rows = np.bincount(of, minlength=len(buckets))
    cost = (buckets.elements + rows) * sum(column.itemsize for column in columns)
    cost += (buckets.keys + rows) * engine.table.row_bytes
    number = np.cumsum(cost) // max(bound.limit // _SHARE, 1)
    yield from np.split(np.arange(len(buckets)), np.flatnonzero(np.diff(number)) + 1)
