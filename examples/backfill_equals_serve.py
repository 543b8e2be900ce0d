"""Backfill equals serve: one query gives features for training from history, and online from live state.

Bikes are returned to stations. At the start of a trip, a model needs features of the station: how many bikes were
returned in the last hour, and how long their trips took. For training, the features are computed from history; online,
from an operator that has processed the trips so far.

    history ──▶ query.as_of(requests, trips) ───────────────────────────┐
                                                                        ├─▶ equal, row by row?
    trips, as they come ──▶ operator.process ──▶ operator.lookup(at=…) ─┘

The event time is the end of a trip, when the trip becomes known. With the start of trips as event time, training would
see trips that have not ended yet online.

Run by `python -m examples.backfill_equals_serve [trips.parquet]`, or with the file in $SASH_TRIPS: columns start,
duration_s, start_station and end_station. Without a file, trips are generated.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash

QUERY = sash.Query(
    {"1h": "1h", "1d": "1d", "ever": sash.Lifetime()},
    by="station",
    on="ts",
    lateness="5m",
    came=sash.count(),
    took=sash.mean("duration_s"),
    longest=sash.max("duration_s"),
    late_at_night=sash.count(where="hour(ts) < 5"),
    recent=sash.median("duration_s").over(sash.Count(20)),
)


def trips(path: str | None, count: int = 20_000) -> pa.Table:
    """Trips ordered by their ends, from a file or generated."""
    if path is not None:
        found = pq.read_table(path, columns=["start", "duration_s", "start_station", "end_station"])
        start = found["start"].cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_numpy()
        duration = found["duration_s"].to_numpy().astype(np.int64)
        stations = [found[name].to_numpy() for name in ("start_station", "end_station")]
    else:
        chance = np.random.default_rng(11)
        start = 1_514_764_800 + np.cumsum(chance.exponential(140, count)).astype(np.int64) // 60 * 60
        duration = np.maximum(60, chance.lognormal(6.2, 0.9, count)).astype(np.int64)
        stations = [chance.integers(3180, 3230, count) for _ in range(2)]
    end = start + duration
    order = np.argsort(end, kind="stable")
    columns = {"from": stations[0], "station": stations[1], "duration_s": duration}
    times = {"start": pa.array(start[order], pa.timestamp("s")), "ts": pa.array(end[order], pa.timestamp("s"))}
    return pa.table({**{name: column[order] for name, column in columns.items()}, **times})


def asked(events: pa.Table, count: int) -> pa.Table:
    """Some starts of trips, ordered by time: the requests to the model."""
    chosen = np.linspace(0, events.num_rows - 1, min(count, events.num_rows)).astype(np.int64)
    rows = events.take(pa.array(chosen))
    return pa.table({"station": rows["from"], "ts": rows["start"]}).sort_by("ts")


def served(requests: pa.Table, events: pa.Table) -> pa.Table:
    """The features of an operator for each request, after all trips up to that time and no later ones."""
    operator = QUERY.operator(events.schema)
    ends = events["ts"].cast(pa.int64()).to_numpy()
    found, done = [], 0
    for station, ts in zip(requests["station"], requests["ts"], strict=True):
        upto = int(np.searchsorted(ends, ts.value, side="right"))
        if upto > done:
            operator.process(events.slice(done, upto - done))
            done = upto
        found.append(operator.lookup({"station": [station.as_py()]}, at=ts, closed="left"))
    return pa.Table.from_batches(found)


def streamed(events: pa.Table) -> pa.Table:
    """The results that a stream emits for each trip: features that include the trip itself."""
    operator = QUERY.operator(events.schema)
    parts = [operator.process(events.slice(start, 4096)) for start in range(0, events.num_rows, 4096)]
    return pa.Table.from_batches([*parts, operator.finish()])


def differences(mine: pa.Table, theirs: pa.Table, features: Sequence[str]) -> list[str]:
    """The rows and features that are not the same; floats within rounding."""
    found = []
    for name in features:
        pairs = zip(mine[name].to_pylist(), theirs[name].to_pylist(), strict=True)
        found += [f"row {row}, {name}: {a} and {b}" for row, (a, b) in enumerate(pairs) if not alike(a, b)]
    return found


def alike(a: Any, b: Any) -> bool:
    """Are two values the same? Floats within rounding."""
    return math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else bool(a == b)


def report(what: str, mine: pa.Table, theirs: pa.Table, features: Sequence[str]) -> bool:
    """Print how two tables compare."""
    found = differences(mine, theirs, features)
    print(f"{what}: {mine.num_rows:,} rows, {len(features)} features, {len(found)} differences")
    for line in found[:5]:
        print(f"  {line}")
    return not found


def main(path: str | None = None, requests: int = 2000, made_up: int = 20_000) -> bool:
    """Compute features in all ways, and print whether they are equal."""
    events = trips(path, made_up)
    spine = asked(events, requests)
    print(f"{events.num_rows:,} trips {'of ' + Path(path).name if path else 'made up'}, {spine.num_rows:,} requests")
    features = QUERY.as_of(spine.slice(0, 0), events).schema.names[2:]
    backfill = QUERY.as_of(spine, events)
    same = report("as_of and lookup", backfill, served(spine, events), features)
    # the results of a stream include the trip itself; for trips that end at the same time, a window of rows ends at
    # each of them, but as_of takes all of them: so `recent` is not compared
    order = [("station", "ascending"), ("ts", "ascending")]
    ordered = events.sort_by(order)
    whole = QUERY.as_of(ordered.select(["station", "ts"]), events, closed="right")
    rows = streamed(events).sort_by(order)
    same &= report("as_of and stream", whole, rows, [name for name in features if name != "recent"])
    print("backfill equals serve" if same else "backfill does NOT equal serve")
    return same


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SASH_TRIPS")
    sys.exit(0 if main(given) else 1)
