"""Columns that repeat others are left out of a batch, and restored bit for bit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.state.repeated_columns import STORED, layout_of, restored, stored_fields

FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), -7.25])
COLUMN: Any = st.one_of(
    st.lists(FLOATS, min_size=3, max_size=3).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.sampled_from([0, -1, 2**63 - 1, -(2**63), None]), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.int64())
    ),
    st.lists(st.booleans() | st.none(), min_size=3, max_size=3).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.sampled_from(["", "a", None]), min_size=3, max_size=3).map(lambda v: pa.array(v, pa.string())),
)


def bits(column: pa.Array) -> list[Any]:
    return [repr(value) for value in column.to_pylist()]


@given(st.lists(COLUMN, min_size=1, max_size=6))
def test_batches_come_back(columns: list[pa.Array]) -> None:
    schema = pa.schema([(f"c{i}", column.type) for i, column in enumerate(columns)])
    layout = layout_of(columns)
    assert STORED in layout
    own = [column for column, how in zip(columns, layout, strict=True) if how == STORED]
    stored = pa.RecordBatch.from_arrays(own, schema=stored_fields(schema, layout))
    found = restored(stored, schema, layout)
    assert found.schema == schema
    assert [bits(column) for column in found.columns] == [bits(column) for column in columns]


def test_what_is_left_out() -> None:
    x = pa.array([1.0, 2.0, 3.0])
    columns = [
        x,
        pa.array([0.0] * 3),
        x,
        pa.array([4607182418800017408, 1, 2]),
        pa.array([-0.0] * 3),
        pa.array([True] * 3),
    ]
    assert layout_of(columns) == [-1, "0", 0, -1, str(-(2**63)), "1"]
    assert layout_of([x.view(pa.int64()), x]) == [-1, -1], "of another type"
    assert layout_of([x.slice(0, 0)] * 2) == [-1, -1], "no rows"
    assert layout_of([pa.array([7] * 3)] * 2) == [-1, "7"], "one says how many rows there are"


@pytest.mark.parametrize("layout", [[-1], [-1, -1, -1], [1, -1], [-1, 2], ["0", "0"], [-1, str(2**63)], ["0", 0]])
def test_layouts_of_other_batches_are_refused(layout: Any) -> None:
    with pytest.raises(ValueError, match=r"layout is not one|neither stored nor equal"):
        stored_fields(pa.schema([("a", pa.int64()), ("b", pa.int64())]), layout)
