"""Loops that change the ordered rows of slots, for emit="eager": insert, remove, undo, and find rows to drop.

Inserting a row moves the rows after it: a row at distance d from the newest moves d entries of 16 bytes, and 10,000 of
them take some 10 µs. Attributes by row number do not move.

Find the results of emit="eager" that have changed, by comparing ranges and results before and after a call.

Pairs are rows of three integers: the place of a range after the call, that before, and the number of its result. For
each range an aggregate returns whether its result is valid, its `presence` (whether it has non-null rows there), and
the labels of the first and last one.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.eager_windows import (
    BY,
    CAPACITY,
    COUNT,
    COUNTED,
    FARTHEST,
    FLOOR,
    HIGH,
    KIND,
    LOW,
    LOWEST,
    MEASURED,
    OFFSET,
    ON,
    RESTART,
    ROWS,
    SLOT,
    SOME,
    START,
    STEP,
    STRIDE,
    TIME,
    VALUE_COLUMN,
    VALUE_FLOATS,
    begin_of,
    first_within,
    is_apart,
    row_ranges,
)
from sash.windows.rules import first_from, start_of

# --- Eager changes ---

FIRST_LEAF, LAST_LEAF, CARRIES = 1, 2, 4
"""Bits: which leaf of the results this is, and whether it contains codes: two codes may mean equal values."""


def merge_places(known: Any, fresh: Any, gone: Any, out: Any) -> int:
    """Merge known and new rows in order: slot, new index, number of the known row (-1: new); without removed rows.

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


def compare_values(
    pairs: Any, asked: Any, leaf: Any, valid: Any, presence: Any, step: int, alike: Any, changed: Any
) -> int:
    """Compare results by value, leaf by leaf. Returns, at the last leaf, how many must be compared as columns."""
    undecided = 0
    for p in range(pairs.shape[0]):
        a, b, r = pairs[p, 0], pairs[p, 1], pairs[p, 2]
        same = changed[r]
        if not same:
            if step & FIRST_LEAF:
                same = valid[a] == valid[b] and asked[a, ON] == asked[b, ON]
                same = same and (presence[a] == 0) == (presence[b] == 0)
            else:
                same = alike[p]
            if same and valid[a]:
                same = leaf[a] == leaf[b] or (leaf[a] != leaf[a] and leaf[b] != leaf[b])
        alike[p] = same
        if step & LAST_LEAF and not same:
            if valid[a] and valid[b] and not step & CARRIES:
                changed[r] = True
                alike[p] = True
            else:
                undecided += 1
    return undecided


def compare_inputs(pairs: Any, asked: Any, found: Any, entered: Any, left: Any, labels: Any, changed: Any) -> None:
    """Compare results by their inputs: a result has changed if an input has entered or left the window."""
    presence, first, last = found
    for p in range(pairs.shape[0]):
        a, b, r = pairs[p, 0], pairs[p, 1], pairs[p, 2]
        if changed[r]:
            continue
        differs = presence[a] != presence[b] or asked[a, ON] != asked[b, ON]
        if presence[a] & 1:
            differs = differs or first[a] != first[b] or last[a] != last[b]
        if not differs:
            differs = any_within(asked, a, entered, labels) or any_within(asked, b, left, labels)
        changed[r] = differs


def any_within(asked: Any, i: int, some: Any, labels: Any) -> bool:
    """Does a range contain a non-null row of `some`: slots and row numbers in order, and counts of non-null rows?"""
    slots, rids, sums = some
    if not len(slots) or not asked[i, SOME]:
        return False
    begin = rank_of(slots, rids, labels, asked[i, SLOT], asked[i, LOW], False)
    end = rank_of(slots, rids, labels, asked[i, SLOT], asked[i, HIGH], True)
    return bool(sums[end] > sums[begin])


def rank_of(slots: Any, rids: Any, labels: Any, s: int, label: int, through: bool) -> int:
    """The number of rows of `some` before a label of a slot, with or without that label."""
    a, b = 0, len(slots)
    while a < b:
        middle = (a + b) // 2
        here = labels[rids[middle]]
        if slots[middle] < s or (slots[middle] == s and (here < label or (through and here == label))):
            a = middle + 1
        else:
            b = middle
    return a


def count_non_null(rids: Any, non_null: Any, sums: Any) -> None:
    """Prefix counts of the rows that are not null."""
    sums[0] = 0
    for i in range(len(rids)):
        sums[i + 1] = sums[i] + non_null[rids[i]]


def pair_up(which: Any, count: int, known: int, windows: int, split: int, out: Any) -> None:
    """The pairs of ranges of known rows, for all windows: `which` known row each is, or -1 for new ones."""
    pairs, changed = out
    at = 0
    for i in range(count):
        changed[i] = which[i] < 0
    for w in range(windows):
        for i in range(count):
            if which[i] >= 0:
                pairs[at, 0], pairs[at, 1], pairs[at, 2] = split + w * count + i, w * known + which[i], i
                at += 1


