"""PartitionTask: runs an executor on the rows of one partition in a Spark worker.

    sorted rows ──▶ rechunk to 64K rows ──▶ an executor ──▶ batches of Spark's types
    blobs of time ranges, sorted ──▶ rows of a piece, sorted ──▶ an executor for each range ──▶ its own results

    QueryExecutor   one query, or several of equal keys and order
    PartialFold     the partials of a time range, for the ranges after it
    AsOfPieces      a query as of the rows of a spine: `as_of_task`

cloudpickle sends the task to the workers together with the queries; monoids that are defined in a notebook are sent by
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import no_rows, together
from sash.columns.failed_rows import warn_failed
from sash.engine import Operator, QueriesOperator
from sash.engine.query_state import QueryState
from sash.engine.sorted_batches import ChunkedExecutor, is_chunkable
from sash.plan.bound_query import BoundQuery
from sash.plan.queries import ALONE, CombinedQuery, Queries, tagged_batch, tagged_schema
from sash.plan.query import Query
from sash.spark.batch.pack_ranges import PACKED, in_order, trimmed_lookback, unpack_ranges
from sash.spark.batch.time_ranges import TimeRange, emitted
from sash.spark.spark_types import casts, wire_schema
from sash.spark.worker_io import WorkerTask, blob_batch, blob_of, rechunk

# --- Task ---

ROWS = 65536
"""Rows in a call of the operator, to amortise its fixed cost: with Spark's 10,000 a row takes two to three times as
long."""

WINDOWS = 1024
"""An upper bound of the number of Lifetime windows of a query."""


class PartitionTask(WorkerTask):
    """Runs an executor on the batches of a partition; if they are split, one for each time range.

    `executor` makes it, from the number of its range. It takes rows by `process` and ends with `finish`, and both give
    batches of results. A range first gets its lookback: rows by `look_back`, or partials by `take_partials`.

    `split`: the number of ranges of large keys, if rows are split; higher numbers are groups of other keys.
    """

    def __init__(
        self, executor: Callable[..., Any], bound_query: BoundQuery, now: float, rows: int, split: int | None
    ) -> None:
        self.executor, self.query, self.schema = executor, bound_query.query, bound_query.schema
        self.now, self.rows, self.split = now, rows, split

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.split is not None:
            yield from self._ranges(batches, self.split)
            return
        executor = None
        for rows in rechunk(batches, self.schema, self.rows):
            if executor is None:  # many partitions may be empty, and creating an operator takes time
                executor = self.executor()
            yield from executor.process(rows)
        if executor is not None:
            yield from executor.finish()

    def _ranges(self, batches: Iterable[pa.RecordBatch], split: int) -> Iterator[pa.RecordBatch]:
        of_groups = self.query.bind(self.schema)
        of_one_key = replace(of_groups, by=())
        for number, pieces in groupby(unpack_ranges(batches), lambda one: one.range):
            executor = self.executor(number)
            for one in pieces:
                if one.piece < 0:
                    executor.take_partials(one.piece % WINDOWS, one.rows)
                    continue
                rows = in_order(one.rows, of_groups if number >= split else of_one_key, lambda: self.now)
                if not one.own:
                    executor.look_back(rows)
                    continue
                for start in range(0, rows.num_rows, self.rows):
                    yield from executor.process(rows.slice(start, self.rows))
            yield from executor.finish()


# --- Queries ---

SECTION = "_section"
"""The column with the number of a row's section."""

T = TypeVar("T")


