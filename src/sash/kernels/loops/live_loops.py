"""The loops of aggregates over live state: plain Python, compiled on arrays or interpreted on objects.

lift_elements    lift rows to elements of their slots' rings
fold_panes       fold rows into the panes of their slots' rings
fold_running     fold rows into one partial for each slot; results between the rows
slide_slots      a result for each range of a slot's elements, by the structure of the slot
slide_sizes      the same for several starts for each end, from one structure
enforce_slots    the start of a policy's window at each row
lower_states     results from the states of another aggregate's loop

An element is addressed by its position, which only grows: position p of slot s is at `place(ring, s, p)` of the arena.
`before` counts the values of the slot before each element, and `totals` all values of the slot, so that ranges without
values are found without reading states. If every row has a value, `before` is empty: the count is the position. Empty
`non_null` and `wanted` mean all.

`progress` is the current result or row, and whether it is a row, for the error message if a user's function raises.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import park, restart, resume
from sash.kernels.jit.numba_struct import AFTER, FIRST
from sash.kernels.loops.ring_loops import BACK, CAPACITY, FRONT, OFFSET, place
from sash.kernels.loops.structure_loops import emit


def lift_elements(spec: Any, rows: Any, non_null: Any, placed: Any, counts: Any, out: Any, progress: Any) -> None:
    """Write the state of each row at its place in the arena; the identity for a null row. It begins at `progress`."""
    slots, places = placed
    x, y = column(spec.inputs, rows), column(spec.state, out)
    for i in range(progress[0], len(slots)):
        progress[0] = i
        put_element(spec.monoid, x, y, non_null, counts, i, slots[i], places[i])


def put_element(monoid: Any, x: Any, y: Any, non_null: Any, counts: Any, i: int, s: int, at: int) -> None:
    """Write the state of row i of slot s at its place."""
    totals, before = counts
    if len(before) > 0:
        before[at] = totals[s, 0]
    if len(non_null) == 0 or non_null[i]:
        y[at] = monoid.lift(*x[i])
        if len(before) > 0:
            totals[s, 0] += 1
    else:
        y[at] = monoid.identity


def lift_range(monoid: Any, x: Any, y: Any, rows: Any, counts: Any, bounds: Any, progress: Any) -> None:
    """Write the states of the rows [first, stop) at their places."""
    _, non_null, slots, places = rows
    progress[1] = 1
    for i in range(bounds[0], bounds[1]):
        progress[0] = i
        put_element(monoid, x, y, non_null, counts, i, slots[i], places[i])
    progress[1] = 0


def fold_panes(spec: Any, rows: Any, non_null: Any, placed: Any, counts: Any, out: Any, progress: Any) -> None:
    """Fold each row into the pane at its place in the arena; `fresh` rows begin one."""
    monoid = spec.monoid
    slots, places, fresh = placed
    totals, before = counts
    x, y = column(spec.inputs, rows), column(spec.state, out)
    for i in range(len(slots)):
        progress[0] = i
        s, p = slots[i], places[i]
        if fresh[i]:
            before[p] = totals[s, 0]
            y[p] = monoid.identity
        if len(non_null) == 0 or non_null[i]:
            if totals[s, 0] == before[p]:
                y[p] = monoid.lift(*x[i])
            else:
                y[p] = monoid.combine(y[p], monoid.lift(*x[i]))
            totals[s, 0] += 1


def fold_running(
    spec: Any, rows: Any, non_null: Any, placed: Any, counts: Any, out: Any, asked: Any, results: Any, progress: Any
) -> None:
    """Fold each row into its slot's partial; result r is read after `after[r]` rows.

    `progress`: the row in work and 1, or the result in work and 0.
    """
    monoid = spec.monoid
    slots, fresh = placed
    totals, base = counts
    after, of = asked
    found, valid, low, high = results
    x, y, z = column(spec.inputs, rows), column(spec.state, out), column(spec.result, found)
    r = 0
    for i in range(len(slots) + 1):
        progress[1] = 0
        while r < len(after) and after[r] == i:
            progress[0] = r
            s = of[r]
            low[r], high[r] = base[s, 0], totals[s, 0]
            if base[s, 0] < totals[s, 0]:
                emit(z, valid, r, monoid.lower(y[s]))
            else:
                valid[r] = False
            r += 1
        if i < len(slots):
            progress[0], progress[1] = i, 1
            s = slots[i]
            if fresh[i]:
                base[s, 0] = totals[s, 0]
                y[s] = monoid.identity
            if len(non_null) == 0 or non_null[i]:
                if base[s, 0] == totals[s, 0]:
                    y[s] = monoid.lift(*x[i])
                else:
                    y[s] = monoid.combine(y[s], monoid.lift(*x[i]))
                totals[s, 0] += 1


def _over_slots(results_of_slot: Any) -> Any:
    """The loop over slots that loads each slot's structure, calls `results_of_slot`, and stores the structure."""

    def over(
        spec: Any, storage: Any, fields: Any, blocks: Any, ring: Any, states: Any, counts: Any, rows: Any, asked: Any,
        results: Any, progress: Any,
    ) -> int:  # fmt: skip
        """Answer ranges [lo, hi) of each slot's elements; in each slot neither bound ever decreases.

        `rows` are lifted first. If they are sorted by slot, with a result for each, the rows of a slot are lifted just
        before its results, and `order` has the places of the results. Returns the number of null results.
        """
        monoid = spec.monoid
        ints, floats = fields
        inputs, _, _, places = rows
        order, slots = asked[0], asked[1]
        r, x, y = column(spec.inputs, inputs), column(spec.state, states), column(spec.result, results[0])
        ordered = len(order) > 0
        if not ordered:
            lift_range(monoid, r, x, rows, counts, (0, len(places)), progress)
        missing, i = 0, 0
        while i < len(slots):
            s = slots[i]
            stop = i
            while stop < len(slots) and slots[stop] == s:
                stop += 1
            if ordered and len(places) > 0:
                lift_range(monoid, r, x, rows, counts, (i, stop), progress)
            offset, capacity = block_of(blocks, s)
            window = resume(spec, storage, ints, floats, s, offset, capacity, ring)
            held = bounds_of(window, ints, ring[0], s)
            null, first, after = results_of_slot(
                monoid, window, held, x, y, ring, counts, asked, results, i, stop, progress
            )
            missing += null
            ints[s, FIRST], ints[s, AFTER] = first, after
            park(window, ints, floats, s)
            i = stop
        return missing

    over.__qualname__ = f"over_slots.{results_of_slot.__qualname__}"  # the name of its machine code
    return over


