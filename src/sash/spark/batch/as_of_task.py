"""Compute a query as of the rows of a spine on batch DataFrames: one shuffle for spine and events together.

    events ─┐ union, with a    repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ spine's columns
    spine  ─┘ marker                                                                pieces        and aggregates

    marker   key and time   what the query reads of events   the spine's columns
    false    ·              ·                                null
    true     ·              null                             ·

With `Options(split=)`, and without keys, a large key is split into time ranges that are computed in parallel
(`range_split`); only the events determine them. A worker computes rows piece by piece:

    rows, sorted   e e s e s s e │ e s          e: an event, s: a row of the spine; the last peers wait
    piece          ├────────────┤
    next piece         e e     e │ e s …        the events that later windows hold come first

A piece has at least as many new rows as it takes over, so each row is computed at most twice. A worker holds the events
of a few windows: for Session windows those of the current session, for Lifetime windows all events of the key.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType, IntegralType, LongType, StructType

from sash.columns.arrow_arrays import array, no_rows, together
from sash.columns.as_of_columns import AsOfExecutor, SpineColumns, spine_axis
from sash.engine.intake.reorder_buffer import SortedRows
from sash.plan import validation
from sash.plan.as_of_query import AsOfQuery
from sash.plan.binder import known
from sash.plan.time_axis import Number
from sash.spark.batch.pack_ranges import trimmed_lookback
from sash.spark.batch.plan_batch import executed
from sash.spark.batch.range_split import split_of
from sash.spark.batch.time_ranges import Lookback, TimeRange, has_lifetime
from sash.spark.column_exprs import quoted
from sash.spark.job_names import outline
from sash.spark.spark_types import arrow_schema, casts, spark_schema, wire_schema
from sash.windows.rules import is_gap

# --- As of task ---

PIECE = 1 << 17
"""The minimum number of new rows in a piece."""


@dataclass(frozen=True)
class SpineLayout:
    """The columns of a table of spine and events: the marker first, then those of the events, then the spine's."""

    query: AsOfQuery
    schema: pa.Schema
    spine: list[str]
    """The names of the spine's columns in the table."""
    names: tuple[str, ...]
    """Their own names."""

    def result_fields(self) -> pa.Schema:
        """The columns of results."""
        outputs = self.query.query.bind(self.schema).projection.outputs
        return pa.schema([(output.label, output.result) for output in outputs])


