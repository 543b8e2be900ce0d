"""Execute a query as of the rows of a spine: aggregates over the events before each row, on tables in memory.

    events ──▶ in order ──▶ inputs ─────────────────┐
                  │                                 ▼
    spine  ──▶ in order ──▶ bounds among events ──▶ kernels ──▶ results, in the order of the spine

The kernels are those of `stateless.py`: elements and results are two axes, and bounds never decrease on either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.batch_columns import BatchColumns
from sash.engine.column_inputs import Inputs, ResultColumn
from sash.engine.row_errors import aggregate_failure
from sash.engine.row_order import RowOrder
from sash.engine.spine_rows import SpineColumns, SpineTables, order_spine
from sash.engine.spine_windows import SpineWindows
from sash.engine.stateless import NeedsOperator, StatelessExecutor, projected
from sash.kernels.loops.columnar import AggregateError


class AsOfExecutor(StatelessExecutor):
    """Executes a plan as of the rows of spines."""

    def as_of(
        self, events: pa.RecordBatch, spine: SpineColumns, closed: str, keys: Mapping[str, Any] | None = None
    ) -> list[ResultColumn]:
        """A column for each result, in the order of the spine; null for rows without a time.

        `keys` are columns of the events' key that exist as dictionaries. Raises TypeError or ValueError, naming a
        column of the spine that does not compare with that of the events, and what an aggregate raises.
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
            inputs = Inputs(spec, columns, rows.events, self.threads, rows.spine)
            try:
                found |= self._windows_of(p, inputs, given)
            except NeedsOperator as error:
                raise self._error(p, error.__cause__) from error
        return projected(self.projector, found)

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
