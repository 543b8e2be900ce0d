"""Loops that find windows over the ordered rows of all slots, for emit="eager", without aggregates.

    slot     OFFSET          START                COUNT rows               CAPACITY
    block    ├───────────────┼──●──●──●──●──●──●──●──●──┼──────────────────┤
                             0  1  2 …  index                              position = OFFSET + START + index

A block has the times of the rows, in the order (time, tie-breakers, arrival), and their row numbers `rids`, which index
all other attributes of a row: its label, tie-breakers and values of measured columns. `breaks` counts, for each kind of
gap, the rows up to this one that begin a session, or restart the key after `forget` has expired it. So bisection finds
the start of a session, or of the rows since the last restart. Starts are those of `sash.windows.rules`; every search is
a bisection, because rows are inserted anywhere.

`rows` are the arrays of all blocks (times, rids, breaks), and by row number the labels and the measured columns, of
integers and of floats. `rules` are tables with a row for each window: integers, numbers of the type of times, floats.
"""

from __future__ import annotations

from typing import Any

from sash.windows.rules import first_from, precedes, restarts, slide_end, slide_number, start_of

OFFSET, CAPACITY, START, COUNT, PASSED = range(5)
"""The columns of a slot's head. PASSED: the number of rows of the key before the retained ones."""

HEAD = 5

TIME, COUNTED, MEASURED, RUNNING = range(4)
"""How windows are measured: on times, on rows, on another column, or from their last restart."""

KIND, PEERS, INCLUSIVE, ROWS, COLUMN, RESTART, ANCHOR, FULL = range(8)
VALUE_COLUMN, VALUE_FLOATS, VALUE_BY, VALUE_FLOOR, CALENDAR = range(8, 13)
"""The integers of a rule. COLUMN counts the restarts of a window that runs, RESTART those of its key; -1 for none.
VALUE_BY and VALUE_FLOOR are the start on a column of integers. CALENDAR is the column, among the integers of rows, with
the start of the row's window if its size is a calendar length; else -1."""

BY, FLOOR, LOWEST = range(3)
"""The numbers of a rule, of the type of times: its start as a distance from the row, the least time that it can be
added to, and the start for earlier ones."""

SLOT, LOW, HIGH, SOME, BASE, ON, START_AT, END_AT = range(8)
"""The columns of ranges to answer: the slot, the first and last label, whether it contains a row, its base, whether it
has a result (with FULL only if the window is full), and the indices [START_AT, END_AT) of its rows."""

RANGE = 8

OF_FLOATS, HAS_GAP, GAP, GAP_FLOOR, HAS_FORGET, FORGET, FORGET_FLOOR, LEAST = range(8)
"""The columns of a kind of gap: that of a session, of `forget`, or both."""

LEAST_INT = -(2**63)

STRIDE = 1 << 36
"""The distance of labels at both ends of a slot's order."""

STEP = 1 << 16
"""The distance of labels in a gap between two rows: 2**20 successive rows fit into a gap."""

FARTHEST = 1 << 62
"""Labels are between -FARTHEST and FARTHEST."""


# ---- search ----


def begin_of(breaks: Any, column: int, a: int, position: int) -> int:
    """The first position of a session, or since a restart, that has a position."""
    return first_from(breaks[:, column], a, position, breaks[position, column], True)


def end_of(breaks: Any, column: int, position: int, b: int) -> int:
    """The position after a session, or before the next restart, that has a position."""
    return first_from(breaks[:, column], position, b, breaks[position, column], False)


def is_apart(gap: Any, before: Any, t: Any) -> bool:
    """Does a row at time t begin a new session, or restart the key, after one at `before`?"""
    floats, least = gap[OF_FLOATS], gap[LEAST]
    return bool(
        (gap[HAS_GAP] and restarts(t, before, gap[GAP], gap[GAP_FLOOR], least, floats))
        or (gap[HAS_FORGET] and restarts(t, before, gap[FORGET], gap[FORGET_FLOOR], least, floats))
    )


def value_within(rules: Any, w: int, rows: Any, i: int, j: int) -> bool:
    """Is row j, not after row i, in the window on a column that ends at row i?"""
    ints, _, floats = rules
    column, inclusive = ints[w, VALUE_COLUMN], ints[w, INCLUSIVE] > 0
    if ints[w, VALUE_FLOATS]:
        of_floats = rows[5]
        return not precedes(of_floats[j, column], of_floats[i, column] + floats[w, 0], inclusive)
    of_ints = rows[4]
    start = start_of(of_ints[i, column], ints[w, VALUE_BY], ints[w, VALUE_FLOOR], LEAST_INT)
    return not precedes(of_ints[j, column], start, inclusive)