class AsOfPieces:
    """An executor of sorted rows of spine and events, in pieces of at least `piece` new rows. `now` is the clock."""

    def __init__(
        self, layout: SpineLayout, now: float, piece: int, ranges: Sequence[TimeRange] = (), number: int = 0
    ) -> None:
        self.piece, self.range = piece, ranges[number] if number < len(ranges) else None
        self.layout, self.bound_query = layout, layout.query.query.bind(layout.schema)
        self.executor = AsOfExecutor(self.bound_query, lambda: now, threads=1)
        self.sorted = SortedRows(self.bound_query)
        self.fields = layout.result_fields()
        self.read = layout.schema.names[1 : -len(layout.spine)]
        self.events = no_rows(layout.schema).select(self.read)
        """Events before the waiting rows that later windows hold."""
        self.waiting: list[pa.RecordBatch] = []
        self.count, self.enough = 0, piece

    def look_back(self, rows: pa.RecordBatch) -> None:
        """Take rows before those of the range, of which windows hold the last events."""
        begin = None if self.range is None else self.range.begin
        assert begin is not None, "the first range has no lookback"
        events = together([self.events, self._events_of(rows)], self.events.schema)
        self.events = trimmed_lookback(events, self.bound_query, begin)

    def process(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows; gives the results of a piece if it is complete."""
        self.waiting.append(rows)
        self.count += rows.num_rows
        return [self._piece(last=False)] if self.count >= self.enough else []

    def finish(self) -> list[pa.RecordBatch]:
        """The results of all remaining rows."""
        found = self._piece(last=True)
        self.executor.warn()
        return [found]

    def _events_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(array(~rows.column(0).to_numpy(zero_copy_only=False))).select(self.read)

    def _piece(self, last: bool) -> pa.RecordBatch:
        new = together(self.waiting, self.layout.schema)
        settled = new.num_rows - (0 if last else self.sorted.waiting(new, self._time(new)[0]))
        rows, rest = new.slice(0, settled), new.slice(settled)
        is_spine = rows.column(0).to_numpy(zero_copy_only=False)
        new_events = self.executor.without_failed(self._events_of(rows))
        events = together([self.events, new_events], self.events.schema)
        results = self._results(rows.filter(array(is_spine)), events)
        if not last:
            self.events = self._still_needed(events, rest)
        self.waiting, self.count = [rest], rest.num_rows
        self.enough = max(self.piece, self.events.num_rows, 2 * self.count)
        return results

    def _results(self, spine: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
        bound_query = self.bound_query
        assert bound_query.time is not None
        on = bound_query.time.column
        given = SpineColumns({by: spine.column(by) for by in bound_query.by}, (on, spine.column(on)), spine.num_rows)
        found = self.executor.as_of(events, given, self.layout.query.closed)
        columns = [column.arrow() for column in found]
        kept = [spine.column(name) for name in self.layout.spine]
        names = [*self.layout.names, *self.fields.names]
        made = pa.RecordBatch.from_arrays([*kept, *columns], names=names)
        return casts(made, wire_schema(made.schema))

    def _still_needed(self, events: pa.RecordBatch, rest: pa.RecordBatch) -> pa.RecordBatch:
        """The events that windows at the remaining rows hold: of the same key, as far back as its windows reach."""
        following = rest.slice(0, 1).select(self.read)
        codes = self.sorted.codes(together([events, following], events.schema))
        time, timed = self._time(following)
        of_key = events.filter(array(codes[:-1] == codes[-1]))
        if not timed.all():  # rows without a time come first in their key
            return of_key
        return self._within_reach(of_key, time[0])

    def _within_reach(self, events: pa.RecordBatch, begin: Number) -> pa.RecordBatch:
        if has_lifetime(self.bound_query):
            return events
        kept = trimmed_lookback(events, self.bound_query, begin)
        gap = Lookback.of(self.bound_query).gap
        if gap is None:
            return kept
        time, timed = self._time(events)
        gaps = np.flatnonzero(is_gap(gap, time[timed][1:], time[timed][:-1]))
        session = events.filter(array(timed)).slice(int(gaps[-1]) + 1 if len(gaps) else 0)
        return session if session.num_rows > kept.num_rows else kept

    def _time(self, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        assert self.bound_query.time is not None
        return self.bound_query.time.numbers(rows.column(self.bound_query.time.column))


# --- As of plan ---


def plan_as_of(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """The query as of the rows of a spine, as a lazy DataFrame.

    Raises TypeError for a stream or columns that cannot be compared, and all that `Query.bind` raises.
    """
    for what, data in (("spine", spine), ("events", events)):
        if data.isStreaming:
            raise TypeError(
                f"as_of() joins two complete tables, and {what}= is a stream: for the features of a stream, look them "
                "up in an operator, operator.lookup(keys, at=…, closed='left')"
            )
    given, own = arrow_schema(events.schema), arrow_schema(spine.schema)
    query.require_free(own.names)
    query.query.bind(given)
    for what, names in (("by", query.spine_by), ("on", (query.spine_on,))):
        for name in names:
            known(own, name, f"{what}= (of the spine)")
    both = _union(query, spine, events)
    schema = arrow_schema(both.schema)
    bound_query = query.query.bind(schema)
    assert bound_query.time is not None
    spine_axis(query.spine_on, own.field(query.spine_on).type, bound_query.time)
    layout = SpineLayout(query, schema, schema.names[-len(own) :], tuple(own.names))
    result = StructType([*spine.schema.fields, *spark_schema(layout.result_fields()).fields])
    split = None if has_lifetime(bound_query) else split_of(_keyed(query, events), bound_query)
    name, now = f"sash: as of, {outline(bound_query.query)}", time.time()
    make = partial(AsOfPieces, layout, now, PIECE, () if split is None else split.ranges)
    return executed(both, bound_query, make, result, name, PIECE, now, split)


# ---- spine and events in one table ----


def _union(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """Events and spine in one DataFrame: marker, the columns that the query reads, the columns of the spine."""
    asked = query.query
    names = list(dict.fromkeys(validation.named(asked)))
    marker = validation.free_name("is_spine", asked, [*names, *spine.columns])
    pairs = dict(zip((*asked.by, asked.on[0]), (*query.spine_by, query.spine_on), strict=True))
    keyed = _keyed(query, events, {mine: spine.schema[name].dataType for mine, name in pairs.items()})
    own = [validation.free_name(f"spine_{i}", asked, names) for i in range(len(spine.columns))]
    kinds = {field.name: field.dataType for field in keyed.schema.fields}
    theirs = [
        sf.lit(None).cast(field.dataType).alias(name) for name, field in zip(own, spine.schema.fields, strict=True)
    ]
    mine = [_of_spine(query, spine, name, pairs.get(name), kinds[name]) for name in names]
    kept = [quoted(column).alias(name) for name, column in zip(own, spine.columns, strict=True)]
    first = keyed.select(sf.lit(False).alias(marker), *map(quoted, names), *theirs)
    return first.unionAll(spine.select(sf.lit(True).alias(marker), *mine, *kept))


WIDE = ((IntegralType, LongType()), ((FloatType, DoubleType), DoubleType()))
"""Types whose values can be compared, and the type that holds all of them."""


def _keyed(query: AsOfQuery, events: Any, kinds: dict[str, Any] | None = None) -> Any:
    """The columns of the events that the query reads; numbers whose type differs in the spine (`kinds`) are widened."""
    columns = []
    for name in dict.fromkeys(validation.named(query.query)):
        own = events.schema[name].dataType
        other = (kinds or {}).get(name, own)
        wide = next((kind for types, kind in WIDE if isinstance(own, types) and isinstance(other, types)), own)
        columns.append(quoted(name) if own == other else quoted(name).cast(wide).alias(name))
    return events.select(*columns)


def _of_spine(query: AsOfQuery, spine: Any, name: str, own: str | None, kind: Any) -> Any:
    """A column of the events for rows of the spine: key or time, else null."""
    if own is None:
        return sf.lit(None).cast(kind).alias(name)
    found = spine.schema[own].dataType
    if found != kind and not any(isinstance(found, types) and isinstance(kind, types) for types, _ in WIDE):
        what = "time" if name == query.query.on[0] else "column"
        raise TypeError(
            f"the spine's {what} {own!r} is of type {found.simpleString()} and the events' {name!r} of type "
            f"{kind.simpleString()}, which do not compare: cast one to the type of the other"
        )
    return quoted(own).cast(kind).alias(name)
