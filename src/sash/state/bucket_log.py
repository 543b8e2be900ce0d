"""The log of a bucket: new elements are appended as segment pages, which are written once.

    ring of a key      front · · · · · · · · · · · · · tail · · · back
    pages              │ segment 7  │ segment 8   │ 9  │ bucket │         the last element may still change
                       └────────── the log ────────────┘

A segment has elements [start, stop) of several keys of a bucket, which it identifies by numbers. Elements of the tail
are in the bucket page, and move to a segment when they take some KiB and would be written a second time. So a call
writes its new elements, and the keys of its buckets.

Windows slide, so the oldest segments are no longer needed first, and are deleted from the front. A key without new rows
retains its segments: if less than half of a log is live, it is rewritten. The bucket page has the
numbers of the first and last segment, and one checksum of the calls that wrote them, so it does not grow with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import integers
from sash.engine.keyed.arena import RingRanges
from sash.engine.keyed.live_engine import LiveEngine
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.ring_loops import BACK, FRONT
from sash.state.page_transaction import Pages
from sash.state.slot_codec import RANGES, SEGMENT, EncodedBatch, StateCodec, tail_name

LEAST = 1 << 13
"""A tail of fewer bytes stays in its bucket page."""

SEGMENT_SIZE = 1 << 17
"""Bytes of a segment page, about; a tail of as many goes to segments at once."""

SHARE = 64
"""The tail of a long log moves to a segment when it has 1/64 of the log's bytes. So the number of segments grows with
the logarithm of the size, to about 300, and from 8 MiB on new segments have SEGMENT_SIZE."""

NUMBER = "number"
"""The column of the slot table with the number of a key in segments; -1 for none."""

_NEVER = 1 << 62


class LogRange(NamedTuple):
    """The segments [first, stop) of a bucket and an arena: a sum of their generations, and their elements."""

    first: int = 0
    stop: int = 0
    mark: int = 0
    elements: int = 0


class LogSize(NamedTuple):
    """The bytes that calls have written to the log of a bucket, and how many of them are live."""

    written: float
    live: float


class _Rewritten(NamedTuple):
    """Elements that a call has moved from segments back to the tail; `segment`: the first of these, for `rollback`."""

    arena: int
    ranges: RingRanges
    segment: int


class BucketLogs:
    """The logs of all buckets of one operator, by the least hash of each bucket."""

    def __init__(self, pages: Pages, engine: LiveEngine, codec: StateCodec) -> None:
        self.pages, self.engine, self.codec = pages, engine, codec
        self.arenas = [assigner.arena for assigner in codec.arenas]
        self.widths = [8.0 * len(schema) for schema in codec.elements]
        """By arena: the bytes of an element, as last measured."""
        self.next_number = 0
        """The number of the next key that goes to a segment."""
        self.nothing = (LogRange(),) * len(self.arenas)
        self._logs: dict[int, tuple[LogRange, ...]] = {}
        self._elements: dict[str, int] = {}
        """By segment: how many elements it has."""
        self._dropped: list[str] = []
        """Segments that the last call has deleted."""
        self._before: dict[int, tuple[LogRange, ...]] = {}
        self._slots: list[tuple[str, Ints, Ints]] = []
        self._rewritten: list[_Rewritten] = []

    @staticmethod
    def add_columns(engine: LiveEngine) -> None:
        """Add the columns that this class needs in the slot table."""
        engine.table.add(NUMBER, np.int64, -1)
        for a in range(len(engine.arena_assigners)):
            engine.table.add(tail_name(a), np.int64, 0)
            engine.table.add(_stored_name(a), np.int64, 0, derived=True)

    def of(self, start: int) -> tuple[LogRange, ...]:
        """By arena: the log of the bucket that begins with this hash."""
        return self._logs.get(start, self.nothing)

    def meta(self, start: int) -> dict[str, Any]:
        """The logs of a bucket for the metadata of its page; marks have a fixed number of digits."""
        logs = self.of(start)
        segments = [[log.first, log.stop] for log in logs]
        return {"segments": segments, "marks": [f"{log.mark:016x}" for log in logs]}

    # ---- loading ----

    def open(self, next_number: int) -> None:
        """Continue with the number of the next key that a header has saved."""
        self.next_number = next_number

    def loaded(self, start: int, logs: tuple[LogRange, ...], slots: Ints) -> None:
        """Record the logs of a bucket that was loaded into these slots."""
        self._logs[start] = logs
        for a, arena in enumerate(self.arenas):
            self.engine.table[_stored_name(a)][slots] = arena.heads[slots, BACK]

    def load_segment(self, name: str, elements: int, a: int, number: int, ranges: RingRanges) -> None:
        """Record which elements a segment has; `elements`: how many it was written with."""
        self._elements[name] = elements
        ranges.fill(self._column(a), number)

    def _column(self, a: int) -> Ints:
        """The numbers of segments, for each element of an arena."""
        arena = self.arenas[a]
        if SEGMENT not in arena.columns:
            arena.add(SEGMENT, np.int64)
        return arena.columns[SEGMENT]

    # ---- a call ----

    def begin(self) -> int:
        """Begin a call. Returns the number that `rollback` needs."""
        self._before, self._slots, self._rewritten = {}, [], []
        while self._dropped:
            self._elements.pop(self._dropped.pop(), None)
        return self.next_number

    def rollback(self, next_number: int) -> None:
        """Undo the changes of the call. May be interrupted, and called again."""
        self.next_number, self._dropped = next_number, []
        self._logs.update(self._before)
        for name, slots, values in reversed(self._slots):
            self.engine.table[name][slots] = values
        for a, ranges, segment in reversed(self._rewritten):
            ranges.fill(self._column(a), segment)

    def detach(self) -> None:
        """Keep the state only in memory from now on, without segments in a store."""
        self.engine.table[NUMBER][:] = -1
        for a, arena in enumerate(self.arenas):
            self.engine.table[tail_name(a)][:] = 0
            arena.remove(SEGMENT)

    def _set(self, name: str, slots: Ints, values: Ints | int) -> None:
        """Set a column of some slots, and save the old values: the step's journal may not have these slots."""
        column = self.engine.table[name]
        self._slots.append((name, slots, column[slots]))
        column[slots] = values

    def _put(self, start: int, a: int, log: LogRange) -> None:
        before = self.of(start)
        self._before.setdefault(start, before)
        self._logs[start] = (*before[:a], log, *before[a + 1 :])

    # ---- writing ----

    def release(self, start: int, slots: Ints) -> None:
        """Delete the log of a bucket, and move the elements of all its slots back to the bucket page."""
        for a in range(len(self.arenas)):
            log = self.of(start)[a]
            self._drop(start, a, log.stop)
            self._take_back(a, slots, log.first)

    def write(self, starts: Sequence[int], slots: Ints, counts: Ints) -> list[LogSize]:
        """Append new elements to the logs of buckets, and delete segments that are not needed.

        Each bucket has `counts` of these slots.
        """
        sizes = np.zeros((len(starts), 2))
        edges = np.cumsum(counts) - counts
        for a, arena in enumerate(self.arenas):
            live = self._delete_old(a, starts, slots, edges)
            front, back = arena.heads[slots, FRONT], arena.heads[slots, BACK]
            stored = self.engine.table[_stored_name(a)]
            tail = np.maximum(front, self.engine.table[tail_name(a)][slots])
            fresh = np.maximum(back - 1 - tail, 0)
            again = np.minimum(np.maximum(stored[slots] - tail, 0), fresh)
            stored[slots] = back
            fresh_of, again_of = np.add.reduceat(fresh, edges), np.add.reduceat(again, edges)
            nbytes = fresh_of * self.widths[a]
            has_log = np.array([self.of(start)[a].first < self.of(start)[a].stop for start in starts])
            least = np.clip(live * self.widths[a] / SHARE, LEAST, max(SEGMENT_SIZE, LEAST))
            chosen = (nbytes >= least) & (has_log | (2 * again_of >= fresh_of) | (nbytes >= SEGMENT_SIZE))
            chosen &= fresh_of > 0
            if chosen.any():
                some = np.flatnonzero(np.repeat(chosen, counts) & (fresh > 0))
                of = np.repeat(np.cumsum(chosen) - 1, counts)[some]
                mine = [start for start, is_chosen in zip(starts, chosen.tolist(), strict=True) if is_chosen]
                written = self._write_tails(a, mine, of, slots[some], tail[some], back[some] - 1)
                sizes[chosen, 0] += written
            sizes[:, 1] += (live + np.where(chosen, fresh_of, 0)) * self.widths[a]
        return [LogSize(*size) for size in sizes.tolist()]

    def _delete_old(self, a: int, starts: Sequence[int], slots: Ints, edges: Ints) -> Ints:
        """Delete segments without live elements, and logs that are mostly dead; returns the number of live elements."""
        heads, tail = self.arenas[a].heads, self.engine.table[tail_name(a)][slots]
        front = heads[slots, FRONT]
        in_log = np.maximum(tail - front, 0)
        some = np.flatnonzero(in_log)
        oldest = np.full(len(slots), _NEVER)
        if len(some):
            first = RingRanges(self.arenas[a], slots[some], front[some], front[some] + 1)
            oldest[some] = first.take(self._column(a))
        needed, live = np.minimum.reduceat(oldest, edges), np.add.reduceat(in_log, edges)
        stops = np.append(edges[1:], len(slots))
        for j, start in enumerate(starts):
            log = self.of(start)[a]
            if log.first == log.stop:
                continue
            self._drop(start, a, min(int(needed[j]), log.stop))
            if self.of(start)[a].elements > 2 * live[j] + 4 * LEAST / self.widths[a]:
                self._drop(start, a, log.stop)
                self._take_back(a, slots[edges[j] : stops[j]], log.first)
                live[j] = 0
        return live

    def _drop(self, start: int, a: int, stop: int) -> None:
        """Delete the segments below a number."""
        first, last, mark, elements = self.of(start)[a]
        if first >= stop:
            return
        names = [segment_name(start, a, number) for number in range(first, stop)]
        for number, name in zip(range(first, stop), names, strict=True):
            mark ^= segment_mark(number, self.pages.generation_of(name))
            elements -= self._elements[name]
        self.pages.drop(names)
        self._dropped += names
        self._put(start, a, LogRange(stop, last, mark, elements))

    def _take_back(self, a: int, slots: Ints, first: int) -> None:
        """Move the elements of slots back from the log, whose first segment is `first`, to the tail."""
        tails = self.engine.table[tail_name(a)]
        some = slots[tails[slots] > self.arenas[a].heads[slots, FRONT]]
        if len(some):
            ranges = RingRanges(self.arenas[a], some, self.arenas[a].heads[some, FRONT], tails[some])
            self._rewritten.append(_Rewritten(a, ranges, first))
            self._set(tail_name(a), some, 0)

    def _write_tails(self, a: int, starts: list[int], of: Ints, slots: Ints, tail: Ints, stop: Ints) -> list[int]:
        """Write the elements [tail, stop) of slots to segments of their buckets `of`; returns the bytes of each."""
        numbers = self.engine.table[NUMBER]
        unnamed = slots[numbers[slots] < 0]
        if len(unnamed):
            self._set(NUMBER, unnamed, np.arange(self.next_number, self.next_number + len(unnamed)))
            self.next_number += len(unnamed)
        encoded = self.codec.encode_elements(a, slots, tail, stop)
        self.widths[a] = width = max(encoded.batch.nbytes / encoded.batch.num_rows, 1.0)
        rows = max(int(SEGMENT_SIZE / width), 1)
        ends = np.cumsum(encoded.counts)
        edges = np.searchsorted(of, np.arange(len(starts) + 1))
        written = []
        for start, first, last in zip(starts, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            low, high, size = int(ends[first] - encoded.counts[first]), int(ends[last - 1]), 0
            pieces = max(round((high - low) / rows), 1)
            for i in range(pieces):
                bounds = low + (high - low) * i // pieces, low + (high - low) * (i + 1) // pieces
                piece = _Piece.of(encoded, ends, bounds)
                ranges = RingRanges(
                    self.arenas[a], slots[piece.some], tail[piece.some] + piece.skip, tail[piece.some] + piece.stop
                )
                size += self._write_segment(start, a, ranges, encoded, bounds)
            written.append(size)
        self._set(tail_name(a), slots, stop)
        return written

    def _write_segment(
        self, start: int, a: int, ranges: RingRanges, encoded: EncodedBatch, bounds: tuple[int, int]
    ) -> int:
        """Write some rows as the next segment of a bucket; returns its bytes."""
        first, number, mark, elements = self.of(start)[a]
        keys = self.engine.table[NUMBER][ranges.slots]
        index = pa.RecordBatch.from_arrays(
            [integers(keys), integers(ranges.starts), integers(ranges.stops)], schema=RANGES
        )
        batches = [index, encoded.batch.slice(bounds[0], bounds[1] - bounds[0])]
        name = segment_name(start, a, number)
        size = self.pages.write("segment", name, {"columns": encoded.layout}, batches)
        self.load_segment(name, ranges.total, a, number, ranges)
        mark ^= segment_mark(number, self.pages.generation)
        self._put(start, a, LogRange(first, number + 1, mark, elements + ranges.total))
        return size


class _Piece(NamedTuple):
    """A range of rows of an encoded batch: the slots `some`, and of each the encoded elements [skip, stop)."""

    some: slice
    skip: Ints
    stop: Ints

    @staticmethod
    def of(encoded: EncodedBatch, ends: Ints, bounds: tuple[int, int]) -> _Piece:
        """The rows [low, high)."""
        low, high = bounds
        some = slice(int(np.searchsorted(ends, low, "right")), int(np.searchsorted(ends, high)) + 1)
        before = ends[some] - encoded.counts[some]
        return _Piece(some, np.maximum(low - before, 0), np.minimum(high - before, encoded.counts[some]))


def segment_name(start: int, a: int, number: int) -> str:
    """The name of a segment page."""
    return f"s{start:016x}.{a}.{number}"


def segment_mark(number: int, generation: int) -> int:
    """A number of 63 bits for a segment of a generation: bits of both are mixed, as splitmix64 does."""
    mixed = (generation + number * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return mixed >> 1


def _stored_name(a: int) -> str:
    """The column of the slot table with the position up to which elements of an arena have been written."""
    return f"stored{a}"