def first_within(rules: Any, w: int, rows: Any, a: int, position: int) -> int:
    """The first position from `a` on in the window on a column that ends at a position."""
    rids, b = rows[1], position
    while a < b:
        middle = (a + b) // 2
        if value_within(rules, w, rows, rids[position], rids[middle]):
            b = middle
        else:
            a = middle + 1
    return a


def time_start(rules: Any, w: int, rows: Any, position: int) -> Any:
    """The start of the Time window that ends at a row."""
    ints, numbers, _ = rules
    column = ints[w, CALENDAR]
    if column >= 0:
        return rows[4][rows[1][position], column]
    return start_of(rows[0][position], numbers[w, BY], numbers[w, FLOOR], numbers[w, LOWEST])


# ---- windows ----


def window_of(rules: Any, w: int, a: int, b: int, position: int, rows: Any) -> tuple[int, int]:
    """The positions [lo, hi) of the window that ends at a row."""
    ints = rules[0]
    time, breaks = rows[0], rows[2]
    kind = ints[w, KIND]
    start = a if ints[w, RESTART] < 0 else begin_of(breaks, ints[w, RESTART], a, position)
    if kind == COUNTED:
        return max(position + 1 - ints[w, ROWS], start), position + 1
    if kind == MEASURED:
        return first_within(rules, w, rows, start, position), position + 1
    t = time[position]
    end = first_from(time, position, b, t, False) if ints[w, PEERS] else first_from(time, a, position, t, True)
    if kind == TIME:
        least = time_start(rules, w, rows, position)
        return first_from(time, start, end, least, ints[w, INCLUSIVE] > 0), end
    return start if ints[w, COLUMN] < 0 else begin_of(breaks, ints[w, COLUMN], a, position), end


def write_range(asked: Any, i: int, rules: Any, w: int, place: Any, rows: Any, anchored: Any) -> None:
    """Write the range of a window: its slot, the position `a` of the slot's first row, positions [lo, hi)."""
    s, a, lo, hi = place
    ints = rules[0]
    rids, labels = rows[1], rows[3]
    asked[i, SLOT] = s
    asked[i, START_AT], asked[i, END_AT] = lo - a, hi - a
    some = lo < hi
    asked[i, LOW] = labels[rids[lo]] if some else 0
    asked[i, HIGH] = labels[rids[hi - 1]] if some else 0
    asked[i, SOME] = some
    asked[i, ON] = ints[w, FULL] == 0 or hi - lo == ints[w, ROWS]
    anchor = ints[w, ANCHOR]
    asked[i, BASE] = -1
    if anchor >= 0 and lo == a and anchored[s, anchor]:
        asked[i, BASE] = s * anchored.shape[1] + anchor


def row_ranges(
    slots: Any, index: Any, count: int, windows: Any, heads: Any, rows: Any, rules: Any, anchored: Any, out: Any
) -> None:
    """Write the ranges of the windows [first, stop) of the query that end at rows; `out`: ranges, first place."""
    asked, at = out
    first, stop = windows
    for w in range(first, stop):
        for i in range(count):
            s = slots[i]
            a = heads[s, OFFSET] + heads[s, START]
            lo, hi = window_of(rules, w, a, a + heads[s, COUNT], a + index[i], rows)
            write_range(asked, at + (w - first) * count + i, rules, w, (s, a, lo, hi), rows, anchored)


def slide_ranges(slots: Any, bounds: Any, heads: Any, rows: Any, rules: Any, w: int, anchored: Any, asked: Any) -> None:
    """Write the ranges of slides in time, from their starts and ends."""
    time, breaks = rows[0], rows[2]
    ints = rules[0]
    starts, ends = bounds
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        hi = first_from(time, a, a + heads[s, COUNT], ends[i], ints[w, PEERS] == 0)
        lo = a
        if ints[w, KIND] == TIME:
            lo = first_from(time, a, hi, starts[i], ints[w, INCLUSIVE] > 0)
        elif ints[w, KIND] == COUNTED:
            lo = max(a, hi - ints[w, ROWS])
        if ints[w, RESTART] >= 0 and a < hi:
            lo = max(lo, begin_of(breaks, ints[w, RESTART], a, hi - 1))
        write_range(asked, i, rules, w, (s, a, lo, hi), rows, anchored)


# ---- results that may change ----


