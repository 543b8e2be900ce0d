"""Lookups in the state that another operator writes: as of one commit, never mixed, and nothing is read twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import state_reader
from sash.monoids.op_counter import OpCounter
from sash.stores import MemoryStore, PageError, RocksDBStore
from sash.testing import assert_same
from tests.engine.counting import CountingStore
from tests.shared.effort import share
from tests.shared.small_state import small_buckets

QUERIES: dict[str, dict[str, Any]] = {
    "rows": {"windows": {"time": sash.Time(40), "count": sash.Count(7), "short": sash.Count(3)}},
    "in order": {"windows": sash.Time(40), "lateness": 0},
    "delta": {"windows": sash.Delta("t", 30)},
    "slides": {"windows": {"time": sash.Time(60, every=10), "count": sash.Count(6, every=2)}},
    "running": {"windows": {"session": sash.Session(9, every="close"), "all": sash.Lifetime(every=sash.Time(5))}},
    "changes": {"windows": sash.Time(40), "emit": "changes", "forget": 60},
    "eager": {"windows": sash.Time(40), "emit": "eager"},
}
KEYS = {"k": [*range(40), 7]}


pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    """Many pages of every kind."""
    with small_buckets(1500, 4, 8):
        yield


def query(name: str = "rows", **more: Any) -> sash.Query:
    arguments = {"lateness": 8} | QUERIES[name] | more
    return sash.Query(arguments.pop("windows"), by="k", on="t", **arguments, high=sash.max("x"), total=sash.sum("x"))


def batches(calls: int) -> list[pa.RecordBatch]:
    chance = np.random.default_rng(8)
    return [
        pa.record_batch(
            {
                "k": np.where(chance.random(12) < 0.4, 0, chance.integers(0, 30, 12)),
                "t": np.sort(start + chance.integers(0, 10, 12)),
                "x": chance.integers(0, 100, 12),
            }
        )
        for start in range(0, 10 * calls, 10)
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_a_reader_answers_as_the_operator_does(name: str) -> None:
    store = MemoryStore()
    op, reader = query(name).operator(store=store), query(name).reader(store)
    for i, rows in enumerate(batches(share(40))):
        op.process(rows, offset=i)
        before = dict(store.pages)
        for _ in range(2):
            assert_same(reader.lookup(KEYS), op.lookup(KEYS))
        assert (reader.offset, reader.watermark) == (i, op.watermark)
        at = int(rows["t"][-1].as_py()) + 7
        assert_same(reader.lookup({"k": [0, 3, 99]}, at=at), op.lookup({"k": [0, 3, 99]}, at=at))
        if name == "in order":
            assert_same(reader.lookup(KEYS, last=5), op.lookup(KEYS, last=5))
        assert_same(reader.lookup({"k": [5, i]}), op.lookup({"k": [5, i]}))
        assert store.pages == before, "a lookup has written"
    op.advance(op.watermark + 30)
    assert_same(reader.lookup(KEYS), op.lookup(KEYS))
    op.finish()
    assert_same(reader.lookup(KEYS), op.lookup(KEYS))


def test_nothing_but_the_header_is_read_again() -> None:
    store = CountingStore()
    op = query("in order").operator(store=store)
    for rows in batches(20):
        op.process(rows)
    reader = query("in order").reader(store)
    reader.lookup(KEYS)
    store.forget()
    reader.lookup(KEYS)
    assert store.read == ["header"]
    op.process(pa.record_batch({"k": [3, 3], "t": [200, 201], "x": [1, 2]}))
    store.forget()
    assert reader.lookup(KEYS)["total"].to_pylist() == op.lookup(KEYS)["total"].to_pylist()
    read = [name for name in store.read if name[0] == "b"]
    assert 1 <= len(read) <= 3, "buckets were read that had not changed"
    store.forget()
    assert not reader.refresh()
    assert store.read == ["header"]


@pytest.mark.parametrize("structure", ["DABALite", "TwoStacksLite", "AMTA", "FlatFAT"])
def test_a_lookup_costs_by_its_keys_and_not_by_their_elements(structure: Any) -> None:
    counter = OpCounter(sash.monoids.Max())
    options = sash.Options(structure=structure)
    counted = sash.Query(sash.Time(1000), by="k", on="t", lateness=0, options=options, high=counter("x"))
    times = np.arange(2000) // 2
    rows = pa.record_batch({"k": np.arange(2000) % 2, "t": times, "x": np.arange(2000)})
    store = MemoryStore()
    op = counted.operator(store=store)
    op.process(rows)
    op.advance(1000)  # no row waits
    reader = counted.reader(store)
    for looking in (op, reader):
        looking.lookup({"k": [0, 1]})  # structures of the reader are built once
        counter.taken()
        for _ in range(10):
            assert looking.lookup({"k": [0, 1]})["high"].to_pylist() == [1998, 1999]
        assert counter.taken() <= 10 * 2 * 12


class Interrupting(MemoryStore):
    """A store whose writer commits between two reads."""

    between: Callable[[], None] | None = None

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        found = super().get_many(ids)
        if self.between is not None and list(ids) == ["header"]:
            commit, self.between = self.between, None
            commit()
        return found


def test_a_commit_between_two_reads_is_noticed() -> None:
    written, store = batches(40), Interrupting()
    op = query("rows").operator(store=store)
    reader, beside = query("rows").reader(store), query("rows").operator()
    for i in range(0, 40, 2):
        op.process(written[i])
        beside.process(written[i])
        store.between = lambda i=i: (op.process(written[i + 1]), None)[1]  # type: ignore[misc]
        old = beside.lookup(KEYS)
        beside.process(written[i + 1])
        new = beside.lookup(KEYS)
        found = reader.lookup(KEYS)
        assert found.equals(new) or found.equals(old)
        assert reader.lookup(KEYS).equals(new)


class Remote:
    """A store that cannot show one version, such as a server."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.put_many, self.delete_many, self.scan, self.close = (
            store.put_many, store.delete_many, store.scan, store.close
        )  # fmt: skip

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        return self.store.get_many(ids)


