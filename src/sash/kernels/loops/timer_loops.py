"""Loops over the timers of slots, and over rows that wait for later rows.

retain            evict the elements that no window needs
set_timers        set timers, and find the slots that expire
settle_rows       both at once, for slots whose rows are needed for a fixed time
due_slots         find the slots whose timers are due

Loops over rows that wait for later rows, for windows that end after their row.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.ring_loops import BACK, BEGIN, FRONT, is_sparse, place
from sash.kernels.loops.slot_loops import DUE, LAST
from sash.windows.rules import precedes

# --- Timer loops ---


def retain(of: Any, ring: Any, first: int, last: int, sparse: Any) -> int:
    """Move the front of each slot to the least position that its windows need, of columns [first, last).

    Returns the number of slots that have memory to free.
    """
    count = 0
    for s in of:
        if retain_slot(s, ring, first, last):
            sparse[count] = s
            count += 1
    return count


def retain_slot(s: int, ring: Any, first: int, last: int) -> bool:
    """`retain` for one slot; returns whether it has memory to free."""
    heads = ring[0]
    least = heads[s, BACK]
    for column in range(first, last):
        least = min(least, heads[s, column])
    front = max(heads[s, FRONT], min(max(least, heads[s, BEGIN]), heads[s, BACK]))
    heads[s, FRONT] = front
    return is_sparse(ring, s)


def needed_until(of: Any, stamps: Any, size: Any, ceiling: Any, most: Any, expiry: Any) -> None:
    """Raise `expiry` to the last row's time plus `size`; above `ceiling` that is `most`."""
    for e in range(len(of)):
        expiry[e] = max(expiry[e], needed_time(of[e], stamps, size, ceiling, most))


def needed_time(s: int, stamps: Any, size: Any, ceiling: Any, most: Any) -> Any:
    """The last row's time plus `size`; above `ceiling` that is `most`."""
    last = stamps[s, LAST]
    return last + size if last <= ceiling else most


def set_timers(
    of: Any, due: Any, is_due: Any, expiry: Any, expires: Any, over: Any, now: Any, never: Any, stamps: Any, least: Any,
    bits: int, gone: Any,
) -> Any:  # fmt: skip
    """Set the timer of each slot, and find the slots that expire.

    A timer is when a result is due (`due`, if `is_due`), or else when the slot expires (`expiry`, if `expires`). Slots
    that are over, and those that are not needed at `now`, expire and have no timer. `now` is empty if there is no
    watermark. Returns how many slots expire, and the least timer that was set.
    """
    count, soonest = 0, never
    for e in range(len(of)):
        s = of[e]
        is_idle = expires[e] and not is_due[e] and expiry[e] < never
        t = due[e] if is_due[e] else never
        if is_idle:
            t = expiry[e]
        is_over = len(over) > 0 and over[e]
        if is_over or (is_idle and len(now) > 0 and len(over) == 0 and expiry[e] <= now[0]):
            gone[count] = s
            count += 1
            t = never
        set_timer(s, t, stamps, least, bits)
        soonest = min(soonest, t)
    return count, soonest


def set_timer(s: int, t: Any, stamps: Any, least: Any, bits: int) -> None:
    """Set the timer of a slot, and lower the least of its block."""
    stamps[s, DUE] = t
    least[s >> bits] = min(least[s >> bits], t)


def settle_rows(
    of: Any, ring: Any, windows: Any, sparse: Any, reach: Any, over: Any, now: Any, never: Any, stamps: Any,
    least: Any, bits: int, gone: Any,
) -> Any:  # fmt: skip
    """`retain`, `needed_until` and `set_timers` in one loop, for slots whose rows are needed for a fixed time."""
    first, last = windows
    size, ceiling, most = reach
    wasted, count, soonest = 0, 0, never
    for e in range(len(of)):
        s = of[e]
        if retain_slot(s, ring, first, last):
            sparse[wasted] = s
            wasted += 1
        t = needed_time(s, stamps, size, ceiling, most)
        is_over = over[e] if len(over) > 0 else len(now) > 0 and t < never and t <= now[0]
        if is_over:
            gone[count] = s
            count += 1
            t = never
        set_timer(s, t, stamps, least, bits)
        soonest = min(soonest, t)
    return wasted, count, soonest


def due_slots(blocks: Any, least: Any, rows: Any, column: int, now: Any, never: Any, bits: int, out: Any) -> int:
    """The slots of blocks whose timer is at most `now`; recomputes the least timer of each block."""
    count = 0
    for b in blocks:
        lowest = never
        for s in range(b << bits, min((b + 1) << bits, len(rows))):
            if rows[s, column] <= now and rows[s, column] < never:
                out[count] = s
                count += 1
            lowest = min(lowest, rows[s, column])
        least[b] = lowest
    return count


# --- Ahead loops ---


def ask_rows(
    of: Any, over: Any, now: Any, rules: Any, rows: int, ring: Any, column: int, times: Any, starts: Any, stops: Any
) -> int:
    """Find the waiting rows whose windows are complete: for each slot the positions [start, stop).

    The head's column is the first position that waits. All rows of slots that are `over` are complete, and so are rows
    before the last restart of the key (`forget`); other rows are after `rows` further rows, and when the watermark
    `now` (empty: none) has passed the ends of their windows. Returns the number of complete rows.
    """
    heads = ring[0]
    count = 0
    for e in range(len(of)):
        s = of[e]
        p, back = heads[s, column], heads[s, BACK]
        starts[e] = p
        if over[e]:
            p = back
        else:
            p = max(p, heads[s, BEGIN])
            while p + rows < back and has_passed(times[place(ring, s, p)], now, rules):
                p += 1
        stops[e] = p
        heads[s, column] = p
        count += p - starts[e]
    return count


def has_passed(t: Any, now: Any, rules: Any) -> bool:
    """Has the watermark passed the ends of all windows of a row at t?

    `rules` are their ends: distances, the greatest times to which these can be added, and which are inclusive.
    """
    distances, ceilings, inclusive = rules
    if len(distances) > 0 and len(now) == 0:
        return False
    for w in range(len(distances)):
        if t > ceilings[w]:
            return False
        if precedes(now[0], t + distances[w], inclusive[w]):
            return False
    return True
