"""The operator: ns a row against the number of keys, the disorder, the batch, the window; and what sharing saves.

Streams are as long as wanted: the trips of `trips.py`, one copy after the other, in the order in which they arrived or
in that of their times. A key is drawn for each row, and a value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sash
from benchmarks import page
from benchmarks.timing import best_of
from benchmarks.trips import disorder, trips
from sash.monoids import Bound

SCHEMA = pa.schema([("t", pa.timestamp("s")), ("key", pa.int64()), ("x", pa.float64())])
LATENESS = "1h"
LOOKBACKS = ("5m", "1h", "12h", "24h", "7d")
DAYS = 14
BATCH = 100_000
FOUR: dict[str, Bound] = {"n": sash.count("x"), "total": sash.sum("x"), "high": sash.max("x"), "std": sash.std("x")}
TWO: dict[str, Bound] = {"high": sash.max("x"), "total": sash.sum("x")}


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    rows: int = 1_000_000
    batch: int = BATCH
    keys: tuple[int, ...] = (1, 1000, 1_000_000)
    batches: tuple[int, ...] = (100, 1000, 10_000, 100_000, 1_000_000)
    windows: tuple[int, ...] = (100, 10_000, 100_000, 1_000_000)
    few: int = 50
    """New batches that are timed, where state is filled first."""
    shared_rows: int = 200_000
    repeats: int = 3


QUICK = Sizes(20_000, 5000, (1, 100, 20_000), (100, 1000, 10_000), (100, 10_000), 5, 5000, 1)


def repeated(starts: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """The trips' times, copy after copy, until there are enough."""
    copies = -(-rows // len(starts))
    length = int(starts.max() - starts.min()) + 1
    return np.concatenate([starts - starts.min() + copy * length for copy in range(copies)])[:rows]


def table_of(times: NDArray[np.int64], keys: int) -> pa.RecordBatch:
    """Rows at these times, with random keys and values."""
    chance = np.random.default_rng(5)
    key, x = chance.integers(0, keys, len(times)), chance.normal(100, 10, len(times))
    return pa.record_batch([pa.array(times).cast(SCHEMA.field("t").type), pa.array(key), pa.array(x)], schema=SCHEMA)


def in_batches(table: pa.RecordBatch, size: int) -> Iterable[pa.RecordBatch]:
    return (table.slice(place, size) for place in range(0, table.num_rows, size))


def run(queries: Sequence[sash.Query], table: pa.RecordBatch, batch: int) -> None:
    """All of it, to the end of the stream, by one query after the other."""
    for query in queries:
        for _ in query.run(iter(in_batches(table, batch))):
            pass


def nanoseconds(work: dict[str, tuple[Sequence[sash.Query], pa.RecordBatch]], sizes: Sizes) -> dict[str, float]:
    """A row, the best of some."""
    rows = 0
    for queries, table in work.values():
        run(queries, table.slice(0, 2000), 1000)  # compile, or find the machine code
        rows = table.num_rows
    runs: dict[str, Callable[[], object]] = {
        name: partial(run, queries, table, sizes.batch) for name, (queries, table) in work.items()
    }
    return {name: seconds / rows * 1e9 for name, seconds in best_of(runs, sizes.repeats, 30.0).items()}


def against_keys(sizes: Sizes) -> str:
    """Per row and per slide, in order and as the trips come."""
    origin, starts, _, _ = trips()
    times = repeated(starts, sizes.rows)
    gap = int(times.max()) / sizes.rows
    found: dict[str, list[str]] = {}
    for keys in sizes.keys:
        size = int(gap * 100 * keys) // 4 * 4
        seconds = sash.Time(f"{size}s"), sash.Time(f"{size}s", every=f"{size // 4}s")
        tables = {"in order": table_of(np.sort(times), keys), "as the trips come": table_of(times, keys)}
        work: dict[str, tuple[Sequence[sash.Query], pa.RecordBatch]] = {}
        for how, window in zip(("per row", "per slide"), seconds, strict=True):
            query = sash.Query(window, by="key", on="t", lateness=LATENESS, **TWO)
            work |= {f"{how}, {order}": ((query,), table) for order, table in tables.items()}
        for name, figure in nanoseconds(work, sizes).items():
            found.setdefault(name, []).append(f"{figure:,.0f}")
    return "\n\n".join(
        [
            (
                f"Nanoseconds a row of {sizes.rows:,} rows in batches of {sizes.batch:,}, from an empty state to the "
                f"end, max and sum of floats. Times are those of {origin}, repeated, {disorder(starts)}; lateness "
                f"{LATENESS}. A window contains 100 rows of a key on average; slides are a quarter of it."
            ),
            page.table(["", *(f"{keys:,} {'key' if keys == 1 else 'keys'}" for keys in sizes.keys)],
                       [[name, *figures] for name, figures in found.items()]),
        ]
    )  # fmt: skip


def after_filling(query: sash.Query, table: pa.RecordBatch, filled: int, batch: int, count: int) -> tuple[float, int]:
    """Seconds for some batches on a state that is there already, and the pages of the worst of them."""
    operator, worst, seconds = query.operator(SCHEMA), 0, 0.0
    for rows in in_batches(table.slice(0, filled), BATCH):
        operator.process(rows)
    for rows in in_batches(table.slice(filled, batch * count), batch):
        before = operator.metrics
        began = time.perf_counter()
        operator.process(rows)
        seconds += time.perf_counter() - began
        after = operator.metrics
        pages = after.pages_read - before.pages_read + after.pages_written - before.pages_written
        worst = max(worst, pages)
    return seconds, worst


def against_batches(sizes: Sizes) -> str:
    """One query, cut into batches of different sizes."""
    keys = 1000
    times = np.arange(2 * sizes.rows)
    table = table_of(times, keys)
    query = sash.Query(f"{100 * keys}s", by="key", on="t", **TWO)
    figures, pages = [], []
    for batch in sizes.batches:
        count = max(1, min(sizes.few, sizes.rows // batch))
        found = [after_filling(query, table, sizes.rows, batch, count) for _ in range(max(2, sizes.repeats))]
        figures.append(f"{min(seconds for seconds, _ in found) / (batch * count) * 1e9:,.0f}")
        pages.append(f"{found[0][1]:,}")
    return "\n\n".join(
        [
            (
                f"Nanoseconds a row against the size of the batch: {keys:,} keys, max and sum per row over windows of "
                f"some 100 rows of a key, on the state after {sizes.rows:,} rows; and pages read and written in the "
                "worst batch."
            ),
            page.table(["rows of a batch", *(f"{batch:,}" for batch in sizes.batches)],
                       [["ns a row", *figures], ["pages of a batch", *pages]]),
        ]
    )  # fmt: skip


def against_windows(sizes: Sizes) -> str:
    """One key, windows of more and more rows, batches of 1,000 new ones."""
    batch, rows = 1000, []
    for label, window in (
        ("Count(n)", sash.Count),
        ("Time", lambda size: sash.Time(f"{size}s")),
        ("Time, every tenth", lambda size: sash.Time(f"{size}s", every=f"{size // 10}s")),
    ):
        figures, pages = [], []
        for size in sizes.windows:
            table = table_of(np.arange(size + batch * (sizes.few + 1)), 1)
            query = sash.Query(window(size), on="t", **TWO)
            found = [after_filling(query, table, size + batch, batch, sizes.few) for _ in range(max(2, sizes.repeats))]
            figures.append(f"{min(seconds for seconds, _ in found) / (batch * sizes.few) * 1e9:,.0f}")
            pages.append(f"{found[0][1]:,}")
        rows += [[f"{label}, ns a row", *figures], [f"{label}, pages of a batch", *pages]]
    return "\n\n".join(
        [
            (
                "Nanoseconds a row against the number of rows n in the window: one key, max and sum, batches of "
                f"{batch:,} rows on a full window; and pages read and written in the worst batch."
            ),
            page.table(["n", *(f"{size:,}" for size in sizes.windows)], rows),
        ]
    )


def together(sizes: Sizes) -> str:
    """Five lookbacks and four aggregates: one query, one for each lookback, one for each of the twenty."""
    keys, rows = 100, []
    times = np.sort(np.random.default_rng(6).integers(0, DAYS * 86_400, sizes.shared_rows))
    table = table_of(times, keys)
    for how, every in (("per row", None), ("every hour", "1h")):
        windows = {size: sash.Time(size, every=every) for size in LOOKBACKS}

        def query(windows: dict[str, sash.Time], aggregates: dict[str, Bound]) -> sash.Query:
            return sash.Query(windows, by="key", on="t", **aggregates)

        work: dict[str, tuple[Sequence[sash.Query], pa.RecordBatch]] = {
            "one query": ([query(windows, FOUR)], table),
            "a query each lookback": ([query({name: window}, FOUR) for name, window in windows.items()], table),
            "a query each lookback and aggregate": (
                [query({name: window}, {n: bound}) for name, window in windows.items() for n, bound in FOUR.items()],
                table,
            ),
        }
        found = nanoseconds(work, sizes)
        best = found["one query"]
        rows.append([how, *(f"{figure:,.0f} ({figure / best:.1f}×)" for figure in found.values())])
    return "\n\n".join(
        [
            (
                f"Five lookbacks ({', '.join(LOOKBACKS)}) of four aggregates (count, sum, max, std): nanoseconds a row "
                f"for all of them, {sizes.shared_rows:,} rows of {keys} keys over {DAYS} days, in order."
            ),
            page.table(["", *work], rows),
        ]
    )


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    return "\n\n".join(
        ["## The operator", against_keys(sizes), against_batches(sizes), against_windows(sizes), together(sizes)]
    )
