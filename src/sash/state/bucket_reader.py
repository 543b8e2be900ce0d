"""Read a bucket and its segments, and validate all of it before anything is loaded into the engine.

A bucket has as many keys as the header lists, and together with its segments all their elements. Segments are read
before memory for their elements is allocated, so that a damaged count cannot allocate more than the pages hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import consecutive
from sash.columns.keys import keys_of
from sash.engine.keyed.ahead_assigner import AheadAssigner
from sash.engine.keyed.live_engine import LiveEngine
from sash.kernels.loops.array_types import Ints
from sash.state.bucket_log import NUMBER, LogRange, segment_mark, segment_name
from sash.state.page_checks import LARGEST, require, required_numbers
from sash.state.page_transaction import Pages
from sash.state.repeated_columns import restored
from sash.state.slot_codec import StateCodec, Stored, tail_name
from sash.stores.envelope import PageError, decoding

TOGETHER = 64
"""Segments that are read at once."""


@dataclass(frozen=True)
class BucketEntry:
    """A bucket as the header lists it: hashes [low, high) and number of keys; `numbers`: key numbers given so far."""

    name: str
    low: int
    high: int
    keys: int
    numbers: int


@dataclass(frozen=True)
class StoredElements:
    """Elements of a page: of an arena, the positions [start, stop) of some entries of the bucket."""

    page: str
    arena: int
    entry: Ints
    starts: Ints
    stops: Ints
    batch: pa.RecordBatch
    segment: int = -1
    """The number of the segment; -1: the bucket page itself."""
    written: int = 0
    """How many elements the segment was written with, including those that are no longer needed."""


@dataclass(frozen=True)
class Bucket:
    """A bucket with all its elements and its logs, and the `emit` under which it was written."""

    stored: Stored
    elements: list[StoredElements]
    logs: tuple[LogRange, ...]
    emit: str


class BucketReader:
    """Reads buckets of one operator."""

    def __init__(self, pages: Pages, engine: LiveEngine, codec: StateCodec) -> None:
        self.pages, self.engine, self.codec = pages, engine, codec

    def read(self, listed: BucketEntry) -> Bucket:
        """Read a bucket with its segments, without a change of the engine. Raises PageError."""
        ((meta, batches),) = self.pages.read("bucket", [listed.name], self.codec.stored_schemas)
        with decoding(f"page {listed.name!r}"):
            stored = self.codec.read(meta, batches)
            self.codec.check(stored)
            self._check_keys(listed, stored)
            self._check_rings(listed, stored)
            ranges = list(zip(meta["segments"], meta["marks"], strict=True))
            require(len(ranges) == len(self.codec.arenas), "it has segments of another query")
            elements = [self._tail(listed.name, a, stored) for a in range(len(self.codec.arenas))]
        logs = []
        for a, ((first, stop), mark) in enumerate(ranges):
            with decoding(f"page {listed.name!r}"):
                require(first <= stop < LARGEST, "it lists an impossible range of segments")
            log = LogRange(first, stop, int(mark, 16))
            segments = self._segments(listed.low, a, log, stored)
            logs.append(log._replace(elements=sum(segment.written for segment in segments)))
            elements += segments
            with decoding(f"page {listed.name!r}"):
                self._check_counts(a, stored, [one for one in elements if one.arena == a])
        for one in elements:
            with decoding(f"page {one.page!r}"):
                self._check_waiting(one, stored)
        return Bucket(stored, elements, tuple(logs), meta["emit"])

    def _check_waiting(self, elements: StoredElements, stored: Stored) -> None:
        """Raises ValueError if rows that wait are missing."""
        assigner = self.codec.arenas[elements.arena]
        if isinstance(assigner, AheadAssigner):
            counts = elements.stops - elements.starts
            entry = np.repeat(elements.entry, counts)
            positions = consecutive(elements.starts, counts)
            waits = positions >= stored.scalars[assigner.arena.name][entry, assigner.asked]
            assigner.waiting.check(elements.batch, waits)

    def _check_keys(self, listed: BucketEntry, stored: Stored) -> None:
        """Raises ValueError unless a bucket has the keys that belong to it, and the number of keys in the header."""
        keys, count = self.engine.keys, stored.count
        require(count == listed.keys and count > 0, f"it has {count} keys, and by the header {listed.keys}")
        if not keys.types:
            require(count == 1, "it has several keys, and the query has no by=")
            return
        found = keys_of(stored.keys, count)
        hashes = found.hashes()
        require(found.count == count, "it has a key twice")
        last = np.uint64(listed.high - 1)
        require((hashes >= np.uint64(listed.low)) & (hashes <= last), "it has a key of another bucket")
        require(keys.find(stored.keys, count, insert=False).slots < 0, "it has a key that is in memory already")

    def _check_rings(self, listed: BucketEntry, stored: Stored) -> None:
        """Raises ValueError unless the page has as many elements of each ring as are in no segment."""
        number = stored.scalars[NUMBER]
        named = number[number >= 0]
        require((number >= -1) & (number < listed.numbers), "it has a key with an unknown number")
        require(len(np.unique(named)) == len(named), "two of its keys have the same number")
        for a in range(len(self.codec.arenas)):
            (front, back), tail = stored.ring(a), stored.scalars[tail_name(a)]
            require((tail >= 0) & ((tail <= front) | (tail < back)), "a tail lies outside of its ring")
            require((tail <= front) | (number >= 0), "it has elements in segments of a key without a number")
            rows = stored.batches[a].num_rows
            require(np.sum(back.astype(float) - stored.tail(a)) < LARGEST, _OTHER_COUNT)
            require((back - stored.tail(a)).sum() == rows, _OTHER_COUNT)

    def _tail(self, page: str, a: int, stored: Stored) -> StoredElements:
        """The elements of the bucket page. Raises ValueError for invalid ones."""
        (_, back), tail, batch = stored.ring(a), stored.tail(a), stored.batches[a]
        entry = np.repeat(np.arange(stored.count), back - tail)
        columns = self.codec.check_elements(a, batch, entry, stored)
        self.codec.checks.last_panes(self.codec.arenas[a], stored.scalars, entry, columns)
        return StoredElements(page, a, np.arange(stored.count), tail, back, batch)

    def _segments(self, start: int, a: int, log: LogRange, stored: Stored) -> list[StoredElements]:
        """The segments of a bucket. Raises PageError unless they have all elements below the tails."""
        rings, marks, found = _Rings.of(stored, a), 0, list[StoredElements]()
        for chunk in range(log.first, log.stop, TOGETHER):  # one round trip
            names = {segment_name(start, a, i): i for i in range(chunk, min(chunk + TOGETHER, log.stop))}
            pages = self.pages.read("segment", list(names), self.codec.segment_schemas(a))
            self.pages.forget_reads(names)
            for (name, number), (meta, (index, stored_batch)) in zip(names.items(), pages, strict=True):
                marks ^= segment_mark(number, int(meta["generation"]))
                with decoding(f"page {name!r}"):
                    needed = rings.needed(index, stored_batch.num_rows)
                    batch = restored(stored_batch, self.codec.elements[a], meta["columns"])
                    if len(needed.rows) < batch.num_rows:
                        batch = batch.take(pa.array(needed.rows))
                    self.codec.check_elements(a, batch, np.repeat(needed.entry, needed.stops - needed.starts), stored)
                where = needed.entry, needed.starts, needed.stops
                found.append(StoredElements(name, a, *where, batch, number, needed.written))
        if marks != log.mark:
            first, last = segment_name(start, a, log.first), segment_name(start, a, log.stop - 1)
            raise PageError(
                f"one of the pages {first!r} to {last!r} is not of the call that their bucket lists: a write reached "
                "the store only in part, or an older copy was restored"
            )
        with decoding(f"page 'b{start:016x}'"):
            require((rings.at == rings.tail) | (rings.tail <= rings.front), _OTHER_COUNT)
        return found

    def _check_counts(self, a: int, stored: Stored, elements: list[StoredElements]) -> None:
        """Find the aggregates whose elements do not all hold one value. Raises ValueError for too many values."""
        back = stored.ring(a)[1]
        for aggregate in self.codec.engine.aggregates_of(self.codec.arenas[a]):
            totals, held, rows = stored.scalars[aggregate.name, "totals"], np.zeros(stored.count), 0
            for one in elements:
                counts = self.codec.counts(aggregate, one.batch)
                held += np.bincount(np.repeat(one.entry, one.stops - one.starts), counts, stored.count)
                rows += one.batch.num_rows
            require(held <= totals, "an element is later than the last row of its key")
            if held.sum() != rows or not np.array_equal(totals, back):
                stored.note_counted(aggregate.name)


class _Needed(NamedTuple):
    """The rows of a segment that are needed: positions [start, stop) of entries; `written`: the number of all rows."""

    rows: Ints
    entry: Ints
    starts: Ints
    stops: Ints
    written: int


@dataclass(frozen=True)
class _Rings:
    """The rings of a bucket in an arena, while its segments are read in order."""

    number: Ints
    order: Ints
    """The entries in the order of their keys' numbers."""
    front: Ints
    tail: Ints
    at: Ints
    """The position after the elements read so far; -1 if there are none."""

    @staticmethod
    def of(stored: Stored, a: int) -> _Rings:
        """The rings before the first segment."""
        number = stored.scalars[NUMBER]
        order = np.argsort(number, kind="stable")
        return _Rings(number, order, stored.ring(a)[0], stored.scalars[tail_name(a)], np.full(stored.count, -1))

    def needed(self, index: pa.RecordBatch, rows: int) -> _Needed:
        """Find the rows of a segment that are needed. Raises ValueError if its ranges do not continue earlier ones."""
        key, start, stop = (required_numbers(index, i) for i in range(3))
        require((start >= 0) & (start < stop) & (stop < LARGEST), "it has an impossible range of elements")
        require(
            (stop - start).astype(float).sum() == rows, "the number of its elements differs from that of its ranges"
        )
        require(len(np.unique(key)) == len(key), "it has a key twice")
        place = np.minimum(np.searchsorted(self.number[self.order], key), len(self.order) - 1)
        entry = self.order[place]
        known = (self.number[entry] == key) & (key >= 0)  # others have expired
        of = entry[known]
        # elements that left the window while they were in the tail are in no segment
        is_next = (start[known] == self.at[of]) | ((start[known] > self.at[of]) & (start[known] <= self.front[of]))
        require(is_next, "it does not begin where the segment before it ends")
        require(stop[known] <= self.tail[of], "it has elements that are in its bucket, too")
        self.at[of] = stop[known]
        first = np.maximum(start, self.front[entry])
        counts = np.where(known, np.maximum(stop - first, 0), 0)
        some = np.flatnonzero(counts)
        at = (np.cumsum(stop - start) - stop + first)[some]  # the rows of these first elements
        return _Needed(consecutive(at, counts[some]), entry[some], first[some], stop[some], rows)


_OTHER_COUNT = "the number of its elements differs from that of its keys"
