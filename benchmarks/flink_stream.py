"""Streams on Spark, compared with Flink: the same windows over the same events, in turn.

    60 s per row        OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW)
    60 s every 1 s      HOP(1 s, 60 s)
    1 h every 1 s       HOP(1 s, 1 h)

Events are a row a millisecond of event time, keys and values at random; max and count. Flink takes them from its
generator, sash and Spark from Parquet files, and both write to a sink that drops everything. Flink's rate is that of
the rows beyond the first fifth, for a job takes seconds to start and the windows are full by then. A turn measures
every plan once, and the best turn counts: the machine may be shared, and a neighbour takes time from one plan only.

`python -m benchmarks.flink_stream` writes its section of docs/performance.md, again after each turn; with `--quick` it
runs small and writes none.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.flink import Flink, FlinkJob, flink
from benchmarks.spark_stream import FEW, FLOOR, HOUR, MINUTE, PLANS, ROW, measured, ran, session, written

SINK = "CREATE TABLE sink (k BIGINT, high DOUBLE, n BIGINT) WITH ('connector' = 'blackhole')"


def hop(size: str) -> str:
    """Max and count of each hop of a second."""
    return (
        "SELECT k, MAX(x), COUNT(*) FROM TABLE(HOP(TABLE source, DESCRIPTOR(ts), INTERVAL '1' SECOND, "
        f"INTERVAL {size})) GROUP BY k, window_start, window_end"
    )


OVER = (
    "SELECT k, MAX(x) OVER w, COUNT(*) OVER w FROM source WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN "
    "INTERVAL '60' SECOND PRECEDING AND CURRENT ROW)"
)
STATEMENTS = {
    FLOOR: "SELECT k, x, id FROM source",
    ROW: OVER,
    MINUTE: hop("'60' SECOND"),
    HOUR: hop("'1' HOUR"),
}
"""Flink's statements by the plans of sash."""
BACKENDS = ("heap", "RocksDB")
GOALS = {"heap": 4, "RocksDB": 25}
"""How many times sash is to be ahead, by where Flink's state lies."""
SASH = "sash"


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    rows: int = 1_000_000
    """Rows of a micro-batch of Spark."""
    batches: int = 10
    flink_rows: int = 300_000
    flink_pass_rows: int = 6_000_000
    """Rows of Flink's pass-through, which takes no time for few."""
    budget: int = 150
    """Seconds for a job."""
    turns: int = 2


QUICK = Sizes(100_000, 3, 60_000, 1_000_000, 30, 1)

Rates = dict[tuple[str, str], float]
"""Rows a second by plan and engine: sash, or where Flink's state lies. 0: not finished."""


