"""An operator on RocksDB whose process is killed, and on whose pages something has happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sash.stores import PageError, RocksDBStore, StoreInUse
from tests.engine.killed_writers import CALLS, KEYS, QUERY, batch
from tests.fuzz.envelopes import repaired


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.all_compiled)])
def test_a_killed_process_leaves_a_prefix_of_the_calls(kills: int, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "tests.engine.killed_writers", str(tmp_path), str(kills)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > kills // 2, "the writers were not killed"


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with RocksDBStore(tmp_path) as store:
        op = QUERY.operator(store=store)
        op.process(batch(0))
        code = "import sys; from sash.stores import RocksDBStore; RocksDBStore(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
        assert StoreInUse.__name__ in done.stderr
        assert str(tmp_path) in done.stderr
        op.process(batch(1))


@pytest.mark.parametrize("kind", ["header", "root", "bucket", "buffer"])
@pytest.mark.parametrize("fault", ["bit", "version", "missing"])
def test_a_page_that_is_not_what_it_was_is_named(kind: str, fault: str, tmp_path: Path) -> None:
    with RocksDBStore(tmp_path) as store:
        op = QUERY.operator(store=store)
        for call in range(4):
            op.process(batch(call), offset=call)
        name = next(
            name for name, _ in store.scan() if name == kind or (name[0] == {"bucket": "b", "buffer": "q"}.get(kind))
        )
        (whole,) = store.get_many([name])
        assert whole is not None
    middle = len(whole) // 2
    faults = {
        "bit": whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :],
        "version": repaired(whole[:4] + bytes([9]) + whole[5:]),
    }
    says = {"bit": f"page '{name}' is damaged", "version": f"page '{name}' has format version 9"}
    with RocksDBStore(tmp_path) as store:
        if fault == "missing":
            store.delete_many([name])
        else:
            store.put_many({name: faults[fault]})
        if fault == "missing" and kind == "root":
            with pytest.raises(PageError, match="page 'root' with the schema of the rows is missing"):
                QUERY.operator(store=store)
            op = QUERY.operator(batch(0).schema, store=store)  # the header tells the state
            assert op.offset == 3
            return
        with pytest.raises(PageError, match=says.get(fault, f"page '{name}' is missing")):
            QUERY.operator(store=store).lookup(KEYS)
        store.put_many({name: whole})
        op = QUERY.operator(store=store)
        assert op.offset == 3
        op.process(batch(4))
    assert CALLS > 4