@pytest.mark.parametrize("name", QUERIES)
def test_a_writer_that_never_rests_is_read_at_one_version(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read of pages is followed by a commit, and the lookup answers for the version at its beginning."""
    store, rows = MemoryStore(), iter(batches(400))
    op, beside = query(name).operator(store=store), query(name).operator()
    reader, read, busy = query(name).reader(store), store.get_many, False

    def get_many(ids: Sequence[str]) -> list[bytes | None]:
        nonlocal busy
        found = read(ids)
        if not busy:
            busy = True
            op.process(next(rows))
            busy = False
        return found

    for _ in range(5):
        first = next(rows)
        op.process(first)
        beside.process(first)
        reader.refresh()
        wanted, before = beside.lookup(KEYS), op.metrics.rows_in
        with monkeypatch.context() as patch:
            patch.setattr(store, "get_many", get_many)
            assert_same(reader.lookup(KEYS), wanted)
        assert op.metrics.rows_in > before
        beside = sash.engine.Operator.restore(query(name), op.snapshot())
    assert_same(reader.lookup(KEYS), op.lookup(KEYS))


def test_a_writer_that_never_rests_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reader, "ATTEMPTS", 5)
    store, rows = Remote(MemoryStore()), iter(batches(60))
    op = query("rows").operator(store=store)
    op.process(next(rows))
    reader = query("rows").reader(store)
    read = store.get_many

    def busy(ids: Sequence[str]) -> list[bytes | None]:
        if any(name[0] == "b" for name in ids):
            op.process(next(rows))
        return read(ids)

    op.process(next(rows))
    with monkeypatch.context() as patch:
        patch.setattr(store, "get_many", busy)
        with pytest.raises(TimeoutError, match="written to during each of 5 attempts"):
            reader.lookup(KEYS)
    assert_same(reader.lookup(KEYS), op.lookup(KEYS))


def test_damage_is_no_commit() -> None:
    store = MemoryStore()
    op = query().operator(store=store)
    for rows in batches(5):
        op.process(rows)
    reader = query().reader(store)
    name = next(name for name in store.pages if name[0] == "b")
    whole = store.pages[name]
    store.pages[name] = whole[:-9] + bytes([whole[-9] ^ 16]) + whole[-8:]
    with pytest.raises(PageError, match=f"page '{name}' is damaged"):
        reader.lookup(KEYS)
    store.pages[name] = whole
    assert_same(reader.lookup(KEYS), op.lookup(KEYS))


def test_a_reader_of_an_empty_store_waits_for_the_first_commit() -> None:
    store = MemoryStore()
    reader = query().reader(store)
    with pytest.raises(ValueError, match=r"lookup\(\) has nothing to read: nothing was committed"):
        reader.lookup(KEYS)
    assert (reader.offset, reader.watermark, reader.metrics.rows_in) == (None, None, 0)
    query().operator(store=store).process(batches(1)[0], offset=12)
    assert reader.lookup(KEYS).num_rows == 41
    assert reader.offset == 12


@pytest.mark.parametrize("name", ["process", "advance", "finish", "snapshot", "late_rows"])
def test_a_reader_writes_nothing(name: str) -> None:
    reader: Any = query().reader(MemoryStore())
    with pytest.raises(AttributeError, match=rf"a reader has no {name}\(\)"):
        getattr(reader, name)
    with pytest.raises(AttributeError, match="no attribute 'absorb'"):
        _ = reader.absorb


def test_a_reader_stays_within_its_memory() -> None:
    store = MemoryStore()
    op = query("in order").operator(store=store)
    for rows in batches(20):
        op.process(rows)
    counting = CountingStore(store.pages)
    reader = query("in order", options=sash.Options(memory=1)).reader(counting)
    for _ in range(2):
        counting.forget()
        for key in range(30):
            assert_same(reader.lookup({"k": [key]}), op.lookup({"k": [key]}))
        assert len([name for name in counting.read if name[0] == "b"]) > 15, "keys have stayed in memory"


def test_the_keys_that_a_reader_looked_up_last_stay_in_its_memory() -> None:
    store = CountingStore()
    op = sash.Query(50, by="k", high=sash.max("x")).operator(store=store)
    op.process({"k": np.repeat(np.arange(600), 5), "x": np.arange(3000.0)})
    reader = sash.Query(50, by="k", options=sash.Options(memory="200kB"), high=sash.max("x")).reader(store)
    for hot in (0, 3):
        reader.lookup({"k": [hot]})
        for first in range(0, 600, 10):
            reader.lookup({"k": range(first, first + 10)})
            store.forget()
            reader.lookup({"k": [hot]})
            assert store.read == ["header"], f"key {hot} has left, though it was used a moment ago"
        store.forget()
        reader.lookup({"k": range(10)})
        assert len(store.read) > 1, "nothing has left"


def test_pages_are_read_in_few_round_trips() -> None:
    """Segments of a large key and rows that wait are many pages: a remote store is asked once for many of them."""
    store = CountingStore()
    many = query(windows=sash.Count(1000), lateness=500)
    times = np.arange(2000)
    many.operator(store=store).process({"k": times * 0, "t": times, "x": times})
    reader = many.reader(store)
    store.forget()
    assert reader.lookup({"k": [0]})["high"].to_pylist() == [1999]
    pages = [name[0] for name in store.read]
    assert pages.count("s") > 100
    assert pages.count("q") > 60
    assert store.round_trips <= 6 + len(pages) // 60


def test_a_reader_follows_a_writer_on_rocksdb(tmp_path: Path) -> None:
    with RocksDBStore(tmp_path / "pages") as store:
        op = query().operator(store=store)
        op.process(batches(1)[0])
        with RocksDBStore(tmp_path / "pages", read_only=True) as view:
            reader = query().reader(view)
            for rows in batches(12)[1:]:
                op.process(rows)
                assert_same(reader.lookup(KEYS), op.lookup(KEYS))


@pytest.mark.parametrize("mode", ["given", "sorted"])
def test_a_reader_takes_the_mode_from_the_state(mode: Any) -> None:
    store = MemoryStore()
    op, reader = query("in order").operator(store=store, mode=mode), query("in order").reader(store)
    for i, rows in enumerate(batches(6)):
        op.process(rows if mode == "given" else rows.set_column(0, "k", pa.array([i] * 12)))
        if mode == "given":
            op.advance(10 * i + 4)
        assert_same(reader.lookup(KEYS), op.lookup(KEYS))
    assert reader.mode == mode
