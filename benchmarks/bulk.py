"""Bulk eviction of half of the window: AMTA and LogMTA, which have an operation for it, and the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.clock import clock
from benchmarks.contest import run_kernel, values
from sash.aggregators.catalogue import IN_ORDER
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.kernels.loops.bound_kernel import specify
from sash.monoids import Max

SIZES = [2**k for k in range(4, 21, 4)]
STRUCTURES = {
    "LogMTA": "at once",
    "AMTA": "at once",
    "TwoStacksLite": "one by one",
    "DABA": "one by one",
}
BULKS = 64


def half(spec: Any, storage: Any, rows: Any, width: int, out: Any, cycles: Any) -> Any:
    """Evict half of the window and query, then fill it up again; only the former is timed."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    taken = 0
    for i in range(len(cycles)):
        while window.size() < width:
            window.push(monoid.lift(*x[taken % width]))
            taken += 1
        began = clock()
        window.drop(width // 2)
        y[i] = monoid.lower(window.aggregate())
        cycles[i] = clock() - began
    return stop(window)


def cycles_of(name: str, width: int) -> float:
    """The median cycles of giving up half of a window."""
    spec = specify(IN_ORDER[name].cls, Max(), ("float",))
    cycles = np.zeros(BULKS, np.int64)
    data, out = (values(width)["float"],), spec.layouts.result.allocate(BULKS)
    medians = []
    for _ in range(4):
        run_kernel(half, spec, spec.allocate(width), data, width, out, cycles)
        medians.append(float(np.median(cycles)))
    return min(medians)


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = SIZES[:2] if quick else SIZES
    rows = [
        [f"{name}, {how}", *(f"{cycles_of(name, size):,.0f}" for size in sizes)] for name, how in STRUCTURES.items()
    ]
    return "\n\n".join(
        [
            "## Bulk eviction",
            (
                "Cycles to evict half of the window and query, compiled, max of floats: the median of "
                f"{BULKS} times, against the number of elements in the window."
            ),
            page.table(["", *(f"{size:,}" for size in sizes)], rows),
        ]
    )
