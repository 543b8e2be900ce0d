"""The maximum number of queries: every range from 1 to n at every slide."""

from __future__ import annotations

from functools import partial

from benchmarks import page
from benchmarks.contest import admitted, values
from benchmarks.timing import best_of
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import SuffixQuery
from sash.kernels import slide_many
from sash.monoids import Max, Monoid, Sum

SIZES = [2**k for k in range(2, 13, 2)]
ANSWERS = 2**22
AGGREGATES: dict[str, tuple[Monoid, str]] = {"max of floats": (Max(), "float"), "sum of ints": (Sum(), "int")}


def nanoseconds(monoid: Monoid, kind: str, sizes: list[int]) -> dict[str, list[float]]:
    """Nanoseconds an answer."""
    typed = monoid.typed(kind)  # type: ignore[arg-type]
    structures = [record.cls for record in admitted(typed) if issubclass(record.cls, SuffixQuery)]
    column = values(ANSWERS)[kind]
    found: dict[str, list[float]] = {structure.__name__: [] for structure in structures}
    for size in sizes:
        ranges = range(1, size + 1)
        rows = max(2 * size, min(ANSWERS // size, 2**16))
        runs = {}
        for structure in structures:
            if structure.__name__ == "Recalc" and size > 2**8:
                continue
            slide_many(structure, monoid, (column[: size + 1],), ranges)
            runs[structure.__name__] = partial(slide_many, structure, monoid, (column[:rows],), ranges)
        for name, seconds in best_of(runs, repeats=3, seconds=1.0).items():
            found[name].append(seconds / (rows * size) * 1e9)
    return found


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = SIZES[:3] if quick else SIZES
    parts = [
        "## Every range at once",
        (
            "Nanoseconds per result when all ranges 1, 2, …, n are queried at every slide, compiled; the time to slide "
            "the window is included."
        ),
    ]
    for label, (monoid, kind) in AGGREGATES.items():
        found = nanoseconds(monoid, kind, sizes)
        rows = [
            [name, *(f"{figure:,.2f}" for figure in figures), *["–"] * (len(sizes) - len(figures))]
            for name, figures in found.items()
        ]
        parts += [page.table([label, *(f"n = {size:,}" for size in sizes)], rows)]
    assert all(name in IN_ORDER for name in found)
    return "\n\n".join(parts)
