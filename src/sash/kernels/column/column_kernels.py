"""The column kernels of aggregates, and their execution: threads compute bounds and results of ranges of rows.

Share tasks among threads, some of which may fail to start.

`threading.Thread.start` waits for the new thread, and hangs if that runs out of memory before it signals its start.
Here the calling thread takes tasks, too, and waits only for threads that have started to work.

    tasks     0 1 2 3 4 5 6 7
    caller    0   2     5   7   ──▶ waits for the helper, which has taken tasks
    helper      1   3 4   6
    helper    never ran         ──▶ not waited for: when it runs there is no task left
"""

from __future__ import annotations

import _thread
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sash import monoids as m
from sash.kernels.column import bounds, exact_sum, group_rows, min_max, prefix_sums, sum_mean, variance
from sash.kernels.jit.compile import interpreted, is_switched_off, machine_code
from sash.kernels.loops.array_types import Flags, Numbers
from sash.monoids.algebra import Kind, Monoid
from sash.monoids.durations import DurationSum

# --- Shared work ---

Task = Callable[[int, int], Any]


class SharedWork:
    """A task for each of some ranges, and the threads that take them."""

    def __init__(self, task: Task, ranges: Sequence[tuple[int, int]]) -> None:
        self.task, self.ranges = task, ranges
        self.results: list[Any] = [None] * len(ranges)
        self.errors: list[BaseException | None] = [None] * len(ranges)
        self.pending = list(range(len(ranges) - 1, -1, -1))
        """Ranges that no thread has taken, the next one last: popping is atomic."""

    def run(self, threads: int) -> list[Any]:
        """The results of all ranges, computed by `threads` threads, including this one. Raises a task's exception."""
        helpers = [Helper(self) for _ in range(threads - 1)]
        try:
            for helper in helpers:
                helper.start()
            self.take_all()
        finally:  # also after an interrupt: helpers write to the caller's arrays
            self.pending.clear()
            for helper in helpers:
                helper.wait()
        for error in self.errors:
            if error is not None:
                raise error
        return self.results

    def take_all(self) -> None:
        """Run tasks until no range is left."""
        while self.pending:
            try:
                number = self.pending.pop()
            except IndexError:  # another thread was faster
                return
            try:
                self.results[number] = self.task(*self.ranges[number])
            except Exception as error:
                self.errors[number] = error


class Helper:
    """A helper thread."""

    def __init__(self, work: SharedWork) -> None:
        self.work = work
        self.is_working = False
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def start(self) -> None:
        """Start the thread, if the system allows it."""
        try:
            _thread.start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):
            return

    def _run(self) -> None:
        self.is_working = True
        try:
            self.work.take_all()
        finally:
            self.done.release()

    def wait(self) -> None:
        """Wait until the thread has finished, if it has started; no task is left to take."""
        if self.is_working:
            self.done.acquire()


# --- Column kernels ---

Places = NDArray[np.int32] | NDArray[np.int64]

SHARE = 1 << 16
"""The least number of rows for a thread: starting and joining one takes some 90 µs."""


class CountBounds(NamedTuple):
    """The bounds of Count windows: the last `size` rows of each key; keys begin at the edges."""

    size: int
    edges: Places
    longest: int


class RangeBounds(NamedTuple):
    """Bounds [lo, hi) for each row; neither ever decreases."""

    los: Places
    his: Places
    shortest: int
    longest: int


class ColumnKernel(NamedTuple):
    """Kernels of an aggregate: over Count windows (None: only over ranges), and over ranges."""

    rows: Any
    ranges: Any
    scratch: int
    """The number of scratch arrays, as long as the longest window."""
    result: str
    """The kind of a result: "same" as the column, "float", "int", or "place", the number of a row."""
    setting: int = 0
    """A parameter of the aggregate: `ddof` of variances."""
    least: int = 1
    """The least number of values in a window with a result."""
    joined: Any = None
    """The kernel that joins results of overlapping windows to the result of a longer one, for many sizes at once."""
    of_sizes: tuple[Any, Any] | None = None
    """The kernels that compute many windows from shared prefix sums, over Count windows and over ranges."""
    recompute: tuple[Any, Any] = (None, None)
    """Slower kernels for uncertain results, over Count windows and over ranges. They are separate kernels, compiled
    only for data that needs them."""


