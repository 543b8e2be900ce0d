"""Structures in slots: their scalars are rows of the slot table, and their queues lie in an arena."""

from __future__ import annotations

import numpy as np

from sash.engine.arena import Arena
from sash.engine.slot_table import SlotTable
from sash.kernels.jit.numba_struct import AFTER, StructSpec
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_kernel import SlotFields, Structures
from sash.kernels.loops.runner import Interpreted


class SlotStructures(Structures):
    """The structures of one window and aggregate, one for each slot; `name`: their scalars in the slot table."""

    def __init__(
        self, spec: StructSpec | Interpreted, arena: Arena, table: SlotTable, name: str, sizes: bool = False
    ) -> None:
        super().__init__(spec, arena.length, sizes)
        self.arena, self.table, self.name = arena, table, name
        table.add((name, "ints"), np.int64, [-1] * self.ints, derived=True)
        table.add((name, "floats"), np.float64, [0.0] * self.floats, derived=True)
        arena.add_follower(self)

    @property
    def fields(self) -> SlotFields:
        """The arrays of all slots, as the loops take them."""
        wide = self.table.wide
        return SlotFields((wide[self.name, "ints"], wide[self.name, "floats"]), self.arena.heads)

    def pack(self, arena: int, renumbered: bool) -> None:
        """Reset structures for an arena of this length; Python objects only if slots were renumbered."""
        if self.compiled or renumbered:
            self.allocate(arena)
            self.reset(np.arange(self.table.capacity))

    def move(self, slots: Ints) -> None:
        """Reset the compiled structures of slots whose rings have moved: their queues are lost."""
        if self.compiled:
            self.reset(slots)

    def reset(self, slots: Ints) -> None:
        """Mark the structures of these slots to be rebuilt from their elements at the next query."""
        self.table[self.name, "ints"][slots, : AFTER + 1] = -1
        self.forget(slots)
