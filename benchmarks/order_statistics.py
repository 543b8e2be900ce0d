"""Exact medians, quantiles, ranks and distinct counts, compared with pandas, polars, bottleneck and DuckDB.

All take turns on the same columns. A figure is nanoseconds of processor time a row, of all threads, end to end on the
contestant's own kind of frame; ours, on one thread, have in brackets how many times as long the fastest of the others
takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import bottleneck
import duckdb
import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray

import sash
from benchmarks import page
from benchmarks.timing import best_of

OURS = ("sash on pandas", "sash on polars")
RIVALS = ("pandas", "polars", "bottleneck", "DuckDB")
GOAL = 3.0
"""How many times as fast as the fastest of the others ours must be."""

ONE_THREAD = sash.Options(threads=1)
X = pl.col("x")
AGGREGATES = {
    "median": sash.median("x"),
    "quantile 0.9": sash.quantile("x", q=0.9),
    "rank": sash.rank("x"),
    "count_distinct": sash.count_distinct("x"),
}
PANDAS: dict[str, Callable[[Any], Any]] = {
    "median": lambda rolling: rolling.median(),
    "quantile 0.9": lambda rolling: rolling.quantile(0.9),
    "rank": lambda rolling: rolling.rank(),
}
POLARS: dict[str, Callable[[int], pl.Expr]] = {
    "median": lambda width: X.rolling_median(width, min_samples=1),
    "quantile 0.9": lambda width: X.rolling_quantile(0.9, "linear", window_size=width, min_samples=1),
    "rank": lambda width: X.rolling_rank(width, min_samples=1),
    "count_distinct": lambda width: X.n_unique().rolling(pl.int_range(pl.len()), period=f"{width}i"),
}
BOTTLENECK: dict[str, Callable[..., NDArray[Any]]] = {
    "median": bottleneck.move_median,
    "rank": bottleneck.move_rank,  # from -1 to 1
}
DUCKDB = {
    "median": "median(x)",
    "quantile 0.9": "quantile_cont(x, 0.9)",
    "count_distinct": "count(DISTINCT x)",
}


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    rows: int = 1_000_000
    widths: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000)
    sampled: int = 250_000
    """Rows for the slow: pandas, DuckDB, and everybody but us for ranks."""
    folded: int = 100_000_000
    """The maximum number of values that libraries that recompute each window may read."""
    repeats: int = 5
    seconds: float = 2.0


QUICK = Sizes(100_000, (10, 1000), 20_000, 1_000_000, 1, 0.2)


def columns(rows: int) -> dict[str, NDArray[np.float64]]:
    """Values at random, values that rise and fall, and twenty different values."""
    chance = np.random.default_rng(13)
    return {
        "random": chance.random(rows),
        "random walk": np.cumsum(chance.normal(size=rows)),
        "20 values": chance.integers(0, 20, rows).astype(np.float64),
    }


def ours_on(frame: Any, name: str, width: int) -> Any:
    """Ours, on a frame of pandas or polars."""
    return sash.rolling(frame, width, options=ONE_THREAD, out=AGGREGATES[name])


def by_pandas(frame: pd.DataFrame, name: str, width: int) -> pd.DataFrame:
    result = frame.copy(deep=False)
    result["out"] = PANDAS[name](frame["x"].rolling(width, min_periods=1))
    return result


def by_polars(frame: pl.DataFrame, name: str, width: int) -> pl.DataFrame:
    return frame.with_columns(out=POLARS[name](width))


def by_bottleneck(x: NDArray[Any], name: str, width: int) -> NDArray[Any]:
    return BOTTLENECK[name](x, width, min_count=1)


def by_duckdb(connection: duckdb.DuckDBPyConnection, name: str, width: int) -> Any:
    over = f"(ORDER BY i ROWS BETWEEN {width - 1} PRECEDING AND CURRENT ROW)"
    return connection.execute(
        f"CREATE OR REPLACE TABLE result AS SELECT *, {DUCKDB[name]} OVER {over} AS out FROM rows"
    )


def in_duckdb(x: NDArray[Any]) -> duckdb.DuckDBPyConnection:
    """A table in memory."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", pl.DataFrame({"i": np.arange(len(x)), "x": x}).to_arrow())
    connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return connection


