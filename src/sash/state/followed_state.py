"""State that another operator writes: single keys are loaded from its buckets when a lookup asks for them.

    commit      header ─┬─ b0  of this call       keys of b0 leave memory; its page is read when one is asked for again
                        ├─ b1  as before          keys of b1 stay in memory, and so does its page
                        └─ q7  of this call       read by the next lookup; q5 and q6 stay

A lookup after a commit costs the header, the buckets of its keys as far as they have changed, their new segments, and
the new pages of waiting rows. Pages that were read are kept: their generation says whether they are still of the last
commit, segments are never written again, and the bucket has a checksum of the generations of its segments. If memory
is bounded, pages take at most half of the bound, and those that were used least recently are dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.columns.keys import hashes_of, key_column
from sash.columns.time_numbers import Watermark
from sash.engine.atomic import all_at_once
from sash.engine.intake.reorder_buffer import ReorderBuffer, TimedRows
from sash.engine.keyed.live_engine import LiveEngine
from sash.kernels.loops.array_types import Ints
from sash.state.bucket_directory import BucketDirectory, Hashes
from sash.state.bucket_reader import Bucket, BucketEntry, BucketPage
from sash.state.buffer_pages import BufferPage
from sash.state.durable import TOGETHER, DurableState
from sash.state.header_page import Header
from sash.state.slot_codec import StateCodec
from sash.stores import PageError, Store
from sash.stores.envelope import decoding

# --- Kept pages ---


@dataclass
class WaitingPage:
    """A page of waiting rows: the rows by time, and where those of a key are."""

    generation: int
    rows: TimedRows
    hashes: Hashes
    """The hashes of the rows' keys, in order."""
    order: Ints
    """The rows in the order of these hashes."""

    def of(self, hashes: Hashes) -> Ints:
        """The rows with one of these distinct hashes of keys, by time."""
        low, high = (np.searchsorted(self.hashes, hashes, side) for side in ("left", "right"))
        found = [self.order[start:stop] for start, stop in zip(low.tolist(), high.tolist(), strict=True)]
        return np.sort(np.concatenate(found)) if len(found) > 1 else found[0]

    @property
    def nbytes(self) -> int:
        """The memory of the page."""
        return self.rows.table.nbytes + 4 * self.order.nbytes


