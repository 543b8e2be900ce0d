"""Rounds with too little memory: a query gives the right result, or a MemoryError after which it can be asked again.

    parent    the results with all the memory there is; kernels are compiled now
    child     as much memory as it has, and a little more ──▶ result? the right one
                                                         └──▶ MemoryError ──▶ all memory again ──▶ the right one

Large allocations fail: columns of results, rings of elements, buffers of Arrow. A limit on all of the address space and
one on data alone fail at other places.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from sash.engine import Operator
from sash.kernels import InterpretedWarning
from sash.stores import MemoryStore
from tests.stress.rounds import FAILED, PATIENCE, Failure
from tests.stress.trouble import progress

LIMITS = {"VmSize": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}

PER_ROW: tuple[Any, ...] = (sash.Time(5000), sash.Count(300), sash.Session(3), sash.Lifetime(), sash.Time(40))
PER_SLIDE: tuple[Any, ...] = (sash.Time(4000, every=50), sash.Count(100, every=10), sash.Lifetime(every=sash.Time(64)))
AGGREGATES: dict[str, Any] = {
    "high": sash.max("x"),
    "total": sash.sum("x"),
    "n": sash.count(),
    "text": sash.max("s"),
    "newest": sash.last("s"),
    "held": sash.collect("i"),
    "spread": sash.var("x"),
    "whole": sash.sum("i"),
}


def stream(chance: random.Random, rows: int, keys: int) -> pa.RecordBatch:
    """Rows in order of time, of some keys."""
    some = np.random.default_rng(chance.getrandbits(32))
    columns = {
        "k": pa.array(some.integers(0, keys, rows)),
        "t": pa.array(np.cumsum(some.integers(0, 3, rows))),
        "x": pa.array(some.random(rows)),
        "i": pa.array(some.integers(-1000, 1000, rows)),
        "s": pa.array([f"value {n}" for n in some.integers(0, 500, rows).tolist()]),
    }
    return pa.RecordBatch.from_pydict(columns)


def same(found: pa.RecordBatch, expected: pa.RecordBatch) -> bool:
    """Are two results equal, key by key, with floats within the tolerance of another order of folding?"""
    if found.schema != expected.schema or found.num_rows != expected.num_rows:
        return False
    found, expected = (
        batch.take(pa.array(np.argsort(batch.column("k").to_numpy(), kind="stable"))) for batch in (found, expected)
    )
    for mine, theirs in zip(found.columns, expected.columns, strict=True):
        if pa.types.is_floating(mine.type):
            pair = [column.to_numpy(zero_copy_only=False) for column in (mine, theirs)]
            if not np.allclose(*pair, rtol=1e-9, atol=1e-12, equal_nan=True):
                return False
        elif not mine.equals(theirs):
            return False
    return True


def memory(name: str) -> int:
    """What the process has, in bytes, as the system counts it against a limit."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


M_MMAP_THRESHOLD = -3
LARGE = 1 << 16
"""Bytes from which on the system is asked for memory."""


def ask_the_system() -> None:
    """Let large allocations ask the system, all of them: what was free in the process would serve some."""
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, LARGE)
    libc.malloc_trim(0)
    pa.set_memory_pool(pa.system_memory_pool())


