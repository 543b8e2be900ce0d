"""The memory bound: evicts the least recently used keys from memory; the store still has them.

    after a call      live state   ████████████████████▌ │ bound
                      leave        ░░░░░░░░░               buckets, the least recently used first
                      arrays are packed: ████████│

Buckets are loaded and evicted as a whole. After a commit the store has every bucket as it is in memory, so eviction
writes nothing. Rows of the reorder buffer are in pages of their own, which are read when the watermark reaches them:
they are evicted if they alone take half of the bound.

During a call the buckets that it needs are in memory: those of its own keys, and those with a result due.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sash.engine.arena import Arena
from sash.engine.atomic import all_at_once
from sash.engine.durable_state import DurableState
from sash.engine.emitter import ChangeEmitter
from sash.engine.live_engine import LiveEngine
from sash.engine.reorder_buffer import ReorderBuffer
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_loops import CAPACITY

_FILL = 3 / 8
"""The share of the bound that is in use after an eviction: arrays have up to twice the capacity that they need."""


class MemoryBound:
    """Keeps the live state of one operator below a number of bytes, between calls."""

    def __init__(
        self,
        limit: int,
        durable: DurableState,
        engine: LiveEngine,
        buffer: ReorderBuffer | None,
        emitter: ChangeEmitter | None,
    ) -> None:
        self.limit, self.durable, self.engine, self.buffer, self.emitter = limit, durable, engine, buffer, emitter

    @property
    def nbytes(self) -> int:
        """The memory of the live state."""
        parts = (self.engine, self.buffer, self.emitter)
        return sum(part.nbytes for part in parts if part is not None)

    def enforce(self) -> None:
        """Evict the least recently used buckets from memory until it is below the limit. Not during a call."""
        if self.nbytes <= self.limit or self.durable.transaction.uncertain:
            return  # the store may not have the current version of uncertain pages
        buffer = self.buffer
        if buffer is not None and 2 * buffer.nbytes > self.limit:
            self.durable.buffered.unload(buffer)
        share = _FILL
        while self.nbytes > self.limit and self._unload(int(share * self.limit)):
            share /= 2

    def empty(self) -> None:
        """Evict all keys from memory: the store has them. May be interrupted, and repeated."""
        buckets, engine = self.durable.buckets, self.engine
        all_at_once(*buckets.unloading(buckets.keys > 0), engine.evicting(engine.live))
        engine.release(pack=True)

    def _unload(self, target: int) -> bool:
        """Evict buckets until keys use at most `target` bytes. Returns whether there was a key to evict."""
        buckets, engine = self.durable.buckets, self.engine
        slots = engine.live
        if not len(slots):
            return False
        bucket = buckets.of(engine.table["hash"][slots].view(np.uint64))
        cost = np.bincount(bucket, self._bytes_of(slots), len(buckets))
        loaded = np.flatnonzero(cost > 0)
        oldest_first = loaded[np.argsort(buckets.used[loaded], kind="stable")]
        excess = cost.sum() - target
        before = np.cumsum(cost[oldest_first]) - cost[oldest_first]
        leaving = np.zeros(len(buckets), np.bool_)
        leaving[oldest_first[before < excess]] = True
        # at once, because from here on the buckets count as unloaded; `release` may be interrupted, and called again
        all_at_once(*buckets.unloading(leaving), engine.evicting(slots[leaving[bucket]]))
        engine.release(pack=True)
        return True

    def _bytes_of(self, slots: Ints) -> NDArray[np.float64]:
        """The bytes that each slot takes: its row, its key and its rings."""
        capacity = max(self.engine.table.capacity, 1)
        found = np.full(len(slots), (self.engine.table.nbytes + self.engine.keys.nbytes) / capacity)
        for assigner in self.engine.arena_assigners:
            found += assigner.arena.heads[slots, CAPACITY] * _element(assigner.arena)
        return found


def _element(arena: Arena) -> float:
    """The bytes of an element."""
    return arena.nbytes / max(arena.length, 1)
