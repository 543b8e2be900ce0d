"""Policy windows: windows whose oldest part leaves when a function of the user's says so.

An AMTA lives in each slot over what the policy looks at; it finds how much leaves at each row, in O(log n) ⊕ however
much that is. The aggregates of the query then run on the starts that were found, like those of every other window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sash.aggregators import AMTA
from sash.engine.arena import Arena
from sash.engine.input_encoding import objects
from sash.engine.keys import plain
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import Ints, StepRows
from sash.kernels.lane import Failed
from sash.kernels.live_loops import CAPACITY, OFFSET
from sash.monoids import Monoid
from sash.query.resolved import Part, Span
from sash.stores import codec


class Over(Monoid):
    """What a policy looks at: one aggregate, or several side by side, each on columns of its own."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.monoids = tuple(part.monoid for part in parts)
        self.identity = tuple(monoid.identity for monoid in self.monoids)

    def lift(self, *rows: Any) -> Any:
        return tuple(monoid.lifted(row) for monoid, row in zip(self.monoids, rows, strict=True))

    def lifted(self, row: tuple[Any, ...]) -> Any:
        return self.lift(*row)

    def combine(self, a: Any, b: Any) -> Any:
        return tuple(monoid.combine(x, y) for monoid, x, y in zip(self.monoids, a, b, strict=True))

    def seen(self, a: Any) -> Any:
        return tuple(monoid.seen(x) for monoid, x in zip(self.monoids, a, strict=True))


class PolicyWindow:
    """One Policy window of an assigner; `column` of the heads has its start."""

    def __init__(self, span: Span, arena: Arena, column: int, name: str, table: SlotTable) -> None:
        self.span, self.arena, self.column, self.name, self.table = span, arena, column, name, table
        self.over = Over(span.over)
        self.windows: dict[int, AMTA] = {}
        table.add(name, np.int64, -1, derived=True)
        arena.add(name, object)
        arena.followers.append(self)

    def lift(self, rows: StepRows, places: Ints) -> None:
        """Write the states of rows at their places."""
        inputs = []
        for part in self.over.parts:
            ours = [objects(plain(rows.column(name)), ours=True) for name in part.columns]
            inputs.append(list(zip(*ours, strict=True)) if ours else None)
        states = self.arena.columns[self.name]
        for i, place in enumerate(places.tolist()):
            try:
                states[place] = self.over.lift(*(() if rows is None else rows[i] for rows in inputs))
            except Exception as error:
                raise Failed(i, error) from error

    def enforce(self, rows: StepRows, pos: Ints, begin: Ints) -> Ints:
        """By row: the first element of the window that ends at it. Raises Failed."""
        heads, after, states = self.arena.heads, self.table[self.name], self.arena.columns[self.name]
        evict = self.span.window.gives_up  # type: ignore[attr-defined]
        found = np.zeros(len(rows), np.int64)
        for i, (s, p) in enumerate(zip(rows.slots.tolist(), pos.tolist(), strict=True)):
            offset, mask = int(heads[s, OFFSET]), int(heads[s, CAPACITY]) - 1
            first = max(int(heads[s, self.column]), int(begin[i]))
            window = self.windows.get(s)
            if window is None or after[s] != p or p - len(window) != first:
                window = self.windows[s] = AMTA(self.over)
                for q in range(first, p):
                    window.push(states[offset + (q & mask)])
            after[s] = -1  # until the policy has answered, the window is half-way through a change
            try:
                window.push(states[offset + (p & mask)])
                first += window.enforce(evict)
            except Exception as error:
                raise Failed(i, error) from error
            heads[s, self.column], after[s] = first, p + 1
            found[i] = first
        return found

    # ---- states at rest ----

    def store(self, places: Ints) -> pa.Array:
        """The states at these places as bytes."""
        dumps = [part.monoid.dump or codec.dumps for part in self.over.parts]
        states = self.arena.columns[self.name][places].tolist()
        found = [codec.dumps(tuple(dump(x) for dump, x in zip(dumps, state, strict=True))) for state in states]
        return pa.array(found, pa.binary())

    def load(self, places: Ints, column: pa.Array) -> None:
        """Put stored states at these places."""
        loads = [part.monoid.load or codec.loads for part in self.over.parts]
        states = self.arena.columns[self.name]
        for place, data in zip(places.tolist(), column.to_pylist(), strict=True):
            states[place] = tuple(load(x) for load, x in zip(loads, codec.loads(data), strict=True))

    # ---- as the arena's followers ----

    def grow(self, arena: int) -> None:
        """The windows are objects."""

    def pack(self, arena: int) -> None:
        """Slots may have new numbers."""
        self.windows.clear()

    def reset(self, slots: Ints) -> None:
        """Drop the windows of these slots."""
        self.table[self.name][slots] = -1
        for slot in slots.tolist():
            self.windows.pop(slot, None)

    @property
    def nbytes(self) -> int:
        """The memory of the windows is that of Python objects."""
        return 0
