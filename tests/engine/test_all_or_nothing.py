"""State survives its operator, and a call that fails changes nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.engine.test_pages import SCHEMA, rows

# ---- a new operator over the same pages ----


def script() -> Iterator[tuple[str, Any]]:
    """Calls of an operator with late rows, ties, a large key, silent ones and calls of `advance`."""
    generator = np.random.default_rng(5)
    for start in range(0, 12_000, 3000):
        keys = np.where(generator.random(3000) < 0.7, 0, generator.integers(1, 50, 3000))
        times = start + np.arange(3000) - generator.integers(0, 40, 3000) * (generator.random(3000) < 0.1)
        yield "process", rows(keys, np.maximum(times, 0), generator.integers(0, 1000, 3000))
        yield "advance", start + 2990
    yield "finish", None


COLD = {
    "time": sash.Time(5000),
    "count": sash.Count(3000),
    "slides": sash.Time(5000, every=7),
    "sessions": sash.Session(3, every="close"),
    "counted": sash.Count(3000, every=7),
}


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("window", COLD.values(), ids=COLD)
def test_a_cold_operator_continues_where_the_last_one_was(window: Any, emit: str) -> None:
    query = sash.Query(window, by="k", on="t", lateness=10, emit=emit, high=sash.max("x"))
    warm, store = query.operator(SCHEMA), MemoryStore()
    for call, argument in script():
        cold = query.operator(SCHEMA, store=store)
        given = () if argument is None else (argument,)
        expected, found = getattr(warm, call)(*given), getattr(cold, call)(*given)
        assert found.equals(expected)
        mine, theirs = cold.metrics, warm.metrics
        for name in ("rows_in", "rows_out", "late", "untimed", "keys", "elements"):
            assert getattr(mine, name) == getattr(theirs, name), name


# ---- a call that fails leaves no trace ----


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


class Broken(MemoryStore):
    """A store that cannot be reached now and then."""

    broken = ""

    def get_many(self, ids: Any) -> Any:
        if self.broken == "get" and any(name != "header" for name in ids):
            raise ConnectionError("out of reach")
        return super().get_many(ids)

    def put_many(self, pages: Any) -> None:
        if self.broken == "put":
            raise ConnectionError("out of reach")
        super().put_many(pages)


@pytest.mark.parametrize("broken", ["get", "put"])
def test_a_call_may_be_made_again_when_the_store_is_back(broken: str) -> None:
    """A reopened operator reads a page when one of its keys is first touched."""
    query = sash.Query(sash.Time(3000), by="k", on="t", high=sash.max("x"))
    unharmed, operator = query.operator(SCHEMA), query.operator(SCHEMA, store=Broken())
    place = np.arange(5000)
    for batch in (rows(place % 3, place, place % 11), rows(place % 3, place + 5000, place % 7)):
        if operator.metrics.rows_in:
            operator = query.operator(SCHEMA, store=operator.store)
            operator.store.broken = broken
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    operator.process(batch)
                assert operator.metrics.rows_in == len(place)
            operator.store.broken = ""
        assert operator.process(batch).equals(unharmed.process(batch))
    assert operator.finish().equals(unharmed.finish())
