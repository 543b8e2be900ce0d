"""The loops that assign rows to windows: slots, positions and bounds, no aggregates.

enter_rows        number the rows of each slot, and find those that begin a key anew
assign_rows       a position for each row
assign_panes      a position for each row's pane
locate            where positions lie in the arena
take_blocks       blocks of the arena for rings that need other ones; `free_blocks` gives blocks up
move_blocks       copy rings to other blocks of the arena
first_peers       for each row the first row of the same slot and time; `last_peers` the last one
bound_starts      where windows start: the first element at or beyond a threshold
decreasing        the first row whose value is below that of the row before it
due_slides        the slides in time that are due, each with its panes
pending_slides    for windows whose elements are rows: the slides that a later row ends
run_windows       windows that only grow until they begin anew
next_slides       when the next slide of a slot is due
retain            which elements of a slot are still needed

Rows are in the order in which they were released: by time over all keys. Kernels keep what they know of a slot in its
head (`live_loops`), in the columns that the caller names.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.live_loops import BACK, BEGIN, CAPACITY, FRONT, OFFSET

ROWS = 0
"""The column of a key's integers with the number of its rows."""

LAST, DUE, EXPIRY = 0, 1, 2
"""The columns of a key's times: its last row, its timer, and when nothing of it is needed any more."""

NEVER = 1 << 62
"""No slide: beyond all that a time can have."""


def enter_rows(
    slots: Any, times: Any, oldest: Any, forget: Any, keys: Any, stamps: Any, ordinal: Any, anew: Any, previous: Any
) -> Any:
    """Number the rows of each slot. Returns how many begin their key anew, and whether all times are different.

    A row begins its key anew if the one before it is older than `oldest`; of floats if the gap is longer than `forget`,
    -1 for never.
    """
    count, distinct = 0, True
    expiring = len(oldest) > 0 or forget >= 0
    for i in range(len(slots)):
        s, t = slots[i], times[i]
        n = keys[s, ROWS]
        last = stamps[s, LAST]
        previous[i] = last
        is_anew = False
        if expiring and n > 0:
            is_anew = last < oldest[i] if len(oldest) > 0 else t - last > forget
        if is_anew:
            n = 0
            count += 1
        anew[i] = is_anew
        ordinal[i] = n
        keys[s, ROWS] = n + 1
        stamps[s, LAST] = t
        if i > 0 and times[i - 1] == t:
            distinct = False
    return count, distinct


def assign_rows(
    slots: Any, times: Any, anew: Any, heads: Any, ring: Any, pos: Any, stop: Any, begin: Any, at: Any,
    growing: Any,
) -> int:  # fmt: skip
    """For each row its position, the one behind it, that of its key's first row, and its place in the arena.

    The row's time is written there. Returns how many slots have more rows than room, and which; then the places are to
    be found again by `place_rows`.
    """
    count = 0
    for i in range(len(slots)):
        s = slots[i]
        p = heads[s, BACK]
        if anew[i]:
            heads[s, BEGIN] = p
        pos[i] = p
        stop[i] = p + 1
        begin[i] = heads[s, BEGIN]
        heads[s, BACK] = p + 1
        held, capacity = p - heads[s, FRONT], heads[s, CAPACITY]
        if held < capacity:
            at[i] = heads[s, OFFSET] + (p & (capacity - 1))
            ring[at[i]] = times[i]
        elif held == capacity:
            growing[count] = s
            count += 1
    return count


def place_rows(slots: Any, times: Any, heads: Any, ring: Any, pos: Any, at: Any) -> None:
    """The places of rows in the arena, where their times are written."""
    for i in range(len(slots)):
        s = slots[i]
        at[i] = heads[s, OFFSET] + (pos[i] & (heads[s, CAPACITY] - 1))
        ring[at[i]] = times[i]


def radix_pass(slots: Any, order: Any, shift: int, counts: Any, out: Any) -> None:
    """Order rows by a digit of their slots, stable: `order` is their order so far, empty for as they come."""
    digits = len(counts) - 1
    counts[:] = 0
    for i in range(len(slots)):
        counts[((slots[i] >> shift) & (digits - 1)) + 1] += 1
    for d in range(digits):
        counts[d + 1] += counts[d]
    for j in range(len(slots)):
        i = order[j] if len(order) > 0 else j
        d = (slots[i] >> shift) & (digits - 1)
        out[counts[d]] = i
        counts[d] += 1


def copy_rows(words: Any, of: Any, out: Any) -> None:
    """Copy the first words of some rows."""
    for e in range(len(of)):
        for j in range(out.shape[1]):
            out[e, j] = words[of[e], j]