@dataclass(frozen=True)
class PassLayout:
    """The queries of a pass over sorted rows, and the columns of its results.

    Those of a query alone are plain. Several leave as rows of sections: a section is a struct column, null in the rows
    of other sections. The queries that are computed together share one, with the input columns once; each other query
    has its own.
    """

    queries: dict[str, Query]
    schema: pa.Schema
    """The columns of the rows."""

    @property
    def is_alone(self) -> bool:
        """Is it one query that is not one of several?"""
        return ALONE in self.queries

    @cached_property
    def together(self) -> dict[str, Query]:
        """The queries that are computed piece by piece, without state. They have equal options."""
        found = {name: query for name, query in self.queries.items() if is_chunkable(query.bind(self.schema))}
        of = [(query.options, query.ahead) for query in found.values()][:1]
        return {name: query for name, query in found.items() if [(query.options, query.ahead)] == of}

    @cached_property
    def sections(self) -> list[list[str]]:
        """The names of the queries in each section."""
        others = [[name] for name in self.queries if name not in self.together]
        return [[*self.together], *others] if self.together else others

    def joined(self, names: Sequence[str], of: Mapping[str, Sequence[T]]) -> list[T]:
        """The columns of a section, from those of the results of each query: the input columns once."""
        more = [one for name in names[1:] for one in of[name][len(self.schema) :]]
        return [*of[names[0]], *more]

    @cached_property
    def fields(self) -> list[pa.Schema]:
        """By section: its columns, in types that Spark reads."""
        found = {name: list(query.bind(self.schema).output("sorted")) for name, query in self.queries.items()}
        return [wire_schema(self.joined(names, found)) for names in self.sections]

    @cached_property
    def output(self) -> pa.Schema:
        """The columns of a row: the number of its section, and a struct for each section.

        Its fields are named by number, because queries may have results of the same name.
        """
        structs = {
            f"s{number}": [pa.field(f"f{i}", field.type) for i, field in enumerate(fields)]
            for number, fields in enumerate(self.fields)
        }
        return tagged_schema(pa.field(SECTION, pa.int32()), structs)


