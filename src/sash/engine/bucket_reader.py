"""Reads a bucket and the runs that belong to it, and checks all of it before any goes into the engine.

A bucket has the keys that the header lists it with; it and its runs have all elements of them. Runs are read before
room is made for their elements, so that a number in a page allocates no more than there are pages for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.key_values import keys_of
from sash.engine.live_engine import LiveEngine
from sash.engine.page_transaction import Pages
from sash.engine.state_checks import LARGEST, Scalars, require
from sash.engine.state_codec import StateCodec, Stored
from sash.kernels.loops.live_loops import FRONT
from sash.stores.envelope import PageError, decoding

TOGETHER = 64
"""So many runs are read at once."""


@dataclass(frozen=True)
class Listed:
    """A bucket as the header lists it: hashes [low, high) and keys; the large keys so far, the elements of a run."""

    name: str
    low: int
    high: int
    keys: int
    large: int
    run: int


@dataclass(frozen=True)
class StoredRun:
    """A run page: of an arena and an entry of the bucket, the elements from a position on."""

    page: str
    arena: int
    entry: int
    start: int
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Bucket:
    """A bucket with its runs, and the `emit` under which it was written."""

    stored: Stored
    runs: list[StoredRun]
    emit: str


class BucketReader:
    """Reads buckets of one operator."""

    def __init__(self, pages: Pages, engine: LiveEngine, codec: StateCodec) -> None:
        self.pages, self.engine, self.codec = pages, engine, codec

    def read(self, listed: Listed) -> Bucket:
        """A bucket with its runs; the engine is as it was. Raises PageError."""
        ((meta, batches),) = self.pages.read("bucket", [listed.name], self.codec.schemas)
        with decoding(f"page {listed.name!r}"):
            stored = self.codec.read(batches)
            self.codec.check(stored)
            self._check_keys(listed, stored)
            self._check_rings(listed, stored)
        return Bucket(stored, self._runs(listed.run, stored), meta["emit"])

    def _check_keys(self, listed: Listed, stored: Stored) -> None:
        """Raises ValueError unless a bucket has the keys that belong to it, as many as the header says."""
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

    def _check_rings(self, listed: Listed, stored: Stored) -> None:
        """Raises ValueError unless a bucket, and the runs that it names, have all elements of its keys."""
        large = stored.scalars["large"]
        named = large[large >= 0]
        require((large >= -1) & (large < listed.large), "it has a large key with a number that was never given")
        require(len(np.unique(named)) == len(named), "it has a large key twice")
        if len(named):  # a look at all keys that are in memory, for the few buckets that need it
            others = self.engine.table["large"][self.engine.live]
            require(~np.isin(named, others), "it has a large key of another bucket")
        for a in range(len(self.codec.arenas)):
            first, stop, _ = stored.scalars[f"runs{a}"].T
            front, back = stored.ring(a)
            has = first < stop
            require((first >= 0) & (first <= stop) & (stop < LARGEST // listed.run), "it names runs that cannot be")
            fits = (large >= 0) & (first == front // listed.run) & (stop * listed.run < back)
            require(fits | ~has, "it names runs that do not belong to its elements")
            held = np.bincount(stored.entries[a], minlength=stored.count)
            wanted = back - np.maximum(front, np.where(has, stop * listed.run, 0))
            require(held == wanted, "it has not as many elements as its keys")

    def _runs(self, size: int, stored: Stored) -> list[StoredRun]:
        found = []
        for a in range(len(self.codec.arenas)):
            bounds, (front, _) = stored.scalars[f"runs{a}"], stored.ring(a)
            for e in np.flatnonzero(bounds[:, 0] < bounds[:, 1]).tolist():
                first, stop, expected = bounds[e].tolist()
                marks, prefix = 0, f"r{int(stored.scalars['large'][e])}.{a}."
                for number in range(first, stop):
                    if (number - first) % TOGETHER == 0:  # one round trip
                        several = range(number, min(number + TOGETHER, stop))
                        self.pages.read("run", [f"{prefix}{one}" for one in several], [self.codec.elements[a]])
                    page = f"{prefix}{number}"
                    meta, batch = self._run(page, a, (number * size, (number + 1) * size), stored.one(e))
                    marks ^= run_mark(number, int(meta["generation"]))
                    start = int(meta["start"])
                    skipped = max(int(front[e]) - start, 0)
                    found.append(StoredRun(page, a, e, start + skipped, batch.slice(skipped)))
                if marks != expected:
                    raise PageError(
                        f"one of the pages '{prefix}{first}' to '{prefix}{stop - 1}' is not of the call that their "
                        "bucket names: a write reached the store only in part, or an older copy was restored"
                    )
        return found

    def _run(
        self, page: str, a: int, bounds: tuple[int, int], scalars: Scalars
    ) -> tuple[dict[str, Any], pa.RecordBatch]:
        ((meta, (batch,)),) = self.pages.read("run", [page], [self.codec.elements[a]])
        start, front = int(meta["start"]), int(scalars[self.codec.arenas[a].arena.name][0, FRONT])
        with decoding(f"page {page!r}"):
            require(bounds[0] <= start <= max(front, bounds[0]), f"it starts with element {start}")
            require(start + batch.num_rows == bounds[1], f"it has {batch.num_rows} elements")
            self.codec.check_elements(a, batch, scalars)
        return meta, batch


def run_mark(run: int, generation: int) -> int:
    """A number of 63 bits for a run of a generation: bits of the one and of the other are mixed, as splitmix64 does."""
    mixed = (generation + run * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return mixed >> 1
