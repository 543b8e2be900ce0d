"""Results of `Reference`, and what two versions of a result are compared by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import Node
from sash.testing.arrival_oracle import alike
from sash.testing.window_oracle import Due, DueTogether, Row, aggregate, counted_inputs, inputs

if TYPE_CHECKING:
    from sash.plan.bound_query import AggregateSpec


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
    import pyarrow.types as types

    tests = (("bool", types.is_boolean), ("int", types.is_integer), ("float", types.is_floating))
    kinds: list[Any] = [kind for column in spec.types for kind, holds in tests if holds(column)]
    if len(kinds) < len(spec.types) or spec.monoid.interpreted_only:
        return spec.monoid.exact
    return spec.monoid.typed(*kinds).exact