class KeptPages:
    """Pages in memory by name, of at most this many bytes: the least recently used are dropped first."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._pages: OrderedDict[str, tuple[BucketPage | WaitingPage, int]] = OrderedDict()
        self._size = 0

    def get(self, name: str) -> BucketPage | WaitingPage | None:
        """A page, perhaps of an earlier generation; None if it was not kept."""
        found = self._pages.get(name)
        if found is None:
            return None
        self._pages.move_to_end(name)
        return found[0]

    def put(self, name: str, page: BucketPage | WaitingPage) -> None:
        """Keep a page, in place of an earlier one; again if it takes more memory now."""
        self.drop(name)
        self._pages[name] = page, 0 if self.limit is None else page.nbytes
        self._size += self._pages[name][1]
        while self.limit is not None and self._size > self.limit:
            self.drop(next(iter(self._pages)))

    def drop(self, name: str) -> None:
        """Drop a page, if it was kept."""
        found = self._pages.pop(name, None)
        self._size -= 0 if found is None else found[1]

    def names(self) -> list[str]:
        """The names of the pages."""
        return list(self._pages)

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def nbytes(self) -> int:
        """The memory of all pages, if it is limited."""
        return self._size


# --- Followed state ---


class FollowedState(DurableState):
    """The pages of an operator in a store, for lookups while it writes. Nothing is written."""

    def __init__(self, store: Store, engine: LiveEngine, codec: StateCodec, mode: str, buffer: ReorderBuffer | None):
        super().__init__(store, engine, codec, mode)
        self.buffer = buffer
        """An empty buffer, which puts waiting rows into their order."""
        self.kept = KeptPages(None if self.memory is None else self.memory // 2)

    # ---- following the writer ----

    def follow(self) -> Header:
        """Read the header that the writer has committed, and evict the keys of changed buckets from memory.

        Raises PageError. Then, and after an interrupt, the state in memory is unusable.
        """
        before, engine = self.buckets, self.engine
        self.transaction.forget_pages()
        header = self.open()
        if header is None:
            raise PageError(f"the state is gone from the store {self.transaction.store!r}")
        same = self.buckets.follow(before)
        if len(self.kept) > 2 * (len(self.buckets) + len(self.buffered.waiting)):
            self._drop_deleted()
        slots = engine.live
        if len(slots):
            all_at_once(engine.evicting(slots[~same[before.of(engine.table["hash"][slots].view(np.uint64))]]))
            engine.release()
        return header

    def _expect_buckets(self, directory: BucketDirectory) -> None:
        """Do nothing: the generation of a bucket is expected when it is read."""

    def _drop_deleted(self) -> None:
        """Drop pages that the writer has deleted."""
        filled = self.buckets.starts[self.buckets.keys > 0]
        waiting = {f"q{page.number}" for page in self.buffered.waiting}
        names = self.kept.names()
        buckets = [name for name in names if name[0] == "b"]
        starts = np.array([int(name[1:], 16) for name in buckets], np.uint64)
        gone = [buckets[i] for i in np.flatnonzero(~np.isin(starts, filled)).tolist()]
        for name in [*gone, *(name for name in names if name[0] == "q" and name not in waiting)]:
            self.kept.drop(name)

    # ---- before a lookup ----

    def load(self, columns: Sequence[pa.Array], rows: int, now: Watermark, everything: bool) -> None:
        """Load those of these keys that are not in memory."""
        assert now is None
        assert not everything
        self.call += 1
        if len(self.engine.gone):  # an interrupt has stopped their eviction
            self.engine.release()
        if not rows or not len(self.buckets):
            return
        buckets = self.buckets
        hashes = self._hashes(columns, rows)
        of = buckets.of(hashes)
        buckets.note_used(of, self.call)
        absent = (self.engine.keys.find(columns, rows, insert=False).slots < 0) & (buckets.keys[of] > 0)
        asked, of = hashes[absent], of[absent]
        touched = np.unique(of)
        for start in range(0, len(touched), TOGETHER):
            some = touched[start : start + TOGETHER].tolist()
            self._read_buckets(some)
            for i in some:
                self._load_keys(i, asked[of == i])

    def _hashes(self, columns: Sequence[pa.Array], rows: int) -> Hashes:
        return hashes_of(columns, rows)

    def _kept_bucket(self, i: int) -> BucketPage | None:
        found = self.kept.get(self.buckets.name(i))
        assert not isinstance(found, WaitingPage)
        return found

    def _read_buckets(self, some: Sequence[int]) -> None:
        """Read buckets that have changed in one round trip; `_page` finds them in the transaction."""
        generation = self.buckets.generation
        missing = {}
        for i in some:
            kept = self._kept_bucket(i)
            if kept is None or kept.generation != generation[i]:
                missing[self.buckets.name(i)] = int(generation[i])
        self.transaction.expect(missing)
        if missing:
            self.transaction.read("bucket", list(missing), self.codec.stored_schemas)

    def _page(self, i: int, listed: BucketEntry) -> BucketPage:
        """The page of a bucket, of the call that the header lists."""
        kept, generation = self._kept_bucket(i), int(self.buckets.generation[i])
        if kept is not None and kept.generation == generation:
            return kept
        found = self.reader.page(listed, generation, kept)
        self.transaction.forget_reads([listed.name])
        return found

    def _load_keys(self, i: int, hashes: Hashes) -> None:
        """Load keys of a bucket, which are not in memory, by their hashes."""
        buckets = self.buckets
        name = buckets.name(i)
        listed = BucketEntry(name, int(buckets.starts[i]), buckets.stop(i), int(buckets.keys[i]), self.logs.next_number)
        page = self._page(i, listed)
        some = np.flatnonzero(page.hashes == hashes if len(hashes) == 1 else np.isin(page.hashes, hashes))
        try:
            if len(some):
                self._put(name, self.reader.read_keys(listed, page, some))
        except PageError:
            self._put(name, self.reader.read_keys(listed, page, some, is_joined=False))  # it names the page
            raise
        self.kept.put(name, page)

    def _put(self, name: str, bucket: Bucket) -> None:
        """Load keys and their elements into the engine."""
        try:
            with decoding(f"page {name!r}"):
                slots = self.codec.put(bucket.stored, emitted=False)
            self._set_hashes(slots)
            for one in bucket.elements:
                with decoding(f"page {one.page!r}"):
                    self.codec.load_elements(one.arena, slots[one.entry], one.starts, one.stops, one.batch)
            self.codec.restore_counts(slots)
        except BaseException:
            self.codec.forget(bucket.stored)  # keys are loaded as a whole, or not at all
            raise

    def waiting(self, columns: Sequence[pa.Array], rows: int) -> TimedRows | None:
        """The waiting rows of these keys, in the order of their release; None if there are none."""
        if self.buffer is None or not self.buffered.waiting:
            return None
        hashes = np.unique(self._hashes(columns, rows))
        if not len(hashes):
            return None
        before = self.buffer.mark()
        try:
            for page in self._waiting_pages():
                at = page.of(hashes)
                at = at[np.searchsorted(at, self.buffered.released(page.rows)) :]
                if len(at):
                    self.buffer.push_and_release(page.rows.take(at), None)
            return self.buffer.rows() if len(self.buffer) else None
        finally:
            self.buffer.rollback(before)

    def _waiting_pages(self) -> list[WaitingPage]:
        found: dict[BufferPage, WaitingPage] = {}
        missing = []
        for page in self.buffered.waiting:
            kept = self.kept.get(f"q{page.number}")
            if isinstance(kept, WaitingPage) and kept.generation == self.transaction.generation_of(f"q{page.number}"):
                found[page] = kept
            else:
                missing.append(page)
        for start in range(0, len(missing), TOGETHER):
            some = missing[start : start + TOGETHER]
            self.buffered.read_together(some)  # one round trip
            for page in some:
                name = f"q{page.number}"
                rows = self.buffered.read_all(page)
                hashes = self._hashes([key_column(rows.table.column(by)) for by in self.bound_query.by], len(rows))
                order = np.argsort(hashes, kind="stable")
                generation = self.transaction.generation_of(name)
                found[page] = WaitingPage(generation, rows, hashes[order], order)
                self.kept.put(name, found[page])
                self.transaction.forget_reads([name])
        return [found[page] for page in self.buffered.waiting]

    # ---- what is not in memory ----

    @property
    def absent(self) -> tuple[int, int]:
        """The number of keys and elements that are only in the store."""
        buckets, engine = self.buckets, self.engine
        elements = int(buckets.elements.sum()) - engine.elements + self.buffered.absent
        return int(buckets.keys.sum()) - engine.keys.count, elements
