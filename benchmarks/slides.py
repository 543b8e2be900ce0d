"""Many events at once: half of the window evicted, batches inserted, and slides that are combined on arrival."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.clock import clock
from benchmarks.contest import run_kernel, values
from benchmarks.disorder import CONTESTANTS, spec_of
from sash.aggregators import AugmentedBTree, FiBA
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.monoids import Sum

SIZES = [2**k for k in range(8, 21, 4)]
COARSE_WINDOW = 2**13
CHANGES = 2**18


def halves(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, cycles: Any) -> Any:
    """Evict half of a window and query, at once or one by one, then fill it up again; only the former is timed."""
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    width, at_once = plan
    taken = 0
    for i in range(len(cycles)):
        while taken < width + i * (width // 2):
            window.add(taken, monoid.lift(*x[taken % width]))
            taken += 1
        began = clock()
        if at_once:
            window.cut(taken - width + width // 2 - 1)
        else:
            for _ in range(width // 2):
                window.pop()
        y[i] = monoid.lower(window.aggregate())
        cycles[i] = clock() - began
    return stop(window)


def eviction(sizes: list[int]) -> str:
    """Median cycles."""
    rows = []
    for name in CONTESTANTS:
        spec = spec_of(name, Sum(), "int")
        for how, at_once in (("at once", True), ("one by one", False)):
            figures = []
            for width in sizes:
                cycles, best = np.zeros(32, np.int64), float("inf")
                data, out = (values(width)["int"],), spec.layouts.result.allocate(32)
                for _ in range(2):
                    run_kernel(halves, spec, spec.allocate(width), data, (width, at_once), out, cycles)
                    best = min(best, float(np.median(cycles)))
                figures.append(f"{best:,.0f}")
            rows.append([f"{name}, {how}", *figures])
    return page.table(["", *(f"{size:,}" for size in sizes)], rows)


def coarse(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, cycles: Any) -> Any:
    """A window of a number of events; every m events those too old leave and there is a query.

    Combined, all events of a slide have one time.
    """
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    width, m, combined = plan
    grain = m if combined else 1
    began = clock()
    for i in range(len(cycles) * m):
        window.add(i // grain, monoid.lift(*x[i]))
        if i % m == m - 1:
            window.cut((i - width) // grain)
            y[i // m] = monoid.lower(window.aggregate())
    cycles[0] = clock() - began
    return stop(window)


def slides(window: int, changes: int) -> str:
    """Cycles an event."""
    sizes = [4**k for k in range(int(np.log2(window)) // 2 + 1)]
    rows = []
    for name in ("FiBA, min-arity 4", "FiBA, min-arity 8"):
        spec = spec_of(name, Sum(), "int")
        for how, combined in (("each event", False), ("slides combined", True)):
            figures = []
            for m in sizes:
                slides = max(changes // m, 1)
                best, cycles = float("inf"), np.zeros(slides, np.int64)
                data, out = (values(slides * m)["int"],), spec.layouts.result.allocate(slides)
                storage = spec.allocate(window + m + 1)
                for _ in range(3):
                    run_kernel(coarse, spec, storage, data, (window, m, combined), out, cycles)
                    best = min(best, cycles[0] / (slides * m))
                figures.append(f"{best:,.1f}")
            rows.append([f"{name}, {how}", *figures])
    return page.table(["", *(f"m = {m:,}" for m in sizes)], rows)


def batches(window: int) -> str:
    """Microseconds an event, interpreted, of batches into the middle of a window."""
    rows = []
    for cls in (FiBA, AugmentedBTree):
        for how in ("insert_many", "one by one"):
            figures = []
            for m in (10, 100, 1000):
                running = cls(Sum())
                running.insert_many(range(window), [1] * window)
                times = np.random.default_rng(3).uniform(window / 2, window, m).tolist()
                began = time.perf_counter()
                if how == "insert_many":
                    running.insert_many(times, [1] * m)
                else:
                    for at in times:
                        running.insert(at, 1)
                figures.append(f"{(time.perf_counter() - began) / m * 1e6:,.1f}")
            rows.append([f"{cls.__name__}, {how}", *figures])
    return page.table(["", "m = 10", "m = 100", "m = 1,000"], rows)


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    window, changes = (2**8, 2**10) if quick else (COARSE_WINDOW, CHANGES)
    return "\n\n".join(
        [
            "## Many events at once, in order of time",
            (
                "Cycles to evict half of the window and query, compiled, sum of ints: the median of 32 times, against "
                "the number of elements in the window."
            ),
            eviction(SIZES[:2] if quick else SIZES),
            (
                f"Cycles an event in a window of the last {window:,} events, with eviction and a query only every m "
                "events; events are inserted one by one, or those of a slide are combined on arrival."
            ),
            slides(window, changes),
            "Microseconds an event to insert a batch of m into the younger half of a window, interpreted, sum of ints.",
            batches(2**8 if quick else 2**14),
        ]
    )
