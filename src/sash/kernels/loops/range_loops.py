"""The loops over whole columns of states: plain Python, compiled on columns or interpreted on lists.

lift_rows      rows to states; a null row is the identity
slide_ranges   a result for each range of states, whose starts and ends never decrease
"""

from __future__ import annotations

from typing import Any

from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.kernels.loops.structure_loops import emit


def lift_rows(monoid: Any, inputs: Any, rows: Any, non_null: Any, state: Any, out: Any) -> None:
    """Fill `out` with the states of rows, and the identity for those that are null."""
    x, y = column(inputs, rows), column(state, out)
    for i in range(len(non_null)):
        if non_null[i]:
            y[i] = monoid.lift(*x[i])
        else:
            y[i] = monoid.identity


def slide_ranges(spec: Any, storage: Any, states: Any, bounds: Any, out: Any, valid: Any) -> Any:
    """Fill `out` with the result over the states [los[i], his[i]) for each i that is wanted.

    Neither bound ever decreases. States between two ranges are never inserted.
    """
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.state, states)
    y = column(spec.result, out)
    los, his, wanted = bounds
    first, after = 0, 0
    for i in range(len(wanted)):
        if not wanted[i]:
            valid[i] = False
            continue
        lo, hi = los[i], his[i]
        while first < lo and first < after:
            window.pop()
            first += 1
        if first < lo:
            first, after = lo, lo
        while after < hi:
            window.push(x[after])
            after += 1
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)
