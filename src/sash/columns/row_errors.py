"""Errors that name a row: times out of range, invalid Delta columns, and exceptions of monoids and policies."""

from __future__ import annotations

from collections.abc import Sequence
from traceback import walk_tb

import numpy as np
import pyarrow as pa

from sash.columns.failed_rows import REMEDY
from sash.columns.keys import decode, format_key, format_row
from sash.kernels.loops.array_types import Flags, Numbers
from sash.kernels.loops.bound_kernel import AggregateError
from sash.monoids.algebra import Monoid
from sash.monoids.null_rows import NullRows
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.time_axis import Number
from sash.windows.rules import require_in_range


class RowLimits:
    """Rejects rows whose windows would exceed the range of numbers, before they enter the state."""

    def __init__(self, bound_query: BoundQuery) -> None:
        self.column = bound_query.time.column if bound_query.time else ""
        self.sliding = [window.rule for window in bound_query.windows if window.slide == "time"]
        self.deltas: list[WindowSpec] = [window for window in bound_query.windows if window.rule.measured]
        self.has_none = not self.sliding and not self.deltas

    def require_times(self, time: Numbers) -> None:
        """Raises OverflowError, naming the value, for times at which slides are not distinct."""
        require_in_range(self.sliding, time, self.column)

    def require(self, batch: pa.RecordBatch, time: Numbers, taken: Flags) -> None:
        """Raises OverflowError for times at which slides are not distinct, ValueError for a Delta window's column that
        is null, NaN or infinite; both name the value or the row.
        """
        if self.has_none:
            return
        if self.sliding:
            self.require_times(time if taken.all() else time[taken])
        for window in self.deltas:
            if window.axis is not None:
                _, valid = window.axis.numbers(decode(batch.column(window.axis.column)))
                bad = np.flatnonzero(taken & ~valid)
                if len(bad):
                    raise ValueError(
                        f"the column {window.column!r} of a Delta window is null, NaN or infinite at "
                        f"{format_row(batch, int(bad[0]))}"
                    )


def decreasing(name: str, before: Number, value: Number, row: str) -> ValueError:
    """The error of a Delta window's column that decreases."""
    return ValueError(
        f"the column {name!r} of a Delta window must not decrease, but goes from {before} to {value} at {row}"
    )


def aggregate_failure(bound_query: BoundQuery, number: int, failed: AggregateError, where: str) -> Exception:
    """The exception of an aggregate's monoid, with the place where it was raised; with the columns for an overflow.

    It names the option with which the call would have succeeded. For an error of `combine` there is none.
    """
    spec = bound_query.aggregates[number]
    where = f"at {where}"
    if isinstance(failed.error, OverflowError) and spec.columns:
        where += f", in the column {', '.join(map(repr, spec.columns))}"
    if bound_query.query.options.failed == "error" and not _is_of_combine(spec.monoid, failed.error):
        where += f"; {REMEDY}"
    return failure(f"the aggregate {spec.name!r}", failed, where)


def _is_of_combine(monoid: Monoid, error: Exception) -> bool:
    """Was an exception raised in `combine`? Compiled code has frames of its own, with the same file and name."""
    inner = monoid.of if isinstance(monoid, NullRows) else monoid
    code = getattr(inner.combine, "__code__", None)
    if code is None:
        return False
    raised_in = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    if code.co_name == "<lambda>":
        return code in raised_in
    return (code.co_filename, code.co_name) in [(found.co_filename, found.co_name) for found in raised_in]


def failure(what: str, failed: AggregateError, where: str) -> Exception:
    """The exception of a monoid or policy, of the same type, with the place where it was raised."""
    kind = type(failed.error)
    message = f"{what} failed with {kind.__name__}: {failed.error}; {where}"
    try:
        return kind(message)
    except Exception:  # a user-defined exception that takes other arguments
        return RuntimeError(message)


def format_slide(bound_query: BoundQuery, end: Number, key: Sequence[pa.Array]) -> str:
    """A slide in time, by its end and its key, for a message."""
    if bound_query.time is not None:
        end = bound_query.time.array(np.array([end]))[0]
    return f"the slide that ends at {end}" + format_key(bound_query.by, key)