class QueryExecutor:
    """Runs the queries of a pass on sorted rows: those that need no state together, all others by operators.

    A time range emits its own results, and none of its lookback; it has one query.
    """

    def __init__(self, layout: PassLayout, now: float, ranges: Sequence[TimeRange] = (), number: int = 0) -> None:
        self.layout, schema = layout, layout.schema
        together, others = layout.together, {n: q for n, q in layout.queries.items() if n not in layout.together}
        self.chunks: ChunkedExecutor | None = None
        if together:  # one thread: Spark runs as many workers as there are cores
            query = together[ALONE] if layout.is_alone else CombinedQuery(together)
            self.chunks = ChunkedExecutor(query, schema, lambda: now, threads=1)
        self.operator: Operator | QueriesOperator | None = None
        if others:
            run = others[ALONE] if ALONE in others else Queries(**others)
            self.operator = run.operator(schema, mode="sorted", clock=lambda: now)
        self.range = ranges[number] if number < len(ranges) else None
        self.lookback, self.dropped = no_rows(schema), 0
        self.carried: list[tuple[int, pa.RecordBatch]] = []

    def look_back(self, rows: pa.RecordBatch) -> None:
        """Take rows before those of the range, of which windows hold the last."""
        begin = None if self.range is None else self.range.begin
        assert begin is not None, "the first range has no lookback"
        bound_query = self.layout.queries[ALONE].bind(self.layout.schema)
        self.lookback = trimmed_lookback(together([self.lookback, rows], rows.schema), bound_query, begin)
        self.dropped = self.lookback.num_rows if bound_query.per_row else 0

    def take_partials(self, window: int, partials: pa.RecordBatch) -> None:
        """Take the partials of an earlier range, by the number of the Lifetime window: keys and states."""
        self.carried.append((window, partials))

    def process(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The results that are known after these rows."""
        if self.carried:
            assert isinstance(self.operator, Operator)
            self._seed(self.operator.state)
        if self.lookback.num_rows:
            rows, self.lookback = together([self.lookback, rows], rows.schema), no_rows(rows.schema)
        yield from self._call(lambda executor: executor.process(rows))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The remaining results. Warns, in the log of the worker, of rows and results that have failed."""
        if self.carried or self.lookback.num_rows:  # windows may end in a range that has no rows
            yield from self.process(no_rows(self.layout.schema))
        yield from self._call(lambda executor: executor.finish())
        for state in [] if self.operator is None else self.operator.states:
            now = state.progress
            warn_failed(now.failed, now.failed_results, now.last_failure)

    def _call(self, work: Callable[[Any], Any]) -> Iterator[pa.RecordBatch]:
        if self.chunks is not None:
            yield from self._rows(work(self.chunks))
        if self.operator is not None:
            found = work(self.operator)
            yield from self._rows({ALONE: found} if self.layout.is_alone else found)
            self.operator.failed_rows()  # drop them: their results are null

    def _rows(self, found: Mapping[str, pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Results as rows in types that Spark reads."""
        layout = self.layout
        if self.range is not None:
            found = {ALONE: self._own(found[ALONE], self.range)}
        for number, names in enumerate(layout.sections):
            if names[0] not in found or not found[names[0]].num_rows:
                continue
            columns = layout.joined(names, {name: found[name].columns for name in names})
            fields = layout.fields[number]
            rows = casts(pa.RecordBatch.from_arrays(columns, names=fields.names), fields)
            yield rows if layout.is_alone else tagged_batch(layout.output, number, f"s{number}", rows)

    def _own(self, results: pa.RecordBatch, own: TimeRange) -> pa.RecordBatch:
        """The results of a time range without those of its lookback."""
        bound_query = self.layout.queries[ALONE].bind(self.layout.schema)
        if bound_query.per_row:
            found = results.slice(self.dropped)
            self.dropped -= results.num_rows - found.num_rows
            return found
        assert bound_query.time is not None
        ends = bound_query.time.numbers(results.column("window_end"))[0]
        names = results.column("window").to_numpy(zero_copy_only=False) if "window" in results.schema.names else None
        chosen = np.ones(len(ends), np.bool_)
        for spec in bound_query.windows:
            at = np.flatnonzero(names == spec.name) if names is not None else np.arange(len(ends))
            chosen[at] = emitted(own, spec, ends[at])
        return results if chosen.all() else results.filter(pa.array(chosen))

    def _seed(self, state: QueryState) -> None:
        """Start a state that has seen no rows with the partials."""
        keys = self.carried[0][1].columns[: len(state.bound_query.by)]
        partials: list[list[pa.RecordBatch]] = []
        lifetimes = 0
        for group in state.plan.groups:
            mine: list[pa.RecordBatch] = []
            if state.bound_query.windows[group.windows[0]].rule.is_unbounded:
                mine = [partial for window, partial in self.carried if window == lifetimes]
                lifetimes += 1
            partials.append(mine)
        state.import_partials([column.slice(0, 1) for column in keys], partials)
        self.carried = []


# --- Partials ---


class PartialFold:
    """Aggregates the rows of a range, and sends its partials to every later range of the key.

    How a time range of a Lifetime window receives its lookback: as partials of the ranges before it.

        range 0   · · · · │                      ──▶ partial p₀ ──┬──────────┐
        range 1           │ · · · · │            ──▶ partial p₁ ──┼──────────┤
        range 2                     │ · · ·      starts with      p₀, p₁     ▼

    All ranges are aggregated in parallel, then all are computed in parallel: rows are read twice, and no range waits
    for another. All other windows get rows as lookback. Partials for hopping Time windows were measured as well: eight
    ranges of 4 million rows, with windows of half the rows, took twice the CPU time of one partition, and were slower
    on two cores.

    `lasts`: by range, the last range of its key.
    """

    def __init__(self, query: Query, schema: pa.Schema, now: float, lasts: list[int], number: int) -> None:
        windows: dict[str, Any] = {
            spec.name: spec.window for spec in query.bind(schema).windows if spec.rule.is_unbounded
        }
        aggregates: dict[str, Any] = query.aggregates
        options: dict[str, Any] = {"ahead": query.ahead, "min_periods": query.min_periods}
        folded = Query(windows.get("", windows), by=query.by, on=query.on, **options, **aggregates)
        self.operator = Operator(folded, schema, mode="sorted", clock=lambda: now)
        self.lasts, self.number = lasts, number

    def process(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Aggregate rows."""
        self.operator.absorb(rows)
        return ()

    def finish(self) -> Iterable[pa.RecordBatch]:
        """The partials, one for each window and later range.

        Their piece numbers are below those of all rows, so they are sorted first.
        """
        found = []
        for window, partials in enumerate(self.operator.state.export_partials()):
            assert window < WINDOWS
            if partials.num_rows:
                piece = (self.number - len(self.lasts)) * WINDOWS + window
                blob = blob_of(partials)
                later = range(self.number + 1, self.lasts[self.number] + 1)
                found += [(number, piece, False, blob) for number in later]
        return [blob_batch(found, PACKED)]