def widen(touched: Any, j: int, heads: Any, rows: Any, rules: Any, w: int, gaps: Any) -> tuple[int, int]:
    """The indices [lo, hi) of the rows whose windows may contain a touched row."""
    slots, places, times, mine = touched
    time, rids, breaks = rows[0], rows[1], rows[2]
    ints = rules[0]
    kind, column = ints[w, KIND], ints[w, COLUMN]
    s, t = slots[j], times[j]
    a = heads[s, OFFSET] + heads[s, START]
    b, p = a + heads[s, COUNT], a + places[j]
    lo = p
    hi = p
    if kind == COUNTED:
        hi = min(b, p + ints[w, ROWS])
    elif kind == MEASURED:
        above = b
        while hi < above:
            middle = (hi + above) // 2
            if value_within(rules, w, rows, rids[middle], mine[j]):
                hi = middle + 1
            else:
                above = middle
    else:
        lo = first_from(time, a, p, t, True)
        if kind == TIME:
            above = b
            while hi < above:
                middle = (hi + above) // 2
                low = time_start(rules, w, rows, middle)
                if not precedes(t, low, ints[w, INCLUSIVE] > 0):
                    hi = middle + 1
                else:
                    above = middle
        elif column < 0:
            hi = b
        elif p < b and not is_apart(gaps[column], t, time[p]):
            hi = end_of(breaks, column, p, b)
    return lo - a, hi - a


def changed_rows(touched: Any, heads: Any, rows: Any, rules: Any, gaps: Any, out: Any) -> int:
    """Write the rows whose windows may contain touched rows, as slots and indices; only counts if `out` is too short.

    Touched rows are sorted by slot and order, and the ranges of their results begin in the same order.
    """
    slots, places = touched[0], touched[1]
    of, index = out
    ints = rules[0]
    count = 0
    covered = 0
    for j in range(len(slots)):
        low = places[j]
        high = places[j]
        for w in range(ints.shape[0]):
            lo, hi = widen(touched, j, heads, rows, rules, w, gaps)
            low, high = min(low, lo), max(high, hi)
        if j and slots[j] == slots[j - 1]:
            low = max(low, covered)
            covered = max(covered, high)
        else:
            covered = high
        for number in range(low, high):
            if count < len(of):
                of[count], index[count] = slots[j], number
            count += 1
    return count


def first_changed(touched: Any, heads: Any, rows: Any, rules: Any, w: int, gaps: Any, out: Any) -> None:
    """Write the first index of a row whose window may contain each touched row."""
    for j in range(len(touched[0])):
        out[j] = widen(touched, j, heads, rows, rules, w, gaps)[0]


def unite_ranges(slots: Any, begin: Any, end: Any, out: Any) -> int:
    """Write the union of ranges, sorted within each slot, as slots and numbers; only counts if `out` is too short."""
    of, numbers = out
    count = 0
    covered = 0
    for j in range(len(slots)):
        low = begin[j]
        if j and slots[j] == slots[j - 1]:
            low = max(low, covered)
            covered = max(covered, end[j])
        else:
            covered = end[j]
        for number in range(low, end[j]):
            if count < len(of):
                of[count], numbers[count] = slots[j], number
            count += 1
    return count


def later_slides(touched: Any, heads: Any, rows: Any, rules: Any, w: int, gaps: Any, grid: Any, out: Any) -> int:
    """Write the slides in time of Count and Lifetime windows that may contain touched rows.

    Only counts them if `out` is too short.
    """
    slots, places, times, _ = touched
    of, numbers = out
    time, breaks = rows[0], rows[2]
    ints = rules[0]
    kind, column, size_in_rows, from_end = ints[w, KIND], ints[w, COLUMN], ints[w, ROWS], ints[w, PEERS] == 0
    count = 0
    done = 0
    for j in range(len(slots)):
        s = slots[j]
        a = heads[s, OFFSET] + heads[s, START]
        b, p = a + heads[s, COUNT], a + places[j]
        k = slide_number(times[j], grid)
        if j == 0 or slots[j - 1] != s or k > done:
            if count < len(of):
                of[count], numbers[count] = s, k
            count += 1
            done = k
        upto = b
        if kind == RUNNING and column >= 0:
            upto = p
            if p < b and not is_apart(gaps[column], times[j], time[p]):
                upto = end_of(breaks, column, p, b)
        has_next = j + 1 < len(slots) and slots[j + 1] == s
        until = slide_number(times[j + 1], grid) if has_next else 0
        position = first_from(time, p, b, slide_end(k, grid[1]), from_end)
        while position < upto:
            k = slide_number(time[position], grid)
            position = first_from(time, position, b, slide_end(k, grid[1]), from_end)
            if (has_next and k >= until) or (kind == COUNTED and position - size_in_rows > p):
                break
            if k > done:
                if count < len(of):
                    of[count], numbers[count] = s, k
                count += 1
                done = k
    return count
