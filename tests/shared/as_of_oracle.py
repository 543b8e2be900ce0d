"""as_of by its definition: a loop over the rows of the spine, and for each one over all events."""

from typing import Any

import pyarrow as pa

import sash
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.types import column
from sash.testing.reference import Cell, FormulaCell
from sash.testing.window_oracle import (
    Row,
    alike,
    before_end,
    in_order,
    inside,
    python_values,
    rows_of,
    sessions,
    start_of,
)


def brute_force(
    query: sash.Query, spine: pa.RecordBatch, events: pa.RecordBatch, closed: str = "left"
) -> pa.RecordBatch:
    """The results of each row of a spine that names its columns as the events do."""
    bound_query = query.bind(events.schema)
    assert bound_query.time is not None
    ordered = in_order([row for row in rows_of(events, bound_query, 0) if row.time is not None])
    times, timed = bound_query.time.numbers(spine.column(query.on[0]))
    found: dict[str, list[Any]] = {output.label: [] for output in bound_query.projection.outputs}
    columns = [[alike(value) for value in python_values(spine.column(name))] for name in query.by]
    keys = list(zip(*columns, strict=True)) if columns else [()] * spine.num_rows
    for key, t, is_timed in zip(keys, times.tolist(), timed.tolist(), strict=True):
        mine = [row for row in ordered if row.key == key]
        for output in bound_query.projection.outputs:
            value = _result(bound_query, output, mine, t, closed) if is_timed else None
            found[output.label].append(value)
    types = {output.label: output.result for output in bound_query.projection.outputs}
    return pa.record_batch({label: column(values, types[label], label) for label, values in found.items()})


def _result(bound_query: BoundQuery, output: Any, rows: list[Row], t: Any, closed: str) -> Any:
    cells = []
    for window, aggregate, *_ in output.cells:
        spec = bound_query.windows[window]
        held = tuple(_held(spec, rows, t, closed))
        full = not spec.full or len(held) >= int(spec.size or 1)
        cells.append(Cell(bound_query.aggregates[aggregate], held, full, bound_query.query.min_periods))
    return cells[0].value if output.tree is None else FormulaCell(output.tree, tuple(cells)).value


def _held(spec: WindowSpec, rows: list[Row], t: Any, closed: str) -> list[Row]:
    """The events that a window at t holds."""
    before = [row for row in rows if before_end(closed, row.time, t)]
    if spec.kind == "time":
        return [row for row in rows if inside(closed, start_of(spec, t), row.time, t + spec.shift)]
    if spec.kind == "count":
        upto = before[: max(len(before) + int(spec.shift), 0)]
        return upto[max(len(upto) - int(spec.size or 1), 0) :]
    if spec.kind == "session":
        last = sessions(spec, before)[-1] if before else []
        return last if last and t - last[-1].time <= (spec.size or 0) else []
    assert spec.kind == "lifetime"
    return before
