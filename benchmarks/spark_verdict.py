"""The goals for Spark, batch, and how far the worst cell is from each.

found[rows, keys, contest][contestant] = seconds
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import page
from benchmarks.verdict import verdict_cell

Cell = tuple[int, int, str]
Found = dict[Cell, dict[str, float]]

TREE, SPARK, FLOOR, LINEAR, SPLIT = 2.0, 100.0, 1.2, 1.1, 1.6


@dataclass(frozen=True)
class Goal:
    """A figure for each cell, and what the worst of them may be."""

    name: str
    limit: float
    least: bool
    by_cell: dict[str, float]

    def line(self) -> list[str]:
        """The goal, and the cell that is farthest from it."""
        limit = f"{'at least' if self.least else 'at most'} {self.limit:g}×"
        if not self.by_cell:
            return [self.name, limit, "not measured"]
        choose: Callable[..., str] = min if self.least else max
        worst = choose(self.by_cell, key=self.by_cell.__getitem__)
        reached = {
            cell: (figure >= self.limit) == self.least or figure == self.limit for cell, figure in self.by_cell.items()
        }
        where = f"{worst}; {sum(reached.values())} of {len(reached)} met"
        return [self.name, limit, verdict_cell(self.by_cell[worst], reached[worst], where)]


def said(cell: Cell) -> str:
    """A cell in words."""
    return f"{cell[0]:,} rows, {cell[1]:,} keys, {cell[2]}"


def over(found: Found, above: str, below: str) -> dict[Cell, float]:
    """One contestant's time over another's, where there are both."""
    return {cell: best[above] / best[below] for cell, best in found.items() if {above, below} <= best.keys()}


def growth(found: Found, name: str) -> dict[tuple[int, str], float]:
    """How many times as long the largest table takes as the smallest, over how many times as many rows it has."""
    sizes = sorted({cell[0] for cell in found})
    if len(sizes) < 2:
        return {}
    times = sizes[-1] / sizes[0]
    return {
        (keys, contest): found[rows, keys, contest][name] / found[sizes[0], keys, contest][name] / times
        for rows, keys, contest in found
        if rows == sizes[-1] and all(name in found.get((size, keys, contest), {}) for size in (sizes[0], rows))
    }


def verdicts(found: Found, parts: dict[str, float], two: list[str], wide: str) -> str:
    """A line for each goal. `two` are the contests of two aggregates, `wide` the one at 10,000 rows."""
    least = min((cell[0] for cell in found), default=0)

    def chosen(figures: dict[Cell, float], contests: list[str]) -> dict[str, float]:
        return {said(cell): figure for cell, figure in figures.items() if cell[0] == least and cell[2] in contests}

    few = min((cell[1] for cell in found), default=0)
    by_default = {cell: figure for cell, figure in over(found, "Spark", "sash").items() if cell[1] == few}
    goals = [
        Goal("ahead of Spark's segment tree, two aggregates", TREE, True, chosen(over(found, "tree", "sash"), two)),
        Goal("ahead of Spark with default settings, 10,000 wide", SPARK, True, chosen(by_default, [wide])),
        Goal(
            "compared with the identity map, two aggregates", FLOOR, False, chosen(over(found, "sash", "identity"), two)
        ),
        Goal(
            "growth with rows, relative to linear",
            LINEAR,
            False,
            {f"{keys:,} keys, {contest}": figure for (keys, contest), figure in growth(found, "sash").items()},
        ),
        Goal("split in two, ahead of one partition", SPLIT, True, parts),
    ]
    return page.table(["", "goal", "worst"], [goal.line() for goal in goals])
