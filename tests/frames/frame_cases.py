"""Frames to compare with others on: keys, times in order, numbers with nulls; and what counts as the same.

k    "a" or "b"
t    whole numbers that do not fall, or (ties=False) rise; `on` makes times of another type of them
x    floats or null          y    floats, never null        u    above 0, or null
i    whole numbers or null   b    booleans or null          s    text or null        row    0, 1, 2, …
"""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

NAN = float("nan")
CLOSED = ["right", "left", "both", "neither"]
VALUES: dict[str, tuple[Any, pa.DataType]] = {
    "k": (st.sampled_from("ab"), pa.string()),
    "x": (st.sampled_from([1.0, 2.5, -3.0, 0.0, 8.25, None]), pa.float64()),
    "y": (st.sampled_from([0.5, 3.0, -1.0, 7.25, 100.0]), pa.float64()),
    "u": (st.sampled_from([0.5, 1.0, 2.0, 8.0, None]), pa.float64()),
    "i": (st.sampled_from([0, 1, 6, 12, -5, None]), pa.int64()),
    "b": (st.sampled_from([True, False, None]), pa.bool_()),
    "s": (st.sampled_from(["p", "", "é", None]), pa.string()),
}


@st.composite
def frames(draw: st.DrawFn, ties: bool) -> pa.Table:
    """Rows in order of time."""
    steps = draw(st.lists(st.sampled_from([0, 1, 2, 5] if ties else [1, 2, 5]), min_size=1, max_size=14))
    count = len(steps)
    columns = {
        name: pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        for name, (values, kind) in VALUES.items()
    }
    return pa.table({"t": np.cumsum(steps), "row": np.arange(count), **columns})


def with_times(table: pa.Table, kind: str = "timestamp") -> pa.Table:
    """The times as timestamps in seconds, or as dates in days."""
    whole = table.column("t")
    times = whole.cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    if kind == "date":
        times = whole.cast(pa.int32()).cast(pa.date32())
    return table.set_column(0, "t", times)


def same(ours: Any, theirs: Any, what: str = "") -> None:
    """Compare columns: null equals NaN, and booleans are numbers."""
    mine, other = (np.array([NAN if value is None else value for value in column], float) for column in (ours, theirs))
    # what they subtract, they lose: their digits are no measure
    np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9, err_msg=what)
