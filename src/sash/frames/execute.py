"""Run queries on frames, also as of a spine: columns become Arrow, and results the kind of frame.

frame ──▶ Arrow ─┬─▶ stateless execution, for results at each row ──────┬─▶ in the input's order ──▶ frame
                 └─▶ rows sorted ──▶ operator, mode "sorted", else ─────┘

Sort the rows that have a time for the operator, and return results in the order of the input.

input      b5  a3  a∅  a1  b2           key and time; ∅: no time
order       3   1   4   0               a1 a3 b2 b5: by key, time, tie-breakers, arrival
results    r0  r1  r2  r3
output     r3  r1  null r0  r2          in the order of the input

Run a query as of the rows of a spine, on frames.

spine ──▶ key and time ─┐
                        ├─▶ AsOfExecutor ──▶ results in the order of the spine ──▶ frame of the spine's kind
events ──▶ Arrow ───────┘
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array
from sash.columns.column_inputs import ResultColumn
from sash.columns.failed_rows import warn_failed
from sash.columns.keys import decode, encode_as
from sash.columns.row_order import RowOrder, order_rows
from sash.columns.stateless import NeedsOperator, StatelessExecutor
from sash.frames.adapter import Adapter, FrameResult, Ints
from sash.kernels.column.column_kernels import Places, RowThreads
from sash.plan import validation
from sash.plan.as_of_query import AsOfQuery
from sash.plan.binder import known
from sash.plan.bound_query import BoundQuery
from sash.plan.categories import categories_of, is_ordered, ordered_categories, with_categories
from sash.plan.derived_columns import source_column
from sash.plan.dispatch import package_of
from sash.plan.projection import OutputSpec
from sash.plan.query import Query
from sash.plan.types import selects, value_type

if TYPE_CHECKING:
    from sash.engine.operator import Operator
    from sash.plan.queries import Queries


# --- Frame rows ---


@dataclass(frozen=True)
class SortedFrame:
    """Rows in the order of the operator: those that have a time, by key, time, tie-breakers and arrival."""

    table: pa.RecordBatch
    source: Places | None
    """By row: its place in the input; None if it is the same."""
    timed: NDArray[np.bool_]
    """By row of the input: whether it has a time."""


def encoded(columns: Mapping[str, Any], by: Sequence[str]) -> dict[str, pa.DictionaryArray]:
    """The `by` columns that are dictionary-encoded: their codes are used instead of hashing each row."""
    found = {}
    for name in by:
        column = columns[name]
        if pa.types.is_dictionary(column.type):
            if isinstance(column, pa.ChunkedArray):
                column = column.unify_dictionaries().combine_chunks()
            if isinstance(column, pa.DictionaryArray):
                found[name] = column
    return found


def ordered(table: pa.RecordBatch, bound_query: BoundQuery, rows: RowOrder | None = None) -> SortedFrame:
    """Sort rows, with keys in order of first appearance. Cheap if rows are sorted already, or their order is given."""
    if rows is None:
        threads = RowThreads(bound_query.query.options.threads)
        rows = order_rows(table, {}, bound_query, threads, by_appearance=True)
    timed = np.ones(rows.rows, np.bool_) if rows.timed is None else rows.timed
    source = rows.source
    return SortedFrame(table if source is None else table.take(array(source)), source, timed)


@dataclass(frozen=True)
class ResultPlaces:
    """Where the result of each output row is among the results; a row may have none."""

    take: pa.Array | None
    """By output row: the position of its result, or null. None: results are in order."""
    kept: Ints | None
    """The rows of the input that are in the output; None: all."""

    def put(self, column: pa.Array) -> pa.Array:
        """Results in the order of the output, null for rows without a time."""
        return column if self.take is None else column.take(self.take)


def places(rows: SortedFrame, given: Ints | None) -> ResultPlaces:
    """The positions of the results of all rows, or of the rows `given` by their numbers in the input."""
    if rows.source is None and given is None and rows.timed.all():
        return ResultPlaces(None, None)
    source = given if given is not None else rows.source
    assert source is not None
    found = np.full(len(rows.timed), -1)
    found[source] = np.arange(len(source))
    kept = None
    if given is not None:
        kept = np.flatnonzero((found >= 0) | ~rows.timed)
        found = found[kept]
    missing = found < 0
    return ResultPlaces(pa.array(found, mask=missing if missing.any() else None), kept)


def peer_ranks(table: pa.RecordBatch, bound_query: BoundQuery) -> pa.Array:
    """Numbers in the order of a query's `on` columns, equal for rows that are equal in all; null without a time.

    They are floats, since every kind of frame has these with nulls.
    """
    rows = ordered(table, bound_query)
    count = rows.table.num_rows
    is_new = np.zeros(count, np.bool_)
    for name in bound_query.query.on:
        column = rows.table.column(name)
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
        codes = column.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
        is_new[1:] |= codes[1:] != codes[:-1]
    source = np.arange(count) if rows.source is None else np.asarray(rows.source)
    ranks = np.zeros(len(rows.timed))
    ranks[source] = np.cumsum(is_new)
    return pa.array(ranks, mask=~rows.timed)


# --- Execute ---


def run(query: Query | Queries, data: Any) -> Any:
    """The query on a frame of pandas, polars or Arrow, on a dict of arrays or lists, or on an Arrow stream.

    Several queries give a frame for each. Raises TypeError for data that is not a frame, and all that `Query.bind`
    raises.
    """
    if not isinstance(query, Query):
        from sash.frames.execute_queries import run_queries

        return run_queries(query, data)
    require_final(query)
    if is_lazy(data):
        from sash.frames.polars_adapter import lazy_frame

        return lazy_frame(data, lambda frame: run(query, frame))
    return compute(query, adapter_of(data))


def run_array(query: Query, data: Any, name: str) -> Any:
    """The only result of a query on an array, or on a Series, as one; `name`: the column that the query reads."""
    package = package_of(data)
    if package == "pandas":
        from sash.frames.pandas_adapter import PandasSeriesAdapter

        return compute(query, PandasSeriesAdapter(data, name))
    if package == "polars":
        from sash.frames.polars_adapter import PolarsSeriesAdapter

        return compute(query, PolarsSeriesAdapter(data, name))
    from sash.frames.dict_adapter import ArrayAdapter

    return compute(query, ArrayAdapter(data, name))


def require_final(query: Query) -> None:
    """Raises ValueError for a query whose results are not final."""
    if query.emit == "eager":
        raise ValueError(
            "emit='eager' emits results before they are final, but on a frame all results are final: use 'final'"
        )


def is_lazy(data: Any) -> bool:
    """Is the data a LazyFrame of polars?"""
    return package_of(data) == "polars" and any(cls.__name__ == "LazyFrame" for cls in type(data).__mro__)


def adapter_of(data: Any) -> Adapter:
    """The adapter for a frame. Raises TypeError for data that is not a frame."""
    package = package_of(data)
    if package == "pandas":
        from sash.frames.pandas_adapter import pandas_adapter

        return pandas_adapter(data)
    if package == "polars":
        from sash.frames.polars_adapter import polars_adapter

        return polars_adapter(data)
    if isinstance(data, dict):
        if all(isinstance(column, np.ndarray) for column in data.values()):
            from sash.frames.dict_adapter import NumpyAdapter

            return NumpyAdapter(data)
        from sash.frames.dict_adapter import SequenceAdapter

        return SequenceAdapter(data)
    from sash.frames.arrow_adapter import arrow_adapter

    return arrow_adapter(data)


def compute(query: Query, frame: Adapter) -> Any:
    """The query on a frame."""
    given = FrameTable.of(query, frame, query.emit == "changes")
    if (results := _stateless(given)) is not None:
        return frame.with_results(results, None)
    from sash.engine.operator import Operator  # keyed state and pages: most calls need neither

    operator = Operator(query, given.table.schema, mode="sorted")
    rows = ordered(given.table, operator.state.bound_query)
    found = operator.process_all(rows.table)
    return result_frame(operator.state.bound_query, given, with_failed(rows, operator), found)


def with_failed(rows: SortedFrame, operator: Operator) -> SortedFrame:
    """The rows in the order of an operator's results, which begin with the rows that failed. Warns if some did."""
    now = operator.state.progress
    warn_failed(now.failed, now.failed_results, now.last_failure)
    if not now.failed_rows:
        return rows
    first = np.concatenate([failed.arrival for failed in now.failed_rows])
    order = np.append(first, np.setdiff1d(np.arange(rows.table.num_rows), first))
    return replace(rows, source=order if rows.source is None else rows.source[order])


