"""Crafted snapshots: their mode, their late rows and their schema are checked."""

import pyarrow as pa
import pytest

from sash import Time
from sash.engine import Operator
from sash.stores import PageError
from tests.engine.crafted_pages import SCHEMA, query, rows
from tests.fuzz.envelopes import State

pytestmark = pytest.mark.compiled


@pytest.mark.usefixtures("interpreted_trees")
@pytest.mark.parametrize("mode", ["", "nonsense", "sorted"])
def test_modes_of_snapshots(mode: str) -> None:
    asked = query(Time(9), emit="eager")
    operator = asked.operator(SCHEMA)
    operator.process(rows(0, 8))
    state = State.of_snapshot(operator.snapshot())
    state.mode = mode
    with pytest.raises(PageError, match="the snapshot is damaged: its mode is"):
        Operator.restore(asked, state.snapshot())


def test_late_rows_of_a_snapshot_are_checked() -> None:
    asked = query(Time(9))
    operator = asked.operator(SCHEMA)
    operator.process(rows(50, 8))
    operator.process(rows(0, 8))
    state = State.of_snapshot(operator.snapshot())
    assert Operator.restore(asked, state.snapshot()).late_rows().num_rows == 8
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(rows(0, 8))
    for late in (sink.getvalue().to_pybytes(), b"", b"nonsense", state.pages["late"][:-100]):
        state.pages["late"] = late
        with pytest.raises(PageError, match="page 'late' is damaged"):
            Operator.restore(asked, state.snapshot())


def test_a_snapshot_of_types_that_no_query_takes() -> None:
    asked = query(Time(9))
    operator = asked.operator(SCHEMA)
    operator.process(rows(0, 8))
    state = State.of_snapshot(operator.snapshot())
    state.schema = (
        pa.schema([("k", pa.month_day_nano_interval()), ("t", pa.list_(pa.int64()))]).serialize().to_pybytes()
    )
    with pytest.raises(PageError, match="the snapshot was written by another query"):
        Operator.restore(asked, state.snapshot())
    state.schema = b"nonsense"
    with pytest.raises(PageError, match="the snapshot is damaged"):
        Operator.restore(asked, state.snapshot())
