"""Compiled states that hold several rows, and null rows among them, come back from a snapshot."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.testing import Reference, assert_same
from tests.shared.effort import seldom

ROWS = pa.record_batch(
    {
        "k": ["a", "b", "a", "a", "b", "a", "a", "b"],
        "t": [1, 2, 3, 4, 5, 6, 7, 8],
        "s": ["p", None, "q", "r", "x", None, "y", "z"],
        "x": [1.0, 2.0, None, 4.0, None, 6.0, 7.5, 8.0],
    }
)
MORE: dict[str, Any] = {
    "far": sash.lag("x", n=2),
    "rows": sash.ewm_mean("x", halflife=2),
    "time": sash.ewm_var("x", halflife=2, times=True),
}


@pytest.mark.parametrize(
    ("window", "aggregates"),
    [
        (sash.Count(3), {"text": sash.lag("s"), "delta": sash.delta("x")}),
        *(seldom(window, MORE, id=str(window)) for window in (sash.Count(3), sash.Lifetime(), sash.Time(6, every=2))),
    ],
)
def test_states_come_back(window: Any, aggregates: dict[str, Any]) -> None:
    query = sash.Query(window, by="k", on="t", lateness=1, **aggregates)
    reference, operator = Reference(query, ROWS.schema), query.operator()
    got, wanted = [], []
    for i in range(0, len(ROWS), 2):
        got.append(operator.process(ROWS.slice(i, 2)))
        wanted.append(reference.process(ROWS.slice(i, 2)))
        operator = Operator.restore(query, operator.snapshot())
    got.append(operator.finish())
    wanted.append(reference.finish())
    loose = dict.fromkeys(("rows", "time"), 1e-9)
    assert_same(pa.Table.from_batches(got), pa.Table.from_batches(wanted), by=["k"], loose=loose)
