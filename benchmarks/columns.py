"""Rolling aggregates of whole columns, compared with pandas, polars, bottleneck, numbagg and DuckDB.

`functions.py` defines what is compared, `rivals.py` the libraries. All take turns. A figure is nanoseconds a row, end
to end on the contestant's own kind of frame; ours have in brackets how many times as long the fastest of the others
takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import page
from benchmarks.functions import FUNCTIONS, GOALS, Case, Function, columns
from benchmarks.rivals import CONTESTANTS, OURS, RIVALS, Contestant
from benchmarks.timing import best_of
from benchmarks.verdict import Figures, Found, verdicts


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    rows: int = 10_000_000
    widths: tuple[int, ...] = (16, 1024, 65_536, 1_000_000)
    keys: int = 1000
    keyed_widths: tuple[int, ...] = (16, 1024)
    """Of each key there are 10,000 rows: a longer window would hold them all."""
    others: int = 1_000_000
    """Rows for the functions that no goal is set for."""
    width: int = 1024
    """Their windows."""
    sampled: int = 500_000
    """Rows that DuckDB gets, which takes a hundred times as long as the fastest."""
    folded: int = 500_000_000
    """The maximum number of values that libraries that recompute each window may read."""
    repeats: int = 5
    seconds: float = 1.0


QUICK = Sizes(100_000, (16, 256), 10, (16,), 20_000, 64, 20_000, 2_000_000, 1, 0.2)


class Arena:
    """The columns as each contestant holds them, each made once."""

    def __init__(self, rows: int, keys: int) -> None:
        self.rows, self.columns = rows, columns(rows, keys)
        self.made: dict[tuple[Any, int], Any] = {}

    def frame(self, contestant: Contestant, rows: int) -> Any:
        """The first rows."""
        key = type(contestant).make, rows
        if key not in self.made:
            self.made[key] = contestant.make({name: column[:rows] for name, column in self.columns.items()})
        return self.made[key]


def rows_for(name: str, function: Function, case: Case, rows: int, sizes: Sizes) -> int:
    """How many rows a contestant can be asked for; 0: it is left out."""
    contestant = CONTESTANTS[name]
    if not contestant.serves(function, case):
        return 0
    if contestant.folds(function, case):
        few = min(rows, sizes.folded // case.width)
        return few if few >= 4 * case.width else 0
    if name == "DuckDB":
        few = min(rows, sizes.sampled)
        return few if few >= 2 * case.width else 0
    if name == "pandas" and case.keys > 1 and case.width != sizes.width:
        return 0  # ten seconds, whatever the width
    return rows


def measure(arena: Arena, function: Function, case: Case, sizes: Sizes) -> Figures:
    """All contestants that support the function, in turn, the best of several runs."""
    rows = {name: rows_for(name, function, case, arena.rows, sizes) for name in CONTESTANTS}
    runs: dict[str, Any] = {}
    for name, count in rows.items():
        if count:
            contestant = CONTESTANTS[name]
            warm = count if name in OURS else min(count, max(2 * case.width, 10_000))
            contestant.run(arena.frame(contestant, warm), function, case)  # compile, or find the machine code
            runs[name] = partial(contestant.run, arena.frame(contestant, count), function, case)
    return {name: s / rows[name] * 1e9 for name, s in best_of(runs, sizes.repeats, sizes.seconds).items()}


def cells(figures: Figures) -> list[str]:
    """A line of the table: ours with the ratio, in bold where somebody else is faster."""
    best = min((figures[name] for name in RIVALS if name in figures), default=None)
    line = []
    for name in CONTESTANTS:
        if name not in figures:
            line.append("–")
        elif name in OURS and best is not None:
            ratio = f"{best / figures[name]:.2f}×"
            line.append(f"{figures[name]:,.1f} ({f'**{ratio}**' if best < figures[name] else ratio})")
        else:
            line.append(f"{figures[name]:,.1f}")
    return line


def grid(arena: Arena, over: str, keys: int, widths: tuple[int, ...], sizes: Sizes) -> Found:
    """Those with goals, over all widths."""
    return {
        (name, width): measure(arena, FUNCTIONS[name], Case(over, width, keys), sizes)
        for name in GOALS
        for width in widths
    }


def spread(found: Found, name: str, contestant: str) -> str:
    """The dearest width over the cheapest."""
    costs = [
        figures[contestant] for (function, _), figures in found.items() if function == name and contestant in figures
    ]
    return f"{max(costs) / min(costs):.2f}" if len(costs) > 1 else "–"


def flatness(found: Found) -> str:
    """How much a function's cost depends on the width."""
    rows = [[name, *(spread(found, name, contestant) for contestant in CONTESTANTS)] for name in GOALS]
    return page.table(["", *CONTESTANTS], rows)


def kinds(sizes: Sizes) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """Title, kind of window, keys, widths."""
    return [
        ("Windows of rows, 1 key", "rows", 1, sizes.widths),
        ("Windows of time, 1 key", "time", 1, sizes.widths),
        (f"Windows of rows, {sizes.keys:,} keys", "rows", sizes.keys, sizes.keyed_widths),
        (f"Windows of time, {sizes.keys:,} keys", "time", sizes.keys, sizes.keyed_widths),
    ]


def goals(sizes: Sizes) -> list[str]:
    """The tables of what goals are set for, and how near they are."""
    parts, found = [], {}
    for keys in (1, sizes.keys):
        arena = Arena(sizes.rows, keys)
        for title, over, _, widths in (kind for kind in kinds(sizes) if kind[2] == keys):
            cells_of = grid(arena, over, keys, widths, sizes)
            found[f"{over}, {'1 key' if keys == 1 else 'many keys'}"] = cells_of
            lines = [[f"{name}, {width:,}", *cells(figures)] for (name, width), figures in cells_of.items()]
            parts += [f"### {title}", page.table(["", *CONTESTANTS], lines)]
            if keys == 1:
                parts += ["The time at the slowest of these widths relative to the fastest:", flatness(cells_of)]
    return ["The goals, and the worst cell for each, **bold** if it misses the goal:", verdicts(found), *parts]


def others(sizes: Sizes) -> list[str]:
    """All other functions, at one width."""
    parts = []
    for title, over, keys, _ in kinds(sizes):
        arena, case = Arena(sizes.others, keys), Case(over, sizes.width, keys)
        lines = [
            [name, *cells(measure(arena, function, case, sizes))]
            for name, function in FUNCTIONS.items()
            if name not in GOALS
        ]
        parts += [f"### {title}: the other functions", page.table(["", *CONTESTANTS], lines)]
    return parts


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    return "\n\n".join(
        [
            "## Columns",
            (
                f"Nanoseconds a row. {sizes.rows:,} rows, a random walk of float64. Window width: a number of rows, or "
                "the time span that contains that many rows of a key on average. Each library is measured from its own "
                "input format to its own output format: a frame gets one more column, bottleneck and numbagg read and "
                "write arrays. In brackets: how many times as long the fastest other library takes, **bold** where it "
                f"is faster than sash. DuckDB gets {sizes.sampled:,} rows, if they fill two windows. Where polars has "
                f"no rolling function, it recomputes each window, so it gets fewer rows: at most {sizes.folded:,} "
                "values in all; – where that would not fill four windows. pandas by key takes the "
                "same time at every width, and is measured at one. The keys are in random order. `arg_max` of "
                "bottleneck returns a distance; the time to look up the row is included."
            ),
            *goals(sizes),
            f"The functions without a goal: {sizes.others:,} rows, windows of {sizes.width:,}.",
            *others(sizes),
        ]
    )
