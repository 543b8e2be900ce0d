"""What a pipeline selects: rows of a source by a condition, columns for a sink, rows for the side output.

The side output has the rows that enter no window, with the reason:

    columns of the source │ _reason    _error   _where   _given
    the row               │ late                                   below the watermark
    the row               │ untimed                                its time is null, NaN, infinite, or too far ahead
    the row               │ failed     why                         an aggregate failed on it: Options(failed="side")
    nulls                 │ malformed  why      file, …  bytes     it could not be decoded
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.columns.arrow_arrays import together
from sash.columns.failed_rows import ERROR
from sash.engine import Uncommitted
from sash.expressions.arrow_evaluation import chosen_rows
from sash.expressions.tree import Expr
from sash.pipeline.sink import Sink, SinkTask
from sash.pipeline.source import MalformedRecord, Reading, Source, SourceRows, share_read
from sash.plan.binder import known_columns
from sash.plan.bound_query import BoundQuery

# --- Selections ---


class FilteredSource:
    """The rows of a source for which a condition is true; other rows are ignored, and not counted.

    source: where rows come from.
    where: the condition, made by `sash.expr`.
    """

    def __init__(self, source: Source, where: Expr) -> None:
        self.source, self.where, self.problems = source, where, source.problems

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the source. Raises ValueError if the condition does not fit them."""
        found = self.source.schema
        if found is not None:
            self._filtered(pa.RecordBatch.from_pylist([], found))
        return found

    def expect(self, schema: pa.Schema) -> None:
        """Read the columns of an earlier run, if the source supports it."""
        if hasattr(self.source, "expect"):
            self.source.expect(schema)

    def read(self, position: Any, reading: Reading) -> Iterator[SourceRows]:
        """The chunks of the source, with only the rows that satisfy the condition."""
        for chunk in self.source.read(position, reading):
            yield replace(chunk, batch=self._filtered(chunk.batch))

    def share_read(self, position: Any) -> float | None:
        """The share of the source before a position, if it knows it."""
        return share_read(self.source, position)

    def _filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        known_columns(self.where.tree, batch.schema, "where")
        return batch.filter(chosen_rows(self.where.tree, batch.column, batch.num_rows, f"where: {self.where!r}"))

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    def __repr__(self) -> str:
        return f"{self.source!r} where {self.where!r}"


def selected(schema: pa.Schema, columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """The columns of a selection: pairs of a column and its new name."""
    return pa.schema([schema.field(source).with_name(name) for source, name in columns])


class SelectedSink:
    """Passes some columns of the results to a sink, with new names.

    sink: the sink that gets them.
    columns: pairs of a column of the results and its name in the sink.
    """

    def __init__(self, sink: Sink, columns: Sequence[tuple[str, str]]) -> None:
        self.sink, self.columns = sink, tuple(columns)

    def open(self, task: SinkTask) -> None:
        """Open the sink for the columns that it gets."""
        self.sink.open(replace(task, schema=selected(task.schema, self.columns)))

    def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Select the columns, and pass them to the sink."""
        columns = [batch.column(source) for source, _ in self.columns]
        self.sink.prepare(epoch, pa.RecordBatch.from_arrays(columns, schema=selected(batch.schema, self.columns)))

    def publish(self, epoch: int) -> None:
        """Let the sink publish."""
        self.sink.publish(epoch)

    def close(self) -> None:
        """Close the sink."""
        self.sink.close()

    def __repr__(self) -> str:
        return f"{self.sink!r} of {', '.join(name for _, name in self.columns)}"


# --- Side rows ---

ADDED = {"_reason": pa.string(), "_error": pa.string(), "_where": pa.string(), "_given": pa.binary()}


def side_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the side output of a source. Raises ValueError if the source has one of the added names."""
    for name in ADDED:
        if name in schema.names:
            raise ValueError(f"the side output adds a column {name!r}, and the source has one already: rename it")
    return pa.schema([*(field.with_nullable(True) for field in schema), *(pa.field(*item) for item in ADDED.items())])


def side_rows(
    bound_query: BoundQuery, schema: pa.Schema, step: Uncommitted, malformed: Sequence[MalformedRecord]
) -> pa.RecordBatch:
    """The rows of a step that enter no window, of this `side_schema`."""
    late, failed, count = step.late_rows, step.failed_rows, step.late_rows.num_rows
    reasons, errors = _reasons(bound_query, late, step.watermark), [None] * count
    if failed is not None and failed.num_rows:
        reasons += ["failed"] * failed.num_rows
        errors += failed.column(ERROR).to_pylist()
        late = together([late, failed.drop_columns([ERROR])], late.schema)
        count = late.num_rows
    columns: dict[str, Any] = {
        "_reason": [*reasons, *["malformed"] * len(malformed)],
        "_error": [*errors, *(record.reason for record in malformed)],
        "_where": [*[None] * count, *(record.where for record in malformed)],
        "_given": [*[None] * count, *(record.given for record in malformed)],
    }
    nulls = [pa.nulls(len(malformed), field.type) for field in late.schema]
    rows = [pa.concat_arrays([column, empty]) for column, empty in zip(late.columns, nulls, strict=True)]
    more = [pa.array(columns[name], dtype) for name, dtype in ADDED.items()]
    return pa.RecordBatch.from_arrays([*rows, *more], schema=schema)


def _reasons(bound_query: BoundQuery, late: pa.RecordBatch, watermark: Any) -> list[str]:
    if not late.num_rows or bound_query.time is None:
        return []
    numbers, valid = bound_query.time.numbers(late.column(bound_query.time.column))
    if watermark is None:
        return ["untimed"] * late.num_rows
    late_times = valid & (numbers < watermark)  # a row too far ahead has a time at or above the watermark
    return ["late" if is_late else "untimed" for is_late in late_times.tolist()]
