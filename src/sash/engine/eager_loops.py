"""Loops over the ordered rows of all slots, for emit="eager": plain Python, compiled, without any aggregate.

    slot     OFFSET          START                COUNT rows               CAPACITY
    block    ├───────────────┼──●──●──●──●──●──●──●──●──┼──────────────────┤
                             0  1  2 …  index                              position = OFFSET + START + index

A block has the times of the rows, in the order (time, tie-breakers, arrival), and their row numbers `rids`, by which
all else of a row is found: its label, tie-breakers and Delta values. `breaks` counts, for each kind of gap, the rows
up to this one that begin a session (or a life of the key, where `forget` has expired it), so that the start of a
session is found by bisection."""

from __future__ import annotations

from typing import Any

OFFSET, CAPACITY, START, COUNT, PASSED = range(5)
"""The columns of a slot's head. PASSED: how many rows of the key came before those that are kept."""

HEAD = 5

TIME, COUNTED, DELTA, SESSION, LIFETIME = range(5)
"""Kinds of windows."""

OF_FLOATS, HAS_GAP, GAP, GAP_FLOOR, HAS_FORGET, FORGET, FORGET_FLOOR, LEAST = range(8)
"""The columns of a kind of gap: of a session, of the life of a key, or of both."""

STRIDE = 1 << 36
"""The distance of labels at both ends of a slot's order."""

STEP = 1 << 16
"""The distance of labels in a gap between two rows: a gap has room for 2**20 rows that follow each other."""

FARTHEST = 1 << 62
"""Labels lie between -FARTHEST and FARTHEST."""


# ---- search ----


def first_from(values: Any, a: int, b: int, least: Any, inclusive: bool) -> int:
    """The first position in [a, b) with a value of at least `least`, or above it if not inclusive."""
    while a < b:
        middle = (a + b) // 2
        if values[middle] < least or (not inclusive and values[middle] == least):
            a = middle + 1
        else:
            b = middle
    return a


def lowest(t: Any, size: Any, floor: Any, least: Any) -> Any:
    """t - size; `least` where t is below `floor`, and integers would overflow."""
    return least if t < floor else t - size


def begin_of(breaks: Any, column: int, a: int, position: int) -> int:
    """The first position of the session, or life, of a position."""
    number, b = breaks[position, column], position
    while a < b:
        middle = (a + b) // 2
        if breaks[middle, column] < number:
            a = middle + 1
        else:
            b = middle
    return a


def end_of(breaks: Any, column: int, position: int, b: int) -> int:
    """The position behind the session, or life, of a position."""
    number, a = breaks[position, column], position
    while a < b:
        middle = (a + b) // 2
        if breaks[middle, column] <= number:
            a = middle + 1
        else:
            b = middle
    return a


def is_apart(gap: Any, before: Any, t: Any) -> bool:
    """Does a row of time t begin a new session, or life, after one of time `before`?"""
    least = gap[LEAST]
    if gap[OF_FLOATS]:
        longer = t - before
        return bool((gap[HAS_GAP] and longer >= gap[GAP]) or (gap[HAS_FORGET] and longer > gap[FORGET]))
    if gap[HAS_GAP] and before < lowest(t, gap[GAP], gap[GAP_FLOOR], least):  # of integers it is the gap less 1
        return True
    return bool(gap[HAS_FORGET] and before < lowest(t, gap[FORGET], gap[FORGET_FLOOR], least))


def delta_within(delta: Any, i: int, j: int) -> bool:
    """Is row j, not after row i, in the Delta window that ends at row i?"""
    values, size, floor, least, of_floats = delta
    if of_floats:
        return values[i] - values[j] < size
    return values[j] >= lowest(values[i], size, floor, least)  # the size is that of the window less 1


# ---- windows ----


def window_of(rule: Any, a: int, b: int, position: int, time: Any, rids: Any, breaks: Any) -> tuple[int, int]:
    """The positions [lo, hi) of the window that ends at a row."""
    kind, peers, inclusive, size, floor, least, count, column, life, delta = rule
    start = a if life < 0 else begin_of(breaks, life, a, position)
    if kind == COUNTED:
        return max(position + 1 - count, start), position + 1
    if kind == DELTA:
        lo, hi = start, position
        while lo < hi:
            middle = (lo + hi) // 2
            if delta_within(delta, rids[position], rids[middle]):
                hi = middle
            else:
                lo = middle + 1
        return lo, position + 1
    t = time[position]
    end = first_from(time, position, b, t, False) if peers else first_from(time, a, position, t, True)
    if kind == TIME:
        return first_from(time, start, end, lowest(t, size, floor, least), inclusive), end
    if kind == SESSION:
        start = begin_of(breaks, column, a, position)
    return start, end


def row_windows(slots: Any, index: Any, heads: Any, rows: Any, rule: Any, out: Any) -> None:
    """The windows that end at rows: [lo, hi) as indices, and the labels of the first and last row."""
    time, rids, breaks, labels = rows
    los, his, first, last = out
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        lo, hi = window_of(rule, a, a + heads[s, COUNT], a + index[i], time, rids, breaks)
        los[i], his[i] = lo - a, hi - a
        if lo < hi:
            first[i], last[i] = labels[rids[lo]], labels[rids[hi - 1]]


def slide_windows(slots: Any, bounds: Any, heads: Any, rows: Any, rule: Any, out: Any) -> None:
    """The windows of slides in time, from their starts and ends."""
    time, rids, breaks, labels = rows
    los, his, first, last = out
    starts, ends = bounds
    kind, peers, inclusive, size, floor, least, count, column, life, delta = rule
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        hi = first_from(time, a, a + heads[s, COUNT], ends[i], not peers)
        lo = a
        if kind == TIME:
            lo = first_from(time, a, hi, starts[i], inclusive)
        elif kind == COUNTED:
            lo = max(a, hi - count)
        if life >= 0 and a < hi:
            lo = max(lo, begin_of(breaks, life, a, hi - 1))
        los[i], his[i] = lo - a, hi - a
        if lo < hi:
            first[i], last[i] = labels[rids[lo]], labels[rids[hi - 1]]