def column_kernel_of(monoid: Monoid, kinds: tuple[Kind, ...]) -> ColumnKernel | None:
    """The kernel of an aggregate on columns of these kinds, or None."""
    if type(monoid) in (m.Var, m.Std):
        ddof = getattr(monoid, "ddof", 1)
        return _DEVIATIONS[type(monoid)]._replace(setting=ddof, least=ddof + 1)
    return _KERNELS.get((type(monoid), "float" if kinds and kinds[0] == "float" else "int"))


_SUM = ColumnKernel(
    *(sum_mean.sum_rows, sum_mean.sum_ranges, 7, "float"),
    of_sizes=(prefix_sums.sum_of_sizes, prefix_sums.sum_of_ranges),
    recompute=(sum_mean.sum_rows_recomputed, sum_mean.sum_ranges_recomputed),
)
_MEAN = ColumnKernel(
    *(sum_mean.mean_rows, sum_mean.mean_ranges, 7, "float"),
    of_sizes=(prefix_sums.mean_of_sizes, prefix_sums.mean_of_ranges),
    recompute=(sum_mean.mean_rows_recomputed, sum_mean.mean_ranges_recomputed),
)
_OF_ANY: dict[type[Monoid], ColumnKernel] = {
    m.Max: ColumnKernel(min_max.greatest_rows, min_max.greatest_ranges, 3, "same", joined=min_max.greatest_joined),
    m.Min: ColumnKernel(min_max.least_rows, min_max.least_ranges, 3, "same", joined=min_max.least_joined),
    m.ArgMax: ColumnKernel(None, min_max.greatest_places, 3, "place"),
    m.ArgMin: ColumnKernel(None, min_max.least_places, 3, "place"),
}
_KERNELS: dict[tuple[type[Monoid], str], ColumnKernel] = {
    **{(one, kind): kernel for one, kernel in _OF_ANY.items() for kind in ("int", "float")},
    **{(one, "float"): kernel for one, kernel in ((m.Sum, _SUM), (DurationSum, _SUM), (m.Mean, _MEAN))},
    **{(one, "int"): ColumnKernel(None, sum_mean.word_sums, 0, "int") for one in (m.Sum, DurationSum)},
    (m.Mean, "int"): ColumnKernel(None, sum_mean.word_means, 0, "float"),
}
_DEVIATIONS: dict[type[Monoid], ColumnKernel] = {
    m.Var: ColumnKernel(
        variance.var_rows, variance.var_ranges, 6, "float", recompute=(variance.var_rows_recomputed, None)
    ),
    m.Std: ColumnKernel(
        variance.std_rows, variance.std_ranges, 6, "float", recompute=(variance.std_rows_recomputed, None)
    ),
}


