"""Locate the result of an aggregate that failed: the row it belongs to, or the slide and its key."""

from __future__ import annotations

from sash.engine.batch_columns import BatchColumns
from sash.engine.key_table import KeyTable
from sash.engine.result_columns import ResultFailed
from sash.engine.row_errors import format_slide
from sash.plan.bound_query import BoundQuery


def failed_place(bound_query: BoundQuery, keys: KeyTable, failed: ResultFailed, rows: BatchColumns) -> str:
    """Return the row that a result belongs to, or the slide and its key, as text.

    `rows`: those of the step, or those that leave.
    """
    window, at = failed.window, failed.place
    if window.error_rows is not None:
        at = int(window.error_rows[at])
    elif not bound_query.per_row:
        return format_slide(bound_query, window.ends[at], keys.keys(window.slots[at : at + 1]))
    return rows.format_row(at)
