"""Two windows on one stream: a range query of the larger one, or a tree of its own for the smaller."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.clock import clock
from benchmarks.contest import run_kernel, values
from benchmarks.disorder import CONTESTANTS, spec_of
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import start, stop
from sash.monoids import Sum

WINDOW = 2**20
ROUNDS = 2**17
STRUCTURES = [name for name in CONTESTANTS if "FiBA" in name]


def shared(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, cycles: Any) -> Any:
    """One tree: a query of all, and one of the youngest times."""
    window = start(spec, storage[0])
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, width, small = plan
    for i in range(width):
        window.add(times[i], monoid.lift(*x[i]))
    began = clock()
    for i in range(len(times) - width):
        window.pop()
        window.add(times[width + i], monoid.lift(*x[width + i]))
        youngest = window.last()
        y[2 * i] = monoid.lower(window.aggregate())
        y[2 * i + 1] = monoid.lower(window.between(youngest - small, youngest, True, False)[1])
    cycles[0] = clock() - began
    return stop(window)


def twins(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, cycles: Any) -> Any:
    """Two trees, and two queries of all."""
    window = start(spec, storage[0])
    window.begin()
    second = start(spec, storage[1])
    second.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, width, small = plan
    for i in range(width):
        window.add(times[i], monoid.lift(*x[i]))
        second.add(times[i], monoid.lift(*x[i]))
        second.cut(second.last() - small - 1)
    began = clock()
    for i in range(len(times) - width):
        window.pop()
        window.add(times[width + i], monoid.lift(*x[width + i]))
        second.add(times[width + i], monoid.lift(*x[width + i]))
        second.cut(second.last() - small - 1)
        y[2 * i] = monoid.lower(window.aggregate())
        y[2 * i + 1] = monoid.lower(second.aggregate())
    cycles[0] = clock() - began
    return stop(window)


def times_of(window: int, rounds: int, distance: int) -> Any:
    """In order but for a delay of `distance` places: of two neighbours at that distance the younger comes first."""
    order = np.arange(window + rounds)
    delayed = order % 2 == 0
    return np.argsort(order + np.where(delayed, 2 * distance + 0.5, 0), kind="stable")


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    window, rounds = (2**10, 2**10) if quick else (WINDOW, ROUNDS)
    smalls = [s for k in range(2, 21, 3) if (s := 2**k) < window]
    data, rows = (values(window + rounds)["int"],), []
    for name in STRUCTURES:
        spec = spec_of(name, Sum(), "int")
        storage = spec.allocate(window + 1), spec.allocate(window + 1)
        for label, kernel in (("one tree", shared), ("two trees", twins)):
            figures = []
            for small in smalls:
                cycles, best = np.zeros(1, np.int64), float("inf")
                plan = (times_of(window, rounds, small // 4), window, small)
                for _ in range(3):
                    run_kernel(kernel, spec, storage, data, plan, spec.layouts.result.allocate(2 * rounds), cycles)
                    best = min(best, cycles[0] / rounds)
                figures.append(f"{best:,.0f}")
            rows.append([f"{name}, {label}", *figures])
    return "\n\n".join(
        [
            "## Two windows on one stream",
            (
                f"Cycles a round for a window of {window:,} elements and a smaller one of the latest times, where half "
                "of the events are out of order by up to half of the smaller window: one tree's range query, compared "
                "with two trees. Sum of ints, against the length of the smaller window."
            ),
            page.table(["", *(f"{small:,}" for small in smalls)], rows),
        ]
    )
