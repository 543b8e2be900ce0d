"""Run queries on frames, also as of a spine: columns become Arrow, and results the kind of frame.

                   ┌─▶ whole columns (`sash.columns`): members with results at each row ─┐
frame ──▶ Arrow ───┤                                                                     ├─▶ a frame for each member
                   └─▶ rows sorted ──▶ operator, mode "sorted": all others ──────────────┘

A query is its own only member. Queries that share a state run as one: columns are converted once, rows sorted once for
equal keys and order, and equal windows and aggregates are computed once.

The operator takes the rows that have a time, sorted; results return in the order of the input.

input      b5  a3  a∅  a1  b2           key and time; ∅: no time
order       3   1   4   0               a1 a3 b2 b5: by key, time, tie-breakers, arrival
results    r0  r1  r2  r3
output     r3  r1  null r0  r2          in the order of the input

As of a spine:

spine ──▶ key and time ─┐
                        ├─▶ AsOfExecutor ──▶ results in the order of the spine ──▶ frame of the spine's kind
events ──▶ Arrow ───────┘
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

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
from sash.frames.adapter import Adapter, FrameResult, arrow_adapter
from sash.kernels.column.column_kernels import Places, RowThreads
from sash.plan import validation
from sash.plan.as_of_query import AsOfQuery
from sash.plan.binder import known
from sash.plan.bound_query import BoundQuery
from sash.plan.categories import categories_of, is_ordered, ordered_categories, with_categories
from sash.plan.derived_columns import source_column
from sash.plan.dispatch import package_of
from sash.plan.projection import OutputSpec
from sash.plan.queries import ALONE, Combination, CombinedQuery, combination, members_of
from sash.plan.query import Query
from sash.plan.types import selects, value_type

if TYPE_CHECKING:
    from sash.engine.operator import Operator
    from sash.plan.queries import Queries


# --- Run ---


def run(query: Query | Queries, data: Any) -> Any:
    """The query on a frame of pandas, polars or Arrow, on a dict of arrays or lists, or on an Arrow stream.

    Several queries give a frame for each, by name. Raises TypeError for data that is not a frame, and all that
    `Query.bind` raises; of several queries a note names the query.
    """
    if isinstance(query, Query):
        _require_final(query)
        if is_lazy(data):
            from sash.frames.polars_adapter import lazy_frame

            return lazy_frame(data, lambda frame: run(query, frame))
        return compute(query, adapter_of(data))
    for name, one in query.queries.items():
        with _noting([name]):
            _require_final(one)
    found: dict[str, Any] = {}
    if is_lazy(data):  # each result may be collected alone, or not at all
        for name, one in query.queries.items():
            with _noting([name]):
                found[name] = run(one, data)
        return found
    frame, converted = adapter_of(data), dict[str, Any]()
    for group in query.groups(ordered=True):
        with _noting(group.members):
            if group.emit == "final":
                found |= compute_members(group, frame, converted)
            else:  # equal queries, whose frames may be changed in place
                found |= {name: compute_members(one, frame, converted)[ALONE] for name, one in group.members.items()}
    return {name: found[name] for name in query.queries}


@contextmanager
def _noting(names: Iterable[str]) -> Iterator[None]:
    """Add a note with the names of the queries to an error."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the queries {', '.join(names)}")
        raise


def run_array(query: Query, data: Any, name: str, result: str) -> Any:
    """The only result of a query on an array, or on a Series, as one; `name`: the column that the query reads."""
    package = package_of(data)
    if package == "pandas":
        from sash.frames.pandas_adapter import PandasSeriesAdapter

        return compute(query, PandasSeriesAdapter(data, name))
    if package == "polars":
        from sash.frames.polars_adapter import PolarsSeriesAdapter

        return compute(query, PolarsSeriesAdapter(data, name))
    if data.ndim != 1:
        raise ValueError(f"an array must have one dimension, and this one has {data.ndim}: write a dict of arrays")
    return compute(query, adapter_of({name: data}))[result]


