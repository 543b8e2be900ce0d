"""Compare the operator with the reference on fixed cases and on random queries.

With every aggregate, so interpreted; `make test-all` adds the same compiled. Compiled kernels of a few aggregates are
tested each time by `test_compiled_kernels.py`.
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.testing import assert_same
from tests.behaviour.differential import compare_with_reference, split_side_output
from tests.shared.effort import in_turn
from tests.shared.fixed_queries import PER_ROW, PER_SLIDE, UNTIMED, aggregates, stream
from tests.shared.queries import SCALES, loose
from tests.shared.streams import Case, StreamStep, calls, cases, sorted_by_key, split


def begin(query: sash.Query, schema: pa.Schema, mode: str) -> Any:
    return query.operator(schema, mode=mode)


def resume(query: sash.Query, snapshot: bytes) -> Any:
    return sash.engine.Operator.restore(query, snapshot)


# ---- whatever comes ----


@given(cases())
def test_the_operator_gives_what_the_reference_gives(case: Case) -> None:
    compare_with_reference(case, begin, resume)


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_in_every_mode_and_emission(mode: str, emit: str) -> None:
    if (mode, emit) == ("sorted", "eager"):
        return

    @given(cases(modes=(mode,), emits=(emit,), lates=("drop", "flag")))
    def agrees(case: Case) -> None:
        compare_with_reference(case, begin, resume)

    agrees()


@given(cases(modes=("rows", "sorted"), emits=("final", "changes"), lates=("drop", "flag")), st.data())
def test_splitting_the_input_changes_nothing_of_final(case: Case, data: st.DataObject) -> None:
    whole = case.data.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=case.schema)]
    cuts = data.draw(st.lists(st.integers(0, whole[0].num_rows), max_size=12))
    results: list[Any] = []
    for pieces in ([whole[0]], split(whole[0], cuts)):
        operator = begin(case.query, case.schema, case.mode)
        try:
            batches = [*map(operator.process, pieces), operator.finish()]
        except ValueError:
            results.append("refused")
        else:
            rows = [row for batch in batches for row in batch.to_pylist()]
            results.append((batches[0].schema.names, split_side_output(case, rows)))
    together, apart = results
    if "refused" in results:
        assert together == apart
        return
    by = [*case.query.by, *(name for name in ("window",) if name in together[0])]
    assert_same(apart[1][0], together[1][0], by=by, loose=loose(case.query))
    assert_same(apart[1][1], together[1][1], ordered=False)


# ---- every kind of window with every aggregate ----


@pytest.fixture(autouse=True)
def _of_all_aggregates(interpreted_trees: Any, kernels: Any) -> None:
    """Eager trees of all aggregates, as objects."""


WINDOWS = [(f"row: {name}", window) for name, window in PER_ROW.items()] + [
    (f"slide: {name}", window) for name, window in PER_SLIDE.items()
]


@pytest.mark.parametrize("window", [window for _, window in WINDOWS], ids=[name for name, _ in WINDOWS])
def test_every_window_on_whatever_comes(window: Any) -> None:
    """Random queries rarely cover each kind of window; this test covers all of them."""
    aggregates = {"held": sash.collect("i"), "rows": sash.count(), "total": sash.sum("f"), "high": sash.max("x")}

    @settings(max_examples=max(3, settings().max_examples // 4))
    @given(st.data())
    def agrees(data: st.DataObject) -> None:
        forget = data.draw(st.sampled_from([None, 3, 8]), "forget")
        query = sash.Query(window, by="k", on="t", lateness=data.draw(st.integers(0, 6)), forget=forget, **aggregates)
        mode = data.draw(st.sampled_from(["rows", "given", "sorted"]), "mode")
        compare_with_reference(data.draw(calls(query, SCALES[0], mode), "case"), begin, resume)

    agrees()


def steps_of(batch: pa.RecordBatch, mode: str) -> tuple[StreamStep, ...]:
    """Three batches, one of them of one row, an empty one, a snapshot, and in mode "given" the watermark."""
    first, second, third, fourth = split(batch, [7, 8, 8])
    advance = (StreamStep("advance", 3), StreamStep("advance", 3)) if mode == "given" else ()
    calls = [StreamStep("process", piece) for piece in (first, second, third, fourth)]
    return (calls[0], *advance[:1], StreamStep("snapshot"), *calls[1:3], *advance[1:], calls[3], StreamStep("finish"))


def plain_case(window: Any, mode: str, **arguments: Any) -> Case:
    timed = "on" in arguments
    query = sash.Query(window, by="k", **arguments, **aggregates(window))
    batch = stream(timed)
    if mode == "sorted":
        batch = sorted_by_key(batch, query)
    return Case(query, batch.schema, mode, steps_of(batch, mode))


@pytest.mark.parametrize(("window", "mode"), in_turn(dict(WINDOWS), ["rows", "given", "sorted"]))
def test_every_window_with_every_aggregate(window: str, mode: str) -> None:
    compare_with_reference(plain_case(dict(WINDOWS)[window], mode, on="t", lateness=6), begin, resume)


@pytest.mark.parametrize("window", [window for name, window in WINDOWS if name.partition(": ")[2] in UNTIMED], ids=str)
def test_every_window_in_order_of_arrival(window: Any) -> None:
    query = sash.Query(window, by="k", **aggregates(window))
    batch = stream(timed=False)
    pieces = split(batch, [7, 8, 8])
    steps = [
        StreamStep("process", pieces[0]),
        StreamStep("snapshot"),
        *(StreamStep("process", piece) for piece in pieces[1:]),
    ]
    compare_with_reference(Case(query, batch.schema, "rows", (*steps, StreamStep("finish"))), begin, resume)


@pytest.mark.parametrize("window", [window for _, window in WINDOWS], ids=[name for name, _ in WINDOWS])
def test_every_window_with_keys_that_are_forgotten(window: Any) -> None:
    compare_with_reference(plain_case(window, "rows", on="t", lateness=6, forget=3), begin, resume)


@pytest.mark.parametrize("window", [window for _, window in WINDOWS], ids=[name for name, _ in WINDOWS])
def test_changes_of_every_window(window: Any) -> None:
    """Also where windows are empty, or not full yet: two nulls are no change."""
    few = {"high": sash.max("i"), "mean": sash.mean("f"), "known": sash.count("i")}
    for made in (few, {"high": few["high"]}, {"mean": few["mean"]}):
        query = sash.Query(window, by="k", on="t", lateness=6, emit="changes", **made)
        compare_with_reference(Case(query, stream().schema, "rows", steps_of(stream(), "rows")), begin, resume)


def test_changes_of_windows_that_become_full() -> None:
    """A null of an exact aggregate is a null, full or not; an inexact one also differs by being full."""
    schema = pa.schema({"t": "int64", "x": "float64"})
    values = [None] * 5 + [3.0] + [None] * 4
    calls = [pa.record_batch([pa.array([t]), pa.array([x], pa.float64())], schema=schema) for t, x in enumerate(values)]
    steps = [step for one in calls for step in (StreamStep("process", one), StreamStep("snapshot"))]
    windows = {"2": sash.Count(2, full=True), "4": sash.Count(4, full=True)}
    for made in ({"a": sash.max("x")}, {"m": sash.mean("x")}, {"a": sash.max("x"), "m": sash.mean("x")}):
        query = sash.Query(windows, on="t", emit="changes", lateness=0, **made)
        compare_with_reference(Case(query, schema, "rows", (*steps, StreamStep("finish"))), begin, resume)


@pytest.mark.parametrize("late", ["drop", "flag", "error"])
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_every_rule_for_late_rows(late: str, emit: str) -> None:
    compare_with_reference(plain_case(sash.Time(4), "rows", on="t", lateness=6, late=late, emit=emit), begin, resume)


def test_all_windows_at_once() -> None:
    for windows in (PER_ROW, PER_SLIDE):
        named = {name.replace(" ", "_"): window for name, window in windows.items()}
        query = sash.Query(
            named, by="k", on=["t", "i"], lateness=6, high=sash.max("f"), n=sash.count(), s=sash.sum("i")
        )
        compare_with_reference(Case(query, stream().schema, "rows", steps_of(stream(), "rows")), begin, resume)
