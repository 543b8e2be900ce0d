"""The planner: chooses the cheapest structure whose requirements hold, for each window and aggregate.

windows ──▶ groups of windows that share elements      (window, aggregate) ──▶ structure, and the reason

The elements of a group:

rows         single rows, shared by all windows that end at a row, and by Count windows that slide in time; those of
             windows that end after their row are a group of their own
time panes   panes between the starts and ends of Time windows that slide in time; one group per `closed`
row panes    panes between the starts and ends of Count windows that slide in rows; in both kinds each row is a pane of
             its own where a window has an order statistic
running      one partial per key: Session, Punctuation, Lifetime
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from sash import monoids as m
from sash.monoids.algebra import Monoid
from sash.monoids.durations import DurationSum
from sash.monoids.ewm import EwmMeanByTime, EwmStdByTime, EwmVarByTime
from sash.monoids.null_rows import NullRows
from sash.plan.api_types import Prefer
from sash.plan.common_results import Member, groups_by_state

if TYPE_CHECKING:
    from sash.aggregators.catalogue import Record
    from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec

DEQUE_SIZES = 8
"""From this number of sizes on, one SlickDequeNonInv answers all of them, instead of one TwoStacksLite each.

Measured on the live engine, a maximum of floats, calls of 100,000 rows, windows of 10 to 200 rows; how much faster the
deque is at 2, 3, 5, 8, 20, 50 sizes:

    1,000 keys   at each row, Count   1.08  0.99  1.23  1.10  1.18  1.30
                 at each row, Time    0.97  1.16  1.21  1.10  1.17  1.25
                 slides of 1 s        0.85     –     –  1.02  0.87     –
    one key      at each row             –     –     –  0.94  0.98     –
                 slides of 1 s           –     –     –  1.02  1.05     –

⊕ of a maximum costs next to nothing, and writing the results is most of the work. It also saves memory: with 20 sizes
of up to 1,000 rows an operator held 143 MB instead of 657 MB.
"""

PANE_SIZES = 4
"""The same threshold for windows over panes, whose slides are found once for all sizes: 50 windows of slides of 1 s to
20 s, in groups of 4 to 13 sizes, took 0.39 s with a threshold of 4, and 0.48 s with one of 8.

FlatFIT has the same threshold for sums: 0.27 s on an operator with 4, 0.30 s with 8, 0.39 s with a structure for each
size; on a frame 0.57, 0.67 and 0.78 s.
"""

INDEX_SIZES = 8
"""The same as `DEQUE_SIZES` for one FlatFIT, where ⊕ neither selects a value nor has an exact inverse.

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
"""The structures that answer all windows that differ only in size."""

FORCED = "asked for by Options(structure=…)"
"""The reason of a structure that the options force."""

FOLD = "running fold"
"""The name of the running fold, which running groups use in place of a structure."""

ElementKind = Literal["rows", "time panes", "row panes", "running"]


@dataclass(frozen=True)
class WindowGroup:
    """Windows, by their places in the query, that share elements."""

    kind: ElementKind
    windows: tuple[int, ...]
    single_rows: bool = False
    """Whether each pane is one row: the state of a pane would be all its values, which does not fit in flat arrays."""

    @property
    def elements(self) -> str:
        """The elements that its windows are made of."""
        return f"rows of {self.kind}" if self.single_rows else self.kind


@dataclass(frozen=True)
class Choice:
    """A structure of the catalogue (or the running fold), and the reason."""

    structure: str
    why: str


@dataclass(frozen=True)
class Plan:
    """How a query is computed: groups of windows, shared states, and a structure for each (window, aggregate).

    `states` are groups of aggregates that share a state; the first of each group owns it.
    """

    bound_query: BoundQuery
    groups: tuple[WindowGroup, ...]
    choices: Mapping[tuple[int, int], Choice]
    states: tuple[tuple[Member, ...], ...]

    def __str__(self) -> str:
        from sash.plan.explain import explained

        return explained(self)

    def _repr_html_(self) -> str:
        from sash.plan.explain import explained

        return explained(self)._repr_html_()


def plan(bound_query: BoundQuery) -> Plan:
    """The plan of a query. Raises TypeError, naming the missing property, if the options force an unfit structure."""
    groups, states = window_groups(bound_query), _states(bound_query)
    choices = {}
    for group in groups:
        for owner, *others in states:
            asked = asked_windows(bound_query, (owner, *others), group)
            for place in asked:
                choice = choices[place, owner.number] = _choice(bound_query, group, place, owner.aggregate, asked)
                for member in others:
                    # raises if the options force a structure that this aggregate does not fit
                    _choice(bound_query, group, place, member.aggregate, asked)
                    choices[place, member.number] = _lowered(choice, owner, member)
    return Plan(bound_query, groups, MappingProxyType(dict(sorted(choices.items()))), states)