def _require_final(query: Query) -> None:
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
    return arrow_adapter(data)


def compute(query: Query, frame: Adapter) -> Any:
    """The query on a frame."""
    return compute_members(query, frame)[ALONE]


def compute_members(query: Query, frame: Adapter, converted: dict[str, Any] | None = None) -> dict[str, Any]:
    """A frame with the results of each member of a query, by name. `converted`: columns that are in Arrow already."""
    given = FrameTable.of(query, frame, converted)
    plan, found = given.plan, dict[str, Any]()
    if plan.by_columns is not None:
        try:
            found = _by_columns(plan.by_columns, given)
        except NeedsOperator:
            if len(plan.by_columns.members) == 1:
                found = _by_operator(plan.by_columns, given)
            else:  # an operator reports the row that a query fails on
                for name, view in plan.by_columns.members.items():
                    with _noting([name]):
                        found[name] = compute(view.bound_query.query, frame)
    return found if plan.by_operator is None else found | _by_operator(plan.by_operator, given)


# --- Columns of frames ---


class FramePlan:
    """What depends on a query and on the names and types of a frame's columns alone. Raises as `Query.bind` does.

    schema: of the table of plain values that the query runs on.
    row: the column with the numbers of the rows, if the table has one.
    by_columns, by_operator: the members that need no operator, combined, and the others; None if there are none.
    """

    def __init__(self, query: Query, names: Sequence[str], read: Mapping[str, Any]) -> None:
        members, self.row = members_of(query), None
        if query.emit == "changes" or not read:
            taken = [name for one in members.values() for name in (*validation.labels(one), *one.aggregates)]
            self.row = validation.free_name("row", query, [*names, *taken])
        # a column that is not read may have a type that Arrow lacks, but its name is taken
        fields = {name: frame_field(name, column) for name, column in read.items()}
        # a name that occurs twice is an error only if it is read
        known = [name for i, name in enumerate(names) if name in read or name not in names[:i]]
        query.bind(pa.schema([fields.get(name, pa.field(name, pa.null())) for name in known]))
        plain = [field.with_type(value_type(field.type)) for field in fields.values()]
        self.schema = pa.schema([*plain, *([pa.field(self.row, pa.int64())] if self.row is not None else [])])
        self.bound_query, views = combination(query, self.schema)

        def those(stateless: bool) -> Combination | None:
            chosen = {name: members[name] for name, view in views.items() if view.bound_query.is_stateless == stateless}
            one = query if len(chosen) == len(views) else CombinedQuery(chosen) if chosen else None
            return None if one is None else combination(one, self.schema)

        self.by_columns, self.by_operator = those(True), those(False)
        self.sources = {name: sources_of(view.bound_query) for name, view in views.items()}


class FrameTable:
    """The columns of a frame that a query reads: as the frame has them, and as a table of plain values."""

    def __init__(self, frame: Adapter, plan: FramePlan, read: dict[str, Any], table: pa.RecordBatch) -> None:
        self.frame, self.plan, self.read, self.table = frame, plan, read, table

    @classmethod
    def of(cls, query: Query, frame: Adapter, converted: dict[str, Any] | None = None) -> FrameTable:
        """Convert the columns of a frame; those `converted` are not converted again. Raises as `Query.bind` does."""
        read = read_columns(frame, query.named, converted)
        types = [column.type for column in read.values()]
        # the order of categories is not in the type
        key = None if any(map(is_ordered, types)) else (FramePlan, tuple(frame.names), tuple(types))
        plan = query.prepared.get_or(key, lambda: FramePlan(query, frame.names, read)) if key else None
        plan = FramePlan(query, frame.names, read) if plan is None else plan
        columns = [_plain(column, kind) for column, kind in zip(read.values(), plan.schema.types, strict=False)]
        if plan.row is not None:
            columns.append(array(np.arange(frame.rows)))
        return cls(frame, plan, read, pa.RecordBatch.from_arrays(columns, schema=plan.schema))

    @cached_property
    def order(self) -> RowOrder:
        """The order of the rows, by which all members are computed; keys of slides are in order of first appearance."""
        bound_query = self.plan.bound_query
        threads = RowThreads(bound_query.query.options.threads)
        by = _encoded(self.read, bound_query.by)
        return order_rows(self.table, by, bound_query, threads, by_appearance=not bound_query.per_row)


