"""Spark streams: rows a second of micro-batches, compared with Spark's own windows and a plan that does nothing.

    pass-through    the same source and sink, an identity mapInArrow between them: the floor
    sash            a query of ours
    Spark           groupBy(window(...), key), max and count

Fourteen micro-batches of a million rows, a file each, a row a millisecond, of which the median of the later half
counts: by then windows are full, and the JVM has compiled what is hot, as it has long done in a stream that runs for
days. (It takes one of two cores for the first ten seconds of a plan.) Each plan has a budget of seconds: what does not
end within it is stopped, and the page says how far it came. For the state, micro-batches of a thousand rows on a full
window.

`python -m benchmarks.spark_stream` writes its section of docs/performance.md, again after each plan, so that an
interrupted run leaves its results; with `--quick` it runs small and writes none.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash
from benchmarks import page

SCHEMA = "ts timestamp, k long, x double"
START = 1_700_000_000_000_000
FEW, MANY = 1_000, 100_000


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    rows: int = 1_000_000
    fewer: int = 250_000
    """Rows where there are many keys and slides: a million would give a hundred million results."""
    batches: int = 14
    budget: int = 120
    """Seconds for a plan, and `short` for those that will not end."""
    short: int = 45
    windows: tuple[int, int] = (10_000, 1_000_000)
    """Rows of the windows whose state is compared."""
    steps: int = 12
    """Micro-batches of a thousand rows on full windows."""


QUICK = Sizes(100_000, 50_000, 4, 60, 15, (10_000, 100_000), 6)


@dataclass(frozen=True)
class Figures:
    """What a plan did in the later half of its micro-batches."""

    rate: float
    """Rows a second, the median; 0 if none came to its end."""
    results: float
    """Results a second."""
    seconds: float
    """Of a micro-batch, the median."""
    moved: float
    """Bytes of pages that the dearest micro-batch read and wrote."""
    done: int
    """The micro-batches that came to their end."""
    wanted: int


Found = dict[tuple[str, int], Figures]
"""By plan and keys."""


# ---- the plans ----


def ours(windows: Any) -> Callable[[Any], Any]:
    query = sash.Query(windows, by="k", on="ts", lateness="1s", high=sash.max("x"), n=sash.count())
    return query.run


def theirs(size: str, slide: str) -> Callable[[Any], Any]:
    def plan(stream: Any) -> Any:
        from pyspark.sql import functions as sf

        windows = stream.withWatermark("ts", "1 second").groupBy(sf.window("ts", size, slide), "k")
        return windows.agg(sf.max("x").alias("high"), sf.count("*").alias("n"))

    return plan


def floor(stream: Any) -> Any:
    return stream.mapInArrow(lambda batches: batches, SCHEMA)


FLOOR, ROW, MINUTE, HOUR = "pass-through", "sash, 60 s per row", "sash, 60 s every 1 s", "sash, 1 h every 1 s"
THEIR_MINUTE, THEIR_HOUR = "Spark, 60 s every 1 s", "Spark, 1 h every 1 s"
PLANS: dict[str, Callable[[Any], Any]] = {
    FLOOR: floor,
    ROW: ours("60s"),
    MINUTE: ours(sash.Time("60s", every="1s")),
    THEIR_MINUTE: theirs("60 seconds", "1 second"),
    HOUR: ours(sash.Time("1h", every="1s")),
    THEIR_HOUR: theirs("1 hour", "1 second"),
}
ORDER = [(name, MANY) for name in (FLOOR, ROW, MINUTE, HOUR)] + [(name, FEW) for name in PLANS]
"""Those that goals are about come last: what all plans share is compiled by then."""
ENDLESS = {(THEIR_HOUR, FEW)}
"""Those that have the short budget: 3,600 windows for each row."""
EXPANDING = {(MINUTE, MANY), (HOUR, MANY)}
"""Those with far more results than rows."""


# ---- measuring ----


def written(folder: Path, counts: list[int], keys: int) -> Path:
    """A file for each micro-batch: times a little out of order, keys and values at random."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    first = 0
    for i, count in enumerate(counts):
        at = np.arange(first, first + count) + chance.integers(0, 1000, count)
        first += count
        ts = pa.array(START + at * 1000, pa.timestamp("us", "UTC"))
        key, x = chance.integers(0, keys, count), chance.normal(100, 10, count)
        pq.write_table(pa.table({"ts": ts, "k": key, "x": x}), folder / f"{i:04}.parquet")
    return folder


