"""AMTA and LogMTA in RocksDB and Valkey: closed, opened again, two in one store, and only one writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sash.aggregators import AMTA, LogMTA
from sash.aggregators.bulk_evict import BulkEvict
from sash.monoids import Max, Sum
from sash.stores import RocksDBStore, Store, StoreInUse, ValkeyStore

both = pytest.mark.parametrize("structure", [AMTA, LogMTA])


@pytest.fixture(params=["RocksDB", "Valkey"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, prefix: str) -> Callable[[], Store]:
    """Opens one and the same store."""
    if request.param == "RocksDB":
        return lambda: RocksDBStore(tmp_path)
    url = request.getfixturevalue("server_url")
    return lambda: ValkeyStore(url, prefix=prefix)


@both
def test_a_window_continues_in_the_next_process(structure: type[BulkEvict], opened: Callable[[], Store]) -> None:
    inserted: list[int] = []
    F = 0
    for round_ in range(4):
        store = opened()
        with structure(Sum(), store=store, name="sums") as sums, AMTA(Max(), store=store, name="highs") as highs:
            assert (len(sums), len(highs)) == (len(inserted) - F, len(inserted))
            new = [round_ * 7919 * i % 1009 for i in range(3000)]
            sums.insert_many(new)
            highs.insert_many(new)
            inserted += new
            sums.evict_many(1700)
            F += 1700
            for _ in range(300):
                sums.evict()
            F += 300
            assert (sums.query(), highs.query()) == (sum(inserted[F:]), max(inserted))
            sums.check_invariants()
            with pytest.raises(StoreInUse, match="'sums' is open on this store"):
                structure(Sum(), store=store, name="sums")
        names = [name for name, _ in store.scan("sums/")]
        assert len(names) <= 2 * (len(inserted) - F) / 512 + 12
        store.close()


def test_a_second_process_cannot_open_the_store(opened: Callable[[], Store]) -> None:
    store = opened()
    with AMTA(Sum(), store=store) as window:
        window.insert(1)
        with pytest.raises(StoreInUse):
            opened()
    store.close()