@dataclass(frozen=True)
class FramePlan:
    """What depends on a query and on the names and types of a frame's columns alone."""

    query: Query
    schema: pa.Schema
    """Of the table of plain values that the query runs on."""
    row: str | None
    """The column with the numbers of the rows, if the table has one."""

    @classmethod
    def of(cls, query: Query, names: Sequence[str], read: Mapping[str, Any], row: str | None) -> FramePlan:
        """Bind the query to the frame. `read`: the columns that it reads. Raises all that `Query.bind` raises."""
        # a column that is not read may have a type that Arrow lacks, but its name is taken
        fields = {name: frame_field(name, column) for name, column in read.items()}
        # a name that occurs twice is an error only if it is read
        known = [name for i, name in enumerate(names) if name in read or name not in names[:i]]
        query.bind(pa.schema([fields.get(name, pa.field(name, pa.null())) for name in known]))
        plain = [field.with_type(value_type(field.type)) for field in fields.values()]
        return cls(query, pa.schema([*plain, *([pa.field(row, pa.int64())] if row is not None else [])]), row)

    @cached_property
    def bound_query(self) -> BoundQuery:
        """The query bound to the table."""
        return self.query.bind(self.schema)


@dataclass(frozen=True)
class FrameTable:
    """The columns of a frame that a query reads: as the frame has them, and as a table of plain values."""

    frame: Adapter
    plan: FramePlan
    read: dict[str, Any]
    table: pa.RecordBatch

    @classmethod
    def of(cls, query: Query, frame: Adapter, numbered: bool, taken: Iterable[str] = ()) -> FrameTable:
        """Convert the columns of a frame. Raises all that `Query.bind` raises.

        numbered: add a column with the numbers of the rows; its name is neither a column's nor one of `taken`.
        """
        read = read_columns(frame, query.named)
        types = [column.type for column in read.values()]

        def made() -> FramePlan:
            row = validation.free_name("row", query, [*frame.names, *taken]) if numbered or not read else None
            return FramePlan.of(query, frame.names, read, row)

        # the order of categories is not in the type
        key = None if any(map(is_ordered, types)) else (FramePlan, numbered, tuple(frame.names), tuple(types))
        plan = made() if key is None else query.prepared.get_or(key, made)
        columns = [_plain(column, kind) for column, kind in zip(read.values(), plan.schema.types, strict=False)]
        if plan.row is not None:
            columns.append(array(np.arange(frame.rows)))
        return cls(frame, plan, read, pa.RecordBatch.from_arrays(columns, schema=plan.schema))


