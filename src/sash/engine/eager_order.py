"""Loops that change the ordered rows of slots, for emit="eager": insert, remove, undo, and what can be dropped.

A row is inserted at its place and the rows behind it move up, so that a row at distance d from the newest moves d
entries of 16 bytes: 10,000 of them take some 10 µs. What is found by row number does not move.
"""

from __future__ import annotations

from typing import Any

from sash.engine.eager_loops import (
    CAPACITY,
    COUNT,
    COUNTED,
    DELTA,
    FARTHEST,
    OFFSET,
    START,
    STEP,
    STRIDE,
    TIME,
    begin_of,
    delta_within,
    first_from,
    is_apart,
    lowest,
)


def comes_after(ties: Any, one: int, other: int) -> bool:
    """Does a row come after another of the same time, by its tie-breakers?"""
    for k in range(ties.shape[1]):
        if ties[one, k] != ties[other, k]:
            return bool(ties[one, k] > ties[other, k])
    return False


def locate_rows(slots: Any, times: Any, fresh: Any, heads: Any, rows: Any, ties: Any, places: Any) -> None:
    """The index before which each new row is to be inserted: behind all that are not after it."""
    time, rids, _, _ = rows
    for j in range(len(slots)):
        s, t, r = slots[j], times[j], fresh[j]
        a = heads[s, OFFSET] + heads[s, START]
        lo, hi = a, a + heads[s, COUNT]
        while lo < hi:
            middle = (lo + hi) // 2
            if time[middle] < t or (time[middle] == t and not comes_after(ties, rids[middle], r)):
                lo = middle + 1
            else:
                hi = middle
        places[j] = lo - a


