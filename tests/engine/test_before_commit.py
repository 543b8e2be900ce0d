"""`before_commit`: a caller sees what a call has computed before its state is saved, and can still refuse it."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import sash
from sash.engine import Uncommitted
from sash.stores import MemoryStore

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

QUERY = sash.Query("10s", by="k", on="t", lateness="5s", high=sash.max("x"))
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("s")), ("x", pa.int64())])


def rows(*times: int) -> pa.RecordBatch:
    columns = [pa.array(["a"] * len(times)), pa.array(times, pa.timestamp("s")), pa.array(range(len(times)))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def test_sees_results_late_rows_and_watermark_before_the_store_does() -> None:
    store, seen = MemoryStore(), []
    op = QUERY.operator(SCHEMA, store=store)

    def look(step: Uncommitted) -> None:
        seen.append((step, dict(store.items())))

    before = dict(store.items())
    found = op.process(rows(100, 110, 90), offset=1, before_commit=look)
    step, stored = seen.pop()
    assert step.results.equals(found)
    assert step.results.num_rows == 1
    assert step.late_rows.equals(op.late_rows())
    assert step.late_rows.num_rows == 1
    assert step.watermark == op.watermark == 105
    assert stored == before
    assert dict(store.items()) != before

    op.process(rows(91), offset=2, before_commit=look)
    assert seen.pop()[0].late_rows["t"].to_pylist() == rows(91)["t"].to_pylist(), "those of this call alone"

    found = op.finish(offset="over", before_commit=look)
    step, _ = seen.pop()
    assert step.results.equals(found)
    assert found.num_rows == 1
    assert step.watermark == math.inf
    assert QUERY.operator(SCHEMA, store=store).offset == "over"


def test_what_it_raises_undoes_the_call() -> None:
    store = MemoryStore()
    op, plain = QUERY.operator(SCHEMA, store=store), QUERY.operator(SCHEMA)
    op.process(rows(100, 110), offset=1)
    plain.process(rows(100, 110))
    before = dict(store.items())

    def refuse(_: Uncommitted) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        op.process(rows(120, 20), offset=2, before_commit=refuse)
    with pytest.raises(OSError, match="no room"):
        op.finish(offset=2, before_commit=refuse)
    assert dict(store.items()) == before
    assert (op.offset, op.metrics.late, op.late_rows().num_rows) == (1, 0, 0)
    assert op.process(rows(120, 130), offset=2).equals(plain.process(rows(120, 130)))
