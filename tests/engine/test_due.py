"""`Operator.due`: the least watermark at which there is something to do, for a host that has to call then."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Query, Session, Time

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64()})
FLOATS = pa.schema({"k": pa.string(), "t": pa.float64()})


def rows(*given: tuple[str, Any], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(("k", "t"), row, strict=True)) for row in given], schema=schema)


def test_nothing_is_due_before_there_is_a_row() -> None:
    assert Query(Time(5), on="t", lateness=1, n=sash.count()).operator(SCHEMA, mode="given").due is None


def test_a_row_that_waits_is_due_just_after_its_time() -> None:
    op = Query(Time(5), by="k", on="t", lateness=1, n=sash.count()).operator(SCHEMA, mode="given")
    op.process(rows(("a", 9), ("b", 7)))
    assert op.due == 8
    assert op.advance(7).num_rows == 0
    assert op.advance(op.due).num_rows == 1
    later = Query(Time(5.0), by="k", on="t", lateness=1.0, n=sash.count()).operator(FLOATS, mode="given")
    later.process(rows(("a", 0.5), schema=FLOATS))
    assert 0.5 < later.due < 0.5 + 1e-12
    assert later.advance(later.due).num_rows == 1


@pytest.mark.parametrize("window", [Session(5, every="close"), Time(4, every=4)])
def test_calls_when_something_is_due_give_all_there_is(window: Any) -> None:
    op = Query(window, by="k", on="t", lateness=1, n=sash.count()).operator(SCHEMA, mode="given")
    op.process(rows(("a", 1), ("b", 2), ("a", 30), ("c", 33)))
    ends, calls = [], 0
    while op.due is not None and op.due < 1000:
        before = op.due
        ends += op.advance(before).column("window_end").to_pylist()
        assert op.due is None or op.due > before
        calls += 1
    whole = Query(window, by="k", on="t", n=sash.count()).run(
        pa.Table.from_batches([rows(("a", 1), ("b", 2), ("a", 30), ("c", 33))])
    )
    assert sorted(ends) == sorted(whole.column("window_end").to_pylist())
    assert calls < 20
