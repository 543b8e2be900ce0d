"""Metrics and progress of an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from sash.columns.failed_rows import FailedRows
from sash.columns.time_numbers import Watermark
from sash.engine.intake.reorder_buffer import TimedRows
from sash.plan.time_axis import Number


class RowCounts(NamedTuple):
    """Counters: rows received, results, late, untimed and failed rows, and results that failed."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    untimed: int = 0
    failed: int = 0
    failed_results: int = 0


@dataclass(frozen=True)
class Metrics:
    """Counters of an operator, and the size of its state."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    untimed: int = 0
    failed: int = 0
    """Rows on which an aggregate failed, and that entered no window; see `Options(failed="side")`."""
    failed_results: int = 0
    """Results that are null because an aggregate failed on them; what rows of equal time share counts once."""
    keys: int = 0
    elements: int = 0
    """Elements that windows still need, and rows in the reorder buffer."""
    state_bytes: int = 0
    pages_read: int = 0
    pages_written: int = 0
    last_failure: str = ""
    """The message of the last row or result that failed, since the operator was opened."""


@dataclass(frozen=True)
class Progress:
    """The progress of an operator; a successful call replaces it."""

    watermark: Watermark = None
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    untimed: int = 0
    failed: int = 0
    failed_results: int = 0
    before: Number | None = None
    """In mode "sorted": the time of the last row."""
    held: TimedRows | None = None
    """In mode "sorted": the last rows of equal key and time, because more of them may follow."""
    late_rows: tuple[pa.RecordBatch, ...] = ()
    failed_rows: tuple[FailedRows, ...] = ()
    last_failure: str = ""
    offset: Any = None
    """The caller's position in its source."""
    newest: Watermark = None
    """The greatest time of all accepted rows and of `advance`: the time of a lookup without `at`."""

    @property
    def counts(self) -> RowCounts:
        """The counters."""
        return RowCounts(self.rows_in, self.rows_out, self.late, self.untimed, self.failed, self.failed_results)


@dataclass(frozen=True)
class Uncommitted:
    """What a call has computed, before its state is saved: for `before_commit`."""

    results: pa.RecordBatch
    late_rows: pa.RecordBatch
    """The rows of this call that were late or untimed, as they came."""
    watermark: Any
    failed_rows: pa.RecordBatch | None = None
    """The rows of this call on which an aggregate failed, with the message in `_error`."""


BeforeCommit = Callable[[Uncommitted], None]

Changes = dict[str, Any]
"""Fields of a Progress, with their new values."""


def replace(progress: Progress, changes: Changes) -> Progress:
    """A copy with some fields changed; `dataclasses.replace` takes seven times as long."""
    made = object.__new__(Progress)
    made.__dict__.update(progress.__dict__)
    made.__dict__.update(changes)
    return made
