"""The arena: the elements of each slot, in a ring or in a chain of chunks (`kernels/loops/ring_loops.py`).

    slot table   head: OFFSET CAPACITY FRONT BACK BEGIN …     chunks: LOW HIGH
    arena        pool of blocks, an array for each column     directory: the chunks of large slots

No call copies the elements of a large slot, nor those of other slots: a chain takes and frees single chunks, and arrays
grow in place, in address space that is reserved (`allocated`). When most of the arena is free it is packed, so that
memory shrinks with the state.

Structures in slots: their scalars are rows of the slot table. Queues that are indexed by the positions of elements are
further columns of the arena. Other queues have blocks of their own, which double with the ring: their structures are
then rebuilt from the elements.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sash.aggregators.base import STORED as QUEUES
from sash.aggregators.base import fields
from sash.columns.arrow_arrays import consecutive
from sash.engine.atomic import all_at_once, attributes, items
from sash.engine.keyed.slot_table import WORDS, ColumnName, NamedArrays, SlotTable, allocated
from sash.kernels.jit.numba_struct import AFTER, LEAST, StructSpec, ratio
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.bound_kernel import NO_BLOCKS, Interpreted, Ring, SlotFields, Structures
from sash.kernels.loops.loop_cache import call_loop, prepare_loop
from sash.kernels.loops.ring_loops import (
    BACK,
    CAPACITY,
    CHUNK,
    FRONT,
    HEAD,
    HIGH,
    LOW,
    MOVED,
    OFFSET,
    SETTLED,
    SMALL,
    TOP,
    UNUSED,
    copy_ranges,
    copy_whole,
    fill_ranges,
    fit_blocks,
    free_own,
    free_rings,
    give_moved,
    grow_rings,
    lacking,
    locate_ranges,
    move_blocks,
    move_levels,
    move_starts,
    own_room,
    pack_blocks,
    pack_rings,
    packed_size,
    ring_room,
    set_heads,
    set_trimmed,
    trim_rings,
)

# --- Blocks ---

SHORTEST = 1 << 12
"""Arrays of fewer elements are never packed."""

RETURNED = 1 << 20
"""The bytes that a call returns to the system."""


class Retired(NamedTuple):
    """A replaced array with space to grow, the bytes that were used, and those that have been returned."""

    array: NDArray[Any]
    used: int
    done: int


BlockArrays = tuple[Ints, Ints, Ints]
"""The first free block by rank, the next one of each, and the state: as the loops take them."""


class Blocks:
    """Blocks of powers of two in arrays that grow in place, with lists of free ones.

    The owner of a column adds it and looks it up by name; `columns` is replaced when the arrays grow. A column may have
    several values for each element.
    """

    def __init__(self) -> None:
        self.columns: NamedArrays = {}
        self.times: dict[ColumnName, int] = {}
        """By column: its values for each element."""
        self.length = 0
        self.free: Ints = np.full(64, -1, np.int64)
        """By rank: the first free block; each block has a link to the next."""
        self.state: Ints = np.zeros(2, np.int64)
        self.links: Ints = np.zeros(0, np.int64)
        self.version = 0
        """Changes whenever columns are replaced."""
        self._whole: NamedArrays = {}
        """The arrays with the space in which they grow."""
        self._all_links = self.links
        """The links with the space in which they grow."""
        self._retired: list[Retired] = []
        """Replaced arrays, whose memory `reclaim` returns."""

    @property
    def blocks(self) -> BlockArrays:
        """What loops change when they allocate and free."""
        return self.free, self.links, self.state

    def add(self, name: ColumnName, kind: DTypeLike, times: int = 1) -> None:
        """Add a column of this dtype."""
        whole = allocated(self.length * times, np.dtype(kind))
        self._whole[name], self.times[name] = whole, times
        self.columns[name] = whole[: self.length * times]
        self.version += 1

    def remove(self, name: ColumnName) -> None:
        """Remove a column, if it exists."""
        for of in (self.columns, self._whole, self.times):
            of.pop(name, None)
        self.version += 1

    def room(self, elements: int) -> None:
        """Reserve memory for this many more elements above the top. Raises MemoryError, and changes nothing."""
        if (needed := int(self.state[TOP]) + elements) > self.length:
            self._grow(max(2 * self.length, needed, SHORTEST))

    def _grow(self, length: int) -> None:
        whole: NamedArrays = {}
        made: dict[int, NDArray[Any]] = {}
        for name, old in self._whole.items():
            if id(old) not in made:
                made[id(old)] = self._longer(old, self.columns[name], length * self.times[name])
            whole[name] = made[id(old)]
        columns = {name: array[: length * self.times[name]] for name, array in whole.items()}
        links = self._longer(self._all_links, self.links, length // LEAST)
        grown = {"columns": columns, "_whole": whole, "links": links[: length // LEAST], "_all_links": links}
        all_at_once(attributes(self, length=length, version=self.version + 1, **grown))

    @staticmethod
    def _longer(whole: NDArray[Any], used: NDArray[Any], length: int) -> NDArray[Any]:
        if length <= len(whole):
            return whole
        new = allocated(length, whole.dtype)
        new[: len(used)] = used
        return new

    def emptied(self, length: int) -> dict[str, Any]:
        """The attributes of blocks of this length that are all free, for `all_at_once`."""
        made = {id(old): allocated(length * self.times[name], old.dtype) for name, old in self._whole.items()}
        whole = {name: made[id(old)] for name, old in self._whole.items()}
        retired = [Retired(old, self.columns[name].nbytes, 0) for name, old in self._whole.items()]
        columns = {name: array[: length * self.times[name]] for name, array in whole.items()}
        links = allocated(length // LEAST, self.links.dtype)
        return {
            "columns": columns, "_whole": whole, "length": length, "version": self.version + 1,
            "free": np.full(len(self.free), -1, np.int64), "links": links[: length // LEAST], "_all_links": links,
            "state": np.zeros(2, np.int64), "_retired": self._retired + retired,
        }  # fmt: skip

    def reclaim(self) -> None:
        """Return some memory of replaced arrays: all at once would make one call pay for the window that has left."""
        while self._retired:
            array, used, done = self._retired.pop()
            if array.nbytes > used > done:
                memory: mmap.mmap = memoryview(array.base).obj  # type: ignore[arg-type,assignment]
                memory.madvise(mmap.MADV_DONTNEED, done, min(RETURNED, used - done))
                self._retired.append(Retired(array, used, done + RETURNED))
                return

    @property
    def held(self) -> int:
        """The elements of blocks that are not free."""
        return int(self.state[TOP] - self.state[UNUSED])

    def is_free(self, share: int) -> bool:
        """Is less than one in `share` elements of the touched memory in use?"""
        return self.length > SHORTEST and share * self.held < max(int(self.state[TOP]), SHORTEST)

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        own = {id(self._whole[name]): column.nbytes for name, column in self.columns.items()}
        return sum(own.values())


# --- Arena ---


class Arena(Blocks):
    """The elements of slots: their heads, and the columns in which elements lie.

    `more` are the values of a new slot's head beyond the first columns.
    """

    def __init__(self, table: SlotTable, name: str, more: Sequence[int]) -> None:
        super().__init__()
        self.table, self.name = table, name
        table.add(name, np.int64, [0] * HEAD + list(more))
        table.add((name, "chunks"), np.int64, [0, 0], derived=True)
        self.directory = Blocks()
        self.directory.add("chunk", np.int64)
        self.followers: list[SlotStructures] = []
        """The structures over these elements."""
        self.has_retired = False
        """Has `reclaim` memory to return?"""

    @property
    def heads(self) -> Ints:
        """The heads of all slots."""
        return self.table.wide[self.name]

    @property
    def ring(self) -> Ring:
        """Where the elements of slots lie, as loops take it."""
        wide = self.table.wide
        return wide[self.name], wide[self.name, "chunks"], self.directory.columns["chunk"]

    def share(self, name: ColumnName, other: ColumnName) -> None:
        """Add a second name for a column whose values are always the same: both are one array."""
        self.columns[name], self._whole[name] = self.columns[other], self._whole[other]
        self.times[name] = self.times[other]
        self.version += 1

    def add_follower(self, follower: SlotStructures) -> None:
        """Keep the memory of structures as long as the rings of their slots."""
        self.followers.append(follower)

    def put(self, name: ColumnName, places: Ints, values: NDArray[Any]) -> None:
        """Write a column at these places."""
        self.columns[name][places] = values

    # ---- heads ----

    def set_heads(self, slots: Ints, columns: int | slice, values: Ints) -> None:
        """Set some columns of the heads of slots."""
        self.heads[slots, columns] = values

    def blocks_of(self, slots: Ints) -> Ints:
        """A copy of the offsets and capacities of slots, for `restore_blocks`."""
        return self.heads[slots, : CAPACITY + 1]

    def restore_blocks(self, slots: Ints, blocks: Ints) -> None:
        """Restore offsets and capacities of slots."""
        self.heads[slots, : CAPACITY + 1] = blocks

    def drop_blocks(self, slots: Ints) -> None:
        """Forget the blocks of slots, without freeing them: their heads were loaded from other memory."""
        self.heads[slots, : CAPACITY + 1] = 0
        self.table[self.name, "chunks"][slots] = 0

    # ---- memory of slots ----

    def release(self, slots: Ints) -> None:
        """Free the memory of these slots."""
        call_loop(free_rings, "", (slots, self.ring, self.blocks, self.directory.blocks))
        for follower in self.followers:
            follower.release(slots)

    def prepare_release(self) -> None:
        """Load the loops that free memory, before a call that may have to be undone."""
        memory = self.ring, self.blocks, self.directory.blocks
        prepare_loop(free_rings, "", (NO_INTS, *memory))
        # those that free chunks too: else the first gap in a stream would wait for them
        moves, after = np.empty((0, MOVED), np.int64), np.empty((0, SETTLED), np.int64)
        prepare_loop(trim_rings, "", (NO_INTS, *memory, moves, after))
        prepare_loop(set_trimmed, "", (after, *memory))
        for follower in self.followers:
            follower.prepare_release()

    def reset(self, slots: Ints) -> None:
        """Reset the structures of these slots."""
        for follower in self.followers:
            follower.reset(slots)

    def reserve(self, slots: Ints) -> None:
        """Give these slots memory for all of their elements."""
        found = np.empty(len(slots), np.int64)
        count = call_loop(lacking, "", (slots, self.ring, found))
        if count:
            self.enlarge(found[:count])

    def enlarge(self, slots: Ints) -> None:
        """Give memory to slots that lack some. An interrupt can at most leak free blocks, until the arena is packed."""
        bounds = np.empty(3, np.int64)
        call_loop(ring_room, "", (slots, self.ring, bounds))
        elements, entries, most = bounds.tolist()
        self.room(elements)
        if entries:
            self.directory.room(entries)
        moves, after = np.empty((most, MOVED), np.int64), np.empty((len(slots), SETTLED), np.int64)
        arguments = (slots, self.ring, self.blocks, self.directory.blocks, moves, after)
        moved, settled = call_loop(grow_rings, "", arguments)
        if settled:
            self._copy(moves[:moved], after[:settled, 0])
            call_loop(set_heads, "", (after[:settled], self.ring, self.blocks))
        self._fit(slots)

    def trim(self, slots: Ints) -> None:
        """Free the memory that the elements of these slots no longer need."""
        moves, after = np.empty((2 * len(slots), MOVED), np.int64), np.empty((len(slots), SETTLED), np.int64)
        heads = self.heads
        held, capacity = heads[slots, BACK] - heads[slots, FRONT], heads[slots, CAPACITY]
        shrinks = np.where(capacity > CHUNK, held <= SMALL, (capacity > SMALL) & (8 * held < capacity))
        self.room(int(4 * np.maximum(held[shrinks], LEAST).sum()))
        chunks = self.ring[1][slots[capacity > CHUNK]]
        if len(chunks):
            self.directory.room(int(4 * (chunks[:, HIGH] - chunks[:, LOW] + LEAST).sum()))
        arguments = (slots, self.ring, self.blocks, self.directory.blocks, moves, after)
        moved, settled = call_loop(trim_rings, "", arguments)
        if settled:
            self._copy(moves[:moved], after[:settled, 0])
            call_loop(set_trimmed, "", (after[:settled], self.ring, self.blocks, self.directory.blocks))
        self._fit(slots)

    def _fit(self, slots: Ints) -> None:
        """Let structures follow the rings of slots."""
        if self.followers:
            before = sum(follower.own.version for follower in self.followers)
            for follower in self.followers:
                follower.fit(slots)
            self.version += before != sum(follower.own.version for follower in self.followers)

    def _copy(self, moves: Ints, slots: Ints) -> None:
        """Copy elements to other blocks. Levels of structures are built again."""
        columns = {id(column): column for name, column in self.columns.items() if self.times[name] == 1}
        for column in columns.values():
            copy_rings(column, moves, column)
        for follower in self.followers:
            if follower.chained:
                follower.reset(slots)

    @property
    def is_sparse(self) -> bool:
        """Whether most of the arena is free."""
        return self.is_free(4) or any(follower.own.is_free(4) for follower in self.followers)

    @property
    def is_half_free(self) -> bool:
        """Whether packing would make the arena smaller."""
        return self.is_free(2) or any(follower.own.is_free(2) for follower in self.followers)

    def reclaim(self) -> None:
        """Return some memory of replaced arrays."""
        super().reclaim()
        for follower in self.followers:
            follower.own.reclaim()
        self.has_retired = bool(self._retired) or any(follower.own._retired for follower in self.followers)

    def renumbered(self) -> None:
        """Follow new numbers of slots."""
        for follower in self.followers:
            follower.renumbered()

    def pack(self, live: Ints, share: int = 2) -> None:
        """Copy the memory of the live slots to smaller arrays, where less than one in `share` elements is used."""
        live = live[self.heads[live, CAPACITY] > 0]
        self.has_retired = True
        self.version += 1
        for follower in self.followers:
            if follower.own.is_free(share):
                follower.pack(live)
        if not self.is_free(share):
            return
        sizes = np.empty(3, np.int64)
        call_loop(packed_size, "", (live, self.ring, sizes))
        elements, entries, count = sizes.tolist()
        moves, offsets = np.empty((count, MOVED), np.int64), np.empty(len(live), np.int64)
        pool = self.emptied(max(2 * elements, SHORTEST))
        directory = self.directory.emptied(max(2 * entries, 2 * LEAST))
        call_loop(pack_rings, "", (live, self.ring, moves, offsets, directory["columns"]["chunk"]))
        pool["state"][TOP], directory["state"][TOP] = elements, entries
        copied = set()
        for name, column in self.columns.items():
            if id(self._whole[name]) not in copied:
                copied.add(id(self._whole[name]))
                if self.times[name] == 1:
                    copy_rings(column, moves, pool["columns"][name])
                else:
                    arguments = (column, moves, self.times[name], pool["columns"][name])
                    call_loop(copy_whole, column.dtype.str, arguments)
        all_at_once(
            items(self.heads, (live, OFFSET), offsets),
            attributes(self, **pool),
            attributes(self.directory, **directory),
        )

    @property
    def nbytes(self) -> int:
        """The memory of the elements, and of the structures' queues."""
        return int(super().nbytes + self.directory.nbytes + sum(follower.nbytes for follower in self.followers))


