"""Policy windows: windows from which a user-defined function evicts the oldest rows.

Each slot has an AMTA over the policy's aggregate; it finds the start of the window at each row in O(log n) ⊕, however
many rows are evicted. The aggregates of the query then run on these starts, as for every other window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arena import Arena
from sash.engine.arrow_arrays import array
from sash.engine.input_encoding import CODED, encodings_of, kinds_of, numbers
from sash.engine.slot_structures import SlotStructures
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import StepRows
from sash.engine.value_encoder import InputReader
from sash.kernels.jit.policy_monoid import joined, split
from sash.kernels.loops.array_types import NO_FLAGS, Ints, States
from sash.kernels.loops.policy_kernel import PolicyKernel
from sash.monoids.algebra import Kind
from sash.plan.bound_query import AggregateSpec, WindowSpec
from sash.plan.types import value_type
from sash.stores import codec
from sash.stores.state_objects import state_codec
from sash.windows import Policy


class PolicyWindow:
    """One Policy window of an assigner; its start is in `column` of the heads."""

    def __init__(self, window: WindowSpec, arena: Arena, column: int, name: str, table: SlotTable) -> None:
        self.aggregates, self.arena, self.column, self.name = window.over, arena, column, name
        policy = window.window
        assert isinstance(policy, Policy)
        monoids = [spec.monoid for spec in self.aggregates]
        kinds = [_kinds(spec) for spec in self.aggregates]
        self.kernel = PolicyKernel(policy, policy.evict, policy.alone, monoids, kinds)
        compiled = self.kernel.compiled
        self.readers = [InputReader(spec, encodings_of(spec), compiled) for spec in self.aggregates]
        self.columns = [(name, i) for i in range(len(self.kernel.leaves))]
        """The names of the arena's columns that hold states."""
        for key, kind in zip(self.columns, self.kernel.leaves, strict=True):
            arena.add(key, kind)
        self.structures = SlotStructures(self.kernel.spec, arena, table, name)

    @property
    def states(self) -> States:
        """The states of elements."""
        return tuple([self.arena.columns[key] for key in self.columns])

    def lift(self, rows: StepRows, places: Ints) -> None:
        """Write the states of rows at their places. Raises AggregateError."""
        inputs, count = [], len(rows)
        for reader in self.readers:
            non_null = reader.non_null(rows, count)
            inputs.append((reader.columns(rows, count), NO_FLAGS if non_null is None else non_null))
        self.kernel.lift(inputs, rows.slots, places, self.states)

    def enforce(self, rows: StepRows, pos: Ints, begin: Ints) -> Ints:
        """The first element of the window that ends at each row. Raises AggregateError."""
        return self.kernel.enforce(
            self.structures, self.structures.fields, self.states, (rows.slots, pos, begin), self.column
        )

    # ---- states at rest ----

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which a state is stored."""
        if not self.kernel.compiled:
            return {f"{self.name}.state": pa.binary()}
        return {f"{self.name}.s{i}": pa.from_numpy_dtype(kind) for i, kind in enumerate(self.kernel.leaves)}

    def store(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> list[pa.Array]:
        """The states that `take` selects, as columns to store."""
        if self.kernel.compiled:
            return [array(take(leaf)) for leaf in self.states]
        dumps = [state_codec(spec.monoid)[0] for spec in self.aggregates]
        states = [split(state, self.kernel.alone) for state in take(self.states[0]).tolist()]
        found = [codec.dumps(tuple(dump(x) for dump, x in zip(dumps, state, strict=True))) for state in states]
        return [pa.array(found, pa.binary())]

    def load(self, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Load stored states into these places."""
        if self.kernel.compiled:
            for leaf, column in zip(self.states, columns, strict=True):
                leaf[places] = numbers(column)
            return
        loads = [state_codec(spec.monoid)[1] for spec in self.aggregates]
        for place, data in zip(places.tolist(), columns[0].to_pylist(), strict=True):
            state = [load(x) for load, x in zip(loads, codec.loads(data), strict=True)]
            self.states[0][place] = joined(state, self.kernel.alone)


def _kinds(spec: AggregateSpec) -> tuple[Kind, ...] | None:
    """The kinds of an aggregate's columns; None if the policy needs their values as Python objects."""
    forms = encodings_of(spec)
    if forms is None or any(form in (*CODED, "wide") for form in forms):
        return None
    return kinds_of(forms, tuple(map(value_type, spec.types)) or (pa.bool_(),))
