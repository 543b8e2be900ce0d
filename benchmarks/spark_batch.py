"""Spark, batch: seconds for a query on a Parquet table, compared with Spark's own windows and pandas.

All read the same file and write to the `noop` sink; the best of some runs, one contestant after the other in each.
There is a budget of seconds: a contestant that would take too much of what is left gets a tenth of the rows (≈), or is
left out (–). Whatever is found is on the page after each cell, so a run may be stopped at any time.

`python -m benchmarks.spark_batch` writes its section of docs/performance.md; with `--quick` it runs small and writes
none.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sash.spark
from benchmarks import page
from benchmarks.spark_rivals import CONTESTANTS, TENTH, Contest, Table, guessed, run_sash, seconds, written
from benchmarks.spark_verdict import Found, growth, over, said, verdicts

Show = Callable[["Results"], None]
FIRST, SLOW = ("identity", "sash", "tree"), ("Spark", "pandas")


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    rows: tuple[int, ...] = (2_000_000, 6_000_000)
    keys: tuple[int, ...] = (8, 100_000)
    widths: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    wide: int = 10_000
    hot: tuple[int, ...] = (2_000_000, 10_000_000)
    """Rows of the tables that are split."""
    budget: float = 480.0
    """Seconds for all of it."""
    long: float = 45.0
    """Seconds that a contestant may take, or its tenth."""
    short: float = 10.0
    """One that takes longer runs once."""
    kept: float = 160.0
    """Seconds reserved for Spark with default settings and pandas on the small tables, which run last."""
    repeats: int = 3


QUICK = Sizes((20_000, 40_000), (8, 1_000), (100, 1_000), 1_000, (20_000, 40_000), 600.0, 5.0, kept=60.0, repeats=1)


@dataclass
class Results:
    """What has been found so far."""

    sizes: Sizes
    found: Found = field(default_factory=dict)
    sampled: set[tuple[Any, ...]] = field(default_factory=set)
    """The figures that are of a tenth of the rows."""
    parts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds whole, and split."""
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.sizes.budget - (time.perf_counter() - self.began)


def contests(sizes: Sizes) -> list[Contest]:
    """Two aggregates at each width, and four at all of them."""
    found = [two(width) for width in sizes.widths]
    many = (10, *sizes.widths)
    return [*found, Contest(f"4 aggregates × {len(many)} windows", ("max", "sum", "std", "count"), many)]


def two(width: int) -> Contest:
    """Two aggregates at a width."""
    return Contest(f"max, sum of {width:,} rows", ("max", "sum"), (width,))


def chosen(table: Table, sizes: Sizes) -> list[Contest]:
    """The contests on a table: of keys with few rows all widths are the same, and a large table needs not all."""
    every = contests(sizes)
    if table.rows // table.keys < sizes.widths[0]:
        return [every[0], every[-1]]
    return every if table.rows == min(sizes.rows) else [every[0], every[-2], every[-1]]


# ---- the tables ----


def table_of(spark: Any, folder: Path, rows: int, keys: int) -> Table:
    """Rows of random keys and values, in order of time, as Parquet."""
    path = str(folder / f"{rows}-{keys}")
    made = spark.range(rows).selectExpr(f"cast(rand(1) * {keys} as long) as k", "id as t", "rand(2) as x")
    made.write.parquet(path)
    return Table(spark.read.parquet(path), rows, keys)


def warm(spark: Any, table: Table, sizes: Sizes) -> None:
    """Run what all have in common once: the first jobs of a JVM, and of a worker, take seconds more."""
    for name in ("identity", "sash", "tree"):
        for contest in (contests(sizes)[0], contests(sizes)[-1]):
            seconds(spark, name, table, contest, sampled=True)


def expected(results: Results, name: str, table: Table, contest: Contest) -> float:
    """Seconds that a contestant will take, by what it took on a smaller table, or by a guess."""
    known = [
        best[name] * table.rows / rows
        for (rows, keys, other), best in results.found.items()
        if keys == table.keys and other == contest.name and name in best
    ]
    return max(known) if known else guessed(name, table, contest)


