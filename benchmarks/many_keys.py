"""An operator with very many live keys: what a call takes, with and without a store.

Keys have one row each, and calls have rows of keys drawn at random. Processor time, the median of some calls.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from benchmarks import page
from sash.stores import MemoryStore

EMITS = ("final", "changes", "eager")
SIZES = {10_000: 4, 1: 12}
"""By rows of a call: how many calls."""

FILL = 250_000
"""Rows of a call that brings new keys."""


class Running:
    """An operator with this many live keys."""

    def __init__(self, keys: int, is_text: bool, emit: str, store: Any) -> None:
        self.chance, self.at, self.is_text = np.random.default_rng(1), 0, is_text
        window, lateness = sash.Count(10), 10 if emit == "eager" else 0
        query = sash.Query(window, by="k", on="t", lateness=lateness, emit=emit, total=sash.sum("x"))
        self.operator = query.operator(store=store)
        order = self.chance.permutation(keys)
        for first in range(0, keys, FILL):
            self.operator.process(self.rows(order[first : first + FILL]))

    def rows(self, keys: Any) -> pa.RecordBatch:
        """The next rows, of these keys."""
        times = np.arange(self.at, self.at + len(keys))
        self.at += len(keys)
        names = pa.array([f"key {key:08}" for key in keys.tolist()]) if self.is_text else pa.array(keys)
        return pa.record_batch({"k": names, "t": pa.array(times), "x": pa.array(self.chance.random(len(keys)))})

    def milliseconds(self, keys: int, count: int, calls: int) -> float:
        """Milliseconds of a call with this many rows."""
        found = []
        for _ in range(calls):
            batch = self.rows(self.chance.integers(0, keys, count))
            began = time.process_time()
            self.operator.process(batch)
            found.append((time.process_time() - began) * 1e3)
        return statistics.median(found)


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    keys = 10_000 if quick else 1_000_000
    rows = []
    for is_text in (False, True):
        for emit in EMITS:
            for store in (None, MemoryStore()):
                running = Running(keys, is_text, emit, store)
                taken = [f"{running.milliseconds(keys, count, calls):,.1f}" for count, calls in SIZES.items()]
                where = "in memory" if store is None else "with a store"
                rows.append([f"{'text' if is_text else 'integers'}, {emit}, {where}", *taken])
    return "\n\n".join(
        [
            "## Many keys",
            (
                f"Milliseconds of processor time a call with {keys:,} live keys, the last 10 rows of each summed, keys "
                "drawn at random; a store in memory."
            ),
            page.table(["keys, emit", *(f"{count:,} rows" for count in SIZES)], rows),
            (
                "A call writes the buckets of its keys, and of each all keys: 10,000 keys at random are of all "
                "buckets, so that the whole state is written, some 150 MB. One row is of one bucket; most of what is "
                "left is that bucket and the header, which lists all buckets."
            ),
        ]
    )
