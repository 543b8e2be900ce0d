"""Loops over ranges of rows: plain Python, compiled on columns or interpreted on lists, like `structure_loops`.

lift_rows      rows to states; a row that an aggregate does not see is the identity
slide_spans    a result for each range of states, where starts and ends never go back
slide_sizes    the same for several starts to each end, from one structure
"""

from __future__ import annotations

from typing import Any

from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_struct import start, stop
from sash.kernels.loops.structure_loops import emit


def lift_rows(monoid: Any, inputs: Any, rows: Any, seen: Any, state: Any, out: Any) -> None:
    """Fill `out` with the states of the rows that are seen, and the identity for the others."""
    x, y = column(inputs, rows), column(state, out)
    for i in range(len(seen)):
        if seen[i]:
            y[i] = monoid.lift(*x[i])
        else:
            y[i] = monoid.identity


def slide_spans(spec: Any, storage: Any, states: Any, bounds: Any, out: Any, valid: Any) -> Any:
    """Fill `out` with the result over the states [los[i], his[i]) for each i that is wanted.

    Neither bound ever goes back.
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
        first, after = moved(window, x, first, after, los[i], his[i])
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def moved(window: Any, x: Any, first: int, after: int, lo: int, hi: int) -> tuple[int, int]:
    """Move a window over the states [first, after) to [lo, hi); what lies between is never inserted."""
    while first < lo and first < after:
        window.pop()
        first += 1
    if first < lo:
        first, after = lo, lo
    while after < hi:
        window.push(x[after])
        after += 1
    return first, after


def slide_sizes(spec: Any, storage: Any, states: Any, bounds: Any, out: Any, valid: Any) -> Any:
    """The same for several starts to each end: result i * sizes + k is that of [los[i * sizes + k], his[i]).

    The window reaches back to the least start, and every start's result is that of its youngest elements.
    """
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.state, states)
    y = column(spec.result, out)
    least, los, his, wanted = bounds
    sizes = len(los) // max(len(his), 1)
    first, after = 0, 0
    for i in range(len(his)):
        first, after = moved(window, x, first, after, least[i], his[i])
        for k in range(i * sizes, (i + 1) * sizes):
            if wanted[k]:
                emit(y, valid, k, monoid.lower(window.last(his[i] - los[k])))
            else:
                valid[k] = False
    return stop(window)
