"""The time of single rounds, which averages hide."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.clock import clock
from benchmarks.contest import admitted, run_kernel, values
from sash.aggregators.catalogue import Record
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.kernels.loops.bound_kernel import specify
from sash.monoids import Max

WINDOW = 2**14
ROUNDS = 2**19


def timed(spec: Any, storage: Any, rows: Any, width: int, out: Any, cycles: Any) -> Any:
    """Rounds on a full window, each between two looks at the clock."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    for i in range(width):
        window.push(monoid.lift(*x[i]))
    for i in range(len(cycles)):
        began = clock()
        window.pop()
        window.push(monoid.lift(*x[width + i]))
        y[i] = monoid.lower(window.aggregate())
        cycles[i] = clock() - began
    return stop(window)


def cycles_of(record: Record, window: int, rounds: int) -> np.ndarray[Any, Any]:
    """Cycles of each round; of several runs the least of each, which drops what the machine did in between."""
    spec = specify(record.cls, Max(), ("float",))
    data = (values(window + rounds)["float"],)
    best = np.full(rounds, np.iinfo(np.int64).max)
    for _ in range(5):
        cycles = np.zeros(rounds, np.int64)
        run_kernel(timed, spec, spec.allocate(window), data, window, spec.layouts.result.allocate(rounds), cycles)
        best = np.minimum(best, cycles)
    return best


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    window, rounds = (2**8, 2**13) if quick else (WINDOW, ROUNDS)
    rows = []
    for record in admitted(Max()):
        if record.name != "Recalc":
            cycles = cycles_of(record, window, rounds)
            marks = np.quantile(cycles, [0.25, 0.5, 0.75, 0.999, 1.0])
            rows.append([record.name, *(f"{mark:,.0f}" for mark in marks), f"{cycles.std():,.0f}"])
    return "\n\n".join(
        [
            "## Latency",
            (
                "Processor cycles per round of evict, insert and query: max of random floats in a window of "
                f"{window:,}. Each of {rounds:,} rounds is timed separately (the minimum of five runs), and the cost "
                "of reading the clock is included. DABA differs most in the spread, the standard deviation."
            ),
            page.table(["", "25 %", "median", "75 %", "99.9 %", "longest", "spread"], rows),
        ]
    )
