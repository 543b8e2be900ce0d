"""Latency of a call: one row per call, and the slowest calls; the latency figure of the papers, for the whole engine.

Ten minutes of events, some 33 a second, one `process` call for each, on a window that is full from the start. Also rows
that come out of order with `emit="eager"`, and windows that a policy slides.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sash
from benchmarks import page

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
FILL = 100_000


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    calls: int = 20_000
    windows: tuple[int, ...] = (100, 10_000, 100_000, 1_000_000)
    waiting: int = 100_000
    eager_calls: int = 2_000
    policy_rows: int = 100_000


QUICK = Sizes(500, (100, 10_000), 2_000, 50, 2_000)


def rows(first: int, count: int) -> pa.RecordBatch:
    """A row at each time from `first` on."""
    chance = np.random.default_rng(first + 1)
    return pa.record_batch(
        [
            pa.array(np.zeros(count, np.int64)),
            pa.array(np.arange(first, first + count)),
            pa.array(chance.random(count)),
        ],
        schema=SCHEMA,
    )


def microseconds(operator: Any, batches: list[pa.RecordBatch]) -> NDArray[np.float64]:
    """The time of each call."""
    found = np.empty(len(batches))
    for i, batch in enumerate(batches):
        began = time.perf_counter()
        operator.process(batch)
        found[i] = time.perf_counter() - began
    return found * 1e6


def filled(query: sash.Query, count: int) -> Any:
    """An operator that has processed a number of rows."""
    operator = query.operator(SCHEMA)
    for first in range(0, count, FILL):
        operator.process(rows(first, min(FILL, count - first)))
    return operator


def figures(name: str, found: NDArray[np.float64]) -> list[str]:
    """A row of the table: median, 99 and 99.9 of 100, and the worst."""
    return [name, *(f"{np.percentile(found, q):,.0f}" for q in (50, 99, 99.9)), f"{found.max():,.0f}"]


def one_row_calls(sizes: Sizes) -> str:
    """In order, on windows of more and more rows, and for each structure that promises a constant worst case."""
    table = []
    for prefer in ("throughput", "latency"):
        for size in sizes.windows:
            query = sash.Query(
                sash.Time(size),
                by="k",
                on="t",
                options=sash.Options(prefer=prefer),
                high=sash.max("x"),
                total=sash.sum("x"),
            )
            operator = filled(query, size)
            data = rows(size, sizes.calls + 100)
            batches = [data.slice(i, 1) for i in range(data.num_rows)]
            microseconds(operator, batches[:100])
            table.append(figures(f"{size:,} rows, prefer {prefer}", microseconds(operator, batches[100:])))
    return "\n\n".join(
        [
            (
                f"Microseconds a call of one row, {sizes.calls:,} calls on a full window: max and sum of floats at "
                "each row, one key, in order."
            ),
            page.table(["window", "p50", "p99", "p99.9", "worst"], table),
        ]
    )


def timed_rows(time: Any, keys: Any, chance: np.random.Generator) -> pa.RecordBatch:
    """Rows of these times and keys, with random values."""
    return pa.record_batch([pa.array(keys), pa.array(time), pa.array(chance.random(len(time)))], schema=SCHEMA)


def eager_calls(sizes: Sizes) -> str:
    """Rows out of order, each emitted at once, with many rows waiting."""
    waiting, table = sizes.waiting, []
    for keys, distance in ((1, 0), (1, waiting // 10), (1_000, waiting // 10)):
        window = sash.Time(20 * keys)  # ten rows of a key, one of which comes every 2 × keys units of time
        query = sash.Query(
            window, by="k", on="t", lateness=4 * waiting, emit="eager", high=sash.max("x"), total=sash.sum("x")
        )
        operator = query.operator(SCHEMA)
        chance = np.random.default_rng(3)
        held = timed_rows(2 * np.arange(waiting), np.arange(waiting) % keys, chance)
        for first in range(0, waiting, FILL):
            operator.process(held.slice(first, FILL))
        count = sizes.eager_calls
        near = 2 * (waiting - distance - chance.integers(0, max(distance, 1), count)) - 1
        ahead = 2 * (waiting + np.arange(count))
        data = timed_rows(near if distance else ahead, chance.integers(0, keys, count), chance)
        batches = [data.slice(i, 1) for i in range(data.num_rows)]
        microseconds(operator, batches[: len(batches) // 10])
        found = microseconds(operator, batches[len(batches) // 10 :])
        table.append(figures(f"{keys:,} {'key' if keys == 1 else 'keys'}, distance {distance:,} and more", found))
    return "\n\n".join(
        [
            (
                f'Microseconds a call of one row with `emit="eager"`, {waiting:,} rows waiting, windows of '
                "some ten rows, max and sum: the row is inserted into its tree, and the results that it changes are "
                "emitted."
            ),
            page.table(["", "p50", "p99", "p99.9", "worst"], table),
        ]
    )


def grows_beyond(total: Any, prefix: Any) -> bool:
    """A policy: the window sums to at most 1,000."""
    return bool(total[0] - prefix[0] + prefix[1] > 1000.0)


def policy_rows(sizes: Sizes) -> str:
    """A window that a policy slides, in batches and row by row."""
    window = sash.Policy(grows_beyond, (sash.sum("x"), sash.last("x")))
    query = sash.Query(window, by="k", on="t", high=sash.max("x"))
    operator = filled(query, sizes.policy_rows)
    batch = rows(sizes.policy_rows, sizes.policy_rows)
    began = time.perf_counter()
    operator.process(batch)
    a_row = (time.perf_counter() - began) / batch.num_rows * 1e9
    more = rows(2 * sizes.policy_rows, sizes.calls // 10)
    found = microseconds(operator, [more.slice(i, 1) for i in range(more.num_rows)])
    return "\n\n".join(
        [
            f"A policy over a sum, windows of some 2,000 rows: {a_row:,.0f} ns a row in one batch; µs a call:",
            page.table(["", "p50", "p99", "p99.9", "worst"], [figures("one row", found)]),
        ]
    )


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    return "\n\n".join(["## Latency of a call", one_row_calls(sizes), eager_calls(sizes), policy_rows(sizes)])
