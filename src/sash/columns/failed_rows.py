"""Rows and results on which an aggregate fails, for `Options(failed="side")`: rows are found before they enter state.

    rows ──▶ expressions ──▶ lift of each aggregate that may fail ──▶ rows that enter windows
                 │                          │
                 └──────────────────────────┴──▶ FailedRows: the row, and the message

Only aggregates of users may fail here. Rows that enter the reorder buffer are checked on arrival, so that they fail
neither a later call nor a lookup: `lift` is then called twice for each. Without a buffer rows are checked only after a
call has failed (`QueryState.attempt`).

Results on which an aggregate or a formula fails, for `Options(failed="side")`: they are null, and counted here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.batch_columns import BatchColumns
from sash.columns.keys import chosen_rows, decode
from sash.kernels.loops.array_types import NO_FLAGS, Flags, Ints
from sash.plan.bound_query import AggregateSpec, BoundQuery
from sash.plan.derived_columns import is_fallible, lift_may_fail

if TYPE_CHECKING:
    from sash.kernels.loops.bound_kernel import AggregateError

# --- Failed results ---

REMEDY = 'options=sash.Options(failed="side") goes on without it ([options] failed = "side" in a job)'
"""The end of an error's message: how a row or a result that fails does not end the call."""


class FailedResults:
    """Results of a call that have failed and are null: how many, and the message of the last."""

    def __init__(self) -> None:
        self.count, self.message = 0, ""

    def note(self, count: int, message: str) -> None:
        """Count more of them."""
        self.count, self.message = self.count + count, message

    def clear(self) -> None:
        """Begin a call."""
        self.count, self.message = 0, ""

    def warn(self) -> None:
        """Warn of them, on a host without counters."""
        warn_failed(0, self.count, self.message)


def warn_failed(rows: int, results: int, message: str) -> None:
    """Warn of rows and results that have failed on a host without a side output; do nothing if none has."""
    if rows or results:
        text = f"{rows} rows failed and are in no window, {results} results failed and are null"
        warnings.warn(f'{text}, because of Options(failed="side"); one of them: {message}', stacklevel=2)


# --- Failed rows ---

ERROR = "_error"
"""The column of failed rows with the message."""


class FailedRows(NamedTuple):
    """Rows that have failed, as they came, with their arrival numbers and the messages."""

    rows: pa.RecordBatch
    arrival: Ints
    messages: list[str]

    def batch(self) -> pa.RecordBatch:
        """The rows with the messages in the column `_error`."""
        return self.rows.append_column(pa.field(ERROR, pa.string()), pa.array(self.messages, pa.string()))


def failed_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of failed rows: those of the rows, and `_error`."""
    return schema.append(pa.field(ERROR, pa.string()))


class LiftCheck:
    """Finds the rows on which the `lift` of one aggregate fails.

    `compiled`: whether the aggregate runs compiled. A compiled `lift` may fail on other rows: log(0) is -inf then.
    """

    def __init__(self, spec: AggregateSpec, compiled: bool) -> None:
        from sash.columns.aggregate_batch import Aggregate, InputReader
        from sash.kernels.loops.bound_kernel import LIFT

        self.spec = spec
        aggregate = Aggregate(spec, LIFT, objects=not compiled, warn=False)
        self.kernel = aggregate.kernel
        self.reader = InputReader(spec, aggregate.forms, self.kernel.compiled, aggregate.ours)

    def failures(self, columns: BatchColumns) -> list[tuple[int, str]]:
        """The rows that fail, and the messages."""
        from sash.kernels.loops.bound_kernel import AggregateError

        count = len(columns)
        try:
            found = self._failures(columns, count)
        except Exception:  # a value that is no object of Python, such as a date after the year 9999
            found = []
            for i in range(count):
                one = BatchColumns(columns.table.slice(i, 1))
                try:
                    found += [AggregateError(i, failed.error) for failed in self._failures(one, 1)]
                except Exception as error:
                    found.append(AggregateError(i, error))
        name = self.spec.name
        return [
            (one.place, f"the aggregate {name!r} failed with {type(one.error).__name__}: {one.error}") for one in found
        ]

    def _failures(self, columns: BatchColumns, count: int) -> list[AggregateError]:
        non_null = self.reader.non_null(columns, count)
        inputs = self.kernel.inputs(self.reader.columns(columns, count))
        slots = places = np.zeros(count, np.int64)
        flags = NO_FLAGS if non_null is None else non_null
        return self.kernel.lift_elements(inputs, flags, (slots, places), self.kernel.states(1), tolerant=True)


class RowChecks:
    """Checks rows: those that wait in the reorder buffer on arrival, because later they would fail every call.

    `is_compiled` says whether the aggregate of a number runs compiled.
    """

    def __init__(self, bound_query: BoundQuery, is_compiled: Callable[[int], bool]) -> None:
        specs = [*bound_query.aggregates, *(spec for window in bound_query.windows for spec in window.over)]
        derived = dict(column for spec in specs for column in spec.derived)
        self.columns = [(name, tree) for name, tree in derived.items() if is_fallible(tree)]
        self.tolerant = bound_query.query.options.failed == "side"
        self.lifts = [
            LiftCheck(spec, is_compiled(number))
            for number, spec in enumerate(bound_query.aggregates)
            if self.tolerant and lift_may_fail(spec.monoid)
        ]
        if self.tolerant and ERROR in bound_query.schema.names:
            raise ValueError(
                f"failed='side' of Options adds a column {ERROR!r} to rows that fail, and they have one already: "
                "rename it"
            )

    def failures(self, table: pa.RecordBatch, lifts: bool = True) -> dict[int, str]:
        """The rows that fail, with the messages. Raises ValueError for the first if they are not to be set aside.

        `lifts`: whether to check `lift`, or only expressions.
        """
        checked = self.lifts if lifts else []
        if not self.columns and not checked:
            return {}
        columns, places = BatchColumns(table), None
        found: dict[int, str] = {}
        try:
            columns.derive(self.columns)
        except ValueError as error:
            if not self.tolerant:
                raise ValueError(f"{error}; {REMEDY}") from None
            from sash.expressions.arrow_evaluation import failing_rows

            for _, tree in self.columns:
                failing = failing_rows(tree, lambda name: decode(columns.column(name)), len(columns))
                found = failing | found
            places = np.setdiff1d(np.arange(len(columns)), list(found))
            columns = BatchColumns(table.take(array(places)))
        for lift in checked:
            for at, message in lift.failures(columns):
                found.setdefault(at if places is None else int(places[at]), message)
        return found


def split_failed(
    found: dict[int, str], table: pa.RecordBatch, arrival: Ints, schemas: tuple[pa.Schema, pa.Schema]
) -> tuple[Flags, FailedRows]:
    """Which rows of a table have not failed, and those that have, as they came.

    `schemas`: of the rows as they came, and without dictionaries.
    """
    bad = np.zeros(table.num_rows, np.bool_)
    bad[list(found)] = True
    rows = chosen_rows(table, *schemas, bad)
    return ~bad, FailedRows(rows, arrival[bad], [found[at] for at in sorted(found)])
