"""The planner: for each window and aggregate the structure whose needs hold and whose cost is least.

spans ──▶ series: which windows share one store of elements      (span, part) ──▶ structure, and why

rows      single rows, shared by all windows that end at a row, and by Count windows that slide in time
slices    partials between the starts and ends of Time windows that slide in time; one series per `closed`
counted   partials between the starts and ends of Count windows that slide in rows
running   one partial a key: Session, Punctuation, Lifetime
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from sash import monoids as m
from sash.aggregators.catalogue import CATALOGUE, IN_ORDER, Record
from sash.monoids.algebra import Monoid
from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
from sash.plan.state_sharing import Member, shared_states
from sash.plan.types import kind

DEQUE_SIZES = 8
"""From how many sizes on one SlickDequeNonInv answers for all, in place of one TwoStacksLite each.

Measured on the live engine, a maximum of floats, calls of 100,000 rows, windows of 10 to 200 rows; how much faster the
deque is at 2, 3, 5, 8, 20, 50 sizes:

    1,000 keys   at each row, Count   1.08  0.99  1.23  1.10  1.18  1.30
                 at each row, Time    0.97  1.16  1.21  1.10  1.17  1.25
                 slides of 1 s        0.85     –     –  1.02  0.87     –
    one key      at each row             –     –     –  0.94  0.98     –
                 slides of 1 s           –     –     –  1.02  1.05     –

⊕ of a maximum costs next to nothing, and writing the results is most of the work. What it saves as well is memory: with
20 sizes of up to 1,000 rows an operator held 143 MB instead of 657 MB.
"""

INDEX_SIZES = 8
"""The same for one FlatFIT, where ⊕ neither selects a value nor has an exact inverse.

A sum of floats at 3, 5, 8, 20 sizes, measured the same way, on a busy machine (two runs differed by up to 0.3):

    1,000 keys   at each row, Count   0.90  1.19  1.29  2.07
                 at each row, Time    1.01  1.21  1.19  1.30
                 slides of 1 s        0.74  1.01  1.03  0.90
    one key      at each row, Count      –  1.01  0.96  1.23
                 slides of 1 s           –  1.27  1.17  1.08

A variance, whose ⊕ costs more, gained 1.2 at 8 sizes and 1.7 at 20, at each row. With an exact inverse no structure for
several sizes is chosen. For a sum of integers FlatFIT against one SubtractOnEvict a size: 0.9 at 8 sizes of rows, 0.8
with slides, 0.8 to 1.0 on one key; only at 20 sizes and 1,000 keys it was ahead, by 1.3 to 1.5. SlickDequeInv, which
knows its ranges only where they are numbers of rows, ran on a column at 0.5 with 2 sizes, 0.9 with 10, 1.0 with 20.
"""

SEVERAL_SIZES = ("SlickDequeNonInv", "FlatFIT")
"""The structures of which one in a slot answers for all windows that differ only in size."""

FOLD = "running fold"
"""What a running series needs in place of a structure."""

ElementKind = Literal["rows", "slices", "counted", "running"]


@dataclass(frozen=True)
class WindowGroup:
    """Which spans, by their places in the query, share one store of elements."""

    kind: ElementKind
    windows: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """A structure of the catalogue (or the running fold), and why."""

    structure: str
    why: str


@dataclass(frozen=True)
class Plan:
    """How a query is computed: what is shared, and a structure for each (span, part).

    `states` are the aggregates by the state that they are lowered from: the first of each group keeps it.
    """

    bound_query: BoundQuery
    series: tuple[WindowGroup, ...]
    choices: Mapping[tuple[int, int], Choice]
    states: tuple[tuple[Member, ...], ...]

    def __str__(self) -> str:
        from sash.plan.explain import explained

        return explained(self)


BULK = Choice("AMTA", "a policy gives up any number of rows at once, in a logarithmic number of ⊕")
"""For windows that a policy slides."""


def plan(bound_query: BoundQuery) -> Plan:
    """The plan of a query. Raises TypeError, naming the missing property, if the options force what cannot be."""
    series, states = shared(bound_query), _states(bound_query)
    choices = {}
    for one in series:
        for place in one.windows:
            sizes = len({bound_query.windows[other].size for other in siblings(bound_query, one, place)})
            in_bulk = bound_query.windows[place].kind == "policy"
            for keeper, *others in states:
                choice = choices[place, keeper.number] = _choice(bound_query, one, keeper.part, sizes, in_bulk)
                for member in others:
                    _choice(
                        bound_query, one, member.part, sizes, in_bulk
                    )  # raises, if the options force what it cannot have
                    choices[place, member.number] = _lowered(choice, keeper, member)
    return Plan(bound_query, series, MappingProxyType(dict(sorted(choices.items()))), states)


def _states(bound_query: BoundQuery) -> tuple[tuple[Member, ...], ...]:
    """The aggregates by state. The trees of emit="eager" hold one aggregate each."""
    if bound_query.query.emit == "eager":
        return tuple((Member(number, part, "itself"),) for number, part in enumerate(bound_query.aggregates))
    return shared_states(bound_query.aggregates)


def _lowered(choice: Choice, keeper: Member, member: Member) -> Choice:
    why = "the values that {} counts" if member.reads == "count" else "lowered from the state of {}"
    return Choice(choice.structure, why.format(keeper.part.name))


# ---- what is shared ----


def shared(bound_query: BoundQuery) -> tuple[WindowGroup, ...]:
    """The series, in the order of their first windows."""
    groups: dict[Any, list[int]] = {}
    for place, span in enumerate(bound_query.windows):
        found = element_kind(span)
        apart = place if found == "running" else span.closed if found == "slices" else None
        groups.setdefault((found, apart), []).append(place)
    return tuple(WindowGroup(kind, tuple(places)) for (kind, _), places in groups.items())


def element_kind(span: WindowSpec) -> ElementKind:
    """What a window's elements are."""
    if span.kind in ("session", "punctuation", "lifetime"):
        return "running"
    if span.kind == "time" and span.slide == "time":
        return "slices"
    return "counted" if span.kind == "count" and span.slide == "rows" else "rows"