def cores() -> int:
    """The number of threads that can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RowThreads:
    """Threads that share the rows of a column."""

    def __init__(self, threads: int | None = None) -> None:
        self.given = threads

    @property
    def threads(self) -> int:
        """The number of threads: by default that of the cores, which only many rows ask for."""
        return self.given or cores()

    def ranges(self, rows: int, least: int | None = None) -> list[tuple[int, int]]:
        """Split the rows into ranges of equal length, one per thread, of at least `least` rows: by default `SHARE`."""
        most = rows // (least or SHARE)
        return _cuts(rows, min(self.threads, most) if most > 1 else 1)

    def run(self, task: Callable[[int, int], Any], rows: int, least: int | None = None) -> list[Any]:
        """Run a task for each of the `ranges`, and return the results."""
        ranges = self.ranges(rows, least)
        if len(ranges) == 1:
            return [task(0, rows)]
        return SharedWork(task, ranges).run(len(ranges))

    def run_fixed(self, task: Callable[[int, int], Any], rows: int, longest: int) -> None:
        """Run a task for ranges of rows that do not depend on the number of threads, so that results do not either.

        (Sums of floats that begin at other rows round differently.)
        """
        cuts = fixed_cuts(rows, longest)
        threads = min(self.threads, len(cuts)) if len(cuts) > 1 else 1
        if threads <= 1:
            for cut in cuts:
                task(*cut)
            return
        SharedWork(task, cuts).run(threads)

    def share_fixed(self, longest: int) -> Callable[[Callable[[int, int], None], int], None]:
        """`run_fixed` for windows of up to `longest` rows."""
        return lambda task, rows: self.run_fixed(task, rows, longest)

    def loop(self, kernel: Any, rows: int, before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any]:
        """Run a kernel for each range of rows; its arguments are `before`, first, stop, `after`."""
        code = coded(kernel, (*before, 0, rows, *after))
        return self.run(lambda first, stop: code(*before, first, stop, *after), rows) if rows else []

    # ---- bounds ----

    def bounded(self, kernel: Any, rows: int, before: tuple[Any, ...]) -> RangeBounds:
        """Find bounds with a kernel of `bounds`."""
        los, his = (np.empty(rows, index_type(rows)) for _ in range(2))
        lengths = self.loop(kernel, rows, before, (los, his))
        shortest, longest = min((s for s, _ in lengths), default=0), max((n for _, n in lengths), default=0)
        return RangeBounds(los, his, shortest, longest)

    def starts(self, kernel: Any, values: Numbers, given: tuple[Any, Any], edges: Places) -> list[RangeBounds]:
        """Find the bounds of windows of many sizes with the same ends; the starts are rows of one array."""
        rows, kind = len(values), index_type(len(values))
        los, his = np.empty((len(given[0]), rows), kind), np.empty(rows, kind)
        self.loop(kernel, rows, (values, given, edges), (los, his))
        held, found = np.empty(rows, kind), []
        for starts in los:
            np.subtract(his, starts, out=held)
            found.append(RangeBounds(starts, his, int(held.min(initial=rows)), int(held.max(initial=0))))
        return found

    def holds_at_least(self, given: RangeBounds, least: int) -> Flags:
        """Which ranges contain at least `least` rows."""
        out = np.empty(len(given.los), np.bool_)
        self.loop(group_rows.held, len(out), (given.los, given.his, least), (out,))
        return out

    def as_ranges(self, given: CountBounds | RangeBounds, rows: int) -> RangeBounds:
        """Convert bounds to ranges."""
        if isinstance(given, RangeBounds):
            return given
        return self.bounded(bounds.by_rows, rows, (given.size, 0, given.edges))

    def among(self, places: Places, given: RangeBounds) -> RangeBounds:
        """Convert ranges to ranges of the rows that an aggregate reads; `places`: how many of them are before each."""
        return self.bounded(bounds.mapped, len(given.los), (places, given.los, given.his))

    # ---- results ----

    def aggregate(
        self, column: ColumnKernel, x: Numbers, given: CountBounds | RangeBounds, rows: int
    ) -> tuple[Numbers, Flags]:
        """The results, and which of them are uncertain. Results of windows without values are undefined."""
        out = np.empty(rows, _out(column, x))
        uncertain = np.zeros(rows, np.bool_)
        if not rows or not len(x):
            return out, uncertain
        by_rows = isinstance(given, CountBounds) and column.rows is not None
        kernel = column.rows if by_rows else column.ranges
        if not by_rows:
            given = self.as_ranges(given, rows)
        bound = (given.size, given.edges) if isinstance(given, CountBounds) else (given.los, given.his)
        kind = out.dtype if column.result != "float" else np.dtype(np.float64)
        least = np.empty((column.scratch, 1), kind)
        sample = (x, *bound, 0, rows, column.setting, out, uncertain, least)

        def run(kernel: Any) -> None:
            code = coded(kernel, sample)

            def task(first: int, stop: int) -> None:
                scratch = np.empty((column.scratch, max(min(given.longest, len(x)), exact_sum.BLOCK) + 1), kind)
                code(x, *bound, first, stop, column.setting, out, uncertain, scratch)

            self.run_fixed(task, rows, given.longest)

        run(kernel)
        recompute = column.recompute[0 if by_rows else 1]
        if recompute is not None and uncertain.any():
            run(recompute)
        return out, uncertain

    # ---- order ----

    def taken(self, values: Numbers, places: Places) -> Numbers:
        """Gather the values at places."""
        out = np.empty(len(places), values.dtype)
        if len(places):
            self.loop(group_rows.gathered, len(places), (_plain(values), places), (_plain(out),))
        return out

    def put(self, values: Numbers, places: Places, out: Numbers) -> Numbers:
        """Scatter values to places of `out`."""
        if len(places):
            self.loop(group_rows.scattered, len(places), (_plain(values), places), (_plain(out),))
        return out


def gather(values: Numbers, places: Places, out: Numbers) -> None:
    """Write the values at places to `out`; 0 where there is no place."""
    arguments = (_plain(values), places, 0, len(places), _plain(out))
    coded(group_rows.gathered, arguments)(*arguments)


def fixed_cuts(rows: int, longest: int) -> list[tuple[int, int]]:
    """Split rows into a power of two of ranges, independent of the number of threads.

    A range also reads the rows of the window before it. The number of ranges keeps these below an eighth of all rows.
    """
    shares = 1
    while 2 * (2 * shares) ** 2 * max(longest, 1) <= rows and rows // (2 * shares) >= SHARE:
        shares *= 2
    return _cuts(rows, shares)


def _cuts(rows: int, shares: int) -> list[tuple[int, int]]:
    """Split rows into ranges of equal length."""
    if shares == 1:
        return [(0, rows)]
    return list(itertools.pairwise(rows * i // shares for i in range(shares + 1)))


def _plain(values: Numbers) -> Numbers:
    """Values as integers of the same size: kernels that only move values are compiled per size, not per type."""
    return np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")


def _out(column: ColumnKernel, x: Numbers) -> Any:
    if column.result == "same":
        return x.dtype
    return {"place": np.int64, "float": np.float64, "int": np.int64}[column.result]


def index_type(rows: int) -> Any:
    """The type of places among this many rows: half the bytes are read twice as fast."""
    return np.int32 if rows < 2**31 - 1 else np.int64


def as_kind(column: Numbers, kind: Kind) -> Numbers:
    """Convert a column to the type that kernels take: booleans become integers."""
    return np.ascontiguousarray(column, np.float64 if kind == "float" else np.int64)


IN_NUMPY = frozenset({group_rows.ascending, group_rows.rising, group_rows.held})
FOR_FEW_ROWS: dict[Any, Callable[..., Any]] = {
    group_rows.counted: group_rows.counted_few,
    group_rows.grouped: group_rows.grouped_few,
    group_rows.gathered: group_rows.gathered_few,
    group_rows.scattered: group_rows.scattered_few,
}


def coded(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """The machine code of a kernel for arguments of these types, or its form in NumPy; itself if Numba is disabled."""
    if kernel in IN_NUMPY:
        return cast(Callable[..., Any], kernel)
    if kernel in FOR_FEW_ROWS and len(arguments[0]) <= group_rows.FEW_ROWS:
        return FOR_FEW_ROWS[kernel]
    if is_switched_off():
        return interpreted(kernel)
    return machine_code(kernel, _types(arguments), arguments)


def _types(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        [
            (argument.dtype.str, argument.ndim)
            if isinstance(argument, np.ndarray)
            else _types(argument)
            if isinstance(argument, tuple)
            else type(argument)
            for argument in arguments
        ]
    )