def copy_rings(values: NDArray[Any], moves: Ints, target: NDArray[Any]) -> None:
    """Copy elements to other blocks, of the same array or of another."""
    if values.dtype == object:
        move_blocks(values, moves, target)
    else:
        call_loop(move_blocks, values.dtype.str, (values, moves, target))


class RingRanges:
    """The elements [start, stop) of some slots, one slot after the other."""

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
        """By element: its position."""
        return consecutive(self.starts, self.counts)

    @cached_property
    def places(self) -> Ints:
        """By element: its place in the arena."""
        found = np.empty(self.total, np.int64)
        call_loop(locate_ranges, "", (self.slots, self.arena.ring, self.starts, self.stops, found))
        return found

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """The elements of a column: a copy."""
        if values.dtype.str not in WORDS:
            return values[self.places]
        out = np.empty(self.total, np.int64)
        arguments = (values.view(np.int64), self.slots, self.arena.ring, self.starts, self.stops, out)
        call_loop(copy_ranges, "", arguments)
        return out.view(values.dtype)

    def fill(self, values: Ints, number: int) -> None:
        """Write a number into the elements of a column of integers."""
        call_loop(fill_ranges, "", (values, self.slots, self.arena.ring, self.starts, self.stops, number))


# --- Slot structures ---


