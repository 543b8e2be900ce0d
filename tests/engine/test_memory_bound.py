"""Bounded memory: evicting and loading keys changes no result, and the bound holds between calls."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from sash.testing import assert_same
from tests.behaviour.differential import compare_with_reference
from tests.engine.test_small_pages import Reopened
from tests.shared.queries import rewritten
from tests.shared.small_state import small_buckets, small_pages
from tests.shared.streams import Case, cases

PLAIN = pytest.mark.filterwarnings("ignore:.*runs interpreted")
INTERPRETED = pytest.mark.usefixtures("interpreted_kernels")
"""Tests with few rows run interpreted; with many rows it is quicker to compile."""


@pytest.fixture(autouse=True)
def many_pages() -> Iterator[None]:
    """Many pages of every kind."""
    with small_pages(4):
        yield


def bounded(query: sash.Query, memory: Any, **more: Any) -> sash.Query:
    return rewritten(query, options=sash.Options(memory=memory), **more)


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


class Bounded(Reopened):
    """An operator whose keys all leave memory after each call, and one that keeps all keys in memory."""

    def __init__(self, case: Case, memory: int, pages: Mapping[str, bytes] = {}) -> None:
        self.case, self.memory = case, memory
        self.query = bounded(case.query, memory)
        self.op = Operator(self.query, case.schema, mode=case.mode, store=MemoryStore(dict(pages)))  # type: ignore[arg-type]
        self.free = Operator(case.query, case.schema, mode=case.mode, store=MemoryStore(dict(pages)))  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def _call(self, name: str, *arguments: Any) -> pa.RecordBatch:
        found = getattr(self.op, name)(*arguments)
        getattr(self.free, name)(*arguments)
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
        return found

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


@INTERPRETED
def test_rows_that_wait_leave_as_well() -> None:
    query = sash.Query(20, by="k", on="t", lateness=10_000, total=sash.sum("x"))
    op, free = bounded(query, 300_000).operator(store=MemoryStore()), query.operator()
    for i in range(60):
        rows = batch(np.arange(300) % 7, 10 * i)
        assert_same(op.process(rows), free.process(rows))
    assert op.metrics.elements == free.metrics.elements == 60 * 300
    assert op.due == free.due
    for watermark in (50, 51, 300):
        assert_same(op.advance(watermark), free.advance(watermark))
        assert op.due <= free.due
    assert_same(op.lookup({"k": [1, 2]}), free.lookup({"k": [1, 2]}))
    assert_same(op.finish(), free.finish())


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
    got, expected = op.finish(), free.finish()
    ends = "t" if op.state.bound_query.per_row else "window_end"
    assert got[ends].to_pylist() == expected[ends].to_pylist()
    assert_same(got, expected, by=["k"])
    assert {name for name, _ in store.scan()} == {"header", "root"}
    assert op.metrics.keys == op.metrics.elements == 0


def test_the_end_of_a_stream_gives_the_results_of_each_query() -> None:
    """Several queries whose state is larger than memory."""
    chance = np.random.default_rng(3)
    options = sash.Options(memory=120_000)
    queries = {
        "rows": sash.Query(sash.Time(50), by="k", on="t", lateness=20, options=options, high=sash.max("x")),
        "slides": sash.Query(sash.Time(40, every=20), by="k", on="t", lateness=20, options=options, n=sash.count()),
    }
    with small_buckets(2000, 20):
        together = sash.Queries(**queries).operator(store=MemoryStore())
        alone = {name: query.rewritten(options=sash.Options()).operator() for name, query in queries.items()}
        for call in range(4):
            keys = chance.integers(0, 400, 120)
            times = 30 * call + chance.integers(0, 20, 120)
            batch = pa.record_batch({"k": keys, "t": times, "x": chance.normal(size=120)})
            found = together.process(batch)
            for name, operator in alone.items():
                assert_same(found[name], operator.process(batch), by=["k"])
        ended = together.finish()
        for name, operator in alone.items():
            wanted = operator.finish()
            assert wanted.num_rows > 60
            assert_same(ended[name], wanted, by=["k"])


# ---- a whole process ----


def growth(folder: Path, elements: int, memory: str) -> int:
    """The bytes by which a process with this many elements grows."""
    arguments = [sys.executable, "-m", "tests.engine.large_state", str(folder), str(elements), memory]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(
    ("elements", "memory", "allowed"),
    [(1_000_000, "8 MiB", 80 << 20), pytest.param(10_000_000, "64 MiB", 256 << 20, marks=pytest.mark.all_compiled)],
)
def test_a_process_stays_small(elements: int, memory: str, allowed: int, tmp_path: Path) -> None:
    assert growth(tmp_path, elements, memory) < allowed
