"""Results at rows for emit="eager": finds those that a call may change, and those that it has changed.

    before the change     rows whose windows may hold the new rows ──▶ ranges
    after                 the same rows and the new ones           ──▶ ranges ──▶ answers of both ──▶ those that differ

The last emitted result of a row is that of its windows before the call, so only its revision is stored.

Find the results of emit="eager" that a call has changed, for queries with formulas or `min_periods`.

Ranges come in pairs, those of a result after the call and before it. Results of plain queries are compared by
`EagerAggregate.compare` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, differ, integers
from sash.columns.failed_rows import FailedResults
from sash.columns.projected_results import ComparedCell, Projector, compared_cells, flags
from sash.columns.time_numbers import Watermark
from sash.engine.revise.eager_aggregate import EagerAggregate, LabelRanges, MovedRows, RangeResults
from sash.engine.revise.eager_change import RowChanges
from sash.engine.revise.eager_state import EagerState
from sash.kernels.loops import eager_loops as eager_changes
from sash.kernels.loops import eager_loops as eager_order
from sash.kernels.loops import eager_windows
from sash.kernels.loops.array_types import Flags, Ints
from sash.kernels.loops.eager_windows import RANGE

# --- Eager comparison ---


class Answered(NamedTuple):
    """The answers of all aggregates to ranges, and the rows that a call has moved."""

    aggregates: Sequence[EagerAggregate]
    answers: Sequence[RangeResults]
    ranges: LabelRanges
    moved: MovedRows
    failures: FailedResults

    def column(self, number: int, places: Ints) -> pa.Array:
        """The results of an aggregate at some places."""
        return self.aggregates[number].column(self.answers[number], self.ranges, np.ascontiguousarray(places))

    def emitted(self, number: int, places: Ints) -> pa.Array:
        """As `column`, for results that are emitted: those that fail are counted."""
        places = np.ascontiguousarray(places)
        return self.aggregates[number].column(self.answers[number], self.ranges, places, self.failures)

    def compare(self, number: int, pairs: Ints, changed: Flags) -> None:
        """Mark the results of an aggregate that have changed."""
        aggregate = self.aggregates[number]
        aggregate.compare(self.answers[number], self.ranges, np.ascontiguousarray(pairs), changed, self.moved)


def mark_changed(
    cells: Sequence[ComparedCell],
    projector: Projector,
    found: Answered,
    pairs_of: Callable[[int], Ints],
    changed: Flags,
) -> None:
    """Mark the results that have changed; `pairs_of(window)` are the pairs of its ranges, with the result of each."""

    def side(number: int) -> Callable[[int, int], pa.Array]:
        return lambda window, aggregate: found.column(aggregate, pairs_of(window)[:, number])

    for one in cells:
        pairs = pairs_of(one.cell.window)
        if not len(pairs):
            continue
        if one.output is not None:
            new, old = (projector.output(one.output, side(number), counted=False) for number in range(2))
            changed[pairs[differ(new, old), 2]] = True
        elif one.cell.counter is None:
            found.compare(one.cell.aggregate, pairs, changed)
        elif one.exact:
            new, old = (projector.cell(one.cell, side(number)) for number in range(2))
            changed[pairs[differ(new, old), 2]] = True
        else:
            after, before = (projector.enough(one.cell, side(number)) for number in range(2))
            now, then = flags(after), flags(before)
            changed[pairs[now != then, 2]] = True
            found.compare(one.cell.aggregate, pairs[now & then], changed)


# --- Eager results ---


@dataclass(slots=True)
class AffectedRows:
    """Rows whose results may change: slots, indices after the change, which rows are new; and ranges, old and new."""

    slots: Ints
    index: Ints
    changed: Flags
    pairs: Ints
    ranges: LabelRanges
    change: RowChanges


class RowResults:
    """The results of a query with one result for each row."""

    records: Sequence[Any] = ()
    """The records of emitted slides: none."""

    def settle(self, slots: Ints, now: Watermark, settled: Ints) -> None:
        """Do nothing: there are no records of final results."""

    def __init__(self, state: EagerState, flags: bool) -> None:
        self.state, self.flags = state, flags
        self.windows = len(state.rules.windows)
        self.projector = Projector(state.bound_query)
        self.cells = compared_cells(state.bound_query, state.bound_query.projection.outputs)
        self._buffers = np.empty(256, np.int64), np.empty(256, np.int64)

    def before(self, change: RowChanges) -> tuple[Ints, Ints]:
        """The rows whose results a change of rows may affect: slots and indices."""
        state, rows = self.state, self.state.rows
        arguments = (change.all(), rows.heads, rows.lists, state.rules.tables, state.rules.gaps)
        while True:
            count = rows.run(eager_windows.changed_rows, *arguments, self._buffers)
            if count <= len(self._buffers[0]):
                return self._buffers[0][:count], self._buffers[1][:count]
            self._buffers = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)

    def apply(self, change: RowChanges, known: tuple[Ints, Ints]) -> AffectedRows:
        """Change the rows, and find the windows of results before and after."""
        state, rows, new, removed = self.state, self.state.rows, change.new, change.removed
        count = len(known[0])
        capacity = count + len(new)
        merged = (np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.int64))
        table = np.empty((self.windows * (count + capacity), RANGE), np.int64)
        fresh = (new.slots, change.places, new.time, new.rids)
        moves = (fresh, (removed.slots, removed.index), change.among_the_rest())
        order = (rows.heads, rows.lists, state.rules.gaps, state.anchored)
        pairs, changed = np.empty((self.windows * count, 3), np.int64), np.empty(capacity, np.bool_)
        out = (table, change.done, (pairs, changed))
        found = rows.run(eager_order.turn_rows, known, moves, order, state.rules.tables, merged, out)
        slots, index, _ = merged
        if found < capacity:  # some were removed
            slots, index, changed = slots[:found], index[:found], changed[:found]
            table, pairs = table[: self.windows * (count + found)], pairs[: self.windows * (found - len(new))]
        windows = None
        if not state.asks_all:
            of = np.arange(self.windows)
            windows = np.append(np.repeat(of, count), np.repeat(of, len(slots)))
        ranges = LabelRanges(table, self.windows * count, windows)
        return AffectedRows(slots, index, changed, pairs, ranges, change)

    def after(self, affected: AffectedRows, answers: list[RangeResults]) -> list[pa.Array]:
        """The columns of results that are new or have changed; retracted rows come first."""
        state, rows, changed, ranges = self.state, self.state.rows, affected.changed, affected.ranges
        count = len(changed)
        moved = MovedRows(affected.change.entered, affected.change.left, rows.labels)
        answered = Answered(state.aggregates, answers, ranges, moved, state.failures)
        if len(affected.pairs):
            self._compare(answered, affected.pairs, changed)
        out = np.empty((3, count), np.int64)
        arguments = (changed, affected.slots, affected.index, rows.heads, rows.rids, rows.revision, out)
        emitted = rows.run(eager_changes.emitted_rows, *arguments)
        at, rids, before = out[0, :emitted], out[1, :emitted], out[2, :emitted]
        revision = before + 1
        assert state.journal is not None
        state.journal.revise(rids, before)
        rows.set_revisions(rids, revision)
        columns = rows.columns.take(rids)
        columns += self.projector.outputs(
            lambda window, number: answered.emitted(number, at + (ranges.split + window * count))
        )
        columns = self._finished(columns, rids, revision)
        removed = affected.change.removed.rids
        if not len(removed):
            return columns
        return [pa.concat_arrays(pair) for pair in zip(self._taken_back(removed), columns, strict=True)]

    def _compare(self, answered: Answered, pairs: Ints, changed: Flags) -> None:
        """Mark the results that have changed. Pairs are those of the first window, then of the next."""
        if self.projector.is_plain:
            for number in range(len(answered.aggregates)):
                answered.compare(number, pairs, changed)
            return
        count = len(pairs) // self.windows
        mark_changed(self.cells, self.projector, answered, lambda w: pairs[w * count : (w + 1) * count], changed)

    def _finished(self, columns: list[pa.Array], rids: Ints, revision: Ints) -> list[pa.Array]:
        if self.flags:
            columns.append(array(np.zeros(len(rids), np.bool_)))
        return [*columns, integers(self.state.rows.arrival[rids]), integers(revision)]

    def _taken_back(self, rids: Ints) -> list[pa.Array]:
        """The columns of retracted rows: emitted again, with null results."""
        state, rows = self.state, self.state.rows
        columns = rows.columns.take(rids)
        columns += [pa.nulls(len(rids), one.result) for one in state.bound_query.projection.outputs]
        return self._finished(columns, rids, rows.revision[rids] + 1)

    def row_of(self, affected: AffectedRows, place: int) -> int | None:
        """The row that a range belongs to; None for a range from before the change."""
        at = place - affected.ranges.split
        if at < 0:
            return None
        at %= len(affected.slots)
        return int(self.state.rows.at(affected.slots[at : at + 1], affected.index[at : at + 1])[0])


def united(state: EagerState, slots: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of ranges of numbers, by slot."""
    nothing = np.zeros(0, np.int64)
    count = state.rows.run(eager_windows.unite_ranges, slots, begin, end, (nothing, nothing))
    out: Any = np.empty(count, np.int64), np.empty(count, np.int64)
    state.rows.run(eager_windows.unite_ranges, slots, begin, end, out)
    return out