def block_of(blocks: Any, s: int) -> Any:
    """The block of a slot's structure, if it has one."""
    return (blocks[s, OFFSET], blocks[s, CAPACITY]) if len(blocks) > 0 else (0, 0)


def bounds_of(window: Any, ints: Any, heads: Any, s: int) -> Any:
    """The elements that a structure contains; none if it is lost.

    That is so if its queues are those of the slot and the first of its elements have left the slot.
    """
    first, after = ints[s, FIRST], ints[s, AFTER]
    if window.in_ring and first < heads[s, FRONT]:
        return -1, -1
    return first, after


def one_size(
    monoid: Any, window: Any, held: Any, x: Any, y: Any, ring: Any, counts: Any, asked: Any, results: Any,
    i: int, stop: int, progress: Any,
) -> Any:  # fmt: skip
    """Write a result for each range. Returns how many are null, and the bounds of the structure's elements then."""
    totals, before = counts
    order, slots, los, his, wanted = asked
    _, valid, low, high = results
    s = slots[i]
    back = ring[0][s, BACK]
    first, after = held
    missing = 0
    for j in range(i, stop):
        progress[0] = j
        k = order[j] if len(order) > 0 else j
        lo, hi = los[j], his[j]
        least, most = lo, hi
        if len(before) > 0:
            least, most = 0, 0
            if lo < hi:
                least = before[place(ring, s, lo)]
                most = totals[s, 0] if hi == back else before[place(ring, s, hi)]
            if len(low) > 0:
                low[k], high[k] = least, most
        valid[k] = False
        if lo < hi and (len(wanted) == 0 or wanted[j]):
            move(window, x, first, after, ring, s, lo, hi)
            first, after = lo, max(after, hi)
            if least < most:
                emit(y, valid, k, monoid.lower(window.aggregate()))
        if not valid[k]:
            missing += 1
    return missing, first, after