def _states(bound_query: BoundQuery) -> tuple[tuple[Member, ...], ...]:
    """Group aggregates by state. The trees of emit="eager" hold one aggregate each."""
    if bound_query.query.emit == "eager":
        return tuple((Member(number, one, "itself"),) for number, one in enumerate(bound_query.aggregates))
    return groups_by_state(bound_query.aggregates)


def _lowered(choice: Choice, owner: Member, member: Member) -> Choice:
    why = "the values that {} counts" if member.reads == "count" else "lowered from the state of {}"
    return Choice(choice.structure, why.format(owner.aggregate.name))


# ---- groups of windows ----


def window_groups(bound_query: BoundQuery) -> tuple[WindowGroup, ...]:
    """The groups of windows that share elements, in the order of their first windows."""
    groups: dict[tuple[ElementKind, int | str | None], list[int]] = {}
    for place, spec in enumerate(bound_query.windows):
        kind = element_kind(spec)
        apart = place if kind == "running" else spec.closed if kind == "time panes" else None
        apart = "ahead" if spec.shift > 0 else apart
        groups.setdefault((kind, apart), []).append(place)
    return tuple(
        WindowGroup(kind, tuple(places), kind.endswith("panes") and _need_single_rows(bound_query, places))
        for (kind, _), places in groups.items()
    )


def _need_single_rows(bound_query: BoundQuery, places: Sequence[int]) -> bool:
    """Has a window an order statistic, and none an aggregate whose states may be as large as a sketch?"""
    if bound_query.query.emit == "eager":
        return False
    asked = {number for place, number in bound_query.projection.asked if place in places}
    monoids = [typed(bound_query.aggregates[number]) for number in sorted(asked)]
    others = [monoid for monoid in monoids if not tree_of(monoid)]
    return len(others) < len(monoids) and not any(monoid.interpreted_only for monoid in others)


def element_kind(spec: WindowSpec) -> ElementKind:
    """The kind of a window's elements."""
    if spec.rule.measure == "restarts":
        return "running"
    if spec.rule.in_time and spec.slide == "time":
        return "time panes"
    return "row panes" if spec.rule.measure == "rows" and spec.slide == "rows" else "rows"


COLUMN_KERNELS: tuple[type[Monoid], ...] = (
    *(m.Max, m.Min, m.ArgMax, m.ArgMin, m.Sum, m.Mean, m.Var, m.Std, m.Count),
    *(m.Median, m.Quantile, m.Rank, m.PercentRank, m.Mode, m.CountDistinct),
    *(m.EwmMean, m.EwmVar, m.EwmStd, EwmMeanByTime, EwmVarByTime, EwmStdByTime, m.Lag, m.Delta, m.PctChange),
    *(m.WeightedMean, DurationSum),
)
"""The aggregates that have whole-column kernels (`sash.kernels.column`)."""


def has_column_kernel(bound_query: BoundQuery, aggregate: AggregateSpec) -> bool:
    """Does an aggregate run its whole-column kernel on frames?"""
    options = bound_query.query.options
    as_planned = options.structure is None and options.prefer == "throughput"
    monoid = aggregate.monoid.of if isinstance(aggregate.monoid, NullRows) else aggregate.monoid
    return as_planned and bound_query.is_stateless and type(monoid) in COLUMN_KERNELS


def asked_windows(bound_query: BoundQuery, state: Sequence[Member], group: WindowGroup) -> tuple[int, ...]:
    """The windows of a group over which aggregates that share a state are computed."""
    pairs = bound_query.projection.asked
    return tuple(place for place in group.windows if any((place, member.number) in pairs for member in state))


def siblings(bound_query: BoundQuery, group: WindowGroup, place: int) -> tuple[int, ...]:
    """A window of a group and those that differ from it only in size: one structure can answer all of them."""
    of = but_size(bound_query.windows[place])
    return tuple(other for other in group.windows if but_size(bound_query.windows[other]) == of)


def but_size(spec: WindowSpec) -> tuple[object, ...]:
    """The properties of a window except its size: windows with equal ones can be answered by one structure."""
    over = id(spec.window) if spec.over else None
    # windows of months and of days do not contain one another
    sizes = spec.calendar_size and (spec.calendar_size.clock, spec.calendar_size.months > 0)
    slides = spec.grid and (spec.grid.every, spec.grid.months, spec.grid.after)
    moved = spec.shift, spec.calendar_shift
    return (spec.kind, spec.slide, spec.every, spec.offset, spec.closed, spec.column, over, *moved, sizes, slides)


# ---- structures ----


def typed(aggregate: AggregateSpec) -> Monoid:
    """The monoid as it runs on its columns: its typed form if they are numbers."""
    from sash.plan.types import kind

    kinds = [kind(type_) for type_ in aggregate.types]
    if aggregate.monoid.interpreted_only or None in kinds:
        return aggregate.monoid
    return aggregate.monoid.typed(*kinds)  # type: ignore[arg-type]


