"""Writers that are killed: `python -m tests.engine.killed_writers FOLDER KILLS`.

    child      opens the operator on RocksDB, continues from its offset, and dies by SIGKILL in the middle of a commit
    child      opens it again: the state must be that of a prefix of the calls
    …
    child      the last one runs to the end: all results and the state must be those of an operator that never died

Children are forked, so that nothing is imported twice. The parent never opens a store: a fork has no threads of it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from sash.engine import Operator
from sash.stores import RocksDBStore
from sash.testing import assert_same
from tests.shared.small_state import small_buckets

CALLS = 60
KEYS = {"k": list(range(30))}
QUERY = sash.Query(
    {"t": sash.Time(60), "c": sash.Count(20)}, by="k", on="t", lateness=15, high=sash.max("x"), total=sash.sum("x")
)
POINTS = ("before", "after put_many", "after delete_many", "any time")


def batch(call: int) -> pa.RecordBatch:
    chance = np.random.default_rng(call)
    times = call * 10 + chance.integers(0, 14, 40)
    return pa.record_batch({"k": chance.integers(0, 30, 40), "t": times, "x": chance.random(40)})


def die() -> None:
    """End the process as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingStore(RocksDBStore):
    """A store whose process dies at a point of a commit."""

    point = ""
    commits = 0

    def _count(self, point: str) -> None:
        if self.point == point and self.commits == 0:
            die()

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.commits -= 1
        self._count("before")
        super().put_many(pages)
        self._count("after put_many")

    def delete_many(self, ids: Iterable[str]) -> None:
        super().delete_many(ids)
        self._count("after delete_many")


def prefix(calls: int) -> Operator:
    """An operator after the first calls."""
    op = QUERY.operator(batch(0).schema)
    for call in range(calls):
        op.process(batch(call))
    return op


def write(folder: Path, kill: int) -> None:
    """Make calls until the process dies."""
    chance = random.Random(kill)
    store = DyingStore(folder)
    op = QUERY.operator(batch(0).schema, store=store)
    store.point = point = POINTS[kill % len(POINTS)]
    store.commits = chance.randint(1, 3)
    if point == "any time":
        signal.signal(signal.SIGALRM, lambda *_: die())
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.03))
    for call in range(op.offset or 0, CALLS):
        op.process(batch(call), offset=call + 1)


def check(folder: Path) -> None:
    """Check that the state is that of as many calls as the offset counts, without pages that are not needed."""
    with RocksDBStore(folder) as store:
        op = QUERY.operator(store=store)
        done = op.offset or 0
        beside = prefix(done)
        if done:
            assert_same(op.lookup(KEYS), beside.lookup(KEYS))
            assert op.metrics.rows_in == beside.metrics.rows_in
            size = sum(len(page) for name, page in store.scan())
            assert size == op.metrics.state_bytes, "pages were left behind"


def finish(folder: Path) -> None:
    """Make the remaining calls."""
    with RocksDBStore(folder) as store:
        op = QUERY.operator(batch(0).schema, store=store)
        beside = prefix(op.offset or 0)
        for call in range(op.offset or 0, CALLS):
            assert_same(op.process(batch(call), offset=call + 1), beside.process(batch(call)), by=["k"])
        assert_same(op.finish(), beside.finish(), by=["k"])


def forked(work: Callable[..., None], *arguments: Any) -> int:
    """The exit status of a child that does the work: 0, 1, or the signal that killed it, below 0."""
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: str, kills: int) -> int:
    """Kill this many writers; after all calls a new store is begun."""
    with small_buckets(3000, 10, 16):
        return killed(Path(folder), kills)


def killed(folder: Path, kills: int) -> int:
    """Fork writers that are killed."""
    prefix(2).lookup(KEYS)  # compiled
    deaths = 0
    for kill in range(kills):
        place = folder / str(kill // 12)
        ended = forked(write, place, kill)
        deaths += ended == -signal.SIGKILL
        if ended > 0 or forked(check, place):
            return 1
    sys.stdout.write(f"{deaths}\n")
    return forked(finish, folder / "0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