def ran(spark: Any, source: Path, plan: Callable[[Any], Any], budget: int) -> list[dict[str, Any]]:
    """Run a plan over the files, one a micro-batch: the progress of those that came to their end."""
    checkpoint = source.parent / "checkpoint"
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = plan(stream).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(budget)
    except Exception as error:  # one plan that fails leaves the others their turn
        print(f"failed: {str(error).splitlines()[0][:300]}", flush=True)
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return [p for p in query.recentProgress if p["numInputRows"]]


def measured(spark: Any, source: Path, plan: Callable[[Any], Any], budget: int) -> Figures:
    """Run a plan, and look at the later half of its micro-batches."""
    ended = ran(spark, source, plan, budget)
    wanted = len(list(source.glob("*.parquet")))
    if len(ended) < 2:
        return Figures(0, 0, 0, 0, len(ended), wanted)
    done = ended[len(ended) // 2 :]
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in done]
    counts = [row for p in done for name, row in p["observedMetrics"].items() if name.startswith("sash")]
    return Figures(
        statistics.median(p["numInputRows"] / taken for p, taken in zip(done, seconds, strict=True)),
        statistics.median(row["rows_out"] / t for row, t in zip(counts, seconds, strict=True)) if counts else 0,
        statistics.median(seconds),
        max((row["bytes_read"] + row["bytes_written"] for row in counts), default=0),
        len(ended),
        wanted,
    )


def session() -> Any:
    import sash.spark

    settings = {"sql.shuffle.partitions": 2, "driver.memory": "4g", "log.level": "OFF"}
    return sash.spark.session(master="local[2]", **settings)


