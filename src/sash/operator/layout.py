"""How items lie in pages: rows as their columns, partials as their states; and runs of either, summed up.

RowSeries    cell   time, one number per Delta column, the columns that aggregates read
the others   cell   first, last, row, rows, low, and a state per aggregate
all          run    run, runs (how many: several make a chapter), bytes (of the page), first, last, row, rows, low,
                    high, the Delta columns' ends, and a state per aggregate
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.forms import numbers
from sash.operator.frame import Ints, Items, Rows
from sash.operator.keys import plain
from sash.operator.measure import Measure
from sash.operator.row_series import RowSeries
from sash.operator.series import Series
from sash.operator.slice_series import CountedSeries
from sash.query.types import plain as value_type


class CellLayout:
    """The columns of a series' items, and the way between them and `Items`."""

    def __init__(self, series: Series, measures: Sequence[Measure], schema: pa.Schema) -> None:
        self.series, self.measures = series, measures
        self.raw = isinstance(series, RowSeries)
        number = pa.int64() if series.numbers.kind == "i" else pa.float64()
        cut = pa.int64() if isinstance(series, CountedSeries) else number
        states = [
            pa.field(f"{m}.{field.name}", field.type) for m, measure in enumerate(measures) for field in measure.fields
        ]
        self.columns: list[str] = []
        if isinstance(series, RowSeries):
            axes = [pa.int64() if a is not None and a.kind == "int" else pa.float64() for a in series.delta_axes]
            read = {name for measure in measures for name in measure.part.columns}
            self.columns = sorted(read | set(series.policies.columns))
            inputs = [pa.field(f"x.{name}", value_type(schema.field(name).type)) for name in self.columns]
            deltas = [pa.field(f"d{i}", kind) for i, kind in enumerate(axes)]
            self.cell = pa.schema([pa.field("time", number), *deltas, *inputs])
        else:
            axes = []
            whole = [("first", number), ("last", number), ("row", pa.int64()), ("rows", pa.int64()), ("low", cut)]
            self.cell = pa.schema([*whole, *states])
        ends = [pa.field(f"d{i}.{end}", kind) for i, kind in enumerate(axes) for end in ("low", "high")]
        whole = [("first", number), ("last", number), ("row", pa.int64()), ("rows", pa.int64())]
        self.run = pa.schema(
            [
                pa.field("run", pa.int64()),
                pa.field("runs", pa.int64()),
                pa.field("bytes", pa.int64()),
                *whole,
                ("low", cut),
                ("high", cut),
                *ends,
                *states,
            ]
        )
        self.deltas = len(axes)

    def items_of_cells(self, cells: pa.RecordBatch, segment: Ints) -> Items:
        """Stored cells as items."""

        def column(name: str) -> Any:
            return numbers(cells.column(name))

        if self.raw:
            time, ones = column("time"), np.ones(len(segment), np.int64)
            deltas = [(column(f"d{i}"), column(f"d{i}")) for i in range(self.deltas)]
            return Items(segment, time, time, ones, np.zeros(len(segment), np.int64), time, time, deltas)
        low = column("low")
        return Items(segment, column("first"), column("last"), column("rows"), column("row"), low, low, [])

    def items_of_runs(self, runs: pa.RecordBatch, segment: Ints) -> Items:
        """Stored runs as items."""
        names = ("first", "last", "rows", "row", "low", "high")
        columns = {name: numbers(runs.column(name)) for name in names}
        deltas = [(numbers(runs.column(f"d{i}.low")), numbers(runs.column(f"d{i}.high"))) for i in range(self.deltas)]
        return Items(segment, **columns, deltas=deltas)

    def states(self, batch: pa.RecordBatch, m: int) -> list[pa.Array]:
        """The columns of an aggregate's states."""
        return [batch.column(f"{m}.{field.name}") for field in self.measures[m].fields]

    def rows_as_cells(self, rows: Rows, items: Items) -> pa.RecordBatch:
        """New rows as cells of a RowSeries."""
        inputs = [plain(rows.table.column(name)) for name in self.columns]
        deltas = [pa.array(low) for low, _ in items.deltas]
        return pa.RecordBatch.from_arrays([pa.array(rows.time), *deltas, *inputs], schema=self.cell)

    def partials(self, items: Items, states: list[list[pa.Array]]) -> pa.RecordBatch:
        """Partials as cells."""
        parts = (items.first, items.last, items.row, items.rows, items.low)
        arrays = [*map(pa.array, parts), *(column for columns in states for column in columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.cell)

    def runs(
        self, numbers: Ints, runs: Ints, sizes: Ints, items: Items, states: list[list[pa.Array]]
    ) -> pa.RecordBatch:
        """Runs and chapters, summed up: their numbers, how many runs, the sizes of their pages, what is in them."""
        parts = (numbers, runs, sizes, items.first, items.last, items.row, items.rows, items.low, items.high)
        ends = [pa.array(end) for pair in items.deltas for end in pair]
        arrays = [*map(pa.array, parts), *ends, *(column for columns in states for column in columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.run)


def spanned(items: Items, starts: Ints, stops: Ints, counted: Ints | None = None) -> Items:
    """Ranges of items as one item each; `counted`, if it is known, is how many rows there are before each item."""
    last = stops - 1
    if counted is None:
        counted = np.concatenate([[0], np.cumsum(items.rows)])
    return Items(
        items.segment[starts],
        items.first[starts],
        items.last[last],
        counted[stops] - counted[starts],
        items.row[starts],
        items.low[starts],
        items.high[last],
        [(low[starts], high[last]) for low, high in items.deltas],
    )
