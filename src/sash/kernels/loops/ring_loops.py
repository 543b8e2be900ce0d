"""The elements of a slot: a ring in one block, or a chain of chunks. Where they lie, and loops over their memory.

    small      head  OFFSET ──▶ pool      │ · · e4 e1 e2 e3 · · │           a block of CAPACITY elements, a ring
    large      head  OFFSET ──▶ directory │ 7 │ 2 │ 9 │ · │                 a ring of the offsets of chunks
                                            │   │   │
                                pool        ▼   ▼   ▼                       CHUNK elements each; they never move

Positions only grow. A large slot takes a chunk when its elements reach it and frees it when they have left it, so that
no call copies a window: only the directory doubles, 8 bytes for a chunk. A small slot takes the least block that is a
power of two, and copies at most a chunk when it grows.

take, give         allocate and free a block: blocks have sizes of powers of two, and a list of free ones for each
grow_rings         give slots room for their elements; `ring_room` says how much memory that takes at most
trim_rings         free the chunks that elements have left, and blocks that are far too large
pack_rings         lay out the rings of slots without gaps; `move_blocks` copies elements to other blocks
locate             the places of positions; `locate_ranges` of ranges, `copy_ranges` and `fill_ranges` their values
fit_blocks         give the structures of slots blocks as long as their rings
"""

from __future__ import annotations

from typing import Any

from sash.kernels.jit.numba_arrays import BITS, level_start
from sash.kernels.jit.numba_struct import LEAST

CHUNK = 1 << BITS
"""The elements of a chunk."""

SMALL = 64
"""A block of at most this many elements is not replaced by a smaller one; a chain of fewer elements becomes a block."""

OFFSET, CAPACITY, FRONT, BACK, BEGIN = range(5)
"""The columns of a slot's head: its block of the pool, or of the directory if the capacity exceeds a chunk; its
elements [FRONT, BACK); and its first element since `forget` last expired the key."""

HEAD = 5
"""Columns beyond these belong to the windows of the group."""

LOW, HIGH = 0, 1
"""The columns of a slot's chunks: it has those of the positions [LOW, HIGH) << BITS. Only large slots have chunks."""

TOP, UNUSED = 0, 1
"""The state of blocks: all lie below TOP, of which UNUSED elements are in free ones."""


def place(ring: Any, s: int, p: int) -> int:
    """The place of a position in the pool."""
    heads, _, directory = ring
    offset, capacity = heads[s, OFFSET], heads[s, CAPACITY]
    if capacity <= CHUNK:
        return offset + (p & (capacity - 1))  # type: ignore[no-any-return]
    return directory[offset + ((p >> BITS) & ((capacity >> BITS) - 1))] + (p & (CHUNK - 1))  # type: ignore[no-any-return]


def has_room(ring: Any, s: int, p: int) -> int:
    """How many more elements fit a slot whose next one has position p; below 0 if some are without memory already."""
    heads, chunks, _ = ring
    capacity = heads[s, CAPACITY]
    if capacity <= CHUNK:
        return heads[s, FRONT] + capacity - p  # type: ignore[no-any-return]
    return (chunks[s, HIGH] << BITS) - p  # type: ignore[no-any-return]


# --- Blocks ---


def rank(size: int) -> int:
    """The list of a size."""
    number = 0
    while (LEAST << number) < size:
        number += 1
    return number


