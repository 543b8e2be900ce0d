"""A call that is refused or fails changes no page, no counter and no late row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.engine.test_pages import SCHEMA, rows


def unlucky(x: int) -> int:
    if x == 13:
        raise ValueError("unlucky")
    return x


NEWEST = sash.monoid(identity=0, lift=lambda x: x, combine=lambda a, b: b or a, lower=unlucky, name="newest")
FAILING: dict[str, tuple[Callable[[Operator], Any], type[Exception]]] = {
    "late": (lambda op: op.process(rows([1, 1], [6000, 2], 1)), ValueError),
    "a monoid": (lambda op: op.process(rows([2, 0, 2], [6000, 6001, 6200], [1, 13, 1])), ValueError),
    "a sum": (lambda op: op.process(rows(0, [6000, 6001, 6200], 2**63 - 1)), OverflowError),
    "a column": (lambda op: op.process(rows([1], [6000], [1]).drop_columns(["x"])), ValueError),
    "a type": (
        lambda op: op.process(rows([1], [6000], [1]).cast(SCHEMA.set(2, pa.field("x", pa.int32())))),
        ValueError,
    ),
    "no batch": (lambda op: op.process([1, 2, 3]), TypeError),
    "no time": (lambda op: op.advance("tomorrow"), TypeError),
}


@pytest.mark.parametrize("window", [sash.Time(3000), sash.Count(3000), sash.Time(3000, every=7)], ids=repr)
def test_a_failing_call_changes_no_page(window: Any) -> None:
    """A failing call leaves each page as it was, also with large keys, rows that wait and late rows."""
    query = sash.Query(
        window, by="k", on="t", lateness=50, late="error", mine=NEWEST("x"), total=sash.sum("x"), high=sash.max("x")
    )
    place = np.arange(6000)
    first = rows(np.where(place % 3, 0, place % 30), place, place % 11)
    after = rows(np.where(place % 3, 0, place % 30), place + 5990, place % 7)
    unharmed = query.operator(SCHEMA)
    unharmed.process(first)
    expected = unharmed.process(after)
    for name, (call, error) in FAILING.items():
        operator = query.operator(SCHEMA, store=MemoryStore())
        operator.process(first)
        pages, metrics = dict(operator.store.pages), operator.metrics
        for _ in range(2):
            with pytest.raises(error):
                call(operator)
            assert operator.store.pages == pages, name
        for field in ("rows_in", "rows_out", "late", "untimed", "keys", "elements", "pages_written"):
            assert getattr(operator.metrics, field) == getattr(metrics, field), (name, field)
        assert operator.late_rows().num_rows == 0
        assert operator.process(after).equals(expected), name


def test_late_rows_of_a_failing_call_are_not_handed_out() -> None:
    query = sash.Query(3, by="k", on="t", lateness=0, mine=NEWEST("x"))
    operator = query.operator(SCHEMA)
    operator.process(rows(1, [5, 3], [1, 2]))
    with pytest.raises(ValueError, match="unlucky"):
        operator.process(rows(1, [6, 2, 7, 8], [1, 3, 13, 1]))
    assert operator.late_rows()["x"].to_pylist() == [2]
    assert operator.metrics.late == 1
