"""Result columns of the aggregates that share one computation.

values of ranges ──┬──▶ unchanged: the aggregate that computed them          "itself"
                   ├──▶ states, lowered by each aggregate that shares them   "state", "sum"
                   └──▶ the number of values in each range                   "count"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from sash.columns.aggregate_batch import Aggregate, is_exact
from sash.columns.input_encoding import Decoder
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, States
from sash.kernels.loops.bound_kernel import LOWER, AggregateError
from sash.monoids.algebra import Monoid
from sash.monoids.null_rows import Unlowered
from sash.plan.bound_query import AggregateSpec
from sash.plan.common_results import SUM_IN_MEAN, Member, Reads


@dataclass
class Values:
    """The output of a loop: values, which are valid, where a result is wanted, and the counts of values at each range's
    start and end.
    """

    out: States
    valid: Flags
    on: Flags
    low: Ints
    high: Ints

    @property
    def empty(self) -> Flags:
        """Where a result is wanted and the range holds no value."""
        return self.on & (self.low == self.high)

    def take(self, places: Any) -> Values:
        """The values at these places."""
        leaves = tuple(leaf[places] for leaf in self.out)
        return Values(leaves, self.valid[places], self.on[places], self.low[places], self.high[places])


class CountedColumn(NamedTuple):
    """A column of results, and for each window the number of values of its key before its start and before its end."""

    column: pa.Array
    low: Ints
    high: Ints


NOT_ASKED = CountedColumn(None, NO_INTS, NO_INTS)
"""In place of results that the query does not ask for."""


class ResultView:
    """The results of one aggregate of the query, from the values of a loop.

    `reads`: its own results ("itself"), states that it lowers, the state of a sum in those of a mean, or the counts of
    values. `tolerant`: a result that fails is null, and listed in `failed`, else `column` raises AggregateError.
    """

    def __init__(
        self, number: int, spec: AggregateSpec, reads: Reads, aggregate: Aggregate | None = None, tolerant: bool = False
    ) -> None:
        self.number, self.spec, self.reads, self.tolerant = number, spec, reads, tolerant
        self.exact = reads == "count" or is_exact(spec)
        """Whether equal windows have equal results."""
        self.failed: list[AggregateError] = []
        """The results of the last column that failed."""
        self.aggregate: Any = aggregate
        if aggregate is None and reads != "count":
            self.aggregate = Aggregate(spec, LOWER, warn=False)

    def column(self, values: Values, dictionaries: Mapping[int, Decoder]) -> pa.Array:
        """The results as a column; `dictionaries` decode values."""
        if self.reads == "count":
            mask = None if values.on.all() else ~values.on
            return pa.array(values.high - values.low, self.spec.result, mask=mask)
        if self.reads == "itself":
            return self.aggregate.column(values.out, values.valid, values.empty, dictionaries)
        states = values.out
        if self.reads == "sum" and self.aggregate.kernel.compiled:
            states = tuple(states[i] for i in SUM_IN_MEAN)
        return self.lowered(states, values.valid, values.empty, dictionaries)

    def lowered(self, states: States, exists: Flags, empty: Flags, dictionaries: Mapping[int, Decoder]) -> pa.Array:
        """The results of states as a column."""
        out, valid, self.failed = self.aggregate.kernel.lower(states, exists, self.tolerant)
        return self.aggregate.column(out, valid, empty, dictionaries)


def views_of(group: Sequence[Member], aggregate: Aggregate, states: bool, tolerant: bool) -> list[ResultView]:
    """The results of a group of aggregates that share a state; `states`: the loop returns states.

    `tolerant`: results that fail are null.
    """
    owner, *others = group
    found = [ResultView(one.number, one.aggregate, one.reads, tolerant=tolerant) for one in others]
    if states:
        return [ResultView(owner.number, owner.aggregate, "state", tolerant=tolerant), *found]
    return [ResultView(owner.number, aggregate.spec, "itself", aggregate), *found]


def gives_states(group: Sequence[Member]) -> bool:
    """Whether the loop of a group returns states, because several aggregates are lowered from them."""
    return any(member.reads in ("state", "sum") for member in group)


def loop_monoid(group: Sequence[Member]) -> Monoid:
    """The monoid that the loop of a group runs."""
    monoid = group[0].aggregate.monoid
    return Unlowered(monoid) if gives_states(group) else monoid
