"""Many windows on one stream: as one `Queries`, and as separate queries.

Sizes and slides are drawn as in the experiments of the SlickDeque paper: ranges from one element up to a largest one,
here also with slides. Processor time, since the machine is shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from benchmarks import page, queries_flink

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


def row_sizes(number: int) -> list[int]:
    """Sizes in rows; one window is as long as the longest of many."""
    sizes = np.random.default_rng(3).choice(np.arange(1, LARGEST + 1), number, replace=False)
    return [LARGEST, *sizes[1:].tolist()]


def slides(number: int) -> list[tuple[int, int]]:
    """Sizes up to 100 and slides from 1 to 20, in seconds."""
    chance = np.random.default_rng(3)
    found = [(100, 1)]
    for _ in range(1, number):
        every = int(chance.choice([1, 2, 4, 5, 10, 20]))
        found.append((every * int(chance.integers(1, 100 // every + 1)), every))
    return found


def per_row(number: int, **aggregates: Any) -> dict[str, sash.Query]:
    """Windows of this many sizes in rows, with a result at each row."""
    return {f"q{i}": sash.Query(size, by="k", on="t", **aggregates) for i, size in enumerate(row_sizes(number))}


def per_time(number: int, **aggregates: Any) -> dict[str, sash.Query]:
    """Windows of this many sizes in time, a tenth of a second for each row above, with a result at each row."""
    windows = [sash.Time(f"{100 * size}ms") for size in row_sizes(number)]
    return {f"q{i}": sash.Query(window, by="k", on="t", **aggregates) for i, window in enumerate(windows)}


def per_slide(number: int, **aggregates: Any) -> dict[str, sash.Query]:
    """Windows of several sizes and slides."""
    windows = [sash.Time(f"{size}s", every=f"{every}s") for size, every in slides(number)]
    return {f"q{i}": sash.Query(window, by="k", on="t", **aggregates) for i, window in enumerate(windows)}


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
    """The least processor time of the last quarter of the rows, when arrays have their size."""
    best = float("inf")
    for _ in range(repeats):
        operator, spent = make(), 0.0
        call = min(CALL, batch.num_rows // 4)
        for first in range(0, batch.num_rows, call):
            began = time.process_time()
            operator.process(batch.slice(first, call))
            if first >= batch.num_rows * 3 // 4:
                spent += time.process_time() - began
        best = min(best, spent)
    return best


@dataclass
class Figures:
    """Processor seconds by the number of windows: as one `Queries`, and as separate queries."""

    together: list[float]
    separate: list[float]

    def table(self) -> list[list[str]]:
        """Seconds, the cost of 50 windows relative to one, and of separate queries relative to one `Queries`."""
        ratio = [f"{b / a:.1f}×" for a, b in zip(self.together, self.separate, strict=True)]
        return [
            ["as one `Queries`", *_row(self.together)],
            ["separate", *_row(self.separate)],
            ["separate / as one", *ratio, ""],
        ]


def _row(found: list[float]) -> list[str]:
    many = COUNTS.index(50)
    return [*(f"{value:.3f}" for value in found), f"{found[many] / found[0]:.1f}×"]


def figures(queries: Callable[[int], dict[str, sash.Query]], batch: pa.RecordBatch, is_stream: bool) -> Figures:
    """Seconds together and separately."""
    found = Figures([], [])
    table = pa.Table.from_batches([batch])
    for number in COUNTS:
        some = queries(number)
        both = sash.Queries(**some)
        if is_stream:
            found.together.append(streamed(both.operator, batch))
            found.separate.append(sum(streamed(one.operator, batch) for one in some.values()))
        else:
            found.together.append(seconds(lambda both=both: both.run(table), 5))
            found.separate.append(seconds(lambda some=some: [one.run(table) for one in some.values()]))
    return found


def floor(queries: Callable[[int], dict[str, sash.Query]], batch: pa.RecordBatch) -> list[float]:
    """Seconds to write the columns of results to one block of new memory: no frame takes less.

    At each row that is a column a window; at slides, which have rows of their own, four: key, start, end and result.
    """
    found = []
    for number in COUNTS:
        frames = sash.Queries(**queries(number)).run(batch)
        width = 1 if queries(1)["q0"].per_row else 4
        count = width * sum(frame.num_rows for frame in frames.values())
        found.append(seconds(lambda count=count: np.ones(count), 5))
    return found


AT_ROWS, AT_SLIDES = "at each row", "at slides"


def beside_flink(found: dict[str, Figures], quick: bool) -> str:
    """Compare with Flink: a table of processor microseconds per row of the operator and of Flink's job."""
    counts = queries_flink.COUNTS[: 1 if quick else None]
    plans = {
        AT_ROWS: {n: tuple(map(queries_flink.over, row_sizes(n))) for n in counts},
        AT_SLIDES: {n: tuple(queries_flink.hop(*one) for one in slides(n)) for n in counts},
    }
    timed = (2_000 if quick else ROWS) / 4
    theirs = queries_flink.measured(plans, KEYS, 1_000 if quick else queries_flink.ROWS)
    chosen = [COUNTS.index(n) for n in counts]
    ours = {name: [one.together[at] / timed * 1e6 for at in chosen] for name, one in found.items()}
    header = ["", *(f"{n} window{'s' * (n > 1)}" for n in counts)]
    return page.table(header, queries_flink.rows_of(ours, theirs))


