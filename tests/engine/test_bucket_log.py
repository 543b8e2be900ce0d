"""Bucket logs: a call writes only new elements, obsolete segments are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.engine.live_backend import LiveBackend
from sash.state import bucket_log
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


@pytest.mark.parametrize("size", [1, 7, 50])
@mock.patch.object(bucket_log, "SEGMENT_SIZE", 1 << 18)
def test_a_bucket_has_no_more_segments_than_its_share(size: int) -> None:
    """The bound holds for calls of any size, since the tail of a long log is longer. Marks have a fixed size."""
    store = SizingStore()
    op = sash.Query(500, n=sash.sum("x")).operator(store=store)
    longest = 0
    for first in range(0, 800, size):
        op.process(rows(first, np.zeros(size, int)).select(["x"]))
        longest = max(longest, *segments(store).values(), 0)
    assert 5 < longest <= 4 * bucket_log.SHARE
    assert len(store.pages["b0000000000000000"]) < 3000
    again = sash.Query(500, n=sash.sum("x")).operator(store=store)
    store.forget()
    again.process(rows(0, [0]).select(["x"]))
    assert store.round_trips <= 3 + longest // 64
    assert Counter(store.read).most_common(1)[0][1] <= 2


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
    assert isinstance(op.state.backend, LiveBackend)
    assert op.state.backend.durable is not None
    logs, starts = op.state.backend.durable.logs, op.state.backend.durable.buckets.starts.tolist()
    logged = sum(log.elements for start in starts for log in logs.of(start))
    assert 0 < logged <= 2 * op.metrics.elements + len(starts) * 4 * bucket_log.LEAST / min(logs.widths) + 60
    beside = query(sash.Count(20)).operator()
    play(beside, 10, 60)
    for first in range(600, 1500, 60):
        beside.process(rows(first, np.zeros(60, int)))
    again = query(sash.Count(20)).operator(store=store)
    keys = {"k": list(range(KEYS))}
    assert again.lookup(keys).to_pydict() == beside.lookup(keys).to_pydict()
    assert again.finish().to_pydict() == beside.finish().to_pydict()


def test_a_reader_follows_a_log() -> None:
    store = MemoryStore()
    op, reader = query(sash.Count(50)).operator(store=store), query(sash.Count(50)).reader(store)
    keys = {"k": list(range(KEYS))}
    for _ in range(12):
        play(op, 1, 45)
        assert reader.lookup(keys).to_pydict() == op.lookup(keys).to_pydict()
    assert segments(store)


def test_a_snapshot_leaves_no_trace_of_its_segments() -> None:
    op, beside = query(sash.Count(50)).operator(), query(sash.Count(50)).operator()
    for _ in range(3):
        play(op, 3, 60)
        play(beside, 3, 60)
        op = Operator.restore(query(sash.Count(50)), op.snapshot())
    assert isinstance(op.state.backend, LiveBackend)
    assert all(bucket_log.SEGMENT not in assigner.arena.columns for assigner in op.state.backend.engine.arena_assigners)
    assert sorted(op.finish().to_pylist(), key=repr) == sorted(beside.finish().to_pylist(), key=repr)
