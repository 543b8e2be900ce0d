"""The loop of Policy windows: plain Python, compiled on the arrays of an operator or interpreted on objects."""

from __future__ import annotations

from typing import Any

from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import park, restart, resume
from sash.kernels.jit.numba_struct import AFTER, FIRST
from sash.kernels.loops.live_loops import CAPACITY, OFFSET


def enforce_slots(
    spec: Any, storage: Any, fields: Any, heads: Any, states: Any, asked: Any, start: int, out: Any, progress: Any
) -> None:
    """Find the first element of the window that ends at each row, after the policy's evictions.

    Row i is element `pos[i]` of its slot, and the window starts at `begin[i]` or later. `heads[s, start]` is the start
    of the slot's window. `progress` is the current row, which the error names if a user's function raises.
    """
    policy = spec.monoid
    ints, floats = fields
    slots, pos, begin = asked
    x = column(spec.state, states)
    i = 0
    while i < len(slots):
        s = slots[i]
        offset, mask = heads[s, OFFSET], heads[s, CAPACITY] - 1
        window = resume(spec, storage, ints, floats, s, offset, mask + 1)
        lo, first, after = heads[s, start], ints[s, FIRST], ints[s, AFTER]
        while i < len(slots) and slots[i] == s:
            progress[0] = i
            lo = max(lo, begin[i])
            if lo != first:  # the structure was lost, or `forget` has expired all its elements
                restart(window)
                after = lo
            while after <= pos[i]:
                window.push(x[offset + (after & mask)])
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
