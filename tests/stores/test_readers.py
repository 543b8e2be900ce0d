"""A reader of state that an operator keeps writing: each lookup is consistent with one commit."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from sash.stores import RocksDBStore, ValkeyStore
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
