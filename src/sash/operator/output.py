"""Output: results as a record batch of the query's output schema.

Per row: the input's columns and one column for each window and aggregate, in order of time and arrival. Per slide:
the key, the window's name, its start and end, the aggregates, in order of their ends. Of one window in mode "given"
they are key by key, each in order: with many keys there are far more results than rows, and to sort them over all keys
would take longer than to compute them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.engine import Found, Step
from sash.operator.frame import Flags, Ints
from sash.operator.keys import plain, plain_schema, restored
from sash.operator.loaded import together
from sash.query.resolved import Resolved


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch without dictionaries."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], schema=schema)


def chosen_rows(batch: pa.RecordBatch, schema: pa.Schema, bare: pa.Schema, chosen: Flags) -> pa.RecordBatch:
    """Some rows of a batch, as they came; `bare` is the schema without dictionaries and views."""
    rows = plain_batch(batch, bare).filter(pa.array(chosen))
    columns = [restored(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Output:
    """Results of an operator's mode, as batches."""

    def __init__(self, resolved: Resolved, mode: str) -> None:
        self.resolved = resolved
        self.schema = resolved.output(mode)
        self.width = len(resolved.schema)
        self.flags = "_late" in self.schema.names
        self.key_by_key = mode == "given" and len(resolved.spans) == 1

    def empty(self) -> pa.RecordBatch:
        """No results."""
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)

    def final(self, step: Step, chosen: list[Flags] | None) -> pa.RecordBatch:
        """The results of a step, those chosen."""
        if self.resolved.per_row:
            return self._rows(step, None if chosen is None else chosen[0])
        return self._slides(step, chosen)

    def _rows(self, step: Step, chosen: Flags | None) -> pa.RecordBatch:
        rows = step.rows
        given, results = list(rows.given.columns), [column for found in step.found for column in found.columns]
        place = np.arange(len(rows))
        if rows.order is not None:
            place[rows.order] = np.arange(len(rows))
        leaving = rows.leaving
        if chosen is not None:
            among = chosen[place]
            leaving = np.flatnonzero(among) if leaving is None else leaving[among[leaving]]
        if leaving is not None:
            given = [column.take(pa.array(leaving)) for column in given]
            place = place[leaving]
        if leaving is not None or rows.order is not None:
            results = [column.take(pa.array(place)) for column in results]
        if self.flags:
            results.append(pa.array(np.zeros(len(place), np.bool_)))
        return self.typed([*given, *results])

    def _slides(self, step: Step, chosen: list[Flags] | None) -> pa.RecordBatch:
        parts = [
            self.slide_columns(step, found, None if chosen is None else np.flatnonzero(chosen[i]))
            for i, found in enumerate(step.found)
        ]
        if self.key_by_key:
            return self.typed(parts[0])
        columns = [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]
        ends = np.concatenate(
            [
                found.answer.ends if chosen is None else found.answer.ends[chosen[i]]
                for i, found in enumerate(step.found)
            ]
        )
        order = pa.array(np.argsort(ends, kind="stable"))
        return self.typed([column.take(order) for column in columns])

    def slide_columns(self, step: Step, found: Found, places: Ints | None) -> list[pa.Array]:
        """The columns of one window's slides."""
        answer = found.answer
        key, starts, ends = answer.segment, answer.starts, answer.ends
        results = found.columns
        if places is not None:
            key, starts, ends = key[places], starts[places], ends[places]
            results = [column.take(pa.array(places)) for column in results]
        of = pa.array(step.segments.key[key])
        columns = [column.take(of) for column in step.loaded.columns]
        if "window" in self.schema.names:
            name = pa.scalar(self.resolved.spans[answer.span].name, pa.string())
            columns.append(pa.repeat(name, len(key)))
        return [*columns, self.bound(starts), self.bound(ends), *results]

    def bound(self, numbers: Any) -> pa.Array:
        """Where windows start or end, as the time column has it."""
        if self.resolved.time is None:
            return pa.array(numbers.astype(np.int64))
        return self.resolved.time.array(numbers)

    def with_aside(self, found: pa.RecordBatch, aside: pa.RecordBatch, arrival: Ints) -> pa.RecordBatch:
        """Results, and before them rows with null aggregates: late and untimed ones."""
        count = aside.num_rows
        columns = list(plain_batch(aside, plain_schema(self.resolved.schema)).columns)
        for field in list(self.schema)[self.width :]:
            if field.name == "_late":
                columns.append(pa.array(np.ones(count, np.bool_)))
            elif field.name == "_row":
                columns.append(pa.array(arrival))
            elif field.name == "_revision":
                columns.append(pa.array(np.zeros(count, np.int64)))
            else:
                columns.append(pa.nulls(count, field.type))
        first = self.typed(columns)
        return together([first, found], self.schema)

    def early(self, step: Step, parts: list[tuple[list[Found], Ints, Ints, Ints]]) -> pa.RecordBatch:
        """Early results: for each window its results, places among them, ids and revisions."""
        found = []
        for group, places, ids, revisions in parts:
            taken = pa.array(places)
            if self.resolved.per_row:
                source = taken if step.rows.order is None else pa.array(step.rows.order[places])
                columns = [column.take(source) for column in step.rows.given.columns]
                columns += [column.take(taken) for one in group for column in one.columns]
                if self.flags:
                    columns.append(pa.array(np.zeros(len(places), np.bool_)))
            else:
                columns = self.slide_columns(step, group[0], places)
            found.append([*columns, pa.array(ids), pa.array(revisions)])
        return self.typed([pa.concat_arrays(pieces) for pieces in zip(*found, strict=True)])

    def typed(self, columns: list[pa.Array]) -> pa.RecordBatch:
        """Columns as a batch of the output schema: those that came as dictionaries are so again."""
        made = []
        for column, field in zip(columns, self.schema, strict=True):
            made.append(restored(column, field.type))
        return pa.RecordBatch.from_arrays(made, schema=self.schema)
