"""Sessions: rows belong together while they are at most a gap apart, on every host; final when W is beyond that.

t           0    gap    2·gap    2·gap + gap + 1
session     ├─────●───────●       ·              a row exactly a gap later joins, one unit more begins a new one
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.engine.lookup_cases import GREATEST
from tests.shared.streams import Case, StreamStep

GAP = 4
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])


INT = pa.int64()


def rows(*times: Any, kind: pa.DataType = INT, keys: Any = None, first: int = 0) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + len(times)), pa.int64())
    columns = [pa.array(keys or ["a"] * len(times)), pa.array(times, kind), numbers]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.set(1, pa.field("t", kind)))


def closing(gap: Any = GAP, **arguments: Any) -> sash.Query:
    given = {"by": "k", "on": "t", "lateness": 0} | arguments
    return sash.Query(sash.Session(gap, every="close"), held=sash.collect("x"), **given)


def sessions(batch: Any) -> list[tuple[Any, Any, list[int]]]:
    return [(row["window_start"], row["window_end"], row["held"]) for row in batch.to_pylist()]


# ---- the rule, on every host ----

MOMENT = datetime(2024, 3, 1, tzinfo=UTC)
AXES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "int": (pa.int64(), GAP, lambda n: n),
    "float": (pa.float64(), GAP / 8, lambda n: n / 8),
    "timestamp": (pa.timestamp("us", "UTC"), "4s", lambda n: MOMENT + timedelta(seconds=n)),
    "date": (pa.date32(), "4d", lambda n: (MOMENT + timedelta(days=n)).date()),
}
TIMES, TOGETHER = [0, 4, 4, 8, 13, 17], [[0], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [4], [4, 5]]


def in_a_loop(query: sash.Query, batch: pa.RecordBatch) -> list[Any]:
    loop = sash.Window(query.windows[""], held=sash.collect("x"))
    found = [loop.push(row, row["t"])["held"] for row in batch.to_pylist()]
    return [found[2] if i == 1 else one for i, one in enumerate(found)]  # a loop does not see later peers


def on_an_operator(query: sash.Query, batch: pa.RecordBatch) -> list[Any]:
    operator = query.operator(batch.schema)
    found = [one for i in range(len(batch)) for one in operator.process(batch.slice(i, 1)).to_pylist()]
    found += operator.finish().to_pylist()
    newest = {row["x"]: row["held"] for row in found}  # of an eager query, the last revision
    return [newest[x] for x in sorted(newest)]


HOSTS: dict[str, Any] = {
    "frame": lambda query, batch: query.run(pa.table(batch))["held"].to_pylist(),
    "pandas": lambda query, batch: query.run(batch.to_pandas())["held"].tolist(),
    "queries": lambda query, batch: sash.Queries(q=query).run(pa.table(batch))["q"]["held"].to_pylist(),
    "loop": in_a_loop,
    "operator": on_an_operator,
    "eager": lambda query, batch: on_an_operator(
        sash.Query(query.windows[""], by="k", on="t", lateness=0 if batch.schema.field("t").type in NUMBERS else "0s",
                   emit="eager", held=sash.collect("x")), batch
    ),
}  # fmt: skip
NUMBERS = (pa.int64(), pa.float64())


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("host", HOSTS)
def test_rows_exactly_a_gap_apart_are_one_session(host: str, axis: str) -> None:
    kind, gap, at = AXES[axis]
    query = sash.Query(sash.Session(gap), by="k", on="t", held=sash.collect("x"))
    found = HOSTS[host](query, rows(*map(at, TIMES), kind=kind))
    assert [sorted(one) for one in found] == TOGETHER


@pytest.mark.parametrize("axis", AXES)
def test_a_session_ends_a_gap_after_its_last_row(axis: str) -> None:
    kind, gap, at = AXES[axis]
    query = sash.Query(sash.Session(gap, every="close"), by="k", on="t", held=sash.collect("x"))
    found = sessions(query.run(pa.table(rows(*map(at, TIMES), kind=kind))))
    assert found == [(at(0), at(12), [0, 1, 2, 3]), (at(13), at(21), [4, 5])]


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
@pytest.mark.parametrize("shape", ["row", "close", "eager"])
@given(
    st.lists(st.tuples(st.sampled_from([0, GAP - 1, GAP, GAP + 1]), st.sampled_from("ab"), st.integers(0, 3))),
    st.integers(0, 2 * GAP),
    st.sampled_from([None, GAP - 1, GAP, GAP + 1]),
)
def test_drawn_rows_a_gap_apart(shape: str, mode: str, drawn: Any, lateness: int, forget: Any) -> None:
    """The steps of time are a gap, or one unit more or less; with `advance` to where a session ends, or beyond it."""
    if shape == "eager" and mode == "sorted":
        return
    window = sash.Session(GAP, every="close") if shape == "close" else sash.Session(GAP)
    emit: Any = "eager" if shape == "eager" else "final"
    query = sash.Query(
        window, by="k", on="t", lateness=lateness, forget=forget, emit=emit, n=sash.count(), held=sash.collect("x")
    )
    time, steps = 0, []
    if mode == "sorted":
        drawn = sorted(drawn, key=lambda one: one[1])
    last = None
    for i, (by, key, what) in enumerate(drawn):
        time = 0 if mode == "sorted" and key != last else time + by
        last = key
        steps.append(StreamStep("process", rows(time, keys=[key], first=i)))
        if what == 1 and mode != "sorted":
            steps.append(StreamStep("advance", time + GAP + i % 2))
            time += GAP + i % 2
        if what == 2:
            steps.append(StreamStep("snapshot", None))
    steps.append(StreamStep("finish", None))
    compare_with_reference(Case(query, SCHEMA, mode, tuple(steps)), begin, resume)


# ---- when a session is final ----


@pytest.mark.parametrize("gap", [GAP, GAP / 8])
@pytest.mark.parametrize("store", [False, True])
def test_a_row_at_the_end_of_a_session_still_joins_it(store: bool, gap: Any) -> None:
    """At W = last + gap the session is open, and a row there is not late; beyond it is emitted, and its key freed."""
    unit = gap / GAP
    kind = pa.int64() if isinstance(gap, int) else pa.float64()
    query, schema = closing(gap), rows(0, kind=kind).schema
    operator = query.operator(schema, mode="given", store=MemoryStore() if store else None)
    operator.process(rows(0, unit, kind=kind))
    assert operator.advance(unit + gap).num_rows == 0
    operator.process(rows(unit + gap, kind=kind, first=2))
    if not store:
        operator = Operator.restore(query, operator.snapshot())
    assert operator.advance(unit + 2 * gap).num_rows == 0
    assert operator.metrics.keys == 1
    found = operator.advance(operator.due)
    assert sessions(found) == [(0, unit + 2 * gap, [0, 1, 2])]
    assert operator.metrics.keys == 0


def test_a_session_that_ends_at_the_greatest_integer() -> None:
    operator = closing(10).operator(SCHEMA, mode="given")
    operator.process(rows(GREATEST - 11, GREATEST - 10))
    assert operator.advance(GREATEST - 1).num_rows == 0
    operator.process(rows(GREATEST, first=2))
    assert sessions(operator.finish()) == [(GREATEST - 11, GREATEST, [0, 1, 2])]


def test_rows_without_a_time_are_in_no_session() -> None:
    batch = rows(0.0, float("nan"), 0.5, None, 1.0, kind=pa.float64())
    found = sash.rolling(pa.table(batch), sash.Session(0.5), by="k", on="t", held=sash.collect("x"))
    assert found["held"].to_pylist() == [[0], None, [0, 2], None, [0, 2, 4]]


# ---- state that was written while such rows were apart ----


def apart(gap: Any, time: Any, before: Any) -> Any:
    return np.maximum(time, before) - before >= gap
