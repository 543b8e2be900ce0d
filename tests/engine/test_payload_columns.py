"""Columns that no aggregate reads are returned unchanged, whatever their type and name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import operator as operators
from sash.stores import MemoryStore

KINDS = pa.array([0, 1, 0], pa.int8())
PAYLOADS = {
    "sparse union": pa.UnionArray.from_sparse(KINDS, [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]),
    "dense union": pa.UnionArray.from_dense(
        KINDS, pa.array([0, 0, 1], pa.int32()), [pa.array([1, 3]), pa.array(["b"])]
    ),
    "list of views": pa.array([["a"], None, ["b", "c"]], pa.list_(pa.string_view())),
    "struct of views": pa.array([{"x": b"a"}, {"x": None}, None], pa.struct([("x", pa.binary_view())])),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1, 2])),
}


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_of_any_type_goes_through(name: str, emit: Any) -> None:
    """Rows out of order, late rows, and rows from a snapshot and a store."""
    payload = PAYLOADS[name]
    batch = pa.record_batch({"t": [30, 20, 10], "p": payload})
    for store in (None, MemoryStore()):
        query = sash.Query(2, on="t", lateness=20, emit=emit, options=sash.Options(store=store), n=sash.last("t"))
        operator = query.operator(batch.schema)
        found = [operator.process(batch)]
        operator = type(operator).restore(query, operator.snapshot())
        late = pa.record_batch([pa.array([1, 2, 3]), payload], schema=batch.schema)
        found.append(operator.process(late))
        assert operator.late_rows().column("p").to_pylist() == payload.to_pylist()
        found.append(operator.finish())
        table = pa.Table.from_batches(found)
        assert table.schema.field("p").type == payload.type
        pairs = zip(table["t"].to_pylist(), table["p"].to_pylist(), strict=True)
        assert sorted(pairs, key=lambda pair: pair[0]) == list(
            zip([10, 20, 30], payload.to_pylist()[::-1], strict=True)
        )


@pytest.mark.parametrize("name", ["_late", "_arrival", "_row", "_revision", "window", "window_start"])
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_a_payload_of_any_name_goes_through(name: str, emit: Any) -> None:
    """The results of a query can be the input of another; only duplicate names are refused."""
    batch = pa.record_batch({"t": [3, 1, 2], name: [True, False, True]})
    for store in (None, MemoryStore()):
        options = sash.Options(store=store)
        query = sash.Query(2, on="t", lateness=9, emit=emit, options=options, n=sash.last("t"))
        if emit == "eager" and name in ("_row", "_revision"):
            with pytest.raises(ValueError, match=f"two columns '{name}'"):
                query.operator(batch.schema)
            continue
        operator = query.operator(batch.schema)
        found = [operator.process(batch)]
        if store is not None:
            operator = query.operator(batch.schema)
        table = pa.Table.from_batches([*found, operator.finish()])
        assert sorted(zip(table["t"].to_pylist(), table[name].to_pylist(), strict=True)) == [
            (1, False), (2, True), (3, True)
        ]  # fmt: skip


def test_a_stream_keeps_no_late_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted: nobody who has only the results can ask for them."""
    made: list[Any] = []

    class Watched(operators.Operator):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(operators, "Operator", Watched)
    batches = iter([pa.record_batch({"t": [100]}), *[pa.record_batch({"t": [1]})] * 5])
    for _ in sash.Query(2, on="t", lateness=1, n=sash.count()).run(batches):
        assert made[0].state.progress.late_rows == ()
    assert made[0].metrics.late == 5
