"""Estimate the calls of ⊕ of a plan: per row, and for slides per key and unit of time.

Costs of structures are the averages of the catalogue. A row that is folded into a pane or a running partial costs one
⊕; a pane that enters a window costs an insert and an eviction, a slide one query. Where each row is a pane of its own,
because a window has an order statistic, rows are not folded.
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.aggregators.catalogue import CATALOGUE
from sash.plan.bound_query import WindowSpec
from sash.plan.planner import FOLD, SEVERAL_SIZES, Plan, WindowGroup, asked_windows, but_size
from sash.plan.slicing import slicing_of

TYPICAL = 1024
"""The number of elements in a window, where costs depend on it and its size is unknown."""


@dataclass(frozen=True)
class OperationCost:
    """A number of ⊕: per row, and per unit of time and key."""

    per_row: float = 0.0
    per_time: float = 0.0

    def __add__(self, other: OperationCost) -> OperationCost:
        return OperationCost(self.per_row + other.per_row, self.per_time + other.per_time)


def cost_of(plan: Plan) -> OperationCost:
    """The estimated calls of ⊕ of a plan on a stream."""
    found = OperationCost()
    for group in plan.groups:
        for owner, *others in plan.states:
            asked = asked_windows(plan.bound_query, (owner, *others), group)
            if asked:
                found += _state(plan, group, owner.number, asked)
    return found


def _state(plan: Plan, group: WindowGroup, number: int, asked: tuple[int, ...]) -> OperationCost:
    """The ⊕ of one state over the windows of a group."""
    specs = [plan.bound_query.windows[place] for place in asked]
    if group.kind == "running":
        return OperationCost(float(len(asked)))
    names = [plan.choices[place, number].structure for place in asked]
    structures: dict[tuple[str, object], list[WindowSpec]] = {}
    for place, spec, name in zip(asked, specs, names, strict=True):
        structures.setdefault((name, but_size(spec) if name in SEVERAL_SIZES else place), []).append(spec)
    updates = sum(_update(name, of) for (name, _), of in structures.items())
    queries = [(spec, _average(name, "query", spec)) for spec, name in zip(specs, names, strict=True)]
    if group.kind == "rows" or group.single_rows:
        return OperationCost(updates) + _queried(queries)
    slicing = slicing_of([plan.bound_query.windows[place] for place in group.windows])
    rate = float(slicing.rate) if slicing is not None else sum(2 / float(spec.every or 1) for spec in specs)
    if group.kind == "row panes":
        return OperationCost(1 + updates * rate) + _queried(queries)
    return OperationCost(1.0, updates * rate) + _queried(queries)


def _update(name: str, specs: list[WindowSpec]) -> float:
    """An insert and an eviction, in the longest of the windows that a structure answers."""
    longest = max(specs, key=lambda spec: spec.size or 0)
    return _average(name, "insert", longest) + _average(name, "evict", longest)


def _average(name: str, operation: str, spec: WindowSpec) -> float:
    if name == FOLD:
        return float(operation == "insert")
    size = int(spec.size or TYPICAL) if spec.kind == "count" else TYPICAL
    return float(CATALOGUE[name].average[operation].at(size))


def _queried(queries: list[tuple[WindowSpec, float]]) -> OperationCost:
    """The ⊕ of results: one for each row, or one for each slide in rows or in time."""
    found = OperationCost()
    for spec, cost in queries:
        if spec.slide == "time":
            found += OperationCost(0.0, cost / float(spec.every or 1))
        else:
            found += OperationCost(cost / float(spec.every or 1) if spec.slide == "rows" else cost)
    return found
