"""Bounded memory: evicting and loading keys changes no result, and the bound holds between calls."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import sash
from sash.engine import Operator
from sash.engine.live_backend import LiveBackend
from sash.plan.options import byte_size
from sash.state import buffer_pages
from sash.state import durable as durable_state
from sash.stores import MemoryStore
from sash.testing import assert_same
from tests.behaviour.differential import compare_with_reference
from tests.shared.effort import share
from tests.shared.queries import rewritten
from tests.shared.small_state import small_buckets
from tests.shared.streams import Case, cases

PLAIN = pytest.mark.filterwarnings("ignore:.*runs interpreted")
INTERPRETED = pytest.mark.usefixtures("interpreted_kernels")
"""Tests with few rows run interpreted; with many rows it is quicker to compile."""


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Many pages of every kind."""
    monkeypatch.setattr(buffer_pages, "ROWS", 3)
    monkeypatch.setattr(buffer_pages, "MERGE", 3)
    with small_buckets(600, 4):
        yield


def bounded(query: sash.Query, memory: Any, **more: Any) -> sash.Query:
    return rewritten(query, options=sash.Options(memory=memory), **more)


def live(op: Operator) -> LiveBackend:
    assert isinstance(op.state.backend, LiveBackend)
    return op.state.backend


# ---- the argument ----