def _plain(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column as one array of plain values, which are of this type."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    return column if isinstance(column, pa.Array) and column.type == kind else decode(column)


def read_columns(frame: Adapter, names: Collection[str], known: dict[str, Any] | None = None) -> dict[str, Any]:
    """The columns of a frame with these names, in Arrow; those `known` are not converted again, and others are added.

    Raises TypeError for an extension type.
    """
    known = {} if known is None else known
    read = [name for name in frame.names if name in names]
    for name in read:
        if name not in known:
            column = frame.column(name)
            if isinstance(column.type, pa.BaseExtensionType):
                raise TypeError(f"the column {name!r} is of the extension type {column.type}: cast it to a plain type")
            known[name] = column
    return {name: known[name] for name in read}


def frame_field(name: str, column: Any) -> pa.Field:
    """The field of a column, with the order of its categories if they have one."""
    field, found = pa.field(name, column.type), ordered_categories(name, column)
    return field if found is None else with_categories(field, found)


def _encoded(columns: Mapping[str, Any], by: Sequence[str]) -> dict[str, pa.DictionaryArray]:
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


# --- Whole columns ---


def _by_columns(combined: Combination, given: FrameTable) -> dict[str, Any]:
    """Frames of members with results at each row, without state. Raises NeedsOperator."""
    executor = StatelessExecutor(combined)
    found = executor.found(given.table, given.order).columns
    frames, taken = dict[str, Any](), set[int]()
    for name, view, projector in executor.members:
        projector.failures.warn()
        columns = found[name] if len(found) == 1 else [_own(column, taken) for column in found[name]]
        outputs = zip(view.bound_query.projection.outputs, columns, given.plan.sources[name], strict=True)
        results = [FrameResult(one.label, column, source) for one, column, source in outputs]
        frames[name] = given.frame.with_results(results, None)
    return frames


def _own(column: ResultColumn, taken: set[int]) -> ResultColumn:
    """A column with an array of its own: frames may be changed in place, so no two have one in common."""
    if column.numbers is None:
        return column
    if id(column.numbers) in taken:
        return replace(column, numbers=column.numbers.copy())
    taken.add(id(column.numbers))
    return column


def sources_of(bound_query: BoundQuery) -> list[str | None]:
    """By result: the column whose values it has, as for `max` or `first`; None if they are computed."""

    def of(output: OutputSpec) -> str | None:
        if output.tree is not None:
            return None
        aggregate = bound_query.aggregates[output.cells[0].aggregate]
        return source_column(aggregate.trees[-1]) if selects(aggregate.monoid) else None

    return [of(output) for output in bound_query.projection.outputs]


# --- Operator ---


class SortedFrame(NamedTuple):
    """Rows in the order of the operator: those that have a time, by key, time, tie-breakers and arrival."""

    table: pa.RecordBatch
    source: Places | None
    """By row: its place in the input; None if it is the same."""
    timed: NDArray[np.bool_]
    """By row of the input: whether it has a time."""


def _sorted(table: pa.RecordBatch, order: RowOrder) -> SortedFrame:
    timed = np.ones(order.rows, np.bool_) if order.timed is None else order.timed
    source = order.source
    return SortedFrame(table if source is None else table.take(array(source)), source, timed)


def _by_operator(combined: Combination, given: FrameTable) -> dict[str, Any]:
    """Frames of members that have state, from one operator."""
    from sash.engine.operator import Operator  # keyed state and pages: most calls need neither

    query = combined.bound_query.query
    operator = Operator(query, given.table.schema, mode="sorted")
    rows = _sorted(given.table, given.order)
    found: Any = operator.process_all(rows.table)
    rows = _with_failed(rows, operator)
    batches = found if isinstance(query, CombinedQuery) else {ALONE: found}
    results = {True: _per_row, False: _per_slide}
    return {
        name: results[view.bound_query.per_row](view.bound_query, given, name, rows, batches[name])
        for name, view in combined.members.items()
    }


def _with_failed(rows: SortedFrame, operator: Operator) -> SortedFrame:
    """The rows in the order of an operator's results, which begin with the rows that failed. Warns if some did."""
    now = operator.state.progress
    warn_failed(now.failed, now.failed_results, now.last_failure)
    if not now.failed_rows:
        return rows
    first = np.concatenate([failed.arrival for failed in now.failed_rows])
    order = np.append(first, np.setdiff1d(np.arange(rows.table.num_rows), first))
    return rows._replace(source=order if rows.source is None else rows.source[order])


def _per_row(bound_query: BoundQuery, given: FrameTable, name: str, rows: SortedFrame, found: pa.RecordBatch) -> Any:
    """The frame with results at its rows: null for rows without a time; only the rows of the results, if they tell."""
    width = len(bound_query.schema)
    source, take, kept = rows.source, None, None
    if bound_query.query.emit == "changes":
        source = found.column(width - 1).to_numpy()
    if source is not None or not rows.timed.all():
        assert source is not None
        places = np.full(len(rows.timed), -1)
        places[source] = np.arange(len(source))
        if bound_query.query.emit == "changes":
            kept = np.flatnonzero((places >= 0) | ~rows.timed)
            places = places[kept]
        missing = places < 0
        take = pa.array(places, mask=missing if missing.any() else None)
    made = [column if take is None else column.take(take) for column in found.columns[width:]]
    columns = zip(found.schema.names[width:], made, given.plan.sources[name], strict=True)
    results = [FrameResult(label, _as_result(column), of) for label, column, of in columns]
    return given.frame.with_results(results, kept)


def _per_slide(bound_query: BoundQuery, given: FrameTable, name: str, _rows: SortedFrame, found: pa.RecordBatch) -> Any:
    """A frame of slides, ordered by the first appearance of their keys, then by their ends, then by window."""
    sources: dict[str, str | None] = dict(zip(bound_query.by, bound_query.by, strict=True))
    if bound_query.time is not None:
        sources |= dict.fromkeys(validation.SLIDE, bound_query.time.column)
    outputs = zip(bound_query.projection.outputs, given.plan.sources[name], strict=True)
    sources |= {one.name: source for one, source in outputs if source is not None}
    made = []
    for label, column in zip(found.schema.names, found.columns, strict=True):
        values = column
        if label in bound_query.by:
            values = encode_as(column, given.read[label].type, categories_of(bound_query.schema.field(label)))
        made.append(FrameResult(label, _as_result(values), sources.get(label)))
    return given.frame.of_slides(made)


def _as_result(values: pa.Array) -> ResultColumn:
    return ResultColumn(values.type, made=values)


def peer_ranks(table: pa.RecordBatch, bound_query: BoundQuery) -> pa.Array:
    """Numbers in the order of a query's `on` columns, equal for rows that are equal in all; null without a time.

    They are floats, since every kind of frame has these with nulls.
    """
    rows = _sorted(table, order_rows(table, {}, bound_query, RowThreads(bound_query.query.options.threads)))
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
    of_events = FrameTable.of(query.query, events)
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
    executor = AsOfExecutor(bound_query)
    table = executor.without_failed(of_events.table)
    codes = _encoded(of_events.read, bound_query.by) if table is of_events.table else {}
    found = executor.as_of(table, given, query.closed, codes)
    executor.warn()
    outputs = zip(bound_query.projection.outputs, found, of_events.plan.sources[ALONE], strict=True)
    made = [FrameResult(output.label, column, source, events) for output, column, source in outputs]
    return spine.with_results(made, None)
