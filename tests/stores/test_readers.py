"""A reader of state that an operator keeps writing: each lookup is consistent with one commit."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sash.stores import RocksDBStore, ValkeyStore, rocksdb_store
from tests.engine.killed_writers import KEYS, QUERY, batch
from tests.shared.small_state import small_buckets

CALLS = 40


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize("kind", ["rocksdb", "valkey"])
def test_answers_are_never_mixed(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    beside = QUERY.operator()
    expected = []
    for call in range(CALLS):
        beside.process(batch(call))
        expected.append(beside.lookup(KEYS).to_pylist())
    if kind == "rocksdb":
        store: Any = RocksDBStore(tmp_path / "pages")
        view: Any = RocksDBStore(tmp_path / "pages", read_only=True)
    else:
        url, prefix = request.getfixturevalue("server_url"), request.getfixturevalue("prefix")
        store, view = ValkeyStore(url, prefix=prefix), ValkeyStore(url, prefix=prefix, read_only=True)
    with store, view, small_buckets(3000, 10):
        op = QUERY.operator(store=store)
        op.process(batch(0))

        def write() -> None:
            for call in range(1, CALLS):
                op.process(batch(call), offset=call)

        writer = threading.Thread(target=write)
        reader, seen = QUERY.reader(view), [0]
        writer.start()
        while writer.is_alive():
            found = reader.lookup(KEYS).to_pylist()
            seen.append(reader.offset or 0)
            assert found == expected[seen[-1]]
        writer.join()
        assert seen == sorted(seen)
        assert reader.lookup(KEYS).to_pylist() == expected[-1]
        assert reader.offset == CALLS - 1


class OpenedStore(RocksDBStore):
    """Counts how often a reader opens the files."""

    opened = 0

    def _reader(self) -> Any:
        self.opened += 1
        return super()._reader()


def versions(store: RocksDBStore) -> set[bytes | None]:
    """The first bytes of each page."""
    return {page and page[:8] for page in store.get_many([f"b{i}" for i in range(8)])}


def test_a_reader_keeps_its_files_open_while_the_writer_replaces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocksdb_store, "WRITE_BUFFER", 64 << 10)
    with RocksDBStore(tmp_path) as store:
        store.put_many({f"b{i}": bytes(8) for i in range(8)})
        reader = OpenedStore(tmp_path, read_only=True)
        with reader:
            for call in range(150):  # each fills a third of the write buffer
                version = call.to_bytes(8, "big")
                store.put_many({f"b{i}": version + os.urandom(3000) for i in range(8)})
                reader.refresh()
                assert versions(reader) == {version}
            assert reader.opened <= 10  # it tries again if a file is deleted while it reads; there were 50 new ones


def test_a_reader_sees_what_a_writer_wrote_before_it_was_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is opened replaces its log by a file, with records that the reader may not have read."""
    monkeypatch.setattr(rocksdb_store, "WRITE_BUFFER", 64 << 10)
    chance, number, confirmed = np.random.default_rng(5), 0, bytes(8)
    RocksDBStore(tmp_path).close()
    with RocksDBStore(tmp_path, read_only=True) as reader:
        for _ in range(40):
            with RocksDBStore(tmp_path) as store:
                reader.refresh()
                assert versions(reader) == ({confirmed} if number else {None})
                for _ in range(int(chance.integers(0, 6))):
                    number += 1
                    confirmed = number.to_bytes(8, "big")
                    store.put_many({f"b{i}": confirmed + os.urandom(int(chance.choice([10, 4000]))) for i in range(8)})
                    if chance.random() < 0.4:
                        reader.refresh()
                        assert versions(reader) == {confirmed}


def test_a_reader_does_not_look_for_writes_if_there_were_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RocksDBStore(tmp_path) as store, RocksDBStore(tmp_path, read_only=True) as reader:
        store.put_many({"a": b"1"})
        reader.refresh()
        counted = CountedReads(reader._db)
        monkeypatch.setattr(reader, "_db", counted)
        for _ in range(3):
            reader.refresh()
        assert counted.reads == 0
        store.put_many({"a": b"2"})
        reader.refresh()
        assert counted.reads == 1
        assert reader.get_many(["a"]) == [b"2"]
        monkeypatch.undo()


class CountedReads:
    """Counts how often an open database reads what was written since."""

    def __init__(self, held: Any) -> None:
        self._held, self.reads = held, 0

    def try_catch_up_with_primary(self) -> None:
        self.reads += 1
        self._held.try_catch_up_with_primary()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)
