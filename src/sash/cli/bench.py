"""Measure queries on this machine, and compare with other installed libraries: `sash bench`.

All engines compute a query in turn, round by round, so that other load on the machine slows all of them. The first
round compiles and is not counted; the fastest of the others counts. Results are compared by their sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.cli.bench_rivals import Comparable, comparable, rivals
from sash.monoids import functions
from sash.plan.query import Query
from sash.windows import Count, Time

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

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


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


def not_comparable(case: BenchCase) -> str:
    """Why rivals cannot compute a query; empty if they can."""
    found = comparable(case.query, case.table.schema)
    return found if isinstance(found, str) else ""


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
