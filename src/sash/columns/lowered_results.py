"""Result columns of the aggregates that share one computation.

values of ranges ──┬──▶ unchanged: the aggregate that computed them          ComputedResults
                   ├──▶ states, lowered by each aggregate that shares them   LoweredResults
                   └──▶ the number of values in each range                   CountedResults
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from sash.columns.aggregate_batch import Aggregate, is_exact
from sash.columns.input_encoding import Decoder
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints
from sash.kernels.loops.columnar import AggregateError
from sash.kernels.loops.lowering_kernel import LoweringKernel
from sash.monoids.algebra import Kind, Monoid
from sash.monoids.null_rows import Unlowered
from sash.plan.bound_query import AggregateSpec
from sash.plan.state_sharing import SUM_IN_MEAN, Member


@dataclass
class Values:
    """The output of a loop: values, which are valid, where a result is wanted, and the counts of values at each range's
    start and end.
    """

    out: Any
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
        out = [self.out[i] for i in places.tolist()] if isinstance(self.out, list) else None
        leaves = tuple(leaf[places] for leaf in self.out) if out is None else out
        return Values(leaves, self.valid[places], self.on[places], self.low[places], self.high[places])


class CountedColumn(NamedTuple):
    """A column of results, and for each window the number of values of its key before its start and before its end."""

    column: pa.Array
    low: Ints
    high: Ints


NOT_ASKED = CountedColumn(None, NO_INTS, NO_INTS)
"""In place of results that the query does not ask for."""


KernelOf = Callable[[Monoid, "tuple[Kind, ...] | None", bool], Any]
"""Makes the kernel of a monoid on columns of these kinds; with the last flag it warns if it does not compile."""


class ResultView(Protocol):
    """The results of one aggregate of the query. `exact`: whether equal windows have equal results.

    `failed`: the results of the last column that failed, and are null.
    """

    number: int
    exact: bool
    failed: list[AggregateError]

    def column(self, values: Values, dictionaries: Mapping[int, Decoder], /) -> pa.Array:
        """The results as a column; `dictionaries` decode values. Raises AggregateError, with the place."""
        ...


class ComputedResults:
    """The results of the aggregate that computed them."""

    def __init__(self, number: int, aggregate: Aggregate) -> None:
        self.number, self.aggregate = number, aggregate
        self.exact = is_exact(aggregate.spec)
        self.failed: list[AggregateError] = []

    def column(self, values: Values, dictionaries: Mapping[int, Decoder]) -> pa.Array:
        return self.aggregate.column(values.out, values.valid, values.empty, dictionaries)


class LoweredResults:
    """Results lowered from a state; `leaves` are the scalars of it that the aggregate reads, all if None.

    `tolerant`: a result that fails is null, and listed in `failed`.
    """

    def __init__(
        self, number: int, spec: AggregateSpec, leaves: tuple[int, ...] | None, tolerant: bool = False
    ) -> None:
        self.number, self.leaves, self.tolerant = number, leaves, tolerant
        self.aggregate = Aggregate(spec, lambda monoid, kinds, _: LoweringKernel(monoid, kinds))
        self.exact = is_exact(spec)
        self.failed: list[AggregateError] = []

    def column(self, values: Values, dictionaries: Mapping[int, Decoder]) -> pa.Array:
        states = values.out
        if self.leaves is not None and self.aggregate.kernel.compiled:
            states = tuple(states[i] for i in self.leaves)
        return self.lowered(states, values.valid, values.empty, dictionaries)

    def lowered(self, states: Any, exists: Flags, empty: Flags, dictionaries: Mapping[int, Decoder]) -> pa.Array:
        """The results of states as a column."""
        if self.tolerant:
            out, valid, self.failed = self.aggregate.kernel.lower_each(states, exists)
        else:
            out, valid = self.aggregate.kernel.lower(states, exists)
        return self.aggregate.column(out, valid, empty, dictionaries)


class CountedResults:
    """The number of values in a range."""

    exact = True

    def __init__(self, number: int, spec: AggregateSpec) -> None:
        self.number, self.spec = number, spec
        self.failed: list[AggregateError] = []

    def column(self, values: Values, _dictionaries: Mapping[int, Decoder]) -> pa.Array:
        mask = None if values.on.all() else ~values.on
        return pa.array(values.high - values.low, self.spec.result, mask=mask)


def views_of(group: Sequence[Member], aggregate: Aggregate, states: bool, tolerant: bool) -> list[ResultView]:
    """The results of a group of aggregates that share a state; `states`: the loop returns states.

    `tolerant`: results that fail are null.
    """
    owner, *others = group
    own: ResultView = ComputedResults(owner.number, aggregate)
    if states:
        own = LoweredResults(owner.number, owner.aggregate, None, tolerant)
    found = [own]
    for member in others:
        if member.reads == "count":
            found.append(CountedResults(member.number, member.aggregate))
        else:
            leaves = SUM_IN_MEAN if member.reads == "sum" else None
            found.append(LoweredResults(member.number, member.aggregate, leaves, tolerant))
    return found


def gives_states(group: Sequence[Member]) -> bool:
    """Whether the loop of a group returns states, because several aggregates are lowered from them."""
    return any(member.reads in ("state", "sum") for member in group)


def unlowered(kernel: KernelOf) -> KernelOf:
    """The kernels of an aggregate whose loops return states. They compile only if `lower` compiles, too."""

    def made(monoid: Monoid, kinds: tuple[Kind, ...] | None, warn: bool) -> Any:
        lowers = LoweringKernel(monoid, kinds, warn).compiled
        return kernel(Unlowered(monoid), kinds if lowers else None, warn and lowers)

    return made


def loop_monoid(group: Sequence[Member]) -> Monoid:
    """The monoid that the loop of a group runs."""
    monoid = group[0].aggregate.monoid
    return Unlowered(monoid) if gives_states(group) else monoid