def distinct_slots(slots: Any, out: Any) -> int:
    """Each of the slots once, where equal ones are neighbours; returns their number."""
    count = 0
    for i in range(len(slots)):
        if i == 0 or slots[i] != slots[i - 1]:
            out[count] = slots[i]
            count += 1
    return count


def join_slots(touched: Any, more: Any, latest: Any, out: Any) -> int:
    """The slots of both, each once; returns their number. `latest[s]` is -1 for every slot before and after."""
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


def assign_panes(slots: Any, anew: Any, cuts: Any, heads: Any, lows: Any, pos: Any, begin: Any, fresh: Any) -> None:
    """A position for each row's pane, which begins at the row's cut; `fresh` rows begin one."""
    for i in range(len(slots)):
        s = slots[i]
        p = heads[s, BACK]
        if anew[i]:
            heads[s, BEGIN] = p
        # a pane that was given up is over, though rows of the same cut may follow
        fresh[i] = p <= max(heads[s, BEGIN], heads[s, FRONT]) or lows[s, 0] != cuts[i]
        if fresh[i]:
            lows[s, 0] = cuts[i]
            heads[s, BACK] = p + 1
            p += 1
        pos[i] = p - 1
        begin[i] = heads[s, BEGIN]


def locate(slots: Any, pos: Any, heads: Any, places: Any) -> None:
    """Where positions lie in the arena."""
    for i in range(len(slots)):
        s = slots[i]
        places[i] = heads[s, OFFSET] + (pos[i] & (heads[s, CAPACITY] - 1))


def move_blocks(values: Any, moves: Any, room: Any) -> None:
    """Copy rings from `values` to other blocks of `room`, which may be the same array."""
    for m in range(len(moves)):
        source, old, target, new = moves[m, 0], moves[m, 1], moves[m, 2], moves[m, 3]
        for p in range(moves[m, 4], moves[m, 5]):
            room[target + (p & (new - 1))] = values[source + (p & (old - 1))]


