"""One round of evict, insert and query: every structure, compiled and interpreted, against the size of the window."""

from __future__ import annotations

from benchmarks import page
from benchmarks.contest import admitted, full_rounds, in_a_loop, seconds_a_round, values
from benchmarks.timing import best_of
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids import Max, Mean, Monoid, Sum

WINDOWS = [2**k for k in range(4, 21, 2)]
AGGREGATES: dict[str, Monoid] = {"sum": Sum(), "max": Max(), "mean": Mean()}
ROUNDS = 2**18


def compiled(windows: list[int]) -> list[list[str]]:
    """Nanoseconds a round."""
    rows = []
    for kind, column in values(5 * max(windows) + ROUNDS).items():
        for name, monoid in AGGREGATES.items():
            typed = monoid.typed(kind)  # type: ignore[arg-type]
            figures: dict[str, list[str]] = {record.name: [] for record in admitted(typed)}
            for window in windows:
                runs = {r.name: full_rounds(r, monoid, (column,), window, ROUNDS) for r in admitted(typed)}
                for structure, seconds in seconds_a_round(runs).items():
                    figures[structure].append(f"{seconds * 1e9:,.1f}")
            rows += [[f"{name} of {kind}s, {structure}", *cells] for structure, cells in figures.items()]
    return rows


def interpreted(window: int = 2**10) -> list[list[str]]:
    """Microseconds a round at one size, plain Python objects."""
    rows = [(x,) for x in values(window + 500)["float"].tolist()]
    offered = {record.name for monoid in AGGREGATES.values() for record in admitted(monoid)}
    figures: dict[str, list[str]] = {name: [] for name in IN_ORDER if name in offered}
    for monoid in AGGREGATES.values():
        runs = {record.name: in_a_loop(record, monoid, rows, window, 500) for record in admitted(monoid)}
        seconds = best_of(runs)
        for name, cells in figures.items():
            cells.append(f"{seconds[name] / 500 * 1e6:,.1f}" if name in seconds else "–")
    return [[name, *cells] for name, cells in figures.items()]


def main(quick: bool) -> str:
    """Run the benchmark, and write its section of the page."""
    windows = WINDOWS[:4] if quick else WINDOWS
    return "\n\n".join(
        [
            "## One round of evict, insert and query",
            (
                "Nanoseconds a round, compiled, against the number of elements in the window. Floats are summed as "
                "double-double pairs, integers in 96 bits. For comparison, the figures that the authors publish for "
                "their C++: DABA 9 to 11, TwoStacksLite 8 to 13."
            ),
            page.table(["", *(f"{window:,}" for window in windows)], compiled(windows)),
            "Microseconds a round, interpreted, on Python floats in a window of 1,024.",
            page.table(["", *AGGREGATES], interpreted()),
        ]
    )
