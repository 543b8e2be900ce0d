"""Loops that drive a time-ordered structure: plain Python, run compiled on columns or interpreted.

slide_timed    a window of a length of time: for each event insert, evict old ones, query
steady_timed   a window of a number of elements that is full from the start, for benchmarks
replay_timed   any sequence of operations, a query after each

The times are the first part of the plan, one for each row or operation.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.kernels.loops.structure_loops import emit

EVICT, INSERT, REMOVE, THROUGH, BETWEEN = range(5)
"""Codes of operations: evict the oldest element, insert the next row at a time, evict the element of a time, evict all
elements through a time, and query from one time to another without a change."""


def slide_timed(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, valid: Any) -> Any:
    """Fill `out` with the result of the rows so far whose times are less than `size` before the latest.

    Below the time `least` nothing leaves, because subtracting `size` would overflow.
    """
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, size, least = plan
    if len(valid):
        latest = times[0]
    for i in range(len(valid)):
        if latest < times[i]:
            latest = times[i]
        if latest < least:
            window.add(times[i], monoid.lift(*x[i]))
        else:
            if latest - size < times[i]:
                window.add(times[i], monoid.lift(*x[i]))
            window.cut(latest - size)
        window.tidy()
        if window.vacant():
            valid[i] = False
        else:
            emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def steady_timed(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, valid: Any) -> Any:
    """Insert `width` rows without a query; then evict, insert and query for each further row."""
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, width = plan
    for i in range(width):
        window.add(times[i], monoid.lift(*x[i]))
    for i in range(len(valid)):
        window.pop()
        window.add(times[width + i], monoid.lift(*x[width + i]))
        window.tidy()
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def replay_timed(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, valid: Any) -> Any:
    """Apply operations (INSERT takes the next row), and fill `out` with the result after each.

    The result of an empty window or range is not valid; the caller replaces it with the monoid's `empty`.
    """
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, operations, until = plan
    taken = 0
    for i in range(len(operations)):
        if operations[i] == INSERT:
            window.add(times[i], monoid.lift(*x[taken]))
            taken += 1
        elif operations[i] == REMOVE:
            window.remove(times[i])
        elif operations[i] == THROUGH:
            window.cut(times[i])
        elif operations[i] == EVICT and not window.vacant():
            window.pop()
        window.tidy()
        if operations[i] == BETWEEN:
            found, state = window.between(times[i], until[i], True, True)
        else:
            found, state = not window.vacant(), window.aggregate()
        if found:
            emit(y, valid, i, monoid.lower(state))
        else:
            valid[i] = False
    return stop(window)
