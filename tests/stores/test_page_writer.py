"""The background writer: order, one call for all that waits, errors once and then again, deletions after commits."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence

import pytest

from sash.stores import FlushError, MemoryStore
from sash.stores.page_writer import BACKLOG, DELETED_AT_ONCE, Commit, PageWriter


class GatedStore(MemoryStore):
    """A store whose writes wait for a gate, and which records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reached = threading.Event(), threading.Event()
        self.calls: list[tuple[str, list[str]]] = []
        self.fails = False

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.reached.set()
        self.gate.wait(10)
        if self.fails:
            raise OSError("disk full")
        self.calls.append(("put", [*pages]))
        super().put_many(pages)

    def delete_many(self, ids: Iterable[str]) -> None:
        names = [*ids]
        self.calls.append(("delete", names))
        super().delete_many(names)

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        if self.fails:
            raise OSError("disk gone")
        return super().get_many(ids)


def writer_of(store: GatedStore) -> PageWriter:
    return PageWriter(store, str.encode, "window 'w'")


def test_all_that_waits_goes_in_one_call_and_the_last_wins() -> None:
    store = GatedStore()
    writer = writer_of(store)
    for number in range(5):
        writer.submit(Commit({"header": str(number), f"page{number}": "x"}))
    store.gate.set()
    writer.wait()
    writer.close()
    assert writer.durable == writer.submitted == 5
    assert len(store.calls) <= 2, "one commit was begun, and the rest waited"
    assert store.pages["header"] == b"4"
    assert {f"page{number}" for number in range(5)} <= set(store.pages)


def test_garbage_goes_after_the_commit_that_gives_it_up() -> None:
    store = GatedStore()
    store.pages.update({f"old{i}": b"" for i in range(2 * DELETED_AT_ONCE + 1)})
    writer = writer_of(store)
    writer.submit(Commit({"header": "1"}, (f"old{i}" for i in range(2 * DELETED_AT_ONCE + 1))))
    store.gate.set()
    writer.wait(deleted=True)
    writer.close()
    assert [(what, len(names)) for what, names in store.calls] == [
        ("put", 1), ("delete", DELETED_AT_ONCE), ("delete", DELETED_AT_ONCE), ("delete", 1)
    ]  # fmt: skip
    assert set(store.pages) == {"header"}


def test_an_error_is_raised_once_and_the_write_repeated() -> None:
    store = GatedStore()
    store.gate.set()
    store.fails = True
    writer = writer_of(store)
    writer.submit(Commit({"header": "1"}))
    with pytest.raises(
        FlushError, match=r"window 'w': writing .* with OSError: disk full\. The pages are kept"
    ) as caught:
        writer.wait()
    assert isinstance(caught.value.__cause__, OSError)
    store.fails = False
    try:
        writer.wait()
    except FlushError:  # the attempt before the disk had room again
        writer.wait()
    assert store.pages == {"header": b"1"}
    writer.check()
    writer.close()


def test_the_caller_waits_when_too_many_pages_wait() -> None:
    store = GatedStore()
    writer = writer_of(store)
    writer.submit(Commit({f"page{i}": "x" for i in range(BACKLOG)}))
    assert not writer.attention
    writer.submit(Commit({"one more": "x"}))
    assert writer.attention
    threading.Timer(0.05, store.gate.set).start()
    writer.check()
    assert writer.durable >= 1
    assert not writer.attention
    writer.close()


def test_what_is_read_ahead_arrives_and_errors_do_not() -> None:
    store = GatedStore()
    store.pages["a"] = b"1"
    writer = writer_of(store)
    writer.fetch(["a", "b"])
    writer.close()
    assert list(writer.arrived) == [("a", b"1"), ("b", None)]
    store.fails = True
    other = writer_of(store)
    other.fetch(["a"])
    other.close()
    assert list(other.arrived) == [("a", None)]
    assert not other.attention


def test_closing_writes_what_was_submitted() -> None:
    store = GatedStore()
    writer = writer_of(store)
    writer.submit(Commit({"header": "1"}))
    threading.Timer(0.05, store.gate.set).start()
    writer.close()
    assert store.pages == {"header": b"1"}


def test_closing_does_not_wait_for_a_store_that_fails() -> None:
    store = GatedStore()
    store.gate.set()
    store.fails = True
    writer = writer_of(store)
    writer.submit(Commit({"header": "1"}))
    writer.close()
    assert store.pages == {}


def test_a_fork_has_a_thread_of_its_own() -> None:
    store = GatedStore()
    writer = writer_of(store)
    writer.submit(Commit({"header": "1"}))
    store.reached.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
        child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(20)
        store.gate = threading.Event()
        store.gate.set()
        writer.wait()
        os._exit(0 if store.pages == {"header": b"1"} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.gate.set()
    writer.close()


def test_a_thread_that_cannot_start_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = GatedStore()
    store.gate.set()
    writer = writer_of(store)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            writer.submit(Commit({"header": "1"}))
        writer.close()
    writer = writer_of(store)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            writer.submit(Commit({"header": "1"}))
    writer.wait()
    writer.close()
    assert store.pages == {"header": b"1"}