def turn(spark: Any, jvm: Flink, work: Path, sizes: Sizes) -> Iterator[tuple[tuple[str, str], float]]:
    """Each plan once, on each engine in turn."""
    source = work / "in"
    if not source.exists():
        written(source, [sizes.rows] * sizes.batches, FEW)
        written(work / "warm", [sizes.rows // 40] * 4, FEW)
    for plan, select in STATEMENTS.items():
        ran(spark, work / "warm", PLANS[plan], sizes.budget)
        yield (plan, SASH), measured(spark, source, PLANS[plan], 2 * sizes.budget).rate
        for backend in BACKENDS if plan != FLOOR else BACKENDS[:1]:
            checkpoints = work / "flink" if backend == "RocksDB" else None
            job = FlinkJob(select, backend, FEW, SINK, 2, checkpoints)
            rows = sizes.flink_pass_rows if plan == FLOOR else sizes.flink_rows
            taken = jvm.nanoseconds(job, rows, sizes.budget)
            if taken > 0:  # else the start of the job took longer than its rows: there are too few of them
                yield (plan, backend), 1e9 / taken
            shutil.rmtree(work / "flink", ignore_errors=True)


# ---- the page ----


def rows_of(found: Rates, sizes: Sizes) -> list[list[str]]:
    """A row for each plan: rows a second of each engine, and how many times sash is ahead."""
    rows = []
    for plan in STATEMENTS:
        if (plan, SASH) not in found:
            continue
        ours = found[plan, SASH]
        cells = [plan.removeprefix("sash, "), f"{ours:,.0f}" if ours else "not finished"]
        for backend in BACKENDS:
            theirs = found.get((plan, backend))
            if theirs is None:
                cells += ["–", "–"]
            elif not theirs:
                cells += [f"not finished in {sizes.budget} s", "–"]
            else:
                cells += [f"{theirs:,.0f}", _times(ours / theirs)]
        rows.append(cells)
    return rows


def _times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio >= 1 else f"**{ratio:.2f}×**"


def verdicts(found: Rates) -> list[list[str]]:
    """Each goal that was measured: what was asked, what was found, whether it is met."""
    rows = []
    for plan in (ROW, MINUTE):
        for backend, least in GOALS.items():
            ours, theirs = found.get((plan, SASH)), found.get((plan, backend))
            if ours and theirs:
                verdict = "met" if ours >= least * theirs else "**missed**"
                what = f"{plan}, {FEW:,} keys, ahead of Flink on {'the heap' if backend == 'heap' else backend}"
                rows.append([what, f"at least {least}", f"{ours / theirs:.1f}", verdict])
    return rows


def section(found: Rates, sizes: Sizes, done: int) -> str:
    """The section of the page."""
    parts = [
        "## Spark, streams, compared with Flink",
        (
            f"Rows a second: max and count, {FEW:,} keys, a row a millisecond of event time, two cores; results are "
            f"discarded. sash on Spark: {sizes.batches} micro-batches of {sizes.rows:,} rows from Parquet files, two "
            "shards, state in Spark's RocksDB, a checkpoint each micro-batch, the median of the later half. Flink 2.3, "
            f"SQL in one JVM, parallelism 2, {sizes.flink_rows:,} rows from its generator ({sizes.flink_pass_rows:,} "
            "of the pass-through), the last four fifths of them: state on the heap without checkpoints, and in RocksDB "
            "with incremental checkpoints each ten seconds. The pass-through of Spark is an identity `mapInArrow`. The "
            f"engines ran in turn on a shared machine; the best of {done} {'turn' if done == 1 else 'turns'}. A ratio "
            "below 1, in bold, is a loss."
        ),
        page.table(
            ["", "sash on Spark", "Flink, heap", "sash is ahead by", "Flink, RocksDB", "sash is ahead by"],
            rows_of(found, sizes),
        ),
    ]
    goals = verdicts(found)
    if goals:
        parts += ["The goals:", page.table(["goal", "asked", "found", ""], goals)]
    return "\n\n".join(parts)


def main(sizes: Sizes, write: Callable[[str], None]) -> str:
    """Measure; `write` takes the section after each turn. Gives the last one."""
    found: Rates = {}
    text = ""
    with tempfile.TemporaryDirectory(prefix="sash-flink-") as folder:
        spark = session()
        with flink("4g") as jvm:
            for number in range(sizes.turns):
                for name, rate in turn(spark, jvm, Path(folder), sizes):
                    found[name] = max(rate, found.get(name, 0.0))
                    print(*name, f"{rate:,.0f} rows a second", flush=True)
                text = section(found, sizes, number + 1)
                write(text)
        spark.stop()
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flink_stream", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 rows a micro-batch, no page written")
    parser.add_argument("--turns", type=int, help="how often each plan is measured")
    chosen = parser.parse_args()
    sizes = QUICK if chosen.quick else Sizes()
    if chosen.turns:
        sizes = replace(sizes, turns=chosen.turns)

    def keep(text: str) -> None:
        if not chosen.quick:
            page.write("flink_stream", text)

    print(main(sizes, keep))
