"""Eager results, applied in order: the last revision of each `_row` is the final result, and none is left over.

revisions   slide 0 ▢     an out-of-order row moves the slides by rows, and the second window is empty now
            slide 1 ▢  ─▶ slide 1 without results
final       slide 0 ▢
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sash
from sash.stores import MemoryStore
from sash.testing import Reference, assert_same
from sash.testing.compare import as_rows
from tests.behaviour.differential import compare_with_reference, run_step
from tests.behaviour.test_eager import (
    NEW_KEY_WITHOUT_ROWS,
    RETRACTED,
    WINDOWS,
    Retraction,
    left_of,
    retract_batch,
    retractions,
)
from tests.behaviour.test_operator import begin, resume
from tests.shared.queries import SCALES, given_windows, loose, queries, rewritten
from tests.shared.streams import Case, StreamStep, calls

AGGREGATES = {"n": sash.count(), "high": sash.max("i"), "text": sash.last("s")}


@st.composite
def eager_cases(draw: st.DrawFn) -> Case:
    """Cases with three aggregates, of which one counts the rows of a window."""
    scale = draw(st.sampled_from([*SCALES, None]))
    drawn = draw(queries(scale, ("eager",), ("drop",)))
    kept = {name: getattr(drawn, name) for name in ("by", "on", "lateness", "emit", "late", "forget")}
    query = sash.Query(given_windows(drawn), **kept, **AGGREGATES)
    return draw(calls(query, scale, draw(st.sampled_from(["rows", "given"]))))


def case_of(window: Any, *times: list[int]) -> Case:
    """A case of one key, with a call for each list of times."""
    query = sash.Query(window, by="k", on="t", lateness=100, emit="eager", **AGGREGATES)
    schema = pa.schema([("k", pa.string()), ("i", pa.int64()), ("s", pa.string()), ("t", pa.int64())])
    steps = []
    for some in times:
        columns = (["a"] * len(some), some, ["b"] * len(some), some)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        steps.append(StreamStep("process", pa.RecordBatch.from_arrays(arrays, schema=schema)))
    return Case(query, schema, "rows", (*steps, StreamStep("finish")))


EMPTIED = case_of(sash.Time(2, every=sash.Count(2), closed="left"), [0, 1], [-5])
"""The second row is that at 0 now, and nothing lies before it within 2."""

BACK_AGAIN = case_of(sash.Time(2, every=sash.Count(2), closed="neither"), [0, 1, 8, 9], [-5], [-6], [-20, -21, 20])


def last_revisions(batches: list[pa.RecordBatch], names: list[str]) -> list[dict[str, Any]]:
    """The last revision of each `_row`, without those that have no results."""
    newest: dict[int, dict[str, Any]] = {}
    for row in as_rows(batches):
        assert row["_revision"] == newest.get(row["_row"], {"_revision": -1})["_revision"] + 1
        newest[row["_row"]] = row
    return with_results([{k: v for k, v in row.items() if k[0] != "_"} for row in newest.values()], names)


def with_results(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    return [row for row in rows if any(row[name] is not None for name in names)]


@given(eager_cases(), st.booleans())
@example(EMPTIED, False)
@example(EMPTIED, True)
@example(BACK_AGAIN, True)
def test_the_last_revisions_are_the_final_results(case: Case, stored: bool) -> None:
    final = Reference(rewritten(case.query, emit="final"), case.schema, mode=case.mode)
    operator = case.query.operator(case.schema, mode=case.mode, store=MemoryStore() if stored else None)
    got, expected = [], []
    for step in case.steps:
        if step.call == "snapshot":
            operator = (
                case.query.operator(case.schema, mode=case.mode, store=operator.store)
                if stored
                else resume(case.query, operator.snapshot())
            )
            continue
        try:
            expected.append(run_step(final, step))
        except ValueError:
            return
        got.append(run_step(operator, step))
    bound_query = case.query.bind(case.schema)
    windows = [spec.name for spec in bound_query.windows] if bound_query.per_row else [""]
    names = [f"{name}_{window}" if window else name for window in windows for name in AGGREGATES]
    assert_same(
        last_revisions(got, names), with_results(as_rows(expected), names), ordered=False, loose=loose(case.query)
    )


@pytest.mark.parametrize("window", [*WINDOWS.values(), sash.Time(5, closed="left")], ids=[*WINDOWS, "left"])
def test_the_last_revisions_are_the_final_results_of_the_rows_that_are_left(window: Any) -> None:
    """Rows take others back; the operator is reopened from its store repeatedly, or stays."""
    aggregates = {"a": sash.max("x"), "b": sash.sum("x"), "c": sash.count()}
    eager = sash.Query(window, by="k", on="t", lateness=100, emit="eager", retract="gone", **aggregates)
    final = sash.Query(window, by="k", on="t", lateness=100, **aggregates)

    @settings(max_examples=max(6, settings().max_examples // 4))
    @given(retractions(), st.sets(st.integers(0, 5)))
    @example(NEW_KEY_WITHOUT_ROWS, {1, 2})
    def agrees(parts: list[list[Retraction]], reopened: set[int]) -> None:
        store, got = MemoryStore(), []
        operator = eager.operator(RETRACTED, store=store)
        for i, part in enumerate(parts):
            if i in reopened:
                operator = eager.operator(RETRACTED, store=store)
            got.append(operator.process(retract_batch(part)))
        reference = Reference(final, RETRACTED)
        rest = left_of([row for part in parts for row in part])
        expected = [reference.process(retract_batch(rest)), reference.finish()]
        assert_same(last_revisions(got, ["c"]), with_results(as_rows(expected), ["c"]), ordered=False)

    agrees()


@pytest.mark.parametrize("case", [EMPTIED, BACK_AGAIN], ids=["emptied", "back again"])
def test_a_slide_that_a_late_row_empties_is_taken_back_as_the_reference_does(case: Case) -> None:
    compare_with_reference(case, begin, resume)


def test_a_slide_that_a_late_row_empties_is_emitted_once_more_without_results() -> None:
    operator = EMPTIED.query.operator(EMPTIED.schema)
    (first,), (second,) = (run_step(operator, step).to_pylist() for step in EMPTIED.steps[:2])
    assert (first["n"], first["_revision"]) == (1, 0)
    assert second == first | {"n": None, "high": None, "text": None, "_revision": 1}
