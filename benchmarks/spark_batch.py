"""Spark, batch: seconds for a query on a table of Parquet, beside what Spark's users have today.

    identity      the same plan, repartition and sort, with a map that does nothing: the floor
    sash          this
    tree          Spark's window functions with spark.sql.window.segmentTree.enabled
    Spark         Spark's window functions as they come
    pandas        applyInPandas with rolling of pandas

All read the same file and write to nowhere; the best of some runs, one contestant after the other in each.

`python -m benchmarks.spark_batch` writes its section of docs/performance.md; with `--quick` it runs small and writes
none.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sash
import sash.spark
from benchmarks import page

TREE = "spark.sql.window.segmentTree.enabled"


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rows: tuple[int, ...] = (2_000_000, 20_000_000)
    keys: tuple[int, ...] = (8, 100_000)
    widths: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    bearable: int = 45_000_000_000
    """Rows that Spark as it comes may visit: it folds the frame anew for each row."""
    groups: int = 250_000
    """Groups and aggregates of pandas: each takes a millisecond or more."""
    long: float = 60.0
    """Seconds after which a contestant is not asked again."""
    repeats: int = 3


QUICK = Sizes((20_000, 40_000), (8, 1_000), (100, 1_000), 10_000_000, 1_000, 5.0, 2)


@dataclass(frozen=True)
class Contest:
    """A query of count windows: aggregates over each of some widths."""

    name: str
    aggregates: tuple[str, ...]
    widths: tuple[int, ...]


def contests(sizes: Sizes) -> list[Contest]:
    """Two aggregates at each width, and four at all of them."""
    found = [Contest(f"max, sum of {width:,} rows", ("max", "sum"), (width,)) for width in sizes.widths]
    many = (10, *sizes.widths)
    return [*found, Contest(f"4 aggregates × {len(many)} windows", ("max", "sum", "std", "count"), many)]


# ---- the contestants ----


def identity(data: Any, contest: Contest) -> Any:
    ordered = data.repartition("k").sortWithinPartitions("k", "t")
    return ordered.mapInArrow(lambda batches: batches, data.schema)


def ours(data: Any, contest: Contest) -> Any:
    aggregates = {name: getattr(sash, name)("x") for name in contest.aggregates}
    return sash.rolling(data, {str(width): width for width in contest.widths}, by="k", on="t", **aggregates)


def theirs(data: Any, contest: Contest) -> Any:
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    rows = Window.partitionBy("k").orderBy("t")
    functions = {"max": sf.max, "sum": sf.sum, "std": sf.stddev, "count": sf.count}
    columns = {
        f"{name}_{width}": functions[name]("x").over(rows.rowsBetween(1 - width, 0))
        for width in contest.widths
        for name in contest.aggregates
    }
    return data.withColumns(columns)


def with_pandas(data: Any, contest: Contest) -> Any:
    names = [(name, width) for width in contest.widths for name in contest.aggregates]

    def rolled(group: Any) -> Any:
        group = group.sort_values("t")
        for name, width in names:
            group[f"{name}_{width}"] = getattr(group["x"].rolling(width, min_periods=1), name)()
        return group

    made = ", ".join(f"{name}_{width} double" for name, width in names)
    return data.groupBy("k").applyInPandas(rolled, f"k long, t long, x double, {made}")


CONTESTANTS: dict[str, Callable[[Any, Contest], Any]] = {
    "identity": identity,
    "sash": ours,
    "tree": theirs,
    "Spark": theirs,
    "pandas": with_pandas,
}


def seconds(spark: Any, name: str, data: Any, contest: Contest) -> float:
    """One run of a contestant, to its end."""
    spark.conf.set(TREE, str(name == "tree").lower())
    began = time.perf_counter()
    CONTESTANTS[name](data, contest).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def bearable(name: str, contest: Contest, rows: int, keys: int, sizes: Sizes) -> bool:
    """Would it end in minutes?"""
    if name == "pandas":
        first = contest.widths[0] == sizes.widths[0]  # what it takes for many groups does not depend on the width
        return keys * len(contest.aggregates) * len(contest.widths) <= sizes.groups and (first or keys <= 1_000)
    visited = sum(min(width, rows // keys) for width in contest.widths) * len(contest.aggregates) * rows
    return name != "Spark" or visited <= sizes.bearable


# ---- the tables ----


def table_of(spark: Any, folder: Path, rows: int, keys: int) -> Any:
    """Rows of random keys and values, in order of time, as Parquet."""
    path = str(folder / f"{rows}-{keys}")
    made = spark.range(rows).selectExpr(f"cast(rand(1) * {keys} as long) as k", "id as t", "rand(2) as x")
    made.write.parquet(path)
    return spark.read.parquet(path)


def compared(spark: Any, folder: Path, sizes: Sizes) -> tuple[list[list[str]], list[list[str]]]:
    """A row for each table and query; and how our time and the floor grow with the rows."""
    rows_of_page, taken = [], {}
    for rows in sizes.rows:
        for keys in sizes.keys:
            data = table_of(spark, folder, rows, keys)
            for contest in contests(sizes):
                names = [name for name in CONTESTANTS if bearable(name, contest, rows, keys, sizes)]
                best = dict.fromkeys(names, float("inf"))
                for _ in range(sizes.repeats):
                    for name in names:
                        if best[name] == float("inf") or best[name] < sizes.long:
                            best[name] = min(best[name], seconds(spark, name, data, contest))
                taken[rows, keys, contest.name] = best
                figures = [f"{best[name]:.2f}" if name in best else "–" for name in CONTESTANTS]
                ratios = [
                    f"{best[name] / best['sash']:.2f}" if name in best else "–" for name in ("tree", "Spark", "pandas")
                ]
                over = f"{best['sash'] / best['identity']:.2f}"
                rows_of_page.append([f"{rows:,} rows, {keys:,} keys, {contest.name}", *figures, over, *ratios])
    return rows_of_page, _growth(taken, sizes)


def _growth(taken: dict[Any, dict[str, float]], sizes: Sizes) -> list[list[str]]:
    least, most = min(sizes.rows), max(sizes.rows)
    return [
        [f"{keys:,} keys, {contest.name}"]
        + [
            f"{taken[most, keys, contest.name][n] / taken[least, keys, contest.name][n]:.2f}"
            for n in ("sash", "identity")
        ]
        for keys in sizes.keys
        for contest in contests(sizes)
    ]


def split(spark: Any, folder: Path, sizes: Sizes) -> list[list[str]]:
    """A hot key, and no key: whole in one partition, and split."""
    path, found = str(folder / "hot"), []
    made = spark.range(sizes.rows[0]).selectExpr("if(id % 10 = 0, id % 97 + 1, 0) as k", "id as t", "rand(2) as x")
    made.write.parquet(path)
    data = spark.read.parquet(path)
    contest = contests(sizes)[-1]
    windows = {str(width): width for width in contest.widths}
    aggregates = {name: getattr(sash, name)("x") for name in contest.aggregates}
    for label, by in (("one key with 90 % of the rows", "k"), ("no key", ())):
        best = {1: float("inf"), 2: float("inf")}
        for _ in range(sizes.repeats):
            for parts, fastest in best.items():
                began = time.perf_counter()
                options = sash.Options(split=parts)
                got = sash.rolling(data, windows, by=by, on="t", options=options, **aggregates)
                got.write.format("noop").mode("overwrite").save()
                best[parts] = min(fastest, time.perf_counter() - began)
        found.append([f"{label}, {contest.name}", f"{best[1]:.2f}", f"{best[2]:.2f}", f"{best[1] / best[2]:.2f}"])
    return found


def main(quick: bool) -> str:
    """Time, and give the section."""
    sizes = QUICK if quick else Sizes()
    spark = sash.spark.session(
        master="local[2]", **{"sql.shuffle.partitions": 2, "driver.memory": "3g", "log.level": "OFF"}
    )
    with tempfile.TemporaryDirectory() as folder:
        rows, growth = compared(spark, Path(folder), sizes)
        parts = split(spark, Path(folder), sizes)
    spark.stop()
    header = ["seconds", *CONTESTANTS, "sash / identity", "tree / sash", "Spark / sash", "pandas / sash"]
    return "\n\n".join(
        [
            "## Spark, batch",
            (
                "Count windows per row on a table of Parquet, two cores, two shuffle partitions, results written to "
                "nowhere. *identity* is the same plan with a map that does nothing, *tree* Spark's window functions "
                "with its segment tree, *Spark* the same as they come, *pandas* `applyInPandas` (– where it would take "
                "too long)."
            ),
            page.table(header, rows),
            f"Growth from {min(sizes.rows):,} to {max(sizes.rows):,} rows, in times:",
            page.table(["", "sash", "identity"], growth),
            f"Split in two, {sizes.rows[0]:,} rows, the look at the rows included, against one partition for the key:",
            page.table(["seconds", "whole", "split", "whole / split"], parts),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_batch", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small tables, no page written")
    chosen = parser.parse_args()
    text = main(chosen.quick)
    if not chosen.quick:
        page.write("spark_batch", text)
    print(text)
