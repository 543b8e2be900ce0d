"""Memory per element, compiled and interpreted."""

from __future__ import annotations

import gc
import tracemalloc

from benchmarks import page
from benchmarks.contest import admitted
from sash.kernels.loops.bound_kernel import specify
from sash.monoids import Count, Max, Monoid, Sum

WINDOW = 3 * 2**14


def compiled_bytes(cls: type, monoid: Monoid, window: int) -> float:
    """Bytes an element that a kernel allocates."""
    storage = specify(cls, monoid, ("int",)).allocate(window)
    return sum(array.nbytes for arrays in storage for array in arrays) / window


def interpreted_bytes(cls: type, monoid: Monoid, window: int) -> float:
    """Bytes an element in a loop, states and all, after as many evictions as inserts."""
    gc.collect()
    tracemalloc.start()
    running = cls(monoid)
    for i in range(2 * window):
        if len(running) == window:
            running.evict()
        running.insert(i * 7919 % 10007)
        if i % 64 == 0:
            running.query()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / window


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    window = 2**10 if quick else WINDOW
    rows = []
    for record in {record.name: record for m in (Max(), Count()) for record in admitted(m)}.values():
        cells = []
        for monoid in (Max(), Sum()):
            fits = all(getattr(monoid.typed("int"), need) for need in record.needs)
            cells.append(f"{compiled_bytes(record.cls, monoid, window):,.1f}" if fits else "–")
        loop = Max() if not record.needs or "selective" in record.needs else Count()
        rows.append([record.name, *cells, f"{interpreted_bytes(record.cls, loop, window):,.0f}", str(record.space)])
    return "\n\n".join(
        [
            "## Memory",
            (
                f"Bytes an element in a window of {window:,}, which is not a power of two. Compiled: what a kernel "
                "allocates for max (8 bytes a state) and sum (16) of integers, in arrays whose sizes are powers of "
                "two. Interpreted: what Python allocates for max of small integers (count for structures that need an "
                "inverse), including chunks. Last column: the number of aggregates according to the catalogue."
            ),
            page.table(["", "max, compiled", "sum, compiled", "in a loop", "aggregates"], rows),
        ]
    )
