"""The goals for columns, and how far the worst cell is from each.

found[kind][function, width][contestant] = nanoseconds a row
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks import functions, page
from benchmarks.rivals import OURS

Figures = dict[str, float]
Found = dict[tuple[str, int], Figures]
ROWS = "rows, 1 key"


@dataclass(frozen=True)
class Goal:
    """Required speed-up over the fastest of the other libraries, for these functions over these windows."""

    functions: tuple[str, ...]
    others: tuple[str, ...]
    times: float
    windows: tuple[str, ...] = (ROWS,)


ALL = ("pandas", "polars", "bottleneck", "DuckDB")
EVERY = functions.GOALS
GOALS = (
    Goal(("max", "min", "std", "var", "arg_max"), ALL, 1.0),
    Goal(("sum", "mean"), ("pandas", "polars"), 1.0),
    Goal(("sum", "mean"), ("bottleneck",), 1 / 1.6),
    Goal(EVERY, ("pandas", "polars"), 3.0, ("time, 1 key",)),
    Goal(EVERY, ("pandas", "polars"), 3.0, ("time, many keys",)),
)
FLAT = 1.5
"""The dearest width over the cheapest may be so much."""


def ratios(found: Found, functions: Iterable[str], others: Iterable[str], ours: str) -> dict[str, float]:
    """The fastest of the others over ours, by cell."""
    return {
        f"{name}, {width:,}": min(figures[other] for other in others if other in figures) / figures[ours]
        for (name, width), figures in found.items()
        if name in functions and any(other in figures for other in others)
    }


def spreads(found: Found, ours: str) -> dict[str, float]:
    """The dearest width over the cheapest, by function."""
    costs: dict[str, list[float]] = {}
    for (name, _), figures in found.items():
        costs.setdefault(name, []).append(figures[ours])
    return {name: max(some) / min(some) for name, some in costs.items()}


def verdicts(found: dict[str, Found]) -> str:
    """A line for each goal: the worst cell on each of our frames, in bold where it misses."""
    lines = []
    for goal in GOALS:
        cells = []
        for ours in OURS:
            by_cell = {
                cell: ratio
                for window in goal.windows
                for cell, ratio in ratios(found[window], goal.functions, goal.others, ours).items()
            }
            reached = sum(ratio >= goal.times for ratio in by_cell.values())
            worst = min(by_cell, key=by_cell.__getitem__)
            cells.append(
                verdict_cell(by_cell[worst], by_cell[worst] >= goal.times, f"{worst}; {reached} of {len(by_cell)} met")
            )
        against = ", ".join(goal.others)
        lines.append(
            [f"{', '.join(goal.windows)}: {', '.join(goal.functions)}; {against}", f"{goal.times:.2f}×", *cells]
        )
    cells = []
    for ours in OURS:
        by_function = spreads(found[ROWS], ours)
        worst = max(by_function, key=by_function.__getitem__)
        cells.append(verdict_cell(by_function[worst], by_function[worst] <= FLAT, worst))
    lines.append([f"{ROWS}: the slowest width relative to the fastest", f"at most {FLAT:.2f}×", *cells])
    return page.table(["windows: functions; the fastest of", "goal", *(f"{ours}, worst" for ours in OURS)], lines)


def verdict_cell(figure: float, is_reached: bool, where: str) -> str:
    """A figure and where it was found."""
    return f"{figure:.2f}× ({where})" if is_reached else f"**{figure:.2f}×** ({where})"
