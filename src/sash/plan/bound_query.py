"""A query bound to a schema: sizes in units of their columns, aggregates with their types.

BoundQuery ─┬─ time: TimeAxis                  the column that windows are measured on
            ├─ windows: WindowSpec, …          the windows, in the order of the query
            └─ aggregates: AggregateSpec, …    the aggregates, in the order of the query
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from sash.expressions.tree import ColumnNode, Node
from sash.monoids.algebra import Monoid
from sash.plan.api_types import Mode
from sash.plan.categories import Categories, without_categories
from sash.plan.projection import OutputSpec, Projection
from sash.plan.schema_cache import Prepared
from sash.plan.time_axis import Number, TimeAxis
from sash.windows.rules import BoundLengths, WindowRule
from sash.windows.specs import Slide, WindowKind

if TYPE_CHECKING:
    from sash.plan.planner import Plan
    from sash.plan.query import Query

__all__ = ["AggregateSpec", "BoundQuery", "TimeAxis", "WindowSpec"]

MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True)
class AggregateSpec:
    """An aggregate with the types of its columns (without dictionary encoding) and of its result.

    `categories` are the values of ordered categories from the least, for each column that is compared; `encoding` is
    the dictionary type of the output, if results are values of a dictionary column.
    """

    name: str
    monoid: Monoid
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    result: pa.DataType
    trees: tuple[Node, ...] = ()
    """The expression of each column; a `ColumnNode` if it is a column of the data."""
    categories: tuple[Categories | None, ...] = ()
    encoding: pa.DataType | None = None
    state_name: str = ""
    """The name in stored state, if it is another."""

    @cached_property
    def prepared(self) -> Prepared:
        """What executors have computed for it, such as its kernels."""
        return Prepared()

    @property
    def stored_name(self) -> str:
        """The name in stored state, which a fingerprint depends on."""
        return self.state_name or self.name

    @cached_property
    def derived(self) -> tuple[tuple[str, Node], ...]:
        """The derived columns by name; most aggregates have none."""
        pairs = zip(self.columns, self.trees, strict=False)
        return tuple((name, tree) for name, tree in pairs if not isinstance(tree, ColumnNode))

    def reads(self) -> Iterator[str]:
        """The columns of the data that it reads."""
        yield from (name for tree in self.trees for name in tree.columns())

    @property
    def output_type(self) -> pa.DataType:
        """The type of the results in the output."""
        return self.result if self.encoding is None else self.encoding

    def categories_of(self, column: int) -> Categories | None:
        """The ordered categories of a column, from the least; None if it has none."""
        return self.categories[column] if column < len(self.categories) else None

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The results of `lower` as a column of the result's type."""
        from sash.plan.types import column

        return column(values, self.result, self.name)


@dataclass(frozen=True, kw_only=True)
class WindowSpec(BoundLengths):
    """A window, bound to a schema: its lengths in units of the axis."""

    name: str
    window: WindowKind
    slide: Slide
    full: bool
    axis: TimeAxis | None
    column: str | None
    over: tuple[AggregateSpec, ...]

    @property
    def kind(self) -> str:
        """The kind of the window by name, for descriptions and the identity of state."""
        return self.window.kind

    @cached_property
    def rule(self) -> WindowRule:
        """Where it begins and ends."""
        return self.window.rule(self)

    @property
    def behind(self) -> Number:
        """The distance from the window's start to its row; negative if the start is after the row."""
        return (self.size or 0) - self.shift


@dataclass(frozen=True)
class BoundQuery:
    """A query with the types of its columns."""

    query: Query
    schema: pa.Schema
    by: tuple[str, ...]
    time: TimeAxis | None
    ties: tuple[str, ...]
    lateness: Number | None
    forget: Number | None
    ahead: Number | None
    windows: tuple[WindowSpec, ...]
    aggregates: tuple[AggregateSpec, ...]
    per_row: bool
    projection: Projection

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify the state of the query; computed only where there is state."""
        from sash.plan.fingerprint import fingerprint

        return fingerprint(self)

    @cached_property
    def plan(self) -> Plan:
        """The plan: structures and shared state. Raises TypeError for an unfit `Options(structure=)`."""
        from sash.plan.planner import plan

        return plan(self)

    @cached_property
    def is_stateless(self) -> bool:
        """Can a host that has all rows compute the results without state?"""
        return (
            self.per_row
            and self.query.emit == "final"
            and self.forget is None
            and all(spec.slide == "row" and spec.rule.measure != "policy" for spec in self.windows)
        )

    @cached_property
    def looks_ahead(self) -> bool:
        """Does a window hold rows after its own row?"""
        return any(spec.shift > 0 for spec in self.windows)

    def output(self, mode: str = "rows") -> pa.Schema:
        """The schema of an operator's results in a mode: "rows", "given" or "sorted".

        Raises ValueError for another mode.
        """
        if mode not in MODES:
            raise ValueError(f"mode= must be one of {', '.join(map(repr, MODES))}; got {mode!r}")

        fields = self._row_fields(mode) if self.per_row else self._slide_fields()
        if self.query.emit == "eager":
            fields += [pa.field("_row", pa.int64()), pa.field("_revision", pa.int64())]
        return pa.schema(fields)

    def _row_fields(self, mode: str) -> list[pa.Field]:
        fields = [_wide(field) for field in self.schema]
        fields += [pa.field(output.label, self.output_type(output)) for output in self.projection.outputs]
        if self.query.late == "flag" and mode != "sorted":
            fields.append(pa.field("_late", pa.bool_()))
        return fields

    def _slide_fields(self) -> list[pa.Field]:
        bound = pa.int64() if self.time is None else self.time.type
        fields = [_wide(self.schema.field(name)) for name in self.by]
        fields += [pa.field("window", pa.string())] if any(spec.name for spec in self.windows) else []
        fields += [pa.field("window_start", bound), pa.field("window_end", bound)]
        types = {output.name: self.output_type(output) for output in self.projection.outputs}
        return fields + [pa.field(name, types[name]) for name, _ in self.projection.results]

    def output_type(self, output: OutputSpec) -> pa.DataType:
        """The type of a column of results: a dictionary type, if they are values of a dictionary column."""
        return output.result if output.tree is not None else self.aggregates[output.cells[0].aggregate].output_type


def _wide(field: pa.Field) -> pa.Field:
    """A field of results: indices of dictionaries are wide enough for the values of many batches."""
    return without_categories(field).with_type(wide_type(field.type))


def wide_type(kind: pa.DataType) -> pa.DataType:
    """A type of results: indices of dictionaries have 32 bits at least."""
    if not pa.types.is_dictionary(kind) or kind.index_type.bit_width >= 32:
        return kind
    return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
