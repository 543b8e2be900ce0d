"""Loops over rows that wait for later rows, for windows that end after their row."""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.live_loops import BACK, BEGIN, CAPACITY, OFFSET


def ask_rows(
    of: Any, over: Any, now: Any, rules: Any, rows: int, heads: Any, column: int, times: Any, starts: Any, stops: Any
) -> int:
    """Find the waiting rows whose windows are complete: for each slot the positions [start, stop).

    The head's column is the first position that waits. All rows of slots that are `over` are complete, and so are rows
    before the last restart of the key (`forget`); other rows are after `rows` further rows, and when the watermark
    `now` (empty: none) has passed the ends of their windows. Returns the number of complete rows.
    """
    count = 0
    for e in range(len(of)):
        s = of[e]
        p, back = heads[s, column], heads[s, BACK]
        starts[e] = p
        if over[e]:
            p = back
        else:
            offset, mask = heads[s, OFFSET], heads[s, CAPACITY] - 1
            p = max(p, heads[s, BEGIN])
            while p + rows < back and has_passed(times[offset + (p & mask)], now, rules):
                p += 1
        stops[e] = p
        heads[s, column] = p
        count += p - starts[e]
    return count


def has_passed(t: Any, now: Any, rules: Any) -> bool:
    """Has the watermark passed the ends of all windows of a row at t?

    `rules` are the shifts of the windows, the greatest times to which they can be added, and whether a window contains
    its end.
    """
    shifts, ceilings, closed = rules
    if len(shifts) > 0 and len(now) == 0:
        return False
    for w in range(len(shifts)):
        if t > ceilings[w]:
            return False
        end = t + shifts[w]
        if end > now[0] or (closed[w] and end == now[0]):
            return False
    return True
