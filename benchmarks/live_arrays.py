"""What a keyed window costs at least: one query, written by hand, whose state lies in arrays between calls.

    rows ──▶ slots       which key                                       one pass
         ──▶ leaving     how many rows of the key's window go            one pass: the ring of its times
         ──▶ out         pop them, push the row, query                   one pass an aggregate: TwoStacksLite in a ring

It knows one window, `Time(size)`, floats and integer keys, in order, checks nothing, and has no watermark, pages or
undo; its sum is a plain one. It measures what the operator does beyond that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

FIRST = 8
"""Elements of a key's first ring."""


@njit(cache=True, inline="always")
def mixed(key: Any) -> Any:
    h = np.uint64(key)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    return h


@njit(cache=True)
def find_slots(keys: Any, known_keys: Any, known_slots: Any, known: Any, slots: Any, first: Any) -> Any:
    """The slot of each row's key, from row `first` on, until the table is half full."""
    mask = len(known_keys) - 1
    for row in range(first, len(keys)):
        key = keys[row]
        place = np.int64(mixed(key) & np.uint64(mask))
        while known_slots[place] >= 0 and known_keys[place] != key:
            place = (place + 1) & mask
        if known_slots[place] < 0:
            if 2 * known > mask:
                return row, known
            known_keys[place], known_slots[place] = key, known
            known += 1
        slots[row] = known_slots[place]
    return len(keys), known


@njit(cache=True)
def wider(known_keys: Any, known_slots: Any) -> Any:
    """The table of keys, twice as large."""
    size = 2 * len(known_keys)
    keys, slots = np.zeros(size, np.int64), np.full(size, -1, np.int64)
    for i in range(len(known_keys)):
        if known_slots[i] >= 0:
            place = np.int64(mixed(known_keys[i]) & np.uint64(size - 1))
            while slots[place] >= 0:
                place = (place + 1) & (size - 1)
            keys[place], slots[place] = known_keys[i], known_slots[i]
    return keys, slots


@njit(cache=True)
def move_window(
    slots: Any, times: Any, size: Any, rings: Any, top: Any, arena: Any, leaving: Any, placed: Any, first: Any
) -> Any:
    """Evict and insert in the rings of times, from row `first` on, until the arena is full."""
    offset, capacity, front, end = rings
    for row in range(first, len(slots)):
        s, now = slots[row], times[row]
        o, c, f, e = offset[s], capacity[s], front[s], end[s]
        if e - f == c:
            wanted = FIRST if c == 0 else 2 * c
            if top + wanted > len(arena):
                return row, top
            for i in range(f, e):
                arena[top + (i & (wanted - 1))] = arena[o + (i & (c - 1))]
            offset[s], capacity[s], o, c = top, wanted, top, wanted
            top += wanted
        before = f
        while f < e and arena[o + (f & (c - 1))] <= now - size:
            f += 1
        arena[o + (e & (c - 1))] = now
        leaving[row], placed[row] = f - before, o
        front[s], end[s] = f, e + 1
    return len(slots), top


def sliding(combine: Any, identity: float) -> Any:
    """A loop over the rows of a call with TwoStacksLite, for one ⊕ of floats."""

    @njit
    def run(slots: Any, leaving: Any, placed: Any, x: Any, rings: Any, back: Any, boundary: Any, arena: Any) -> Any:
        offset, capacity, front, end = rings
        out = np.empty(len(slots))
        for row in range(len(slots)):
            s = slots[row]
            f, b, e, o, c = front[s], boundary[s], end[s], offset[s], capacity[s]
            if placed[row] != o or c == 0:
                wanted = FIRST if c == 0 else c
                while wanted <= e - f:
                    wanted *= 2
                for i in range(f, e):
                    arena[placed[row] + (i & (wanted - 1))] = arena[o + (i & (c - 1))]
                o, c = placed[row], wanted
                offset[s], capacity[s] = o, c
            mask = c - 1
            for _ in range(leaving[row]):
                if f == b:
                    total = identity
                    for i in range(e - 1, f - 1, -1):
                        total = combine(arena[o + (i & mask)], total)
                        arena[o + (i & mask)] = total
                    b, back[s] = e, identity
                f += 1
            arena[o + (e & mask)] = x[row]
            e += 1
            back[s] = combine(back[s], x[row])
            out[row] = back[s] if f == b else combine(arena[o + (f & mask)], back[s])
            front[s], boundary[s], end[s] = f, b, e
        return out

    return run


@njit(inline="always")
def larger(a: Any, b: Any) -> Any:
    return max(a, b)


@njit(inline="always")
def added(a: Any, b: Any) -> Any:
    return a + b


LOOPS = {"high": (sliding(larger, -np.inf), -np.inf), "total": (sliding(added, 0.0), 0.0)}


def rings(keys: int) -> Any:
    """Offset, capacity, front and end of the ring of each key."""
    return tuple(np.zeros(keys, np.int64) for _ in range(4))


@dataclass
class Aggregate:
    """The state of an aggregate."""

    loop: Any
    identity: float
    rings: Any = field(default_factory=lambda: rings(512))
    boundary: Any = field(default_factory=lambda: np.zeros(512, np.int64))
    back: Any = field(default_factory=lambda: np.empty(0))
    arena: Any = field(default_factory=lambda: np.zeros(1 << 14))


def longer(array: Any, size: int, filler: float = 0) -> Any:
    return np.concatenate([array, np.full(size - len(array), filler, array.dtype)])


class LiveArrays:
    """Max and sum of x over `Time(size)` of each key: batches of k, t and x in, the same with two more columns out."""

    def __init__(self, size: int) -> None:
        self.size, self.known, self.top = size, 0, 0
        self.table = np.zeros(1024, np.int64), np.full(1024, -1, np.int64)
        self.rings, self.arena = rings(512), np.zeros(1 << 14, np.int64)
        self.aggregates = [Aggregate(loop, identity) for loop, identity in LOOPS.values()]
        for one in self.aggregates:
            one.back = np.full(512, one.identity)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The results of these rows."""
        keys, times, x = (batch.column(i).to_numpy() for i in range(3))
        slots, leaving, placed = (np.empty(len(keys), np.int64) for _ in range(3))
        done = 0
        while True:
            done, self.known = find_slots(keys, *self.table, self.known, slots, done)
            if done == len(keys):
                break
            self.table = wider(*self.table)
            self.more_slots(len(self.table[0]) // 2)
        done = 0
        while True:
            done, self.top = move_window(
                slots, times, self.size, self.rings, self.top, self.arena, leaving, placed, done
            )
            if done == len(keys):
                break
            self.arena = longer(self.arena, 2 * len(self.arena))
        found = []
        for one in self.aggregates:
            if len(one.arena) < len(self.arena):
                one.arena = longer(one.arena, len(self.arena))
            found.append(pa.array(one.loop(slots, leaving, placed, x, one.rings, one.back, one.boundary, one.arena)))
        return pa.record_batch([*batch.columns, *found], names=[*batch.schema.names, *LOOPS])

    def more_slots(self, size: int) -> None:
        self.rings = tuple(longer(array, size) for array in self.rings)
        for one in self.aggregates:
            one.rings = tuple(longer(array, size) for array in one.rings)
            one.boundary, one.back = longer(one.boundary, size), longer(one.back, size, one.identity)
