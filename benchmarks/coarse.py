"""Many changes per query: m inserts and m evictions between two queries, m from 1 to the whole window."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.contest import admitted, run_kernel, values
from benchmarks.timing import best_of
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.kernels.loops.bound_kernel import specify
from sash.monoids import Max

WINDOW = 2**14
CHANGES = 2**19


def coarse(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, valid: Any) -> Any:
    """Fill a window, then m evictions, m inserts and a query, repeatedly."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    width, m = plan
    for i in range(width):
        window.push(monoid.lift(*x[i]))
    taken = width
    for i in range(len(valid)):
        for _ in range(m):
            window.pop()
        for _ in range(m):
            window.push(monoid.lift(*x[taken]))
            taken += 1
        y[i] = monoid.lower(window.aggregate())
    return stop(window)


def nanoseconds(window: int, sizes: list[int]) -> dict[str, list[float]]:
    """Nanoseconds a change."""
    data = values(window + CHANGES)["float"]
    found: dict[str, list[float]] = {}
    for m in sizes:
        runs = {}
        queries = max(CHANGES // m, 1)
        for record in admitted(Max()):
            if record.name == "Recalc":
                continue
            spec = specify(record.cls, Max(), ("float",))
            arguments = (data[: window + queries * m],), (window, m), spec.layouts.result.allocate(queries)
            storage, valid = spec.allocate(window), np.zeros(queries, np.bool_)
            runs[record.name] = lambda s=spec, t=storage, a=arguments, v=valid: run_kernel(coarse, s, t, *a, v)
            runs[record.name]()  # compiles
        for name, seconds in best_of(runs, repeats=4, seconds=1.0).items():
            found.setdefault(name, []).append(seconds / (queries * m) * 1e9)
    return found


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    window = 2**8 if quick else WINDOW
    sizes = [4**k for k in range(int(np.log2(window)) // 2 + 1)]
    found = nanoseconds(window, sizes)
    return "\n\n".join(
        [
            "## Coarse slides",
            (
                "Nanoseconds for an eviction and an insert with one query per m of them, compiled, max of floats in a "
                f"window of {window:,}. FlatFAT marks changes and propagates them once per query, so its cost falls "
                "with m."
            ),
            page.table(
                ["", *(f"m = {m:,}" for m in sizes)],
                [[name, *(f"{figure:,.1f}" for figure in row)] for name, row in found.items()],
            ),
        ]
    )