# ---- which results change ----


def widen_ranges(touched: Any, heads: Any, rows: Any, rule: Any, gap: Any, out: Any) -> None:
    """Widen [begin, end) of each touched place to the indices of rows whose window may hold its row."""
    slots, places, times, mine = touched
    begin, end = out
    time, rids, breaks, _ = rows
    kind, peers, inclusive, size, floor, least, count, column, life, delta = rule
    for j in range(len(slots)):
        s, t = slots[j], times[j]
        a = heads[s, OFFSET] + heads[s, START]
        b, p = a + heads[s, COUNT], a + places[j]
        lo = p
        hi = p
        if kind == COUNTED:
            hi = min(b, p + count)
        elif kind == DELTA:
            hi, above = p, b
            while hi < above:
                middle = (hi + above) // 2
                if delta_within(delta, rids[middle], mine[j]):
                    hi = middle + 1
                else:
                    above = middle
        else:
            lo = first_from(time, a, p, t, True)
            if kind == TIME:
                above = b
                while hi < above:
                    middle = (hi + above) // 2
                    low = lowest(time[middle], size, floor, least)
                    if low < t or (inclusive and low == t):
                        hi = middle + 1
                    else:
                        above = middle
            elif column < 0:
                hi = b
            elif p < b and not is_apart(gap, t, time[p]):
                hi = end_of(breaks, column, p, b)
        begin[j] = min(begin[j], lo - a)
        end[j] = max(end[j], hi - a)


def unite_ranges(slots: Any, begin: Any, end: Any, out: Any) -> int:
    """The union of ranges, sorted within each slot, as slots and numbers; only counted if `out` is too short."""
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


def slide_number(t: Any, grid: Any) -> int:
    """The first slide whose end a time lies before (on it, where that side is closed)."""
    of_floats, offset, every, right = grid
    if not of_floats:
        return int((t - offset - right) // every + 1)
    k = (t - offset) // every
    while t > offset + k * every or (not right and t == offset + k * every):
        k += 1
    while t < offset + (k - 1) * every or (right and t == offset + (k - 1) * every):
        k -= 1
    return int(k)


def later_slides(touched: Any, heads: Any, rows: Any, rule: Any, gap: Any, grid: Any, out: Any) -> int:
    """The slides in time of Count and Lifetime windows that may hold touched rows; counted if `out` is too short."""
    slots, places, times, _ = touched
    of, numbers = out
    time, _, breaks, _ = rows
    kind, peers, inclusive, size, floor, least, size_in_rows, column, life, delta = rule
    _, offset, every, _ = grid
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
        if kind == LIFETIME and column >= 0:
            upto = p
            if p < b and not is_apart(gap, times[j], time[p]):
                upto = end_of(breaks, column, p, b)
        has_next = j + 1 < len(slots) and slots[j + 1] == s
        until = slide_number(times[j + 1], grid) if has_next else 0
        position = first_from(time, p, b, offset + k * every, not peers)
        while position < upto:
            k = slide_number(time[position], grid)
            position = first_from(time, position, b, offset + k * every, not peers)
            if (has_next and k >= until) or (kind == COUNTED and position - size_in_rows > p):
                break
            if k > done:
                if count < len(of):
                    of[count], numbers[count] = s, k
                count += 1
                done = k
    return count


def merge_places(known: Any, fresh: Any, gone: Any, out: Any) -> int:
    """Known rows and new ones in their order: slot, new index, which of the known (-1: new); removed ones are left out.

    `known`: slots and old indices; `fresh` and `gone`: those of insertions and removals. All are sorted.
    """
    slots, index = known
    fresh_slots, fresh_at = fresh
    gone_slots, gone_at = gone
    of, place, which = out
    i, j, g, count, inserted, removed, current = 0, 0, 0, 0, 0, 0, -1
    while i < len(slots) or j < len(fresh_slots):
        is_known = i < len(slots)
        if is_known and j < len(fresh_slots):
            later = slots[i] == fresh_slots[j] and index[i] >= fresh_at[j]
            is_known = not later and slots[i] <= fresh_slots[j]
        s = slots[i] if is_known else fresh_slots[j]
        at = index[i] if is_known else fresh_at[j]
        if s != current:
            current, inserted, removed = s, 0, 0
        while g < len(gone_slots) and (gone_slots[g] < s or (gone_slots[g] == s and gone_at[g] < at)):
            removed += gone_slots[g] == s
            g += 1
        if not is_known:
            of[count], place[count], which[count] = s, at + inserted - removed, -1
            count += 1
            inserted += 1
            j += 1
        else:
            if g == len(gone_slots) or gone_slots[g] != s or gone_at[g] != at:
                of[count], place[count], which[count] = s, at + inserted - removed, i
                count += 1
            i += 1
    return count


def labels_between(rows: Any, asked: Any, begin: Any, end: Any) -> None:
    """Which of some rows, sorted by slot and label, lie in each range of labels: [begin, end)."""
    slots, labels = rows
    of, los, his = asked
    for i in range(len(of)):
        for side in range(2):
            a, b = 0, len(slots)
            while a < b:
                middle = (a + b) // 2
                low = labels[middle] <= his[i] if side else labels[middle] < los[i]
                if slots[middle] < of[i] or (slots[middle] == of[i] and low):
                    a = middle + 1
                else:
                    b = middle
            if side:
                end[i] = a
            else:
                begin[i] = a
