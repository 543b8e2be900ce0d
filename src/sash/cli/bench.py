"""The command bench: measure queries on this machine, and compare with pandas, polars and DuckDB if they support them.

All engines compute a query in turn, round by round, so that other load on the machine slows all of them. The first
round compiles and is not counted; the fastest of the others counts. Results are compared by their sums.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from sash.cli.commands import Json, app
from sash.cli.job_commands import Changes
from sash.cli.terminal import write_error, write_json, write_rows
from sash.monoids import functions
from sash.monoids.algebra import Bound
from sash.monoids.functions import AGGREGATES
from sash.plan.query import Query
from sash.windows import Count, Time
from sash.windows.duration import UNITS

if TYPE_CHECKING:
    from sash.cli.job_pipeline import PreparedJob


# --- Bench rivals ---

FUNCTIONS = frozenset(("max", "min", "sum", "mean", "median", "std", "var"))
"""The aggregates that all rivals have, by their names here, in pandas and in polars."""

IN_SQL = {"mean": "avg", "std": "stddev_samp", "var": "var_samp"}


@dataclass(frozen=True)
class Comparable:
    """A query that rivals can compute: one window at each row, and aggregates of single columns.

    size: rows of the window, or its length in units of the time column.
    unit: nanoseconds in a unit of the time column; 0 for numbers; None for a window of rows.
    """

    by: tuple[str, ...]
    on: str | None
    size: int
    unit: int | None
    aggregates: dict[str, tuple[str, str]]
    """By name: the function and the column."""


def comparable(query: Query, schema: pa.Schema) -> Comparable | str:
    """The query in a form that rivals can compute, or the reason why they cannot."""
    bound = query.bind(schema)
    if len(bound.windows) != 1 or len(query.on) > 1:
        return "it has several windows, or several order columns"
    (window,) = bound.windows
    rule = window.rule
    plain = (rule.in_time or rule.measure == "rows") and rule.closed_end and not rule.closed_start
    if not plain or window.slide != "row" or rule.full or not rule.is_fixed:
        return f"no rival has {window.window!r} at each row"
    found = {}
    for name, one in query.aggregates.items():
        function = _function(one)
        if function is None:
            return f"not all rivals have {name} = {one!r}"
        found[name] = function
    if query.min_periods:
        return "not all rivals have min_periods="
    on = query.on[0] if query.on else None
    time_type = None if rule.measure == "rows" else schema.field(on).type
    unit = None if time_type is None else UNITS[time_type.unit] if pa.types.is_timestamp(time_type) else 0
    return Comparable(query.by, on, int(window.size or 0), unit, found)


def _function(one: Any) -> tuple[str, str] | None:
    """The function and the column of an aggregate; None if not all rivals have it."""
    if not isinstance(one, Bound) or not one.is_plain or one.window is not None:
        return None
    name = one.monoid.name
    if AGGREGATES.get(name) is not type(one.monoid) or name not in FUNCTIONS or getattr(one.monoid, "ddof", 1) != 1:
        return None
    return name, str(one.columns[0])


def rivals(query: Comparable, table: pa.Table) -> dict[str, Callable[[], Any]]:
    """By name of an installed rival: a function that computes the query, and returns its results by column.

    The table must be sorted by time. It is converted in advance, which is not measured.
    """
    made = {"pandas": _pandas, "polars": _polars, "duckdb": _duckdb}
    return {name: make(query, table) for name, make in made.items() if find_spec(name) is not None}


def _pandas(query: Comparable, table: pa.Table) -> Callable[[], Any]:
    import pandas as pd

    frame = table.to_pandas()
    if query.unit == 0:  # pandas has time windows only for timestamps
        frame[query.on] = frame[query.on].astype("datetime64[ns]")
    length: Any = query.size if query.unit is None else pd.Timedelta(query.size * (query.unit or 1), "ns")
    on = None if query.unit is None else query.on

    def compute() -> dict[str, Any]:
        grouped = frame.groupby(list(query.by), sort=False) if query.by else frame
        rolling = grouped.rolling(length, min_periods=1, on=on)
        return {name: getattr(rolling[column], how)().to_numpy() for name, (how, column) in query.aggregates.items()}

    return compute


def _polars(query: Comparable, table: pa.Table) -> Callable[[], Any]:
    import polars as pl

    frame: Any = pl.from_arrow(table)
    length = f"{query.size}i" if query.unit == 0 else f"{query.size * (query.unit or 1)}ns"
    expressions = []
    for name, (how, column) in query.aggregates.items():
        if query.unit is None:
            made = getattr(pl.col(column), f"rolling_{how}")(query.size, min_samples=1)
        else:
            made = getattr(pl.col(column), f"rolling_{how}_by")(query.on, length)
        expressions.append((made.over(query.by) if query.by else made).alias(name))

    def compute() -> dict[str, Any]:
        found = frame.select(expressions)
        return {name: found[name].to_numpy() for name in query.aggregates}

    return compute


def _duckdb(query: Comparable, table: pa.Table) -> Callable[[], Any]:
    import duckdb

    connection = duckdb.connect()
    connection.register("rows_of_job", table)
    connection.execute("CREATE TABLE data AS SELECT *, row_number() OVER () AS place FROM rows_of_job")
    order = f'"{query.on}"' if query.on else "place"
    if query.unit is None:
        frame = f"ROWS {query.size - 1} PRECEDING"
    elif query.unit == 0:
        frame = f"RANGE BETWEEN {query.size - 1} PRECEDING AND CURRENT ROW"
    else:  # RANGE includes both ends: subtract 1 µs, the resolution of DuckDB
        microseconds = max(query.size * query.unit // 1000 - 1, 0)
        frame = f"RANGE BETWEEN INTERVAL {microseconds} MICROSECONDS PRECEDING AND CURRENT ROW"
    keys = "PARTITION BY " + ", ".join(f'"{name}"' for name in query.by) if query.by else ""
    calls = [
        f'{IN_SQL.get(how, how)}("{column}") OVER w AS "{name}"' for name, (how, column) in query.aggregates.items()
    ]
    statement = f"SELECT {', '.join(calls)} FROM data WINDOW w AS ({keys} ORDER BY {order} {frame})"

    def compute() -> dict[str, Any]:
        found = connection.execute(statement).fetchnumpy()
        return {name: found[name] for name in query.aggregates}

    return compute


# --- Bench ---

CLOSE = 1e-6
"""The relative difference up to which sums of results are equal."""


@dataclass(frozen=True)
class BenchCase:
    """A query and the rows that it is measured on, in order of time."""

    name: str
    query: Query
    table: pa.Table


@dataclass(frozen=True)
class EngineTime:
    """The time of one engine for a query."""

    case: str
    engine: str
    seconds: float
    rows_per_second: float
    ratio: float
    """Its time relative to that of sash: 2.0 is twice as slow."""
    equal: bool
    """Are its results equal to those of sash?"""


def standard_cases(rows: int, keys: int) -> Iterator[BenchCase]:
    """Common queries on generated rows: prices of some keys, a random walk, one row a second."""
    rng = np.random.default_rng(1)
    seconds = np.arange(rows, dtype=np.int64) * 1_000_000
    columns = {
        "ts": pa.array(seconds, pa.timestamp("us")),
        "symbol": pa.array(rng.integers(0, keys, rows)),
        "price": pa.array(100 + rng.normal(0, 0.1, rows).cumsum()),
    }
    table = pa.table(columns)
    made: dict[str, tuple[Any, Any]] = {
        "max of 100 rows": (Count(100), functions.max("price")),
        "mean of 1,000 rows": (Count(1000), functions.mean("price")),
        "median of 100 rows": (Count(100), functions.median("price")),
        "sum of an hour": (Time("1h"), functions.sum("price")),
        "std of an hour": (Time("1h"), functions.std("price")),
    }
    for name, (window, aggregate) in made.items():
        yield BenchCase(name, Query(window, by="symbol", on="ts", result=aggregate), table)


def measure(case: BenchCase, rounds: int, clock: Callable[[], float] = time.perf_counter) -> list[EngineTime]:
    """The times of sash, and of the rivals that can compute the query, in that order."""
    query = comparable(case.query, case.table.schema)
    engines: dict[str, Callable[[], Any]] = {"sash": lambda: _results(case)}
    if isinstance(query, Comparable):
        engines |= rivals(query, case.table)
    sums = {name: _sums(compute()) for name, compute in engines.items()}
    best = dict.fromkeys(engines, float("inf"))
    for _ in range(rounds):
        for name, compute in engines.items():
            start = clock()
            compute()
            best[name] = min(best[name], clock() - start)
    rows, own = case.table.num_rows, best["sash"]
    return [
        EngineTime(case.name, name, seconds, rows / seconds, seconds / own, _are_close(sums[name], sums["sash"]))
        for name, seconds in best.items()
    ]


def _results(case: BenchCase) -> dict[str, Any]:
    found: Any = case.query.run(case.table)
    return {name: found.column(name) for name in found.column_names if name not in case.table.column_names}


def _sums(results: dict[str, Any]) -> dict[str, float]:
    """The sum of each column of numbers, without nulls; 0 for others."""
    found = {}
    for name, column in results.items():
        values = column.to_numpy() if hasattr(column, "to_numpy") else column
        values = np.ma.filled(values.astype(np.float64), np.nan) if values.dtype.kind in "fiu" else np.zeros(1)
        found[name] = float(np.nansum(values))
    return found


def _are_close(found: dict[str, float], expected: dict[str, float]) -> bool:
    return all(abs(found[name] - value) <= CLOSE * max(abs(value), 1.0) for name, value in expected.items())


# --- Bench command ---


@app.command()
def bench(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="A job whose query and rows are measured.")] = "",
    rows: Annotated[int, typer.Option(min=1, help="Rows to generate, or at most to read of the job.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Different keys of the generated rows.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured; the fastest counts.")] = 3,
    changes: Changes = [],  # noqa: B006 (typer copies it)
    as_json: Json = False,
) -> None:
    """Measure queries on this machine, and compare with pandas, polars and DuckDB if they are installed."""
    from sash.cli.environment import environment

    cases = [_case(job, changes, rows)] if job else [*standard_cases(rows, keys)]
    found = []
    with _bar(cases) as counted:
        for case in counted:
            found += measure(case, rounds)
            if isinstance(why := comparable(case.query, case.table.schema), str):
                write_error(f"sash: {case.name}: measured without rivals: {why}")
    size = cases[0].table.num_rows
    if as_json:
        write_json({"rows": size, "environment": environment(), "measured": [asdict(one) for one in found]})
        return
    names = ["query", "engine", "ms", "rows/s", "× sash", "equal"]
    lines = [
        [one.case, one.engine, round(one.seconds * 1000, 1), round(one.rows_per_second), round(one.ratio, 2), one.equal]
        for one in found
    ]
    printed = [[*line[:-1], "yes" if line[-1] else "no"] for line in lines]
    write_rows(names, printed, f"{size:,} rows, the fastest of {rounds}; × sash: how many times the time of sash")


def _case(job: str, changes: list[str], most: int) -> BenchCase:
    """The query of a job, on the rows of its source in order of time."""
    from sash.cli.job_file import read_job
    from sash.cli.job_pipeline import PreparedJob

    read = read_job(job, changes)
    prepared = PreparedJob(read, read.engine)
    table = pa.Table.from_batches(_batches(prepared, most), prepared.schema).slice(0, most)
    if not table.num_rows:
        raise ValueError(f"{job}: the source has no rows to measure with")
    query = prepared.made.query
    if query.on:
        table = table.sort_by([(name, "ascending") for name in query.on])
    return BenchCase(job, query, table)


def _batches(prepared: PreparedJob, most: int) -> Iterator[pa.RecordBatch]:
    import threading

    from sash.cli.table_files import CHUNK
    from sash.pipeline.source import Reading

    count = 0
    for chunk in prepared.source.read(None, Reading(CHUNK, follow=False, stop=threading.Event())):
        yield chunk.batch
        count += chunk.batch.num_rows
        if count >= most:
            break


@contextmanager
def _bar(cases: list[BenchCase]) -> Iterator[Iterable[BenchCase]]:
    """The cases, with a progress bar if the standard error is a terminal."""
    if not sys.stderr.isatty():
        yield cases
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield progress.track(cases, description="measuring")
