"""One round of evict, insert and query against how far out of order the insert is; and the time of single rounds."""

from __future__ import annotations

import time

import numpy as np

from benchmarks import page
from benchmarks.contest import run_kernel, values
from benchmarks.disorder import CONTESTANTS, Load, each_round, nanoseconds, spec_of, times_at_distance
from sash.aggregators import AugmentedBTree, FiBA
from sash.monoids import Bloom, GeometricMean, Sum

WINDOW = 2**22
ROUNDS = 2**20
BLOOM_WINDOW = 2**10
AGGREGATES = {"sum of ints": (Sum(), "int"), "geometric mean of floats": (GeometricMean(), "float")}


def compiled(window: int, rounds: int, distances: list[int]) -> str:
    """Nanoseconds a round."""
    rows = []
    for label, (monoid, kind) in AGGREGATES.items():
        for name in CONTESTANTS:
            spec = spec_of(name, monoid, kind)  # type: ignore[arg-type]
            found = [nanoseconds(spec, kind, Load(window, rounds, d), 2) for d in distances]  # type: ignore[arg-type]
            rows.append([f"{label}, {name}", *(f"{figure:,.0f}" for figure in found)])
    return page.table(["distance", *(f"{d:,}" for d in distances)], rows)


def bloom(window: int, distances: list[int], rounds: int = 300) -> str:
    """Microseconds a round, interpreted."""
    rows = []
    for cls, arity in ((FiBA, 2), (FiBA, 4), (AugmentedBTree, 2), (AugmentedBTree, 4)):
        figures = []
        for d in distances:
            times = times_at_distance(window, rounds, d).tolist()
            running = cls(Bloom(), arity)
            running.insert_many(times[:window], range(window))
            began = time.perf_counter()
            for i in range(rounds):
                running.evict()
                running.insert(times[window + i], i)
                running.aggregate()
            figures.append((time.perf_counter() - began) / rounds * 1e6)
        rows.append([f"{cls.__name__}, min-arity {arity}", *(f"{figure:,.0f}" for figure in figures)])
    return page.table(["distance", *(f"{d:,}" for d in distances)], rows)


def latency(window: int, rounds: int, distances: list[int]) -> str:
    """Cycles of single rounds."""
    rows = []
    for distance in distances:
        for name in CONTESTANTS:
            spec = spec_of(name, Sum(), "int")
            data, best = (values(window + rounds)["int"],), np.full(rounds, np.iinfo(np.int64).max)
            times, storage = times_at_distance(window, rounds, distance), spec.allocate(window)
            for _ in range(3):
                cycles = np.zeros(rounds, np.int64)
                out = spec.layouts.result.allocate(rounds)
                run_kernel(each_round, spec, storage, data, (times, window), out, cycles)
                best = np.minimum(best, cycles)
            marks = np.quantile(best, [0.25, 0.5, 0.75, 0.999, 1.0])
            rows.append([f"distance {distance:,}, {name}", *(f"{mark:,.0f}" for mark in marks)])
    return page.table(["", "25 %", "median", "75 %", "99.9 %", "longest"], rows)


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    window, rounds = (2**10, 2**10) if quick else (WINDOW, ROUNDS)
    distances = [0, *(d for k in range(2, 23, 2) if (d := 2**k) <= window)]
    small = [0, 4, 64] if quick else [0, 4, 16, 64, 256, BLOOM_WINDOW]
    return "\n\n".join(
        [
            "## Out of order",
            (
                f"Nanoseconds a round of evict (the oldest), insert and query, compiled, in a window of {window:,}, "
                "against the distance of the insert: how many elements in the window are younger. For comparison, the "
                "figures that the authors publish for their C++ and sums: 50 at distance 0, 121 at 2^10, 135 to 200 "
                "at 2^20."
            ),
            compiled(window, rounds, distances),
            (
                f"Microseconds a round of a Bloom filter, whose states never compile: interpreted, in a window of only "
                f"{BLOOM_WINDOW:,}."
            ),
            bloom(2**7 if quick else BLOOM_WINDOW, small),
            (
                "Processor cycles of single rounds, sum of ints (the minimum of three runs); the cost of reading the "
                "clock is included."
            ),
            latency(window, min(rounds, 2**18), [0, window // 4]),
        ]
    )
