"""Compare an engine with the reference: both get the same calls, and must give the same results.

    steps      process   process   snapshot   advance   finish
    engine     ▢         ▢         ▢─▶▢       ▢         ▢          continues from its snapshot
    reference  ▢         ▢                    ▢         ▢

- In modes "rows" and "given" each call gives the same results: the watermark says which. In mode "sorted" an engine may
  give a result as soon as it knows it, so all calls are compared together.
- Results are in order within a key and a window. Rows that are passed on, late or untimed, stand outside that order.
- Eager results of exact aggregates agree call by call, with their revisions; those of inexact ones, whose
  last digits depend on the order of the fold, only in their last revision.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from sash.testing import Reference, assert_same
from sash.testing.compare import as_rows
from sash.testing.reference import is_exact
from tests.shared.queries import loose
from tests.shared.streams import Case, StreamStep

Begin = Callable[..., Any]
"""`begin(query, schema, mode)` gives an engine."""
Resume = Callable[..., Any]
"""`resume(query, snapshot)` gives an engine that continues from a snapshot."""


def compare_with_reference(case: Case, begin: Begin, resume: Resume) -> None:
    """Run a case on an engine and on the reference. Raises AssertionError where they disagree."""
    engine, reference = begin(case.query, case.schema, case.mode), Reference(case.query, case.schema, mode=case.mode)
    got: list[pa.RecordBatch] = []
    expected: list[pa.RecordBatch] = []
    for step in case.steps:
        if step.call == "snapshot":
            engine = resume(case.query, engine.snapshot())
            continue
        try:
            expected.append(run_step(reference, step))
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011 (what it says is tested where the rule is)
                run_step(engine, step)
            break
        got.append(run_step(engine, step))
        if case.mode != "sorted":
            assert (counted(engine, "late"), counted(engine, "untimed")) == (reference.late, reference.untimed)
        assert got[-1].schema == expected[-1].schema, f"{got[-1].schema}\nis not\n{expected[-1].schema}"
        assert_same(engine.late_rows(), reference.late_rows(), ordered=False)
    compare(case, got, expected)


def run_step(machine: Any, step: StreamStep) -> pa.RecordBatch:
    """One call of an operator or of the reference."""
    arguments = () if step.argument is None else (step.argument,)
    found = getattr(machine, step.call)(*arguments)
    assert isinstance(found, pa.RecordBatch), f"{step.call} gave a {type(found).__name__}"
    return found


def counted(machine: Any, name: str) -> int:
    """A counter of a machine's metrics, which are a mapping or an object."""
    metrics = machine.metrics
    return int(metrics[name] if isinstance(metrics, Mapping) else getattr(metrics, name))


def compare(case: Case, got: list[pa.RecordBatch], expected: list[pa.RecordBatch]) -> None:
    """Compare the results of an engine with those of the reference, call by call."""
    if case.query.emit == "eager":
        compare_last_revisions(case, got, expected)
        if not all(map(is_exact, case.query.bind(case.schema).aggregates)):
            return
    if case.mode != "sorted":
        for mine, theirs in zip(got, expected, strict=True):
            same_output(case, [mine], [theirs])
    same_output(case, got, expected)


def same_output(case: Case, got: list[pa.RecordBatch], expected: list[pa.RecordBatch]) -> None:
    """Compare results in order within key and window, and rows that were passed on in any order."""
    per_row = case.query.bind(case.schema).per_row
    # the id of a slide may be any that is stable: `compare_last_revisions` relies on it
    without = ["_row"] if case.query.emit == "eager" and not per_row else []
    mine, my_side_output = split_side_output(case, as_rows(got, without))
    theirs, their_side_output = split_side_output(case, as_rows(expected, without))
    by = [*case.query.by, *(["window"] if "window" in expected[0].schema.names else [])] if expected else []
    assert_same(mine, theirs, by=by, loose=loose(case.query))
    assert_same(my_side_output, their_side_output, ordered=False)


def split_side_output(case: Case, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split rows into results and rows that were only passed on."""
    untimed = case.mode == "sorted" and "t" in case.query.on
    in_side_output = [row.get("_late") is True or (untimed and "t" in row and is_no_time(row["t"])) for row in rows]
    results = [row for row, is_side in zip(rows, in_side_output, strict=True) if not is_side]
    return results, [row for row, is_side in zip(rows, in_side_output, strict=True) if is_side]


def is_no_time(time: Any) -> bool:
    """Is it null, NaN or an infinity?"""
    return time is None or (isinstance(time, float) and not math.isfinite(time))


def compare_last_revisions(case: Case, got: list[pa.RecordBatch], expected: list[pa.RecordBatch]) -> None:
    """Compare the last revision of each result; revisions must count up from 0."""
    last = []
    for batches in (got, expected):
        newest: dict[int, dict[str, Any]] = {}
        for row in as_rows(batches):
            before = newest.get(row["_row"], {"_revision": -1})["_revision"]
            assert row["_revision"] == before + 1, f"revision {row['_revision']} follows {before}: {row}"
            newest[row["_row"]] = row
        last.append([{k: v for k, v in row.items() if k not in ("_row", "_revision")} for row in newest.values()])
    assert_same(last[0], last[1], by=case.query.by, ordered=False, loose=loose(case.query))
