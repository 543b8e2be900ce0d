"""Loops that find the bounds of windows over the elements of slots.

bound_places      starts, or ends, of windows measured on values
count_starts      starts of windows of a number of rows; `shifted_rows`: starts and ends of those that are moved
decreasing        the first row whose value is below that of the row before it
due_slides        the slides in time that are due, each with its panes
next_slides       when the next slide of a slot is due
pending_slides    for windows over rows: the slides that a later row ends
run_windows       windows that only grow until they restart

Bounds are those of `sash.windows.rules`; the search continues from the slot's last one, in a ring.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.loops.ring_loops import BACK, place
from sash.windows.rules import precedes, slide_end, slide_start

NEVER = 1 << 62
"""No slide: greater than the number of any slide."""

OPEN, ROW, SLIDE, CLOSED = range(4)
"""The columns of a slot whose window only grows: whether it is open, the number of its first row, the slide of its last
row, and whether its last row was a mark."""


NEAR = 8
"""A search goes this far one by one: windows mostly move by a few elements."""


def first_beyond(values: Any, ring: Any, s: int, p: int, hi: int, low: Any, inclusive: bool) -> int:
    """The first position from `p` on whose value in a slot does not precede `low`; `hi` if there is none.

    Values never decrease. A far position is found in a logarithmic number of steps.
    """
    near = min(p + NEAR, hi)
    while p < near and precedes(values[place(ring, s, p)], low, inclusive):
        p += 1
    if p < near or p == hi:
        return p
    step = NEAR
    while p + step < hi and precedes(values[place(ring, s, p + step)], low, inclusive):
        p += step + 1
        step *= 2
    high = min(p + step, hi)
    while p < high:
        middle = (p + high) // 2
        if precedes(values[place(ring, s, middle)], low, inclusive):
            p = middle + 1
        else:
            high = middle
    return p


def moved_beyond(values: Any, ring: Any, s: int, p: int, stop: int, t: Any, bound: Any) -> int:
    """The first position from `p` on whose value in a slot does not precede the bound of a row at t."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return p
    if t > ceiling:
        return stop
    return first_beyond(values, ring, s, p, stop, t + by, inclusive)


def bound_places(
    slots: Any, origins: Any, begin: Any, stops: Any, bound: Any, ring: Any, column: int, values: Any, out: Any
) -> None:
    """The first element from `begin`, and before `stops`, that does not precede a bound at a distance from `origins`.

    The slot's head has the place of its last row, which never decreases.
    """
    heads = ring[0]
    for i in range(len(slots)):
        s = slots[i]
        p = moved_beyond(values, ring, s, max(heads[s, column], begin[i]), stops[i], origins[i], bound)
        out[i] = p
        heads[s, column] = p


def count_starts(slots: Any, begin: Any, his: Any, size: int, heads: Any, column: int, los: Any) -> None:
    """The first element of windows of `size` rows."""
    for i in range(len(slots)):  # without the heads, so that the loop is vectorised
        los[i] = max(his[i] - size, begin[i])
    for i in range(len(slots)):
        if i + 1 == len(slots) or slots[i + 1] != slots[i]:
            heads[slots[i], column] = los[i]


def shifted_rows(
    slots: Any, pos: Any, begin: Any, stops: Any, behind: int, ahead: int, heads: Any, column: int, los: Any, his: Any
) -> None:
    """Windows from `behind` - 1 rows before their row to `ahead` rows after it; either may be negative."""
    for i in range(len(slots)):
        hi = min(max(pos[i] + 1 + ahead, begin[i]), stops[i])
        lo = min(max(pos[i] + 1 - behind, begin[i]), hi)
        los[i], his[i] = lo, hi
        heads[slots[i], column] = lo


def decreasing(slots: Any, pos: Any, begin: Any, ring: Any, values: Any) -> int:
    """The first row whose value is below that of the row before it in its slot; -1 if there is none."""
    for i in range(len(slots)):
        if pos[i] > begin[i]:
            s = slots[i]
            if values[place(ring, s, pos[i])] < values[place(ring, s, pos[i] - 1)]:
                return i
    return -1


