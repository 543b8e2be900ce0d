"""Point-in-time features, compared with DuckDB and polars: aggregates of the events before each row of a spine.

All take turns on the same tables, end to end from and to their own kind of frame. The others have several ways:

    DuckDB, range join       spine LEFT JOIN events ON k = k AND t in the window, GROUP BY: each pair of rows is made
    DuckDB, windows          both tables in one, window functions over RANGE, rows of the spine kept
    polars, rolling          both tables in one, rolling_…_by(closed="left") over the key, rows of the spine kept
    polars, join_asof        running sums of the events, joined at both ends of each window, and subtracted: only for
                             counts and sums, and inexact for floats
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import sash
from benchmarks import page
from benchmarks.timing import best_of

WINDOWS = {"1h": 1, "6h": 6, "1d": 24, "3d": 72, "7d": 168}
"""The windows, in hours."""

KINDS: dict[str, dict[str, Any]] = {
    "count, sum": {"n": sash.count(), "total": sash.sum("x")},
    "count, sum, max": {"n": sash.count(), "total": sash.sum("x"), "high": sash.max("x")},
}
OURS = "sash on polars"
RIVALS = ("DuckDB, range join", "DuckDB, windows", "polars, rolling", "polars, join_asof")
GOAL = 5.0
DAYS, KEYS = 30, 1000
MILLISECONDS = DAYS * 86_400_000


@dataclass(frozen=True)
class Sizes:
    """How many events and rows of the spine."""

    pairs: tuple[tuple[int, int], ...] = ((1_000_000, 100_000), (10_000_000, 1_000_000))
    joined: int = 2_000
    """Rows of the spine that the range join gets: its time is proportional to them."""
    most: int = 1_000_000
    """Events that DuckDB gets: of more, the keys that have about as many."""
    repeats: int = 3
    seconds: float = 20.0


QUICK = Sizes(((20_000, 2_000),), 500, 5_000, 1, 0.1)


@dataclass(frozen=True)
class Tables:
    """Events in order of time, and a spine in none."""

    events: pl.DataFrame
    spine: pl.DataFrame

    @staticmethod
    def of(events: int, spine: int, keys: int = KEYS) -> Tables:
        """Rows at random: 30 days, each key alike."""
        chance = np.random.default_rng(7)

        def times(count: int) -> Any:
            return chance.integers(0, MILLISECONDS, count).astype("datetime64[ms]")

        made = {"k": chance.integers(0, keys, events), "t": np.sort(times(events)), "x": chance.normal(size=events)}
        return Tables(
            pl.DataFrame(made),
            pl.DataFrame({"id": np.arange(spine), "k": chance.integers(0, keys, spine), "t": times(spine)}),
        )

    def keys_below(self, key: int) -> Tables:
        """The rows of the first keys; the spine's are renumbered."""
        spine = self.spine.filter(pl.col("k") < key).with_columns(id=pl.int_range(pl.len()))
        return Tables(self.events.filter(pl.col("k") < key), spine)


def ours(tables: Tables, kind: str) -> pl.DataFrame:
    """sash.as_of."""
    windows = {name: f"{hours}h" for name, hours in WINDOWS.items()}
    return sash.as_of(tables.spine, tables.events, windows, by="k", on="t", **KINDS[kind])


# ---- DuckDB ----

SQL = {"n": "count(x)", "total": "sum(x)", "high": "max(x)"}


def in_duckdb(tables: Tables) -> duckdb.DuckDBPyConnection:
    """Both tables in memory."""
    connection = duckdb.connect()
    for name, frame in (("events", tables.events), ("spine", tables.spine)):
        connection.register("given", frame.to_arrow())
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return connection


def range_join(connection: duckdb.DuckDBPyConnection, kind: str, rows: int) -> pa.Table:
    """A join for each window, of the first rows of the spine."""
    parts = []
    for name, hours in WINDOWS.items():
        made = ", ".join(f"{SQL[one]} AS {one}_{name}" for one in KINDS[kind])
        parts.append(
            f"(SELECT s.id, {made} FROM spine s LEFT JOIN events e ON s.k = e.k AND e.t < s.t "
            f"AND e.t >= s.t - INTERVAL {hours} HOUR WHERE s.id < {rows} GROUP BY s.id) AS w_{name}"
        )
    joined = " JOIN ".join([parts[0], *(f"{part} USING (id)" for part in parts[1:])])
    return connection.sql(f"SELECT * FROM {joined} ORDER BY id").to_arrow_table()


