"""Count the calls of ⊕ of queries on a sample: combined into one plan, and each alone.

The queries are planned first. Then the monoids of the plan are replaced by ones that count, which run interpreted: the
same structures compute the same ⊕ in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.keys import decode
from sash.engine.intake.input_checks import record_batch
from sash.engine.operator import Operator
from sash.engine.query_state import QueryState
from sash.monoids.op_counter import OpCounter
from sash.plan.categories import schema_with_categories
from sash.plan.planner import Plan
from sash.plan.queries import CombinedQuery, Queries
from sash.plan.query import Query

MOST_ROWS = 10_000
"""The rows of a sample that are read: interpreted, a row takes some tens of microseconds a query."""


@dataclass(frozen=True)
class CountedOperations:
    """The number of ⊕ on a sample, of queries that share a state: combined, and each alone."""

    schema: pa.Schema
    rows: int
    duration: float
    """The time from the first row of the sample to the last, in units of the time column; 0 without one."""
    together: int
    apart: dict[str, int]


class CountingState(QueryState):
    """A state that counts its ⊕."""

    counters: list[OpCounter]

    def _plan(self, schema: pa.Schema) -> Plan:
        found = super()._plan(schema)
        counters, states, aggregates = [], [], list(found.bound_query.aggregates)
        for group in found.states:
            counted = []
            for member in group:  # those that are lowered from the first one's state take no ⊕
                counter = OpCounter(member.aggregate.monoid)
                counters.append(counter)
                aggregates[member.number] = replace(member.aggregate, monoid=counter)
                counted.append(replace(member, aggregate=aggregates[member.number]))
            states.append(tuple(counted))
        bound_query = replace(found.bound_query, aggregates=tuple(aggregates))
        self.counters = counters
        return replace(found, bound_query=bound_query, states=tuple(states))

    def taken(self) -> int:
        """The number of ⊕ since the last call of this method."""
        return sum(counter.taken() for counter in self.counters)


class CountingOperator(Operator):
    """An operator that counts its ⊕."""

    state_type = CountingState


def count_operations(queries: Queries, sample: Any) -> list[CountedOperations]:
    """Count the calls of ⊕ of each group of queries on the first rows of a frame.

    Raises what `Operator.process` raises.
    """
    batch = sample if isinstance(sample, pa.RecordBatch) else record_batch(sample, None)
    batch = batch.slice(0, MOST_ROWS)
    found = []
    for group in queries.groups():
        apart = {name: _counted(query, batch) for name, query in group.members.items()}
        first, *others = group.members.values()
        together = apart[next(iter(apart))] if all(first == one for one in others) else _counted(group, batch)
        schema = schema_with_categories(batch)
        found.append(CountedOperations(schema, batch.num_rows, _duration(group, schema, batch), together, apart))
    return found


def _duration(group: CombinedQuery, schema: pa.Schema, batch: pa.RecordBatch) -> float:
    axis = group.bind(schema).time
    if axis is None:
        return 0.0
    times, timed = axis.numbers(decode(batch.column(axis.column)))
    return float(np.ptp(times[timed])) if timed.any() else 0.0


def _counted(query: Query, batch: pa.RecordBatch) -> int:
    operator = CountingOperator(query, schema_with_categories(batch))
    state = operator.state
    assert isinstance(state, CountingState)
    state.taken()  # resets the counts: creating an aggregate computes samples
    operator.process(batch)
    operator.finish()
    return state.taken()
