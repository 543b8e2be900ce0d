"""Locate the result of an aggregate that failed: the row it belongs to, or the slide and its key."""

from __future__ import annotations

from typing import Any

from sash.engine.ahead_assigner import LeavingRows
from sash.engine.key_table import KeyTable
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.row_errors import format_slide
from sash.engine.step_data import StepRows
from sash.kernels.loops.columnar import AggregateError
from sash.kernels.loops.live_kernel import LiftFailed
from sash.plan.bound_query import BoundQuery


def failed_place(
    bound_query: BoundQuery,
    keys: KeyTable,
    aggregate: LiveAggregate,
    failed: AggregateError,
    rows: StepRows,
    assigned: Any,
) -> str:
    """Return the row that a result belongs to, or the slide and its key, as text.

    `assigned`: the rows as the assigner has assigned them, or those that leave.
    """
    window, at = aggregate.failed_in, failed.place
    if isinstance(failed, LiftFailed):
        return rows.format_row(at)
    assert window is not None
    if aggregate.kernel.elements == "running":  # the place is a row, or the number of rows for results after them
        if at < len(rows):
            return rows.format_row(at)
        at = len(window) - 1
    elif bound_query.per_row or window.error_rows is not None:
        if isinstance(assigned, LeavingRows):
            return assigned.columns.format_row(at)
        return rows.format_row(at if window.error_rows is None else int(window.error_rows[at]))
    return format_slide(bound_query, window.ends[at], keys.keys(window.slots[at : at + 1]))
