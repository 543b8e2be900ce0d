"""Results at rows for emit="eager": finds those that a call may change, and those that it has changed.

    before the change     rows whose windows may hold the new rows ──▶ ranges
    after                 the same rows and the new ones           ──▶ ranges ──▶ answers of both ──▶ those that differ

The last emitted result of a row is that of its windows before the call, so only its revision is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array, integers
from sash.engine.compared_cells import compared_cells
from sash.engine.eager_aggregate import MovedRows
from sash.engine.eager_change import Touched
from sash.engine.eager_comparison import Answered, mark_changed
from sash.engine.eager_state import EagerState
from sash.engine.projected_results import Projector
from sash.engine.time_numbers import Watermark
from sash.kernels.loops import eager_changes, eager_order, eager_windows
from sash.kernels.loops.array_types import Flags, Ints
from sash.kernels.loops.eager_kernel import LabelRanges, RangeResults
from sash.kernels.loops.eager_windows import RANGE


@dataclass(slots=True)
class RowTurn:
    """Rows whose results may change: slots, indices after the change, which rows are new; and ranges, old and new."""

    slots: Ints
    index: Ints
    changed: Flags
    pairs: Ints
    ranges: LabelRanges
    touched: Touched


class RowResults:
    """The results of a query with one result for each row."""

    records: Sequence[Any] = ()
    """The records of emitted slides: none."""

    def settle(self, slots: Ints, now: Watermark, settled: Ints) -> None:
        """Do nothing: there are no records of final results."""

    def __init__(self, state: EagerState, flags: bool) -> None:
        self.state, self.flags = state, flags
        self.windows = len(state.rules.rules)
        self.projector = Projector(state.bound_query)
        self.cells = compared_cells(state.bound_query, state.bound_query.projection.outputs)
        self._room = np.empty(256, np.int64), np.empty(256, np.int64)

    def before(self, touched: Touched) -> tuple[Ints, Ints]:
        """The rows whose results the touched rows may change: slots and indices."""
        state, rows = self.state, self.state.rows
        arguments = (touched.all(), rows.heads, rows.lists, state.rules.tables, state.rules.gaps)
        while True:
            count = rows.run(eager_windows.changed_rows, *arguments, self._room)
            if count <= len(self._room[0]):
                return self._room[0][:count], self._room[1][:count]
            self._room = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)

    def turn(self, touched: Touched, known: tuple[Ints, Ints]) -> RowTurn:
        """Change the rows, and find the windows of results before and after."""
        state, rows, new, removed = self.state, self.state.rows, touched.new, touched.removed
        count = len(known[0])
        room = count + len(new)
        merged = (np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64))
        table = np.empty((self.windows * (count + room), RANGE), np.int64)
        fresh = (new.slots, touched.places, new.time, new.rids)
        change = (fresh, (removed.slots, removed.index), touched.among_the_rest())
        order = (rows.heads, rows.lists, state.rules.gaps, state.anchored)
        pairs, changed = np.empty((self.windows * count, 3), np.int64), np.empty(room, np.bool_)
        out = (table, touched.done, (pairs, changed))
        found = rows.run(eager_order.turn_rows, known, change, order, state.rules.tables, merged, out)
        slots, index, _ = merged
        if found < room:  # some were removed
            slots, index, changed = slots[:found], index[:found], changed[:found]
            table, pairs = table[: self.windows * (count + found)], pairs[: self.windows * (found - len(new))]
        ranges = LabelRanges(table, self.windows * count)
        if not state.asks_all:
            of = np.arange(self.windows)
            ranges.windows = np.append(np.repeat(of, count), np.repeat(of, len(slots)))
        return RowTurn(slots, index, changed, pairs, ranges, touched)

    def after(self, turn: RowTurn, answers: list[RangeResults]) -> list[pa.Array]:
        """The columns of results that are new or have changed; retracted rows come first."""
        state, rows, changed, ranges = self.state, self.state.rows, turn.changed, turn.ranges
        count = len(changed)
        moved = MovedRows(turn.touched.entered, turn.touched.left, rows.labels)
        answered = Answered(state.aggregates, answers, ranges, moved)
        if len(turn.pairs):
            self._compare(answered, turn.pairs, changed)
        out = np.empty((3, count), np.int64)
        arguments = (changed, turn.slots, turn.index, rows.heads, rows.rids, rows.revision, out)
        emitted = rows.run(eager_changes.emitted_rows, *arguments)
        at, rids, before = out[0, :emitted], out[1, :emitted], out[2, :emitted]
        revision = before + 1
        assert state.journal is not None
        state.journal.revised.append((rids, before))
        rows.revision[rids] = revision
        columns = rows.columns.take(rids)
        columns += self.projector.outputs(
            lambda window, number: answered.column(number, at + (ranges.split + window * count))
        )
        columns = self._finished(columns, rids, revision)
        removed = turn.touched.removed.rids
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
        """The columns of retracted rows: emitted once more, without results."""
        state, rows = self.state, self.state.rows
        columns = rows.columns.take(rids)
        columns += [pa.nulls(len(rids), one.result) for one in state.bound_query.projection.outputs]
        return self._finished(columns, rids, rows.revision[rids] + 1)

    def row_of(self, turn: RowTurn, place: int) -> int | None:
        """The row that a range belongs to; None for a range from before the change."""
        at = place - turn.ranges.split
        if at < 0:
            return None
        at %= len(turn.slots)
        return int(self.state.rows.at(turn.slots[at : at + 1], turn.index[at : at + 1])[0])


def united(state: EagerState, slots: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of ranges of numbers, by slot."""
    nothing = np.zeros(0, np.int64)
    count = state.rows.run(eager_windows.unite_ranges, slots, begin, end, (nothing, nothing))
    out: Any = np.empty(count, np.int64), np.empty(count, np.int64)
    state.rows.run(eager_windows.unite_ranges, slots, begin, end, out)
    return out
