"""Find aggregates of a query that can share one state.

    mean(x)   (n, high, low)  ──lower──▶  mean             one state, four results
                      │   └─────────────▶  sum             the scalars of its state
                      └─────────────────▶  count(x)        the number of values, which every aggregate counts

Shared results are equal to the last bit: the state of one aggregate is that of the other, or some of its scalars,
combined by the same arithmetic. Aggregates that share a state read the same columns, and so skip the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sash import monoids as m
from sash.monoids.algebra import Monoid

if TYPE_CHECKING:
    from sash.plan.bound_query import AggregateSpec

Reads = Literal["itself", "state", "sum", "count"]
"""The source of an aggregate's result: its own state, an equal one, the sum in a mean's, or the count of values."""

FAMILIES: tuple[tuple[type[Monoid], ...], ...] = (
    (m.Mean, m.Sum),
    (m.Var, m.Std),
    (m.Covariance, m.Correlation, m.Slope, m.Intercept),
    (m.Skewness,),
    (m.Kurtosis,),
)
"""Aggregates that differ only in `lower`; the state of a mean has the count besides the sum.

The state of a kurtosis has everything that a skewness needs, but becomes relative at another size of M2: they do not
form a family.
"""

SUM_IN_MEAN = (1, 2)
"""The scalars of a mean's state on columns that are the state of a sum. In a loop both states are one integer."""


@dataclass(frozen=True)
class Member:
    """An aggregate, its position in the query, and the source of its result."""

    number: int
    aggregate: AggregateSpec
    reads: Reads


def groups_by_state(aggregates: Sequence[AggregateSpec]) -> tuple[tuple[Member, ...], ...]:
    """Group aggregates by state: the first of each group owns it, and the others are lowered from it."""
    owners: dict[int, int] = {}
    for number, aggregate in enumerate(aggregates):
        owners[number] = next(
            (k for k in _family(aggregates, aggregate) if aggregates[k].columns == aggregate.columns), number
        )
    with_state = [number for number, owner in owners.items() if number == owner]
    with_state.sort(key=lambda k: type(aggregates[k].monoid) is m.Count)
    for number, aggregate in enumerate(aggregates):
        if type(aggregate.monoid) is m.Count:
            owners[number] = next((k for k in with_state if same_rows(aggregates[k], aggregate)), number)
    groups: dict[int, list[Member]] = {number: [] for number in owners.values()}
    for number in sorted(owners, key=lambda n: (n != owners[n], n)):
        owner = owners[number]
        groups[owner].append(
            Member(number, aggregates[number], _reads(aggregates[owner], aggregates[number], number == owner))
        )
    return tuple(tuple(group) for _, group in sorted(groups.items()))


def _family(aggregates: Sequence[AggregateSpec], aggregate: AggregateSpec) -> list[int]:
    """The aggregates of the same family: means before sums, whose state they contain."""
    family = next((family for family in FAMILIES if type(aggregate.monoid) in family), ())
    found = [k for k, other in enumerate(aggregates) if type(other.monoid) in family]
    return sorted(found, key=lambda k: type(aggregates[k].monoid) is m.Sum)


def same_rows(owner: AggregateSpec, aggregate: AggregateSpec) -> bool:
    """Do both read the same rows: those without a null in the same columns?"""
    return not owner.monoid.nullable and {*owner.columns} == {*aggregate.columns}


def _reads(owner: AggregateSpec, aggregate: AggregateSpec, is_owner: bool) -> Reads:
    if is_owner:
        return "itself"
    if type(aggregate.monoid) is m.Count:
        return "count"
    return "sum" if type(aggregate.monoid) is m.Sum and type(owner.monoid) is m.Mean else "state"