def at_rows(bound_query: BoundQuery) -> bool:
    """Can a host that has all rows compute each result from the table alone, without state?"""
    query = bound_query.query
    return (
        bound_query.per_row
        and query.emit == "final"
        and bound_query.forget is None
        and all(span.slide == "row" and span.kind != "policy" for span in bound_query.windows)
    )


SWEPT: tuple[type[Monoid], ...] = (m.Max, m.Min, m.ArgMax, m.ArgMin, m.Sum, m.Mean, m.Var, m.Std, m.Count)
"""The aggregates that have kernels of whole columns (`sash.kernels.column`)."""


def swept(bound_query: BoundQuery, part: AggregateSpec) -> bool:
    """Does an aggregate run by its kernel of whole columns, where all rows are at hand?"""
    options = bound_query.query.options
    as_planned = options.structure is None and options.prefer == "throughput"
    return as_planned and at_rows(bound_query) and type(part.monoid) in SWEPT


def siblings(bound_query: BoundQuery, series: WindowGroup, place: int) -> tuple[int, ...]:
    """The windows of a series that differ from one only in size, and it: one structure can answer all of them."""
    of = but_size(bound_query.windows[place])
    return tuple(other for other in series.windows if but_size(bound_query.windows[other]) == of)


def but_size(span: WindowSpec) -> Any:
    """All that two windows must have in common for one structure to answer both."""
    over = id(span.window) if span.kind == "policy" else None
    return (span.kind, span.slide, span.every, span.offset, span.closed, span.column, over)


# ---- which structure ----


def typed(part: AggregateSpec) -> Monoid:
    """The aggregate as it runs on its columns: its typed form where they are of numbers."""
    kinds = [kind(type_) for type_ in part.types]
    if part.monoid.interpreted_only or None in kinds:
        return part.monoid
    return part.monoid.typed(*kinds)  # type: ignore[arg-type]


def _choice(bound_query: BoundQuery, series: WindowGroup, part: AggregateSpec, sizes: int, in_bulk: bool) -> Choice:
    options = bound_query.query.options
    if bound_query.query.emit == "eager":
        return Choice("FiBA", "a row goes to its place at once, whenever it comes")
    if series.kind == "running":
        return Choice(FOLD, "the window only grows until it starts anew")
    monoid = typed(part)
    if options.structure is not None:
        return _forced(CATALOGUE[options.structure], monoid, part)
    if in_bulk:
        return BULK
    if options.prefer == "latency":
        return _steady(monoid)
    if _undone(monoid):
        return Choice("SubtractOnEvict", "an exact inverse: the oldest comes off the total")
    if sizes >= DEQUE_SIZES and monoid.selective:
        return Choice("SlickDequeNonInv", f"it selects a value: one deque answers all {sizes} sizes")
    if sizes >= INDEX_SIZES and not monoid.selective:
        return Choice("FlatFIT", f"no exact inverse: one index answers all {sizes} sizes")
    return Choice("TwoStacksLite", "no exact inverse; measured the fastest of those that need none")


def _undone(monoid: Monoid) -> bool:
    return monoid.inverse is not None and monoid.exact


def _forced(record: Record, monoid: Monoid, part: AggregateSpec) -> Choice:
    missing = ", ".join(repr(need) for need in record.needs if not getattr(monoid, need))
    if missing:
        read = zip(part.columns, part.types, strict=True)
        on = " on " + ", ".join(f"{column!r} of type {type_}" for column, type_ in read) if part.columns else ""
        raise TypeError(
            f"Options(structure={record.name!r}) needs a monoid with the property {missing}, which "
            f"{part.name}={part.monoid.name or repr(part.monoid)}{on} does not have"
        )
    return Choice(record.name, "asked for by Options(structure=…)")


def _steady(monoid: Monoid) -> Choice:
    """Of the structures whose worst case is constant, the one with the least ⊕ on average, then the least space."""
    fit = [
        record
        for record in IN_ORDER.values()
        if record.constant
        and all(getattr(monoid, need) for need in record.needs)
        and ("inverse" not in record.needs or monoid.exact)
    ]
    best = min(fit, key=lambda record: (_round(record), record.space.at(2**20)))
    worst = ", ".join(f"{operation} {cost}" for operation, cost in best.worst.items())
    return Choice(best.name, f"no single step depends on the window's size ({worst} ⊕ at worst)")


def _round(record: Record) -> float:
    return sum(cost.at(2**20) for cost in record.average.values())