def _choice(
    bound_query: BoundQuery, group: WindowGroup, place: int, aggregate: AggregateSpec, asked: Sequence[int]
) -> Choice:
    options = bound_query.query.options
    if bound_query.query.emit == "eager":
        return Choice("FiBA", "a row is inserted at its time at once, in any order of arrival")
    if group.kind == "running":
        return Choice(FOLD, "the window only grows until it restarts")
    monoid = typed(aggregate)
    if tree_of(monoid):
        return _rank_statistic(group, options.structure, aggregate)
    if options.structure is not None:
        from sash.aggregators.catalogue import CATALOGUE  # all structures, of which most plans need one

        return _forced(CATALOGUE[options.structure], monoid, aggregate)
    if bound_query.windows[place].rule.measure == "policy":
        return Choice("AMTA", "a policy evicts any number of rows at once, in a logarithmic number of ⊕")
    if options.prefer == "latency" and group.kind == "rows" and bound_query.windows[place].rule.measure == "values":
        return Choice("AMTA", "any number of rows may leave at once: a logarithmic number of ⊕, at worst for each step")
    alike = [other for other in siblings(bound_query, group, place) if other in asked]
    sizes = len({bound_query.windows[other].size for other in alike})
    return choose(
        monoid, options.prefer, sizes, (DEQUE_SIZES, INDEX_SIZES) if group.kind == "rows" else (PANE_SIZES, PANE_SIZES)
    )


def tree_of(monoid: Monoid) -> str:
    """The tree that computes an order statistic from the values of a window; "" for other aggregates."""
    return "CountedTree" if monoid.order_statistic else "FrequencyTree" if monoid.most_frequent else ""


ON_TREE = "an order statistic: the values in a balanced tree that counts them"


def _rank_statistic(group: WindowGroup, forced: str | None, aggregate: AggregateSpec) -> Choice:
    """A tree for single rows; panes are multisets, which are added to the total and subtracted from it."""
    tree = tree_of(aggregate.monoid)
    in_tree = group.kind == "rows" or group.single_rows
    if forced not in (None, tree) and (in_tree or forced != "SubtractOnEvict"):
        raise TypeError(
            f"Options(structure={forced!r}) does not fit {aggregate.name}={aggregate.monoid.name}, an order statistic: "
            f"use {tree!r}, or leave structure= out"
        )
    if not in_tree:
        return Choice("SubtractOnEvict", "an exact inverse: the multiset of the oldest comes off the total")
    return Choice(tree, ON_TREE if forced is None else FORCED)


def choose(
    monoid: Monoid, prefer: Prefer, sizes: int = 1, fewest: tuple[int, int] = (DEQUE_SIZES, INDEX_SIZES)
) -> Choice:
    """The structure for a window that evicts single elements.

    `sizes`: the number of windows that differ only in size. `fewest`: the numbers from which on one deque, or one
    index, answers all of them.
    """
    if prefer == "latency":
        return _constant_time(monoid)
    if monoid.inverse is not None and monoid.exact:  # an inverse within a tolerance would drift
        return Choice("SubtractOnEvict", "an exact inverse: the oldest comes off the total")
    if sizes >= fewest[0] and monoid.selective:
        return Choice("SlickDequeNonInv", f"it selects a value: one deque answers all {sizes} sizes")
    if sizes >= fewest[1] and not monoid.selective:
        return Choice("FlatFIT", f"no exact inverse: one index answers all {sizes} sizes")
    return Choice("TwoStacksLite", "no exact inverse; measured the fastest of those that need none")


def _forced(record: Record, monoid: Monoid, aggregate: AggregateSpec) -> Choice:
    missing = ", ".join(repr(need) for need in record.needs if not getattr(monoid, need))
    if missing:
        read = zip(aggregate.columns, aggregate.types, strict=True)
        on = " on " + ", ".join(f"{column!r} of type {type_}" for column, type_ in read) if aggregate.columns else ""
        raise TypeError(
            f"Options(structure={record.name!r}) needs a monoid with the property {missing}, which "
            f"{aggregate.name}={aggregate.monoid.name or repr(aggregate.monoid)}{on} does not have"
        )
    return Choice(record.name, FORCED)


def _constant_time(monoid: Monoid) -> Choice:
    """The structure with the fewest ⊕ on average, then the least space, among those with a constant worst case."""
    from sash.aggregators.catalogue import IN_ORDER

    fit = [
        record
        for record in IN_ORDER.values()
        if record.constant
        and all(getattr(monoid, need) for need in record.needs)
        and ("inverse" not in record.needs or monoid.exact)
    ]
    best = min(fit, key=lambda record: (_round_cost(record), record.space.at(2**20)))
    worst = ", ".join(f"{operation} {cost}" for operation, cost in best.worst.items())
    return Choice(best.name, f"no single step depends on the window's size ({worst} ⊕ at worst)")


def _round_cost(record: Record) -> float:
    """The ⊕ of an insert, an evict and a query, for a large window."""
    return sum(cost.at(2**20) for cost in record.average.values())