def emitted_rows(changed: Any, of: Any, index: Any, heads: Any, rids: Any, revision: Any, out: Any) -> int:
    """The places, row numbers and old revisions of the results that have changed."""
    count = 0
    for i in range(len(changed)):
        if changed[i]:
            r = rids[heads[of[i], OFFSET] + heads[of[i], START] + index[i]]
            out[0, count], out[1, count], out[2, count] = i, r, revision[r]
            count += 1
    return count


# --- Eager order ---

BEGUN, DONE = 1, 2
"""The progress of a change of rows."""


def comes_after(ties: Any, one: int, other: int) -> bool:
    """Does a row come after another of the same time, by its tie-breakers?"""
    for k in range(ties.shape[1]):
        if ties[one, k] != ties[other, k]:
            return bool(ties[one, k] > ties[other, k])
    return False


def locate_rows(slots: Any, times: Any, fresh: Any, heads: Any, rows: Any, ties: Any, places: Any) -> None:
    """The index at which to insert each new row: after all rows that do not come after it."""
    time, rids = rows[0], rows[1]
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


def place_rows(new: Any, heads: Any, rows: Any, ties: Any, arrival: Any, places: Any) -> int:
    """Find the places of new rows, and label them. Returns a slot that must be relabelled, or -1."""
    slots, times, rids = new
    locate_rows(slots, times, rids, heads, rows, ties, places)
    return label_rows(slots, places, rids, heads, rows, arrival)


