"""Durable state: the pages of a store that an operator's live state is kept in, and opened from.

    header            how far the operator has come, and what pages there are
    b<hash>           a bucket: the keys of a range of hashes, with their elements
    r<key>.<a>.<n>    a run: 4,096 elements of one key with very many, written once
    q<n>              rows of the reorder buffer, as they came with one call
    held              in mode "sorted": rows whose peers may still follow

A bucket is read when one of its keys is first touched, or has something due; from then on its keys live in memory. At
the end of a call the buckets of all keys that have changed are written, and the header behind them.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array, together
from sash.engine.bucket_directory import BucketDirectory
from sash.engine.bucket_reader import BucketReader, Listed, run_mark
from sash.engine.key_values import decoded_schema, keys_of
from sash.engine.live_engine import LiveEngine
from sash.engine.page_transaction import Pages
from sash.engine.reorder_buffer import TimedRows
from sash.engine.sorted_rows import SortedRows
from sash.engine.state_checks import require
from sash.engine.state_codec import StateCodec
from sash.engine.state_header import Header, read_header, write_header
from sash.engine.step_data import Ints
from sash.kernels.loops.live_loops import BACK, FRONT
from sash.kernels.loops.slot_loops import DUE
from sash.stores import PageError, Store
from sash.stores.envelope import decoding

BUCKET = 1 << 17
"""A bucket page beyond this many bytes is cut in two."""

TOGETHER = 64
"""So many buckets are encoded at once."""

RUN = 4096
"""Elements of a run page."""

ROWS = 1 << 14
"""Rows of a page of the reorder buffer, at most."""

MERGE = 16
"""So many small pages of the reorder buffer become one."""


@dataclass(frozen=True)
class BufferPage:
    """A page of the reorder buffer: the least and the greatest time in it, and whether its rows are in memory."""

    number: int
    low: Any
    high: Any
    rows: int
    in_memory: bool


class DurableState:
    """The pages of one operator in a store."""

    def __init__(self, store: Store, engine: LiveEngine, codec: StateCodec, mode: str) -> None:
        self.store, self.engine, self.codec, self.mode = store, engine, codec, mode
        bound_query = engine.bound_query
        self.pages = Pages(store, bound_query.fingerprint)
        self.emit = bound_query.query.emit
        self.rows = pa.schema([*decoded_schema(bound_query.schema), pa.field(_ARRIVAL, pa.int64())])
        self.runs = [f"runs{a}" for a in range(len(codec.arenas))]
        self.reader = BucketReader(self.pages, engine, codec)
        self.buckets = BucketDirectory(engine.timers.never, engine.numbers)
        self.waiting: tuple[BufferPage, ...] = ()
        self.next_large = self.next_page = 0
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
        found = read_header(self.pages, self.mode, self.number_type)
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
        rows = list(zip(*(column.to_pylist() for column in waiting.columns), strict=True))
        self.waiting = tuple(BufferPage(page, low, high, count, False) for page, low, high, count, _ in rows)
        self.pages.expect({directory.name(i): int(directory.generation[i]) for i in directory.absent().tolist()})
        self.pages.expect({f"q{page[0]}": page[-1] for page in rows})
        self.pages.expect({"held": header.held_generation} if header.has_held else {})
        self.next_large, self.next_page, self.holds = header.large, header.page, header.has_held
        self.pages.opened()
        return header

    def held(self) -> TimedRows | None:
        """The rows that wait for their peers, in mode "sorted"."""
        found = self._read_rows("held", "held")
        with decoding("page 'held'"):
            peers = SortedRows(self.engine.bound_query).waiting(found.table, found.time)
            require(len(found) and peers == len(found), "it has rows that are not of one key and time")
        return found

    def _read_rows(self, kind: str, name: str) -> TimedRows:
        ((_, (batch,)),) = self.pages.read(kind, [name], [self.rows])
        axis = self.engine.bound_query.time
        assert axis is not None
        with decoding(f"page {name!r}"):
            time, valid = axis.numbers(batch.column(axis.column))
            arrival = batch.column(batch.num_columns - 1)
            require(valid, "it has a row without a time")
            require(not arrival.null_count, "it has a row that never came")
            self.engine.require_room(batch, time, valid)
        return TimedRows(
            pa.RecordBatch.from_arrays(batch.columns[:-1], schema=decoded_schema(self.engine.bound_query.schema)),
            np.ascontiguousarray(time),
            arrival.to_numpy(),
        )

    # ---- before a step ----

    def released(self, watermark: Any, everything: bool) -> list[TimedRows]:
        """Rows that wait in the store and are due: they are in memory from now on."""
        found, after = [], []
        for page in self.waiting:
            due = everything or (watermark is not None and page.low < watermark)
            if page.in_memory or not due:
                after.append(page)
                continue
            found.append(self._read_waiting(page))
            after.append(replace(page, in_memory=True))
        self.waiting = tuple(after)
        return found

    def _read_waiting(self, page: BufferPage) -> TimedRows:
        """The rows of a page that have not left yet."""
        name = f"q{page.number}"
        rows = self._read_rows("buffer", name)
        with decoding(f"page {name!r}"):
            require(len(rows) == page.rows > 0, f"it has {len(rows)} rows, and by the header {page.rows}")
            require(rows.time[1:] >= rows.time[:-1], "its rows are not in order")
            require(rows.time[0] == page.low and rows.time[-1] == page.high, "its times are not those of the header")
        if self.settled is None:
            return rows
        start = int(np.searchsorted(rows.time, self.settled))
        return rows.slice(start, len(rows))

    token = ""
    """That of the last commit."""

    is_shared = True
    """Will others open the store? Pages of a snapshot have no token."""

    holds = False
    """Is there a page of rows that wait for their peers?"""

    settled: Any = None
    """The watermark at the last commit: rows below it have left."""

    def load(self, columns: Sequence[pa.Array], rows: int, now: Any, everything: bool) -> None:
        """Bring the buckets of these keys into memory, and those of which something is due at `now`."""
        buckets = self.buckets
        missing = buckets.absent()
        if not len(missing):
            return
        wanted = missing if everything else buckets.absent(now) if now is not None else missing[:0]
        if rows and not everything:
            hashes = keys_of(columns, rows).hashes() if columns else np.zeros(1, np.uint64)
            touched = np.unique(buckets.of(hashes))
            wanted = np.union1d(wanted, touched[~buckets.loaded[touched]])
        for i in wanted.tolist():
            self._load_bucket(i)

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
            buckets.loaded[i] = True
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
            self.pages.number_call()
        self._set_hashes(fresh)
        self._write_buckets(changed)
        self._write_waiting(given, watermark)
        if header.held is not None:
            self.pages.write("held", "held", {}, [self._batch(header.held)])
        elif self.holds:
            self.pages.drop(["held"])
        self.holds = header.held is not None
        token = secrets.token_hex(16) if self.is_shared else ""
        header = replace(header, large=self.next_large, page=self.next_page, token=token)
        write_header(self.pages, header, self.mode, self.buckets.batch(), self._waiting_directory())
        self.pages.commit()
        self.token = token

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
        doubtful = buckets.named(self.pages.doubtful)
        touched = np.union1d(buckets.changed_members(changed, engine.gone, hashes), doubtful).astype(int).tolist()
        for stop in range(len(touched), 0, -TOGETHER):  # cutting one in two moves those behind it
            self._write_together(touched[max(stop - TOGETHER, 0) : stop])

    def _write_together(self, several: Sequence[int]) -> None:
        """Write some buckets. Those that are too large are cut."""
        buckets = self.buckets
        assert buckets.members is not None
        members = [buckets.members[i] for i in several]
        slots, counts = np.concatenate(members), np.array([len(mine) for mine in members])
        buckets.looked_at += len(slots)
        cuts = [self._write_runs(a, slots) for a in range(len(self.runs))]
        parts = self.codec.encode_parts(slots, cuts, counts)
        for i, mine, batches in zip(reversed(several), reversed(members), reversed(parts), strict=True):
            if not len(mine):
                self.pages.drop([buckets.name(i)])
                buckets.clear(i)
                continue
            size = self.pages.write("bucket", buckets.name(i), {"emit": self.emit}, batches)
            if made := self._cut(i, size):
                self._write_together(range(i, i + made + 1))
            else:
                self._describe(i, mine)

    def _cut(self, i: int, size: float) -> int:
        """Cut a bucket in halves until all are small enough, as far as can be told; returns the number of cuts."""
        buckets = self.buckets
        assert buckets.members is not None
        count = len(buckets.members[i])
        if size <= BUCKET or count <= 1 or not buckets.is_divisible(i):
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
        buckets.keys[i], buckets.elements[i], buckets.generation[i] = len(members), elements, self.pages.generation

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
                self.pages.write("run", self._run(slot, a, run), {"start": start}, [batch])
                bounds[slot, 1:] = run + 1, bounds[slot, 2] ^ run_mark(run, self.pages.generation)
        for slot in members[bounds[members, 0] < bounds[members, 1]].tolist():
            kept = min(max(int(heads[slot, FRONT]) // RUN, int(bounds[slot, 0])), int(bounds[slot, 1]))
            for run in range(int(bounds[slot, 0]), kept):
                name = self._run(slot, a, run)
                bounds[slot, 2] ^= run_mark(run, self.pages.generation_of(name))
                self.pages.drop([name])
            bounds[slot, 0] = kept
        return np.where(bounds[members, 0] < bounds[members, 1], bounds[members, 1] * RUN, 0)

    def _drop_runs(self, slot: int) -> None:
        for a, name in enumerate(self.runs):
            first, stop, _ = self.engine.table[name][slot].tolist()
            self.pages.drop([self._run(slot, a, run) for run in range(first, stop)])

    def _run(self, slot: int, a: int, run: int) -> str:
        return f"r{int(self.engine.table['large'][slot])}.{a}.{run}"

    # ---- the reorder buffer ----

    def _write_waiting(self, given: TimedRows | None, watermark: Any) -> None:
        """Keep the rows of the call that wait, and drop the pages of which all rows have left."""
        waiting = []
        for page in self.waiting:
            if watermark is not None and page.high < watermark:
                self.pages.drop([f"q{page.number}"])
            else:
                waiting.append(page)
        if given is not None and len(given):
            if watermark is not None:
                given = given.take(np.flatnonzero(given.time >= watermark))
            given = given.take(np.argsort(given.time, kind="stable"))
            starts = range(0, len(given), ROWS)
            waiting += [self._write_page(given.slice(start, min(start + ROWS, len(given)))) for start in starts]
        self.waiting = tuple(waiting)
        small = [page for page in waiting if page.rows < ROWS // MERGE]
        if len(small) >= MERGE:
            self._merge(small)
        self.settled = watermark

    def _merge(self, small: list[BufferPage]) -> None:
        """Make one page of many small ones; what is on disk alone stays there."""
        for in_memory in (True, False):
            mine = [page for page in small if page.in_memory == in_memory]
            if len(mine) < MERGE // 2:
                continue
            rows = [self._read_waiting(page) for page in mine]
            joined = TimedRows(
                together([part.table for part in rows], decoded_schema(self.engine.bound_query.schema)),
                np.concatenate([part.time for part in rows]),
                np.concatenate([part.arrival for part in rows]),
            )
            joined = joined.take(np.lexsort((joined.arrival, joined.time)))
            self.pages.drop([f"q{page.number}" for page in mine])
            kept = [page for page in self.waiting if page not in mine]
            if len(joined):
                kept.append(replace(self._write_page(joined), in_memory=in_memory))
            self.waiting = tuple(kept)

    def _write_page(self, rows: TimedRows) -> BufferPage:
        number, self.next_page = self.next_page, self.next_page + 1
        self.pages.write("buffer", f"q{number}", {}, [self._batch(rows)])
        return BufferPage(number, rows.time[0].item(), rows.time[-1].item(), len(rows), True)

    def _batch(self, rows: TimedRows) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*rows.table.columns, array(rows.arrival)], schema=self.rows)

    # ---- the header's directories ----

    @property
    def number_type(self) -> pa.DataType:
        """The type of times."""
        return pa.int64() if self.engine.numbers.kind == "i" else pa.float64()

    def _waiting_directory(self) -> pa.RecordBatch:
        columns = {
            "page": pa.array([page.number for page in self.waiting], pa.int64()),
            "low": pa.array([page.low for page in self.waiting], self.number_type),
            "high": pa.array([page.high for page in self.waiting], self.number_type),
            "rows": pa.array([page.rows for page in self.waiting], pa.int64()),
            "generation": self._generations([f"q{page.number}" for page in self.waiting]),
        }
        return pa.RecordBatch.from_pydict(columns)

    def _generations(self, names: list[str]) -> pa.Array:
        return pa.array([self.pages.generation_of(name) for name in names], pa.int64())

    def move(self, store: Store) -> None:
        """Go on with another store, which has the same pages."""
        self.store = self.pages.store = store

    def detach(self) -> None:
        """The state is in memory alone from now on: no run of it is anywhere else."""
        self.engine.table["large"][:] = -1
        for name in self.runs:
            self.engine.table[name][:] = 0

    # ---- what is not in memory ----

    @property
    def absent(self) -> tuple[int, int]:
        """How many keys and elements are in the store alone."""
        missing = self.buckets.absent()
        waiting = sum(page.rows for page in self.waiting if not page.in_memory)
        return int(self.buckets.keys[missing].sum()), int(self.buckets.elements[missing].sum()) + waiting

    @property
    def due(self) -> Any:
        """The least watermark at which something that is in the store alone is due; None if nothing is."""
        due = self.buckets.due[self.buckets.absent()].min(initial=self.buckets.never).item()
        missing = [] if due == self.buckets.never else [due]
        lows = [page.low for page in self.waiting if not page.in_memory]
        if self.engine.numbers.kind == "i":
            missing += [low + 1 for low in lows]
        else:
            missing += [math.nextafter(low, math.inf) for low in lows]
        return min(missing, default=None)

    def mark(self) -> Any:
        """What `rollback` needs."""
        self.pages.begin()
        return self.buckets.copy(), self.waiting, self.next_large, self.next_page, self.settled, self.holds

    def rollback(self, mark: Any) -> None:
        """Forget a call that failed. What it has loaded stays in memory."""
        self.pages.rollback()
        before, self.waiting, self.next_large, self.next_page, self.settled, self.holds = mark
        buckets = before.copy()
        buckets.loaded = self.buckets.loaded[np.searchsorted(self.buckets.starts, before.starts)]  # only ever cut
        self.buckets = buckets


_ARRIVAL = "_arrival"
