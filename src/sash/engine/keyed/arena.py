"""The arena: a ring of elements for each slot, in flat arrays addressed by offsets.

    slot    head: OFFSET CAPACITY FRONT BACK BEGIN …        arena, one array for each column
    0       0      4        2     5                          │e4  ·  e2 e3│ · · · · · · · ·│e0 e1 …
    1       12     8        0     7                          └── slot 0 ──┘                └── slot 1 …

Positions only grow; position p lies at OFFSET + (p & (CAPACITY - 1)). A ring that is full moves to a block of twice
the size, and its old block is reused. Blocks are powers of two. When most of the arena is free it is packed, so that
memory shrinks with the state.

Structures in slots: their scalars are rows of the slot table, and their queues lie in an arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sash.columns.arrow_arrays import consecutive
from sash.engine.atomic import all_at_once, attributes, items
from sash.engine.keyed.slot_table import WORDS, ColumnName, NamedArrays, SlotTable
from sash.kernels.jit.numba_struct import AFTER, BLOCK, StructSpec
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.bound_kernel import Interpreted, SlotFields, Structures
from sash.kernels.loops.live_loops import BACK, CAPACITY, FRONT, HEAD, OFFSET
from sash.kernels.loops.loop_cache import call_loop, prepare_loop
from sash.kernels.loops.slot_loops import fill_rings, free_blocks, move_blocks, pack_rings, take_blocks

# --- Arena ---

LEAST = 1 << 12
"""An arena of fewer elements is never packed."""


class Arena:
    """Rings of elements: the heads of the slots, and the columns in which elements lie.

    `more` are the values of a new slot's head beyond the first columns. The owner of a column adds it and looks it up
    by name: a column is replaced when the arena grows.
    """

    def __init__(self, table: SlotTable, name: str, more: Sequence[int]) -> None:
        self.table, self.name = table, name
        table.add(name, np.int64, [0] * HEAD + list(more))
        self.columns: NamedArrays = {}
        self.length = 0
        self.top = 0
        self.free: Ints = np.full(64, -1, np.int64)
        """By the logarithm of the size: the first free block; each block has a link to the next."""
        self.links: Ints = np.zeros(0, np.int64)
        self.unused = 0
        """Elements in free blocks below `top`."""
        self.version = 0
        """Changes whenever columns are replaced."""
        self.followers: list[SlotStructures] = []
        """The structures whose queues lie in this arena; it calls their `grow`, `move`, `reset` and `pack`."""

    @property
    def heads(self) -> Ints:
        """The heads of all slots."""
        return self.table.wide[self.name]

    def add(self, name: ColumnName, kind: DTypeLike) -> None:
        """Add a column of this dtype."""
        self.columns[name] = np.zeros(self.length, kind)

    def share(self, name: ColumnName, other: ColumnName) -> None:
        """Add a second name for a column whose values are always the same: both are one array."""
        self.columns[name] = self.columns[other]

    @property
    def _arrays(self) -> list[NDArray[Any]]:
        """The arrays of all columns, each once."""
        return list({id(column): column for column in self.columns.values()}.values())

    def _replaced(self, length: int, fill: Callable[[NDArray[Any], NDArray[Any]], object]) -> NamedArrays:
        """The columns in new arrays of this length; `fill(old, new)` copies values."""
        made: dict[int, NDArray[Any]] = {}
        for old in self._arrays:
            new = made[id(old)] = blank_column(length, old.dtype)
            fill(old, new)
        return {name: made[id(old)] for name, old in self.columns.items()}

    def remove(self, name: ColumnName) -> None:
        """Remove a column, if it exists."""
        self.columns.pop(name, None)

    def add_follower(self, follower: SlotStructures) -> None:
        """Let the queues of structures grow and move with this arena."""
        self.followers.append(follower)

    def put(self, name: ColumnName, places: Ints, values: NDArray[Any]) -> None:
        """Write a column at these places."""
        self.columns[name][places] = values

    # ---- heads ----

    def set_heads(self, slots: Ints, columns: int | slice, values: Ints) -> None:
        """Set some columns of the heads of slots."""
        self.heads[slots, columns] = values

    def blocks(self, slots: Ints) -> Ints:
        """A copy of the offsets and capacities of slots, for `restore_blocks`."""
        return self.heads[slots, : CAPACITY + 1]

    def restore_blocks(self, slots: Ints, blocks: Ints) -> None:
        """Restore offsets and capacities of slots."""
        self.heads[slots, : CAPACITY + 1] = blocks

    def drop_blocks(self, slots: Ints) -> None:
        """Forget the blocks of slots, without freeing them: their heads were loaded from other memory."""
        self.heads[slots, : CAPACITY + 1] = 0

    # ---- blocks ----

    def release(self, slots: Ints) -> None:
        """Free the blocks of these slots."""
        self.unused += call_loop(free_blocks, "", (slots, self.heads, BLOCK, self.free, self.links))
        self.reset(slots)

    def prepare_release(self) -> None:
        """Load the loop that frees blocks, before a call that may have to be undone."""
        prepare_loop(free_blocks, "", (NO_INTS, self.heads, BLOCK, self.free, self.links))

    def reset(self, slots: Ints) -> None:
        """Reset the structures of these slots."""
        for follower in self.followers:
            follower.reset(slots)

    def reserve(self, slots: Ints) -> None:
        """Give every ring of these slots a block that fits its elements [FRONT, BACK): larger, or much smaller."""
        heads = self.heads
        held = heads[slots, BACK] - heads[slots, FRONT]
        capacity = heads[slots, CAPACITY]
        moving = np.flatnonzero((held > capacity) | ((capacity > SMALL) & (8 * held < capacity)))
        if len(moving):
            self._move(slots[moving])

    def _move(self, slots: Ints) -> None:
        """Move rings to other blocks. An interrupt can at most leak free blocks, until the arena is packed."""
        moves = np.empty((len(slots), 6), np.int64)
        arguments = (slots, self.heads, BLOCK, self.free, self.links, self.top, moves)
        self.top, reused = call_loop(take_blocks, "", arguments)
        self.unused -= reused
        if self.top > self.length:
            self._grow(max(2 * self.length, self.top, LEAST))
        for follower in self.followers:
            follower.move(slots)
        for column in self._arrays:
            copy_rings(column, moves, column)
        self.heads[slots, : CAPACITY + 1] = moves[:, 2:4]
        self.unused += call_loop(free_blocks, "", (np.arange(len(slots)), moves, BLOCK, self.free, self.links))

    def _grow(self, length: int) -> None:
        for follower in self.followers:
            follower.grow(length)
        columns = self._replaced(length, lambda old, new: new.__setitem__(slice(self.length), old))
        links = np.empty(length // BLOCK, np.int64)
        links[: len(self.links)] = self.links
        all_at_once(attributes(self, columns=columns, links=links, length=length, version=self.version + 1))

    @property
    def is_sparse(self) -> bool:
        """Whether most of the arena is free."""
        return self.length > LEAST and 4 * (self.top - self.unused) < self.length

    @property
    def is_half_free(self) -> bool:
        """Whether packing would make the arena smaller."""
        return self.length > LEAST and 2 * (self.top - self.unused) < self.length

    def pack(self, live: Ints, renumbered: bool = False) -> None:
        """Copy the blocks of the live slots, which may have new numbers, into a smaller arena without gaps."""
        for follower in self.followers:  # first: their rings are where they were if there is no memory for other arrays
            (follower.reset if renumbered else follower.move)(np.arange(self.table.capacity))
        heads = self.heads
        live = live[heads[live, CAPACITY] > 0]
        moves = np.empty((len(live), 6), np.int64)
        moves[:, 0:2] = heads[live, OFFSET : CAPACITY + 1]
        sizes = moves[:, 1]
        moves[:, 3] = sizes
        moves[:, 2] = np.cumsum(sizes) - sizes
        moves[:, 4:6] = heads[live, FRONT : BACK + 1]
        top = int(sizes.sum())
        length = max(2 * top, LEAST)
        columns = self._replaced(length, lambda old, new: copy_rings(old, moves, new))
        free, links = np.full(len(self.free), -1, np.int64), np.empty(length // BLOCK, np.int64)
        blocks = {"top": top, "length": length, "unused": 0, "free": free, "links": links}
        all_at_once(
            items(heads, (live, OFFSET), moves[:, 2]),
            attributes(self, columns=columns, version=self.version + 1, **blocks),
        )
        for follower in self.followers:
            follower.pack(length, renumbered)

    @property
    def nbytes(self) -> int:
        """The memory of the columns, and of the structures' queues."""
        own = sum(column.nbytes for column in self._arrays)
        return int(own + sum(follower.nbytes for follower in self.followers))


