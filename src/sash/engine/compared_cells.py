"""The results that `emit="changes"` and `emit="eager"` compare, by value or by their inputs.

An exact result is compared by value, and so is a formula of exact results. The last digits of an inexact result depend
on the order of ⊕: it counts as changed if an input has entered or left the window. A formula with an inexact aggregate
is compared aggregate by aggregate. Results that are null because of too few inputs are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from sash.engine.aggregate_batch import is_exact
from sash.plan.bound_query import BoundQuery
from sash.plan.projection import OutputSpec, ResultCell


@dataclass(frozen=True)
class ComparedCell:
    """A result to compare: by the value of an output, or an aggregate over a window, by value or by its inputs."""

    type: pa.DataType
    exact: bool
    output: OutputSpec | None
    cell: ResultCell


def compared_cells(bound_query: BoundQuery, outputs: Iterable[OutputSpec | None]) -> list[ComparedCell]:
    """The cells to compare for some outputs; an aggregate that several of them use is listed once."""
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
