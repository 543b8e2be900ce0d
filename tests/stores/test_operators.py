"""An operator on each durable store: it continues after a restart, and a store that fails leaves it as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import RocksDBStore, StoreUnavailable, ValkeyStore
from tests.stores.servers import serving, url_of

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
QUERY = sash.Query(sash.Time(50), by="k", on="t", high=sash.max("x"))
CALLS = 6


def rows(call: int) -> pa.RecordBatch:
    times = range(40 * call, 40 * call + 40)
    columns = [[t % 7 for t in times], list(times), [float(t * 31 % 53) for t in times]]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def in_memory() -> list[Any]:
    operator = QUERY.operator(SCHEMA)
    return [operator.process(rows(call)).to_pylist() for call in range(CALLS)]


@pytest.mark.parametrize("kind", ["rocksdb", "valkey"])
def test_an_operator_continues_after_each_call(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if kind == "rocksdb":
        opened: Callable[[], Any] = partial(RocksDBStore, tmp_path / "store")
    else:
        url, prefix = request.getfixturevalue("server_url"), request.getfixturevalue("prefix")
        opened = partial(ValkeyStore, url, prefix=prefix)
    found = []
    for call in range(CALLS):
        with opened() as store:
            operator = QUERY.operator(SCHEMA, store=store)
            assert operator.offset == (call or None)
            found.append(operator.process(rows(call), offset=call + 1).to_pylist())
    assert found == in_memory()


def test_a_call_can_be_repeated_when_the_server_is_back(tmp_path: Path) -> None:
    with (
        serving(tmp_path, appendonly="yes", appendfsync="always") as server,
        ValkeyStore(url_of(server), timeout=0.5) as store,
    ):
        operator, found = QUERY.operator(SCHEMA, store=store), []
        for call in range(CALLS):
            server.stop()
            with pytest.raises(StoreUnavailable):
                operator.process(rows(call))
            server.start()
            found.append(operator.process(rows(call)).to_pylist())
        assert found == in_memory()
