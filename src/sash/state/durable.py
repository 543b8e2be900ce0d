"""Durable state: saves the live state of an operator as pages of a store, and loads it from them.

    header            the progress of the operator, and the list of its pages
    b<hash>           a bucket: the keys of a range of hashes, with their last elements
    s<hash>.<a>.<n>   a segment: elements of keys of a bucket, written once (`bucket_log.py`)
    q<n>, held        rows that wait (`buffer_pages.py`)

A bucket is read when a row comes for one of its keys, or a timer of one is due; from then on its keys are in memory.
At the end of a call the buckets of all changed keys are written, and the header last.

The memory bound: evicts the least recently used keys from memory; the store still has them.

    after a call      live state   ████████████████████▌ │ bound
                      leave        ░░░░░░░░░               buckets, the least recently used first
                      arrays are packed: ████████│

Buckets are loaded and evicted as a whole. After a commit the store has every bucket as it is in memory, so eviction
writes nothing. Rows of the reorder buffer are in pages of their own, which are read when the watermark reaches them:
they are evicted if they alone take half of the bound.

During a call the buckets that it needs are in memory: those of its own keys, and those with a result due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.keys import hashes_of, keys_of
from sash.columns.time_numbers import Watermark
from sash.engine.atomic import all_at_once
from sash.engine.emit.emitter import ChangeEmitter
from sash.engine.intake.reorder_buffer import ReorderBuffer, TimedRows
from sash.engine.keyed.arena import RingRanges
from sash.engine.keyed.live_engine import LiveEngine
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.ring_loops import BACK, CAPACITY, FRONT
from sash.kernels.loops.slot_loops import DUE
from sash.plan.time_axis import Number
from sash.state.bucket_directory import BucketDirectory
from sash.state.bucket_log import BucketLogs
from sash.state.bucket_reader import BucketEntry, BucketReader, StoredElements
from sash.state.buffer_pages import BufferMark, BufferPages
from sash.state.header_page import Header, StoredState, read_header
from sash.state.page_checks import require
from sash.state.slot_codec import StateCodec, tail_name
from sash.stores import PageError, Store
from sash.stores.envelope import decoding

# --- Durable state ---

BUCKET = 1 << 17
"""A bucket is split in two if its page has more bytes than this, or if a call writes more than twice as many to it."""

LARGE_BUCKET = 1 << 21
"""A bucket is split in two if its page and segments have more bytes than this."""

SMALL_BUCKET = 1 << 12
"""The same limit if memory is bounded and the state is small."""

TOGETHER = 64
"""Buckets that are read or encoded at once."""


class DurableMark(NamedTuple):
    """The state before a call, for `rollback`."""

    buckets: BucketDirectory
    buffered: BufferMark
    next_number: int


class DurableState(StoredState):
    """The pages of one operator in a store.

    is_shared: may other operators open the store? The pages of a snapshot have no token.
    """

    def __init__(self, store: Store, engine: LiveEngine, codec: StateCodec, mode: str, is_shared: bool = True) -> None:
        bound_query = engine.bound_query
        super().__init__(store, bound_query, mode)
        self.engine, self.codec, self.is_shared = engine, codec, is_shared
        self.emit = bound_query.query.emit
        self.reader = BucketReader(self.transaction, engine, codec)
        self.buckets = BucketDirectory(engine.timers.never, engine.numbers)
        self.buffered = BufferPages(self.transaction, bound_query, engine.limits)
        self.logs = BucketLogs(self.transaction, engine, codec)
        self.call = 0
        """The number of calls and lookups so far, to record when a bucket was last used."""
        self.memory = bound_query.query.options.memory_limit
        self._numbering = engine.numbering

    @staticmethod
    def add_columns(engine: LiveEngine) -> None:
        """Add the columns that this class needs in the slot table. Call it before the codec is created."""
        engine.table.add("hash", np.int64, 0, derived=True)
        BucketLogs.add_columns(engine)

    # ---- opening ----

    def open(self) -> Header | None:
        """Read the header; None if the store is empty. Raises PageError."""
        found = read_header(self.transaction, self.mode, self.number_type)
        if found is None:
            return None
        header, buckets, waiting = found
        if header.eager:
            raise PageError("the state was written with emit='eager': open it with emit='eager'")
        with decoding("page 'header'"):
            in_order = self.engine.bound_query.time is not None
            require(
                not waiting.num_rows or (in_order and self.mode != "sorted"),
                "it lists waiting rows, which this query cannot have",
            )
            require(not header.has_held or (in_order and self.mode == "sorted"), "it lists rows that wait for peers")
        directory = self.buckets = BucketDirectory.read(buckets, self.engine.timers.never, self.engine.numbers)
        self._expect_buckets(directory)
        self.buffered.open(header, waiting)
        self.logs.open(header.number)
        return header

    def _expect_buckets(self, directory: BucketDirectory) -> None:
        """Set the generations that the pages of buckets must have."""
        self.transaction.expect({directory.name(i): int(directory.generation[i]) for i in directory.absent().tolist()})

    # ---- before a step ----

    def load(self, columns: Sequence[pa.Array], rows: int, now: Watermark, everything: bool) -> None:
        """Load the buckets of these keys and those with a timer due at `now`, or all of them."""
        buckets = self.buckets
        self.call += 1
        if len(self.engine.gone):  # an interrupt has stopped their eviction after the last call
            self.engine.release()
        missing = buckets.absent()
        if not len(missing) and self.memory is None:
            return
        wanted = missing if everything else buckets.absent(now) if now is not None else missing[:0]
        if rows and not everything and len(buckets):
            hashes = keys_of(columns, rows).hashes() if columns else np.zeros(1, np.uint64)
            touched = np.unique(buckets.of(hashes))
            buckets.note_used(touched, self.call)
            wanted = np.union1d(wanted, touched[~buckets.loaded[touched]])
        self.load_buckets(wanted)

    def load_buckets(self, some: Ints) -> None:
        """Load those of some buckets that are not in memory."""
        buckets = self.buckets
        wanted = some[~buckets.loaded[some]]
        for start in range(0, len(wanted), TOGETHER):
            some = wanted[start : start + TOGETHER].tolist()
            names = [buckets.name(i) for i in some]
            self.transaction.read("bucket", names, self.codec.stored_schemas)  # one round trip
            for i in some:
                self._load_bucket(i)
            self.transaction.forget_reads(names)

    def drop_buckets(self, some: Ints) -> None:
        """Delete buckets whose keys have all been released, once the call has succeeded."""
        for i in some.tolist():
            if self.buckets.keys[i]:
                self._drop_bucket(i)
        self.buckets.forget_members()

    def _drop_bucket(self, i: int) -> None:
        self.logs.release(int(self.buckets.starts[i]), NO_INTS)
        self.transaction.drop([self.buckets.name(i)])
        self.buckets.clear(i)

    def _load_bucket(self, i: int) -> None:
        buckets = self.buckets
        name = buckets.name(i)
        start = int(buckets.starts[i])
        bucket = self.reader.read(
            BucketEntry(name, start, buckets.stop(i), int(buckets.keys[i]), self.logs.next_number)
        )
        try:
            with decoding(f"page {name!r}"):
                slots = self.codec.put(bucket.stored, bucket.emit == self.emit)
            self._set_hashes(slots)
            for some in bucket.elements:
                with decoding(f"page {some.page!r}"):
                    self._load_elements(slots, some)
            self.codec.restore_counts(slots)
            self.logs.loaded(start, bucket.logs, slots)
            buckets.note_loaded(i, slots, self.call)
        except BaseException:
            buckets.forget_members()
            self.codec.forget(bucket.stored)  # a bucket is loaded as a whole, or not at all
            raise

    def _load_elements(self, slots: Ints, some: StoredElements) -> None:
        of = slots[some.entry]
        self.codec.load_elements(some.arena, of, some.starts, some.stops, some.batch)
        if some.segment >= 0:
            ranges = RingRanges(self.codec.arenas[some.arena].arena, of, some.starts, some.stops)
            self.logs.load_segment(some.page, some.written, some.arena, some.segment, ranges)

    def _set_hashes(self, slots: Ints) -> None:
        if self.engine.keys.types and len(slots):
            self.engine.table["hash"][slots] = hashes_of(self.engine.keys.keys(slots), len(slots)).view(np.int64)

    # ---- committing ----

    def write(self, header: Header, changed: Ints, fresh: Ints, given: TimedRows | None, watermark: Watermark) -> None:
        """Write the changes of a call to the store: these slots, its buffered rows, and the header."""
        if self.is_shared:
            self.transaction.number_call()
        self._set_hashes(fresh)
        self._write_buckets(changed)
        self.buffered.write(given, header.held, watermark)
        header = replace(header, number=self.logs.next_number)
        self.next_page = self.buffered.next_page
        self.commit_header(header, self.buckets.batch(), self.buffered.entries(), self.is_shared)

    def _write_buckets(self, changed: Ints) -> None:
        """Write the buckets that these slots belong to. The cost depends on their keys only."""
        engine, buckets = self.engine, self.buckets
        if not len(buckets):
            buckets.begin()
        hashes = engine.table["hash"].view(np.uint64)
        if buckets.members is None or self._numbering != engine.numbering:
            buckets.find_members(np.setdiff1d(engine.live, engine.gone), hashes)
            self._numbering = engine.numbering
        uncertain = buckets.named(self.transaction.uncertain)
        touched = sorted({*buckets.changed_members(changed, engine.gone, hashes), *uncertain})
        buckets.note_used(touched, self.call)
        for stop in range(len(touched), 0, -TOGETHER):  # from the last on: a split renumbers the buckets after it
            self._write_together(touched[max(stop - TOGETHER, 0) : stop])

    def _write_together(self, several: Sequence[int], is_cut: bool = False) -> None:
        """Write some buckets, and split those that are too large; `is_cut`: a split has just created them."""
        buckets, table = self.buckets, self.engine.table
        assert buckets.members is not None
        for i in several:
            if not len(buckets.members[i]):
                self._drop_bucket(i)
        several = [i for i in several if len(buckets.members[i])]
        if not several:
            return
        starts, members = buckets.starts[several].tolist(), [buckets.members[i] for i in several]
        slots, counts = np.concatenate(members), np.array([len(mine) for mine in members])
        buckets.count_scanned(len(slots))
        sizes = self.logs.write(starts, slots, counts)
        tails = [table[tail_name(a)][slots] for a in range(len(self.codec.arenas))]
        layouts, encoded = self.codec.encode(slots, tails, counts)
        self._describe(several, slots, counts)
        for i, start, batches, log in zip(*map(reversed, (several, starts, encoded, sizes)), strict=True):
            meta = {"emit": self.emit, "columns": layouts, **self.logs.meta(start)}
            page = self.transaction.write("bucket", buckets.name(i), meta, batches)
            written = page if is_cut else page + log.written
            if made := self._cut(i, self._excess(page, written, page + log.live)):
                self.logs.release(start, np.concatenate(buckets.members[i : i + made + 1]))
                self._write_together(range(i, i + made + 1), is_cut=True)

    def _excess(self, page: float, written: float, size: float) -> float:
        """The size of a bucket relative to its target: the largest ratio of its page, a call's writes, and its content.

        Loading a key reads its bucket with all segments, so their size is bounded; but a call that changes all keys
        should not write many small pages. If memory is bounded, a thousand buckets should take a quarter of it; but the
        header, which lists the buckets and is written with each call, should list no more than about 30,000 of them.
        """
        if self.memory is not None:
            return size / min(BUCKET, max(SMALL_BUCKET, self.memory >> 12, self.transaction.nbytes >> 14))
        return max(page / BUCKET, written / (2 * BUCKET), size / LARGE_BUCKET)

    def _cut(self, i: int, excess: float) -> int:
        """Split a bucket in halves until each is estimated to be small enough; returns the number of splits."""
        buckets = self.buckets
        assert buckets.members is not None
        count = len(buckets.members[i])
        if excess <= 1 or count <= 1 or not buckets.is_divisible(i):
            return 0
        buckets.cut(i, self.engine.table["hash"].view(np.uint64))
        upper = self._cut(i + 1, excess * len(buckets.members[i + 1]) / count)
        return self._cut(i, excess * len(buckets.members[i]) / count) + 1 + upper

    def _describe(self, several: Sequence[int], slots: Ints, counts: Ints) -> None:
        """Update the directory entries of buckets that are written."""
        elements = np.full(len(slots), len(self.engine.assigners) - len(self.codec.arenas))
        for assigner in self.codec.arenas:
            heads = assigner.arena.heads
            elements += heads[slots, BACK] - heads[slots, FRONT]
        edges = np.cumsum(counts) - counts
        due = np.minimum.reduceat(self.engine.table["stamps"][slots, DUE], edges)
        held = np.add.reduceat(elements, edges)
        self.buckets.describe(several, due, counts, held, self.transaction.generation)

    def detach(self) -> None:
        """Keep the state only in memory from now on, without segments in a store."""
        self.logs.detach()

    # ---- what is not in memory ----

    @property
    def absent(self) -> tuple[int, int]:
        """The number of keys and elements that are only in the store."""
        missing = self.buckets.absent()
        elements = int(self.buckets.elements[missing].sum()) + self.buffered.absent
        return int(self.buckets.keys[missing].sum()), elements

    @property
    def due(self) -> Number | None:
        """The least watermark at which a key that is only in the store is due; None if none is."""
        due = self.buckets.due[self.buckets.absent()].min(initial=self.buckets.never).item()
        missing = [] if due == self.buckets.never else [due]
        return min([*missing, *self.buffered.due], default=None)

    def mark(self) -> DurableMark:
        """Return the state that `rollback` needs."""
        self.transaction.begin()
        return DurableMark(self.buckets.copy(), self.buffered.mark(), self.logs.begin())

    def rollback(self, mark: DurableMark) -> None:
        """Undo a failed call. Keys that it has loaded stay in memory."""
        self.transaction.rollback()
        self.buffered.rollback(mark.buffered)
        self.logs.rollback(mark.next_number)
        self.buckets = mark.buckets.rolled_back(self.buckets)


# --- Memory bound ---

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
            arena = assigner.arena
            found += arena.heads[slots, CAPACITY] * (arena.nbytes / max(arena.length, 1))
        return found