def _plain(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column as one array of plain values, which are of this type."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    return column if isinstance(column, pa.Array) and column.type == kind else decode(column)


def read_columns(frame: Adapter, names: Collection[str]) -> dict[str, Any]:
    """The columns of a frame with these names, in Arrow. Raises TypeError for an extension type."""
    read = {name: frame.column(name) for name in frame.names if name in names}
    for name, column in read.items():
        if isinstance(column.type, pa.BaseExtensionType):
            raise TypeError(f"the column {name!r} is of the extension type {column.type}: cast it to a plain type")
    return read


def result_frame(bound_query: BoundQuery, given: FrameTable, rows: SortedFrame, found: pa.RecordBatch) -> Any:
    """A frame of the results of an operator."""
    if bound_query.per_row:
        return _per_row(bound_query, given.frame, rows, found)
    types = {name: column.type for name, column in given.read.items()}
    return given.frame.of_slides(_slides(bound_query, found, types))


def frame_field(name: str, column: Any) -> pa.Field:
    """The field of a column, with the order of its categories if they have one."""
    field, found = pa.field(name, column.type), ordered_categories(name, column)
    return field if found is None else with_categories(field, found)


def _stateless(given: FrameTable) -> list[FrameResult] | None:
    """Results for each row, if they need no operator; else None."""
    bound_query = given.plan.bound_query
    if not bound_query.is_stateless:
        return None
    executor = StatelessExecutor(bound_query.plan)
    try:
        found = executor.found(given.table, encoded(given.read, bound_query.by)).columns
    except NeedsOperator:
        return None
    executor.projector.failures.warn()
    return frame_results(bound_query, found)


def frame_results(bound_query: BoundQuery, found: Sequence[ResultColumn]) -> list[FrameResult]:
    """Results at each row by name, with their source columns."""
    outputs = bound_query.projection.outputs
    named = zip(outputs, found, strict=True)
    return [FrameResult(one.label, column, source_of(bound_query, one)) for one, column in named]


def _as_result(values: pa.Array) -> ResultColumn:
    return ResultColumn(values.type, made=values)


# ---- per row ----


def _per_row(bound_query: BoundQuery, frame: Adapter, rows: SortedFrame, found: pa.RecordBatch) -> Any:
    width = len(bound_query.schema)
    given = None
    if bound_query.query.emit == "changes":
        given = found.column(width - 1).to_numpy()
    back = places(rows, given)
    sources = [source_of(bound_query, one) for one in bound_query.projection.outputs]
    results = [
        FrameResult(field.name, _as_result(back.put(found.column(width + i))), source)
        for i, (field, source) in enumerate(zip(list(found.schema)[width:], sources, strict=True))
    ]
    return frame.with_results(results, back.kept)


def source_of(bound_query: BoundQuery, output: OutputSpec) -> str | None:
    """The column whose values the results are, as for `max` or `first`; None if they are computed."""
    if output.tree is not None:
        return None
    aggregate = bound_query.aggregates[output.cells[0].aggregate]
    return source_column(aggregate.trees[-1]) if selects(aggregate.monoid) else None


# ---- per slide ----


def _slides(bound_query: BoundQuery, found: pa.RecordBatch, types: dict[str, pa.DataType]) -> list[FrameResult]:
    """Slides, ordered by the first appearance of their keys, then by their ends, then by window."""
    sources = dict(zip(bound_query.by, bound_query.by, strict=True))
    if bound_query.time is not None:
        sources |= dict.fromkeys(validation.SLIDE, bound_query.time.column)
    for one in bound_query.projection.outputs:
        source = source_of(bound_query, one)
        sources |= {one.name: source} if source is not None else {}
    made = []
    for name, column in zip(found.schema.names, found.columns, strict=True):
        values = column
        if name in bound_query.by:
            values = encode_as(column, types[name], categories_of(bound_query.schema.field(name)))
        made.append(FrameResult(name, _as_result(values), sources.get(name)))
    return made


# --- As of frames ---


def as_of(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """The query as of the rows of a spine; a frame of the spine's kind.

    Raises TypeError for data that is not a frame, and all that `Query.bind` raises.
    """
    if is_lazy(events):
        events = events.collect()
    if is_lazy(spine):
        from sash.frames.polars_adapter import lazy_frame

        return lazy_frame(spine, lambda frame: as_of(query, frame, events))
    return _compute(query, adapter_of(spine), adapter_of(events))


def _compute(query: AsOfQuery, spine: Adapter, events: Adapter) -> Any:
    from sash.columns.as_of_columns import AsOfExecutor, SpineColumns, spine_axis

    query.require_free(spine.names)
    of_events = FrameTable.of(query.query, events, numbered=False)
    bound_query = query.query.bind(of_events.table.schema)
    names = pa.schema([(name, pa.null()) for name in dict.fromkeys(spine.names)])
    for what, wanted in (("by", query.spine_by), ("on", (query.spine_on,))):
        for name in wanted:
            known(names, name, f"{what}= (of the spine)")
    own = read_columns(spine, {*query.spine_by, query.spine_on})
    assert bound_query.time is not None
    spine_axis(query.spine_on, own[query.spine_on].type, bound_query.time)
    keys = {name: own[name] for name in query.spine_by}
    given = SpineColumns(keys, (query.spine_on, own[query.spine_on]), spine.rows)
    executor = AsOfExecutor(bound_query.plan)
    table = executor.without_failed(of_events.table)
    codes = encoded(of_events.read, bound_query.by) if table is of_events.table else {}
    found = executor.as_of(table, given, query.closed, codes)
    executor.warn()
    made = [
        FrameResult(output.label, column, source_of(bound_query, output), events)
        for output, column in zip(bound_query.projection.outputs, found, strict=True)
    ]
    return spine.with_results(made, None)
