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
from sash.engine.atomic import all_at_once, attributes
from sash.engine.keys import keys_of, plain_schema
from sash.engine.live_engine import LiveEngine
from sash.engine.page_transaction import Pages
from sash.engine.reorder_buffer import TimedRows
from sash.engine.state_codec import StateCodec
from sash.engine.state_header import Header, read_header, write_header
from sash.engine.step_data import Ints
from sash.kernels.live_loops import BACK, FRONT
from sash.kernels.slot_loops import DUE
from sash.stores import PageError, Store

BUCKET = 1 << 17
"""A bucket page beyond this many bytes is cut in two."""

RUN = 4096
"""Elements of a run page."""

ROWS = 1 << 14
"""Rows of a page of the reorder buffer, at most."""

MERGE = 16
"""So many small pages of the reorder buffer become one."""


@dataclass(frozen=True)
class Waiting:
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
        resolved = engine.resolved
        self.pages = Pages(store, resolved.fingerprint)
        self.emit = resolved.query.emit
        self.rows = pa.schema([*plain_schema(resolved.schema), pa.field(_ARRIVAL, pa.int64())])
        self.runs = [f"runs{a}" for a in range(len(codec.arenas))]
        self._forget()

    @staticmethod
    def add_columns(engine: LiveEngine, arenas: int) -> None:
        """Add what this needs of every slot, before the codec looks at the slot table."""
        engine.table.add("hash", np.int64, 0, derived=True)
        engine.table.add("large", np.int64, -1)
        for a in range(arenas):
            engine.table.add(f"runs{a}", np.int64, [0, 0])  # the first run that is there, and the one behind the last

    def _forget(self) -> None:
        self.starts = np.zeros(0, np.uint64)
        self.when: list[Any] = []
        self.counts: list[tuple[int, int]] = []
        self.loaded: list[bool] = []
        self.waiting: tuple[Waiting, ...] = ()
        self.next_large = self.next_page = 0

    # ---- opening ----

    def open(self) -> Header | None:
        """Read the header; None if the store is empty. Raises PageError."""
        found = read_header(self.pages, self.mode, self.number_type)
        if found is None:
            return None
        header, buckets, waiting = found
        if header.eager:
            raise PageError("the state was written with emit='eager', which keeps a state of its own")
        self.starts = buckets.column("start").to_numpy()
        self.when = buckets.column("due").to_pylist()
        self.counts = list(zip(buckets.column("keys").to_pylist(), buckets.column("elements").to_pylist(), strict=True))
        self.loaded = [not keys for keys, _ in self.counts]
        rows = list(zip(*(column.to_pylist() for column in waiting.columns), strict=True))
        self.waiting = tuple(Waiting(page, low, high, count, False) for page, low, high, count, _ in rows)
        generations = zip(range(len(self.starts)), buckets.column("generation").to_pylist(), strict=True)
        self.pages.expect({self._bucket(i): generation for i, generation in generations if not self.loaded[i]})
        self.pages.expect({f"q{page[0]}": page[-1] for page in rows})
        self.pages.expect({"held": header.held_generation} if header.has_held else {})
        self.next_large, self.next_page, self.holds = header.large, header.page, header.has_held
        self.pages.opened()
        return header

    def held(self) -> TimedRows | None:
        """The rows that wait for their peers, in mode "sorted"."""
        return self._timed(self._read("held", "held", [self.rows])[0])

    def _read(self, kind: str, name: str, schemas: Sequence[pa.Schema]) -> list[pa.RecordBatch]:
        ((_, batches),) = self.pages.read(kind, [name], schemas)
        return batches

    def _timed(self, batch: pa.RecordBatch) -> TimedRows:
        axis = self.engine.resolved.time
        assert axis is not None
        time, _ = axis.numbers(batch.column(axis.column))
        return TimedRows(
            pa.RecordBatch.from_arrays(batch.columns[:-1], schema=plain_schema(self.engine.resolved.schema)),
            np.ascontiguousarray(time),
            batch.column(batch.num_columns - 1).to_numpy(),
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

    def _read_waiting(self, page: Waiting) -> TimedRows:
        """The rows of a page that have not left yet."""
        rows = self._timed(self._read("buffer", f"q{page.number}", [self.rows])[0])
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
        if all(self.loaded):
            return
        wanted = {
            i for i, due in enumerate(self.when) if everything or (now is not None and due is not None and due <= now)
        }
        if rows:
            hashes = keys_of(columns, rows).hashes() if columns else np.zeros(1, np.uint64)
            wanted.update((np.searchsorted(self.starts, np.unique(hashes), "right") - 1).tolist())
        for i in sorted(i for i in wanted if not self.loaded[i]):
            self._load_bucket(i)

    def load_all(self) -> None:
        """Bring everything into memory."""
        self.load([], 0, None, everything=True)

    def _load_bucket(self, i: int) -> None:
        ((meta, batches),) = self.pages.read("bucket", [self._bucket(i)], self._schemas())
        try:
            slots = self.codec.decode(batches, meta["emit"] == self.emit)
            self._set_hashes(slots)
            for a, name in enumerate(self.runs):
                bounds = self.engine.table[name][slots]
                for slot, (first, stop) in zip(slots.tolist(), bounds.tolist(), strict=True):
                    for run in range(first, stop):
                        self._load_run(slot, a, run)
            self.loaded[i] = True
        except BaseException:
            self.codec.forget(batches)  # keys are in memory as a whole, or not at all
            raise

    def _schemas(self) -> list[pa.Schema]:
        return self.codec.schemas

    def _load_run(self, slot: int, a: int, run: int) -> None:
        large = int(self.engine.table["large"][slot])
        ((meta, (batch,)),) = self.pages.read("run", [f"r{large}.{a}.{run}"], [self.codec.elements[a]])
        front = int(self.codec.arenas[a].arena.heads[slot, FRONT])
        start = max(int(meta["start"]), front)
        batch = batch.slice(start - int(meta["start"]))
        if batch.num_rows:
            of = np.array([slot])
            self.codec.load_elements(a, of, np.array([start]), np.array([start + batch.num_rows]), batch)

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
        write_header(self.pages, header, self.mode, self._directory(), self._waiting_directory())
        self.pages.commit()
        self.token = token

    def _write_buckets(self, changed: Ints) -> None:
        engine = self.engine
        if not len(self.starts):
            self.starts, self.when, self.counts, self.loaded = np.zeros(1, np.uint64), [None], [(0, 0)], [True]
        hashes = engine.table["hash"].view(np.uint64)
        for slot in engine.gone.tolist():
            self._drop_runs(slot)
        doubtful = [i for i in range(len(self.starts)) if self.pages.is_doubtful(self._bucket(i))]
        touched = np.union1d(np.searchsorted(self.starts, hashes[changed], "right") - 1, doubtful).astype(int).tolist()
        live = np.setdiff1d(engine.live, engine.gone)
        bucket = np.searchsorted(self.starts, hashes[live], "right") - 1
        for i in reversed(touched):  # cutting one in two moves those behind it
            self._write_bucket(i, live[bucket == i])

    def _write_bucket(self, i: int, members: Ints) -> None:
        start = int(self.starts[i])
        if not len(members):
            self.pages.drop([self._bucket(i)])
            self.when[i], self.counts[i] = None, (0, 0)
            return
        cuts = [self._write_runs(a, members) for a in range(len(self.runs))]
        batches = self.codec.encode(members, cuts)
        stop = int(self.starts[i + 1]) if i + 1 < len(self.starts) else 2**64
        if sum(batch.nbytes for batch in batches) > BUCKET and len(members) > 1 and stop - start > 1:
            middle = start + (stop - start) // 2
            self.starts = np.insert(self.starts, i + 1, np.uint64(middle))
            self.when.insert(i + 1, None)
            self.counts.insert(i + 1, (0, 0))
            self.loaded.insert(i + 1, True)
            upper = self.engine.table["hash"].view(np.uint64)[members] >= np.uint64(middle)
            self._write_bucket(i + 1, members[upper])
            self._write_bucket(i, members[~upper])
            return
        self.pages.write("bucket", self._bucket(i), {"emit": self.emit}, batches)
        due = self.engine.table["stamps"][members, DUE].min()
        self.when[i] = None if due == self.engine.timers.never else due.item()
        elements = len(members) * (len(self.engine.assigners) - len(self.codec.arenas))
        for assigner in self.codec.arenas:
            heads = assigner.arena.heads
            elements += int((heads[members, BACK] - heads[members, FRONT]).sum())
        self.counts[i] = (len(members), elements)

    def _write_runs(self, a: int, members: Ints) -> Ints:
        """Write full runs of keys with very many elements, drop those that are over; the rest goes to the bucket."""
        heads, bounds = self.codec.arenas[a].arena.heads, self.engine.table[self.runs[a]]
        for slot in members[(heads[members, BACK] - heads[members, FRONT]) > 2 * RUN].tolist():
            front, back = int(heads[slot, FRONT]), int(heads[slot, BACK])
            if self.engine.table["large"][slot] < 0:
                self.engine.table["large"][slot] = self.next_large
                self.next_large += 1
            if bounds[slot, 0] == bounds[slot, 1]:
                bounds[slot] = front // RUN
            for run in range(int(bounds[slot, 1]), (back - 1) // RUN):  # the last element may still change
                start = max(run * RUN, front)
                of, stop = np.array([slot]), np.array([(run + 1) * RUN])
                batch = self.codec.encode_elements(a, of, np.array([start]), stop)
                self.pages.write("run", self._run(slot, a, run), {"start": start}, [batch])
                bounds[slot, 1] = run + 1
        for slot in members[bounds[members, 0] < bounds[members, 1]].tolist():
            kept = min(max(int(heads[slot, FRONT]) // RUN, int(bounds[slot, 0])), int(bounds[slot, 1]))
            self.pages.drop([self._run(slot, a, run) for run in range(int(bounds[slot, 0]), kept)])
            bounds[slot, 0] = kept
        return np.where(bounds[members, 0] < bounds[members, 1], bounds[members, 1] * RUN, 0)

    def _drop_runs(self, slot: int) -> None:
        for a, name in enumerate(self.runs):
            first, stop = self.engine.table[name][slot].tolist()
            self.pages.drop([self._run(slot, a, run) for run in range(first, stop)])

    def _run(self, slot: int, a: int, run: int) -> str:
        return f"r{int(self.engine.table['large'][slot])}.{a}.{run}"

    def _bucket(self, i: int) -> str:
        return f"b{int(self.starts[i]):016x}"

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

    def _merge(self, small: list[Waiting]) -> None:
        """Make one page of many small ones; what is on disk alone stays there."""
        for in_memory in (True, False):
            mine = [page for page in small if page.in_memory == in_memory]
            if len(mine) < MERGE // 2:
                continue
            rows = [self._read_waiting(page) for page in mine]
            joined = TimedRows(
                together([part.table for part in rows], plain_schema(self.engine.resolved.schema)),
                np.concatenate([part.time for part in rows]),
                np.concatenate([part.arrival for part in rows]),
            )
            joined = joined.take(np.lexsort((joined.arrival, joined.time)))
            self.pages.drop([f"q{page.number}" for page in mine])
            kept = [page for page in self.waiting if page not in mine]
            if len(joined):
                kept.append(replace(self._write_page(joined), in_memory=in_memory))
            self.waiting = tuple(kept)

    def _write_page(self, rows: TimedRows) -> Waiting:
        number, self.next_page = self.next_page, self.next_page + 1
        self.pages.write("buffer", f"q{number}", {}, [self._batch(rows)])
        return Waiting(number, rows.time[0].item(), rows.time[-1].item(), len(rows), True)

    def _batch(self, rows: TimedRows) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*rows.table.columns, array(rows.arrival)], schema=self.rows)

    # ---- the header's directories ----

    @property
    def number_type(self) -> pa.DataType:
        """The type of times."""
        return pa.int64() if self.engine.numbers.kind == "i" else pa.float64()

    def _directory(self) -> pa.RecordBatch:
        keys, elements = zip(*self.counts, strict=True) if self.counts else ((), ())
        columns = {
            "start": pa.array(self.starts),
            "due": pa.array(self.when, self.number_type),
            "keys": pa.array(keys, pa.int64()),
            "elements": pa.array(elements, pa.int64()),
            "generation": self._generations([self._bucket(i) for i in range(len(self.starts))]),
        }
        return pa.RecordBatch.from_pydict(columns)

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
        missing = [counts for counts, loaded in zip(self.counts, self.loaded, strict=True) if not loaded]
        waiting = sum(page.rows for page in self.waiting if not page.in_memory)
        return sum(keys for keys, _ in missing), sum(elements for _, elements in missing) + waiting

    @property
    def due(self) -> Any:
        """The least watermark at which something that is in the store alone is due; None if nothing is."""
        missing = [when for when, loaded in zip(self.when, self.loaded, strict=True) if not loaded and when is not None]
        lows = [page.low for page in self.waiting if not page.in_memory]
        if self.engine.numbers.kind == "i":
            missing += [low + 1 for low in lows]
        else:
            missing += [math.nextafter(low, math.inf) for low in lows]
        return min(missing, default=None)

    def mark(self) -> Any:
        """What `rollback` needs."""
        self.pages.begin()
        directory = self.starts, list(self.when), list(self.counts), list(self.loaded)
        return directory, self.waiting, self.next_large, self.next_page, self.settled, self.holds

    def rollback(self, mark: Any) -> None:
        """Forget a call that failed. What it has loaded stays in memory."""
        self.pages.rollback()
        (starts, when, counts, _), self.waiting, self.next_large, self.next_page, self.settled, self.holds = mark
        loaded = [self.loaded[np.searchsorted(self.starts, start)] for start in starts]  # buckets are only ever cut
        all_at_once(attributes(self, starts=starts, when=when, counts=counts, loaded=loaded))


_ARRIVAL = "_arrival"
