"""Loops that drive a structure: plain Python, run compiled on columns or interpreted on any objects.

slide        a window of a fixed number of rows: evict if full, insert, query, for each row
slide_many   the same for many ranges at once, on one window as long as the longest
steady       as slide, on a window that is full from the start, for benchmarks
bulk         the same by batches: insert some rows, evict as many at once, query
replay       any sequence of inserts and evicts, a query after each

The loops over whole columns of states: plain Python, compiled on columns or interpreted on lists.

lift_rows      rows to states; a null row is the identity
slide_ranges   a result for each range of states, whose starts and ends never decrease

Loops that call one function of a monoid for each element, for `check_laws`, run only compiled: lift_each, lower_each,
combine_each, inverse_each, picks_right_each.
"""

from __future__ import annotations

from typing import Any

from sash.aggregators.in_order import INSERT
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import present, start, stop

# --- Structure loops ---


def slide(spec: Any, storage: Any, rows: Any, width: int, out: Any, valid: Any) -> Any:
    """Fill `out` with the result of the last `width` rows at each row."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    for i in range(len(valid)):
        if window.size() == width:
            window.pop()
        window.push(monoid.lift(*x[i]))
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def slide_many(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, valid: Any) -> Any:
    """Fill `out` with the results of the last `sizes[j]` rows at each row, for all ranges row by row.

    The plan: `sizes` of the ranges, longest first; `ranks`, the number of longer distinct ones; `places`, the place of
    each among a row's results.
    """
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    sizes, ranks, places = plan
    for j in range(len(sizes)):
        window.track(sizes[j])
    for i in range(len(valid) // len(sizes)):
        if window.size() == sizes[0]:
            window.pop()
        window.push(monoid.lift(*x[i]))
        for j in range(len(sizes)):
            emit(y, valid, i * len(sizes) + places[j], monoid.lower(window.answer(ranks[j], sizes[j])))
    return stop(window)


def steady(spec: Any, storage: Any, rows: Any, width: int, out: Any, valid: Any) -> Any:
    """Insert `width` rows without a query; then evict, insert and query for each further row."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    for i in range(width):
        window.push(monoid.lift(*x[i]))
    for i in range(len(valid)):
        window.pop()
        window.push(monoid.lift(*x[width + i]))
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def bulk(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, valid: Any) -> Any:
    """Insert `width` rows without a query; then insert `step` rows, evict as many at once and query, repeatedly."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    width, step = plan
    for i in range(width):
        window.push(monoid.lift(*x[i]))
    for i in range(len(valid)):
        for j in range(step):
            window.push(monoid.lift(*x[width + i * step + j]))
        window.drop(step)
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def replay(spec: Any, storage: Any, rows: Any, operations: Any, out: Any, valid: Any) -> Any:
    """Apply operations (INSERT takes the next row), and fill `out` with the result after each.

    The result of an empty window is not valid; the caller replaces it with the monoid's `empty`.
    """
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    taken = 0
    for i in range(len(operations)):
        if operations[i] == INSERT:
            window.push(monoid.lift(*x[taken]))
            taken += 1
        else:
            window.pop()
        if window.size():
            emit(y, valid, i, monoid.lower(window.aggregate()))
        else:
            valid[i] = False
    return stop(window)


def emit(out: Any, valid: Any, i: int, result: Any) -> None:
    """Write a result that may be null."""
    if result is None:
        valid[i] = False
    else:
        valid[i] = True
        out[i] = present(result)


# --- Range loops ---


def lift_rows(spec: Any, rows: Any, non_null: Any, out: Any, progress: Any) -> None:
    """Fill `out` with the states of rows, and the identity for those that are null."""
    monoid = spec.monoid
    x, y = column(spec.inputs, rows), column(spec.state, out)
    for i in range(len(non_null)):
        progress[0] = i
        if non_null[i]:
            y[i] = monoid.lift(*x[i])
        else:
            y[i] = monoid.identity


def slide_ranges(spec: Any, storage: Any, states: Any, bounds: Any, out: Any, valid: Any, progress: Any) -> None:
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
        progress[0] = i
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


# --- Functions of a monoid ---


def lift_each(spec: Any, rows: Any, out: Any, valid: Any) -> None:
    x, y = column(spec.inputs, rows), column(spec.state, out)
    for i in range(len(valid)):
        emit(y, valid, i, spec.monoid.lift(*x[i]))


def lower_each(spec: Any, states: Any, out: Any, valid: Any) -> None:
    a, y = column(spec.state, states), column(spec.result, out)
    for i in range(len(valid)):
        emit(y, valid, i, spec.monoid.lower(a[i]))


def combine_each(spec: Any, left: Any, right: Any, out: Any, valid: Any) -> None:
    a, b, y = column(spec.state, left), column(spec.state, right), column(spec.state, out)
    for i in range(len(valid)):
        emit(y, valid, i, spec.monoid.combine(a[i], b[i]))


def inverse_each(spec: Any, total: Any, oldest: Any, out: Any, valid: Any) -> None:
    a, b, y = column(spec.state, total), column(spec.state, oldest), column(spec.state, out)
    for i in range(len(valid)):
        emit(y, valid, i, spec.monoid.inverse(a[i], b[i]))


def picks_right_each(spec: Any, left: Any, right: Any, out: Any, valid: Any) -> None:
    a, b = column(spec.state, left), column(spec.state, right)
    for i in range(len(valid)):
        emit(out[0], valid, i, spec.monoid.picks_right(a[i], b[i]))
