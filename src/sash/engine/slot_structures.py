"""Structures that live in slots: their scalars are rows of the slot table, and their queues follow an arena."""

from __future__ import annotations

import numpy as np

from sash.engine.arena import Arena
from sash.engine.slot_table import SlotTable
from sash.kernels.jit.numba_struct import AFTER, StructSpec
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_kernel import SlotFields, Structures
from sash.kernels.loops.runner import Interpreted


class SlotStructures(Structures):
    """The structures of one window and aggregate, one a slot; `name` is that of their scalars in the slot table."""

    def __init__(self, spec: StructSpec | Interpreted, arena: Arena, table: SlotTable, name: str) -> None:
        super().__init__(spec, arena.length)
        self.arena, self.table, self.name = arena, table, name
        table.add((name, "ints"), np.int64, [-1] * self.ints, derived=True)
        table.add((name, "floats"), np.float64, [0.0] * self.floats, derived=True)
        arena.followers.append(self)

    @property
    def fields(self) -> SlotFields:
        """The arrays of all slots, as the loops take them."""
        wide = self.table.wide
        return SlotFields((wide[self.name, "ints"], wide[self.name, "floats"]), self.arena.heads)

    def pack(self, arena: int, renumbered: bool) -> None:
        """Build structures anew in an arena of this length; Python objects only if slots have new numbers."""
        if self.compiled or renumbered:
            self.allocate(arena)
            self.reset(np.arange(self.table.capacity))

    def move(self, slots: Ints) -> None:
        """The rings of these slots have moved: queues in the arena are lost, those of Python objects are not."""
        if self.compiled:
            self.reset(slots)

    def reset(self, slots: Ints) -> None:
        """Let the structures of these slots be built again from their elements when they are next asked."""
        self.table[self.name, "ints"][slots, : AFTER + 1] = -1
        self.forget(slots)
