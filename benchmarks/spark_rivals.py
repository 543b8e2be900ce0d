"""The contestants on Spark, batch: what its users have today, and the floor.

    identity      the same plan, repartition and sort, with a map that does nothing: the floor
    sash          this
    tree          Spark's window functions with spark.sql.window.segmentTree.enabled
    Spark         Spark's window functions as they come
    pandas        applyInPandas with rolling of pandas

Two of them grow with what the others do not: Spark with the width, pandas with the number of keys. Where that is more
than can be waited for, they get a tenth of the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sash

TREE = "spark.sql.window.segmentTree.enabled"
TENTH = 10


@dataclass(frozen=True)
class Contest:
    """A query of count windows: aggregates over each of some widths."""

    name: str
    aggregates: tuple[str, ...]
    widths: tuple[int, ...]

    @property
    def results(self) -> int:
        """How many results a row has."""
        return len(self.aggregates) * len(self.widths)


@dataclass(frozen=True)
class Table:
    """Rows on disk: how many, of how many keys."""

    data: Any
    rows: int
    keys: int


def identity(data: Any, _contest: Contest) -> Any:
    ordered = data.repartition("k").sortWithinPartitions("k", "t")
    return ordered.mapInArrow(lambda batches: batches, data.schema)


def ours(data: Any, contest: Contest) -> Any:
    return run_sash(data, contest, "k")


def run_sash(data: Any, contest: Contest, by: Any, split: int = 1) -> Any:
    """Run sash, with the rows of each key split into this many time ranges."""
    aggregates = {name: getattr(sash, name)("x") for name in contest.aggregates}
    windows = {str(width): width for width in contest.widths}
    return sash.rolling(data, windows, by=by, on="t", options=sash.Options(split=split), **aggregates)


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

    def run_pandas(group: Any) -> Any:
        group = group.sort_values("t")
        for name, width in names:
            group[f"{name}_{width}"] = getattr(group["x"].rolling(width, min_periods=1), name)()
        return group

    made = ", ".join(f"{name}_{width} double" for name, width in names)
    return data.groupBy("k").applyInPandas(run_pandas, f"k long, t long, x double, {made}")


CONTESTANTS: dict[str, Callable[[Any, Contest], Any]] = {
    "identity": identity,
    "sash": ours,
    "tree": theirs,
    "Spark": theirs,
    "pandas": with_pandas,
}


def written(result: Any) -> None:
    """Compute a result completely, and write it to the `noop` sink."""
    result.write.format("noop").mode("overwrite").save()


def seconds(spark: Any, name: str, table: Table, contest: Contest, sampled: bool) -> float:
    """One run of a contestant, to its end; on a tenth of the rows the time of ten such runs."""
    spark.conf.set(TREE, str(name == "tree").lower())
    data = table.data
    if (
        sampled
    ):  # Spark on the first tenth of the time, where frames are not all full yet; pandas on a tenth of the keys
        data = data.filter(f"k < {table.keys // TENTH}" if name == "pandas" else f"t < {table.rows // TENTH}")
    began = time.perf_counter()
    written(CONTESTANTS[name](data, contest))
    return (time.perf_counter() - began) * (TENTH if sampled else 1)


def guessed(name: str, table: Table, contest: Contest) -> float:
    """Estimated seconds of a contestant without a measurement, from earlier runs on two cores."""
    if name == "Spark":
        visited = sum(min(width, table.rows // table.keys) for width in contest.widths) * len(contest.aggregates)
        return table.rows * (2e-6 + visited * 6e-9)
    if name == "pandas":
        return table.keys * (1e-3 + 2e-4 * contest.results) / 2 + table.rows * contest.results * 1e-7
    return table.rows * (5e-7 + {"tree": 4e-7, "sash": 1e-7}.get(name, 0) * contest.results)
