"""Loops over slots, without aggregates: assign rows and panes to places, and rings to blocks.

enter_rows        number the rows of each slot, and find those that restart a key
assign_rows       assign a position to each row
assign_panes      assign a position to each row's pane
find_peers        the first or last row of each row's slot and time
classify_rows     find late rows

Rows are in the order of release: by time over all keys. The state of a slot is in its head (`ring_loops`), in columns
that the caller passes.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.ring_loops import BACK, BEGIN, FRONT, has_room, place, straight
from sash.windows.rules import restarts, start_of

ROWS = 0
"""The column of a key's integers with the number of its rows."""

LAST, DUE, EXPIRY = 0, 1, 2
"""The columns of a key's times: its last row, its timer, and its expiry."""


def enter_rows(
    slots: Any, times: Any, forget: Any, keys: Any, stamps: Any, ordinal: Any, begins: Any, previous: Any
) -> Any:
    """Number the rows of each slot. Returns how many restart their key, and whether all times are distinct.

    `forget` is the gap after which a row restarts its key, -1 for never, as `restarts` takes it.
    """
    count, distinct = 0, True
    gap, floor, least, is_wide = forget
    for i in range(len(slots)):
        s, t = slots[i], times[i]
        n = keys[s, ROWS]
        last = stamps[s, LAST]
        previous[i] = last
        is_restart = gap >= 0 and n > 0 and restarts(t, last, gap, floor, least, is_wide)
        if is_restart:
            n = 0
            count += 1
        begins[i] = is_restart
        ordinal[i] = n
        keys[s, ROWS] = n + 1
        stamps[s, LAST] = t
        if i > 0 and times[i - 1] == t:
            distinct = False
    return count, distinct


def assign_rows(
    slots: Any, times: Any, restarts: Any, ring: Any, values: Any, pos: Any, stop: Any, begin: Any, at: Any,
    growing: Any,
) -> int:  # fmt: skip
    """Assign to each row its position, the next position, that of its key's first row, and its place in the arena.

    Writes the row's time there. Returns the number of slots that lack memory, listed in `growing`; after they have got
    it, `place_rows` assigns the places.
    """
    heads = ring[0]
    count = 0
    for i in range(len(slots)):
        s = slots[i]
        p = heads[s, BACK]
        if restarts[i]:
            heads[s, BEGIN] = p
        pos[i] = p
        stop[i] = p + 1
        begin[i] = heads[s, BEGIN]
        heads[s, BACK] = p + 1
        room = has_room(ring, s, p)
        if room > 0:
            at[i] = place(ring, s, p)
            values[at[i]] = times[i]
        elif room == 0:
            growing[count] = s
            count += 1
    return count


def place_rows(slots: Any, times: Any, ring: Any, values: Any, pos: Any, at: Any) -> None:
    """Assign rows to places in the arena, and write their times there."""
    i = 0
    while i < len(slots):  # rows of a slot that are neighbours mostly lie one after the other
        s, p = slots[i], pos[i]
        first, stop = place(ring, s, p), i + straight(ring, s, p, p + len(slots) - i)
        before = i
        while i < stop and slots[i] == s:
            at[i] = first + (i - before)
            values[first + (i - before)] = times[i]
            i += 1


def assign_panes(
    slots: Any, restarts: Any, cuts: Any, single_rows: bool, heads: Any, lows: Any, pos: Any, begin: Any, fresh: Any
) -> None:
    """Assign a position to each row's pane, which begins at the row's cut; `fresh` rows, or all, begin one."""
    for i in range(len(slots)):
        s = slots[i]
        p = heads[s, BACK]
        if restarts[i]:
            heads[s, BEGIN] = p
        # an evicted pane has ended, even if rows of the same cut follow
        fresh[i] = single_rows or p <= max(heads[s, BEGIN], heads[s, FRONT]) or lows[s, 0] != cuts[i]
        if fresh[i]:
            lows[s, 0] = cuts[i]
            heads[s, BACK] = p + 1
            p += 1
        pos[i] = p - 1
        begin[i] = heads[s, BEGIN]


def find_peers(slots: Any, times: Any, latest: Any, step: int, rows: Any) -> None:
    """Find the first (step 1) or the last (step -1) row of each row's slot and time.

    `latest[s]` is -1 for every slot before and after.
    """
    i = 0 if step > 0 else len(slots) - 1
    for _ in range(len(slots)):
        j = latest[slots[i], 0]
        if j < 0 or times[j] != times[i]:
            j = i
            latest[slots[i], 0] = i
        rows[i] = j
        i += step
    for i in range(len(slots)):
        latest[slots[i], 0] = -1


def radix_pass(numbers: Any, order: Any, shift: int, counts: Any, out: Any) -> None:
    """One pass of a stable radix sort, by a digit of the numbers: `order` is the order so far, empty at first."""
    digits = len(counts) - 1
    counts[:] = 0
    for i in range(len(numbers)):
        counts[((numbers[i] >> shift) & (digits - 1)) + 1] += 1
    for d in range(digits):
        counts[d + 1] += counts[d]
    for j in range(len(numbers)):
        i = order[j] if len(order) > 0 else j
        d = (numbers[i] >> shift) & (digits - 1)
        out[counts[d]] = i
        counts[d] += 1


def distinct_slots(slots: Any, out: Any) -> int:
    """Write the distinct slots, if equal ones are neighbours; returns their number."""
    count = 0
    for i in range(len(slots)):
        if i == 0 or slots[i] != slots[i - 1]:
            out[count] = slots[i]
            count += 1
    return count


def join_slots(touched: Any, more: Any, latest: Any, out: Any) -> int:
    """Write the union of two lists of slots; returns its length. `latest[s]` is -1 for every slot before and after."""
    count = 0
    for s in touched:
        latest[s, 0] = 0
        out[count] = s
        count += 1
    for s in more:
        if latest[s, 0] < 0:
            out[count] = s
            count += 1
    for s in touched:
        latest[s, 0] = -1
    return count


def copy_rows(words: Any, of: Any, out: Any) -> None:
    """Copy the first words of the rows `of`."""
    for e in range(len(of)):
        for j in range(out.shape[1]):
            out[e, j] = words[of[e], j]


def gather_words(records: Any, stride: int, place: int, of: Any, out: Any) -> bool:
    """Gather one word of each slot's record; returns false if a slot has no key (its first word is below 0)."""
    for e in range(len(of)):
        base = of[e] * stride
        if records[base] < 0:
            return False
        out[e] = records[base + place]
    return True


def classify_rows(times: Any, lateness: Any, floor: Any, least: Any, before: Any, late: Any) -> Any:
    """Find late rows: those below the watermark, which is the greatest time so far minus the lateness.

    Integers saturate at `least`. `before` has the watermark before the rows, if there is one. Returns the number of
    late rows, and the watermark after the rows.
    """
    count = 0
    has_watermark = len(before) > 0
    watermark = before[0] if has_watermark else times[0]
    for i in range(len(times)):
        t = times[i]
        reached = start_of(t, -lateness, floor, least)
        if not has_watermark or reached > watermark:
            watermark = reached
            has_watermark = True
        late[i] = t < watermark
        if late[i]:
            count += 1
    return count, watermark


def in_turn(times: Any, arrival: Any) -> bool:
    """Are rows sorted by time, and those of equal time by arrival?"""
    for i in range(1, len(times)):
        if times[i] < times[i - 1] or (times[i] == times[i - 1] and arrival[i] <= arrival[i - 1]):
            return False
    return True