@pytest.mark.parametrize(
    ("given", "found"),
    [(1, 1), ("256MB", 256_000_000), ("256 MiB", 256 << 20), (" 1.5gib ", 3 << 29), ("12", 12), ("2kB", 2000)],
)
def test_memory_is_bytes_or_text(given: Any, found: int) -> None:
    options = sash.Options(memory=given)
    assert options.memory == found
    assert repr(options) == f"Options(memory={found})"


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ("much", ValueError, "memory= of Options must be a number of bytes, or text such as '256MB' .* got 'much'"),
        ("5 apples", ValueError, "got '5 apples'"),
        ("-1MB", ValueError, "got '-1MB'"),
        (0, ValueError, "at least one byte; got 0"),
        ("0 GB", ValueError, "at least one byte; got '0 GB'"),
        (2.5, TypeError, "got 2.5, a float"),
        (True, TypeError, "got True, a bool"),
    ],
)
def test_other_memory_is_refused(given: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        sash.Options(memory=given)
    with pytest.raises(error):
        byte_size("memory=", given)


def test_bounded_memory_needs_a_store() -> None:
    query = sash.Query(3, by="k", options=sash.Options(memory="1MB"), n=sash.count())
    with pytest.raises(ValueError, match=r"memory= of Options needs a store .* query.operator\(store=…\)"):
        query.operator()
    data = sash.Query(3, by="k", n=sash.count()).operator(pa.schema([("k", pa.int64())])).snapshot()
    with pytest.raises(ValueError, match="the state of a snapshot is restored to memory"):
        Operator.restore(query, data)
    eager = sash.Query(3, by="k", emit="eager", options=sash.Options(memory="1MB"), n=sash.count())
    with pytest.raises(ValueError, match="memory= of Options needs emit='final' or 'changes': with emit='eager'"):
        eager.operator(store=MemoryStore())


# ---- no result tells ----


class Bounded:
    """An operator whose keys all leave memory after each call, and one that keeps all keys in memory."""

    def __init__(self, case: Case, memory: int, pages: Mapping[str, bytes] = {}) -> None:
        self.case, self.memory = case, memory
        self.query = bounded(case.query, memory)
        self.op = Operator(self.query, case.schema, mode=case.mode, store=MemoryStore(dict(pages)))  # type: ignore[arg-type]
        self.free = Operator(case.query, case.schema, mode=case.mode, store=MemoryStore(dict(pages)))  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def _call(self, name: str, *arguments: Any) -> pa.RecordBatch:
        try:
            found = getattr(self.op, name)(*arguments)
        except Exception:
            self._check_memory()
            raise
        getattr(self.free, name)(*arguments)
        self._check_memory()
        one, two = self.op.metrics, self.free.metrics
        assert one.keys == two.keys
        assert one.elements >= two.elements, "rows that have left count while others of their page are in the store"
        mine, other = self.op.due, self.free.due
        assert mine == other or mine < other, "a page is due with its first row, also where that has left"
        if self.case.query.by:
            types = {name: self.case.schema.field(name).type for name in self.case.query.by}
            if types == {"k": pa.string()}:
                keys = {"k": ["a", None, "b", "c", "a"]}
                assert_same(self.op.lookup(keys), self.free.lookup(keys))
                self._check_memory()
        return found

    def _check_memory(self) -> None:
        if self.memory == 1:
            assert live(self.op).engine.keys.count == 0

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._call("process", batch)

    def advance(self, watermark: Any) -> pa.RecordBatch:
        return self._call("advance", watermark)

    def finish(self) -> pa.RecordBatch:
        return self._call("finish")

    def late_rows(self) -> pa.RecordBatch:
        self.free.late_rows()
        return self.op.late_rows()

    def snapshot(self) -> dict[str, bytes]:
        """The pages: with bounded memory, the state is in a store."""
        assert isinstance(self.op.store, MemoryStore)
        return dict(self.op.store.items())


@PLAIN
@INTERPRETED
@pytest.mark.parametrize("memory", [1, 20_000])
def test_results_do_not_depend_on_the_memory(memory: int) -> None:
    @given(cases(emits=("final", "changes")))
    def agrees(case: Case) -> None:
        compare_with_reference(
            case,
            lambda *_: Bounded(case, memory),
            lambda _, pages: Bounded(case, memory, pages),
        )

    agrees()


# ---- the bound ----


def batch(keys: Any, first: int) -> pa.RecordBatch:
    keys = np.asarray(keys)
    times = first + np.arange(len(keys)) // 50
    return pa.record_batch({"k": keys, "t": times, "x": (keys + times).astype(np.float64)})


@pytest.mark.compiled
@pytest.mark.parametrize("emit", ["final", "changes"])
@mock.patch.object(durable_state, "BUCKET", 8000)  # monkeypatch would end after small_pages, and restore its sizes
def test_the_least_recently_used_keys_leave(emit: Any) -> None:
    query = sash.Query(20, by="k", on="t", lateness=5, emit=emit, high=sash.max("x"), n=sash.count())
    limit = 500_000
    op, free = bounded(query, limit).operator(store=MemoryStore()), query.operator()
    chance = np.random.default_rng(5)
    absent = 0
    for i in range(share(50)):
        rows = batch(np.concatenate([np.arange(10), chance.integers(0, 2000, 80)]), 10 * i)
        assert_same(op.process(rows), free.process(rows))
        assert live(op).bound.nbytes <= limit  # type: ignore[union-attr]
        absent = max(absent, int((~live(op).durable.buckets.loaded).sum()))  # type: ignore[union-attr]
    assert absent > 20, "nothing ever left"
    assert op.metrics.keys == free.metrics.keys
    assert live(op).engine.keys.count < free.metrics.keys / 2
    before = op.metrics.pages_read
    op.lookup({"k": list(range(10))})
    assert op.metrics.pages_read == before, "keys of every call were not in memory"
    assert_same(op.lookup({"k": list(range(2000))}), free.lookup({"k": list(range(2000))}))
    assert live(op).bound.nbytes <= limit  # type: ignore[union-attr]
    assert_same(op.finish(), free.finish(), by=["k"])


@INTERPRETED
def test_rows_that_wait_leave_as_well() -> None:
    query = sash.Query(20, by="k", on="t", lateness=10_000, total=sash.sum("x"))
    op, free = bounded(query, 300_000).operator(store=MemoryStore()), query.operator()
    for i in range(60):
        rows = batch(np.arange(300) % 7, 10 * i)
        assert_same(op.process(rows), free.process(rows))
        assert live(op).bound.nbytes <= 300_000  # type: ignore[union-attr]
    assert op.metrics.elements == free.metrics.elements == 60 * 300
    assert op.due == free.due
    for watermark in (50, 51, 300):
        assert_same(op.advance(watermark), free.advance(watermark))
        assert op.due <= free.due
    assert_same(op.lookup({"k": [1, 2]}), free.lookup({"k": [1, 2]}))
    assert_same(op.finish(), free.finish())


class Flaky(MemoryStore):
    """A store that refuses writes now and then: before they happen, or after."""

    refusals = 0

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.refusals += 1
        if self.refusals % 3 == 1:
            raise ConnectionError("before")
        super().put_many(pages)
        if self.refusals % 3 == 2:
            raise ConnectionError("after")


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize(
    "window", [sash.Time(400), sash.Time(400, every=40), {"t": sash.Time(400, every=40), "l": sash.Lifetime(every=3)}]
)
def test_the_last_results_leave_some_buckets_at_a_time(window: Any, emit: Any) -> None:
    query = sash.Query(window, by="k", on="t", lateness=8, emit=emit, total=sash.sum("x"))
    store = MemoryStore()
    op, free = bounded(query, 50_000).operator(store=store), query.operator()
    for i in range(4):
        rows = batch(np.arange(100 * i, 100 * i + 100), 10 * i)
        assert_same(op.process(rows), free.process(rows), by=["k"])
    engine, most = live(op).engine, 0
    step = engine.step

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal most
        found = step(*arguments, **keywords)
        most = max(most, engine.keys.count)
        return found

    with mock.patch.object(engine, "step", counted):
        got = op.finish()
    expected = free.finish()
    assert 0 < most < op.metrics.rows_in / 2
    ends = "t" if op.state.bound_query.per_row else "window_end"
    assert got[ends].to_pylist() == expected[ends].to_pylist()
    assert_same(got, expected, by=["k"])
    assert {name for name, _ in store.scan()} == {"header", "root"}
    assert op.metrics.keys == op.metrics.elements == 0


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_an_end_that_fails_can_be_repeated(emit: Any) -> None:
    query = sash.Query(sash.Time(400, every=40), by="k", on="t", lateness=8, emit=emit, total=sash.sum("x"))
    store = Flaky()
    store.refusals = 2
    op, free = bounded(query, 30_000).operator(store=store), query.operator()
    for i in range(3):
        store.refusals = 2
        rows = batch(np.arange(60 * i, 60 * i + 60), 10 * i)
        assert_same(op.process(rows), free.process(rows), by=["k"])
    store.refusals = 0
    engine, step, calls = live(op).engine, live(op).engine.step, [0]

    def failing(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return step(*arguments, **keywords)

    with mock.patch.object(engine, "step", failing), pytest.raises(KeyboardInterrupt):
        op.finish()
    assert op.metrics.keys == free.metrics.keys
    for says in ("before", "after"):
        with pytest.raises(ConnectionError, match=says):
            op.finish()
    assert_same(op.lookup({"k": [0, 179]}), free.lookup({"k": [0, 179]}))
    assert_same(op.finish(), free.finish(), by=["k"])


# ---- a whole process ----


def growth(folder: Path, elements: int, memory: str) -> int:
    """The bytes by which a process with this many elements grows."""
    arguments = [sys.executable, "-m", "tests.engine.large_state", str(folder), str(elements), memory]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


@pytest.mark.parametrize(
    ("elements", "memory", "allowed"),
    [(1_000_000, "8 MiB", 80 << 20), pytest.param(10_000_000, "64 MiB", 256 << 20, marks=pytest.mark.all_compiled)],
)
def test_a_process_stays_small(elements: int, memory: str, allowed: int, tmp_path: Path) -> None:
    assert growth(tmp_path, elements, memory) < allowed
