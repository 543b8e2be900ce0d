"""A view shows one version of a store, whatever is written meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sash.stores import MemoryStore, RocksDBStore
from sash.stores.store import Viewable

STORES: dict[str, Callable[[Path], Any]] = {"memory": lambda _: MemoryStore(), "rocksdb": RocksDBStore}


@pytest.mark.parametrize("kind", STORES)
def test_a_view_shows_the_version_at_its_beginning(kind: str, tmp_path: Path) -> None:
    names = ["a", "b", "c", "new"]
    with STORES[kind](tmp_path / "pages") as store:
        assert isinstance(store, Viewable)
        store.put_many({"a": b"1", "b": b"1", "c": b"1"})
        with store.view() as first:
            store.put_many({"a": b"2", "new": b"2"})
            with store.view() as second:
                store.delete_many(["b", "missing"])
                store.put_many({"a": b"3"})
                store.delete_many(["new"])
                assert second.get_many(names) == [b"2", b"1", b"1", b"2"]
            assert first.get_many(names) == [b"1", b"1", b"1", None]
            assert first.get_many(["missing"]) == [None]
        assert store.get_many(names) == [b"3", None, b"1", None]


@pytest.mark.parametrize("kind", STORES)
def test_without_a_view_a_write_reads_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with STORES[kind](tmp_path / "pages") as store:
        with store.view() as view:
            assert view.get_many(["a"]) == [None]
        monkeypatch.setattr(type(store), "get_many", lambda *_: pytest.fail("a page was read"))
        store.put_many({"a": b"1"})
        store.delete_many(["a"])
