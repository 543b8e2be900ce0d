"""Errors that name a row: rows whose windows have no place, and what a monoid raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine import slide_grid
from sash.engine.key_values import decode, format_row
from sash.kernels.loops.aggregate_kernel import AggregateError
from sash.plan.bound_query import BoundQuery, WindowSpec

Flags = NDArray[np.bool_]


class RoomCheck:
    """Refuses rows whose windows would have no place, before they are kept."""

    def __init__(self, bound_query: BoundQuery) -> None:
        self.column = bound_query.time.column if bound_query.time else ""
        self.sliding = [span for span in bound_query.windows if span.slide == "time"]
        self.deltas: list[WindowSpec] = [span for span in bound_query.windows if span.kind == "delta"]
        self.has_none = not self.sliding and not self.deltas

    def require(self, batch: pa.RecordBatch, time: NDArray[Any], taken: Flags) -> None:
        """Raises OverflowError for times at which slides cannot be told apart, ValueError for a Delta window's column
        that is null, NaN or infinite; both name the value or the row.
        """
        if self.has_none:
            return
        if self.sliding:
            slide_grid.require_room(self.sliding, time if taken.all() else time[taken], self.column)
        for span in self.deltas:
            if span.axis is not None:
                _, valid = span.axis.numbers(decode(batch.column(span.axis.column)))
                bad = np.flatnonzero(taken & ~valid)
                if len(bad):
                    raise ValueError(
                        f"the column {span.column!r} of a Delta window is null, NaN or infinite at "
                        f"{format_row(batch, int(bad[0]))}"
                    )


def failure(what: str, failed: AggregateError, where: str) -> Exception:
    """What a monoid or a policy raised, of the same type, with where it was."""
    kind = type(failed.error)
    message = f"{what} failed with {kind.__name__}: {failed.error}; at {where}"
    try:
        return kind(message)
    except Exception:  # an exception of the user's that takes other arguments
        return RuntimeError(message)