class SlotStructures(Structures):
    """The structures of one window and aggregate, one for each slot; `name`: their scalars in the slot table."""

    def __init__(
        self, spec: StructSpec | Interpreted, arena: Arena, table: SlotTable, name: str, sizes: bool = False
    ) -> None:
        super().__init__(spec, sizes)
        self.arena, self.table, self.name = arena, table, name
        self.own = Blocks()
        """The blocks of the queues that are not indexed by the positions of elements."""
        self.chained = False
        """Are there levels in chunks? Only those above the chunks are in blocks."""
        self.levels: list[ColumnName] = []
        """The columns of such levels."""
        self._queues: list[tuple[list[Blocks], list[ColumnName]]] = []
        """By queue: where its columns are, and their names."""
        table.add((name, "ints"), np.int64, [-1] * self.ints, derived=True)
        table.add((name, "floats"), np.float64, [0.0] * self.floats, derived=True)
        for queue, kind in fields(spec.structure).items() if isinstance(spec, StructSpec) else ():
            if kind in QUEUES:
                assert isinstance(spec, StructSpec)
                in_chunks, times = spec.in_chunks(queue), ratio(spec.structure, queue)
                self.chained |= in_chunks
                leaves: list[ColumnName] = []
                for i, leaf in enumerate(spec.layout(kind).allocate(0)):
                    leaves.append((name, queue, i))
                    if in_chunks:
                        self.own.add(leaves[-1], leaf.dtype, times)
                        self.levels.append(leaves[-1])
                    if queue not in spec.structure.by_position:
                        self.own.add(leaves[-1], leaf.dtype, times)
                    else:
                        arena.add(leaves[-1], leaf.dtype, times if in_chunks else 1)
                of = [self.own, arena] if in_chunks else [arena if queue in spec.structure.by_position else self.own]
                self._queues.append((of, leaves))
        if self.own.columns:
            table.add((name, "block"), np.int64, [0, 0], derived=True)
        arena.add_follower(self)

    @property
    def columns(self) -> list[ColumnName]:
        """The names of the arena's columns that hold queues."""
        return [leaf for several, leaves in self._queues for leaf in leaves if self.arena in several]

    @property
    def fields(self) -> SlotFields:
        """The arrays of all slots, as the loops take them; finds the queues, too."""
        if self.compiled:
            found = []
            for several, leaves in self._queues:
                arrays = [tuple([of.columns[leaf] for leaf in leaves]) for of in several]
                found.append(arrays[0] if len(arrays) == 1 else tuple(arrays))
            self.storage = tuple(found)
        wide = self.table.wide
        scalars = wide[self.name, "ints"], wide[self.name, "floats"]
        return SlotFields(scalars, wide[self.name, "block"] if self.own.columns else NO_BLOCKS, self.arena.ring)

    @property
    def nbytes(self) -> int:
        """The memory of the queues that are not columns of the arena."""
        return self.own.nbytes

    def fit(self, slots: Ints) -> None:
        """Give the structures of slots blocks as long as their rings: those that get other ones are rebuilt."""
        if not self.own.columns:
            return
        own, ring, found = self.table.wide[self.name, "block"], self.arena.ring, np.empty(2, np.int64)
        call_loop(own_room, "", (slots, ring[0], own, self.chained, found))
        room, count = found.tolist()
        if not count:
            return
        self.own.room(room)
        moves, ints = np.empty((count, MOVED), np.int64), self.table.wide[self.name, "ints"]
        arguments = (slots, ring, own, ints, AFTER + 1, self.chained, self.own.blocks, moves)
        moves = moves[: call_loop(fit_blocks, "", arguments)]
        if len(moves):
            for name, column in self.own.columns.items():
                loop = move_levels if name in self.levels else move_starts
                call_loop(loop, column.dtype.str, (column, moves, self.own.times[name]))
            call_loop(give_moved, "", (moves, self.own.blocks))

    def release(self, slots: Ints) -> None:
        """Free the memory of the structures of these slots."""
        if self.own.columns:
            call_loop(free_own, "", (slots, self.table.wide[self.name, "block"], self.own.blocks))
        self.reset(slots)

    def prepare_release(self) -> None:
        """Load the loop that frees memory."""
        if self.own.columns:
            prepare_loop(free_own, "", (NO_INTS, self.table.wide[self.name, "block"], self.own.blocks))

    def renumbered(self) -> None:
        """Follow new numbers of slots: interpreted structures are rebuilt."""
        if not self.compiled:
            self.storage.clear()
            self.reset(np.arange(self.table.capacity))

    def pack(self, live: Ints) -> None:
        """Copy the blocks of the live slots into smaller arrays without gaps."""
        own = self.table.wide[self.name, "block"]
        sizes = own[live, CAPACITY]
        offsets = np.cumsum(sizes) - sizes
        made = self.own.emptied(max(2 * int(sizes.sum()), SHORTEST))
        made["state"][TOP] = sizes.sum()
        for name, column in self.own.columns.items():
            arguments = (column, live, own, offsets, self.own.times[name], made["columns"][name])
            call_loop(pack_blocks, column.dtype.str, arguments)
        all_at_once(items(own, (live, OFFSET), offsets), attributes(self.own, **made))

    def reset(self, slots: Ints) -> None:
        """Mark the structures of these slots to be rebuilt from their elements at the next query."""
        self.table[self.name, "ints"][slots, : AFTER + 1] = -1
        self.forget(slots)
