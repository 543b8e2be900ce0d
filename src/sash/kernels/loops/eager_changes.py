"""Find the results of emit="eager" that have changed, by comparing ranges and results before and after a call.

Pairs are rows of three integers: the place of a range after the call, that before, and the number of its result. For
each range an aggregate returns whether its result is valid, its `presence` (whether it has non-null rows there), and
the labels of the first and last one.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.eager_windows import HIGH, LOW, OFFSET, ON, SLOT, SOME, START

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