def windows_of_both(connection: duckdb.DuckDBPyConnection, kind: str) -> pa.Table:
    """Window functions over spine and events in one table."""
    over = ", ".join(
        f"w_{name} AS (PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL {hours} HOUR PRECEDING AND INTERVAL 1 "
        "MILLISECOND PRECEDING)"
        for name, hours in WINDOWS.items()
    )
    made = ", ".join(f"{SQL[one]} OVER w_{name} AS {one}_{name}" for name in WINDOWS for one in KINDS[kind])
    both = "SELECT NULL AS id, k, t, x FROM events UNION ALL SELECT id, k, t, NULL FROM spine"
    query = f"SELECT id, {made} FROM ({both}) WINDOW {over}"
    return connection.sql(f"SELECT * FROM ({query}) WHERE id IS NOT NULL ORDER BY id").to_arrow_table()


# ---- polars ----


def rolling_of_both(tables: Tables, kind: str) -> pl.DataFrame:
    """rolling functions over spine and events in one frame."""
    x = pl.col("x")
    made: dict[str, Callable[[timedelta], pl.Expr]] = {
        "n": lambda size: x.is_not_null().cast(pl.Int64).rolling_sum_by("t", size, closed="left"),
        "total": lambda size: x.rolling_sum_by("t", size, closed="left"),
        "high": lambda size: x.rolling_max_by("t", size, closed="left"),
    }
    both = pl.concat([tables.events, tables.spine], how="diagonal").sort("t")
    columns = [
        made[one](timedelta(hours=hours)).over("k").alias(f"{one}_{name}")
        for name, hours in WINDOWS.items()
        for one in KINDS[kind]
    ]
    return both.lazy().with_columns(columns).filter(pl.col("id").is_not_null()).sort("id").collect()


def sums_joined(tables: Tables) -> pl.DataFrame:
    """Running counts and sums, joined at the ends of each window and subtracted."""
    running = tables.events.select(
        "k", "t", n=pl.int_range(1, pl.len() + 1).over("k"), total=pl.col("x").cum_sum().over("k")
    )
    found = tables.spine.sort("t").join_asof(running, on="t", by="k", allow_exact_matches=False, check_sortedness=False)
    for name, hours in WINDOWS.items():
        starts = found.select("id", "k", t=pl.col("t") - timedelta(hours=hours))
        before = starts.join_asof(running, on="t", by="k", allow_exact_matches=False, check_sortedness=False)
        found = found.with_columns(
            **{f"{one}_{name}": pl.col(one).fill_null(0) - before[one].fill_null(0) for one in ("n", "total")}
        )
    return found.drop("n", "total").sort("id")


# ---- the table ----


def measure(tables: Tables, kind: str, sizes: Sizes) -> dict[str, float]:
    """Seconds of each, the best of several runs; those of the range join are extrapolated."""
    share = max(tables.events.height // sizes.most, 1)
    few = tables.keys_below(KEYS // share)
    connection = in_duckdb(few)
    rows = min(sizes.joined, few.spine.height)
    runs: dict[str, Callable[[], object]] = {
        OURS: partial(ours, tables, kind),
        "DuckDB, range join": partial(range_join, connection, kind, rows),
        "DuckDB, windows": partial(windows_of_both, connection, kind),
        "polars, rolling": partial(rolling_of_both, tables, kind),
    }
    if kind == "count, sum":
        runs["polars, join_asof"] = partial(sums_joined, tables)
    ours(tables, kind)  # compiles
    found = best_of(runs, sizes.repeats, sizes.seconds)
    found["DuckDB, range join"] *= tables.spine.height / rows
    found["DuckDB, windows"] *= share
    return found


def cells(figures: dict[str, float]) -> list[str]:
    """A line of the table: ours with the ratio to the fastest of the others, in bold where the goal is missed."""
    best = min(figures[rival] for rival in RIVALS if rival in figures)
    ratio = f"{best / figures[OURS]:.1f}×"
    mine = f"{figures[OURS]:.2f} ({ratio if best >= GOAL * figures[OURS] else f'**{ratio}**'})"
    return [mine, *(f"{figures[rival]:,.2f}" if rival in figures else "–" for rival in RIVALS)]


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    lines = []
    for events, spine in sizes.pairs:
        tables = Tables.of(events, spine)
        lines += [
            [f"{kind}: {events:,} events, {spine:,} rows", *cells(measure(tables, kind, sizes))] for kind in KINDS
        ]
    return "\n\n".join(
        [
            "## As of: point-in-time features",
            (
                "Seconds for the aggregates of the events before each row of a spine, over five windows of 1 hour to 7 "
                f"days, {KEYS:,} keys, {DAYS} days. In brackets: how many times as long the fastest other takes, "
                f"**bold** where that is less than {GOAL:.0f}. DuckDB gets only the keys of about {sizes.most:,} "
                f"events, the range join only {sizes.joined:,} rows of their spine, and their times are extrapolated. "
                "“Windows” and “rolling” run over the union of both tables and keep the rows of the spine. “join_asof” "
                "subtracts running sums, which loses digits, and does not support max."
            ),
            page.table(["", OURS, *RIVALS], lines),
        ]
    )