def rows_of(rival: str, name: str, width: int, sizes: Sizes) -> int:
    """How many rows a rival gets; 0: it lacks the function, or its share does not hold two windows."""
    has = {"pandas": PANDAS, "polars": POLARS, "bottleneck": BOTTLENECK, "DuckDB": DUCKDB}[rival]
    if name not in has:
        return 0
    rows = sizes.rows
    if rival in ("pandas", "DuckDB") or name == "rank":
        rows = min(rows, sizes.sampled)
    folds = (rival, name) in (("bottleneck", "rank"), ("polars", "count_distinct"))
    if folds or rival == "DuckDB":
        rows = min(rows, sizes.folded // width)
    return rows if rows >= 2 * width else 0


def measure(x: NDArray[Any], name: str, width: int, sizes: Sizes) -> dict[str, float]:
    """Nanoseconds a row of everybody who can, in turn, the best of some; and of our `max`."""
    make: dict[str, Callable[[NDArray[Any]], Any]] = {
        "pandas": lambda x: pd.DataFrame({"x": x}),
        "polars": lambda x: pl.DataFrame({"x": x}),
        "bottleneck": lambda x: x,
        "DuckDB": in_duckdb,
    }
    by = {"pandas": by_pandas, "polars": by_polars, "bottleneck": by_bottleneck, "DuckDB": by_duckdb}
    rows: dict[str, int] = dict.fromkeys((*OURS, "max"), len(x))
    runs: dict[str, Any] = {
        "sash on pandas": partial(ours_on, make["pandas"](x), name, width),
        "sash on polars": partial(ours_on, make["polars"](x), name, width),
        "max": partial(sash.rolling, make["polars"](x), width, options=ONE_THREAD, out=sash.max("x")),
    }
    for run in runs.values():
        run()  # compiles
    for rival in RIVALS:
        rows[rival] = rows_of(rival, name, width, sizes)
        if rows[rival]:
            runs[rival] = partial(by[rival], make[rival](x[: rows[rival]]), name, width)
    best = best_of(runs, sizes.repeats, sizes.seconds, time.process_time)
    return {who: taken / rows[who] * 1e9 for who, taken in best.items()}


def cells(figures: dict[str, float]) -> list[str]:
    """A line of the table: ours with the ratio, in bold where the goal is missed; the ratio to `max`."""
    best = min((figures[rival] for rival in RIVALS if rival in figures), default=None)
    line = []
    for who in (*OURS, *RIVALS):
        text = f"{figures[who]:,.1f}" if who in figures else "–"
        if who in OURS and best is not None:
            ratio = f"{best / figures[who]:.2f}×"
            text += f" ({ratio if best >= GOAL * figures[who] else f'**{ratio}**'})"
        line.append(text)
    return [*line, f"{figures['sash on polars'] / figures['max']:.1f}×"]


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    parts = [
        "## Order statistics",
        (
            "Exact medians, quantiles, ranks and numbers of distinct values: nanoseconds of processor time a row, "
            f"{sizes.rows:,} rows of float64, against the number of rows in the window; ours on one thread. In "
            "brackets: how many times as long the fastest other library takes, **bold** where that is less than "
            f"{GOAL:.0f}. The last column: our time on polars relative to our `max` over the same windows. pandas and "
            f"DuckDB get {sizes.sampled:,} rows, and so do all others for ranks. For numbers of distinct values polars "
            "recomputes each window, and so does bottleneck for ranks, so they and DuckDB get fewer rows: at most "
            f"{sizes.folded:,} values in all. –: not measured, because that is less than two windows, or because there "
            "is no such function. numbagg has none of them."
        ),
        (
            "On two threads, by elapsed time, the fastest of five runs on an idle machine: medians of these columns on "
            "polars are 3.6 to 8.2 times ahead of the faster of polars and bottleneck, quantiles 3.1 to 8.7 times "
            "ahead of polars."
        ),
        (
            "What a median spends its time on, in nanoseconds a row of one core, measured separately: over 10 rows 6 "
            "in the kernel and 2 to 4 to read and write a frame; over 100 rows 17, three quarters of it to insert into "
            "sorted arrays of 100 keys, eight at once. Over 1,000, 10,000 and 100,000 random values 4 to 6 put the "
            "rows into buckets by value, and the rest, of 16, 15 and 22 in all, updates the set of ranks and its "
            "cursor, and sorts the buckets that the median visits. The median of a random walk visits most of them: "
            "over 1,000 and 10,000 rows 10 and 14 of 21 and 24 rank all values, and over 100,000, in 28, nearly all "
            "buckets are sorted. `count_distinct` takes 5 to 7 in the kernel up to 10,000 rows, and 12 over 100,000 "
            "different values, whose hash table of 4 MB is beyond the second-level cache: a smaller one takes longer, "
            "because more keys collide."
        ),
    ]
    for kind, x in columns(sizes.rows).items():
        lines = [
            [f"{name}, {width:,}", *cells(measure(x, name, width, sizes))]
            for name in AGGREGATES
            for width in sizes.widths
        ]
        parts += [f"### Order statistics: {kind}", page.table(["", *OURS, *RIVALS, "to max"], lines)]
    return "\n\n".join([*parts, *by_time(sizes)])


# ---- windows in time ----


def timed(x: NDArray[Any]) -> pl.DataFrame:
    """A column with times that rise by 1 to 999 µs, in order."""
    steps = np.random.default_rng(14).integers(1, 1000, len(x))
    return pl.DataFrame({"t": np.cumsum(steps).astype("datetime64[us]"), "x": x}).set_sorted("t")


def by_time_of(who: str, frame: Any, name: str, period: str) -> Any:
    """The results of one contestant for windows of a period."""
    if who in OURS:
        return sash.rolling(frame, period, on="t", options=ONE_THREAD, out=AGGREGATES[name])
    if who == "pandas":
        result = frame.copy(deep=False)
        result["out"] = PANDAS[name](frame.rolling(period, on="t")["x"])
        return result
    if name == "median":
        return frame.with_columns(out=X.rolling_median_by("t", period))
    return frame.with_columns(out=X.rolling_quantile_by("t", period, quantile=0.9, interpolation="linear"))


def by_time(sizes: Sizes) -> list[str]:
    """Time, and give the part about windows in time."""
    parts = [
        "### Order statistics: windows in time",
        (
            "The same for time windows that contain that many rows on average; bottleneck has none, and DuckDB is not "
            "measured. The last column is as above."
        ),
    ]
    lines = []
    for kind, x in columns(sizes.rows).items():
        for name in ("median", "quantile 0.9"):
            for width in sizes.widths:
                frame, period = timed(x), f"{500 * width}us"
                frames = {"sash on pandas": frame.to_pandas(), "sash on polars": frame, "polars": frame}
                frames["pandas"] = frames["sash on pandas"][: sizes.sampled]
                runs = {who: partial(by_time_of, who, own, name, period) for who, own in frames.items()}
                runs["max"] = partial(sash.rolling, frame, period, on="t", options=ONE_THREAD, out=sash.max("x"))
                for who in (*OURS, "max"):
                    runs[who]()  # compiles
                best = best_of(runs, sizes.repeats, sizes.seconds, time.process_time)
                rows = {who: len(own) for who, own in frames.items()}
                figures = {who: taken / rows.get(who, sizes.rows) * 1e9 for who, taken in best.items()}
                line = cells(figures)
                lines.append([f"{kind}: {name}, {width:,}", *line[:4], line[-1]])
    return [*parts, page.table(["", *OURS, "pandas", "polars", "to max"], lines)]
