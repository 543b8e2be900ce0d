"""Out-of-order events: the streams, and the loops that time the time-ordered structures."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import clock
from benchmarks.contest import run_kernel, values
from sash.aggregators import AugmentedBTree, FiBA
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import present, start, stop
from sash.kernels.jit.numba_struct import StructSpec
from sash.kernels.loops.bound_kernel import specify
from sash.kernels.loops.runner import with_arity
from sash.monoids.algebra import Kind, Monoid

CONTESTANTS = {f"{cls.__name__}, min-arity {arity}": (cls, arity) for cls, arity in
               [(FiBA, 2), (FiBA, 4), (FiBA, 8), (AugmentedBTree, 4), (AugmentedBTree, 8)]}  # fmt: skip
HIGH = 2**40


def spec_of(name: str, monoid: Monoid, kind: Kind) -> StructSpec:
    """What to compile for a contestant."""
    cls, arity = CONTESTANTS[name]
    return specify(with_arity(cls, arity), monoid, (kind,), "int")


def times_at_distance(window: int, rounds: int, distance: int) -> NDArray[np.int64]:
    """Out-of-order times: each one after the first `window` has exactly `distance` later times in its window."""
    low, high = np.arange(window - distance), HIGH + np.arange(distance)
    return np.concatenate([low, high, window - distance + np.arange(rounds)])


def rounds_after_filling(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, cycles: Any) -> Any:
    """Fill a window, then rounds of evict, insert and query; the cycles of both parts."""
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, width = plan
    began = clock()
    for i in range(width):
        window.add(times[i], monoid.lift(*x[i]))
    full = clock()
    for i in range(len(times) - width):
        window.pop()
        window.add(times[width + i], monoid.lift(*x[width + i]))
        y[i] = present(monoid.lower(window.aggregate()))
    cycles[0] = full - began
    cycles[1] = clock() - full
    return stop(window)


class Load(NamedTuple):
    """How many elements the window holds, how many rounds are timed, and how far behind the latest each insert is."""

    window: int
    rounds: int
    distance: int


def nanoseconds(spec: StructSpec, kind: Kind, load: Load, repeats: int) -> float:
    """Nanoseconds a round, compiled: the best of several runs."""
    window, rounds, distance = load
    data = (values(window + rounds)[kind],)
    times, cycles = times_at_distance(window, rounds, distance), np.zeros(2, np.int64)
    storage, out = spec.allocate(window), spec.layouts.result.allocate(rounds)
    best = float("inf")
    for repeat in range(repeats + 1):
        began = time.perf_counter()
        run_kernel(rounds_after_filling, spec, storage, data, (times, window), out, cycles)
        took = time.perf_counter() - began
        if repeat:  # the first compiles, and touches new memory
            best = min(best, took * cycles[1] / cycles.sum() / rounds * 1e9)
    return best


def each_round(spec: Any, storage: Any, rows: Any, plan: Any, out: Any, cycles: Any) -> Any:
    """The same, each round between two looks at the clock."""
    window = start(spec, storage)
    window.begin()
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    times, width = plan
    for i in range(width):
        window.add(times[i], monoid.lift(*x[i]))
    for i in range(len(cycles)):
        began = clock()
        window.pop()
        window.add(times[width + i], monoid.lift(*x[width + i]))
        y[i] = present(monoid.lower(window.aggregate()))
        cycles[i] = clock() - began
    return stop(window)
