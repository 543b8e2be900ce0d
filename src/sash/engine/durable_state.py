"""Durable state: the pages of a store that an operator's live state is kept in, and opened from.

    header            how far the operator has come, and what pages there are
    b<hash>           a bucket: the keys of a range of hashes, with their elements
    r<key>.<a>.<n>    a run: 4,096 elements of one key with very many, written once
    q<n>, held        rows that wait (`buffer_pages.py`)

A bucket is read when one of its keys is first touched, or has something due; from then on its keys live in memory. At
the end of a call the buckets of all keys that have changed are written, and the header behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.engine.bucket_directory import BucketDirectory
from sash.engine.bucket_reader import BucketReader, Listed, run_mark
from sash.engine.buffer_pages import BufferMark, BufferPages
from sash.engine.key_values import keys_of
from sash.engine.live_engine import LiveEngine
from sash.engine.reorder_buffer import TimedRows
from sash.engine.state_checks import require
from sash.engine.state_codec import StateCodec
from sash.engine.state_header import Header, StoredState, read_header
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_loops import BACK, FRONT
from sash.kernels.loops.slot_loops import DUE
from sash.stores import PageError, Store
from sash.stores.envelope import decoding

BUCKET = 1 << 17
"""A bucket page beyond this many bytes is cut in two."""

SMALL_BUCKET = 1 << 12
"""The same where memory is bounded and the state is small."""

TOGETHER = 64
"""So many buckets are encoded at once."""

RUN = 4096
"""Elements of a run page."""


class DurableMark(NamedTuple):
    """The state before a call, for `rollback`."""

    buckets: BucketDirectory
    buffered: BufferMark
    next_large: int


class DurableState(StoredState):
    """The pages of one operator in a store."""

    def __init__(self, store: Store, engine: LiveEngine, codec: StateCodec, mode: str) -> None:
        bound_query = engine.bound_query
        super().__init__(store, bound_query, mode)
        self.engine, self.codec = engine, codec
        self.emit = bound_query.query.emit
        self.runs = [f"runs{a}" for a in range(len(codec.arenas))]
        self.reader = BucketReader(self.transaction, engine, codec)
        self.buckets = BucketDirectory(engine.timers.never, engine.numbers)
        self.buffered = BufferPages(self.transaction, bound_query, engine.room)
        self.next_large = 0
        self.call = 0
        """Counts calls and lookups, so that it is known when a bucket was last used."""
        self.memory = bound_query.query.options.memory_limit
        self._numbering = engine.numbering

    @staticmethod
    def add_columns(engine: LiveEngine, arenas: int) -> None:
        """Add what this needs of every slot, before the codec looks at the slot table."""
        engine.table.add("hash", np.int64, 0, derived=True)
        engine.table.add("large", np.int64, -1)
        for a in range(arenas):
            # the first run that is there, the one behind the last, and a sum of their generations
            engine.table.add(f"runs{a}", np.int64, [0, 0, 0])

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
            require(not waiting.num_rows or (in_order and self.mode != "sorted"), "it lists rows that wait for nothing")
            require(not header.has_held or (in_order and self.mode == "sorted"), "it lists rows that wait for peers")
        directory = self.buckets = BucketDirectory.read(buckets, self.engine.timers.never, self.engine.numbers)
        self.transaction.expect({directory.name(i): int(directory.generation[i]) for i in directory.absent().tolist()})
        self.buffered.open(header, waiting)
        self.next_large = header.large
        self.transaction.opened()
        return header

    def follow(self) -> Header:
        """Take up what another writer has committed: keys of buckets that have changed leave memory.

        Raises PageError. Then, and after an interrupt, the state in memory is unusable.
        """
        before, engine = self.buckets, self.engine
        self.transaction.forget_pages()
        header = self.open()
        if header is None:
            raise PageError(f"the state is gone from the store {self.transaction.store!r}")
        same = self.buckets.keep_loaded(before)
        self.buckets.loaded |= self.buckets.keys == 0
        slots = engine.live
        if len(slots):
            engine.gone = slots[~same[before.of(engine.table["hash"][slots].view(np.uint64))]]
            engine.release()
        return header

    # ---- before a step ----

    is_shared = True
    """Will others open the store? Pages of a snapshot have no token."""

    def load(self, columns: Sequence[pa.Array], rows: int, now: Any, everything: bool) -> None:
        """Bring the buckets of these keys into memory, and those of which something is due at `now`."""
        buckets = self.buckets
        self.call += 1
        if len(self.engine.gone):  # what was to leave memory after the last call, should that have been interrupted
            self.engine.release()
        missing = buckets.absent()
        if not len(missing) and self.memory is None:
            return
        wanted = missing if everything else buckets.absent(now) if now is not None else missing[:0]
        if rows and not everything and len(buckets):
            hashes = keys_of(columns, rows).hashes() if columns else np.zeros(1, np.uint64)
            touched = np.unique(buckets.of(hashes))
            buckets.used[touched] = self.call
            wanted = np.union1d(wanted, touched[~buckets.loaded[touched]])
        for start in range(0, len(wanted), TOGETHER):
            some = wanted[start : start + TOGETHER].tolist()
            names = [buckets.name(i) for i in some]
            self.transaction.read("bucket", names, self.codec.schemas)  # one round trip
            for i in some:
                self._load_bucket(i)
            self.transaction.forget_reads(names)

    def load_all(self) -> None:
        """Bring everything into memory."""
        self.load([], 0, None, everything=True)

    def _load_bucket(self, i: int) -> None:
        buckets = self.buckets
        name = buckets.name(i)
        listed = Listed(name, int(buckets.starts[i]), buckets.stop(i), int(buckets.keys[i]), self.next_large, RUN)
        bucket = self.reader.read(listed)
        try:
            with decoding(f"page {name!r}"):
                slots = self.codec.put(bucket.stored, bucket.emit == self.emit)
            self._set_hashes(slots)
            for run in bucket.runs:
                of, stops = slots[run.entry : run.entry + 1], np.array([run.start + run.batch.num_rows])
                with decoding(f"page {run.page!r}"):
                    self.codec.load_elements(run.arena, of, np.array([run.start]), stops, run.batch)
            if buckets.members is not None:
                buckets.members[i] = np.sort(slots)
            buckets.loaded[i], buckets.used[i] = True, self.call
        except BaseException:
            buckets.members = None
            self.codec.forget(bucket.stored)  # keys are in memory as a whole, or not at all
            raise

    def _set_hashes(self, slots: Ints) -> None:
        if self.engine.keys.types and len(slots):
            found = keys_of(self.engine.keys.keys(slots), len(slots))
            self.engine.table["hash"][slots] = found.hashes()[found.codes].view(np.int64)

    # ---- committing ----

    def write(self, header: Header, changed: Ints, fresh: Ints, given: TimedRows | None, watermark: Any) -> None:
        """Hand to the store what has changed: these slots, the rows of the call that wait, the header."""
        if self.is_shared:
            self.transaction.number_call()
        self._set_hashes(fresh)
        self._write_buckets(changed)
        self.buffered.write(given, header.held, watermark)
        header = replace(header, large=self.next_large)
        self.next_page = self.buffered.next_page
        self.commit_header(header, self.buckets.batch(), self.buffered.entries(), self.is_shared)

    def _write_buckets(self, changed: Ints) -> None:
        """Write the buckets that these slots belong to: looks at their keys, and at no others."""
        engine, buckets = self.engine, self.buckets
        if not len(buckets):
            buckets.begin()
        hashes = engine.table["hash"].view(np.uint64)
        for slot in engine.gone.tolist():
            self._drop_runs(slot)
        if buckets.members is None or self._numbering != engine.numbering:
            buckets.find_members(np.setdiff1d(engine.live, engine.gone), hashes)
            self._numbering = engine.numbering
        doubtful = buckets.named(self.transaction.doubtful)
        touched = np.union1d(buckets.changed_members(changed, engine.gone, hashes), doubtful).astype(int).tolist()
        buckets.used[touched] = self.call
        for stop in range(len(touched), 0, -TOGETHER):  # cutting one in two moves those behind it
            self._write_together(touched[max(stop - TOGETHER, 0) : stop])

    def _write_together(self, several: Sequence[int]) -> None:
        """Write some buckets. Those that are too large are cut."""
        buckets = self.buckets
        assert buckets.members is not None
        members = [buckets.members[i] for i in several]
        slots, counts = np.concatenate(members), np.array([len(mine) for mine in members])
        buckets.scanned += len(slots)
        cuts = [self._write_runs(a, slots) for a in range(len(self.runs))]
        encoded = self.codec.encode_parts(slots, cuts, counts)
        for i, mine, batches in zip(reversed(several), reversed(members), reversed(encoded), strict=True):
            if not len(mine):
                self.transaction.drop([buckets.name(i)])
                buckets.clear(i)
                continue
            size = self.transaction.write("bucket", buckets.name(i), {"emit": self.emit}, batches)
            if made := self._cut(i, size):
                self._write_together(range(i, i + made + 1))
            else:
                self._describe(i, mine)

    @property
    def _largest_bucket(self) -> int:
        """Bytes of a bucket page, at most.

        Where memory is bounded, a thousand buckets that a call touches are to take a quarter of it; but the header,
        which lists the buckets and is written with each call, is to have no more than some 30,000 of them.
        """
        if self.memory is None:
            return BUCKET
        return min(BUCKET, max(SMALL_BUCKET, self.memory >> 12, self.transaction.nbytes >> 14))

    def _cut(self, i: int, size: float) -> int:
        """Cut a bucket in halves until all are small enough, as far as can be told; returns the number of cuts."""
        buckets = self.buckets
        assert buckets.members is not None
        count = len(buckets.members[i])
        if size <= self._largest_bucket or count <= 1 or not buckets.is_divisible(i):
            return 0
        buckets.cut(i, self.engine.table["hash"].view(np.uint64))
        upper = self._cut(i + 1, size * len(buckets.members[i + 1]) / count)
        return self._cut(i, size * len(buckets.members[i]) / count) + 1 + upper

    def _describe(self, i: int, members: Ints) -> None:
        """Note in the directory what a bucket has, as it was written."""
        elements = len(members) * (len(self.engine.assigners) - len(self.codec.arenas))
        for assigner in self.codec.arenas:
            heads = assigner.arena.heads
            elements += int((heads[members, BACK] - heads[members, FRONT]).sum())
        buckets = self.buckets
        buckets.due[i] = self.engine.table["stamps"][members, DUE].min()
        buckets.keys[i], buckets.elements[i], buckets.generation[i] = (
            len(members),
            elements,
            self.transaction.generation,
        )

    def _write_runs(self, a: int, members: Ints) -> Ints:
        """Write full runs of keys with very many elements, drop those that are over; the rest goes to the bucket."""
        heads, bounds = self.codec.arenas[a].arena.heads, self.engine.table[self.runs[a]]
        for slot in members[(heads[members, BACK] - heads[members, FRONT]) > 2 * RUN].tolist():
            front, back = int(heads[slot, FRONT]), int(heads[slot, BACK])
            if self.engine.table["large"][slot] < 0:
                self.engine.table["large"][slot] = self.next_large
                self.next_large += 1
            if bounds[slot, 0] == bounds[slot, 1]:
                bounds[slot] = front // RUN, front // RUN, 0
            for run in range(int(bounds[slot, 1]), (back - 1) // RUN):  # the last element may still change
                start = max(run * RUN, front)
                of, stop = np.array([slot]), np.array([(run + 1) * RUN])
                batch = self.codec.encode_elements(a, of, np.array([start]), stop)
                self.transaction.write("run", self._run(slot, a, run), {"start": start}, [batch])
                bounds[slot, 1:] = run + 1, bounds[slot, 2] ^ run_mark(run, self.transaction.generation)
        for slot in members[bounds[members, 0] < bounds[members, 1]].tolist():
            first_needed = min(max(int(heads[slot, FRONT]) // RUN, int(bounds[slot, 0])), int(bounds[slot, 1]))
            for run in range(int(bounds[slot, 0]), first_needed):
                name = self._run(slot, a, run)
                bounds[slot, 2] ^= run_mark(run, self.transaction.generation_of(name))
                self.transaction.drop([name])
            bounds[slot, 0] = first_needed
        return np.where(bounds[members, 0] < bounds[members, 1], bounds[members, 1] * RUN, 0)

    def _drop_runs(self, slot: int) -> None:
        for a, name in enumerate(self.runs):
            first, stop, _ = self.engine.table[name][slot].tolist()
            self.transaction.drop([self._run(slot, a, run) for run in range(first, stop)])

    def _run(self, slot: int, a: int, run: int) -> str:
        return f"r{int(self.engine.table['large'][slot])}.{a}.{run}"

    # ---- elsewhere ----

    def move(self, store: Store) -> None:
        """Go on with another store, which has the same pages."""
        self.transaction.store = store
        self.transaction.claim()

    def detach(self) -> None:
        """The state is in memory alone from now on: no run of it is anywhere else."""
        self.engine.table["large"][:] = -1
        for name in self.runs:
            self.engine.table[name][:] = 0

    # ---- what is not in memory ----

    @property
    def absent(self) -> tuple[int, int]:
        """Return how many keys and elements are in the store alone."""
        missing = self.buckets.absent()
        elements = int(self.buckets.elements[missing].sum()) + self.buffered.absent
        return int(self.buckets.keys[missing].sum()), elements

    @property
    def due(self) -> Any:
        """The least watermark at which something that is in the store alone is due; None if nothing is."""
        due = self.buckets.due[self.buckets.absent()].min(initial=self.buckets.never).item()
        missing = [] if due == self.buckets.never else [due]
        return min([*missing, *self.buffered.due], default=None)

    def mark(self) -> DurableMark:
        """Return the state that `rollback` needs."""
        self.transaction.begin()
        return DurableMark(self.buckets.copy(), self.buffered.mark(), self.next_large)

    def rollback(self, mark: DurableMark) -> None:
        """Forget a call that failed. What it has loaded stays in memory."""
        self.transaction.rollback()
        self.buffered.rollback(mark.buffered)
        self.next_large = mark.next_large
        buckets = mark.buckets.copy()
        # buckets are only ever cut
        same = np.searchsorted(self.buckets.starts, mark.buckets.starts)
        buckets.loaded, buckets.used = self.buckets.loaded[same], self.buckets.used[same]
        self.buckets = buckets