def compare(spark: Any, table: Table, contest: Contest, results: Results, names: tuple[str, ...]) -> None:
    """One cell: of these contestants each that there is time for, in turn."""
    sizes, small = results.sizes, table.rows == min(results.sizes.rows)
    cell = (table.rows, table.keys, contest.name)
    best = results.found.setdefault(cell, {})
    # the floor does not depend on the query: for a large table once is enough
    alike = [one for known, one in results.found.items() if known[:2] == cell[:2]]
    floors = [one["identity"] for one in alike if "identity" in one]
    if floors and not small:
        best["identity"] = min(floors)
    plan: dict[str, bool] = {}
    left = results.left - (sizes.kept if names == FIRST else 0.0)
    for name in names:
        cost = expected(results, name, table, contest)
        may = left if name in ("identity", "sash") else min(sizes.long, left)
        tenth = cost > may and name in SLOW and table.keys >= (TENTH if name == "pandas" else 1)
        if name not in best and (cost / TENTH if tenth else cost) <= may:
            plan[name] = tenth
    for repeat in range(sizes.repeats):
        for name, tenth in plan.items():
            # of a large table only what the growth needs
            if not repeat or (best[name] < sizes.short if small else name in ("identity", "sash")):
                took = seconds(spark, name, table, contest, tenth)
                best[name] = min(best.get(name, took), took)
    results.sampled |= {(*cell, name) for name, tenth in plan.items() if tenth}


def split(spark: Any, folder: Path, rows: int, results: Results, show: Show) -> None:
    """A hot key, and no key: whole in one partition, and split."""
    path = str(folder / f"hot-{rows}")
    made = spark.range(rows).selectExpr("if(id % 10 = 0, id % 97 + 1, 0) as k", "id as t", "rand(2) as x")
    made.write.parquet(path)
    data = spark.read.parquet(path)
    sizes = results.sizes
    for contest in (contests(sizes)[0], contests(sizes)[-1]):
        for label, by in (("one key with 90 % of the rows", "k"), ("no key", ())):
            cost = rows * 3e-6 * (1 + contest.results / 20)
            if cost > results.left - sizes.kept:
                continue
            best = {1: float("inf"), 2: float("inf")}
            for _ in range(sizes.repeats):
                for parts, fastest in best.items():
                    began = time.perf_counter()
                    written(run_sash(data, contest, by, parts))
                    best[parts] = min(fastest, time.perf_counter() - began)
            results.parts[f"{rows:,} rows, {label}, {contest.name}"] = best[1], best[2]
            show(results)


# ---- the page ----


def line(results: Results, cell: tuple[int, int, str]) -> list[str]:
    """The figures of a cell: seconds, and ratios."""
    best = results.found[cell]

    def bold_best(name: str, figure: float) -> str:
        return ("≈ " if (*cell, name) in results.sampled else "") + f"{figure:.2f}"

    figures = [bold_best(name, best[name]) if name in best else "–" for name in CONTESTANTS]
    floor = f"{best['sash'] / best['identity']:.2f}" if {"sash", "identity"} <= best.keys() else "–"
    ratios = [
        bold_best(name, best[name] / best["sash"]) if {name, "sash"} <= best.keys() else "–"
        for name in ("tree", "Spark", "pandas")
    ]
    return [said(cell), *figures, floor, *ratios]


def limit(found: Found, names: list[str]) -> str:
    """How far ahead of the segment tree a plan can be that takes rows through Python: where that is least."""
    few = min((cell[0] for cell in found), default=0)
    cells = {c: r for c, r in over(found, "tree", "identity").items() if c[0] == few and c[2] in names}
    if not cells:
        return "How far ahead of the segment tree the identity map is was not measured."
    worst = min(cells, key=cells.__getitem__)
    return (
        f"No plan that takes rows through Python is faster than the identity map, which is {cells[worst]:.2f}× ahead "
        f"of the segment tree with {said(worst)}: all of its time, and nearly all of ours, is spent on reading, the "
        "shuffle, sorting, and the transfer to Python and back."
    )


