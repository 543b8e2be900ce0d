"""Compile the common kernels ahead of their first use: `python -m sash.warm [--jobs N] [--only NAME]`.

For images and continuous integration: each process compiles some of the queries below into the cache of machine code
(`SASH_CACHE_DIR`), where every later process of the same user finds them. Cached kernels are not compiled again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sash.monoids import functions
from sash.plan import Query, rolling
from sash.windows import Count, Time

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.monoids import Bound

AGGREGATES: tuple[str, ...] = (
    "max", "min", "mean", "sum", "var", "std", "arg_max", "arg_min", "first", "last", "count",
    "median", "count_distinct", "weighted_mean", "ewm_mean", "lag",
)  # fmt: skip
"""The aggregates of frames. Quantiles have the kernels of medians, changes those of lags."""
PARAMETERS: dict[str, dict[str, Any]] = {"ewm_mean": {"halflife": 2}}
"""Required parameters, by aggregate. Kernels of frames take parameters as arguments: other values compile nothing."""
WIDE = {"median": 150}
"""Sizes of windows that have kernels of their own, by aggregate."""
LIVE = ("max", "sum", "mean", "count")
"""The aggregates of operators."""
COLUMNS = ("float", "integer")
REPEATS = 100
"""How often the four sample rows of a frame are repeated: NumPy, not a kernel, groups the keys of few rows."""


class WarmTask(NamedTuple):
    """The queries of one aggregate of one column on a host."""

    host: Literal["operator", "frame"]
    aggregate: str
    column: str


def tasks() -> dict[str, WarmTask]:
    """All tasks by name. The slowest are first, to balance the processes."""
    found = [WarmTask("operator", aggregate, column) for aggregate in LIVE for column in COLUMNS]
    found += [WarmTask("frame", aggregate, column) for aggregate in AGGREGATES for column in COLUMNS]
    return {f"{task.host}: {task.aggregate} of {task.column}s": task for task in found}


def warm(task: WarmTask) -> list[str]:
    """Run the queries of a task in this process, and return the names of the kernels that were compiled."""
    from sash.kernels.jit.compile import compiled_kernels

    before = len(compiled_kernels)
    aggregate = _aggregate(task)
    if task.host == "frame":
        for rows in (_rows([3, 1, 2, 4], REPEATS), _rows([1, 2, 3, 4], REPEATS)):
            for by in (None, "key"):
                for size in {3, WIDE.get(task.aggregate, 3)}:
                    rolling(rows, Count(size), by=by, out=aggregate)
                    rolling(rows, Time(size), by=by, on="time", out=aggregate)
    else:
        for window in (Count(3), Time(3)):
            operator = Query(window, by="key", on="time", lateness=1, out=aggregate).operator()
            operator.process(_rows([3, 1, 2, 4]))
            operator.finish()
    return compiled_kernels[before:]


def _aggregate(task: WarmTask) -> Bound:
    make: Callable[..., Bound] = getattr(functions, task.aggregate)
    two = task.aggregate.startswith("arg_") or task.aggregate == "weighted_mean"
    return make(*((task.column, "key") if two else (task.column,)), **PARAMETERS.get(task.aggregate, {}))


def _rows(times: list[int], repeats: int = 1) -> pa.RecordBatch:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {"key": [2, 1, 2, 1], "float": [1.5, 2.0, -1.0, 0.25], "integer": [3, -4, 5, 6]}
    later = [time + 4 * i for i in range(repeats) for time in times]
    return pa.record_batch({"time": later, **{name: values * repeats for name, values in columns.items()}})


def run(names: Iterable[str], jobs: int, write: Callable[[str], Any]) -> int:
    """Run tasks by name in `jobs` processes, and write what each compiled; returns the number of kernels."""
    all_tasks, total = tasks(), 0
    # a new interpreter: a fork would inherit threads of Arrow
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(warm, all_tasks[name]): name for name in names}
        for done, future in enumerate(as_completed(running), 1):
            kernels = future.result()
            total += len(kernels)
            write(f"[{done}/{len(running)}] {running[future]}: {len(kernels)} compiled\n")
            for kernel in kernels:
                write(f"    {kernel}\n")
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser("python -m sash.warm", description="Compile the common kernels into the cache.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help=f"processes that compile at once (here {cores})")
    parser.add_argument(
        "--only", default="", help='tasks whose name contains this, such as "frame", "mean" or "of floats"'
    )
    given = parser.parse_args(arguments)
    if given.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {given.jobs}")
    names = [name for name in tasks() if given.only in name]
    if not names:
        parser.error(f"no task name contains {given.only!r}; the tasks are {', '.join(tasks())}")
    total = run(names, given.jobs, sys.stdout.write)
    sys.stdout.write(f"{total} kernels compiled\n")


if __name__ == "__main__":
    main()
