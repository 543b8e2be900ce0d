"""Reference: a simple and slow operator that follows the definitions of windows, order, lateness and emission.

It has the methods of an operator, and operators are tested against it. It keeps all rows in a list, and recomputes
every result after each call from the definition of its window (`window_oracle.py`):

    process ──▶ each row: timed, late or untimed? W rises ──▶ all results so far ──▶ those to emit now

    final      results below W that were not emitted yet
    changes    those of them that differ from the key's previous result
    eager      results that are new or have changed since the last call; an emptied slide without results

A final result never changes, because later rows have times of at least W. So it can be computed from all rows at any
time.

Results of `Reference`, and what two versions of a result are compared by.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.types as is_

from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import Node
from sash.plan.types import column
from sash.testing.window_oracle import (
    Due,
    DueTogether,
    Row,
    aggregate,
    alike,
    counted_inputs,
    due_at,
    in_order,
    inputs,
    key_lifetimes,
    latest_allowed,
    per_row,
    rows_of,
    slides,
)

if TYPE_CHECKING:
    from sash.plan import Query
    from sash.plan.bound_query import AggregateSpec, BoundQuery
    from sash.plan.projection import OutputSpec
    from sash.plan.time_axis import Number


# --- Reference results ---


@dataclass(frozen=True)
class Cell:
    """One aggregate of one window; null if the window must be full and is not, or has fewer inputs than `least`."""

    spec: AggregateSpec
    rows: tuple[Row, ...]
    full: bool
    least: int = 0

    @cached_property
    def is_null(self) -> bool:
        """Are there too few inputs? In a window that must be full and is not, none counts."""
        return self.least > 0 and (not self.full or counted_inputs(self.spec, self.rows) < self.least)

    @cached_property
    def value(self) -> Any:
        return aggregate(self.spec, self.rows) if self.full and not self.is_null else None

    @cached_property
    def mark(self) -> Any:
        """What two versions of a result are compared by: its value if it is exact, else its inputs."""
        if self.exact:
            return alike(self.value)
        return None if self.is_null else (self.full, tuple(row.number for row in inputs(self.spec, self.rows)))

    @property
    def exact(self) -> bool:
        """Is it compared by its value?"""
        return is_exact(self.spec)


@dataclass(frozen=True)
class FormulaCell:
    """A formula of cells: null if one of them is."""

    tree: Node
    cells: tuple[Cell, ...]

    @cached_property
    def value(self) -> Any:
        return row_value(self.tree, lambda number: self.cells[int(number)].value)

    @cached_property
    def mark(self) -> Any:
        """Its value if all cells are exact, else the marks of the cells."""
        if all(cell.exact for cell in self.cells):
            return alike(self.value)
        return tuple(cell.mark for cell in self.cells)


@dataclass(frozen=True)
class NullCell:
    """A result of another window, which a slide does not have."""

    value: None = None
    mark: None = None


AnyCell = Cell | FormulaCell | NullCell


@dataclass(frozen=True)
class ReferenceResult:
    """One row of the output. For a per-row query `row` is the input row; else there are `start` and `end`.

    `name` identifies the result among all results, `lifetime` counts how often its key has expired.
    """

    name: Any
    lifetime: int
    window: str
    row: Row
    start: Any
    end: Any
    due: Due | DueTogether
    cells: tuple[AnyCell, ...]

    @property
    def mark(self) -> Any:
        return tuple(cell.mark for cell in self.cells)


class Emission(NamedTuple):
    """A result to emit, with its `_row` and `_revision`."""

    result: ReferenceResult
    row: int
    revision: int


class Emitted(NamedTuple):
    """What was last emitted for a result, by its name: `mark` is compared with that of the current result."""

    row: int
    revision: int
    mark: Any


def only_changes(results: Sequence[ReferenceResult]) -> Iterator[ReferenceResult]:
    """The results that differ from the previous one of their key and window; the first after `forget` differs."""
    last: dict[Any, Any] = {}
    for result in results:
        where = (result.row.key, result.lifetime, result.window)
        if where not in last or last[where] != result.mark:
            yield result
        last[where] = result.mark


def is_exact(spec: AggregateSpec) -> bool:
    """Is the aggregate exact on columns of these types? A sum of integers is, a sum of floats is not."""
    tests = (("bool", is_.is_boolean), ("int", is_.is_integer), ("float", is_.is_floating))
    kinds: list[Any] = [kind for column in spec.types for kind, holds in tests if holds(column)]
    if len(kinds) < len(spec.types) or spec.monoid.interpreted_only:
        return spec.monoid.exact
    return spec.monoid.typed(*kinds).exact


# --- Reference ---


class Reference:
    """A slow operator that follows the definitions.

    >>> import pyarrow as pa, sash
    >>> query = sash.Query(2, by="k", high=sash.max("x"))
    >>> batch = pa.record_batch({"k": ["a", "a", "a"], "x": [3, 1, 2]})
    >>> Reference(query, batch.schema).process(batch)["high"].to_pylist()
    [3, 3, 2]

    Raises ValueError for a row out of order without `lateness`, for late rows with `late="error"`, and for unsorted
    input in mode "sorted"; the call then changes nothing. A Delta column that decreases is a ValueError on arrival,
    while an operator may raise it when it releases the row.
    """

    def __init__(
        self, query: Query, schema: pa.Schema, *, mode: str = "rows", clock: Callable[[], float] | None = None
    ) -> None:
        self.bound_query: BoundQuery = query.bind(schema)
        self.query, self.mode, self.clock = query, mode, clock or time.time
        self.late, self.untimed = 0, 0
        self._batches: list[pa.RecordBatch] = []
        self._number = 0
        self._watermark: Number = -math.inf
        self._taken: list[Row] = []
        self._late_rows: list[int] = []
        self._final: set[Any] = set()
        self._emitted: dict[Any, Emitted] = {}
        self._last: dict[Any, ReferenceResult] = {}

    # ---- input ----

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Process a batch, and return the results to emit."""
        taken, late, untimed, watermark = self._classified(batch)
        self._batches.append(batch)
        self._number += batch.num_rows
        self._taken += taken
        self._watermark = watermark
        self.late += len(late)
        self.untimed += len(untimed)
        side = sorted(late + untimed, key=lambda row: row.number)
        if self.mode != "sorted":
            self._late_rows += [row.number for row in side]
        return self._output(side if self._passes_late() else [], self._to_emit(processed=True))

    def advance(self, watermark: Number | pa.Scalar) -> pa.RecordBatch:
        """Raise the watermark, a number in the units of the time or a scalar of it; a lower one changes nothing."""
        reached = getattr(watermark, "value", watermark)
        self._watermark = max(self._watermark, reached)
        return self._output([], self._to_emit(processed=False))

    def finish(self) -> pa.RecordBatch:
        """No more rows: the watermark is infinite."""
        return self.advance(math.inf)

    def late_rows(self) -> pa.RecordBatch:
        """The late and the untimed rows since the last call, in order of arrival."""
        numbers, self._late_rows = self._late_rows, []
        return self._input_rows(numbers)

    def _classified(self, batch: pa.RecordBatch) -> tuple[list[Row], list[Row], list[Row], Number]:
        """The accepted, the late and the untimed rows of a batch; and W after them."""
        taken: list[Row] = []
        late: list[Row] = []
        untimed: list[Row] = []
        watermark = self._watermark
        latest = latest_allowed(self.bound_query, self.clock)
        for row in rows_of(batch, self.bound_query, self._number):
            if self.bound_query.time is not None and (row.time is None or row.time > latest):
                untimed.append(row)
            elif self.mode == "sorted":
                self._check_sorted(self._taken + taken, row)
                taken.append(row)
            elif row.time is not None and row.time < watermark:
                late.append(row)
            else:
                taken.append(row)
                if self.mode == "rows" and row.time is not None:
                    watermark = max(watermark, row.time - (self.bound_query.lateness or 0))
        self._refuse_late(late, untimed, watermark)
        return taken, late, untimed, watermark

    def _refuse_late(self, late: list[Row], untimed: list[Row], watermark: Number) -> None:
        if late and self.query.lateness is None:
            raise ValueError(
                f"row {late[0].number}: its time {late[0].time} is before the watermark {watermark}; "
                "lateness= sets how long to wait for such rows"
            )
        if self.mode != "sorted" and self.query.late == "error" and (late or untimed):
            row = min(late + untimed, key=lambda row: row.number)
            raise ValueError(f"row {row.number} is late: time {row.time}, watermark {watermark}")

    def _check_sorted(self, before: Sequence[Row], row: Row) -> None:
        if any(earlier.key == row.key for earlier in before):
            if before[-1].key != row.key:
                raise ValueError(f"row {row.number}: input is not sorted by key: {row.key} comes back")
            if row.time is not None and (before[-1].time, before[-1].ties) > (row.time, row.ties):
                raise ValueError(f"row {row.number}: input is not sorted by time: {row.time} after {before[-1].time}")

    def _passes_late(self) -> bool:
        """Are late and untimed rows passed on, with null aggregates?"""
        return self.bound_query.per_row and (self.mode == "sorted" or self.query.late == "flag")

    # ---- all results so far ----

    def _results(self) -> Iterator[ReferenceResult]:
        """Every current result, for each key in order, final or not."""
        keys: dict[Any, list[Row]] = {}
        for row in self._taken:
            keys.setdefault(row.key, []).append(row)
        for rows in keys.values():
            lifetimes = key_lifetimes(in_order(rows), self.bound_query.forget)
            found = self._row_results(lifetimes) if self.bound_query.per_row else self._slide_results(lifetimes)
            yield from found

    def _row_results(self, lifetimes: list[list[Row]]) -> Iterator[ReferenceResult]:
        for number, rows in enumerate(lifetimes):
            windows = [(spec, per_row(spec, rows)) for spec in self.bound_query.windows]
            for i, row in enumerate(rows):
                held = [(of_rows[i], not spec.full or len(of_rows[i]) == spec.size) for spec, of_rows in windows]
                cells = tuple(self._cell(output, held) for output in self.bound_query.projection.outputs)
                due = due_at(self.bound_query.windows, rows, i, self.bound_query.forget)
                yield ReferenceResult(row.number, number, "", row, None, None, due, cells)

    def _slide_results(self, lifetimes: list[list[Row]]) -> list[ReferenceResult]:
        found = []
        for w, spec in enumerate(self.bound_query.windows):
            ordinal = 0
            for number, rows in enumerate(lifetimes):
                restart = lifetimes[number + 1][0].time if number + 1 < len(lifetimes) else None
                for slide in slides(spec, rows, restart):
                    name = (rows[0].key, spec.name, slide.end if spec.slide == "time" else ordinal)
                    held = [(slide.rows, slide.full)] * len(self.bound_query.windows)
                    outputs = self.bound_query.projection.slides[w]
                    cells = tuple(NullCell() if one is None else self._cell(one, held) for one in outputs)
                    found.append(
                        ReferenceResult(name, number, spec.name, rows[0], slide.start, slide.end, slide.due, cells)
                    )
                    ordinal += 1
        return sorted(found, key=lambda result: result.end)

    def _cell(self, output: OutputSpec, held: Sequence[tuple[tuple[Row, ...], bool]]) -> AnyCell:
        """A result, from the rows of each window and whether it is full enough."""
        aggregates, least = self.bound_query.aggregates, self.query.min_periods
        cells = tuple(Cell(aggregates[cell.aggregate], *held[cell.window], least) for cell in output.cells)
        return cells[0] if output.tree is None else FormulaCell(output.tree, cells)

    # ---- emission ----

    def _to_emit(self, processed: bool) -> list[Emission]:
        """The results that this call emits."""
        if self.query.emit == "eager":
            return self._new_or_changed() if processed else []
        due = [result for result in self._results() if result.due.final(self._watermark_of(result.row.key))]
        if self.query.emit == "changes":
            due = list(only_changes(due))
        fresh = [result for result in due if result.name not in self._final]
        self._final.update(result.name for result in fresh)
        return [Emission(result, 0, 0) for result in fresh]

    def _watermark_of(self, key: Any) -> Number:
        """The watermark of a key: in sorted input the key's last time, or infinity once another key has begun."""
        if self.mode != "sorted" or self._watermark == math.inf:
            return self._watermark
        last = self._taken[-1]
        if last.key != key:
            return math.inf
        return last.time if last.time is not None else -math.inf

    def _new_or_changed(self) -> list[Emission]:
        changed = []
        found = {result.name: result for result in self._results()}
        gone = [result for name, result in self._last.items() if name not in found]
        nulls = tuple(NullCell() for _ in self._columns())  # of a slide that became empty
        for result in (*found.values(), *(replace(result, cells=nulls) for result in gone)):
            mark = (result.start, result.end, result.mark)
            last = self._emitted.get(result.name, Emitted(len(self._emitted), -1, None))
            if mark != last.mark:
                row = result.row.number if self.bound_query.per_row else last.row
                self._emitted[result.name] = Emitted(row, last.revision + 1, mark)
                changed.append(Emission(result, row, last.revision + 1))
        self._last = found
        return changed

    # ---- the output ----

    def _output(self, side: list[Row], emissions: list[Emission]) -> pa.RecordBatch:
        """The rows that are passed on with null aggregates, then the results."""
        results = [emission.result for emission in emissions]
        source = self._input_rows([row.number for row in side] + [result.row.number for result in results])
        made: dict[str, Any] = {
            "window": [result.window for result in results],
            "window_start": self._bounds([result.start for result in results]),
            "window_end": self._bounds([result.end for result in results]),
            "_late": [True] * len(side) + [False] * len(results),
            "_row": [row.number for row in side] + [emission.row for emission in emissions],
            "_revision": [0] * len(side) + [emission.revision for emission in emissions],
        }
        for i, (name, kind) in enumerate(self._columns()):
            made[name] = column([None] * len(side) + [result.cells[i].value for result in results], kind, name)
        schema = self.bound_query.output(self.mode)
        kept = source.schema.names if self.bound_query.per_row else self.bound_query.by
        columns = [
            source.column(field.name) if field.name in kept else _typed(made[field.name], field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        """The columns of results, with their types."""
        projection = self.bound_query.projection
        if not self.bound_query.per_row:
            return list(projection.results)
        return [(output.label, output.result) for output in projection.outputs]

    def _bounds(self, numbers: list[Any]) -> Any:
        """Starts or ends of windows in the type of the time column, clipped to 64 bits."""
        import numpy as np

        axis = self.bound_query.time
        if axis is None or self.bound_query.per_row:
            return numbers
        if axis.kind == "float":
            return axis.array(np.array(numbers, dtype=np.float64))
        return axis.array(np.array([min(max(n, -(2**63)), 2**63 - 1) for n in numbers], dtype=np.int64))

    def _input_rows(self, numbers: Sequence[int]) -> pa.RecordBatch:
        """Rows of the input by their arrival numbers."""
        schema = self.bound_query.schema
        table = pa.Table.from_batches(self._batches, schema).take(pa.array(numbers, type=pa.int64()))
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _typed(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return values.cast(kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)