def take(blocks: Any, size: int) -> int:
    """Allocate a block: a free one, or a new one at the top."""
    free, links, state = blocks
    number = rank(size)
    block = free[number]
    if block >= 0:
        free[number] = links[block // LEAST]
        state[UNUSED] -= LEAST << number
    else:
        block = state[TOP]
        state[TOP] += LEAST << number
    return block  # type: ignore[no-any-return]


def give(blocks: Any, block: int, size: int) -> None:
    """Free a block."""
    free, links, state = blocks
    number = rank(size)
    links[block // LEAST] = free[number]
    free[number] = block
    state[UNUSED] += LEAST << number


def fitting(count: int) -> int:
    """The size of the least block for this many elements."""
    size = LEAST
    while size < count:
        size *= 2
    return size


# --- Growth ---

MOVED = 7
"""The columns of a move: the slot; the old block and its size, the new ones; the positions to copy, [start, stop)."""

SETTLED = 5
"""The columns of a new head: the slot, its offset and capacity, the first chunk and the one after the last."""


def record_move(moves: Any, m: int, s: int, old: int, size: int, new: int, other: int, start: int, stop: int) -> None:
    """Write a move."""
    moves[m, 0], moves[m, 1], moves[m, 2], moves[m, 3] = s, old, size, new
    moves[m, 4], moves[m, 5], moves[m, 6] = other, start, stop


def lacking(of: Any, ring: Any, out: Any) -> int:
    """List the slots without memory for all of their elements."""
    heads = ring[0]
    count = 0
    for s in of:
        if has_room(ring, s, heads[s, BACK]) < 0:
            out[count] = s
            count += 1
    return count


def ring_room(of: Any, ring: Any, out: Any) -> None:
    """An upper bound of what `grow_rings` takes: elements of the pool, entries of the directory, and moves."""
    heads, chunks, _ = ring
    elements, entries, moves = 0, 0, 0
    for s in of:
        front, back, capacity = heads[s, FRONT], heads[s, BACK], heads[s, CAPACITY]
        if back - front <= CHUNK and capacity <= CHUNK:
            elements += fitting(back - front)
            moves += 1
            continue
        first = chunks[s, HIGH] if capacity > CHUNK else front >> BITS
        elements += (((back - 1) >> BITS) + 1 - first) << BITS
        low = chunks[s, LOW] if capacity > CHUNK else first
        needed = ((back - 1) >> BITS) + 1 - low
        if capacity <= CHUNK:
            moves += 2
        if capacity <= CHUNK or needed > capacity >> BITS:
            entries += 2 * fitting(needed)
    out[0], out[1], out[2] = elements, entries, moves


def grow_rings(of: Any, ring: Any, pool: Any, table: Any, moves: Any, heads_after: Any) -> Any:
    """Give each slot memory for its elements, at least double of what it has.

    A chain only gets chunks and entries of its directory, at once. Rings that become larger, or a chain, get their new
    blocks: the caller makes the `moves`, and then sets the heads. Returns the number of moves and of heads.
    """
    heads, chunks, directory = ring
    m, h = 0, 0
    for s in of:
        front, back, capacity = heads[s, FRONT], heads[s, BACK], heads[s, CAPACITY]
        if back - front <= CHUNK and capacity <= CHUNK:
            size = fitting(back - front)
            block = take(pool, size)
            stop = min(back, front + capacity)
            record_move(moves, m, s, heads[s, OFFSET], capacity, block, size, front, stop)
            heads_after[h, 0], heads_after[h, 1], heads_after[h, 2] = s, block, size
            heads_after[h, 3], heads_after[h, 4] = 0, 0
            m += 1
            h += 1
            continue
        end = ((back - 1) >> BITS) + 1
        if capacity <= CHUNK:
            low = front >> BITS
            size = max(fitting(end - low), 2 * LEAST)
            offset = take(table, size)
            held = min(back, front + capacity)
            for c in range(low, end):
                chunk = take(pool, CHUNK)
                directory[offset + (c & (size - 1))] = chunk
                start, stop = max(front, c << BITS), min(held, (c + 1) << BITS)
                if start < stop:
                    record_move(moves, m, s, heads[s, OFFSET], capacity, chunk, CHUNK, start, stop)
                    m += 1
            heads_after[h, 0], heads_after[h, 1], heads_after[h, 2] = s, offset, size << BITS
            heads_after[h, 3], heads_after[h, 4] = low, end
            h += 1
            continue
        low, have = chunks[s, LOW], chunks[s, HIGH]
        size = capacity >> BITS
        if end - low > size:
            other = size
            while other < end - low:
                other *= 2
            offset, old = take(table, other), heads[s, OFFSET]
            for c in range(low, have):
                directory[offset + (c & (other - 1))] = directory[old + (c & (size - 1))]
            give(table, old, size)
            heads[s, OFFSET], heads[s, CAPACITY] = offset, other << BITS
            size = other
        for c in range(have, end):
            directory[heads[s, OFFSET] + (c & (size - 1))] = take(pool, CHUNK)
        chunks[s, HIGH] = end
    return m, h


def set_heads(heads_after: Any, ring: Any, pool: Any) -> None:
    """Set the heads of rings that have been copied, and free their old blocks."""
    heads, chunks, _ = ring
    for h in range(len(heads_after)):
        s = heads_after[h, 0]
        old, size = heads[s, OFFSET], heads[s, CAPACITY]
        heads[s, OFFSET], heads[s, CAPACITY] = heads_after[h, 1], heads_after[h, 2]
        chunks[s, LOW], chunks[s, HIGH] = heads_after[h, 3], heads_after[h, 4]
        if size > 0:
            give(pool, old, size)


# --- What leaves ---


def is_sparse(ring: Any, s: int) -> bool:
    """Has a slot chunks that its elements have left, or a block that is far too large?"""
    heads, chunks, _ = ring
    front, back, capacity = heads[s, FRONT], heads[s, BACK], heads[s, CAPACITY]
    if capacity > CHUNK:
        return (min(front, back - 1) >> BITS) > chunks[s, LOW]  # type: ignore[no-any-return]
    return capacity > SMALL and 8 * (back - front) < capacity  # type: ignore[no-any-return]


def trim_rings(of: Any, ring: Any, pool: Any, table: Any, moves: Any, heads_after: Any) -> Any:
    """Free the chunks that elements have left, directories that are far too large, and the chunks or blocks of rings
    that are to become smaller blocks: for these the caller makes the `moves`, and then calls `set_trimmed`.

    The chunk of the last element stays. Returns the number of moves and of heads.
    """
    heads, chunks, directory = ring
    m, h = 0, 0
    for s in of:
        front, back, capacity = heads[s, FRONT], heads[s, BACK], heads[s, CAPACITY]
        held = back - front
        if capacity > CHUNK:
            offset, size, low = heads[s, OFFSET], capacity >> BITS, chunks[s, LOW]
            stay = min(front, back - 1) >> BITS
            for c in range(low, stay):
                give(pool, directory[offset + (c & (size - 1))], CHUNK)
            low = max(low, stay)
            chunks[s, LOW] = low
            have = chunks[s, HIGH]
            if held > SMALL:
                if size > 2 * LEAST and 8 * (have - low) < size:
                    other = max(2 * fitting(have - low), 2 * LEAST)
                    moved = take(table, other)
                    for c in range(low, have):
                        directory[moved + (c & (other - 1))] = directory[offset + (c & (size - 1))]
                    give(table, offset, size)
                    heads[s, OFFSET], heads[s, CAPACITY] = moved, other << BITS
                continue
            other = 2 * fitting(held)
            block = take(pool, other)
            for c in range(low, have):
                start, stop = max(front, c << BITS), min(back, (c + 1) << BITS)
                if start < stop:
                    chunk = directory[offset + (c & (size - 1))]
                    record_move(moves, m, s, chunk, CHUNK, block, other, start, stop)
                    m += 1
        elif capacity > SMALL and 8 * held < capacity:
            other = 2 * fitting(held)
            block = take(pool, other)
            record_move(moves, m, s, heads[s, OFFSET], capacity, block, other, front, back)
            m += 1
        else:
            continue
        heads_after[h, 0], heads_after[h, 1], heads_after[h, 2] = s, block, other
        heads_after[h, 3], heads_after[h, 4] = 0, 0
        h += 1
    return m, h


def set_trimmed(heads_after: Any, ring: Any, pool: Any, table: Any) -> None:
    """Set the heads of rings that have been copied to smaller blocks, and free what they had."""
    heads = ring[0]
    for h in range(len(heads_after)):
        s = heads_after[h, 0]
        release_ring(s, ring, pool, table)
        heads[s, OFFSET], heads[s, CAPACITY] = heads_after[h, 1], heads_after[h, 2]


def free_rings(of: Any, ring: Any, pool: Any, table: Any) -> None:
    """Free the memory of slots."""
    for s in of:
        release_ring(s, ring, pool, table)


def release_ring(s: int, ring: Any, pool: Any, table: Any) -> None:
    """Free the memory of a slot."""
    heads, chunks, directory = ring
    offset, capacity = heads[s, OFFSET], heads[s, CAPACITY]
    if capacity > CHUNK:
        size = capacity >> BITS
        for c in range(chunks[s, LOW], chunks[s, HIGH]):
            give(pool, directory[offset + (c & (size - 1))], CHUNK)
        give(table, offset, size)
    elif capacity > 0:
        give(pool, offset, capacity)
    heads[s, OFFSET], heads[s, CAPACITY] = 0, 0
    chunks[s, LOW], chunks[s, HIGH] = 0, 0


# --- A compact copy ---


def packed_size(of: Any, ring: Any, out: Any) -> None:
    """What the rings of slots take: elements of the pool, entries of the directory, and moves."""
    heads, chunks, _ = ring
    elements, entries, moves = 0, 0, 0
    for s in of:
        capacity = heads[s, CAPACITY]
        if capacity > CHUNK:
            count = chunks[s, HIGH] - chunks[s, LOW]
            elements += count << BITS
            entries += capacity >> BITS
            moves += count
        elif capacity > 0:
            elements += capacity
            moves += 1
    out[0], out[1], out[2] = elements, entries, moves


def pack_rings(of: Any, ring: Any, moves: Any, offsets: Any, entries: Any) -> None:
    """Lay out the rings of slots without gaps: writes the moves, the new offset of each, and the new directory."""
    heads, chunks, directory = ring
    m, top, at = 0, 0, 0
    for i in range(len(of)):
        s = of[i]
        offset, capacity, front, back = heads[s, OFFSET], heads[s, CAPACITY], heads[s, FRONT], heads[s, BACK]
        if capacity > CHUNK:
            size = capacity >> BITS
            offsets[i] = at
            for c in range(chunks[s, LOW], chunks[s, HIGH]):
                old = directory[offset + (c & (size - 1))]
                record_move(moves, m, s, old, CHUNK, top, CHUNK, max(front, c << BITS), min(back, (c + 1) << BITS))
                entries[at + (c & (size - 1))] = top
                top += CHUNK
                m += 1
            at += size
        elif capacity > 0:
            offsets[i] = top
            record_move(moves, m, s, offset, capacity, top, capacity, front, min(back, front + capacity))
            top += capacity
            m += 1


# --- Elements ---


def move_blocks(values: Any, moves: Any, out: Any) -> None:
    """Copy elements from blocks of `values` to other blocks of `out`, which may be the same array."""
    for m in range(len(moves)):
        source, old, target, new = moves[m, 1], moves[m, 2], moves[m, 3], moves[m, 4]
        for p in range(moves[m, 5], moves[m, 6]):
            out[target + (p & (new - 1))] = values[source + (p & (old - 1))]


def locate(slots: Any, pos: Any, ring: Any, places: Any) -> None:
    """Find the places of positions in the pool."""
    for i in range(len(slots)):
        places[i] = place(ring, slots[i], pos[i])


def straight(ring: Any, s: int, p: int, stop: int) -> int:
    """How many elements from position p on, up to `stop`, lie one after the other."""
    capacity = ring[0][s, CAPACITY]
    size = min(capacity, CHUNK)
    return min(stop - p, size - (p & (size - 1)))  # type: ignore[no-any-return]


def locate_ranges(slots: Any, ring: Any, starts: Any, stops: Any, out: Any) -> None:
    """Find the places of the elements [start, stop) of each slot, one slot after the other."""
    at = 0
    for i in range(len(slots)):
        p = starts[i]
        while p < stops[i]:
            count, first = straight(ring, slots[i], p, stops[i]), place(ring, slots[i], p)
            for j in range(count):
                out[at + j] = first + j
            at += count
            p += count


def copy_ranges(values: Any, slots: Any, ring: Any, starts: Any, stops: Any, out: Any) -> None:
    """Copy the elements [start, stop) of each slot, one slot after the other."""
    at = 0
    for i in range(len(slots)):
        p = starts[i]
        while p < stops[i]:
            count, first = straight(ring, slots[i], p, stops[i]), place(ring, slots[i], p)
            for j in range(count):
                out[at + j] = values[first + j]
            at += count
            p += count


def fill_ranges(values: Any, slots: Any, ring: Any, starts: Any, stops: Any, number: int) -> None:
    """Write a number into the elements [start, stop) of each slot."""
    for i in range(len(slots)):
        for p in range(starts[i], stops[i]):
            values[place(ring, slots[i], p)] = number


# --- Blocks of structures ---

SHRINKS = 32
"""A structure's block is replaced by a smaller one if it is this many times as long as needed."""


def wanted_size(s: int, heads: Any, chained: bool) -> int:
    """The length of the block of a slot's structure: of its ring, or of its directory if its queues are in chunks."""
    capacity = heads[s, CAPACITY]
    return capacity >> BITS if chained and capacity > CHUNK else capacity  # type: ignore[no-any-return]


def misfits(s: int, heads: Any, own: Any, chained: bool) -> bool:
    """Is the block of a slot's structure too short, or far too long?"""
    wanted, size = wanted_size(s, heads, chained), own[s, CAPACITY]
    return size < wanted or size > SHRINKS * max(wanted, SMALL)  # type: ignore[no-any-return]


def own_room(of: Any, heads: Any, own: Any, chained: bool, out: Any) -> None:
    """How many elements `fit_blocks` takes at most, and how many blocks."""
    out[0], out[1] = 0, 0
    for s in of:
        if misfits(s, heads, own, chained):
            out[0] += fitting(wanted_size(s, heads, chained))
            out[1] += 1


def fit_blocks(of: Any, ring: Any, own: Any, ints: Any, lost: int, chained: bool, blocks: Any, moves: Any) -> int:
    """Give the structure of each slot a block of the length it needs.

    A structure is rebuilt with it: its first `lost` integers become -1. In a chain the block has only what is above the
    chunks: the caller copies that by the `moves`, and then calls `give_moved`. Returns the number of moves.
    """
    heads, chunks, _ = ring
    m = 0
    for s in of:
        if not misfits(s, heads, own, chained):
            continue
        old, size = own[s, OFFSET], own[s, CAPACITY]
        stays = chained and heads[s, CAPACITY] > CHUNK and ints[s, 0] >= 0
        if size > 0 and not stays:
            give(blocks, old, size)
        own[s, OFFSET], own[s, CAPACITY] = 0, 0
        if heads[s, CAPACITY] > 0:
            other = fitting(wanted_size(s, heads, chained))
            own[s, OFFSET], own[s, CAPACITY] = take(blocks, other), other
            if stays:
                low, high = chunks[s, LOW], chunks[s, HIGH]
                record_move(moves, m, s, old, size, own[s, OFFSET], other, low, high)
                m += 1
        if not stays:
            for j in range(lost):
                ints[s, j] = -1
    return m


def move_levels(values: Any, moves: Any, times: int) -> None:
    """Copy the levels above the chunks [start, stop) to blocks of another length."""
    for m in range(len(moves)):
        source, old = moves[m, 1] * times, (moves[m, 2] * times >> 1) - 1
        target, new = moves[m, 3] * times, (moves[m, 4] * times >> 1) - 1
        level = 1
        while (1 << level) <= min(old, new) + 1:
            for j in range(moves[m, 5] >> level, ((moves[m, 6] - 1) >> level) + 1):
                at = target + level_start(new, level) + (j & (new >> level))
                values[at] = values[source + level_start(old, level) + (j & (old >> level))]
            level += 1


def move_starts(values: Any, moves: Any, times: int) -> None:
    """Copy the first values of blocks to blocks of another length."""
    for m in range(len(moves)):
        for j in range(min(moves[m, 2], moves[m, 4]) * times):
            values[moves[m, 3] * times + j] = values[moves[m, 1] * times + j]


def give_moved(moves: Any, blocks: Any) -> None:
    """Free the blocks that were copied."""
    for m in range(len(moves)):
        give(blocks, moves[m, 1], moves[m, 2])


def free_own(of: Any, own: Any, blocks: Any) -> None:
    """Free the blocks of the structures of slots."""
    for s in of:
        if own[s, CAPACITY] > 0:
            give(blocks, own[s, OFFSET], own[s, CAPACITY])
        own[s, OFFSET], own[s, CAPACITY] = 0, 0


def pack_blocks(values: Any, of: Any, own: Any, offsets: Any, times: int, out: Any) -> None:
    """Copy the blocks of structures to new offsets."""
    for i in range(len(of)):
        s = of[i]
        source, target = own[s, OFFSET] * times, offsets[i] * times
        for j in range(own[s, CAPACITY] * times):
            out[target + j] = values[source + j]


def copy_whole(values: Any, moves: Any, times: int, out: Any) -> None:
    """Copy blocks to others of the same length, with all values of their elements."""
    for m in range(len(moves)):
        source, target = moves[m, 1] * times, moves[m, 3] * times
        for j in range(moves[m, 2] * times):
            out[target + j] = values[source + j]
