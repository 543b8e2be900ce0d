"""One writer at a time, in real processes: who is refused, who takes over, and who cannot write any more."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sash.stores import RocksDBStore, StoreError, StoreInUse, ValkeyStore, WriterReplaced
from sash.stores import valkey_store as valkey_lease
from tests.stores.servers import serving, url_of
from tests.stores.writing import WritingProcess, batch, number_of, opened

LEASE = 1.5
"""Seconds; a process renews it three times as often. A busy machine can stop one for a second."""


def pages_of(store: Any) -> dict[str, bytes]:
    return dict(store.scan())


@pytest.fixture(params=["rocksdb", "valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """Where, and the options of a writer."""
    if request.param == "rocksdb":
        return str(tmp_path / "store"), {}
    options = {"prefix": request.getfixturevalue("prefix"), "lease": LEASE}
    return request.getfixturevalue("server_url"), options


def test_a_second_process_is_refused_with_the_name_of_the_writer(place: tuple[str, dict[str, Any]]) -> None:
    where, options = place
    with WritingProcess(where, **options) as first:
        assert first.first == "open"
        with pytest.raises(StoreInUse, match=rf"open for writing in process {first.pid} on "):
            opened(where, options)
        with WritingProcess(where, **options) as second:
            assert second.first.startswith("StoreInUse ")
            assert f"process {first.pid} " in second.first
        assert first.put(1) == "put 1"
    with opened(where, options | ({"wait": 20} if "://" in where else {})) as store:
        assert number_of(pages_of(store)) == 1


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.all_compiled)])
def test_a_write_that_is_killed_is_there_as_a_whole_or_not_at_all(
    place: tuple[str, dict[str, Any]], kills: int
) -> None:
    where, options = place
    options |= {"wait": 20, "lease": 0.2} if "://" in where else {}
    moments, last, during, killed = random.Random(7), 0, 0, 0
    while killed < kills or (not during and killed < kills + 50):
        killed += 1
        with WritingProcess(where, **options) as writer:
            writer.tell(f"run {last + 1}")
            assert writer.line() == f"put {last + 1}"
            time.sleep(moments.random() * 0.05)
            confirmed = max(writer.kill(), default=last + 1)
        with opened(where, options) as store:
            found = number_of(pages_of(store))
        assert found in (confirmed, confirmed + 1), "what was confirmed is there"
        during += confirmed > last + 1
        last = found
    assert during, "some were killed while they wrote"


@pytest.mark.parametrize("seconds", [1.5, pytest.param(30, marks=pytest.mark.all_compiled)])
def test_a_reader_sees_whole_writes_of_a_busy_writer(place: tuple[str, dict[str, Any]], seconds: float) -> None:
    """RocksDB with write buffers of 64 KiB: the writer replaces and deletes files all the time."""
    where, options = place
    with WritingProcess(where, small=True, **options) as writer:
        assert writer.put(1) == "put 1"
        keys = {"prefix": options["prefix"]} if "prefix" in options else {}
        with opened(where, keys | {"read_only": True}) as reader:
            writer.tell("run 2")
            seen, names, end = set(), sorted(batch(1)), time.monotonic() + seconds
            while time.monotonic() < end or len(seen) <= 3:
                assert time.monotonic() < end + 60, "the reader follows the writer"
                confirmed = [writer.line() for _ in range(50)][-1]  # the writer stops when the pipe is full
                reader.refresh()
                pages = dict(zip(names, reader.get_many(names), strict=True))
                seen.add(number_of(pages))
                if isinstance(reader, RocksDBStore):
                    assert pages_of(reader) == pages, "one version between two refreshes"
            newest = max(writer.kill(), default=int(confirmed.split()[1]))
            reader.refresh()
            assert number_of(pages_of(reader)) in (newest, newest + 1)


def test_a_store_is_of_the_process_that_opened_it(place: tuple[str, dict[str, Any]]) -> None:
    where, options = place
    with opened(where, options) as store:
        store.put_many(batch(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
            child = os.fork()
        if child == 0:  # pragma: no cover - another process
            code = 1
            try:
                store.put_many(batch(2))
            except StoreError as error:
                code = 0 if "open it in the process that uses it" in str(error) else 2
            store.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.put_many(batch(3))
        assert number_of(pages_of(store)) == 3


def test_a_store_that_is_dropped_without_close_can_be_opened_again(place: tuple[str, dict[str, Any]]) -> None:
    where, options = place
    store = opened(where, options)
    store.put_many(batch(1))
    del store
    with opened(where, options | ({"wait": 20} if "://" in where else {})) as again:
        assert number_of(pages_of(again)) == 1


def test_a_server_that_is_killed_has_whole_writes(tmp_path: Path) -> None:
    moments = random.Random(3)
    with serving(tmp_path, appendonly="yes", appendfsync="always") as server:
        with WritingProcess(url_of(server), timeout=20, lease=1) as writer:
            writer.tell("run 1")
            for _ in range(3):
                time.sleep(0.1 + moments.random() * 0.1)
                server.terminate()
                server.start()
                with ValkeyStore(url_of(server), read_only=True) as reader:
                    names = list(batch(1))
                    number_of(dict(zip(names, reader.get_many(names), strict=True)))
            newest = max(writer.kill())
        with ValkeyStore(url_of(server), wait=20) as store:
            assert number_of(pages_of(store)) in (newest, newest + 1), "nothing that was confirmed is lost"


# ---- the lease of a writer in Valkey ----


@pytest.fixture
def writer(server_url: str, prefix: str) -> Callable[..., ValkeyStore]:
    return lambda **options: ValkeyStore(server_url, prefix=prefix, lease=LEASE, timeout=5, **options)


def test_the_lease_of_a_killed_writer_expires(server_url: str, prefix: str, writer: Callable[..., ValkeyStore]) -> None:
    with WritingProcess(server_url, prefix=prefix, lease=LEASE) as killed:
        assert killed.put(1) == "put 1"
    with pytest.raises(
        StoreInUse, match=rf"process {killed.pid} .*; its lease expires in [01]\.\d s unless it is renewed"
    ):
        writer()
    begin = time.monotonic()
    with writer(wait=20) as store:
        assert time.monotonic() - begin < 10, "about the length of the lease"
        assert number_of(pages_of(store)) == 1


def test_a_lease_is_renewed_while_the_writer_lives(writer: Callable[..., ValkeyStore]) -> None:
    with writer() as store:
        store.put_many(batch(1))
        with pytest.raises(StoreInUse):
            writer(wait=1.3 * LEASE)
        store.put_many(batch(2))


def test_a_late_renewal_does_not_take_a_released_lease_again(writer: Callable[..., ValkeyStore]) -> None:
    store = writer()
    lease = store._lease
    assert lease is not None
    assert lease.renew()
    store.close()
    assert not lease.renew()
    writer().close()


def test_a_release_waits_for_a_renewal(writer: Callable[..., ValkeyStore], monkeypatch: pytest.MonkeyPatch) -> None:
    store, begun, go_on = writer(), threading.Event(), threading.Event()
    lease, connection = store._lease, store._connection
    assert lease is not None
    assert connection is not None
    run = connection.run

    def late(script: Any, *arguments: Any, **keywords: Any) -> Any:
        if script is valkey_lease._RENEW:
            begun.set()
            go_on.wait(10)
        return run(script, *arguments, **keywords)

    monkeypatch.setattr(connection, "run", late)
    begun.wait(10)  # the thread of the lease
    threading.Timer(0.1, go_on.set).start()
    store.close()
    writer().close()


def test_a_writer_that_was_replaced_cannot_write(
    server_url: str, prefix: str, writer: Callable[..., ValkeyStore]
) -> None:
    with WritingProcess(server_url, prefix=prefix, lease=LEASE) as paused:
        assert paused.put(1) == "put 1"
        os.kill(paused.pid, signal.SIGSTOP)
        try:
            with writer(wait=20) as store:
                store.put_many(batch(2))
                os.kill(paused.pid, signal.SIGCONT)
                answer = paused.put(3)
                assert answer.startswith("WriterReplaced ")
                assert f"was taken over by process {os.getpid()} on " in answer
                assert number_of(pages_of(store)) == 2
            answer = paused.put(4)
            assert answer.startswith("WriterReplaced "), "nor when the other one has closed"
            assert "has had another writer" in answer
            with writer() as store:
                assert number_of(pages_of(store)) == 2
        finally:
            os.kill(paused.pid, signal.SIGCONT)


def test_a_writer_whose_lease_expired_continues_if_nobody_else_wrote(
    server_url: str, prefix: str, writer: Callable[..., ValkeyStore], valkey_server: Any
) -> None:
    with WritingProcess(server_url, prefix=prefix, lease=LEASE) as paused, valkey_server.client() as client:
        assert paused.put(1) == "put 1"
        os.kill(paused.pid, signal.SIGSTOP)
        while client.exists(f"{{{prefix}}}:lease"):
            time.sleep(0.05)
        os.kill(paused.pid, signal.SIGCONT)
        assert paused.put(2) == "put 2"
        with pytest.raises(StoreInUse):
            writer()


def test_writers_of_other_prefixes_do_not_meet(server_url: str, prefix: str) -> None:
    with ValkeyStore(server_url, prefix=prefix) as one, ValkeyStore(server_url, prefix=prefix + "x") as other:
        one.put_many({"a": b"1"})
        other.put_many({"a": b"2"})
        assert one.get_many(["a"]) == [b"1"]


def test_a_deleted_store_is_noticed(writer: Callable[..., ValkeyStore], valkey_server: Any, prefix: str) -> None:
    with writer() as store, valkey_server.client() as client:
        store.put_many(batch(1))
        client.delete(*(f"{{{prefix}}}:{kind}" for kind in ("pages", "names", "lease", "commit")))
        with pytest.raises(WriterReplaced, match=r"is gone: the server has lost its data"):
            store.put_many(batch(2))
        assert pages_of(store) == {}
