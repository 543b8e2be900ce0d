"""Eager operators compared with the reference: revisions, and rows that take others back."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.testing import Reference, assert_same
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.shared.effort import THOROUGH, share
from tests.shared.queries import SCALES, given_windows, queries
from tests.shared.streams import Case, calls


@st.composite
def few_aggregates(draw: st.DrawFn) -> Case:
    """Cases with an aggregate of several parts; in `make test-all` also with a number and a text."""
    scale = draw(st.sampled_from([*SCALES, None]))
    query = draw(queries(scale, ("eager",)))
    names = ("by", "on", "lateness", "emit", "late", "forget", "ahead", "options")
    kept = {name: getattr(query, name) for name in names}
    aggregates = {"total": sash.sum("f")} | ({"high": sash.max("i"), "text": sash.last("s")} if THOROUGH else {})
    found = sash.Query(given_windows(query), **kept, **aggregates)
    return draw(calls(found, scale, draw(st.sampled_from(["rows", "given"]))))


@pytest.mark.compiled
@given(few_aggregates())
def test_compiled_trees_give_what_the_reference_gives(case: Case) -> None:
    compare_with_reference(case, begin, resume)


SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("s", pa.string())])


def batch(rows: list[tuple[str, int, int]]) -> pa.RecordBatch:
    keys, times, values = zip(*rows, strict=True)
    texts = [str(value % 7) for value in values]
    columns = [pa.array(keys), pa.array(times, pa.int64()), pa.array(values, pa.int64()), pa.array(texts)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


WINDOWS = {
    "time": sash.Time(10),
    "count": sash.Count(5, full=True),
    "session": sash.Session(4),
    "lifetime": sash.Lifetime(),
    "slides": sash.Time(12, every=5),
    "slides by rows": sash.Count(7, every=3),
    "time by rows": sash.Time(6, every=sash.Count(2), closed="left"),
    "count by time": sash.Count(4, every=sash.Time(6)),
    "lifetime by time": sash.Lifetime(every=sash.Time(6)),
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_many_calls_of_one_row(window: Any) -> None:
    query = sash.Query(window, by="k", on="t", lateness=40, emit="eager", a=sash.max("x"), b=sash.sum("x"))
    engine, reference = query.operator(SCHEMA), Reference(query, SCHEMA)
    random = np.random.default_rng(7)
    for i in range(share(150)):
        row = batch([("ab"[int(random.integers(2))], i + int(random.integers(-15, 3)), int(random.integers(9)))])
        got, expected = engine.process(row), reference.process(row)
        by = ["k"]
        assert_same(got, expected, by=by, without=[] if query.bind(SCHEMA).per_row else ["_row"])


@pytest.mark.parametrize("step", [1, -1])
def test_rows_that_come_one_before_or_after_the_other_in_one_gap(step: int) -> None:
    query = sash.Query(sash.Time(1000), by="k", on="t", lateness=10**9, emit="eager", a=sash.max("x"), n=sash.count())
    engine = query.operator(SCHEMA)
    engine.process(batch([("a", 0, 1), ("a", 10**6, 2)]))
    times = np.arange(10, 3000)[::step]
    for part in np.array_split(times, 40):
        engine.process(batch([("a", int(t), int(t) % 11) for t in part]))
    (last,) = engine.process(batch([("a", 2000, 50)])).filter(pa.compute.field("x") == 50).to_pylist()
    assert (last["a"], last["n"]) == (50, 1001)


# ---- rows that take others back ----

Retraction = tuple[str, int, int, bool]
"""Key, time, value, and whether it takes back another."""

RETRACTED = pa.schema([*SCHEMA, ("gone", pa.bool_())])


@st.composite
def retractions(draw: st.DrawFn) -> list[list[Retraction]]:
    """Calls of rows, some of which take back an earlier one."""
    made: list[Retraction] = []
    left: list[tuple[str, int]] = []
    for _ in range(draw(st.integers(1, 25))):
        if left and draw(st.integers(0, 3)) == 0:
            key, time = left.pop(draw(st.integers(0, len(left) - 1)))
            made.append((key, time, 0, True))
        else:
            key, time = draw(st.sampled_from("ab")), draw(st.integers(0, 20))
            left.append((key, time))
            made.append((key, time, draw(st.integers(-5, 5)), False))
    cuts = sorted(draw(st.lists(st.integers(0, len(made)), max_size=5)))
    return [made[a:b] for a, b in zip([0, *cuts], [*cuts, len(made)], strict=True)]


def retract_batch(rows: list[Retraction]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    keys, times, values, gone = columns
    arrays = [keys, times, values, [str(value % 7) for value in values], gone]
    return pa.RecordBatch.from_arrays(
        [pa.array(part, field.type) for part, field in zip(arrays, RETRACTED, strict=True)], schema=RETRACTED
    )


def left_of(rows: list[Retraction]) -> list[Retraction]:
    """The rows that no later one takes back."""
    found: list[Retraction] = []
    for row in rows:
        if row[3]:
            del found[max(i for i, other in enumerate(found) if other[:2] == row[:2])]
        else:
            found.append(row)
    return found


NEW_KEY_WITHOUT_ROWS: list[list[Retraction]] = [
    [("a", 8, -3, False)],
    [("b", 10, 4, False), ("b", 10, 0, True)],
    [("a", 9, -4, False)],
]
"""The only row of a new key is taken back at once: the tree of the first key was lost."""


def test_a_retracted_row_is_emitted_once_more_without_results() -> None:
    query = sash.Query(sash.Time(5), by="k", on="t", lateness=100, emit="eager", retract="gone", a=sash.max("x"))
    engine = query.operator(RETRACTED)
    engine.process(retract_batch([("a", 1, 9, False), ("a", 2, 3, False)]))
    found = engine.process(retract_batch([("a", 1, 0, True)]))
    assert found.select(["t", "a", "_row", "_revision"]).to_pylist() == [
        {"t": 1, "a": None, "_row": 0, "_revision": 1},
        {"t": 2, "a": 3, "_row": 1, "_revision": 1},
    ]
    assert engine.process(retract_batch([("a", 7, 0, True)])).num_rows == 0
