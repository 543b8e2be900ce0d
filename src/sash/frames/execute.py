"""Run queries on frames: convert the columns that a query reads to Arrow, and the results to the kind of frame.

frame ──▶ Arrow ─┬─▶ stateless execution, for results at each row ──────┬─▶ in the input's order ──▶ frame
                 └─▶ rows sorted ──▶ operator, mode "sorted", else ─────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.column_inputs import ResultColumn
from sash.engine.failed_results import warn_failed
from sash.engine.key_values import decode, encode_as
from sash.engine.stateless import NeedsOperator, StatelessExecutor
from sash.frames.adapter import Adapter, FrameResult
from sash.frames.frame_rows import SortedFrame, encoded, ordered, places
from sash.plan import validation
from sash.plan.bound_query import BoundQuery
from sash.plan.category_order import categories_of, ordered_categories, with_categories
from sash.plan.derived_columns import source_column
from sash.plan.dispatch import package_of
from sash.plan.planner import is_stateless
from sash.plan.projection import OutputSpec
from sash.plan.query import Query
from sash.plan.types import selects

if TYPE_CHECKING:
    from sash.engine.operator import Operator


def run(query: Query, data: Any) -> Any:
    """The query on a frame of pandas, polars or Arrow, on a dict of arrays or lists, or on an Arrow stream.

    Raises TypeError for data that is not a frame, and all that `Query.bind` raises.
    """
    require_final(query)
    if is_lazy(data):
        from sash.frames.polars_adapter import lazy_frame

        return lazy_frame(data, lambda frame: run(query, frame))
    return compute(query, adapter_of(data))


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
            from sash.frames.numpy_adapter import NumpyAdapter

            return NumpyAdapter(data)
        from sash.frames.sequence_adapter import SequenceAdapter

        return SequenceAdapter(data)
    from sash.frames.arrow_adapter import arrow_adapter

    return arrow_adapter(data)


def compute(query: Query, frame: Adapter) -> Any:
    """The query on a frame."""
    given = FrameTable.of(query, frame, query.emit == "changes")
    table = given.table
    if query.per_row and (results := _stateless(query, table, given.read)) is not None:
        return frame.with_results(results, None)
    from sash.engine.operator import Operator  # keyed state and pages: most calls need neither

    operator = Operator(query, table.schema, mode="sorted")
    rows = ordered(table, operator.bound_query)
    found = operator.process_all(rows.table)
    return result_frame(operator.bound_query, given, with_failed(rows, operator), found)


def with_failed(rows: SortedFrame, operator: Operator) -> SortedFrame:
    """The rows in the order of an operator's results, which begin with the rows that failed. Warns if some did."""
    now = operator.progress
    warn_failed(now.failed, now.failed_results, now.last_failure)
    if not now.failed_rows:
        return rows
    first = np.concatenate([failed.arrival for failed in now.failed_rows])
    order = np.append(first, np.setdiff1d(np.arange(rows.table.num_rows), first))
    return replace(rows, source=order if rows.source is None else rows.source[order])


@dataclass(frozen=True)
class FrameTable:
    """The columns of a frame that a query reads: as the frame has them, and as a table of plain values."""

    frame: Adapter
    read: dict[str, Any]
    table: pa.RecordBatch

    @classmethod
    def of(cls, query: Query, frame: Adapter, numbered: bool, taken: Iterable[str] = ()) -> FrameTable:
        """Convert the columns of a frame. Raises all that `Query.bind` raises.

        numbered: add a column with the numbers of the rows; its name is neither a column's nor one of `taken`.
        """
        read = read_columns(frame, set(validation.named(query)))
        # a column that is not read may have a type that Arrow lacks, but its name is taken
        fields = {name: frame_field(name, column) for name, column in read.items()}
        # a name that occurs twice is an error only if it is read
        names = [name for i, name in enumerate(frame.names) if name in read or name not in frame.names[:i]]
        query.bind(pa.schema([fields.get(name, pa.field(name, pa.null())) for name in names]))
        columns = {name: decode(column) for name, column in read.items()}
        if numbered or not columns:
            columns[validation.free_name("row", query, [*frame.names, *taken])] = array(np.arange(frame.rows))
        plain = [
            fields.get(name, pa.field(name, column.type)).with_type(column.type) for name, column in columns.items()
        ]
        return cls(frame, read, pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(plain)))


def read_columns(frame: Adapter, names: set[str]) -> dict[str, Any]:
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


def _stateless(query: Query, table: pa.RecordBatch, read: dict[str, Any]) -> list[FrameResult] | None:
    """Results for each row, if they need no operator; else None."""
    bound_query = query.bind(table.schema)
    if not is_stateless(bound_query):
        return None
    executor = StatelessExecutor(bound_query.plan)
    try:
        found = executor.found(table, encoded(read, bound_query.by)).columns
    except NeedsOperator:
        return None
    executor.projector.failures.warn()
    return frame_results(bound_query, found)


def frame_results(bound_query: BoundQuery, found: Sequence[ResultColumn]) -> list[FrameResult]:
    """Results at each row by name, with their source columns."""
    names = list(bound_query.output("sorted").names)[len(bound_query.schema) :]
    sources = [source_of(bound_query, one) for one in bound_query.projection.outputs]
    return [FrameResult(name, column, source) for name, column, source in zip(names, found, sources, strict=True)]


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
