"""Execute a query as of the rows of a spine: aggregates over the events before each row, on tables in memory.

    events ──▶ in order ──▶ inputs ─────────────────┐
                  │                                 ▼
    spine  ──▶ in order ──▶ bounds among events ──▶ kernels ──▶ results, in the order of the spine

The kernels are those of `stateless.py`: elements and results are two axes, and bounds never decrease on either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.aggregators.by_position import sequential
from sash.engine.aggregate_batch import Aggregate, column_kernel
from sash.engine.arrow_arrays import array
from sash.engine.batch_columns import BatchColumns
from sash.engine.column_inputs import Inputs, ResultColumn
from sash.engine.failed_results import FailedResults, warn_failed
from sash.engine.failed_rows import RowChecks
from sash.engine.row_errors import aggregate_failure
from sash.engine.row_order import RowOrder
from sash.engine.spine_rows import SpineColumns, SpineTables, order_spine
from sash.engine.spine_windows import SpineWindows
from sash.engine.stateless import NeedsOperator, ResultCells, StatelessExecutor, full_windows, projected
from sash.kernels.column.column_kernels import CountBounds, RangeBounds
from sash.kernels.loops.columnar import AggregateError
from sash.plan.planner import Plan


class AsOfExecutor(StatelessExecutor):
    """Executes a plan as of the rows of spines."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.time, threads: int | None = None) -> None:
        super().__init__(plan, clock, threads)
        self.checks = RowChecks(self.bound_query, self._is_compiled)
        self.failed_events, self.failures = 0, FailedResults()

    def as_of(
        self, events: pa.RecordBatch, spine: SpineColumns, closed: str, keys: Mapping[str, Any] | None = None
    ) -> list[ResultColumn]:
        """A column for each result, in the order of the spine; null for rows without a time.

        `keys` are columns of the events' key that exist as dictionaries. Raises TypeError or ValueError, naming a
        column of the spine that does not compare with that of the events, and what an aggregate raises. Events that
        are to be set aside are not among `events`; results that fail are then null.
        """
        rows = order_spine(SpineTables(events, spine, keys or {}), self.bound_query, self.threads, self.clock)
        found: dict[tuple[int, int], ResultColumn] = {}
        if not len(rows.events):
            asked = self.bound_query.projection.asked
            return projected(self.projector, {(w, p): self._nothing(rows.spine, w, p) for w, p in asked})
        windows = SpineWindows(rows, closed, self.threads)
        given = [windows.of(window) for window in self.bound_query.windows]
        columns = BatchColumns(events)
        for p, spec in enumerate(self.bound_query.aggregates):
            inputs = self._inputs(spec, columns, rows.events, rows.spine)
            try:
                found |= self._windows_of(p, inputs, given)
            except NeedsOperator as error:
                if not self.checks.tolerant:
                    raise self._error(p, error.__cause__) from error
                found |= self._lowered_apart(p, inputs, given)
        return projected(self.projector, found)

    def _lowered_apart(self, p: int, inputs: Inputs, given: Sequence[CountBounds | RangeBounds]) -> ResultCells:
        """The results of an aggregate that fails on some of them: these are null."""
        made: ResultCells = {}
        for s in self.bound_query.projection.windows_of(p):
            window = self.bound_query.windows[s]
            on = full_windows(window, inputs.results, given[s]) if window.full else None
            try:
                made[s, p] = self._slid(inputs, given[s], "TwoStacksLite", on, lowers_apart=True)
            except NeedsOperator as error:  # `combine` has failed
                raise self._error(p, error.__cause__) from error
            if self.failed:
                self.failures.note(len(self.failed), str(self._error(p, self.failed[-1])))
                self.failed = []
        return made

    def without_failed(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The events on which no aggregate fails; the others are counted."""
        found = self.checks.failures(events) if self.checks.tolerant else {}
        if not found:
            return events
        self.failed_events += len(found)
        self.failures.note(0, found[min(found)])
        return events.take(array(np.setdiff1d(np.arange(len(events)), list(found))))

    def _is_compiled(self, number: int) -> bool:
        spec = self.bound_query.aggregates[number]
        compiled: bool = Aggregate(spec, column_kernel(sequential("TwoStacksLite"))).kernel.compiled
        return compiled

    def warn(self) -> None:
        """Warn of events and results that have failed."""
        formulas = self.projector.failures
        message = self.failures.message or formulas.message
        warn_failed(self.failed_events, self.failures.count + formulas.count, message)

    def _nothing(self, spine: RowOrder, w: int, p: int) -> ResultColumn:
        """The results of windows without events."""
        spec = self.bound_query.aggregates[p]
        empty = None if self.bound_query.windows[w].full else spec.monoid.empty
        if empty is None:
            return ResultColumn(spec.result, made=pa.nulls(spine.rows, spec.result))
        column = spec.array([empty]).take(array(np.zeros(spine.rows, np.int64), spine.timed))
        return ResultColumn(spec.result, made=column)

    def _error(self, p: int, cause: BaseException | None) -> BaseException:
        """The error of an aggregate that failed."""
        name = self.bound_query.aggregates[p].name
        if isinstance(cause, AggregateError):
            return aggregate_failure(self.bound_query, p, cause, "the windows of the spine")
        return OverflowError(f"the aggregate {name!r}: a difference of integers exceeds 64 bits; cast them to float64")