def text(results: Results) -> str:
    """The section, of what has been found."""
    sizes, found = results.sizes, {cell: best for cell, best in results.found.items() if best}
    ratios = {label: one / split for label, (one, split) in results.parts.items()}
    large = {label: ratio for label, ratio in ratios.items() if label.startswith(f"{max(sizes.hot):,} ")}
    names = [contest.name for contest in contests(sizes)[:-1]]
    floor = growth(found, "identity")
    grown = [
        [
            f"{keys:,} keys, {contest}",
            f"{figure:.2f}",
            f"{floor[keys, contest]:.2f}" if (keys, contest) in floor else "–",
        ]
        for (keys, contest), figure in growth(found, "sash").items()
    ]
    header = ["seconds", *CONTESTANTS, "sash / identity", "tree / sash", "Spark / sash", "pandas / sash"]
    parts = [[label, f"{a:.2f}", f"{b:.2f}", f"{a / b:.2f}"] for label, (a, b) in results.parts.items()]
    return "\n\n".join(
        [
            "## Spark, batch",
            (
                "Count windows at each row of a Parquet table, two cores, two shuffle partitions; results go to the "
                "`noop` sink. *identity*: the same plan with an identity map. *tree*: Spark's window functions with "
                "its segment tree. *Spark*: window functions with default settings. *pandas*: `applyInPandas`. The "
                f"best of {sizes.repeats} runs; with {max(sizes.rows):,} rows only of the first two, and a single run "
                f"where it takes more than {sizes.short:.0f} s. ≈: ten times the time for a tenth of the rows, where "
                f"all rows would take more than {sizes.long:.0f} s; for Spark the first rows, whose frames are not all "
                "full yet, for pandas the rows of a tenth of the keys. –: not measured; the benchmark has a limit of "
                f"{sizes.budget:.0f} s, and {max(sizes.rows):,} rows are not measured for the last two. With "
                f"{max(sizes.keys):,} keys each key has so few rows that all widths give the same windows."
            ),
            "The goals, and the worst cell for each, **bold** if it misses the goal:",
            verdicts(found, large, names, two(sizes.wide).name),
            limit(found, names),
            page.table(header, [line(results, cell) for cell in found]),
            (
                f"Growth from {min(sizes.rows):,} to {max(sizes.rows):,} rows, relative to linear growth (1; less "
                "where a fixed cost is spread over more rows):"
            ),
            page.table(["", "sash", "identity"], grown),
            "Split in two, including the job that counts the rows, compared with one partition for the key:",
            page.table(["seconds", "whole", "split", "whole / split"], parts),
        ]
    )


def main(sizes: Sizes, show: Show) -> Results:
    """Time everything, what matters most first; what has been found is shown after each cell."""
    results = Results(sizes)
    spark = sash.spark.session(
        master="local[2]", **{"sql.shuffle.partitions": 2, "driver.memory": "3g", "log.level": "OFF"}
    )
    with tempfile.TemporaryDirectory() as folder:
        small = [table_of(spark, Path(folder), min(sizes.rows), keys) for keys in sizes.keys]
        warm(spark, small[0], sizes)
        for table in small:
            for contest in chosen(table, sizes):
                compare(spark, table, contest, results, FIRST)
                show(results)
        for rows in sizes.hot:
            split(spark, Path(folder), rows, results, show)
        for keys in sizes.keys:
            table = table_of(spark, Path(folder), max(sizes.rows), keys)
            for contest in chosen(table, sizes):
                compare(spark, table, contest, results, FIRST)
                show(results)
        for table in small:
            for contest in chosen(table, sizes):
                compare(spark, table, contest, results, SLOW)
                show(results)
    spark.stop()
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_batch", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small tables, no page written")
    quick = parser.parse_args().quick
    done = main(QUICK if quick else Sizes(), lambda so_far: None if quick else page.write("spark_batch", text(so_far)))
    print(text(done))
    print(f"{done.sizes.budget - done.left:.0f} s of {done.sizes.budget:.0f} s")