class LittleMemory:
    """A query on many rows, and how much memory it may take."""

    def __init__(self, seed: int, rows: int = 60_000) -> None:
        chance = self.chance = random.Random(seed)
        per_row = chance.random() < 0.6
        window = chance.choice(PER_ROW if per_row else PER_SLIDE)
        self.is_frame = chance.random() < 0.4
        emit = "final" if self.is_frame else chance.choice(["final", "final", "changes", "eager"])
        if self.is_frame and chance.random() < 0.5:
            rows *= 3  # enough for threads
        rows = rows // 10 if emit == "eager" else rows
        chosen = chance.sample(sorted(AGGREGATES), chance.randint(1, 3))
        if getattr(window, "size", 1000) >= 200:  # lists of whole windows are more than any memory
            chosen = [name for name in chosen if name != "held"] or ["n"]
        aggregates = {name: AGGREGATES[name] for name in chosen}
        self.query = sash.Query(window, by="k", on="t", lateness=chance.choice([0, 1000]), emit=emit, **aggregates)
        batch = stream(chance, rows, chance.choice([1, 30, 3000]))
        self.schema = batch.schema
        cut = chance.choice([1, 2, 5])
        self.batches = [batch.slice(i * rows // cut, (i + 1) * rows // cut - i * rows // cut) for i in range(cut)]
        self.stored = not self.is_frame and chance.random() < 0.4
        self.counted = chance.choice(sorted(LIMITS))
        self.extra = int(2 ** chance.uniform(12, 22))
        self.counts: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Run the round. Raises Failure."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterpretedWarning)
            expected = self._expected()
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                self._live(expected, writer)
            os.close(writer)
            ended = self._waited(child)
        with os.fdopen(reader) as file:
            words = file.read()
        if ended != 0:
            raise Failure(f"the child ended with {ended}; {self.extra:,} bytes more of {self.counted}:\n{words}")
        self.counts += Counter(words.split())
        self.counts["queries"] += 1
        self.counts["rows"] += sum(batch.num_rows for batch in self.batches)
        return self.counts

    def _waited(self, child: int) -> int:
        start = time.monotonic()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() - start > PATIENCE:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)

    def _expected(self) -> list[pa.RecordBatch]:
        if self.is_frame:
            return [self._framed()]
        operator = self._operator()
        return [operator.process(batch) for batch in self.batches] + [operator.finish()]

    def _operator(self) -> Operator:
        return Operator(self.query, self.schema, store=MemoryStore() if self.stored else None)

    def _framed(self) -> pa.RecordBatch:
        table = pa.Table.from_batches(self.batches)
        return self.query.run(table).combine_chunks().to_batches()[0]

    # ---- in the child ----

    def _live(self, expected: list[pa.RecordBatch], writer: int) -> None:
        """Run the query with little memory. Does not return."""
        code = FAILED
        try:
            ask_the_system()
            with os.fdopen(writer, "w", buffering=1) as file:
                try:
                    self._run_steps(expected, file.write)
                    code = 0
                except BaseException as error:
                    file.write("".join(traceback.format_exception(error)))
        finally:
            os._exit(code)

    def _run_steps(self, expected: list[pa.RecordBatch], note: Callable[[str], Any]) -> None:
        if self.is_frame:
            assert same(self._tried(self._framed, note), expected[0]), "the result of the frame is wrong"
            return
        operator = self._operator()
        calls: list[Callable[[], Any]] = [lambda batch=batch: operator.process(batch) for batch in self.batches]
        for number, call in enumerate([*calls, operator.finish]):
            before = progress(operator)
            found = self._tried(call, note, lambda before=before: progress(operator) == before)
            assert same(found, expected[number]), f"the result of call {number} is wrong"

    def _tried(self, work: Callable[[], Any], note: Callable[[str], Any], unchanged: Any = None) -> Any:
        """Run something with little memory, then with a little more, at last with all memory."""
        note("calls\n")
        for extra in (self.extra, 4 * self.extra):
            try:
                with self._limited(extra):
                    return work()
            except MemoryError:
                note("memory-errors\n")
                assert unchanged is None or unchanged(), "a call that failed has changed something"
        return work()

    @contextmanager
    def _limited(self, extra: int) -> Iterator[None]:
        limit = LIMITS[self.counted]
        before = resource.getrlimit(limit)
        resource.setrlimit(limit, (memory(self.counted) + extra, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(limit, before)


def play_round(seed: int, **arguments: Any) -> Counter[str]:
    """Run the round of a seed. Raises Failure."""
    made = LittleMemory(seed, **arguments)
    try:
        return made.run()
    except Failure as failure:
        raise Failure(f"{failure}\n{made.query!r}, {len(made.batches)} batches, frame: {made.is_frame}") from failure