def several_sizes(
    monoid: Any, window: Any, held: Any, x: Any, y: Any, ring: Any, counts: Any, asked: Any, results: Any,
    i: int, stop: int, progress: Any,
) -> Any:  # fmt: skip
    """Write the results of several starts for each end: result k * len(his) + j is that of [los[k, j], his[j]).

    The starts for each end ascend. Results with the same k are contiguous, slot by slot even if there is an `order`:
    writing that many streams out of order would miss the cache at each result.
    """
    totals, before = counts
    _, slots, los, his, wanted = asked
    _, valid, low, high = results
    s = slots[i]
    back = ring[0][s, BACK]
    first, after = held
    missing = 0
    for j in range(i, stop):
        progress[0] = j
        hi = his[j]
        if los[0, j] < hi:
            move(window, x, first, after, ring, s, los[0, j], hi)
            first, after = los[0, j], max(after, hi)
        most = hi
        if len(before) > 0 and los[0, j] < hi:
            most = totals[s, 0] if hi == back else before[place(ring, s, hi)]
        answered = 0
        for k in range(len(los)):
            lo, at = los[k, j], k * len(his) + j
            least, until = lo, most
            if len(before) > 0:
                least, until = 0, 0
                if lo < hi:
                    least, until = before[place(ring, s, lo)], most
                if len(low) > 0:
                    low[at], high[at] = least, until
            valid[at] = False
            if least < until and (len(wanted) == 0 or wanted[k, j]):
                emit(y, valid, at, monoid.lower(window.answer(answered, hi - lo)))
                answered += 1
            if not valid[at]:
                missing += 1
    return missing, first, after


slide_slots, slide_sizes = _over_slots(one_size), _over_slots(several_sizes)
"""The loops for structures that answer one range for each end, and for those that answer several."""


def move(window: Any, x: Any, first: int, after: int, ring: Any, s: int, lo: int, hi: int) -> None:
    """Move a structure from a slot's elements [first, after) to [lo, hi).

    If all leave, it restarts in constant time. If more leave than stay, only structures with bulk eviction evict them:
    for the others it is cheaper to insert the few that stay again.
    """
    if lo >= after or (window.bulk == 0 and after - lo < lo - first):
        restart(window, lo)
        first, after = lo, lo
    if first < lo:
        window.drop(lo - first)
    while after < hi:
        window.push(x[place(ring, s, after)])
        after += 1


def enforce_slots(
    spec: Any, storage: Any, fields: Any, blocks: Any, ring: Any, states: Any, asked: Any, start: int, out: Any,
    progress: Any,
) -> None:  # fmt: skip
    """Find the first element of the window that ends at each row, after the policy's evictions.

    Row i is element `pos[i]` of its slot, and the window starts at `begin[i]` or later. `heads[s, start]` is the start
    of the slot's window. `progress` is the current row, which the error names if a user's function raises.
    """
    policy = spec.monoid
    ints, floats = fields
    slots, pos, begin = asked
    heads = ring[0]
    x = column(spec.state, states)
    i = 0
    while i < len(slots):
        s = slots[i]
        offset, capacity = block_of(blocks, s)
        window = resume(spec, storage, ints, floats, s, offset, capacity, ring)
        lo, first, after = heads[s, start], ints[s, FIRST], ints[s, AFTER]
        while i < len(slots) and slots[i] == s:
            progress[0] = i
            lo = max(lo, begin[i])
            if lo != first:  # the structure was lost, or `forget` has expired all its elements
                restart(window, lo)
                after = lo
            while after <= pos[i]:
                window.push(x[place(ring, s, after)])
                after += 1
            gone = window.evicted_count(policy, window.aggregate())
            if gone > 0:
                window.drop(gone)
            lo += gone
            out[i] = first = lo
            i += 1
        heads[s, start] = lo
        ints[s, FIRST], ints[s, AFTER] = first, after
        park(window, ints, floats, s)


def lower_states(spec: Any, states: Any, exists: Any, results: Any, progress: Any) -> None:
    """The result of each existing state. It begins at `progress`."""
    found, valid = results
    x, y = column(spec.state, states), column(spec.result, found)
    for i in range(progress[0], len(exists)):
        progress[0] = i
        valid[i] = False
        if exists[i]:
            emit(y, valid, i, spec.monoid.lower(x[i]))
