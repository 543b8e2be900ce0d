"""Bucket logs: a call writes only new elements, obsolete segments are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.engine.counting import CountingStore
from tests.shared.small_state import small_buckets

KEYS = 6


@pytest.fixture(autouse=True)
def _interpreted(interpreted_kernels: Any) -> None:
    """Nothing is compiled."""


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    """Segments of a few elements."""
    with small_buckets(4000, 10):
        yield


class SizingStore(CountingStore):
    """Counts bytes that were written, too."""

    def forget(self) -> None:
        super().forget()
        self.sent = 0

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.sent += sum(map(len, pages.values()))
        super().put_many(pages)


def query(window: Any) -> sash.Query:
    return sash.Query(window, by="k", on="t", lateness=0, high=sash.max("x"), total=sash.sum("x"), n=sash.count("y"))


def rows(first: int, keys: Any) -> pa.RecordBatch:
    """A row of each of these keys; every fifth has no y."""
    keys = np.asarray(keys)
    time = np.arange(first, first + len(keys))
    return pa.record_batch(
        {"k": keys, "t": time, "x": pa.array((time * 7 % 13).astype(float)), "y": pa.array(time, mask=time % 5 == 0)}
    )


def play(op: Operator, calls: int, size: int) -> None:
    """Calls of this many rows, with the keys in turn."""
    start = op.metrics.rows_in
    for first in range(start, start + calls * size, size):
        op.process(rows(first, np.arange(first, first + size) % KEYS))


def segments(store: MemoryStore) -> Counter[str]:
    """By bucket: how many segments it has."""
    return Counter(name.split(".")[0] for name in store.pages if name[0] == "s")


# ---- costs ----


@pytest.mark.parametrize("size", [1, 60])
def test_what_a_call_writes_does_not_grow_with_the_window(size: int) -> None:
    found = {}
    for window in (60, 480):
        store = SizingStore()
        op = query(sash.Count(window // KEYS)).operator(store=store)
        play(op, 2 * window // 60 + 1, 60)
        play(op, 40 // size + 1, size)  # buckets take the size that suits such calls
        store.forget()
        calls = 60 // size + 6
        play(op, calls, size)
        found[window] = len(store.written) / calls, store.sent / calls
        assert not store.read
    assert found[480][0] <= 1.3 * found[60][0] + 0.5
    assert found[480][1] <= 1.3 * found[60][1] + 200
    assert size > 1 or found[480][1] <= 6000


def test_segments_die_with_their_windows() -> None:
    store = SizingStore()
    op = query(sash.Time(120)).operator(store=store)
    sizes = []
    for _ in range(10):
        play(op, 4, 20)
        sizes.append(sum(segments(store).values()))
    assert max(sizes[2:]) <= 2 * min(sizes[2:])
    op.advance(10**6)
    assert not segments(store)
    assert op.metrics.state_bytes == sum(map(len, store.pages.values()))


def test_a_key_without_rows_does_not_keep_the_log() -> None:
    """A key without new rows keeps the oldest segment alive: the log is rewritten when most of it is dead."""
    store = SizingStore()
    op = query(sash.Count(20)).operator(store=store)
    play(op, 10, 60)
    for first in range(600, 1500, 60):
        op.process(rows(first, np.zeros(60, int)))
    pages = store.nbytes
    fresh = query(sash.Count(20)).operator(store=MemoryStore())
    play(fresh, 10, 60)
    assert pages < 3 * fresh.metrics.state_bytes, "elements that have left stay in the store"
    beside = query(sash.Count(20)).operator()
    play(beside, 10, 60)
    for first in range(600, 1500, 60):
        beside.process(rows(first, np.zeros(60, int)))
    again = query(sash.Count(20)).operator(store=store)
    keys = {"k": list(range(KEYS))}
    assert again.lookup(keys).to_pydict() == beside.lookup(keys).to_pydict()
    assert again.finish().to_pydict() == beside.finish().to_pydict()
