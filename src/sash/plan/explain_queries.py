"""Print the plan of several queries: which share a state, what is shared in it, and the ⊕ that this saves.

>>> import sash
>>> both = sash.Queries(short=sash.Query(10, high=sash.max("x")), long=sash.Query(50, high=sash.max("x")))
>>> print(both.explain())
Queries: short, long
(no schema was given; assumed: x double)
...

Estimate the calls of ⊕ of a plan: per row, and for slides per key and unit of time.

Costs of structures are the averages of the catalogue. A row that is folded into a pane or a running partial costs one
⊕; a pane that enters a window costs an insert and an eviction, a slide one query. Where each row is a pane of its own,
because a window has an order statistic, rows are not folded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sash.aggregators.catalogue import CATALOGUE
from sash.plan import dispatch
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.explain import ELEMENTS, assumption, default_schema, indented, keyed, table
from sash.plan.planner import FOLD, SEVERAL_SIZES, Plan, WindowGroup, asked_windows, but_size, plan
from sash.plan.queries import Combination, CombinedQuery
from sash.plan.slicing import Slicing, slicing_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.queries import Queries


# --- Operation costs ---

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
    size = int(spec.rule.size) if spec.rule.measure == "rows" else TYPICAL
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


# --- Explain queries ---


def explain_queries(queries: Queries, schema: pa.Schema | None, sample: Any) -> str:
    """The plan of several queries as text. Raises as `Query.plan` does; a note names the query."""
    lines = [f"Queries: {', '.join(queries.queries)}"]
    counted = []
    if sample is not None:
        counted = dispatch.host("sash.engine.operation_counts", "counting").count_operations(queries, sample)
    if schema is None and counted:
        schema = counted[0].schema
    if schema is None:
        schema = _assumed(queries)
        lines.append(assumption(schema))
    groups = queries.groups()
    for number, group in enumerate(groups, 1):
        lines += ["", f"state {number} of {len(groups)}: {', '.join(group.members)}", *indented(_group(group, schema))]
        lines += [] if sample is None else indented(_counts(counted[number - 1], group.bind(schema)))
    if len(groups) > 1:
        lines += ["", "why apart", *indented(_differences(groups))]
    return "\n".join(lines) + "\n"


def _assumed(queries: Queries) -> pa.Schema:
    """The columns that all queries read; a combined query has the keys of its first member only."""
    schema = default_schema(CombinedQuery(queries.queries))
    for query in queries.queries.values():
        for field in default_schema(query):
            schema = schema if field.name in schema.names else schema.append(field)
    return schema


def _group(group: CombinedQuery, schema: pa.Schema) -> list[str]:
    """One state: its keys and order, what its queries share, and what it costs."""
    if group.emit != "final":
        each = "each result depends on the one before" if len(group.members) == 1 else "equal queries, computed once"
        return [
            f"emit={group.emit!r}: {each}",
            *_costs(group, schema, plan(next(iter(group.members.values())).bind(schema))),
        ]
    combination = group.combination(schema)
    found = combination.bound_query.plan
    lines = [f"{keyed(group)}; ordered by {', then '.join((*group.on, 'the order of arrival'))}"]
    lines += table((name, *_results(view.bound_query)) for name, view in combination.members.items())
    return [*lines, *_shared(combination, found), *_elements(found), *_costs(group, schema, found)]


def _results(bound_query: BoundQuery) -> tuple[str, str]:
    """When a query has results, and its windows."""
    windows = ", ".join(repr(spec.window) for spec in bound_query.windows)
    return "at each row" if bound_query.per_row else "at slides", windows


# ---- sharing ----


def _shared(combination: Combination, found: Plan) -> list[str]:
    """Windows and aggregates that several queries have, and states that several aggregates have."""
    lines = []
    of_windows, of_aggregates = _users(combination, "windows"), _users(combination, "aggregates")
    for place, names in of_windows.items():
        if len(names) > 1:
            lines.append(f"{found.bound_query.windows[place].window!r}: bounds found once for {', '.join(names)}")
    for number, names in of_aggregates.items():
        if len(names) > 1:
            lines.append(f"{_aggregate(found, number)}: rows lifted once for {', '.join(names)}")
    for owner, *others in found.states:
        if others:
            lowered = ", ".join(_aggregate(found, member.number) for member in others)
            lines.append(f"{_aggregate(found, owner.number)}: one state, from which {lowered} is lowered")
    for number in range(len(found.bound_query.aggregates)):
        several = [place for place, a in found.choices if a == number]
        used = {found.choices[place, number].structure for place in several}
        for structure in sorted(used & {*SEVERAL_SIZES}):
            sizes = sum(found.choices[place, number].structure == structure for place in several)
            lines.append(f"{_aggregate(found, number)}: one {structure} answers {sizes} windows")
    return lines


def _users(combination: Combination, what: str) -> dict[int, list[str]]:
    """By number: the queries that have a window or an aggregate."""
    found: dict[int, list[str]] = {}
    for name, view in combination.members.items():
        for place in dict.fromkeys(getattr(view, what)):
            found.setdefault(place, []).append(name)
    return dict(sorted(found.items()))


def _aggregate(found: Plan, number: int) -> str:
    spec = found.bound_query.aggregates[number]
    return f"{spec.monoid.name or 'aggregate'}({', '.join(spec.columns)})"


def _elements(found: Plan) -> list[str]:
    """The elements of each group of windows, and how panes are cut."""
    lines = []
    for group in found.groups:
        specs = [found.bound_query.windows[place] for place in group.windows]
        names = f"{len(specs)} windows" if len(specs) > 1 else repr(specs[0].window)
        lines.append(f"{names}: {ELEMENTS[group.elements]}{', kept once' if len(specs) > 1 else ''}")
        if group.kind.endswith("panes") and not group.single_rows:
            slicing = slicing_of(specs)
            calendar = "cut where a window starts or ends, by the calendar"
            lines.append(f"  {calendar if slicing is None else _slicing(slicing, group.kind, found)}")
    return lines


def _slicing(slicing: Slicing, kind: str, found: Plan) -> str:
    scale, unit = _unit(found.bound_query) if kind == "time panes" else (1.0, "row")
    rates = ", ".join(f"{name} {float(rate) * scale:.4g}" for name, rate in slicing.rates.items())
    return f"cut by {slicing.technique}: {slicing.why} (partials per {unit}: {rates})"


def _unit(bound_query: BoundQuery) -> tuple[float, str]:
    """How many units of the time column a second has, and what they are called."""
    time = bound_query.time
    return (1e9 / time.unit, "second") if time is not None and time.timed else (1.0, "unit of time")


# ---- costs ----


def _costs(group: CombinedQuery, schema: pa.Schema, found: Plan) -> list[str]:
    """The estimated calls of ⊕: of the queries together, and of each alone."""
    together, apart = cost_of(found), OperationCost()
    for query in group.members.values():
        apart += cost_of(plan(query.bind(schema)))
    scale, unit = _unit(found.bound_query)
    lines = [_cost("⊕ per row", together.per_row, apart.per_row)]
    if apart.per_time:
        lines.append(_cost(f"⊕ per {unit} and key at slides", together.per_time * scale, apart.per_time * scale))
    return lines


def _cost(what: str, together: float, apart: float) -> str:
    return f"{what}, estimated: {together:.4g} together, {apart:.4g} apart{_saved(together, apart)}"


def _saved(together: float, apart: float) -> str:
    return f", {apart / together:.3g}× fewer" if together and apart > together else ""


def _counts(counted: Any, bound_query: BoundQuery) -> list[str]:
    """The ⊕ that the queries have taken on a sample (`engine.counted_run`): all, and for each unit of its time."""
    apart = sum(counted.apart.values())
    each = ", ".join(f"{name} {number:,}" for name, number in counted.apart.items())
    saved = _saved(counted.together, apart)
    lines = [f"⊕ on {counted.rows:,} rows, counted: {counted.together:,} together, {apart:,} apart ({each}){saved}"]
    scale, unit = _unit(bound_query)
    if duration := counted.duration / scale:
        lines.append(f"⊕ per {unit}, counted: {counted.together / duration:.4g} together, {apart / duration:.4g} apart")
    return lines


def _differences(groups: list[CombinedQuery]) -> list[str]:
    """For each group but the first: why it shares no state with those before it."""
    lines = []
    for number, group in enumerate(groups[1:], 1):
        found = dict.fromkeys(why for other in groups[:number] for why in _apart(other, group))
        lines.append(f"{', '.join(group.members)}: {', '.join(found)}")
    return lines


def _apart(one: CombinedQuery, other: CombinedQuery) -> list[str]:
    """The arguments in which two groups differ, or what else keeps them apart."""
    if differ := one.differences(other):
        return [f"{name}={getattr(other, name)!r}" for name in differ]
    if other.emit != "final":
        return [f"emit={other.emit!r} shares state among equal queries only"]
    return ["windows that end after their rows, moved by another amount"]
