"""LoopAggregate: one aggregate of a window in a loop: the monoid, the columns it reads, and a structure.

The planner chooses the structure as for a query. Windows that do not evict single rows use a running fold instead.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NoReturn, Self

from sash.aggregators.base import State, require
from sash.aggregators.catalogue import IN_ORDER, sequential
from sash.aggregators.in_order import InOrder
from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import Node
from sash.loop.evictor import Evictor, event_inputs, length
from sash.monoids.algebra import Bound, Monoid
from sash.monoids.arithmetic import Formula
from sash.plan import validation
from sash.plan.api_types import Prefer, StructureName
from sash.plan.options import PREFERENCES
from sash.plan.planner import FOLD, choose
from sash.plan.time_axis import Number
from sash.plan.validation import halflife_of


class RunningFold:
    """The aggregate of all elements that were pushed."""

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid
        self.total: State = monoid.identity

    def push(self, v: State) -> None:
        self.total = self.monoid.combine(self.total, v)

    def drop(self, n: int) -> NoReturn:
        raise AssertionError(f"{n} elements cannot leave a folded window")

    def aggregate(self) -> State:
        return self.total

    def clear(self) -> None:
        self.total = self.monoid.identity

    def copy(self) -> Self:
        return copy.copy(self)


class AggregateFailed(Exception):
    """An expression, `lift` or `lower` of an aggregate has raised an exception."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(str(error))
        self.name, self.error = name, error


class LoopResult:
    """A result of a window in a loop: an aggregate, or a formula of several.

    Raises ValueError for an aggregate with a window of its own.
    """

    def __init__(self, name: str, result: Any) -> None:
        self.name, self.result = name, result
        self.tree: Node | None = None
        self.leaves: list[tuple[str, Any]] = [(name, result)]
        """The aggregates that it needs, by name."""
        if isinstance(result, Formula):
            found = list(result.leaves())
            self.leaves = [(f"{name}: {leaf!r}" if name else repr(leaf), leaf) for leaf in found]
            self.tree = result.tree(iter(range(len(found))))
        for _, leaf in self.leaves:
            if isinstance(leaf, Bound):
                leaf.require_columns()
            if isinstance(leaf, Bound) and leaf.window is not None:
                raise ValueError(
                    f"{leaf!r} has a window of its own, and sash.Window has one for all: make a Window for each, or a "
                    "sash.Query"
                )

    def value(self, values: Iterator[Any]) -> Any:
        """The result, from the next values of aggregates."""
        if self.tree is None:
            return next(values)
        operands = [next(values) for _ in self.leaves]
        return row_value(self.tree, lambda number: operands[int(number)])

    def __repr__(self) -> str:
        return repr(self.result)


class LoopAggregate:
    """One aggregate of a window.

    Raises TypeError if it is not an aggregate, or the forced structure does not accept it; ValueError for a sketch if
    the window needs one for each event.
    """

    def __init__(
        self, name: str, aggregate: Any, evictor: Evictor[Any], prefer: Prefer, structure: StructureName | None
    ) -> None:
        if not isinstance(aggregate, Bound | Monoid):
            label = f"{name}=" if name else "the aggregate of a Window"
            raise TypeError(
                f"{label} must be a monoid such as sash.monoids.Max(), or bound to columns, such as sash.max('price'); "
                f"got {aggregate!r}, a {type(aggregate).__name__}"
            )
        self.name, self.aggregate = name, aggregate
        self.bound = aggregate if isinstance(aggregate, Bound) else None
        self.monoid: Monoid = aggregate.monoid if isinstance(aggregate, Bound) else aggregate
        self.inputs = self.monoid.arity[0]
        self.halflife = halflife_of(self.monoid, repr(aggregate))
        """The half-life of the aggregate, if it is measured in time."""
        if self.halflife is not None:
            self.monoid = self.monoid.by_time(length(self.halflife))
        if not evictor.folds and validation.is_sketch(self.monoid):
            raise ValueError(
                f"{aggregate!r} keeps a sketch, and {evictor.window!r} would need one for each event: here sketches "
                "need Lifetime, Session or Punctuation, in a sash.Query windows with every=; use the exact "
                f"{validation.exact_instead(self.monoid)}"
            )
        chosen = _structure(self.monoid, prefer, structure)
        self.structure: InOrder | RunningFold = RunningFold(self.monoid) if evictor.folds else chosen(self.monoid)
        self.monoid = self.structure.monoid
        self.nullable = self.monoid.nullable
        self.last = -1
        """The number of the last event with a value: the window has a value if it is not older than the window."""

    @property
    def structure_name(self) -> str:
        return FOLD if isinstance(self.structure, RunningFold) else type(self.structure).__name__

    def lifted(self, x: Any, now: Number | None) -> tuple[bool, State]:
        """Whether the event has a value for this aggregate, and its lifted state.

        Raises TypeError if the aggregate reads the time and there is none, AggregateFailed if it fails on the event.
        """
        if self.bound is not None:
            try:
                values = event_inputs(x, self.bound)
            except ValueError as error:  # of an expression; a missing column is a KeyError
                raise AggregateFailed(self.name, error) from None
        else:
            values = x if self.inputs > 1 and isinstance(x, tuple) else (x,)
        if self.halflife is not None:
            if now is None:
                raise TypeError(f"{self.aggregate!r} has its halflife= in time: push(x, time)")
            values = (*values, now)
        for position, value in enumerate(values):
            if value is None and position not in self.nullable:
                return False, self.monoid.identity
        try:
            return True, self.monoid.lift(*values)
        except Exception as error:
            raise AggregateFailed(self.name, error) from None

    def result(self, oldest: int) -> Any:
        """The aggregate, lowered; `empty` if no event from the oldest on has a value. Raises AggregateFailed."""
        if self.last < oldest:
            return self.monoid.empty
        found = self.structure.aggregate()
        try:
            return self.monoid.lower(found)
        except Exception as error:
            raise AggregateFailed(self.name, error) from None

    def insert(self, number: int, present: bool, state: State) -> None:
        """Insert the event of this number, as `lifted` returned it."""
        self.structure.push(state)
        if present:
            self.last = number

    def evict(self, count: int) -> None:
        """Evict the n oldest events."""
        self.structure.drop(count)

    def evict_all(self) -> None:
        """Drop all events."""
        self.structure.clear()

    def clear(self) -> None:
        """Reset to an empty window."""
        self.last = -1
        self.structure.clear()

    def copy(self) -> Self:
        twin = copy.copy(self)
        twin.structure = self.structure.copy()
        return twin

    def __repr__(self) -> str:
        return repr(self.aggregate)


def _structure(monoid: Monoid, prefer: Prefer, structure: str | type[InOrder] | None) -> type[InOrder]:
    if prefer not in PREFERENCES:
        raise ValueError(f"prefer= must be 'throughput' or 'latency'; got {prefer!r}")
    if structure is None:
        return sequential(choose(monoid, prefer).structure)
    if isinstance(structure, type) and issubclass(structure, InOrder):
        structure = structure.__name__
    if structure not in IN_ORDER:
        raise ValueError(f"structure= must be one of {', '.join(IN_ORDER)}; got {structure!r}")
    record = IN_ORDER[structure]
    require(record.cls, monoid)
    if prefer == "latency" and not record.constant:
        raise ValueError(
            f"structure={structure!r} has steps that are not of constant cost, which prefer='latency' requires"
        )
    return sequential(structure)
