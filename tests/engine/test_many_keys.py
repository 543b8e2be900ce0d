"""The work of a call does not grow with the number of live keys. Visited keys are counted, not timed."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.engine.eager_backend import EagerBackend
from sash.engine.live_backend import LiveBackend
from tests.engine.counting import CountingStore

pytestmark = pytest.mark.compiled

FEW, MANY = 4_000, 64_000
BLOCK = 256


def batch(keys: Any, first: int) -> pa.RecordBatch:
    keys = np.asarray(keys)
    times = np.arange(first, first + len(keys))
    return pa.record_batch({"k": pa.array(keys), "t": pa.array(times), "x": pa.array(times % 7)})


def filled(keys: int, store: Any = None, **said: Any) -> Operator:
    """An operator with this many live keys, whose rows are far apart in time."""
    window = said.pop("window", sash.Count(3))
    op = sash.Query(window, by="k", on="t", lateness=1, high=sash.max("x"), **said).operator(store=store)
    op.process(batch(np.arange(keys), 0))
    return op


def live(op: Operator) -> LiveBackend:
    assert isinstance(op.state.backend, LiveBackend)
    return op.state.backend


def eager(op: Operator) -> EagerBackend:
    assert isinstance(op.state.backend, EagerBackend)
    return op.state.backend


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("window", [sash.Count(3), sash.Time(10**9), sash.Lifetime()], ids=["count", "time", "life"])
def test_a_row_looks_at_the_keys_of_its_bucket(emit: str, window: Any) -> None:
    scanned = {}
    for keys in (FEW, MANY):
        store = CountingStore()
        op = filled(keys, store, emit=emit, window=window)
        for i in range(9):  # buckets that were full of equal keys are cut
            op.process(batch([11 * (i % 8)], keys + i))
        buckets = live(op).durable.buckets  # type: ignore[union-attr]
        largest = int(buckets.keys.max())
        before = buckets.scanned
        store.forget()
        for i in range(8):
            op.process(batch([11 * i], keys + 9 + i))
        scanned[keys] = live(op).durable.buckets.scanned - before  # type: ignore[union-attr]
        assert scanned[keys] <= 8 * (largest + 1)
        assert sum(name.startswith("b") for name in store.written) <= 9  # a row of an earlier call has waited
        assert not store.read
    assert len(buckets) > 8
    assert scanned[MANY] <= 4 * scanned[FEW]  # buckets are full, or half full


def test_keys_that_go_leave_their_bucket_and_no_other_is_looked_at() -> None:
    store = CountingStore()
    op = filled(MANY, store, window=sash.Time(10**9), forget=MANY + 50)
    buckets = live(op).durable.buckets  # type: ignore[union-attr]
    before, largest = buckets.scanned, int(buckets.keys.max())
    store.forget()
    op.process(batch([5], MANY + 55))  # with it the keys 0 to 4 are forgotten
    assert op.metrics.keys < MANY
    assert live(op).durable.buckets.scanned - before <= 8 * largest  # type: ignore[union-attr]
    assert op.metrics.keys == sum(live(op).durable.buckets.keys.tolist())  # type: ignore[union-attr]


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_an_eager_row_looks_at_the_timers_of_few_blocks_and_at_rows_of_few_pages(stored: bool) -> None:
    scanned = {}
    for keys in (FEW, MANY):
        op = filled(keys, CountingStore() if stored else None, emit="eager")
        op.process(batch([1], keys + 9))  # the first watermark that passes all rows looks at all of them
        timers = eager(op).engine.state.timers
        for i in range(4):
            op.process(batch([2], keys + 20 + i))
        before = timers.scanned
        rows = eager(op).durable.scanned if stored else 0  # type: ignore[union-attr]
        for i in range(8):
            op.process(batch([7 * i], keys + 30 + i))
            assert op.due is not None
        scanned[keys] = timers.scanned - before
        assert scanned[keys] <= 8 * 4 * BLOCK
        if stored:
            assert eager(op).durable.scanned - rows <= 64  # type: ignore[union-attr]
    assert scanned[MANY] <= scanned[FEW] + BLOCK


def test_asking_what_is_due_looks_at_few_keys() -> None:
    op = filled(MANY, window=sash.Time(10**6))
    timers = live(op).engine.timers
    assert op.due is not None
    before = timers.scanned
    for i in range(8):
        op.process(batch([i], MANY + i))
        assert op.due is not None
    assert timers.scanned - before <= 8 * 3 * BLOCK


def test_metadata_of_pages_changes_by_the_pages_of_a_call() -> None:
    """A failed call changes no metadata of pages, and that of deleted pages is dropped."""
    store = CountingStore()
    op = filled(FEW, store, window=sash.Time(100))
    pages = live(op).durable.transaction  # type: ignore[union-attr]
    for i in range(40):
        op.process(batch([i], FEW + 1000 * (i + 1)))
    op.process(batch([1], FEW + 10**6))
    known = {name for name, size in pages._known.items() if size}
    assert known == {name for name in store.pages if name != "header"}
    assert {name for name, generation in pages._generations.items() if generation} == {*store.pages}
    assert len(pages._known) <= len(store.pages) + 2
