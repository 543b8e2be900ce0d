"""Run a structure on columns: rows go in one by one, and a result comes out for each.

`slide`, `slide_many`, `steady`, `bulk` and `replay` drive structures that keep the order of rows; with a column of
times `slide_timed`, `steady_timed` and `replay_timed` drive time-ordered structures. Times that are 64-bit integers or
floats compile, and so do NumPy's datetimes, as integers. All others (Python's datetimes, strings, tuples) run
interpreted, with a warning.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.base import Aggregator, require
from sash.aggregators.btree import BTree, checked_arity
from sash.aggregators.in_order import INSERT, InOrder, RegisteredRanges, SuffixQuery, checked_ranges
from sash.aggregators.time_ordered import TimeOrdered, require_time
from sash.kernels.jit.numba_intrinsics import rebuild
from sash.kernels.jit.numba_struct import StructSpec
from sash.kernels.jit.state_layout import DTYPES, NotColumnar
from sash.kernels.loops import structure_loops, timed_loops
from sash.kernels.loops.bound_kernel import BoundKernel, Use, kind_of, specify, warn_once
from sash.monoids.algebra import Kind, Monoid

Columns = tuple[Sequence[Any] | NDArray[Any], ...]
Times = Sequence[Any] | NDArray[Any]

# --- Running a loop ---


@dataclass(frozen=True)
class Results:
    """The results of a run: columns and which of their rows are valid, or lists if it ran interpreted."""

    out: Any
    valid: Any
    spec: StructSpec | None
    rebuilt: Callable[[], Any]
    why_interpreted: str = ""

    @functools.cached_property
    def structure(self) -> Any:
        """The window at the end."""
        return self.rebuilt()

    def to_list(self) -> list[Any]:
        """The results as Python objects, None where there is none."""
        layout = self.spec.layouts.result if self.spec else None
        value = (lambda i: layout.value(self.out, i)) if layout else self.out.__getitem__
        return [value(i) if ok else None for i, ok in enumerate(self.valid)]


def rows_of(columns: Columns) -> int:
    """The number of rows. Raises ValueError if the columns differ in length: compiled code does not check it."""
    if not isinstance(columns, tuple) or not columns:
        raise TypeError(f"columns must be a tuple of at least one column; got {type(columns).__name__}")
    for column in columns:
        if isinstance(column, np.ndarray) and column.ndim != 1:
            raise ValueError(f"a column must have one dimension; got an array of shape {column.shape}")
    lengths = [len(column) for column in columns]
    if len({*lengths}) > 1:
        raise ValueError(f"the columns differ in length: {', '.join(map(str, lengths))} rows")
    return lengths[0]


def run(
    structure: type[Aggregator],
    monoid: Monoid,
    columns: Columns,
    loop: Any,
    capacity: int,
    plan: Any,
    results: int,
    times: Times | None = None,
) -> Results:
    """Run a loop of `structure_loops` or `timed_loops`, compiled or interpreted.

    `capacity`: the largest size of the window; `times`, if any, become the first part of the plan.
    """
    require(structure, monoid)

    def bind(structure: type[Aggregator], monoid: Monoid, _: Any) -> StructSpec:
        time = "int" if times is None else time_kind(times)
        return specify(structure, monoid, tuple(map(kind_of, columns)), time)

    made: tuple[Any, ...] = ()

    def prepare(kernel: BoundKernel) -> None:
        nonlocal made
        spec, of = kernel.specs[structure], times
        if kernel.compiled:
            out: Any = kernel.results(results), np.zeros(results, np.bool_)
            of = None if times is None else np.ascontiguousarray(times, DTYPES[time_kind(times)])
        else:
            out = [None] * results, [False] * results
            of = times.tolist() if isinstance(times, np.ndarray) else times
        whole = plan if of is None else (of, *plan)
        made = spec, spec.allocate(capacity), kernel.inputs(columns), whole, *out
        kernel.code(loop, made)

    kernel = BoundKernel(structure.form(monoid), None, Use((structure,), prepare), warn=False, bind=bind)
    if not kernel.compiled:
        warn_once(monoid, kernel.why_interpreted)
        prepare(kernel)
    spec, storage, *_, out, valid = made
    left = kernel.code(loop, made)(*made)
    if not kernel.compiled:
        return Results(out, valid, None, lambda: left, kernel.why_interpreted)
    return Results(out, valid, spec, lambda: rebuild(spec, storage, left))


def time_kind(times: Times) -> Kind:
    """The kind of a column of times: ints or floats. Raises NotColumnar for others."""
    kind = kind_of(times)
    if kind == "bool":
        raise NotColumnar("the times are of type bool, which cannot be a time")
    return kind


# --- Structures in order ---


def slide(structure: type[InOrder], monoid: Monoid, columns: Columns, width: int) -> Results:
    """The aggregate of the last `width` rows at each row.

    >>> import numpy as np
    >>> from sash.aggregators import DABA
    >>> from sash.monoids import Max
    >>> slide(DABA, Max(), (np.array([3.0, 1.0, 2.0, 0.0]),), 2).to_list()
    [3.0, 3.0, 2.0, 2.0]

    Raises ValueError for a width below 1 and for columns of different lengths.
    """
    rows, width = rows_of(columns), operator.index(width)
    if width < 1:
        raise ValueError(f"a window must have at least one row; got a width of {width}")
    width = min(width, rows + 1)  # a wider window never evicts either, and this width fits 64 bits
    return run(structure, monoid, columns, structure_loops.slide, min(width, rows), width, rows)


def slide_many(structure: type[SuffixQuery], monoid: Monoid, columns: Columns, ranges: Iterable[int]) -> Results:
    """The aggregates of the last n rows at each row, for each n in `ranges`, row by row.

    >>> import numpy as np
    >>> from sash.aggregators import SlickDequeNonInv
    >>> from sash.monoids import Max
    >>> slide_many(SlickDequeNonInv, Max(), (np.array([3.0, 1.0, 2.0]),), (1, 2)).to_list()
    [3.0, 3.0, 1.0, 3.0, 2.0, 2.0]

    Raises TypeError if the structure does not answer shorter windows, ValueError without ranges.
    """
    if not issubclass(structure, SuffixQuery):
        raise TypeError(
            f"slide_many needs a structure that supports shorter windows; {structure.__name__} has no last(n)"
        )
    wanted = np.array(checked_ranges(ranges), np.int64)
    if not len(wanted):
        raise ValueError("slide_many needs at least one range")
    rows = rows_of(columns)
    wanted = np.minimum(wanted, max(rows, 1))  # a longer range also contains all rows
    places = np.argsort(-wanted, kind="stable")
    longest_first = wanted[places]
    ranks = np.cumsum(np.diff(longest_first, prepend=longest_first[0]) != 0)
    plan = (longest_first, ranks, places)
    longest, count = int(longest_first[0]), rows * len(longest_first)
    results = run(structure, monoid, columns, structure_loops.slide_many, longest, plan, count)
    if isinstance(results.structure, RegisteredRanges):
        results.structure.register_tracked(wanted.tolist())
    return results


def steady(structure: type[InOrder], monoid: Monoid, columns: Columns, width: int) -> Results:
    """As `slide`, on a window that is full from the start: results from row `width` on."""
    rows, width = rows_of(columns), operator.index(width)
    if not 1 <= width < rows:
        raise ValueError(f"a steady window needs 1 to {rows - 1} rows here; got a width of {width}")
    return run(structure, monoid, columns, structure_loops.steady, width, width, rows - width)


def bulk(structure: type[InOrder], monoid: Monoid, columns: Columns, width: int, step: int) -> Results:
    """Bulk operations on a full window: insert `step` rows, evict as many at once, query, repeatedly.

    >>> import numpy as np
    >>> from sash.aggregators import AMTA
    >>> from sash.monoids import Max
    >>> bulk(AMTA, Max(), (np.array([5.0, 1.0, 4.0, 2.0, 3.0, 0.0]),), 2, 2).to_list()
    [4.0, 3.0]

    Raises ValueError if there are fewer rows than the window and one batch have.
    """
    rows, width, step = rows_of(columns), operator.index(width), operator.index(step)
    if width < 1 or step < 1 or width + step > rows:
        raise ValueError(f"{rows} rows do not fill a window of {width} and batches of {step}")
    plan, rounds = (width, step), (rows - width) // step
    return run(structure, monoid, columns, structure_loops.bulk, width + step, plan, rounds)


def replay(structure: type[InOrder], monoid: Monoid, columns: Columns, operations: NDArray[np.int8]) -> Results:
    """The aggregate after each operation, `INSERT` (of the next row) or `EVICT`.

    Raises IndexError if an operation evicts from the empty window, or inserts beyond the last row.
    """
    rows, operations = rows_of(columns), np.ascontiguousarray(operations, np.int8)
    inserts = operations == INSERT
    sizes = np.cumsum(np.where(inserts, 1, -1))
    if len(sizes) and sizes.min() < 0:
        raise IndexError(f"operation {int((sizes < 0).argmax())} evicts from an empty window")
    if inserts.sum() > rows:
        raise IndexError(f"the operations insert {inserts.sum()} rows; there are {rows}")
    largest = int(sizes.max(initial=0))
    return run(structure, monoid, columns, structure_loops.replay, largest, operations, len(operations))


# --- Time-ordered structures ---


def with_arity(structure: type[TimeOrdered], min_arity: int | None) -> type[TimeOrdered]:
    """The structure with another min-arity, a constant in compiled code."""
    if min_arity is None or not issubclass(structure, BTree) or min_arity == structure.min_arity:
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
    structure = with_arity(structure, min_arity)
    return run(structure, monoid, columns, timed_loops.slide_timed, capacity, tuple(plan), rows, times)


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
    structure = with_arity(structure, min_arity)
    return run(structure, monoid, columns, timed_loops.steady_timed, width, (width,), rows - width, times)


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
    plan = operations, ends
    return run(structure, monoid, columns, timed_loops.replay_timed, inserts, plan, len(operations), times)


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