PROFILE = (
    "The goal is 5× of one window and a tenth of the time of separate queries. Maxima of frames at each row reach 5×, "
    "slides of frames nearly; no case reaches a tenth. What 50 windows spend their time on, by a profile of processor "
    "time: on an operator at each row, one window takes 80 ns a row, and 50 take 16 to 22 ns a result: half to two "
    "thirds in the loop that queries all sizes from one structure, a fifth in bringing results into row order, a tenth "
    "in finding starts, each on blocks of 20 MB a call. At slides: a quarter each in that loop and in finding slides, "
    "the rest in columns of keys and times, which each window has separately. On a frame, writing the columns to new "
    "memory takes a fourth to a half of maxima and sums at each row, and bringing them into row order takes most of "
    "the rest; sizes that no key exceeds are computed once. Time windows find their bounds for each size, 5 ns a row "
    "and size, and subtract prefix sums, 2.5 ns. Slides of a frame are computed by an operator in one step: a quarter "
    "in the loop, a fifth in finding slides. Variances, and sums of integers and of columns with nulls, share only "
    "order and bounds."
)
"""Where a goal is missed, why: from `cProfile` of single calls."""


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    batch = rows(2_000 if quick else ROWS)
    header = ["", *(f"{number} window{'s' * (number > 1)}" for number in COUNTS), "50 / 1"]
    made: list[str] = []
    high, total = {"high": sash.max("x")}, {"total": sash.sum("x")}
    of_operator: dict[str, Figures] = {}
    for title, queries, aggregates, is_stream in (
        ("Operator, at each row, max of floats, sizes of 1 to 1,000 rows", per_row, high, True),
        ("Operator, at each row, sum of floats, sizes of 1 to 1,000 rows", per_row, total, True),
        ("Operator, slides of 1 to 20 s, sizes up to 100 s, max of floats", per_slide, high, True),
        ("Operator, slides of 1 to 20 s, sizes up to 100 s, sum of floats", per_slide, total, True),
        ("Frame, at each row, max of floats, sizes of 1 to 1,000 rows", per_row, high, False),
        ("Frame, at each row, sum of floats, sizes of 1 to 1,000 rows", per_row, total, False),
        ("Frame, at each row, sum of floats, sizes of 0.1 to 100 s", per_time, total, False),
        ("Frame, slides of 1 to 20 s, sizes up to 100 s, max of floats", per_slide, high, False),
        ("Frame, slides of 1 to 20 s, sizes up to 100 s, sum of floats", per_slide, total, False),
    ):

        def made_for(n: int, make: Any = queries, some: Any = aggregates) -> dict[str, sash.Query]:
            return make(n, **some)  # type: ignore[no-any-return]

        found = figures(made_for, batch, is_stream)
        table = found.table()
        if is_stream and aggregates is high:
            of_operator[AT_ROWS if queries is per_row else AT_SLIDES] = found
        if not is_stream and (aggregates is high or queries is per_time):
            table.append(["writing the columns alone", *_row(floor(made_for, batch))])
        made += [f"{title}:", page.table(header, table)]
    return "\n\n".join(
        [
            "## Many windows on one stream",
            (
                f"Processor seconds, {KEYS:,} keys: all windows as one `sash.Queries`, and as separate queries, one "
                f"after the other. Frames have {batch.num_rows:,} rows; for operators the last quarter of them is "
                "timed. Every window has its own results, so the output grows with the number of windows; the last "
                "column is the cost of 50 windows relative to one."
            ),
            *made,
            (
                "The same maxima in Flink 2.3: one SQL statement a window, all in one statement set, which reads its "
                f"source once; one task, state on the heap, {queries_flink.ROWS:,} rows from its generator, the last "
                "four fifths of them: few windows are full by then, and the JVM is still compiling. Processor "
                "microseconds a row, of the operator and of the whole JVM:"
            ),
            beside_flink(of_operator, quick),
            PROFILE,
        ]
    )
