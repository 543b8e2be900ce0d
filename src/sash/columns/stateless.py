"""Stateless execution: queries with a result for each row, on a table in memory.

    columns ──▶ rows grouped by key ──▶ bounds, one pair for each window ──▶ kernels ──▶ results, in the rows' order

Results are those of the engine: bounds have the same definitions, and each aggregate runs its column kernel, or else a
structure over the same bounds. For invalid rows it raises `NeedsOperator`: the operator then reports them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sash import monoids as m
from sash.columns.batch_columns import BatchColumns
from sash.columns.column_inputs import Inputs, ResultColumn, newest_values
from sash.columns.direct_columns import RangeOverflow, ewm_column, ewm_of, lag_column, lag_of, weighted_mean_column
from sash.columns.failed_rows import REMEDY
from sash.columns.keys import decode
from sash.columns.many_sizes import FEWEST, together
from sash.columns.projected_results import Projector
from sash.columns.row_order import RowOrder, counts_before, order_rows
from sash.columns.time_numbers import earliest
from sash.kernels.column import bounds
from sash.kernels.column.column_kernels import (
    ColumnKernel,
    CountBounds,
    RangeBounds,
    RowThreads,
)
from sash.kernels.loops.array_types import Flags, Numbers
from sash.plan.bound_query import AggregateSpec, WindowSpec
from sash.plan.planner import FOLD, SEVERAL_SIZES, has_column_kernel, tree_of
from sash.plan.queries import Combination
from sash.windows.rules import is_gap

if TYPE_CHECKING:
    from sash.kernels.column.rank_kernels import DistinctKernel, RankKernel
    from sash.kernels.loops.bound_kernel import AggregateError

PLACED = (m.First, m.Last, m.Nth)
"""Aggregates whose result is the value at a position of the window."""


ResultCells = dict[tuple[int, int], ResultColumn]
"""The results of aggregates over windows, by their numbers."""


class NeedsOperator(Exception):
    """Raised for rows that only an operator can process or report."""


class ColumnResults(NamedTuple):
    """The results of a table."""

    columns: dict[str, list[ResultColumn]]
    """By member of the query: a column for each of its results, in the order of the rows."""
    rows: RowOrder
    bounds: list[CountBounds | RangeBounds]
    looks_ahead: bool
    """Does a window hold rows after its own row?"""

    @property
    def settled(self) -> int:
        """For sorted rows: the first row that may still get peers, or whose window may get more rows."""
        return self.rows.row(self._unsettled)

    @property
    def reach(self) -> int:
        """The first row in the windows of `settled` and of later rows."""
        at = self._unsettled
        if at == len(self.rows):
            return self.rows.row(at)
        begin = int(self.rows.edges[self.rows.edges <= at].max())
        starts = [max(begin, at + 1 - b.size) if isinstance(b, CountBounds) else int(b.los[at]) for b in self.bounds]
        return self.rows.row(min(at, *starts))

    @property
    def _unsettled(self) -> int:
        at, count = self._last_peers, len(self.rows)
        if not self.looks_ahead or not count:
            return at
        begin = int(self.rows.edges[self.rows.edges < count].max())
        ends = [b.his[begin:] for b in self.bounds if isinstance(b, RangeBounds)]
        return min(at, *(begin + int(np.searchsorted(his, count)) for his in ends))

    @property
    def _last_peers(self) -> int:
        rows = self.rows
        last = len(rows) - 1
        if last < 0:
            return 0
        if not len(rows.time):
            return last
        begin = int(rows.edges[rows.edges <= last].max())
        return begin + int(np.searchsorted(rows.time[begin:], rows.time[last]))


class StatelessExecutor:
    """Executes a query, or several as one, on tables; each member has its results from the cells of all."""

    def __init__(
        self, combined: Combination, clock: Callable[[], float] = time.time, threads: int | None = None
    ) -> None:
        self.bound_query, self.clock = combined.bound_query, clock
        self.members = [(name, view, Projector(view.bound_query)) for name, view in combined.members.items()]
        self.threads = RowThreads(self.bound_query.query.options.threads or threads)
        self.failed: list[AggregateError] = []

    def found(self, table: pa.RecordBatch, rows: RowOrder | None = None) -> ColumnResults:
        """The results of all members. `rows`: the order of the rows, if it is known. Raises NeedsOperator."""
        if rows is None:
            try:
                rows = order_rows(table, {}, self.bound_query, self.threads, self.clock)
            except (pa.ArrowException, TypeError, KeyError) as error:
                raise NeedsOperator from error
        given = self._all_bounds(rows, table)
        cells: ResultCells = {}
        columns = BatchColumns(table)
        for p, spec in enumerate(self.bound_query.aggregates):
            cells |= self._windows_of(p, self._inputs(spec, columns, rows), given)
        return ColumnResults(self.projected(cells), rows, given, self.bound_query.looks_ahead)

    def projected(self, cells: ResultCells) -> dict[str, list[ResultColumn]]:
        """The results of each member, from those of all aggregates over all windows."""
        return {name: projected(projector, view.read(cells)) for name, view, projector in self.members}

    def _inputs(self, spec: AggregateSpec, columns: BatchColumns, rows: RowOrder, *more: RowOrder) -> Inputs:
        """The inputs of an aggregate. Raises ValueError if an expression fails, NeedsOperator to set rows aside."""
        try:
            return Inputs(spec, columns, rows, self.threads, *more)
        except ValueError as error:
            if self.bound_query.query.options.failed == "side":
                raise NeedsOperator from error
            raise ValueError(f"{error}; {REMEDY}") from None

    def _windows_of(self, p: int, inputs: Inputs, given: Sequence[CountBounds | RangeBounds]) -> ResultCells:
        """The results of an aggregate, by the numbers of window and aggregate."""
        windows, asked = self.bound_query.windows, self.bound_query.projection.windows_of(p)
        found: dict[int, ResultColumn] = {}
        if len(asked) >= FEWEST and has_column_kernel(self.bound_query, inputs.spec):
            found = together(inputs, {s: given[s] for s in asked if not windows[s].full}, self.threads)
        for s in asked:
            if s not in found:
                found[s] = self._column(inputs, windows[s], given[s], self.bound_query.plan.choices[s, p].structure)
        return {(s, p): column for s, column in found.items()}

    # ---- bounds ----

    def _all_bounds(self, rows: RowOrder, table: pa.RecordBatch) -> list[CountBounds | RangeBounds]:
        """The bounds of all windows; those of Time windows that differ in size alone are found together."""
        windows = self.bound_query.windows
        found: dict[int, CountBounds | RangeBounds] = {}
        for closed in ("right", "both") if len(windows) >= FEWEST else ():
            alike = [w for w, window in enumerate(windows) if window.closed == closed and _is_plain_time(window)]
            if len(alike) >= FEWEST:
                starts = [windows[w].rule.start for w in alike]
                distances = np.array([by for by, _, _, _ in starts], rows.time.dtype)
                kernel = bounds.BY_SIZES[starts[0][3]]
                made = self.threads.starts(kernel, rows.time, (distances, earliest(rows.time.dtype)), rows.edges)
                found |= zip(alike, made, strict=True)
        return [found[w] if w in found else self._bounds(one, rows, table) for w, one in enumerate(windows)]

    def _bounds(self, window: WindowSpec, rows: RowOrder, table: pa.RecordBatch) -> CountBounds | RangeBounds:
        rule, edges, count = window.rule, rows.edges, len(rows)
        if rule.measure == "rows":
            behind, ahead = rule.rows
            behind, ahead = min(max(behind, -count - 1), count + 1), min(max(ahead, -count - 1), count + 1)
            if rule.is_moved:
                return self.threads.bounded(bounds.by_rows, count, (behind, ahead, edges))
            size = min(behind, max(count, 1))
            return CountBounds(size, edges, int(min(size, np.diff(edges).max(initial=0))))
        if rule.measure == "values":
            values = rows.time if rule.column is None else self._measured(window, rows, table)
            last = 0 if rule.is_moved or not rule.peers else 1 if rule.closed_end else -1
            if not rule.is_fixed:
                given = (rule.start, rule.end, *rule.origins(values))
                return self.threads.bounded(bounds.BY_BOUNDS[last], count, (values, given, edges))
            by, _, _, inclusive = rule.start
            kernel = bounds.BY_VALUE[inclusive, last]
            return self.threads.bounded(kernel, count, (values, (by, earliest(values.dtype)), edges))
        starts = np.zeros(count, np.bool_)
        if rule.gap is not None:
            starts[1:] = is_gap(rule.gap, rows.time[1:], rows.time[:-1])
        elif rule.column is not None:
            marks = decode(table.column(rule.column)).fill_null(False).to_numpy(zero_copy_only=False)
            starts[1:] = rows.scatter(marks)[: max(count - 1, 0)]
        peers = rule.peers and self.bound_query.time is not None
        return self.threads.bounded(bounds.by_starts, count, (starts, rows.time, peers, edges))

    def _measured(self, window: WindowSpec, rows: RowOrder, table: pa.RecordBatch) -> Numbers:
        """The values that a window is measured on. Raises NeedsOperator if one is missing, or they decrease."""
        assert window.axis is not None
        values, valid = window.axis.numbers(decode(table.column(window.axis.column)))
        values, valid = rows.scatter(values), rows.scatter(valid)
        falls = values[1:] < values[:-1]
        falls[rows.edges[1:-1][(rows.edges[1:-1] > 0) & (rows.edges[1:-1] < len(values))] - 1] = False
        if not valid.all() or falls.any():
            raise NeedsOperator
        return np.ascontiguousarray(values)

    # ---- results ----

    def _column(
        self, inputs: Inputs, window: WindowSpec, given: CountBounds | RangeBounds, structure: str
    ) -> ResultColumn:
        rows, spec = inputs.results, inputs.spec
        on = full_windows(window, rows, given) if window.full else None
        made = self._by_position(inputs, given, on) or weighted_mean_column(inputs, given, on, self.bound_query)
        if made is not None:
            return made
        is_simple = isinstance(spec.monoid, (m.Count, *PLACED))
        if not is_simple and (inputs.kernel is None or not has_column_kernel(self.bound_query, spec)):
            return self._slid(inputs, given, structure, on)
        among = inputs.among(given)
        if isinstance(spec.monoid, m.Count):
            ranges = self.threads.as_ranges(among, len(rows))
            return inputs.back(spec.result, (ranges.his - ranges.los).astype(np.int64), on)
        if isinstance(spec.monoid, PLACED):
            return self._placed(inputs, self.threads.as_ranges(among, len(rows)), on)
        assert inputs.kernel is not None
        valid = _both(on, self._enough(inputs.kernel, among, rows))
        if not isinstance(inputs.kernel, ColumnKernel):
            found = inputs.kernel.aggregate(self.threads, inputs.x, among, len(rows))
            if isinstance(spec.monoid, m.Rank) and inputs.non_nulls is not None:
                valid = _both(valid, newest_values(self.threads.as_ranges(given, len(rows)), inputs.non_nulls))
            return inputs.lowered(found, valid)
        found, uncertain = self.threads.aggregate(inputs.kernel, inputs.x, among, len(rows))
        if uncertain.any():
            self._asked(inputs, among, found, uncertain if valid is None else uncertain & valid)
        return inputs.lowered(found, valid)

    def _placed(self, inputs: Inputs, ranges: RangeBounds, on: Flags | None) -> ResultColumn:
        """The values at a position of the window: the n-th from its start, or from its end."""
        monoid = inputs.spec.monoid
        n = monoid.n if isinstance(monoid, m.Nth) else 1 if isinstance(monoid, m.First) else -1
        enough = self.threads.holds_at_least(ranges, abs(n))
        found = ranges.los + (n - 1) if n > 0 else ranges.his + n
        return inputs.payload(found, enough if on is None else enough & on, 0)

    def _by_position(self, inputs: Inputs, given: CountBounds | RangeBounds, on: Flags | None) -> ResultColumn | None:
        """The results of an aggregate that depends on the positions of its rows; None for others."""
        if lag_of(inputs.spec.monoid) is None and ewm_of(inputs.spec.monoid) is None:
            return None
        ranges = self.threads.as_ranges(given, len(inputs.results))
        try:
            return lag_column(inputs, ranges, on) or ewm_column(inputs, ranges, on, self.bound_query)
        except RangeOverflow as overflow:
            raise NeedsOperator from overflow

    def _enough(
        self, kernel: ColumnKernel | RankKernel | DistinctKernel, among: CountBounds | RangeBounds, rows: RowOrder
    ) -> Flags | None:
        """Which windows hold enough values for a result; None: all do."""
        if isinstance(among, RangeBounds):
            return None if among.shortest >= kernel.least else self.threads.holds_at_least(among, kernel.least)
        if kernel.least <= 1:
            return None
        if among.size < kernel.least:
            return np.zeros(len(rows), np.bool_)
        enough = np.ones(len(rows), np.bool_)
        for before in range(kernel.least - 1):
            at = rows.edges[:-1] + before
            enough[at[at < rows.edges[1:]]] = False
        return enough

    def _asked(self, inputs: Inputs, among: CountBounds | RangeBounds, found: Numbers, uncertain: Flags) -> None:
        """Replace the results that a column kernel is uncertain of by those that the monoid computes."""
        at = np.flatnonzero(uncertain)
        if not len(at):
            return
        from sash.aggregators.catalogue import sequential
        from sash.columns.aggregate_batch import Aggregate
        from sash.kernels.loops.bound_kernel import AggregateError, columns_use

        ranges = self.threads.as_ranges(among, len(inputs.results))
        structure = sequential("TwoStacksLite")
        kernel = Aggregate(inputs.spec, columns_use(structure)).kernel
        try:
            states = kernel.lift([inputs.x], np.ones(len(inputs.x), np.bool_), self.threads.run)
            asked = np.ones(len(at), np.bool_)
            share = self.threads.share_fixed(ranges.longest)
            out, _ = kernel.slide(structure, states, (ranges.los[at], ranges.his[at]), asked, share)
        except AggregateError as failed:
            raise NeedsOperator from failed
        found[at] = out[0]

    def _slid(
        self,
        inputs: Inputs,
        given: CountBounds | RangeBounds,
        structure: str,
        on: Flags | None,
        lowers_apart: bool = False,
    ) -> ResultColumn:
        """Compute results with a structure over the bounds. `lowers_apart`: failed ones are null, and in `failed`."""
        from sash.aggregators.catalogue import sequential
        from sash.columns.lowered_results import ResultView
        from sash.kernels.loops.bound_kernel import AggregateError

        rows = inputs.results
        if structure == FOLD or (structure in SEVERAL_SIZES and not self.bound_query.query.options.structure):
            structure = tree_of(inputs.spec.monoid) or "TwoStacksLite"
        cls = sequential(structure)
        ranges = self.threads.as_ranges(given, len(rows))
        on = np.ones(len(rows), np.bool_) if on is None else on
        try:
            batch = inputs.batch(cls, lowers_apart)
            filled = self._filled(batch.has_value, ranges)
            wanted = on if filled is None else on & filled
            share = self.threads.share_fixed(ranges.longest)
            kernel = batch.aggregate.kernel
            out, valid = kernel.slide(cls, batch.states, (ranges.los, ranges.his), wanted, share)
        except AggregateError as failed:
            raise NeedsOperator from failed
        empty = np.zeros_like(on) if filled is None else on & ~filled
        if lowers_apart:
            view = ResultView(0, inputs.spec, "state", tolerant=True)
            made = view.lowered(out, valid, empty, batch.dictionaries)
            self.failed += view.failed
            return inputs.restored(made)
        return inputs.restored(batch.column(out, valid, empty))

    def _filled(self, non_null: Flags, ranges: RangeBounds) -> Flags | None:
        """Which windows hold a non-null row; None: all do."""
        if not non_null.all():
            ranges = self.threads.among(counts_before(non_null), ranges)
        return None if ranges.shortest else self.threads.holds_at_least(ranges, 1)


def projected(projector: Projector, cells: Mapping[tuple[int, int], ResultColumn]) -> list[ResultColumn]:
    """The results of a query, from those of its aggregates over its windows."""
    outputs = projector.projection.outputs
    if projector.is_plain:
        return [cells[output.cells[0][:2]] for output in outputs]
    columns = [projector.output(one, lambda w, number: cells[w, number].arrow()) for one in outputs]
    return [ResultColumn(column.type, made=column) for column in columns]


def _is_plain_time(window: WindowSpec) -> bool:
    """Is it a Time window of a fixed length that ends at its row?"""
    return window.rule.in_time and window.rule.is_fixed


def _ordinals(rows: RowOrder) -> Numbers:
    """By place: the number of the row within its key, from 1."""
    lengths = np.diff(rows.edges)
    return np.arange(1, len(rows) + 1) - np.repeat(rows.edges[:-1], lengths)


def full_windows(window: WindowSpec, rows: RowOrder, given: CountBounds | RangeBounds) -> Flags:
    if isinstance(given, RangeBounds):
        found: Flags = given.his - given.los >= int(window.size or 1)
        return found
    return _ordinals(rows) >= int(window.size or 1)


def _both(a: Flags | None, b: Flags | None) -> Flags | None:
    return a if b is None else b if a is None else a & b
