"""Events in order: the cost of supporting out-of-order events, compared with structures that do not."""

from __future__ import annotations

from functools import partial

from benchmarks import page
from benchmarks.contest import values
from benchmarks.disorder import CONTESTANTS, Load, nanoseconds, spec_of
from benchmarks.timing import best_of
from sash.aggregators import DABA, FlatFAT, TwoStacksLite
from sash.kernels import steady
from sash.monoids import Sum

SIZES = [2**k for k in range(4, 21, 4)]
ROUNDS = 2**18


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = SIZES[:2] if quick else SIZES
    figures: dict[str, list[str]] = {}
    for size in sizes:
        rounds = max(ROUNDS, 4 * size)
        data = (values(size + rounds)["int"],)
        runs = {cls.__name__: partial(steady, cls, Sum(), data, size) for cls in (TwoStacksLite, DABA, FlatFAT)}
        for run in runs.values():
            run()
        for name, seconds in best_of(runs, repeats=4, seconds=1.5).items():
            figures.setdefault(name, []).append(f"{seconds / (rounds + size) * 1e9:,.1f}")
        for name in CONTESTANTS:
            took = nanoseconds(spec_of(name, Sum(), "int"), "int", Load(size, rounds, 0), 3)
            figures.setdefault(name, []).append(f"{took:,.1f}")
    return "\n\n".join(
        [
            "## In-order events in out-of-order structures",
            "Nanoseconds a round of evict, insert and query, compiled, sum of ints, against the size of the window.",
            page.table(["", *(f"{size:,}" for size in sizes)], [[name, *row] for name, row in figures.items()]),
        ]
    )