def throughput(spark: Any, work: Path, sizes: Sizes) -> Iterator[tuple[tuple[str, int], Figures]]:
    """Each plan in turn."""
    sources: dict[tuple[int, int], Path] = {}

    def source(rows: int, batches: int, keys: int) -> Path:
        if (rows, keys) not in sources:
            sources[rows, keys] = written(work / f"in{rows}-{keys}", [rows] * batches, keys)
        return sources[rows, keys]

    for name, keys in ORDER:
        endless = (name, keys) in ENDLESS
        if not endless:
            ran(spark, source(sizes.fewer // 10, 4, FEW), PLANS[name], sizes.budget)
        files = source(sizes.fewer if (name, keys) in EXPANDING else sizes.rows, sizes.batches, keys)
        yield (name, keys), measured(spark, files, PLANS[name], sizes.short if endless else sizes.budget)


def state(spark: Any, work: Path, sizes: Sizes) -> Iterator[tuple[tuple[str, int], Figures]]:
    """A thousand new rows per micro-batch, on a window of few rows and one of many: of one key, and of a thousand."""
    small, large = sizes.windows
    for window, keys in ((small, 1), (large, 1), (large, FEW)):
        source = written(work / f"state{window}-{keys}", [window + 50_000, *[1000] * sizes.steps], keys)
        found = measured(spark, source, ours(f"{window}ms"), sizes.budget)
        yield (f"window of {window:,} rows", keys), found


# ---- the page ----


def rows_of(found: Found, sizes: Sizes) -> list[list[str]]:
    """A row for each plan."""
    rows = []
    for (name, keys), one in found.items():
        label = f"{name}, {keys:,} keys" + (f", {sizes.fewer:,} rows a batch" if (name, keys) in EXPANDING else "")
        if not one.rate:
            budget = sizes.short if (name, keys) in ENDLESS else sizes.budget
            rows.append([label, f"not finished: under 2 of {one.wanted} in {budget} s", "–", "–", "–"])
            continue
        bare = found.get((FLOOR, keys))
        slower = f"{bare.rate / one.rate:.2f}" if bare and bare.rate else "–"
        part = "" if one.done == one.wanted else f" ({one.done} of {one.wanted} in {sizes.budget} s)"
        results = f"{one.results:,.0f}" if one.results else "–"
        moved = f"{one.moved / 1e6:.1f}" if one.moved else "–"
        rows.append([label, f"{one.rate:,.0f}{part}", slower, results, moved])
    return rows


def state_rows(found: Found) -> list[list[str]]:
    """A row for each window."""
    return [
        [
            f"{name}, {'1 key' if keys == 1 else f'{keys:,} keys'}",
            f"{1000 * one.seconds:,.0f}",
            f"{one.moved / 1e6:.2f}",
        ]
        for (name, keys), one in found.items()
    ]


def verdicts(found: Found, held: Found) -> list[list[str]]:
    """Each goal that was measured: what was asked, what was found, whether it is met."""
    rows: list[list[str]] = []

    def goal(name: str, asked: str, value: float, is_reached: bool) -> None:
        rows.append([name, asked, f"{value:.2f}", "met" if is_reached else "**missed**"])

    def rate(name: str, keys: int, results: bool = False) -> float:
        one = found.get((name, keys))
        return 0.0 if one is None else one.results if results else one.rate

    if rate(MINUTE, FEW) and rate(THEIR_MINUTE, FEW):
        times = rate(MINUTE, FEW) / rate(THEIR_MINUTE, FEW)
        goal(f"60 s every 1 s, {FEW:,} keys, ahead of Spark's", "at least 12", times, times >= 12)
    for name in (ROW, MINUTE):
        if rate(name, FEW) and rate(FLOOR, FEW):
            times = rate(FLOOR, FEW) / rate(name, FEW)
            goal(f"{name}, {FEW:,} keys, over a pass-through", "at most 2", times, times <= 2)
    if rate(MINUTE, MANY, results=True):
        millions = rate(MINUTE, MANY, results=True) / 1e6
        goal(f"{MINUTE}, {MANY:,} keys: millions of results a second", "at least 3", millions, millions >= 3)
    if (THEIR_HOUR, FEW) in found and (HOUR, FEW) in found:
        runs = bool(rate(HOUR, FEW)) and not rate(THEIR_HOUR, FEW)
        goal("1 h every 1 s: rows a second, where Spark's does not end", "it runs", rate(HOUR, FEW), runs)
    for name in (ROW, MINUTE, HOUR):
        for results in (False,) if name == ROW else (False, True):
            if rate(name, FEW, results) and rate(name, MANY, results):
                share = rate(name, MANY, results) / rate(name, FEW, results)
                what = f"{name}, {MANY:,} keys over {FEW:,}, by {'results' if results else 'rows'} a second"
                goal(what, "at least 0.33", share, share >= 1 / 3)
    figures = list(held.values())
    if len(figures) > 1 and figures[0].seconds and figures[1].seconds:
        for what, small, large in (
            ("seconds", figures[0].seconds, figures[1].seconds),
            ("bytes", figures[0].moved, figures[1].moved),
        ):
            goal(f"state: {what} with the large window over the small", "at most 2", large / small, large <= 2 * small)
    if figures:
        most = max(one.moved for one in figures) / 1e6
        goal("state: MB of pages a micro-batch, the most", "at most 40", most, most <= 40)
    return rows


PROFILE = (
    "What a micro-batch of 60 s per row spends its 1.2 s on, by Spark's stage times and a sampling profile of JVM and "
    "workers: 0.2 s on the driver, for offsets, plan and commits, as with the pass-through; 0.3 s in the stage that "
    "reads, routes rows by key and writes the shuffle, on one core, because a file of one row group has one task; 0.7 "
    "s in the stage of the operator, where the JVM mostly waits for the Python worker. The worker takes 0.5 s a task: "
    "40 % to compute results and to order rows by key, 15 % to read rows and sort them by time, 25 % to encode and "
    "compress pages and to write them to Spark and to the local copy, the rest to pack results. The commit of the "
    "state takes 0.1 s, because it waits for the disk. The JVM's compiler takes 23 s of processor time for a plan, so "
    "the first ten micro-batches take up to twice as long."
)
"""Why the goals over a pass-through are missed."""


def section(found: Found, held: Found, sizes: Sizes, complete: bool) -> str:
    """The section of the page."""
    many = (
        f"With {MANY:,} keys a window that slides by a second gives up to {MANY // FEW} times as many results for the "
        "same rows, one per key and second: compare results a second there, not rows a second."
    )
    parts = [
        "## Spark, streams",
        (
            f"{sizes.batches} micro-batches of {sizes.rows:,} rows, one a millisecond of event time, max and count, "
            "two cores, two shuffle partitions; results go to the `noop` sink; the median of the later half. "
            "*pass-through* is an identity `mapInArrow`: rows to Python and back, without a "
            "shuffle, state or its commit. *Spark* is `groupBy(window(…), key)`. Each plan "
            "ran once on few rows before it was measured. " + many
        ),
        page.table(
            ["plan", "rows a second", "times slower than pass-through", "results a second", "MB of pages a batch"],
            rows_of(found, sizes),
        ),
    ]
    few, many_keys = found.get((FLOOR, FEW)), found.get((FLOOR, MANY))
    if few and many_keys and few.rate and many_keys.rate:
        apart = max(few.rate, many_keys.rate) / min(few.rate, many_keys.rate)
        parts.append(
            f"The two pass-throughs do the same work, and differ by a factor of {apart:.2f}: other work on the machine "
            "may have changed each figure by as much."
        )
    if held:
        parts += [
            "State: micro-batches of 1,000 rows on a full window.",
            page.table(["window", "milliseconds a batch, median", "MB of pages a batch, most"], state_rows(held)),
        ]
    goals = verdicts(found, held)
    if goals:
        parts += ["The goals:", page.table(["goal", "asked", "found", ""], goals), PROFILE]
    if not complete:
        parts.append("*Interrupted: the tables hold what was measured so far.*")
    return "\n\n".join(parts)


def main(sizes: Sizes, write: Callable[[str], None]) -> str:
    """Measure; `write` takes the section as far as it is, after each plan. Gives the whole."""
    found: Found = {}
    held: Found = {}
    with tempfile.TemporaryDirectory(prefix="sash-stream-") as folder:
        spark = session()
        for source, into in ((throughput, found), (state, held)):
            for name, figures in source(spark, Path(folder), sizes):
                into[name] = figures
                print(*name, figures, flush=True)
                write(section(found, held, sizes, complete=False))
        spark.stop()
    return section(found, held, sizes, complete=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_stream", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 rows a micro-batch, no page written")
    parser.add_argument("--rows", type=int, help="rows of a micro-batch, and a quarter of that where results are many")
    parser.add_argument("--batches", type=int, help="the number of micro-batches")
    chosen = parser.parse_args()
    sizes = QUICK if chosen.quick else Sizes()
    if chosen.rows:
        sizes = replace(sizes, rows=chosen.rows, fewer=chosen.rows // 4)
    if chosen.batches:
        sizes = replace(sizes, batches=chosen.batches)

    def keep(text: str) -> None:
        if not chosen.quick:
            page.write("spark_stream", text)

    text = main(sizes, keep)
    keep(text)
    print(text)
