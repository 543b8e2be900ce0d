"""Segments: rows in the order of their keys, cut where a key begins, and where it begins a new life.

key a             key b                     forget 10
1  3  4           2  5       21  22         b is silent for 16, and starts anew
├─ 0 ──┤          ├─ 1 ─┤    ├─ 2 ─┤        segments
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.operator import grid
from sash.operator.frame import Flags, Ints, Rows, Segments, peers_of, stable_order
from sash.operator.keys import plain
from sash.operator.loaded import Loaded
from sash.query.resolved import Resolved


class Cutter:
    """Puts the rows of a step in order and cuts them into segments."""

    def __init__(self, resolved: Resolved, numbers: np.dtype[Any]) -> None:
        self.resolved, self.numbers = resolved, numbers

    def order(
        self, table: pa.RecordBatch, time: Any, arrival: Ints, key: Ints, keys: int, is_sorted: bool
    ) -> tuple[Ints | None, Ints | None]:
        """The order by key, time, tie-breakers and arrival, and that without the key; None where the rows have it."""
        if is_sorted:
            return (stable_order(key, keys) if (key[1:] < key[:-1]).any() else None), None
        ties = [ranks(table.column(name)) for name in reversed(self.resolved.ties)]
        leaving = None
        later = time[1:] > time[:-1]
        if ties or not (later | ((time[1:] == time[:-1]) & (arrival[1:] > arrival[:-1]))).all():
            leaving = np.lexsort((arrival, *ties, time))
        grouped = key if leaving is None else key[leaving]
        if not (grouped[1:] < grouped[:-1]).any():
            return leaving, leaving
        order = stable_order(grouped, keys)
        return (order if leaving is None else leaving[order]), leaving

    def cut(
        self,
        table: pa.RecordBatch,
        given: tuple[pa.RecordBatch, Ints | None, Ints | None],
        time: Any,
        arrival: Ints,
        key: Ints,
        loaded: Loaded,
        before: Any,
        now: Any,
        closing: bool,
        open_key: int | None,
    ) -> tuple[Rows, Segments]:
        """Rows in segments: one for each key with new rows or something due, and one for each new life of it."""
        count = len(key)
        edge = np.concatenate([[True], key[1:] != key[:-1]]) if count else np.zeros(0, np.bool_)
        fresh = edge & (key >= loaded.known)
        forgotten = self._forgotten(time, key, edge, loaded)
        begins = edge | forgotten
        waking = np.zeros(len(loaded), np.bool_)
        waking[loaded.awake] = True
        waking[key] = False
        idle = np.flatnonzero(waking)
        starts = np.flatnonzero(begins)
        # a stored key whose first new row begins a new life has a segment for the old one before it
        old = key[starts][forgotten[starts] & edge[starts]]
        owner = np.concatenate([key[starts], old, idle])
        rank = np.concatenate([np.arange(len(starts)), np.full(len(old) + len(idle), -1)])
        order = np.lexsort((rank, owner))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        segment = place[np.cumsum(begins) - 1] if count else np.zeros(0, np.int64)
        of = owner[order]
        began = np.concatenate([forgotten[starts] | fresh[starts], np.zeros(len(old) + len(idle), np.bool_)])[order]
        stored = ~began & (of < loaded.known)
        firsts = np.concatenate([starts, np.full(len(old) + len(idle), -1)])[order]
        segments = self._limits(of, stored, firsts, time, loaded, before, now, closing, open_key)
        within = np.arange(count) - starts[np.cumsum(begins) - 1] if count else np.zeros(0, np.int64)
        ordinal = within + segments.rows[segment]
        rows = Rows(table, *given, segment, time, arrival, ordinal, peers_of(segment, time))
        return rows, segments

    def _forgotten(self, time: Any, key: Ints, edge: Flags, loaded: Loaded) -> Flags:
        """Which rows begin a new life of their key."""
        found = np.zeros(len(key), np.bool_)
        if self.resolved.forget is None or not len(key):
            return found
        earlier = np.concatenate([time[:1], time[:-1]])
        earlier = np.where(edge, loaded.last[key], earlier)
        there = ~edge | (key < loaded.known)
        gap = grid.since(time, np.minimum(earlier, time))
        return there & (gap > np.asarray(self.resolved.forget).astype(gap.dtype))

    def _limits(
        self,
        of: Ints,
        stored: Flags,
        firsts: Ints,
        time: Any,
        loaded: Loaded,
        before: Any,
        now: Any,
        closing: bool,
        open_key: int | None,
    ) -> Segments:
        count = len(of)
        done = np.full(count, closing, np.bool_)
        limit = np.zeros(count, self.numbers)
        if now is not None:
            limit[:] = now
        if open_key is not None:
            done = closing | (of != open_key)
        if count:
            more = np.append(of[1:] == of[:-1], False)  # a later life follows
            nexts = np.append(firsts[1:], -1)
            if more.any():
                limit = np.where(more, time[np.where(more, nexts, 0)], limit)
                done &= ~more
        started = stored & (before is not None)
        begun = np.zeros(count, self.numbers)
        if before is not None:
            begun[:] = before
        rows = np.where(stored, loaded.rows[of], 0) if count else np.zeros(0, np.int64)
        over = np.append(of[1:] == of[:-1], False) if count else np.zeros(0, np.bool_)
        return Segments(of, stored, begun, started, limit, done, rows, over)


def ranks(column: Any) -> Ints:
    """Places in the order of a column, equal ones alike, nulls last."""
    values = plain(column)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    found: Ints = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return found
