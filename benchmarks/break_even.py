"""The window size from which a structure beats recomputing the window, and beats it tenfold; throughput by size."""

from __future__ import annotations

from typing import Any

from benchmarks import contest, page
from benchmarks.contest import admitted, full_rounds, in_a_loop, values
from benchmarks.timing import best_of
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids import ArgMax, Bloom, Collect, GeometricMean, Max, Mean, MinCount, Monoid, Std, Sum

COMPILED: dict[str, Monoid] = {
    "sum": Sum(),
    "max": Max(),
    "mean": Mean(),
    "geometric_mean": GeometricMean(),
    "min_count": MinCount(),
    "std": Std(),
    "arg_max": ArgMax(),
}
INTERPRETED: dict[str, Monoid] = {"bloom": Bloom(), "collect": Collect()}
SIZES = [2**k for k in range(11)]
CURVE = [2**k for k in range(0, 23, 2)]


def seconds_a_round(name: str, monoid: Monoid, sizes: list[int]) -> dict[str, list[float]]:
    """Seconds a round of each structure at each size; compiled on ints where the aggregate compiles."""
    rounds = 2**14 if name in COMPILED else 40
    column = values(5 * max(sizes) + rounds)["int"]
    columns = (column,) * len(monoid.domain)
    typed = monoid.typed(*(["int"] * len(columns))) if name in COMPILED else monoid
    found: dict[str, list[float]] = {record.name: [] for record in admitted(typed)}
    rows: list[tuple[Any, ...]] = list(zip(*(part.tolist() for part in columns), strict=True))
    for size in sizes:
        if name in COMPILED:
            runs = {record.name: full_rounds(record, monoid, columns, size, rounds) for record in admitted(typed)}
            times = contest.seconds_a_round(runs, repeats=3, seconds=0.5)
        else:
            loops = {record.name: in_a_loop(record, monoid, rows, size, rounds) for record in admitted(typed)}
            times = {structure: best / rounds for structure, best in best_of(loops, repeats=3, seconds=0.5).items()}
        for structure, seconds in times.items():
            found[structure].append(seconds)
    return found


def first_size(sizes: list[int], structure: list[float], recalc: list[float], factor: float) -> str:
    """The smallest size from which the structure is `factor` times as fast as recomputing."""
    ahead = [factor * mine <= other for mine, other in zip(structure, recalc, strict=True)]
    behind = [i for i, wins in enumerate(ahead) if not wins]
    start = behind[-1] + 1 if behind else 0
    return f"{sizes[start]:,}" if start < len(sizes) else f"> {sizes[-1]:,}"


def tables(sizes: list[int]) -> tuple[list[list[str]], list[list[str]]]:
    """The break-even and the tenfold sizes, a row a structure."""
    found = {name: seconds_a_round(name, monoid, sizes) for name, monoid in (COMPILED | INTERPRETED).items()}
    structures = [name for name in IN_ORDER if name != "Recalc"]

    def table(factor: float) -> list[list[str]]:
        return [
            [
                structure,
                *(
                    first_size(sizes, times[structure], times["Recalc"], factor) if structure in times else "–"
                    for times in found.values()
                ),
            ]
            for structure in structures
        ]

    return table(1.0), table(10.0)


def throughput(sizes: list[int]) -> dict[str, list[float]]:
    """Million rounds a second, max of floats."""
    rounds = 2**18
    column = values(5 * max(sizes) + rounds)["float"]
    found: dict[str, list[float]] = {record.name: [] for record in admitted(Max())}
    for size in sizes:
        runs = {record.name: full_rounds(record, Max(), (column,), size, rounds) for record in admitted(Max())}
        for name, seconds in contest.seconds_a_round(runs, repeats=3, seconds=1.0).items():
            found[name].append(1e-6 / seconds)
    return found


def main(quick: bool) -> str:
    """Run the benchmark, draw the chart, and return its section of the page."""
    sizes, curve = (SIZES[:6], CURVE[:5]) if quick else (SIZES, CURVE)
    even, tenfold = tables(sizes)
    header = ["", *COMPILED, *INTERPRETED]
    found = throughput(curve)
    if not quick:
        page.plot(
            "throughput", curve, found, "elements in the window", "million rounds a second, max of floats", logy=True
        )
    return "\n\n".join(
        [
            "## Break-even with recomputing the window",
            (
                "The smallest window from which a structure is faster than `Recalc`, compiled on integers (`bloom` and "
                f"`collect` interpreted); window sizes are powers of two up to {sizes[-1]:,}. The time of `collect` is "
                "proportional to the size of the window with every structure."
            ),
            page.table(header, even),
            "The smallest window from which it is ten times as fast.",
            page.table(header, tenfold),
            "## Throughput against the size of the window",
            "Million rounds of evict, insert and query a second, compiled, max of random floats.",
            page.table(
                ["", *(f"{size:,}" for size in curve)],
                [[name, *(f"{figure:,.2f}" for figure in row)] for name, row in found.items()],
            ),
            "![Throughput](throughput.svg)",
        ]
    )