def due_slides(
    of: Any, limits: Any, backs: Any, first: int, restarts: bool, grid: Any, sizes: Any, ring: Any, columns: Any,
    edges: Any, out: Any,
) -> Any:  # fmt: skip
    """Find the slides that are due, for entries from `first` on.

    Entry e is slot `of[e]`, up to slide `limits[e]`, with the panes before position `backs[e]`; with `restarts` the
    slot's windows restart there. The windows differ only in their `sizes`, the longest first.

    Writes for each slide of the longest window its entry, number, the pane after its last, and the first pane of each
    window; for a window without panes that is the pane after its last. Returns the entry at which `out` is full, or the
    number of entries, and the number of slides; -1 for the entry if a shorter window has a slide that the longest does
    not have. The head has three columns for each window: the first pane of the next slide, the pane after its last, and
    the slide's number.
    """
    lows, firsts = edges
    heads = ring[0]
    entries, numbers, his, los = out
    count = 0
    for e in range(first, len(of)):
        s, back, limit, begun, is_full = of[e], backs[e], limits[e], count, False
        lo, hi, k = heads[s, columns[0, 0]], heads[s, columns[0, 1]], heads[s, columns[0, 2]]
        if k == -NEVER and lo < back:
            k = firsts[place(ring, s, lo)]
        while lo < back and k <= limit and k != -NEVER:
            lo = first_beyond(lows, ring, s, lo, back, slide_start(k, grid), True)
            if lo == back:
                break
            if firsts[place(ring, s, lo)] > k:
                k = firsts[place(ring, s, lo)]
                continue
            if count == len(entries):
                is_full, limit = True, k - 1
                break
            hi = first_beyond(lows, ring, s, max(hi, lo), back, slide_end(k, grid), True)
            entries[count], numbers[count], his[count], los[0, count] = e, k, hi, lo
            count += 1
            k += 1
        if restarts and not is_full:
            lo, hi, k = back, back, -NEVER
        heads[s, columns[0, 0]], heads[s, columns[0, 1]], heads[s, columns[0, 2]] = lo, hi, k
        for w in range(1, len(sizes)):
            given = numbers[begun:count], his[begun:count], los[w, begun:count]
            if not _among(s, (back, limit), sizes[w], grid, ring, columns[w], edges, given):
                return -1, count
            if restarts and not is_full:
                heads[s, columns[w, 0]], heads[s, columns[w, 1]], heads[s, columns[w, 2]] = back, back, -NEVER
        if is_full:
            return e, count
    return len(of), count


def _among(s: int, until: Any, size: Any, grid: Any, ring: Any, columns: Any, edges: Any, given: Any) -> bool:
    """Find the first panes of a shorter window at the slides of a longer one, up to a pane and a slide.

    `given` are the numbers of these slides, the panes after their last, and where to write. Returns whether all slides
    of the shorter window are among them.
    """
    back, limit = until
    lows, firsts = edges
    heads = ring[0]
    numbers, his, los = given
    lo, hi, k = heads[s, columns[0]], heads[s, columns[1]], heads[s, columns[2]]
    if k == -NEVER and lo < back:
        k = firsts[place(ring, s, lo)]
    r = 0
    while lo < back and k <= limit and k != -NEVER:
        lo = first_beyond(lows, ring, s, lo, back, slide_end(k, grid) - size, True)
        if lo == back:
            break
        if firsts[place(ring, s, lo)] > k:
            k = firsts[place(ring, s, lo)]
            continue
        while r < len(numbers) and numbers[r] < k:
            los[r] = his[r]
            r += 1
        if r == len(numbers) or numbers[r] != k:
            return False
        hi = his[r]
        los[r] = lo
        r += 1
        k += 1
    for rest in range(r, len(numbers)):
        los[rest] = his[rest]
    heads[s, columns[0]], heads[s, columns[1]], heads[s, columns[2]] = lo, hi, k
    return True


def next_slides(of: Any, grid: Any, ring: Any, columns: Any, edges: Any, due: Any, is_due: Any) -> None:
    """Find when the next slide of a slot is due, and whether there is one; drops the panes before it.

    If there is one, the panes of the last slide stay: the structures contain them.
    """
    first_pane, _, number = columns
    lows, firsts = edges
    heads = ring[0]
    for e in range(len(of)):
        s = of[e]
        back, lo, k = heads[s, BACK], heads[s, first_pane], heads[s, number]
        if k > -NEVER and lo < back:
            lo = first_beyond(lows, ring, s, lo, back, slide_start(k, grid), True)
        if lo == back:
            heads[s, first_pane] = lo
        else:
            end = slide_end(max(k, firsts[place(ring, s, lo)]), grid)
            if not is_due[e] or end < due[e]:
                due[e] = end
                is_due[e] = True


def pending_slides(slots: Any, numbers: Any, pos: Any, begin: Any, heads: Any, column: int, out: Any) -> int:
    """Find the slides that a row ends because it belongs to a later slide.

    Writes for each its slot, its number, the row's position, the key's first position, and the row. The head's column
    has the slide of the slot's last row, NEVER if it was emitted. Returns the number of slides.
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


def run_windows(
    slots: Any, times: Any, begins: Any, marks: Any, numbers: Any, wanted: Any, ordinal: Any, heads: Any,
    stamps: Any, fresh: Any, out: Any, starts: Any,
) -> int:  # fmt: skip
    """Assign rows to windows that only grow until they restart: Session, Punctuation, Lifetime.

    `begins`: rows that begin a window in any case; `marks`: rows that are the last of their window. `numbers`: the
    slide of each row, or empty; `wanted`: 1 for a result after the row, 2 for a result when the window ends. Writes for
    each result the number of rows before it, its slot, row (-1 for none), slide and first row.
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
