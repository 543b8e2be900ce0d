"""Rows on which an aggregate fails, for `Options(failed="side")`: found on arrival, before they enter the state.

    rows ──▶ expressions ──▶ lift of each aggregate that may fail ──▶ rows that enter windows
                 │                          │
                 └──────────────────────────┴──▶ FailedRows: the row, and the message

Found on arrival, a row that waits in the reorder buffer can fail neither a later call nor a lookup. Only aggregates of
users may fail here: their `lift` is called once more for each row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.aggregators.running import Running
from sash.engine.aggregate_batch import Aggregate
from sash.engine.arrow_arrays import all_true, array
from sash.engine.key_values import decode
from sash.engine.output import chosen_rows
from sash.engine.failed_results import REMEDY
from sash.engine.step_data import BatchColumns
from sash.engine.value_encoder import InputReader
from sash.expressions.arrow_evaluation import failing_rows
from sash.kernels.jit.compile import machine_code
from sash.kernels.loops.array_types import NO_FLAGS, Flags, Ints
from sash.kernels.loops.columnar import AggregateError, Columnar
from sash.kernels.loops.live_kernel import NO_COUNTS
from sash.kernels.loops.live_loops import lift_elements
from sash.plan.bound_query import AggregateSpec, BoundQuery
from sash.plan.derived_columns import is_fallible
from sash.plan.fallible import lift_may_fail

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


class LiftKernel(Columnar):
    """The `lift` of an aggregate on rows, compiled if the aggregate is, to find the rows on which it fails."""

    def __init__(self, monoid: Any, kinds: Any) -> None:
        super().__init__(monoid, kinds, (Running,), warn=False)

    def compile_loops(self) -> None:
        self.failures(self.layouts.inputs.allocate(0), NO_FLAGS)

    def failures(self, inputs: Any, non_null: Flags) -> list[AggregateError]:
        """The rows on which it fails. After a failure the loop continues behind it."""
        found: list[AggregateError] = []
        if not self.compiled:
            for i, (row, has_value) in enumerate(zip(inputs, non_null.tolist(), strict=True)):
                try:
                    if has_value:
                        self.monoid.lift(*row)
                except Exception as error:
                    found.append(AggregateError(i, error))
            return found
        out, progress, first, count, code = self.nothing(1), np.zeros(2, np.int64), 0, len(non_null), None
        places, layouts = np.zeros(count, np.int64), (self.layouts.inputs, self.layouts.state)
        while first < count or code is None:
            place, given = (places[first:], places[first:], progress), tuple(leaf[first:] for leaf in inputs)
            arguments = (self.monoid, layouts, given, non_null[first:], place, NO_COUNTS, out)
            if code is None:
                code = machine_code(lift_elements, (self.monoid_type, self.kinds), arguments)
            try:
                code(*arguments)
            except Exception as error:
                first += int(progress[0])
                found.append(AggregateError(first, error))
                first += 1
            else:
                break
        return found


class LiftCheck:
    """Finds the rows on which the `lift` of one aggregate fails."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec
        aggregate = Aggregate(spec, lambda monoid, kinds, _: LiftKernel(monoid, kinds))
        self.kernel: LiftKernel = aggregate.kernel
        self.reader = InputReader(spec, aggregate.forms, self.kernel.compiled, aggregate.ours)

    def failures(self, columns: BatchColumns) -> list[tuple[int, str]]:
        """The rows that fail, and the messages."""
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
        inputs = self.reader.columns(columns, count)
        given = self.kernel.typed(inputs) if self.kernel.compiled else list(zip(*inputs, strict=True))
        return self.kernel.failures(given, all_true(count) if non_null is None else non_null)


class RowChecks:
    """Checks rows on arrival: in the reorder buffer a row that fails would fail every later call."""

    def __init__(self, bound_query: BoundQuery) -> None:
        specs = [*bound_query.aggregates, *(spec for window in bound_query.windows for spec in window.over)]
        derived = dict(column for spec in specs for column in spec.derived)
        self.columns = [(name, tree) for name, tree in derived.items() if is_fallible(tree)]
        self.aside = bound_query.query.options.failed == "side"
        self.lifts = [LiftCheck(spec) for spec in specs if self.aside and lift_may_fail(spec.monoid)]
        if self.aside and ERROR in bound_query.schema.names:
            raise ValueError(
                f"failed='side' of Options adds a column {ERROR!r} to rows that fail, and they have one already: rename it"
            )

    def failures(self, table: pa.RecordBatch) -> dict[int, str]:
        """The rows that fail, with the messages. Raises ValueError for the first if they are not to be set aside."""
        if not self.columns and not self.lifts:
            return {}
        columns, places = BatchColumns(table), None
        found: dict[int, str] = {}
        try:
            columns.derive(self.columns)
        except ValueError as error:
            if not self.aside:
                raise ValueError(f"{error}; {REMEDY}") from None
            for _, tree in self.columns:
                failing = failing_rows(tree, lambda name: decode(columns.column(name)), len(columns))
                found = failing | found
            places = np.setdiff1d(np.arange(len(columns)), list(found))
            columns = BatchColumns(table.take(array(places)))
        for lift in self.lifts:
            for at, message in lift.failures(columns):
                found.setdefault(at if places is None else int(places[at]), message)
        return found


def set_aside(
    found: dict[int, str], table: pa.RecordBatch, arrival: Ints, schemas: tuple[pa.Schema, pa.Schema]
) -> tuple[Flags, FailedRows]:
    """Which rows of a table have not failed, and those that have, as they came.

    `schemas`: of the rows as they came, and without dictionaries.
    """
    bad = np.zeros(table.num_rows, np.bool_)
    bad[list(found)] = True
    rows = chosen_rows(table, *schemas, bad)
    return ~bad, FailedRows(rows, arrival[bad], [found[at] for at in sorted(found)])