def take_blocks(of: Any, heads: Any, least: int, free: Any, links: Any, top: int, moves: Any) -> Any:
    """A block for the elements of each slot: a free one, or a new one at the top; shrinking leaves some room.

    Of each move: the old block and its capacity, the new ones, the positions that the old block holds. Returns the top,
    and how many elements the free blocks had. Blocks are powers of two, `least` the smallest of them.
    """
    reused = 0
    for m in range(len(of)):
        s = of[m]
        held, capacity = heads[s, BACK] - heads[s, FRONT], heads[s, CAPACITY]
        size, number = least, 0
        while size < held:
            size *= 2
            number += 1
        if capacity > size:
            size *= 2
            number += 1
        block = free[number]
        if block >= 0:
            free[number] = links[block // least]
            reused += size
        else:
            block = top
            top += size
        moves[m, 0], moves[m, 1], moves[m, 2], moves[m, 3] = heads[s, OFFSET], capacity, block, size
        moves[m, 4], moves[m, 5] = heads[s, FRONT], min(heads[s, BACK], heads[s, FRONT] + capacity)
    return top, reused


def free_blocks(of: Any, heads: Any, least: int, free: Any, links: Any) -> int:
    """Give up the blocks of these slots. Returns how many elements they had."""
    count = 0
    for s in of:
        size, number = least, 0
        capacity = heads[s, CAPACITY]
        if capacity > 0:
            while size < capacity:
                size *= 2
                number += 1
            block = heads[s, OFFSET]
            links[block // least] = free[number]
            free[number] = block
            count += capacity
            heads[s, CAPACITY] = 0
    return count


def first_peers(slots: Any, times: Any, latest: Any, rows: Any) -> None:
    """For each row the first of its slot and time. `latest[s]` is -1 for every slot before and after."""
    for i in range(len(slots)):
        j = latest[slots[i], 0]
        if j < 0 or times[j] != times[i]:
            j = i
            latest[slots[i], 0] = i
        rows[i] = j
    for i in range(len(slots)):
        latest[slots[i], 0] = -1


def last_peers(slots: Any, times: Any, latest: Any, rows: Any) -> None:
    """For each row the last of its slot and time. `latest[s]` is -1 for every slot before and after."""
    for i in range(len(slots) - 1, -1, -1):
        j = latest[slots[i], 0]
        if j < 0 or times[j] != times[i]:
            j = i
            latest[slots[i], 0] = i
        rows[i] = j
    for i in range(len(slots)):
        latest[slots[i], 0] = -1


def first_beyond(values: Any, offset: int, mask: int, p: int, hi: int, low: Any, inclusive: bool) -> int:
    """The first position from `p` on whose value in a ring is at `low` (inclusive) or beyond it; `hi` if none is."""
    if inclusive:
        while p < hi and values[offset + (p & mask)] < low:
            p += 1
    else:
        while p < hi and values[offset + (p & mask)] <= low:
            p += 1
    return p


def bound_starts(
    slots: Any, begin: Any, his: Any, least: Any, inclusive: bool, heads: Any, column: int, values: Any, los: Any
) -> None:
    """The first element of each slot's windows: the first at `least` (inclusive) or beyond it, before `his`."""
    for i in range(len(slots)):
        s, low, hi = slots[i], least[i], his[i]
        offset, mask = heads[s, OFFSET], heads[s, CAPACITY] - 1
        p = first_beyond(values, offset, mask, max(heads[s, column], begin[i]), hi, low, inclusive)
        los[i] = p
        heads[s, column] = p


def time_starts(
    slots: Any, times: Any, begin: Any, his: Any, size: Any, floor: Any, inclusive: bool, heads: Any, column: int,
    values: Any, los: Any,
) -> None:  # fmt: skip
    """The first element of windows of a size that end at these times: at `time - size` (inclusive) or beyond it.

    The column of a slot's head is where its last window started: that never goes back. Below `floor` the difference
    would leave the integers: then all elements are in.
    """
    for i in range(len(slots)):
        s, t = slots[i], times[i]
        offset, mask, hi = heads[s, OFFSET], heads[s, CAPACITY] - 1, his[i]
        p = max(heads[s, column], begin[i])
        if t >= floor:
            p = first_beyond(values, offset, mask, p, hi, t - size, inclusive)
        los[i] = p
        heads[s, column] = p


def count_starts(slots: Any, begin: Any, his: Any, size: int, heads: Any, column: int, los: Any) -> None:
    """The first element of windows of `size` rows."""
    for i in range(len(slots)):
        los[i] = max(his[i] - size, begin[i])
        heads[slots[i], column] = los[i]


def decreasing(slots: Any, pos: Any, begin: Any, heads: Any, values: Any) -> int:
    """The first row whose value is below that of the row before it in its slot; -1 if there is none."""
    for i in range(len(slots)):
        if pos[i] > begin[i]:
            s = slots[i]
            offset, mask = heads[s, OFFSET], heads[s, CAPACITY] - 1
            if values[offset + (pos[i] & mask)] < values[offset + ((pos[i] - 1) & mask)]:
                return i
    return -1


def due_slides(
    of: Any, limits: Any, backs: Any, first: int, anew: bool, grid: Any, heads: Any, columns: Any, rings: Any, out: Any
) -> Any:
    """The slides that are due of each entry, from the `first` on: slot `of[e]`, up to slide `limits[e]`, with the panes
    before position `backs[e]`. Where `anew`, the slot's windows begin anew there.

    Of each slide: its entry, its number, its panes. Returns the entry at which `out` is full, or their number, and how
    many slides there are. Three columns of the head: the first pane of the next slide, the one behind its last, and
    the slide's number.
    """
    first_pane, behind, number = columns
    offset, every, size = grid
    lows, firsts = rings
    entries, numbers, los, his = out
    count = 0
    for e in range(first, len(of)):
        s, back = of[e], backs[e]
        block, mask = heads[s, OFFSET], heads[s, CAPACITY] - 1
        lo, hi, k = heads[s, first_pane], heads[s, behind], heads[s, number]
        if k == -NEVER and lo < back:
            k = firsts[block + (lo & mask)]
        while k <= limits[e] and k != -NEVER:
            end = offset + k * every
            start = end - size
            while lo < back and lows[block + (lo & mask)] < start:
                lo += 1
            if lo == back:
                break
            if firsts[block + (lo & mask)] > k:
                k = firsts[block + (lo & mask)]
                continue
            if count == len(entries):
                heads[s, first_pane], heads[s, behind], heads[s, number] = lo, hi, k
                return e, count
            hi = max(hi, lo)
            while hi < back and lows[block + (hi & mask)] < end:
                hi += 1
            entries[count], numbers[count], los[count], his[count] = e, k, lo, hi
            count += 1
            k += 1
        if anew:
            lo, hi, k = back, back, -NEVER
        heads[s, first_pane], heads[s, behind], heads[s, number] = lo, hi, k
    return len(of), count


def next_slides(of: Any, grid: Any, heads: Any, columns: Any, rings: Any, due: Any, ever: Any) -> None:
    """When the next slide of a slot is due, and whether any will be; the panes before it are given up."""
    first_pane, _, number = columns
    offset, every, size = grid
    lows, firsts = rings
    for e in range(len(of)):
        s = of[e]
        block, mask, back = heads[s, OFFSET], heads[s, CAPACITY] - 1, heads[s, BACK]
        lo, k = heads[s, first_pane], heads[s, number]
        if k > -NEVER:
            start = offset + k * every - size
            while lo < back and lows[block + (lo & mask)] < start:
                lo += 1
        heads[s, first_pane] = lo
        if lo < back:
            end = offset + max(k, firsts[block + (lo & mask)]) * every
            if not ever[e] or end < due[e]:
                due[e] = end
                ever[e] = True


def pending_slides(slots: Any, numbers: Any, pos: Any, begin: Any, heads: Any, column: int, out: Any) -> int:
    """The slides that a row ends because it belongs to a later one: slot, slide, the row's position, the key's first.

    The head's column has the slide of the slot's last row, NEVER if that has left. Returns how many there are.
    """
    of, ended, his, begins, by = out
    count = 0
    for i in range(len(slots)):
        s = slots[i]
        if heads[s, column] < numbers[i]:
            of[count], ended[count], his[count] = s, heads[s, column], pos[i]
            begins[count], by[count] = heads[s, column + 1], i
            count += 1
        heads[s, column] = numbers[i]
        heads[s, column + 1] = begin[i]
    return count


OPEN, ROW, SLIDE, CLOSED = range(4)
"""The columns of a slot whose window only grows: is it open, the number of its first row, the slide of its last row,
and whether its last row was a mark."""


def run_windows(
    slots: Any, times: Any, begins: Any, marks: Any, numbers: Any, wanted: Any, ordinal: Any, heads: Any,
    stamps: Any, fresh: Any, out: Any, starts: Any,
) -> int:  # fmt: skip
    """Windows that only grow until they begin anew: sessions, punctuated windows, all since the start.

    `begins`: a row that begins a window whatever came before; `marks`: a row that is the last of its window. `numbers`:
    the slide of each row, or empty; `wanted`: 1 for a row after which there is a result, 2 for a result when the
    window ends. Of each result: after how many rows it is read, its slot, row (-1 for none), slide, first row.
    """
    after, of, row, slide, opened = out
    count = 0
    for i in range(len(slots)):
        s = slots[i]
        is_open = heads[s, OPEN] != 0
        fresh[i] = not is_open or begins[i] or heads[s, CLOSED] != 0
        if is_open and len(numbers) > 0 and heads[s, SLIDE] < numbers[i]:
            after[count], of[count], row[count], slide[count] = i, s, -1, heads[s, SLIDE]
            starts[count], opened[count] = stamps[s, 0], heads[s, ROW]
            count += 1
        if is_open and fresh[i] and wanted[i] == 2 and heads[s, CLOSED] == 0:
            after[count], of[count], row[count], slide[count] = i, s, i, 0
            starts[count], opened[count] = stamps[s, 0], heads[s, ROW]
            count += 1
        if fresh[i]:
            heads[s, OPEN], heads[s, ROW] = 1, ordinal[i]
            stamps[s, 0] = times[i]
        heads[s, CLOSED] = 1 if marks[i] else 0
        if len(numbers) > 0:
            heads[s, SLIDE] = numbers[i]
        if wanted[i] == 1:
            after[count], of[count], row[count], slide[count] = i + 1, s, i, 0
            starts[count], opened[count] = stamps[s, 0], heads[s, ROW]
            count += 1
    return count


def retain(of: Any, heads: Any, first: int, last: int, small: int, sparse: Any) -> int:
    """Move the front of each slot up to the least position that its windows need: that of columns [first, last).

    Returns how many rings are far larger than what they hold, blocks of up to `small` elements apart, and which.
    """
    count = 0
    for s in of:
        if retain_slot(s, heads, first, last, small):
            sparse[count] = s
            count += 1
    return count


def retain_slot(s: int, heads: Any, first: int, last: int, small: int) -> bool:
    """The same for one slot: is its ring far too large?"""
    least = heads[s, BACK]
    for column in range(first, last):
        least = min(least, heads[s, column])
    front = max(heads[s, FRONT], min(max(least, heads[s, BEGIN]), heads[s, BACK]))
    heads[s, FRONT] = front
    return bool(heads[s, CAPACITY] > small and 8 * (heads[s, BACK] - front) < heads[s, CAPACITY])


def needed_until(of: Any, stamps: Any, size: Any, ceiling: Any, most: Any, when: Any) -> None:
    """Raise `when` to the last row's time plus `size`; above `ceiling` that is `most`."""
    for e in range(len(of)):
        last = stamps[of[e], LAST]
        when[e] = max(when[e], last + size if last <= ceiling else most)


def set_timers(
    of: Any, due: Any, ever: Any, when: Any, there: Any, over: Any, now: Any, never: Any, stamps: Any, least: Any,
    bits: int, gone: Any,
) -> Any:  # fmt: skip
    """Set the timer of each slot: when a result is due (`due`, if `ever`), or when the slot is not needed any more
    (`when`, if that is `there`; not before its last result). Slots that are over, and those that are not needed at
    `now`, are gone and have none.

    `now` is empty if there is no watermark. Returns how many are gone, and the least timer that was set.
    """
    count, soonest = 0, never
    for e in range(len(of)):
        s = of[e]
        expires = there[e] and not ever[e] and when[e] < never
        t = due[e] if ever[e] else never
        if expires:
            t = when[e]
        is_over = len(over) > 0 and over[e]
        if is_over or (expires and len(now) > 0 and len(over) == 0 and when[e] <= now[0]):
            gone[count] = s
            count += 1
            t = never
        stamps[s, DUE] = t
        least[s >> bits] = min(least[s >> bits], t)
        soonest = min(soonest, t)
    return count, soonest


def settle_rows(
    of: Any, heads: Any, windows: Any, sparse: Any, reach: Any, over: Any, now: Any, never: Any, stamps: Any,
    least: Any, bits: int, gone: Any,
) -> Any:  # fmt: skip
    """`retain`, `needed_until` and `set_timers` at once, for slots whose rows are needed for a time, and no longer."""
    first, last, small = windows
    size, ceiling, most = reach
    wasted, count, soonest = 0, 0, never
    for e in range(len(of)):
        s = of[e]
        if retain_slot(s, heads, first, last, small):
            sparse[wasted] = s
            wasted += 1
        t = stamps[s, LAST] + size if stamps[s, LAST] <= ceiling else most
        is_over = over[e] if len(over) > 0 else len(now) > 0 and t < never and t <= now[0]
        if is_over:
            gone[count] = s
            count += 1
            t = never
        stamps[s, DUE] = t
        least[s >> bits] = min(least[s >> bits], t)
        soonest = min(soonest, t)
    return wasted, count, soonest


def due_slots(blocks: Any, least: Any, stamps: Any, now: Any, never: Any, bits: int, out: Any) -> int:
    """The slots of blocks whose timer is at most `now`; the least timer of each block is found anew."""
    count = 0
    for b in blocks:
        lowest = never
        for s in range(b << bits, min((b + 1) << bits, len(stamps))):
            if stamps[s, DUE] <= now and stamps[s, DUE] < never:
                out[count] = s
                count += 1
            lowest = min(lowest, stamps[s, DUE])
        least[b] = lowest
    return count


def classify_rows(times: Any, lateness: Any, floor: Any, least: Any, before: Any, late: Any) -> Any:
    """Which rows are late: below the watermark, which is the greatest time so far less the lateness, `least` where that
    would be below all times. `before` has the watermark before the rows, if there is one.

    Returns how many are late, and the watermark after them.
    """
    count = 0
    has_watermark = len(before) > 0
    watermark = before[0] if has_watermark else times[0]
    for i in range(len(times)):
        t = times[i]
        reached = t - lateness if t >= floor else least
        if not has_watermark or reached > watermark:
            watermark = reached
            has_watermark = True
        late[i] = t < watermark
        if late[i]:
            count += 1
    return count, watermark


def in_turn(times: Any, arrival: Any) -> bool:
    """Do rows come by time, and those of equal time by arrival?"""
    for i in range(1, len(times)):
        if times[i] < times[i - 1] or (times[i] == times[i - 1] and arrival[i] <= arrival[i - 1]):
            return False
    return True


def order_numbers(numbers: Any, least: int, counts: Any, out: Any) -> None:
    """The order of numbers from `least` on, fewer than `counts` has entries, equal ones as they come."""
    counts[:] = 0
    for k in numbers:
        counts[k - least + 1] += 1
    for d in range(len(counts) - 1):
        counts[d + 1] += counts[d]
    for i in range(len(numbers)):
        d = numbers[i] - least
        out[counts[d]] = i
        counts[d] += 1


def gather_words(records: Any, stride: int, place: int, of: Any, out: Any) -> bool:
    """The word at a place of each slot's record; false if a slot has no key, whose first word is below 0."""
    for e in range(len(of)):
        base = of[e] * stride
        if records[base] < 0:
            return False
        out[e] = records[base + place]
    return True
