"""Run time-ordered structures on columns: as `runner.py`, with a column of times.

Times that are 64-bit integers or floats compile, and so do NumPy's datetimes, as integers. All others (Python's
datetimes, strings, tuples) run interpreted, with a warning.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.btree import BTreeNodes, checked_arity
from sash.aggregators.time_ordered import TimeOrdered, require_time
from sash.kernels.jit.state_layout import DTYPES, NotColumnar
from sash.kernels.loops import timed_loops
from sash.kernels.loops.runner import Columns, LoopCall, Results, rows_of, run, time_kind
from sash.kernels.loops.timed_loops import INSERT
from sash.monoids.algebra import Monoid

Times = Sequence[Any] | NDArray[Any]


def with_arity(structure: type[TimeOrdered], min_arity: int | None) -> type[TimeOrdered]:
    """The structure with another min-arity, a constant in compiled code."""
    if min_arity is None or not issubclass(structure, BTreeNodes) or min_arity == structure.min_arity:
        return structure
    chosen = structure, checked_arity(min_arity)
    if chosen not in _chosen:
        names = ("__module__", "__qualname__", "__doc__")
        members = {name: getattr(structure, name) for name in names}
        _chosen[chosen] = type(structure.__name__, (structure,), {**members, "min_arity": chosen[1]})
    return _chosen[chosen]


_chosen: dict[tuple[type[TimeOrdered], int], type[TimeOrdered]] = {}


def slide_timed(
    structure: type[TimeOrdered],
    monoid: Monoid,
    times: Times,
    columns: Columns,
    size: Any,
    min_arity: int | None = None,
) -> Results:
    """The aggregate, at each row, of the rows so far whose times are less than `size` before the latest.

    Rows may arrive in any order. A row that is too old for the window changes nothing.

    >>> import numpy as np
    >>> from sash.aggregators import FiBA
    >>> from sash.monoids import Max
    >>> slide_timed(FiBA, Max(), np.array([1, 4, 2, 6]), (np.array([5.0, 1.0, 3.0, 0.0]),), 4).to_list()
    [5.0, 5.0, 5.0, 1.0]

    Raises ValueError for times that are None or NaN, for columns of different lengths and for a size below 0.
    """
    rows = rows_of((times, *columns))
    _require_times(times)
    if not size > type(size)():
        raise ValueError(f"a time window must have a length above 0; got {size!r}")
    times, size = _counted(times, size)
    capacity, *plan = _longest(times, size)
    call = LoopCall(timed_loops.slide_timed, capacity, tuple(plan), rows, times)
    return run(with_arity(structure, min_arity), monoid, columns, call)


def _counted(times: Times, size: Any) -> tuple[Times, Any]:
    """Convert NumPy's datetimes and a length to integers of the finer of their units; others are unchanged."""
    if not isinstance(times, np.ndarray) or times.dtype.kind != "M":
        return times, size
    length = np.timedelta64(size)
    unit, _ = np.datetime_data(np.promote_types(f"m8[{np.datetime_data(times.dtype)[0]}]", length.dtype))
    return times.astype(f"M8[{unit}]").astype(np.int64), int(length.astype(f"m8[{unit}]").astype(np.int64))


def _longest(times: Times, size: Any) -> tuple[int, Any, Any]:
    """The greatest number of times in a window of this length; the length; the least time to subtract it from."""
    try:
        kind = time_kind(times)
    except NotColumnar:
        return len(times), size, min(times, default=None)
    ordered = np.sort(times)
    if not len(ordered):
        return 0, DTYPES[kind](1), DTYPES[kind](0)
    if kind == "int":
        size = min(operator.index(size), int(ordered[-1]) - int(ordered[0]) + 1)  # a longer window has no more rows
        if size >= 2**63:
            raise ValueError(f"a window over 64-bit integers must be shorter than 2**63; got {size}")
        least: Any = size - 2**63
        spread = ordered.astype(np.uint64) - ordered.astype(np.uint64)[0]  # signed differences may overflow
        starts = np.searchsorted(spread, spread - np.minimum(spread, np.uint64(size)), "left")
    else:
        size, least = float(size), -np.inf
        starts = np.searchsorted(ordered, ordered - size, "left")
    return int((np.arange(len(ordered)) - starts).max()) + 1, DTYPES[kind](size), DTYPES[kind](least)


def steady_timed(
    structure: type[TimeOrdered],
    monoid: Monoid,
    times: Times,
    columns: Columns,
    width: int,
    min_arity: int | None = None,
) -> Results:
    """Rounds of evict (the oldest), insert and query on a window of `width` rows: results from row `width` on.

    Raises ValueError for fewer rows, and for times that are not distinct: the window would not stay full.
    """
    rows, width = rows_of((times, *columns)), operator.index(width)
    _require_times(times)
    if not 1 <= width < rows:
        raise ValueError(f"a steady window needs 1 to {rows - 1} rows here; got a width of {width}")
    if len({*times.tolist()} if isinstance(times, np.ndarray) else {*times}) < rows:
        raise ValueError("a steady window needs distinct times")
    call = LoopCall(timed_loops.steady_timed, width, (width,), rows - width, times)
    return run(with_arity(structure, min_arity), monoid, columns, call)


def replay_timed(
    structure: type[TimeOrdered],
    monoid: Monoid,
    columns: Columns,
    operations: NDArray[np.int8],
    times: Times,
    until: Times,
) -> Results:
    """The aggregate after each operation of `timed_loops`: that of the window, for BETWEEN that from times to until.

    Each operation has a time, which EVICT ignores, and an end, which only BETWEEN reads. EVICT on an empty window does
    nothing. Raises IndexError if the operations insert beyond the last row.
    """
    rows, operations = rows_of(columns), np.ascontiguousarray(operations, np.int8)
    rows_of((operations, times, until))
    _require_times(times)
    _require_times(until)
    inserts = int((operations == INSERT).sum())
    if inserts > rows:
        raise IndexError(f"the operations insert {inserts} rows; there are {rows}")
    if isinstance(times, np.ndarray) and isinstance(until, np.ndarray) and times.dtype != until.dtype:
        raise TypeError(f"times and until must have the same type; got {times.dtype} and {until.dtype}")
    ends = until if not isinstance(times, np.ndarray) else np.ascontiguousarray(until)
    call = LoopCall(timed_loops.replay_timed, inserts, (operations, ends), len(operations), times)
    return run(structure, monoid, columns, call)


def _require_times(times: Times) -> None:
    """Raises ValueError for a time that is None or NaN, TypeError for one without an order."""
    if isinstance(times, np.ndarray) and times.dtype.kind in "iufbM":
        if (
            times.dtype.kind in "fM"
            and (missing := np.isnat(times) if times.dtype.kind == "M" else np.isnan(times)).any()
        ):
            require_time(times[missing.argmax()])
    else:
        for time in times:
            require_time(time)
