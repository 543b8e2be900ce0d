"""Chapters of runs: windows of hundreds of rows with runs of two and chapters of two runs, against the reference.

rows         · · · · · · · · · · · · · · · ·
runs         ├─┤ ├─┤ ├─┤ ├─┤ ├─┤ ├─┤ ├─┤ ├─┤
chapters     ├─────┤ ├─────┤ ├─────┤
windows            └────────────────────────┘  begins in a chapter: it is taken apart
                             └──────────────┘  another in the middle: that chapter is read, and stays
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Delta, Query, Time
from sash.testing.streams import Case, Step, split
from tests.operator.counting import CountingStore
from tests.operator.duel import duel
from tests.operator.test_small_pages import small_pages
from tests.operator.test_truth import begin, resume

SHOWN: dict[str, Any] = {"rows": sash.count(), "total": sash.sum("x"), "high": sash.max("x"), "name": sash.max("s")}

WINDOWS: dict[str, Any] = {
    "time": Time(90),
    "two in time": {"long": Time(90), "short": Time(30)},
    "time left": Time(90, closed="left"),
    "count and time": {"rows": Count(70), "time": Time(40)},
    "count full": Count(70, full=True),
    "count by time": Count(60, every=Time(7)),
    "delta": Delta("g", 40),
    "slides": Time(180, every=2),
    "two slides": {"long": Time(180, every=2), "short": Time(60, every=4)},
    "counted": Count(120, every=2),
}


def events(seed: int, count: int = 300) -> pa.RecordBatch:
    """Rows of one key for the most part, somewhat out of order; in the middle a silence that empties all windows."""
    random = np.random.default_rng(seed)
    time = np.arange(count) - random.choice([0, 0, 1, 4], count) + np.where(np.arange(count) > 200, 500, 0)
    return pa.record_batch(
        {
            "k": pa.array(random.choice(["a", "a", "a", "a", "a", None], count).tolist(), pa.string()),
            "t": pa.array(time),
            "x": pa.array(random.integers(-9, 10, count), mask=random.random(count) < 0.1),
            "s": pa.array(random.choice(["ä", "b", "cc", ""], count).tolist(), pa.string()),
            "g": pa.array(time // 2),
        }
    )


def case(window: Any, mode: str, seed: int, pieces: int, **arguments: Any) -> Case:
    query = Query(window, by="k", on="t", lateness=6, **arguments, **SHOWN)
    batch = events(seed)
    random = np.random.default_rng(seed)
    steps: list[Step] = []
    for piece in split(batch, random.integers(0, batch.num_rows, pieces).tolist()):
        steps.append(Step("process", piece))
        if mode == "given" and piece.num_rows:
            steps.append(Step("advance", max(piece["t"].to_pylist()) - 5))
    return Case(query, batch.schema, mode, (*steps, Step("snapshot"), Step("finish")))


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize(("mode", "pieces"), [("rows", 60), ("given", 8)])
def test_every_window(window: Any, mode: str, pieces: int) -> None:
    with small_pages(2):
        duel(case(window, mode, pieces, pieces), begin, resume)


@pytest.mark.parametrize("emit", ["changes", "eager"])
def test_every_emission(emit: str) -> None:
    with small_pages(2):
        duel(case(WINDOWS["two in time"], "rows", 3, 40, emit=emit), begin, resume)


@pytest.mark.parametrize("name", ["time", "two in time", "slides", "counted"])
def test_pages_are_written_dropped_and_counted(name: str) -> None:
    """There are chapters, they go when their runs do, and the bytes that the operator counts are those of the store."""
    played = case(WINDOWS[name], "rows", 1, 60)
    store, most, dropped, written = CountingStore(), 0, 0, 0
    with small_pages(2):
        operator = played.query.operator(played.schema, store=store)
        for step in played.steps:
            store.forget()
            if step.call == "process":
                operator.process(step.argument)
            there = Counter(page[0] for page in store.pages)
            most = max(most, there["c"])
            dropped += sum(page[0] == "c" for page in store.dropped)
            written += sum(page[0] == "c" for page in store.written)
            assert operator.metrics.state_bytes == store.nbytes
        assert most >= 5
        assert dropped >= 5
        assert written <= 1.5 * dropped + most, "a chapter is written once"
        operator.finish()
    assert set(store.pages) == {"header"}
