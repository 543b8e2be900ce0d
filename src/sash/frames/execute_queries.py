"""Run several queries on a frame: columns are converted once, and rows are sorted once for equal keys and order.

                  ┌─▶ results at each row: bounds, inputs and results of equal windows and aggregates once ─┐
frame ──▶ order ──┤                                                                                         ├─▶ frames
                  └─▶ all others: one operator in mode "sorted", with one state ────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from sash.columns.column_inputs import ResultColumn
from sash.columns.projected_results import Projector
from sash.columns.row_order import RowOrder, order_rows
from sash.columns.stateless import NeedsOperator, StatelessExecutor, projected
from sash.frames.adapter import Adapter
from sash.frames.execute import (
    FrameTable,
    adapter_of,
    compute,
    encoded,
    frame_results,
    is_lazy,
    ordered,
    require_final,
    result_frame,
    run,
    with_failed,
)
from sash.kernels.column.column_kernels import RowThreads
from sash.plan import validation
from sash.plan.combined_query import CombinedQuery, QueryView
from sash.plan.queries import Queries


def run_queries(queries: Queries, data: Any) -> dict[str, Any]:
    """The queries on a frame: a frame of the same kind for each. Raises as `run` does; a note names the query."""
    for name, query in queries.queries.items():
        with _noting([name]):
            require_final(query)
    found: dict[str, Any] = {}
    if is_lazy(data):  # each result may be collected alone, or not at all
        for name, query in queries.queries.items():
            with _noting([name]):
                found[name] = run(query, data)
        return found
    frame = CachedColumns(adapter_of(data))
    for group in queries.groups(ordered=True):
        with _noting(group.members):
            found |= _group(group, frame)
    return {name: found[name] for name in queries.queries}


@contextmanager
def _noting(names: Iterable[str]) -> Iterator[None]:
    """Add a note with the names of the queries to an error."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the queries {', '.join(names)}")
        raise


class CachedColumns:
    """A frame whose columns are converted to Arrow once."""

    def __init__(self, frame: Adapter) -> None:
        self.frame, self.names, self.rows = frame, frame.names, frame.rows
        self.with_results, self.of_slides = frame.with_results, frame.of_slides
        self._columns: dict[str, Any] = {}

    def column(self, name: str) -> Any:
        """A column in Arrow."""
        if name not in self._columns:
            self._columns[name] = self.frame.column(name)
        return self._columns[name]


def _group(group: CombinedQuery, frame: Adapter) -> dict[str, Any]:
    """The results of queries with the same keys, order and options."""
    if group.emit != "final" or len(group.members) == 1:
        return {name: compute(query, frame) for name, query in group.members.items()}
    rows = SharedRows(group, frame)
    schema = rows.given.table.schema
    stateless = {name for name, view in group.combination(schema).members.items() if view.bound_query.is_stateless}
    found: dict[str, Any] = {}
    if at_rows := {name: query for name, query in group.members.items() if name in stateless}:
        try:
            found |= _at_rows(CombinedQuery(at_rows), rows)
        except NeedsOperator:  # an operator reports the row that a query fails on
            for name, query in at_rows.items():
                with _noting([name]):
                    found[name] = compute(query, frame)
    if others := {name: query for name, query in group.members.items() if name not in stateless}:
        found |= _through_operator(CombinedQuery(others), rows)
    return found


class SharedRows:
    """The rows of a frame, as the queries of a group see them: converted, and ordered by key and time."""

    def __init__(self, group: CombinedQuery, frame: Adapter) -> None:
        taken = [name for query in group.members.values() for name in (*validation.labels(query), *query.aggregates)]
        self.given = FrameTable.of(group, frame, numbered=False, taken=taken)
        self.bound_query = group.bind(self.given.table.schema)
        self.slides = not all(query.per_row for query in group.members.values())

    @cached_property
    def order(self) -> RowOrder:
        """The order of the rows. Raises NeedsOperator for values that only an operator can report."""
        by = encoded(self.given.read, self.bound_query.by)
        threads = RowThreads(self.bound_query.query.options.threads)
        try:
            return order_rows(self.given.table, by, self.bound_query, threads, by_appearance=self.slides)
        except (pa.ArrowException, TypeError, KeyError) as error:
            raise NeedsOperator from error


def _at_rows(group: CombinedQuery, rows: SharedRows) -> dict[str, Any]:
    """Frames of queries with results at each row. Raises NeedsOperator."""
    table = rows.given.table
    combination = group.combination(table.schema)
    cells, _ = StatelessExecutor(combination.bound_query.plan).cells(table, rows.order)
    used: set[tuple[int, int]] = set()
    return {name: _frame(view, rows, _own(view, cells, used)) for name, view in combination.members.items()}


def _own(
    view: QueryView, cells: dict[tuple[int, int], ResultColumn], used: set[tuple[int, int]]
) -> dict[tuple[int, int], ResultColumn]:
    """The cells of one query. Frames may be changed in place, so no two have an array in common."""
    found = view.read(cells)
    for w, a in sorted(found):
        place = view.windows[w], view.aggregates[a]
        numbers = found[w, a].numbers
        if place in used and numbers is not None:
            found[w, a] = replace(found[w, a], numbers=numbers.copy())
        used.add(place)
    return found


def _frame(view: QueryView, rows: SharedRows, cells: dict[tuple[int, int], ResultColumn]) -> Any:
    projector = Projector(view.bound_query)
    columns = projected(projector, cells)
    projector.failures.warn()
    return rows.given.frame.with_results(frame_results(view.bound_query, columns), None)


def _through_operator(group: CombinedQuery, rows: SharedRows) -> dict[str, Any]:
    """Frames of all other queries, from one operator."""
    from sash.engine.operator import Operator

    try:
        order: RowOrder | None = rows.order
    except NeedsOperator:
        order = None
    operator = Operator(group, rows.given.table.schema, mode="sorted")
    sorted_frame = ordered(rows.given.table, operator.state.bound_query, order)
    found: Any = operator.process_all(sorted_frame.table)
    sorted_frame = with_failed(sorted_frame, operator)
    views = group.combination(rows.given.table.schema).members
    return {
        name: result_frame(views[name].bound_query, rows.given, sorted_frame, found[name]) for name in group.members
    }