def label_rows(slots: Any, places: Any, fresh: Any, heads: Any, rows: Any, arrival: Any) -> int:
    """Label new rows between their neighbours. Returns a slot whose gap is too small, which must be relabelled; or -1.

    A label is close to that of the neighbour that arrived later: rows that arrive in ascending or descending order then
    consume STEP of a gap each, instead of halving it.
    """
    rids, labels = rows[1], rows[3]
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
    rids, labels = rows[1], rows[3]
    for i in range(len(slots)):
        s = slots[i]
        a, count = heads[s, OFFSET] + heads[s, START], heads[s, COUNT]
        step = min(STRIDE, FARTHEST // (count + 1))
        for k in range(count):
            labels[rids[a + k]] = step * (k + 1)


def count_breaks(heads: Any, rows: Any, gaps: Any, s: int, first: int) -> None:
    """Recount the breaks (see `eager_windows`) from an index on."""
    time, breaks = rows[0], rows[2]
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
    time, rids = rows[0], rows[1]
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
            low, shift = a + places[i], write - read
            for k in range(read, low - 1, -1):  # one array at a time: a move of memory
                time[k + shift] = time[k]
            for k in range(read, low - 1, -1):
                rids[k + shift] = rids[k]
            read, write = low - 1, low - 1 + shift
            time[write], rids[write] = times[i], fresh[i]
            write -= 1
        heads[s, COUNT] += stop - j
        count_breaks(heads, rows, gaps, s, places[j])
        j = stop


def remove_rows(slots: Any, index: Any, heads: Any, rows: Any, gaps: Any) -> None:
    """Remove rows, sorted by slot and index."""
    time, rids = rows[0], rows[1]
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


def turn_rows(known: Any, change: Any, order: Any, rules: Any, merged: Any, out: Any) -> int:
    """Apply a change of rows, and write the ranges of results that may change before and after it.

    `known`: slots and indices of those results; `change`: new rows, removed rows, and the places of the new ones among
    the rest; `order`: heads, rows, gaps and existing bases; `out`: ranges, the progress flag, pairs of ranges and which
    results are new. Returns the number of results after the change.
    """
    slots, index = known
    fresh, gone, at = change
    heads, rows, gaps, anchored = order
    asked, done, pairs = out
    of, place, which = merged
    windows = rules[0].shape[0]
    row_ranges(slots, index, len(slots), (0, windows), heads, rows, rules, anchored, (asked, 0))
    change_rows(fresh, gone, at, heads, rows, gaps, done)
    count = merge_places((slots, index), (fresh[0], fresh[1]), gone, (of, place, which))
    split = windows * len(slots)
    row_ranges(of, place, count, (0, windows), heads, rows, rules, anchored, (asked, split))
    pair_up(which, count, len(slots), windows, split, pairs)
    return count


def change_rows(fresh: Any, gone: Any, at: Any, heads: Any, rows: Any, gaps: Any, done: Any) -> None:
    """Remove rows and insert new ones; `done` records the progress."""
    slots, _, times, rids = fresh
    done[0] = BEGUN
    remove_rows(gone[0], gone[1], heads, rows, gaps)
    insert_rows(slots, at, times, rids, heads, rows, gaps)
    done[0] = DONE


def undo_change(fresh: Any, gone: Any, heads: Any, rows: Any, gaps: Any, done: Any) -> None:
    """Remove new rows and restore removed ones; the heads are those from before the change."""
    for s in fresh[0]:
        heads[s, COUNT] += 1
    slots, index, times, rids = gone
    at = index.copy()
    rank = 0
    for i in range(len(slots)):  # its old index, less the rows that are restored before it
        heads[slots[i], COUNT] -= 1
        rank = rank + 1 if i and slots[i] == slots[i - 1] else 0
        at[i] -= rank
    remove_rows(fresh[0], fresh[1], heads, rows, gaps)
    insert_rows(slots, at, times, rids, heads, rows, gaps)
    done[0] = 0


def move_rows(slots: Any, offsets: Any, capacities: Any, heads: Any, rows: Any) -> None:
    """Move the rows of slots to other blocks, or to the start of their own."""
    time, rids, breaks = rows[0], rows[1], rows[2]
    for i in range(len(slots)):
        s = slots[i]
        a = heads[s, OFFSET] + heads[s, START]
        for k in range(heads[s, COUNT]):
            time[offsets[i] + k], rids[offsets[i] + k] = time[a + k], rids[a + k]
            for g in range(breaks.shape[1]):
                breaks[offsets[i] + k, g] = breaks[a + k, g]
        heads[s, OFFSET], heads[s, CAPACITY], heads[s, START] = offsets[i], capacities[i], 0


def decreasing_at(slots: Any, places: Any, heads: Any, rows: Any, rules: Any, w: int) -> tuple[int, int]:
    """The first row, from the new ones on, whose measured value is below the previous row's: both rows; or -1."""
    rids, breaks, of_ints, of_floats = rows[1], rows[2], rows[4], rows[5]
    ints = rules[0]
    restart, column = ints[w, RESTART], ints[w, VALUE_COLUMN]
    for j in range(len(slots)):
        s = slots[j]
        a, count = heads[s, OFFSET] + heads[s, START], heads[s, COUNT]
        for k in range(max(places[j], 1), min(places[j] + 2, count)):
            is_same = restart < 0 or breaks[a + k, restart] == breaks[a + k - 1, restart]
            r, before = rids[a + k], rids[a + k - 1]
            if ints[w, VALUE_FLOATS]:
                falls = of_floats[r, column] < of_floats[before, column]
            else:
                falls = of_ints[r, column] < of_ints[before, column]
            if is_same and falls:
                return int(before), int(r)
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
    time, rids = rows[0], rows[1]
    locate_rows(slots, times, fresh, heads, rows, ties, index)
    for j in range(len(slots)):
        position = heads[slots[j], OFFSET] + heads[slots[j], START] + index[j] - 1
        found = index[j] > 0 and time[position] == times[j] and not comes_after(ties, fresh[j], rids[position])
        index[j] = index[j] - 1 if found else -1


def settled_rows(slots: Any, now: Any, heads: Any, rows: Any, rules: Any, settled: Any, needed: Any) -> None:
    """The number of rows of each slot below the watermark, and the first row that a result may still need.

    The last row below the watermark is always needed.
    """
    time = rows[0]
    for i in range(len(slots)):
        a = heads[slots[i], OFFSET] + heads[slots[i], START]
        settled[i] = first_from(time, a, a + heads[slots[i], COUNT], now, True) - a
        needed[i] = max(settled[i] - 1, 0)
        for w in range(rules[0].shape[0]):
            needed[i] = min(needed[i], first_needed(a, settled[i], now, rows, rules, w))


def first_needed(a: int, q: int, now: Any, rows: Any, rules: Any, w: int) -> int:
    """The first index in windows of results that may still change, among `q` rows from position `a`."""
    time = rows[0]
    ints, numbers, _ = rules
    if ints[w, KIND] == TIME:
        least = start_of(now, numbers[w, BY], numbers[w, FLOOR], numbers[w, LOWEST])
        return first_from(time, a, a + q, least, True) - a
    if ints[w, KIND] == COUNTED:
        return int(max(q - ints[w, ROWS], 0))
    if ints[w, KIND] == MEASURED and q > 0:
        return first_within(rules, w, rows, a, a + q - 1) - a
    return q


def begins_at(slots: Any, index: Any, heads: Any, rows: Any, column: int, out: Any) -> None:
    """The first index of the session of a row, or since the last restart of its key."""
    breaks = rows[2]
    for i in range(len(slots)):
        a = heads[slots[i], OFFSET] + heads[slots[i], START]
        out[i] = 0 if column < 0 else begin_of(breaks, column, a, a + index[i]) - a