SMALL = 64
"""A block of fewer elements is not replaced by a smaller one."""


def blank_column(length: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """A new column of this length: zeros, or objects."""
    return np.empty(length, object) if kind.kind == "O" else np.zeros(length, kind)


def copy_rings(values: NDArray[Any], moves: Ints, target: NDArray[Any]) -> None:
    """Copy rings to other blocks, of the same array or of another."""
    if values.dtype == object:
        move_blocks(values, moves, target)
    else:
        call_loop(move_blocks, values.dtype.str, (values, moves, target))


class RingRanges:
    """The elements [start, stop) of some slots' rings, one slot after the other."""

    def __init__(self, arena: Arena, slots: Ints, starts: Ints, stops: Ints) -> None:
        self.arena, self.slots, self.starts = arena, slots, starts
        self.counts: Ints = np.maximum(stops - starts, 0)
        self.stops: Ints = starts + self.counts
        self.total = int(self.counts.sum())

    @cached_property
    def entry(self) -> Ints:
        """By element: the index of its slot."""
        return np.repeat(np.arange(len(self.slots)), self.counts)

    @cached_property
    def positions(self) -> Ints:
        """By element: its position in the ring."""
        return consecutive(self.starts, self.counts)

    @cached_property
    def places(self) -> Ints:
        """By element: its place in the arena."""
        heads, of = self.arena.heads, self.slots[self.entry]
        found: Ints = heads[of, OFFSET] + (self.positions & (heads[of, CAPACITY] - 1))
        return found

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """The elements of a column: a copy."""
        if values.dtype.str not in WORDS:
            return values[self.places]
        out = np.empty(self.total, np.int64)
        arguments = (values.view(np.int64), self.slots, self.arena.heads, self.starts, self.stops, out)
        call_loop(pack_rings, "", arguments)
        return out.view(values.dtype)

    def fill(self, values: Ints, number: int) -> None:
        """Write a number into the elements of a column of integers."""
        call_loop(fill_rings, "", (values, self.slots, self.arena.heads, self.starts, self.stops, number))


# --- Slot structures ---


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
