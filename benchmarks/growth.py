"""The operator while it grows: no call may pay for the rows of all calls before it.

DABA's paper (§6.4) allocates the queue in chunks, so that each operation takes constant time in the worst case, also
while the window grows. A call of an operator has a fixed number of rows here, so each should take as long as any other.

    calls  ▏▏▏▏▏▏▏▏▏▏▏▏█▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏█▏▏▏▏▏▏▏▏▏     a ring that doubles: rare calls, each twice as long
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sash
from benchmarks import page
from benchmarks.own import GEOMETRIC
from benchmarks.timing import each_call
from sash.plan.api_types import Prefer

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
AGGREGATES: dict[str, Any] = {"max": sash.max("x"), "sum": sash.sum("x"), "user's": GEOMETRIC("x")}
PREFERENCES: tuple[Prefer, ...] = ("latency", "throughput")
GOAL = 5.0
"""Longest call / median call, with prefer="latency"."""

FILL = 2**16
"""Rows of a call that fills the window first, where growing is not timed."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    call: int = 1024
    rows: int = 2**21
    window: int = 2**22
    steady_window: int = 2**20
    keys: int = 100_000
    runs: int = 3


QUICK = Sizes(call=64, rows=2**13, window=2**14, steady_window=2**12, keys=500)


@dataclass(frozen=True)
class Found:
    """Microseconds of processor time of each call, the least of some runs, and those of wall time."""

    cpu: NDArray[np.float64]
    wall: NDArray[np.float64]

    def cells(self) -> list[str]:
        """Median, longest and their ratio by processor time, then the ratio by wall time."""
        ratios = [float(taken.max() / np.median(taken)) for taken in (self.cpu, self.wall)]
        figures = f"{np.median(self.cpu):,.0f}", f"{np.percentile(self.cpu, 99.9):,.0f}", f"{self.cpu.max():,.0f}"
        return [*figures, *(f"{ratio:,.1f}×" for ratio in ratios)]

    def longest(self) -> list[tuple[int, float]]:
        """The ten longest calls: which, from 0, and how long."""
        return [(int(place), float(self.cpu[place])) for place in np.argsort(-self.cpu)[:10]]


def stream(keys: int, count: int, call: int) -> Iterator[pa.RecordBatch]:
    """Calls of rows in order, of keys and values drawn at random."""
    chance = np.random.default_rng(4)
    columns = chance.integers(0, keys, count), np.arange(count), chance.random(count) + 0.5
    batch = pa.record_batch([*map(pa.array, columns)], schema=SCHEMA)
    return (batch.slice(first, call) for first in range(0, count, call))


def measured(query: sash.Query, keys: int, fill: int, sizes: Sizes) -> Found:
    """The least time of each call of some runs, after a number of rows that are not timed."""
    taken = []
    for batch in stream(keys, 4 * sizes.call, sizes.call):
        query.operator(SCHEMA).process(batch)  # compile, or find the machine code
    for _ in range(sizes.runs):
        operator = query.operator(SCHEMA)
        filling, timed = stream(keys, fill, FILL), stream(keys, fill + sizes.rows, sizes.call)
        for batch in filling:
            operator.process(batch)
        calls = [batch for batch in timed if batch["t"][0].as_py() >= fill]
        taken.append(each_call(operator.process, calls))
    cpu, wall = np.min(taken, axis=0)
    return Found(cpu, wall)


def figures(sizes: Sizes, names: tuple[str, ...] = tuple(AGGREGATES)) -> Iterator[tuple[str, Found]]:
    """By what grows: the time of each call."""
    for name in names:
        for prefer in PREFERENCES:
            options = sash.Options(prefer=prefer)
            for keys in (1, sizes.keys):
                query = sash.Query(sash.Count(sizes.window), by="k", on="t", options=options, out=AGGREGATES[name])
                label = "one key grows" if keys == 1 else f"{keys:,} keys grow"
                yield f"{name}, {label}, prefer {prefer}", measured(query, keys, 0, sizes)
            query = sash.Query(sash.Count(sizes.steady_window), by="k", on="t", options=options, out=AGGREGATES[name])
            yield (
                f"{name}, one key, a full window, prefer {prefer}",
                measured(query, 1, sizes.steady_window + FILL, sizes),
            )


HEADER = ["", "median µs", "99.9 %", "longest", "longest / median", "by wall time"]


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    rows = [[name, *found.cells()] for name, found in figures(sizes)]
    return "\n\n".join(
        [
            "## The operator while it grows",
            (
                f"Calls of {sizes.call:,} rows, from an empty operator to {sizes.rows:,} rows in `Count` windows of "
                f"{sizes.window:,}; then as many rows on a full window of {sizes.steady_window:,}. Microseconds of "
                f"processor time a call, of each call the least of {sizes.runs} runs. DABA's paper: constant time in "
                "the worst case, also while the queue grows, as it is allocated in chunks (§6.4). The goal: with "
                f'`prefer="latency"` the longest call takes at most {GOAL:g} times the median.'
            ),
            page.table(HEADER, rows),
        ]
    )


def alone() -> None:
    """Print the figures as they are found, and which calls are the longest."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"aggregates: {', '.join(AGGREGATES)} (all)")
    parser.add_argument("--quick", action="store_true", help="small windows")
    parser.add_argument("--raw", action="store_true", help="also the microseconds of each call, as JSON")
    given = parser.parse_args()
    for name, found in figures(QUICK if given.quick else Sizes(), tuple(given.names) or tuple(AGGREGATES)):
        print(f"{name}: " + ", ".join(f"{what} {cell}" for what, cell in zip(HEADER[1:], found.cells(), strict=True)))
        print("    longest calls: " + ", ".join(f"{place} ({taken:,.0f} µs)" for place, taken in found.longest()))
        if given.raw:
            print(json.dumps({"name": name, "cpu": found.cpu.tolist(), "wall": found.wall.tolist()}))


if __name__ == "__main__":
    alone()
