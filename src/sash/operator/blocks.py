"""Blocks: the items of a step of one series, from their sources, in order.

stored cells ─┐
new rows      ├─▶ by segment, then in order ──▶ items ──▶ (slices: items of one cut folded into one)
unopened runs ┘
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.operator.frame import Ints, Items, Rows, joined, stable_order
from sash.operator.keys import plain
from sash.operator.layout import CellLayout, spanned
from sash.operator.loaded import Stored


class Blocks:
    """The items of a step, from their sources: stored cells, new rows, unopened runs.

    Raw rows come first, partials behind them, as `Met.join` wants it:

        RowSeries     stored cells, new rows | unopened runs
        the others    new rows | stored cells, unopened runs
    """

    def __init__(self, layout: CellLayout, stored: Stored, segment_of: Ints, rows: Rows, new: Items) -> None:
        self.layout, self.stored, self.rows = layout, stored, rows
        cells = layout.items_of_cells(stored.cells, segment_of[stored.cell_key])
        runs = layout.items_of_runs(stored.runs, segment_of[stored.run_key])
        many, few = len(cells), len(runs)
        sources = [cells, new, runs] if layout.raw else [new, cells, runs]
        if many or few:
            everything = joined(sources)
            self.order = self._in_order(everything.segment, [len(part) for part in sources])
            items = everything.take(self.order)
        else:
            self.order, items = np.arange(len(new)), new
        source = self.order
        first_new = many if layout.raw else 0
        is_new = (source >= first_new) & (source < first_new + len(new))
        places = np.empty(len(new), np.int64)
        places[source[is_new] - first_new] = np.flatnonzero(is_new)
        closed = np.where(source >= many + len(new), source - many - len(new), -1)
        run_of = np.full(len(items), -1)
        first_cell = 0 if layout.raw else len(new)
        is_cell = (source >= first_cell) & (source < first_cell + many)
        run_of[is_cell] = stored.cell_run[source[is_cell] - first_cell]
        self.groups: tuple[Ints, Ints] | None = None
        if layout.series.folds:
            items, places, closed, run_of = self._folded(items, places, closed, run_of)
        self.items, self.places, self.closed, self.run = items, places, closed, run_of
        self.new, self.few = new, few

    def _in_order(self, segment: Ints, lengths: list[int]) -> Ints:
        """The order by segment: runs and the cells of opened ones by their numbers, then the tail, then new rows."""
        new = np.repeat([False, True, False] if self.layout.raw else [True, False, False], lengths)
        if not lengths[2] and (self.stored.cell_run < 0).all():
            segments = int(segment.max(initial=0)) + 1
            return stable_order(2 * segment + new, 2 * segments)
        tail = np.where(self.stored.cell_run < 0, 2**61, self.stored.cell_run)
        fresh = np.full(int(new.sum()), 2**62)
        labels = [tail, fresh] if self.layout.raw else [fresh, tail]
        return np.lexsort((np.concatenate([*labels, self.stored.runs.column("run").to_numpy()]), segment))

    def _folded(self, items: Items, places: Ints, closed: Ints, run: Ints) -> tuple[Items, Ints, Ints, Ints]:
        """Items of one segment and coordinate as one."""
        if not len(items):
            self.groups = np.zeros(0, np.int64), np.zeros(0, np.int64)
            return items, places, closed, run
        differs = (items.segment[1:] != items.segment[:-1]) | (items.low[1:] != items.low[:-1])
        edge = np.concatenate([[True], differs | (closed[1:] >= 0) | (closed[:-1] >= 0)])
        starts = np.flatnonzero(edge)
        stops = np.append(starts[1:], len(items))
        self.groups = starts, stops
        return spanned(items, starts, stops), (np.cumsum(edge) - 1)[places], closed[starts], run[starts]

    def given(self, layout: CellLayout, rows: Rows, p: int) -> tuple[list[pa.Array], int, list[pa.Array]]:
        """What the p-th aggregate meets: columns of raw rows, their number, and stored states."""
        names = layout.measures[p].part.columns
        runs = layout.states(self.stored.runs, p)
        if layout.raw:
            columns = [self.column_raw(name) for name in names]
            return columns, len(self.stored.cell_key) + len(rows), runs
        cells = layout.states(self.stored.cells, p)
        both = [pa.concat_arrays([cell, run]) for cell, run in zip(cells, runs, strict=True)]
        return [plain(rows.table.column(name)) for name in names], len(rows), both

    def column_raw(self, name: str) -> pa.Array:
        """A column of the raw rows: of stored cells, then of new rows."""
        new = plain(self.rows.table.column(name))
        if not len(self.stored.cell_key):
            return new
        return pa.concat_arrays([self.stored.cells.column(f"x.{name}"), new])

    def column(self, rows: Rows, name: str) -> pa.Array:
        """A column of all items in order; there are no unopened runs."""
        return self.column_raw(name).take(pa.array(self.order))

    def cells(self, places: Ints) -> pa.RecordBatch:
        """Items that are rows, as cells."""
        source = pa.array(self.order[places])
        new = self.layout.rows_as_cells(self.rows, self.new)
        if not len(self.stored.cell_key):
            return new.take(source)
        arrays = [
            pa.concat_arrays([old, more]).take(source)
            for old, more in zip(self.stored.cells.columns, new.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.layout.cell)