def label_rows(slots: Any, places: Any, fresh: Any, heads: Any, rows: Any, arrival: Any) -> int:
    """Label new rows between their neighbours. Returns a slot without room for them, which is to be relabelled; or -1.

    They come next to the neighbour that arrived later: rows that arrive one before the other, or one after the other,
    then use up a gap STEP by STEP, not by halves.
    """
    _, rids, _, labels = rows
    j = 0
    while j < len(slots):
        s, p = slots[j], places[j]
        stop = j
        while stop < len(slots) and slots[stop] == s and places[stop] == p:
            stop += 1
        more = stop - j
        a, count = heads[s, OFFSET] + heads[s, START], heads[s, COUNT]
        if count == 0:
            low, step = 0, min(STRIDE, FARTHEST // (more + 1))
        elif p == count:
            low, step = labels[rids[a + p - 1]], STRIDE
            if low > FARTHEST - STRIDE * (more + 1):
                return int(s)
        elif p == 0:
            low, step = labels[rids[a]] - STRIDE * (more + 1), STRIDE
            if low < -FARTHEST:
                return int(s)
        else:
            before, after = rids[a + p - 1], rids[a + p]
            gap = labels[after] - labels[before]
            if gap <= more:
                return int(s)
            step = min(STEP, gap // (more + 1))
            low = labels[before]
            if arrival[after] > arrival[before]:
                low = labels[after] - step * (more + 1)
        for i in range(more):
            labels[fresh[j + i]] = low + step * (i + 1)
        j = stop
    return -1


def relabel_rows(slots: Any, heads: Any, rows: Any) -> None:
    """Spread the labels of all rows of slots evenly."""
    _, rids, _, labels = rows
    for i in range(len(slots)):
        s = slots[i]
        a, count = heads[s, OFFSET] + heads[s, START], heads[s, COUNT]
        step = min(STRIDE, FARTHEST // (count + 1))
        for k in range(count):
            labels[rids[a + k]] = step * (k + 1)


def count_breaks(heads: Any, rows: Any, gaps: Any, s: int, first: int) -> None:
    """Count sessions and lives anew, from an index on."""
    time, _, breaks, _ = rows
    a = heads[s, OFFSET] + heads[s, START]
    for g in range(gaps.shape[0]):
        for position in range(a + first, a + heads[s, COUNT]):
            if position == a:
                breaks[position, g] = 0
            else:
                begins = is_apart(gaps[g], time[position - 1], time[position])
                breaks[position, g] = breaks[position - 1, g] + (1 if begins else 0)


def insert_rows(slots: Any, places: Any, times: Any, fresh: Any, heads: Any, rows: Any, gaps: Any) -> None:
    """Insert new rows, sorted by slot and order, at their places."""
    time, rids, _, _ = rows
    j = 0
    while j < len(slots):
        s = slots[j]
        stop = j
        while stop < len(slots) and slots[stop] == s:
            stop += 1
        a = heads[s, OFFSET] + heads[s, START]
        read = a + heads[s, COUNT] - 1
        write = read + stop - j
        for i in range(stop - 1, j - 1, -1):
            while read >= a + places[i]:
                time[write], rids[write] = time[read], rids[read]
                read -= 1
                write -= 1
            time[write], rids[write] = times[i], fresh[i]
            write -= 1
        heads[s, COUNT] += stop - j
        count_breaks(heads, rows, gaps, s, places[j])
        j = stop


def remove_rows(slots: Any, index: Any, heads: Any, rows: Any, gaps: Any) -> None:
    """Remove rows, sorted by slot and index."""
    time, rids, _, _ = rows
    j = 0
    while j < len(slots):
        s = slots[j]
        a, count = heads[s, OFFSET] + heads[s, START], heads[s, COUNT]
        first = index[j]
        write = a + first
        for k in range(first, count):
            if j < len(slots) and slots[j] == s and index[j] == k:
                j += 1
            else:
                time[write], rids[write] = time[a + k], rids[a + k]
                write += 1
        heads[s, COUNT] = write - a
        count_breaks(heads, rows, gaps, s, first)


def copy_tails(slots: Any, first: Any, heads: Any, rows: Any, out: Any) -> int:
    """Copy the rows of slots from an index on, one after the other; only counted if `out` is too short."""
    time, rids, _, _ = rows
    times, numbers = out
    count = 0
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        for position in range(a + first[i], a + heads[s, COUNT]):
            if count < len(times):
                times[count], numbers[count] = time[position], rids[position]
            count += 1
    return count


def restore_tails(slots: Any, first: Any, heads: Any, rows: Any, gaps: Any, saved: Any) -> None:
    """Put copied rows back; the heads are those of the time of the copy."""
    time, rids, _, _ = rows
    times, numbers = saved
    at = 0
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        for position in range(a + first[i], a + heads[s, COUNT]):
            time[position], rids[position] = times[at], numbers[at]
            at += 1
        count_breaks(heads, rows, gaps, s, first[i])


def move_rows(slots: Any, offsets: Any, capacities: Any, heads: Any, rows: Any) -> None:
    """Move the rows of slots to other blocks, or to the start of their own."""
    time, rids, breaks, _ = rows
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        for k in range(heads[s, COUNT]):
            time[offsets[i] + k], rids[offsets[i] + k] = time[a + k], rids[a + k]
            for g in range(breaks.shape[1]):
                breaks[offsets[i] + k, g] = breaks[a + k, g]
        heads[s, OFFSET], heads[s, CAPACITY], heads[s, START] = offsets[i], capacities[i], 0


def decreasing_at(slots: Any, places: Any, heads: Any, rows: Any, life: int, values: Any) -> tuple[int, int]:
    """The first row, from the places of new ones on, whose value is below that of the row before it: both; or -1."""
    _, rids, breaks, _ = rows
    for j in range(len(slots)):
        s = slots[j]
        a, count = heads[s, OFFSET] + heads[s, START], heads[s, COUNT]
        for k in range(max(places[j], 1), min(places[j] + 2, count)):
            is_same = life < 0 or breaks[a + k, life] == breaks[a + k - 1, life]
            if is_same and values[rids[a + k]] < values[rids[a + k - 1]]:
                return int(rids[a + k - 1]), int(rids[a + k])
    return -1, -1


def gather_rids(slots: Any, counts: Any, heads: Any, rids: Any, out: Any) -> None:
    """The numbers of the first rows of slots, one slot after the other."""
    at = 0
    for i in range(len(slots)):
        a = heads[slots[i], OFFSET] + heads[slots[i], START]
        for k in range(counts[i]):
            out[at] = rids[a + k]
            at += 1


def find_rows(slots: Any, times: Any, fresh: Any, heads: Any, rows: Any, ties: Any, index: Any) -> None:
    """The index of the last row with the time and tie-breakers of each of these; -1 if there is none."""
    time, rids, _, _ = rows
    locate_rows(slots, times, fresh, heads, rows, ties, index)
    for j in range(len(slots)):
        position = heads[slots[j], OFFSET] + heads[slots[j], START] + index[j] - 1
        found = index[j] > 0 and time[position] == times[j] and not comes_after(ties, fresh[j], rids[position])
        index[j] = index[j] - 1 if found else -1


def settled_rows(slots: Any, now: Any, heads: Any, rows: Any, settled: Any, needed: Any) -> None:
    """How many rows of each slot are below the watermark; and all of them but the last, the most that can go."""
    time, _, _, _ = rows
    for i in range(len(slots)):
        a = heads[slots[i], OFFSET] + heads[slots[i], START]
        settled[i] = first_from(time, a, a + heads[slots[i], COUNT], now, True) - a
        needed[i] = max(settled[i] - 1, 0)


def needed_rows(slots: Any, now: Any, heads: Any, rows: Any, rule: Any, settled: Any, needed: Any) -> None:
    """Lower `needed` to the first index that a window of a result that may still change can hold."""
    time, rids, _, _ = rows
    kind, _, _, size, floor, least, count, _, _, delta = rule
    for i in range(len(slots)):
        a = heads[slots[i], OFFSET] + heads[slots[i], START]
        q = settled[i]
        if kind == TIME:
            low = first_from(time, a, a + q, lowest(now, size, floor, least), True) - a
            needed[i] = min(needed[i], low)
        elif kind == COUNTED:
            needed[i] = min(needed[i], max(q - count, 0))
        elif kind == DELTA and q > 0:
            lo, hi = a, a + q - 1
            while lo < hi:
                middle = (lo + hi) // 2
                if delta_within(delta, rids[a + q - 1], rids[middle]):
                    hi = middle
                else:
                    lo = middle + 1
            needed[i] = min(needed[i], lo - a)


def begins_at(slots: Any, index: Any, heads: Any, rows: Any, column: int, out: Any) -> None:
    """The first index of the session, or life, of a row."""
    _, _, breaks, _ = rows
    for i in range(len(slots)):
        a = heads[slots[i], OFFSET] + heads[slots[i], START]
        out[i] = 0 if column < 0 else begin_of(breaks, column, a, a + index[i]) - a
