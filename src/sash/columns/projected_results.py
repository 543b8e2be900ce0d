"""Compute the output columns from the results of aggregates over windows: formulas, and nulls below `min_periods`.

cells (window, aggregate) ──▶ null below min_periods ──▶ formula ──▶ a column of results

The results that `emit="changes"` and `emit="eager"` compare, by value or by their inputs.

An exact result is compared by value, and so is a formula of exact results. The last digits of an inexact result depend
on the order of ⊕: it counts as changed if an input has entered or left the window. A formula with an inexact aggregate
is compared aggregate by aggregate. Results that are null because of too few inputs are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.failed_rows import REMEDY, FailedResults
from sash.kernels.loops.array_types import Flags
from sash.plan.bound_query import BoundQuery
from sash.plan.projection import OutputSpec, ResultCell

if TYPE_CHECKING:
    from sash.columns.lowered_results import CountedColumn

# --- Projected results ---

ReadPair = Callable[[int, int], pa.Array]
"""The results of an aggregate over a window, by their numbers: `read(window, aggregate)`."""


class Projector:
    """Computes the results of a query."""

    def __init__(self, bound_query: BoundQuery) -> None:
        self.projection, self.results = bound_query.projection, bound_query.projection.results
        self.is_plain = self.projection.is_plain
        self.tolerant = bound_query.query.options.failed == "side"
        self.failures = FailedResults()
        """The results of formulas that have failed and are null, until its owner clears them."""

    def enough(self, cell: ResultCell, read: ReadPair) -> pa.Array | None:
        """Where an aggregate has at least `min_periods` inputs; None: everywhere."""
        if cell.counter is None:
            return None
        counts = read(cell.window, cell.counter)
        return pc.fill_null(pc.greater_equal(counts, pa.scalar(self.projection.min_periods, pa.int64())), False)

    def cell(self, cell: ResultCell, read: ReadPair) -> pa.Array:
        """The results of an aggregate over a window, null where it has fewer than `min_periods` inputs."""
        enough = self.enough(cell, read)
        values = read(cell.window, cell.aggregate)
        if enough is None:
            return values
        from sash.expressions.arrow_functions import masked

        return masked(values, enough)

    def output(self, output: OutputSpec, read: ReadPair, counted: bool = True) -> pa.Array:
        """A column of results. Raises ValueError, naming it, for an integer that does not fit 64 bits.

        If results that fail are set aside they are null, and `counted`.
        """
        cells = [self.cell(cell, read) for cell in output.cells]
        if output.tree is None:
            return cells[0]
        from sash.expressions.arrow_evaluation import failing_rows, unchecked
        from sash.expressions.arrow_functions import masked

        try:
            return unchecked(output.tree, lambda number: cells[int(number)], len(cells[0]))
        except pa.ArrowInvalid as error:
            text = f"the result {output.name!r}, {output.text}, does not fit its type: {error}"
            if not self.tolerant:
                raise ValueError(f"{text}; {REMEDY}") from None
        failed = failing_rows(output.tree, lambda number: cells[int(number)], len(cells[0]))
        if counted:
            self.failures.note(len(failed), text)
        fits = np.ones(len(cells[0]), np.bool_)
        fits[list(failed)] = False
        cells = [masked(column, pa.array(fits)) for column in cells]
        return unchecked(output.tree, lambda number: cells[int(number)], len(cells[0]))

    def outputs(self, read: ReadPair) -> list[pa.Array]:
        """All results at each row, or of a lookup."""
        return [self.output(one, read) for one in self.projection.outputs]

    def of_rows(self, found: Sequence[Sequence[CountedColumn]]) -> list[pa.Array]:
        """All results at each row of a step, from the cells of each window."""
        if self.is_plain:
            return [cell.column for cells in found for cell in cells]
        return self.outputs(lambda window, aggregate: found[window][aggregate].column)

    def of_slides(self, window: int, rows: int, read: ReadPair) -> list[pa.Array]:
        """The results of a window's slides; nulls for those of other windows."""
        found = []
        for (_, kind), one in zip(self.results, self.projection.slides[window], strict=True):
            found.append(pa.nulls(rows, kind) if one is None else self.output(one, read))
        return found


def flags(column: pa.Array) -> Flags:
    """A column of booleans without nulls as an array."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


# --- Compared cells ---


@dataclass(frozen=True)
class ComparedCell:
    """A result to compare: by the value of an output, or an aggregate over a window, by value or by its inputs."""

    type: pa.DataType
    exact: bool
    output: OutputSpec | None
    cell: ResultCell


def compared_cells(bound_query: BoundQuery, outputs: Iterable[OutputSpec | None]) -> list[ComparedCell]:
    """The cells to compare for some outputs; an aggregate that several of them use is listed once."""
    from sash.columns.aggregate_batch import is_exact

    found: dict[object, ComparedCell] = {}
    for place, output in enumerate(outputs):
        if output is None:
            continue
        exact = [is_exact(bound_query.aggregates[cell.aggregate]) for cell in output.cells]
        if output.tree is not None and all(exact):
            found[place] = ComparedCell(output.result, True, output, output.cells[0])
            continue
        for cell, by_value in zip(output.cells, exact, strict=True):
            kind = bound_query.aggregates[cell.aggregate].result
            key = place if bound_query.projection.is_plain else cell
            found[key] = ComparedCell(kind, by_value, None, cell)
    return list(found.values())
