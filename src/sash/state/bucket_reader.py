"""Read a bucket and its segments, and validate what is read before anything is loaded into the engine.

A bucket has as many keys as the header lists, and together with its segments all their elements. Segments are read
before memory for their elements is allocated, so that a damaged count cannot allocate more than the pages hold.

An operator reads whole buckets. A reader of its state reads single keys: the pages are the same, and their checksums,
keys and ranges are checked as a whole, but only the rows of these keys are decoded, checked and loaded.

    bucket page     keys       a  b  c  d            b is asked for: row 1 of the keys, elements [2, 4) of the tail,
                    elements   a a b b c d d         and those of b in each segment
    segments        elements   a a b c │ b c d d
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, consecutive, together
from sash.columns.input_encoding import numbers
from sash.columns.keys import hashes_of, key_column, keys_of
from sash.engine.keyed.ahead_assigner import AheadAssigner
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.row_assigner import RowAssigner
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.ring_loops import BACK, FRONT
from sash.state.bucket_directory import Hashes
from sash.state.bucket_log import NUMBER, LogRange, segment_mark, segment_name
from sash.state.page_checks import LARGEST, are_distinct, require, required_numbers
from sash.state.page_transaction import Pages
from sash.state.repeated_columns import Layout, restored, restored_column
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


@dataclass(frozen=True)
class Segment:
    """A segment page: its index as arrays, `row` being that of the first element of a range, and its elements."""

    name: str
    number: int
    mark: int
    key: Ints
    start: Ints
    stop: Ints
    row: Ints
    batch: pa.RecordBatch
    layout: Layout

    @staticmethod
    def of(name: str, number: int, meta: Mapping[str, Any], batches: Sequence[pa.RecordBatch]) -> Segment:
        """A segment from its page. Raises ValueError for impossible ranges."""
        index, batch = batches
        key, start, stop = (required_numbers(index, i) for i in range(3))
        require((start >= 0) & (start < stop) & (stop < LARGEST), "it has an impossible range of elements")
        counts = stop - start
        require(
            counts.astype(float).sum() == batch.num_rows,
            "the number of its elements differs from that of its ranges",
        )
        require(are_distinct(key), "it has a key twice")
        mark = segment_mark(number, int(meta["generation"]))
        return Segment(name, number, mark, key, start, stop, np.cumsum(counts) - counts, batch, meta["columns"])

    @property
    def nbytes(self) -> int:
        """The memory of the page, with its part of an index."""
        return self.batch.nbytes + 9 * self.key.nbytes


@dataclass(frozen=True)
class SegmentIndex:
    """The indexes of several segments in one, in the order of their numbers; `of`: by range its place in `segments`."""

    segments: Sequence[Segment]
    key: Ints
    start: Ints
    stop: Ints
    row: Ints
    of: Ints

    @staticmethod
    def join(segments: Sequence[Segment]) -> SegmentIndex:
        """Join the indexes of these segments."""
        key, start, stop, row = (
            np.concatenate([getattr(one, name) for one in segments]) for name in ("key", "start", "stop", "row")
        )
        of = np.repeat(np.arange(len(segments)), [len(one.key) for one in segments])
        return SegmentIndex(segments, key, start, stop, row, of)


@dataclass
class BucketPage:
    """A bucket page of which single keys are read, and the segments of its logs that have been read."""

    generation: int
    meta: Mapping[str, Any]
    batches: list[pa.RecordBatch]
    """As they are stored: without columns that repeat."""
    hashes: Hashes
    """By row: the hash of the key."""
    rows: list[tuple[Ints, Ints]]
    """By arena: of each key the row of its first element in the page, and the number of its elements."""
    segments: list[dict[int, Segment]]
    """By arena: segments by number, possibly of an earlier version of the bucket."""
    indexes: list[tuple[LogRange, SegmentIndex] | None]
    """By arena: the index of all segments of a log."""

    def keep_index(self, a: int, log: LogRange, index: SegmentIndex) -> None:
        """Keep the index of a log, for as long as it has the same segments."""
        self.indexes[a] = log, index

    @property
    def nbytes(self) -> int:
        """The memory of the pages."""
        own = sum(batch.nbytes for batch in self.batches) + self.hashes.nbytes * (1 + 2 * len(self.rows))
        return own + sum(one.nbytes for kept in self.segments for one in kept.values())


class BucketReader:
    """Reads buckets of one operator."""

    def __init__(self, pages: Pages, engine: LiveEngine, codec: StateCodec) -> None:
        self.pages, self.engine, self.codec = pages, engine, codec

    # ---- whole buckets ----

    def read(self, listed: BucketEntry) -> Bucket:
        """Read a bucket with its segments, without a change of the engine. Raises PageError."""
        ((meta, batches),) = self.pages.read("bucket", [listed.name], self.codec.stored_schemas)
        with decoding(f"page {listed.name!r}"):
            stored = self.codec.read(meta, batches)
            self.codec.check(stored)
            self._check_keys(listed, stored.keys, stored.count)
            known = self.engine.keys.find(stored.keys, stored.count, insert=False).slots
            require((known < 0) | (not self.engine.keys.types), "it has a key that is in memory already")
            number = stored.scalars[NUMBER]
            self._check_numbers(listed, number)
            for a in range(len(self.codec.arenas)):
                self._check_rings(number, *stored.ring(a), stored.scalars[tail_name(a)], stored.batches[a].num_rows)
            ranges = self._ranges(meta)
            elements = [self._tail(listed.name, a, stored) for a in range(len(self.codec.arenas))]
        logs = []
        for a, log in enumerate(ranges):
            segments = self._segments(listed.low, a, log, stored)
            logs.append(log._replace(elements=sum(segment.written for segment in segments)))
            elements += segments
            with decoding(f"page {listed.name!r}"):
                self._check_counts(a, stored, [one for one in elements if one.arena == a])
        self._check_all_waiting(elements, stored)
        return Bucket(stored, elements, tuple(logs), meta["emit"])

    # ---- single keys ----

    def page(self, listed: BucketEntry, generation: int, before: BucketPage | None) -> BucketPage:
        """Read a bucket page, of which single keys will be read; `before`: an earlier version. Raises PageError."""
        ((meta, batches),) = self.pages.read("bucket", [listed.name], self.codec.stored_schemas)
        with decoding(f"page {listed.name!r}"):
            column = partial(restored_column, batches[0], self.codec.keys, meta["columns"][0])
            keys = [key_column(column(f"k{i}")) for i in range(len(self.engine.keys.types))]
            hashes = self._check_keys(listed, keys, batches[0].num_rows)
            number = _whole(column(f"{NUMBER}.0"))
            self._check_numbers(listed, number)
            rows = []
            for a, assigner in enumerate(self.codec.arenas):
                heads = assigner.arena.name
                front, back = (_whole(column(f"{heads}.{place}")) for place in (FRONT, BACK))
                require((front >= 0) & (front <= back) & (back < LARGEST), "the positions of a ring are not in order")
                tail = _whole(column(f"{tail_name(a)}.0"))
                self._check_rings(number, front, back, tail, batches[1 + a].num_rows)
                counts = back - np.maximum(front, tail)
                rows.append((np.cumsum(counts) - counts, counts))
            for batch in batches[1 + len(rows) :]:
                self.codec.check_emitted(_whole(batch.column(0)), len(hashes))
            segments = [
                {} if before is None else {n: one for n, one in before.segments[a].items() if log.first <= n < log.stop}
                for a, log in enumerate(self._ranges(meta))
            ]
        indexes = [None] * len(segments) if before is None else before.indexes
        return BucketPage(generation, meta, batches, hashes, rows, segments, [*indexes])

    def read_keys(self, listed: BucketEntry, page: BucketPage, some: Ints, is_joined: bool = True) -> Bucket:
        """Read the keys in some rows of a bucket page, with their elements, without a change of the engine.

        Segments that were read before are not read again. `is_joined`: the elements of all pages are one, so that a
        check, or a column to load, costs one call. Raises PageError; otherwise it names the page that is wrong.
        """
        with decoding(f"page {listed.name!r}"):
            batches = [_taken(page.batches[0], some)]
            for (first, counts), batch in zip(page.rows, page.batches[1:], strict=False):
                batches.append(_taken(batch, consecutive(first[some], counts[some])))
            batches += [batch.slice(0, 0) for batch in page.batches[len(batches) :]]  # results that were emitted
            stored = self.codec.read(page.meta, batches)
            self.codec.check(stored)
        elements = list[StoredElements]()
        for a, log in enumerate(self._ranges(page.meta)):
            parts = list[StoredElements]()
            if log.first < log.stop:
                index, rings = self._index(listed.low, a, log, page), _Rings.of(stored, a)
                parts = (self._runs if is_joined else self._of_keys)(index, rings, a)
                rings.require_all(listed.name)
            joins = is_joined and len(parts) > 0
            with decoding(f"page {listed.name!r}"):
                parts.append(self._tail(listed.name, a, stored, is_alone=not joins))
                if joins:
                    parts = [self._joined(parts)]
            for one in parts if joins else parts[:-1]:
                self._check_elements(one, stored)
            with decoding(f"page {listed.name!r}"):
                self._check_counts(a, stored, parts)
            elements += parts
        self._check_all_waiting(elements, stored)
        return Bucket(stored, elements, (), page.meta["emit"])

    def _index(self, start: int, a: int, log: LogRange, page: BucketPage) -> SegmentIndex:
        """The index of a log, all segments of which are in memory afterwards. Raises PageError."""
        known = page.indexes[a]
        if known is not None and known[0] == log:
            return known[1]
        kept = page.segments[a]
        self._complete(start, a, log, kept)
        index = SegmentIndex.join([kept[number] for number in range(log.first, log.stop)])
        page.keep_index(a, log, index)
        return index

    def _complete(self, start: int, a: int, log: LogRange, kept: dict[int, Segment]) -> None:
        """Read the segments of a log that were not read before. Raises PageError."""
        missing = [number for number in range(log.first, log.stop) if number not in kept]
        for at in range(0, len(missing), TOGETHER):  # one round trip
            kept.update((one.number, one) for one in self._read_segments(start, a, missing[at : at + TOGETHER]))
        found_mark = 0
        for one in kept.values():
            found_mark ^= one.mark
        if found_mark != log.mark:
            is_fresh = len(missing) == len(kept)
            kept.clear()
            if is_fresh:
                raise _mixed(start, a, log)
            self._complete(start, a, log, kept)  # the numbers of some have been given again

    def _runs(self, index: SegmentIndex, rings: _Rings, a: int) -> list[StoredElements]:
        """As `_of_keys`, but segments without needed elements are left out, and others joined as far as possible.

        Those can be joined that lack the same columns.
        """
        needed, found = rings.needed(index), list[StoredElements]()
        if not len(needed.of):
            return []
        edges = np.flatnonzero(np.append(True, needed.of[1:] != needed.of[:-1])).tolist()
        cuts = np.append(0, np.cumsum(needed.stops - needed.starts))
        run, since = list[pa.RecordBatch](), 0
        for low, high in pairwise([*edges, len(needed.of)]):
            segment = index.segments[needed.of[low]]
            rows = needed.rows[cuts[low] : cuts[high]]
            is_range = rows[-1] - rows[0] + 1 == len(rows)
            run.append(segment.batch.slice(rows[0], len(rows)) if is_range else _taken(segment.batch, rows))
            if high < len(needed.of) and index.segments[needed.of[high]].layout == segment.layout:
                continue
            with decoding(f"page {segment.name!r}"):
                batch = restored(together(run, run[0].schema), self.codec.elements[a], segment.layout)
            entry, starts, stops = (part[since:high] for part in (needed.entry, needed.starts, needed.stops))
            found.append(StoredElements(segment.name, a, entry, starts, stops, batch))
            run, since = [], high
        return found

    def _joined(self, parts: Sequence[StoredElements]) -> StoredElements:
        a, page = parts[-1].arena, parts[-1].page
        entry, starts, stops = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("entry", "starts", "stops")
        )
        batch = together([one.batch for one in parts], self.codec.elements[a])
        return StoredElements(page, a, entry, starts, stops, batch)

    # ---- both ----

    def _ranges(self, meta: Mapping[str, Any]) -> list[LogRange]:
        """By arena: the log of a bucket. Raises ValueError for an impossible one."""
        ranges = list(zip(meta["segments"], meta["marks"], strict=True))
        require(len(ranges) == len(self.codec.arenas), "it has segments of another query")
        for (first, stop), _ in ranges:
            require(first <= stop < LARGEST, "it lists an impossible range of segments")
        return [LogRange(first, stop, int(mark, 16)) for (first, stop), mark in ranges]

    def _check_all_waiting(self, elements: Sequence[StoredElements], stored: Stored) -> None:
        for one in elements:
            with decoding(f"page {one.page!r}"):
                self._check_waiting(one, stored)

    def _check_waiting(self, elements: StoredElements, stored: Stored) -> None:
        """Raises ValueError if rows that wait are missing."""
        assigner = self.codec.arenas[elements.arena]
        if isinstance(assigner, AheadAssigner):
            counts = elements.stops - elements.starts
            entry = np.repeat(elements.entry, counts)
            positions = consecutive(elements.starts, counts)
            waits = positions >= stored.scalars[assigner.arena.name][entry, assigner.asked]
            assigner.waiting.check(elements.batch, waits)

    def _check_keys(self, listed: BucketEntry, keys: list[pa.Array], count: int) -> Hashes:
        """The hashes of keys, row by row.

        Raises ValueError unless a bucket has the keys that belong to it, and the number of keys in the header.
        """
        require(count == listed.keys and count > 0, f"it has {count} keys, and by the header {listed.keys}")
        if not keys:
            require(count == 1, "it has several keys, and the query has no by=")
            return np.zeros(1, np.uint64)
        hashes = hashes_of(keys, count)
        if not are_distinct(hashes):  # two keys may have one hash
            require(keys_of(keys, count).count == count, "it has a key twice")
        last = np.uint64(listed.high - 1)
        require((hashes >= np.uint64(listed.low)) & (hashes <= last), "it has a key of another bucket")
        return hashes

    def _check_numbers(self, listed: BucketEntry, number: Ints) -> None:
        """Raises ValueError unless the numbers of keys in segments are different ones that were given."""
        named = number[number >= 0]
        require((number >= -1) & (number < listed.numbers), "it has a key with an unknown number")
        require(are_distinct(named), "two of its keys have the same number")

    def _check_rings(self, number: Ints, front: Ints, back: Ints, tail: Ints, rows: int) -> None:
        """Raises ValueError unless the page has as many elements of a ring as are in no segment."""
        require((tail >= 0) & ((tail <= front) | (tail < back)), "a tail lies outside of its ring")
        require((tail <= front) | (number >= 0), "it has elements in segments of a key without a number")
        held = back - np.maximum(front, tail)
        require(np.sum(held.astype(float)) < LARGEST, _OTHER_COUNT)
        require(held.sum() == rows, _OTHER_COUNT)

    def _tail(self, page: str, a: int, stored: Stored, is_alone: bool = True) -> StoredElements:
        """The elements of the bucket page. Raises ValueError for invalid ones; `is_alone`: they are checked here."""
        (_, back), tail, batch = stored.ring(a), stored.tail(a), stored.batches[a]
        if is_alone or not isinstance(self.codec.arenas[a], RowAssigner):
            entry = np.repeat(np.arange(stored.count), back - tail)
            columns = self.codec.check_elements(a, batch, entry, stored)
            self.codec.checks.last_panes(self.codec.arenas[a], stored.scalars, entry, columns)
        return StoredElements(page, a, np.arange(stored.count), tail, back, batch)

    def _check_elements(self, some: StoredElements, stored: Stored) -> None:
        """Raises PageError for invalid elements of a segment."""
        with decoding(f"page {some.page!r}"):
            self.codec.check_elements(some.arena, some.batch, np.repeat(some.entry, some.stops - some.starts), stored)

    def _segments(self, start: int, a: int, log: LogRange, stored: Stored) -> list[StoredElements]:
        """The segments of a bucket. Raises PageError unless they have all elements below the tails."""
        rings, marks, found = _Rings.of(stored, a), 0, list[StoredElements]()
        for chunk in range(log.first, log.stop, TOGETHER):  # one round trip
            segments = self._read_segments(start, a, range(chunk, min(chunk + TOGETHER, log.stop)))
            for one in segments:
                marks ^= one.mark
            made = self._of_keys(SegmentIndex.join(segments), rings, a)
            for elements in made:
                self._check_elements(elements, stored)
            found += made
        if marks != log.mark:
            raise _mixed(start, a, log)
        rings.require_all(f"b{start:016x}")
        return found

    def _read_segments(self, start: int, a: int, some: Sequence[int]) -> list[Segment]:
        """Read the segments of these numbers, in their order."""
        names = [segment_name(start, a, number) for number in some]
        pages = self.pages.read("segment", names, self.codec.segment_schemas(a))
        self.pages.forget_reads(names)
        found = []
        for name, number, (meta, batches) in zip(names, some, pages, strict=True):
            with decoding(f"page {name!r}"):
                found.append(Segment.of(name, number, meta, batches))
        return found

    def _of_keys(self, index: SegmentIndex, rings: _Rings, a: int) -> list[StoredElements]:
        """The elements of segments, in their order, that are needed of the keys of rings."""
        needed, found = rings.needed(index), list[StoredElements]()
        edges = np.searchsorted(needed.of, np.arange(len(index.segments) + 1))
        cuts = np.append(0, np.cumsum(needed.stops - needed.starts))[edges].tolist()
        places = zip(index.segments, pairwise(edges.tolist()), pairwise(cuts), strict=True)
        for one, (low, high), (first, last) in places:
            with decoding(f"page {one.name!r}"):
                is_whole = last - first == one.batch.num_rows
                batch = one.batch if is_whole else _taken(one.batch, needed.rows[first:last])
                batch = restored(batch, self.codec.elements[a], one.layout)
            entry, starts, stops = (part[low:high] for part in (needed.entry, needed.starts, needed.stops))
            found.append(StoredElements(one.name, a, entry, starts, stops, batch, one.number, one.batch.num_rows))
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
    """The rows of segments that are needed, and their ranges: the segment of each, its entry and its positions."""

    rows: Ints
    of: Ints
    entry: Ints
    starts: Ints
    stops: Ints


@dataclass(frozen=True)
class _Rings:
    """The rings of some keys in an arena, while their segments are read in order."""

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

    def needed(self, index: SegmentIndex) -> _Needed:
        """Find the rows of segments that are needed. Raises PageError if their ranges do not continue earlier ones."""
        if len(self.number) == 1:
            some = np.flatnonzero(index.key == self.number) if self.number[0] >= 0 else NO_INTS
            entry = np.zeros(len(some), np.int64)
        else:
            ordered = self.number[self.order]
            place = np.minimum(np.searchsorted(ordered, index.key), len(ordered) - 1)
            some = np.flatnonzero((ordered[place] == index.key) & (index.key >= 0))
            entry = self.order[place[some]]  # other keys have expired, or are not asked for
        start, stop, row, of = index.start[some], index.stop[some], index.row[some], index.of[some]
        self._follow(entry, start, stop, index, of)
        first = np.maximum(start, self.front[entry])
        counts = np.maximum(stop - first, 0)
        live = np.flatnonzero(counts)
        rows = consecutive((row + first - start)[live], counts[live])
        return _Needed(rows, of[live], entry[live], first[live], stop[live])

    def _follow(self, entry: Ints, start: Ints, stop: Ints, index: SegmentIndex, where: Ints) -> None:
        """Note ranges of entries, in the order of their segments.

        Raises PageError, with the name of the first page that is wrong, if one does not follow the range before it.
        """
        if not len(entry):
            return
        order = np.argsort(entry, kind="stable")
        of, begin, end = entry[order], start[order], stop[order]
        before = np.append(-1, end[:-1])
        is_first = np.append(True, of[1:] != of[:-1])
        before[is_first] = self.at[of[is_first]]
        # elements that left the window while they were in the tail are in no segment
        follows = (begin == before) | ((begin > before) & (begin <= self.front[of]))
        for holds, why in (
            (follows, "it does not begin where the segment before it ends"),
            (end <= self.tail[of], "it has elements that are in its bucket, too"),
        ):
            if not holds.all():
                with decoding(f"page {index.segments[where[order[~holds].min()]].name!r}"):
                    require(False, why)
        self.at[of[np.append(is_first[1:], True)]] = end[np.append(is_first[1:], True)]

    def require_all(self, page: str) -> None:
        """Raises PageError unless the segments have had all elements below the tails."""
        with decoding(f"page {page!r}"):
            require((self.at == self.tail) | (self.tail <= self.front), _OTHER_COUNT)


def _whole(column: pa.Array) -> Ints:
    """A column of integers. Raises ValueError for a null."""
    require(not column.null_count, "a number is missing in a column of its keys")
    return numbers(column)


def _taken(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    return batch.take(array(rows))


def _mixed(start: int, a: int, log: LogRange) -> PageError:
    first, last = segment_name(start, a, log.first), segment_name(start, a, log.stop - 1)
    return PageError(
        f"one of the pages {first!r} to {last!r} is not of the call that their bucket lists: a write reached "
        "the store only in part, or an older copy was restored"
    )


_OTHER_COUNT = "the number of its elements differs from that of its keys"
