"""What the reorder buffer costs, and that it is whole when it is interrupted. Its order: tests/behaviour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from sash.columns.arrow_arrays import array
from sash.engine.intake import reorder_buffer
from sash.engine.intake.reorder_buffer import FAN_OUT, ReorderBuffer, TimedRows
from tests.engine.interrupts import interrupted


def ints(times: Sequence[int], first: int = 0) -> TimedRows:
    """Rows of one column."""
    time = np.array(times, np.int64)
    table = pa.RecordBatch.from_arrays([array(time)], names=["t"])
    return TimedRows(table, time, np.arange(first, first + len(time)))


def int_buffer() -> ReorderBuffer:
    return ReorderBuffer(pa.schema([("t", pa.int64())]), (), np.dtype(np.int64))


def check(buffer: ReorderBuffer) -> None:
    """The invariants of the runs."""
    runs = buffer.mark().runs
    assert [run.low for run in runs] == sorted(run.low for run in runs)
    for run in runs:
        assert 0 <= run.start < len(run.rows)
        assert run.low == run.rows.time[run.start]
        pairs = list(zip(run.rows.time.tolist(), run.rows.arrival.tolist(), strict=True))
        assert pairs == sorted(pairs)


def test_what_passes_is_not_copied() -> None:
    buffer = int_buffer()
    rows = ints([1, 2, 3])
    assert buffer.push_and_release(rows, 9) is rows
    row = ints([10])
    assert buffer.push_and_release(row, 9).time.tolist() == []
    assert buffer.push_and_release(ints([12]), 11) is row


@pytest.mark.parametrize("rising", [False, True])
def test_the_number_of_runs_is_logarithmic(rising: bool) -> None:
    buffer, rng = int_buffer(), np.random.default_rng(5)
    count, most, merged = 5000, 0, 0
    for i in range(count):
        before = {id(run.rows) for run in buffer.mark().runs}
        buffer.push_and_release(
            ints([i if rising else int(rng.integers(count))], first=i), i - 2000 if rising else None
        )
        runs = buffer.mark().runs
        most = max(most, len(runs))
        merged += sum(run.waiting for run in runs if run.waiting > 1 and id(run.rows) not in before)
    levels = math.ceil(math.log(count, FAN_OUT))
    assert most <= FAN_OUT * (levels + 1)
    assert merged <= count * levels


def test_memory_of_rows_that_left_is_released() -> None:
    count = 4000
    table = pa.record_batch({"t": range(count), "s": ["x" * 100] * count})
    rows = TimedRows(table, np.arange(count), np.arange(count))
    for until in (10, count - 10):  # of a run, and of rows that mostly pass at once
        buffer = ReorderBuffer(table.schema, (), np.dtype(np.int64))
        buffer.push_and_release(rows, until)
        buffer.push_and_release(rows.slice(0, 0), count - 10)
        (run,) = buffer.mark().runs
        assert len(buffer) == len(run.rows) == 10
        assert run.rows.table.get_total_buffer_size() < 5000
        assert run.rows.time.base is None
        assert run.rows.arrival.base is None
        assert 10 * 116 <= buffer.nbytes < 5000


def test_runs_too_large_to_join_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reorder_buffer, "LARGEST", 40 * FAN_OUT * 24)
    buffer = int_buffer()
    for i in range(5 * FAN_OUT):
        buffer.push_and_release(ints(range(i, i + 50), first=50 * i), None)
    assert {run.waiting for run in buffer.mark().runs} == {50}
    assert len(buffer.push_and_release(ints([]), None, everything=True)) == 250 * FAN_OUT


def test_interrupted_anywhere() -> None:
    """A call interrupted at any line leaves a whole state, before or after, and can be undone."""
    rng = np.random.default_rng(3)
    buffer = int_buffer()
    for i in range(FAN_OUT - 1):
        buffer.push_and_release(ints([int(rng.integers(100))], first=i), None)
    before, old = buffer.mark(), buffer.rows()
    pushed = ints([50, 20, 70], first=99)
    for lines in range(1, 1000):
        stopped = interrupted(partial(buffer.push_and_release, pushed, 30), reorder_buffer, lines)
        check(buffer)
        assert len(buffer) == len(buffer.rows())
        buffer.rollback(before)
        assert buffer.mark() is before
        assert buffer.rows().arrival.tolist() == old.arrival.tolist()
        if not stopped:
            break
    assert 10 < lines < 999
