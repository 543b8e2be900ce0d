"""The operator by the size of its calls and the number of its keys, compared with Flink on the same windows.

A row a millisecond, windows of 60 s, keys drawn at random, max and sum of floats: at each row, or every second. State
is filled first; then calls of all sizes are timed in turn, and the best of each counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from benchmarks import page
from benchmarks.flink import BACKENDS, PROJECTION, Flink, FlinkJob, flink, per_row, per_slide

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("ms")), ("x", pa.float64())])
SECOND = 1000


@dataclass(frozen=True)
class Case:
    """A query and the calls it gets."""

    name: str
    keys: int
    rows: int
    """Rows of a call."""
    goal: str
    window: int = 60 * SECOND
    every: int | None = None


CASES = (
    Case("1 row a call", 1_000, 1, "100,000"),
    Case("10 rows a call", 1_000, 10, ""),
    Case("1,000 rows a call", 1_000, 1_000, "400"),
    Case("100,000 rows a call", 1_000, 100_000, "150"),
    Case("100,000 rows a call, every second", 1_000, 100_000, "150", every=SECOND),
    Case("100,000 rows a call, 100,000 keys", 100_000, 100_000, "600", window=6_000 * SECOND),
    Case("100,000 rows a call, 1,000,000 keys", 1_000_000, 100_000, "1,000", window=6_000 * SECOND),
)


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    seconds: float = 4.0
    """For the calls of a case, in all its turns."""
    turns: int = 4
    fill: int = 6_000_000
    flink_rows: int = 300_000
    cases: tuple[Case, ...] = CASES


PROFILE = """
Where a goal is missed: a call of one row takes some 140 µs on one key, timed part by part: 25 for the two
aggregates with their results, 13 for the slot of the key, 13 for appending the row and assigning its position, 11
for lateness and watermark, 11 for the start of the window, 8 for timers, 7 for the batch of results, 6 for the
reorder buffer, 5 for the journal. The rest, some 40, is Python code between them. Of the total, compiled loops
take 25 to 30, and reading and building Arrow columns 17. With 1,000 keys in turn, cache misses add 50. With
100,000 keys and more, memory access dominates: the row of a slot, its ring and the queue of each structure are a
cache miss each.
""".strip().replace("\n", " ")
"""Measured separately from the benchmark, with a clock around each part, the minimum of many calls."""

QUICK = Sizes(0.2, 1, 60_000, 50_000, CASES[:5])


class Running:
    """A case at work: its operator, on full windows, and the time it takes."""

    def __init__(self, case: Case, fill: int) -> None:
        self.case, self.at, self.best = case, 0, float("inf")
        self.chance = np.random.default_rng(9)
        every = None if case.every is None else f"{case.every}ms"
        window = sash.Time(f"{case.window}ms", every=every)
        query = sash.Query(window, by="k", on="t", high=sash.max("x"), total=sash.sum("x"))
        self.operator = query.operator(SCHEMA)
        for _ in range(0, min(case.window, fill), 100_000):
            self.operator.process(self.rows(100_000))

    def rows(self, count: int) -> pa.RecordBatch:
        """The next rows."""
        times = np.arange(self.at, self.at + count)
        self.at += count
        key, x = self.chance.integers(0, self.case.keys, count), self.chance.random(count)
        return pa.record_batch(
            [pa.array(key), pa.array(times).cast(SCHEMA.field("t").type), pa.array(x)], schema=SCHEMA
        )

    def turn(self, seconds: float) -> None:
        """Calls for so long; the best mean of a few dozen of them counts, that of a call alone says little."""
        count, calls = self.case.rows, max(1, 2000 // self.case.rows)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            table = self.rows(count * calls)
            batches = [table.slice(i * count, count) for i in range(calls)]
            began = time.perf_counter()
            for batch in batches:
                self.operator.process(batch)
            self.best = min(self.best, (time.perf_counter() - began) / (count * calls) * 1e9)


def ours(sizes: Sizes) -> dict[str, float]:
    """By case: nanoseconds a row."""
    running = [Running(case, sizes.fill) for case in sizes.cases]
    for _ in range(sizes.turns):
        for one in running:
            one.turn(sizes.seconds / sizes.turns)
    return {one.case.name: one.best for one in running}


def theirs(jvm: Flink, sizes: Sizes) -> list[list[Any]]:
    """A row for each statement: nanoseconds a row on each backend."""
    keys, rows = 1_000, sizes.flink_rows
    statements = {
        "Flink, pass-through": PROJECTION,
        "Flink, at each row": per_row(60),
        "Flink, every second": per_slide(60, 1),
    }
    return [
        [name, *(f"{max(0.0, jvm.nanoseconds(FlinkJob(select, backend, keys), rows)):,.0f}" for backend in BACKENDS)]
        for name, select in statements.items()
    ]


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    found = ours(sizes)
    with flink() as jvm:
        flinks = theirs(jvm, sizes)
    return "\n\n".join(
        [
            "## Calls of an operator, compared with Flink",
            (
                "Nanoseconds a row: max and sum of floats over 60 s (6,000 s where there are many keys), a row a "
                "millisecond, 1,000 keys unless stated otherwise, on full windows, one thread."
            ),
            page.table(
                ["", "ns a row", "goal"], [[case.name, f"{found[case.name]:,.0f}", case.goal] for case in sizes.cases]
            ),
            PROFILE,
            (
                f"Flink 2.3 on the same windows, {sizes.flink_rows:,} rows of 1,000 keys from its own generator, one "
                "task, nanoseconds a row, without the start of the job:"
            ),
            page.table(["", *BACKENDS], flinks),
        ]
    )
