"""Many windows on one stream, on Flink: the windows of `queries.py` as one set of SQL statements, which is one job.

Processor time of the whole JVM, as that of sash is of its whole process: rows beyond the first fifth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.flink import Flink, FlinkJob, flink

SINK = "CREATE TABLE sink (k BIGINT, high DOUBLE) WITH ('connector' = 'blackhole')"
COUNTS = (1, 10, 50)
"""Numbers of windows."""
ROWS = 20_000
BUDGET = 120
"""Seconds for a job."""


def over(size: int) -> str:
    """The maximum of the last rows, at each row."""
    return (
        "SELECT k, MAX(x) OVER (PARTITION BY k ORDER BY ts "
        f"ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW) FROM source"
    )


def hop(size: int, every: int) -> str:
    """The maximum of each hop."""
    return (
        f"SELECT k, MAX(x) FROM TABLE(HOP(TABLE source, DESCRIPTOR(ts), INTERVAL '{every}' SECOND, "
        f"INTERVAL '{size}' SECOND(3))) GROUP BY k, window_start, window_end"
    )


def microseconds(jvm: Flink, select: tuple[str, ...], keys: int, rows: int = ROWS) -> float:
    """Processor microseconds a row; infinite if the job did not end within its budget."""
    return jvm.nanoseconds(FlinkJob(select, "heap", keys, SINK), rows, BUDGET, jvm.processor_time) / 1e3


def measured(plans: Mapping[str, Mapping[int, tuple[str, ...]]], keys: int, rows: int = ROWS) -> dict[str, list[float]]:
    """Microseconds of each plan, by the number of windows; a plan that did not end has no figures for more windows."""
    found: dict[str, list[float]] = {}
    with flink("4g") as jvm:
        for name, by_count in plans.items():
            found[name] = []
            for select in by_count.values():
                is_lost = any(map(math.isinf, found[name]))
                found[name].append(math.inf if is_lost else microseconds(jvm, select, keys, rows))
    return found


def rows_of(ours: Mapping[str, list[float]], theirs: Mapping[str, list[float]]) -> list[list[str]]:
    """For each plan the microseconds of sash and of Flink, and how many times sash is ahead."""
    made = []
    for name, flinks in theirs.items():
        mine = ours[name][: len(flinks)]
        made.append([f"{name}, sash", *(f"{value:,.2f}" for value in mine)])
        made.append([f"{name}, Flink", *(_figure(value) for value in flinks)])
        ahead = [f"{b / a:,.0f}×" if math.isfinite(b) else "–" for a, b in zip(mine, flinks, strict=True)]
        made.append(["Flink / sash", *ahead])
    return made


def _figure(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else f"not finished in {BUDGET} s"
