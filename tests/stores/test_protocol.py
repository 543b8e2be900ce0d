"""Every store has the methods of the protocol: ours, Spark's, and those that tests use in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sash.spark.stream.map_state_store import MapStateStore
from sash.stores import MemoryStore, RocksDBStore, Store, ValkeyStore
from tests.engine.counting import CountingStore
from tests.shared.faults import FaultyStore
from tests.stress.file_store import LogStore, PageFiles
from tests.stress.trouble import TroubledStore


class DictMapState:
    """The methods of Spark's MapState that a store calls, on a dict."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.keys = self.values.keys
        self.getValue = self.values.get
        self.updateValue = self.values.__setitem__
        self.removeKey = self.values.pop


@pytest.mark.parametrize("kind", [MemoryStore, RocksDBStore, ValkeyStore, CountingStore])
def test_classes(kind: type) -> None:
    assert issubclass(kind, Store)


@pytest.mark.parametrize(
    "made",
    [
        lambda _path: MapStateStore(DictMapState()),
        lambda _path: FaultyStore(MemoryStore()),
        LogStore,
        lambda path: PageFiles(path, "1"),
        lambda path: TroubledStore(LogStore(path), lambda _text: None),
    ],
    ids=["Spark", "faulty", "log", "files", "troubled"],
)
def test_stores_in_place_of_ours(made: Any, tmp_path: Path) -> None:
    store = made(tmp_path)
    assert isinstance(store, Store)
    store.put_many({"b1": b"1", "a": b"2", "b0": b"3"})
    store.put_many({"a": b"4"})
    store.delete_many(["b1", "missing"])
    assert store.get_many(["b1", "a", "a"]) == [None, b"4", b"4"]
    assert list(store.scan("b")) == [("b0", b"3")]
    assert list(store.scan()) == [("a", b"4"), ("b0", b"3")]
    store.close()
    store.close()


def test_what_spark_has_is_scanned_too() -> None:
    state = DictMapState()
    first = MapStateStore(state)
    first.put_many({"b": b"1", "a": b"2"})
    first.flush()
    second = MapStateStore(state)
    second.put_many({"c": b"3"})
    second.delete_many(["a"])
    assert list(second.scan()) == [("b", b"1"), ("c", b"3")]
