"""The reorder buffer, compared with a sorted list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.columns.arrow_arrays import array
from sash.engine.intake import reorder_buffer
from sash.engine.intake.reorder_buffer import FAN_OUT, ReorderBuffer, TimedRows
from tests.engine.interrupts import interrupted

INT64 = np.iinfo(np.int64)
SCHEMA = pa.schema([("t", pa.int64()), ("tie", pa.string()), ("second", pa.int16()), ("nested", pa.list_(pa.string()))])

Row = tuple[Any, int, tuple[Any, ...]]
"""Time, arrival, and the values of the other columns."""


def timed(schema: pa.Schema, rows: Sequence[Row], dtype: Any = np.int64) -> TimedRows:
    """Rows for a buffer; the first column of the schema is the time."""
    columns = [[row[0] for row in rows], *([row[2][i] for row in rows] for i in range(len(schema) - 1))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    table = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return TimedRows(table, np.array(columns[0], dtype), np.array([row[1] for row in rows], np.int64))


def listed(rows: TimedRows) -> list[Row]:
    """The rows of a `timed` batch as a list."""
    names = rows.table.schema.names[1:]
    assert rows.table.num_rows == len(rows) == len(rows.arrival)
    rows.table.validate(full=True)
    others = [tuple(row[name] for name in names) for row in rows.table.to_pylist()]
    return list(zip(rows.time.tolist(), rows.arrival.tolist(), others, strict=True))


def ints(times: Sequence[int], first: int = 0) -> TimedRows:
    """Rows of one column."""
    time = np.array(times, np.int64)
    table = pa.RecordBatch.from_arrays([array(time)], names=["t"])
    return TimedRows(table, time, np.arange(first, first + len(time)))


def int_buffer() -> ReorderBuffer:
    return ReorderBuffer(pa.schema([("t", pa.int64())]), (), np.dtype(np.int64))


class Listed:
    """A reorder buffer as a sorted list."""

    def __init__(self, ties: Sequence[int]) -> None:
        self.ties = ties
        self.waiting: list[Row] = []

    def key(self, row: Row) -> Any:
        values = [row[2][i] for i in self.ties]
        return (row[0], *((value is None, 0 if value is None else value) for value in values), row[1])

    def push_and_release(self, rows: Sequence[Row], until: Any, everything: bool) -> list[Row]:
        every = sorted([*self.waiting, *rows], key=self.key)
        gone = [row for row in every if everything or (until is not None and row[0] < until)]
        self.waiting = every[len(gone) :]
        return gone


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are copied and sorted by radix at sizes that random tests reach."""
    monkeypatch.setattr(reorder_buffer, "SHRINK", 8)
    monkeypatch.setattr(reorder_buffer, "_FEW", 4)


times_near = st.one_of(
    st.integers(0, 12),
    st.integers(INT64.max - 3, INT64.max),
    st.integers(INT64.min, INT64.min + 3),
    st.integers(0, 2**40),
)
others = st.tuples(
    st.sampled_from([None, "", "a", "b", "ß"]),
    st.one_of(st.none(), st.integers(-2, 2)),
    st.one_of(st.none(), st.lists(st.sampled_from([None, "x", "yy"]), max_size=3)),
)
untils = st.one_of(st.none(), times_near, st.integers(INT64.min - 1, INT64.max + 2))
steps = st.lists(
    st.tuples(st.lists(st.tuples(times_near, others), max_size=12), untils, st.integers(0, 19), st.booleans()),
    max_size=40,
)


@given(steps, st.sampled_from([(), ("tie",), ("second", "tie")]), st.sampled_from([2, 4, 16]))
def test_like_a_sorted_list(steps: list[Any], ties: tuple[str, ...], fan_out: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder_buffer, "FAN_OUT", fan_out)
        buffer = ReorderBuffer(SCHEMA, ties, np.dtype(np.int64))
        plain = Listed([SCHEMA.names.index(name) - 1 for name in ties])
        arrival = 0
        for pushed, until, chance, undone in steps:
            rows = [(time, arrival + i, values) for i, (time, values) in enumerate(pushed)]
            arrival += len(rows)
            before, waited = buffer.mark(), plain.waiting
            found = buffer.push_and_release(timed(SCHEMA, rows), until, everything=chance == 0)
            assert listed(found) == plain.push_and_release(rows, until, chance == 0)
            if undone:
                buffer.rollback(before)
                plain.waiting = waited
            check(buffer)
            assert listed(buffer.rows()) == plain.waiting
            assert len(buffer) == len(plain.waiting)
            assert buffer.due == (plain.waiting[0][0] + 1 if plain.waiting else None)


def check(buffer: ReorderBuffer) -> None:
    """The invariants of the runs."""
    runs = buffer.mark().runs
    assert [run.low for run in runs] == sorted(run.low for run in runs)
    for run in runs:
        assert 0 <= run.start < len(run.rows)
        assert run.low == run.rows.time[run.start]
        pairs = list(zip(run.rows.time.tolist(), run.rows.arrival.tolist(), strict=True))
        assert pairs == sorted(pairs)


floats = st.one_of(st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.5]), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(st.tuples(st.lists(floats, max_size=12), st.one_of(st.none(), floats)), max_size=20))
def test_float_times(steps: list[Any]) -> None:
    schema = pa.schema([("t", pa.float64())])
    buffer, plain, arrival = ReorderBuffer(schema, (), np.dtype(np.float64)), Listed(()), 0
    for times, until in steps:
        rows: list[Row] = [(time, arrival + i, ()) for i, time in enumerate(times)]
        arrival += len(rows)
        found = buffer.push_and_release(timed(schema, rows, np.float64), until)
        assert listed(found) == plain.push_and_release(rows, until, False)
        if plain.waiting:
            assert buffer.due == math.nextafter(plain.waiting[0][0], math.inf)
            mark = buffer.mark()
            assert len(buffer.push_and_release(timed(schema, [], np.float64), plain.waiting[0][0])) == 0
            assert len(buffer.push_and_release(timed(schema, [], np.float64), buffer.due)) > 0
            buffer.rollback(mark)
        else:
            assert buffer.due is None


def test_arrivals_that_do_not_rise() -> None:
    """Rows of a buffer that is opened again come in order of time, tie-breakers, arrival."""
    buffer = int_buffer()
    rows = TimedRows(ints([1, 1, 1, 2, 2]).table, np.array([1, 1, 1, 2, 2]), np.array([9, 2, 5, 8, 1]))
    buffer.push_and_release(rows, None)
    check(buffer)
    assert buffer.push_and_release(ints([1], first=7), 3).arrival.tolist() == [2, 5, 7, 9, 1, 8]


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
    schema = pa.schema([("t", pa.int64()), ("s", pa.string())])
    rows = timed(schema, [(i, i, ("x" * 100,)) for i in range(count)])
    for until in (10, count - 10):  # of a run, and of rows that mostly pass at once
        buffer = ReorderBuffer(schema, (), np.dtype(np.int64))
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


def test_a_call_that_raises_changes_nothing() -> None:
    buffer = int_buffer()
    buffer.push_and_release(ints([5, 6]), None)
    before = buffer.mark()
    other = TimedRows(pa.record_batch({"u": pa.array(["a"])}), np.array([4]), np.array([2]))
    with pytest.raises(pa.ArrowInvalid):
        buffer.push_and_release(other, 6)
    assert buffer.mark() is before


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
