"""Many windows on one stream: as one `Queries`, and as queries apart.

Sizes and slides are drawn as in the experiments of the SlickDeque paper: ranges from one element up to a largest one,
here also with slides. Processor time, since the machine is shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from benchmarks import page

COUNTS = (1, 10, 50, 100)
"""Numbers of windows."""

LARGEST = 1_000
KEYS = 1_000
ROWS = 400_000
CALL = 50_000
"""Rows of a call of an operator."""


def rows(count: int) -> pa.RecordBatch:
    """Rows of keys drawn at random, a thousand a second."""
    chance = np.random.default_rng(7)
    times = pa.array(np.arange(count) * 1_000, pa.timestamp("us"))
    return pa.record_batch({"k": chance.integers(0, KEYS, count), "t": times, "x": chance.random(count)})


def per_row(number: int, **aggregates: Any) -> dict[str, sash.Query]:
    """Windows of so many sizes in rows, with a result at each row."""
    sizes = np.random.default_rng(3).choice(np.arange(1, LARGEST + 1), number, replace=False)
    sizes[0] = LARGEST  # one window is as long as the longest of many
    return {f"q{i}": sash.Query(int(size), by="k", on="t", **aggregates) for i, size in enumerate(sizes)}


def per_slide(number: int, **aggregates: Any) -> dict[str, sash.Query]:
    """Windows of several sizes and slides in seconds: slides from 1 s to 20 s, sizes up to 100 s."""
    chance = np.random.default_rng(3)
    found = {}
    for i in range(number):
        every = int(chance.choice([1, 2, 4, 5, 10, 20])) if i else 1
        size = every * int(chance.integers(1, 100 // every + 1)) if i else 100
        window = sash.Time(f"{size}s", every=f"{every}s")
        found[f"q{i}"] = sash.Query(window, by="k", on="t", **aggregates)
    return found


def seconds(run: Callable[[], Any], repeats: int = 2) -> float:
    """The least processor time of a call, after one that compiles."""
    run()
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def streamed(make: Callable[[], Any], batch: pa.RecordBatch, repeats: int = 3) -> float:
    """The least processor time of the second half of the rows, when arrays have their size."""
    best = float("inf")
    for _ in range(repeats):
        operator, spent = make(), 0.0
        for first in range(0, batch.num_rows, CALL):
            began = time.process_time()
            operator.process(batch.slice(first, CALL))
            if first >= batch.num_rows // 2:
                spent += time.process_time() - began
        best = min(best, spent)
    return best


def figures(queries: Callable[[int], dict[str, sash.Query]], batch: pa.RecordBatch, is_stream: bool) -> list[list[str]]:
    """Seconds together and apart, by the number of windows, and how many times as much apart takes."""
    together, apart = [], []
    table = pa.Table.from_batches([batch])
    for number in COUNTS:
        some = queries(number)
        both = sash.Queries(**some)
        if is_stream:
            together.append(streamed(both.operator, batch))
            apart.append(sum(streamed(one.operator, batch) for one in some.values()))
        else:
            together.append(seconds(lambda both=both: both.run(table)))
            apart.append(seconds(lambda some=some: [one.run(table) for one in some.values()], 1))
    ratio = [f"{b / a:.1f}×" for a, b in zip(together, apart, strict=True)]
    return [
        ["as one `Queries`", *(f"{value:.3f}" for value in together), f"{together[2] / together[0]:.1f}×"],
        ["apart", *(f"{value:.3f}" for value in apart), f"{apart[2] / apart[0]:.1f}×"],
        ["apart / as one", *ratio, ""],
    ]


def main(quick: bool) -> str:
    """Time, and give the section."""
    batch = rows(2_000 if quick else ROWS)
    header = ["", *(f"{number} window{'s' * (number > 1)}" for number in COUNTS), "50 / 1"]
    made: list[str] = []
    high, total = {"high": sash.max("x")}, {"total": sash.sum("x")}
    for title, queries, aggregates, is_stream in (
        ("Operator, at each row, max of floats, sizes of 1 to 1,000 rows", per_row, high, True),
        ("Operator, at each row, sum of floats, sizes of 1 to 1,000 rows", per_row, total, True),
        ("Operator, slides of 1 to 20 s, sizes up to 100 s, max of floats", per_slide, high, True),
        ("Operator, slides of 1 to 20 s, sizes up to 100 s, sum of floats", per_slide, total, True),
        ("Frame, at each row, max of floats, sizes of 1 to 1,000 rows", per_row, high, False),
        ("Frame, slides of 1 to 20 s, sizes up to 100 s, max of floats", per_slide, high, False),
    ):
        table = figures(lambda n, make=queries, some=aggregates: make(n, **some), batch, is_stream)
        made += [f"{title}:", page.table(header, table)]
    return "\n\n".join(
        [
            "## Many windows on one stream",
            (
                f"Processor seconds, {KEYS:,} keys: all windows as one `sash.Queries`, and as queries apart, one after "
                f"the other. Frames have {batch.num_rows:,} rows; of an operator the second half of them is timed. "
                "Every window has results of its own, so the output grows with "
                "their number; the last column is what 50 windows cost against one."
            ),
            *made,
        ]
    )
