"""Bike trips as they arrive, at their end, in windows of the time of their start.

The trips are those of `$SASH_TRIPS`, a Parquet file with columns start and duration_s and start_station in order of
arrival; else of `shared/data/citibike_jc_2018.parquet` beside the project; else they are made up with as much disorder.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import page
from benchmarks.disorder import CONTESTANTS
from benchmarks.timing import best_of
from sash.aggregators import FiBA
from sash.kernels import slide_timed
from sash.monoids import Bloom, GeometricMean, Sum

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "citibike_jc_2018.parquet"
HOURS = {"6 hours": 6, "1 day": 24, "4 days": 96, "16 days": 384, "32 days": 768}
LENGTH = 100_000


def trips() -> tuple[str, NDArray[np.int64], NDArray[np.int64], list[Any]]:
    """Where they are from; starts in seconds, durations, stations: in order of arrival."""
    path = Path(os.environ.get("SASH_TRIPS", BESIDE))
    if path.exists():
        from pyarrow import parquet

        table = parquet.read_table(path, columns=["start", "duration_s", "start_station"])
        starts = np.asarray(table["start"].to_numpy()).astype("M8[s]").astype(np.int64)
        durations = np.asarray(table["duration_s"].to_numpy()).astype(np.int64)
        return f"{len(starts):,} trips of Citi Bike", starts, durations, table["start_station"].to_pylist()
    chance = np.random.default_rng(11)
    starts = np.cumsum(chance.exponential(140, LENGTH)).astype(np.int64)
    durations = np.maximum(60, chance.lognormal(6.2, 0.9, LENGTH)).astype(np.int64)
    order = np.argsort(starts + durations, kind="stable")
    return f"{LENGTH:,} trips made up", starts[order], durations[order], (starts[order] % 50).tolist()


def disorder(starts: NDArray[np.int64]) -> str:
    """How much of it there is."""
    late = starts < np.maximum.accumulate(starts)
    behind = (np.maximum.accumulate(starts) - starts)[late]
    return f"{late.mean():.0%} of them out of order, by {behind.mean():,.0f} seconds on average"


def compiled(starts: NDArray[np.int64], durations: NDArray[np.int64], hours: dict[str, int]) -> list[list[str]]:
    """Nanoseconds a trip."""
    rows = []
    for label, monoid, column in (
        ("sum of durations", Sum(), durations),
        ("geometric mean", GeometricMean(), durations.astype(np.float64) + 1),
    ):
        found: dict[str, list[str]] = {}
        for size in hours.values():
            runs: dict[str, Any] = {
                name: partial(slide_timed, cls, monoid, starts, (column,), size * 3600, min_arity=arity)
                for name, (cls, arity) in CONTESTANTS.items()
            }
            for run in runs.values():
                run()
            for name, seconds in best_of(runs, repeats=4).items():
                found.setdefault(name, []).append(f"{seconds / len(starts) * 1e9:,.0f}")
        rows += [[f"{label}, {name}", *figures] for name, figures in found.items()]
    return rows


def bloom(starts: NDArray[np.int64], stations: list[Any], hours: dict[str, int], length: int) -> list[str]:
    """Microseconds a trip, interpreted, on the first of them."""
    figures = []
    for size in hours.values():
        window, latest = FiBA(Bloom(), 2), int(starts[0])
        began = time.perf_counter()
        for start, station in zip(starts[:length].tolist(), stations, strict=False):
            latest = max(latest, start)
            window.insert(start, station)
            window.evict_through(latest - size * 3600)
            window.aggregate()
        figures.append(f"{(time.perf_counter() - began) / length * 1e6:,.0f} µs")
    return [f"Bloom filter of stations, interpreted, the first {length:,}", *figures]


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    origin, starts, durations, stations = trips()
    if quick:
        starts, durations = starts[:3000], durations[:3000]
    hours = dict(list(HOURS.items())[:2]) if quick else HOURS
    return "\n\n".join(
        [
            "## Bike trips",
            (
                f"Nanoseconds a trip to insert it, evict expired trips, and query, compiled: {origin}, which arrive "
                f"when they end and are ordered by their start, {disorder(starts)}; time windows."
            ),
            page.table(
                ["", *hours],
                [*compiled(starts, durations, hours), bloom(starts, stations, hours, 300 if quick else 3000)],
            ),
        ]
    )
