"""Rows that leave an operator at once: a call after a gap in the stream, with each structure.

    time ───▶  ▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏            ▏▏
               └── 2^20 rows ─┘    gap     two rows: all rows, or a part of them, have left their window

AMTA's paper (figure 7) and that of FiBA's bulk operations evict any number of elements in logarithmic time; all of them
can leave in constant time with every structure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import sash
from benchmarks import page
from benchmarks.timing import each_call
from sash.aggregators.catalogue import CATALOGUE, Record
from sash.monoids import Max, Sum
from sash.plan.api_types import StructureName

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
AGGREGATES = {
    "max": (sash.max("x"), Max().typed("float")),
    "sum": (sash.sum("x"), Sum().typed("float")),
    "sum of integers": (sash.sum("t"), Sum().typed("int")),
}
"""The last one only for structures that need an exact inverse."""

TOO_SLOW = ("Recalc",)
"""Folds the window at each row: filling it would take 2^39 ⊕."""

PLANNED = "planner's choice"
LATENCY = 'prefer="latency"'
PARTS: tuple[str, ...] = ("AMTA", "LogMTA", "FiBA", "AugmentedBTree", "DABALite", "TwoStacksLite", PLANNED, LATENCY)
GOAL = 1.0
"""Milliseconds of a call after a gap."""

FOLLOWING = 10
"""Calls after it that are timed as well."""

FILL = 2**16


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    window: int = 2**20
    parts: tuple[int, ...] = (2**10, 2**12, 2**14, 2**16, 2**18, 2**19, 2**20 - 2**18, 2**20 - 2**14, 2**20 - 2**10)
    repeats: int = 3


QUICK = Sizes(2**12, (2**6, 2**11, 2**12 - 2**6), 1)


@dataclass(frozen=True)
class Found:
    """Milliseconds of processor time: an ordinary call of two rows, the one after a gap, and the longest of those that
    follow."""

    ordinary: float
    gap: float
    later: float
    again: float
    """After the window was filled once more: the longer of its gap and of the calls that follow."""


def admitted(record: Record, aggregate: str) -> bool:
    """Can the structure run this aggregate, in time?"""
    monoid = AGGREGATES[aggregate][1]
    if record.comparisons or record.name in TOO_SLOW or (aggregate == "sum of integers") > ("inverse" in record.needs):
        return False
    return all(getattr(monoid, need) for need in record.needs)


def options_of(name: str) -> sash.Options:
    """The options that select a structure, by its name or as the planner does."""
    if name in (PLANNED, LATENCY):
        return sash.Options(prefer="latency" if name == LATENCY else "throughput")
    known: StructureName = name  # type: ignore[assignment]
    return sash.Options(structure=known)


class Running:
    """An operator with one key, whose window can be filled again after each gap."""

    def __init__(self, structure: str, aggregate: str, window: int) -> None:
        query = sash.Query(
            sash.Time(window), by="k", on="t", options=options_of(structure), out=AGGREGATES[aggregate][0]
        )
        self.operator, self.window, self.at = query.operator(SCHEMA), window, 0
        self.chance = np.random.default_rng(2)

    def rows(self, count: int) -> pa.RecordBatch:
        """The next rows, one at each time."""
        times = np.arange(self.at, self.at + count)
        self.at += count
        columns = np.zeros(count, np.int64), times, self.chance.random(count)
        return pa.record_batch([*map(pa.array, columns)], schema=SCHEMA)

    def after(self, leaving: int) -> tuple[float, float, float]:
        """Fill the window and let so many rows leave it: milliseconds of an ordinary call, of that call, and of the
        longest one after it."""
        for first in range(0, self.window, FILL):
            self.operator.process(self.rows(min(FILL, self.window - first)))
        ordinary = each_call(self.operator.process, [self.rows(2) for _ in range(FOLLOWING)])[0]
        self.at += leaving - 1
        gap = each_call(self.operator.process, [self.rows(2)])[0]
        later = each_call(self.operator.process, [self.rows(2) for _ in range(FOLLOWING)])[0]
        return float(np.median(ordinary)) / 1e3, gap[0] / 1e3, later.max() / 1e3


def least(structure: str, aggregate: str, leaving: int, sizes: Sizes) -> Found:
    """The least of each figure of some operators. Each is new: what a first gap costs, later ones may not."""
    found = []
    for _ in range(sizes.repeats):
        running = Running(structure, aggregate, sizes.window)
        found.append((*running.after(leaving), max(running.after(leaving)[1:])))
    return Found(*map(min, zip(*found, strict=True)))


def warmed(structure: str, aggregate: str) -> None:
    """Compile, or find the machine code."""
    for leaving in (QUICK.window // 2, 2 * QUICK.window):
        Running(structure, aggregate, QUICK.window).after(leaving)


def all_leave(sizes: Sizes, structures: tuple[str, ...]) -> Iterator[tuple[str, str, Found]]:
    """All rows leave, by structure and aggregate."""
    for aggregate in AGGREGATES:
        for name in structures:
            if admitted(CATALOGUE[name], aggregate) if name in CATALOGUE else aggregate != "sum of integers":
                warmed(name, aggregate)
                yield name, aggregate, least(name, aggregate, 2 * sizes.window, sizes)


def parts_leave(sizes: Sizes, structures: tuple[str, ...]) -> Iterator[tuple[str, int, Found]]:
    """A part of the rows leaves, by structure and number: a maximum."""
    for name in structures:
        warmed(name, "max")
        for leaving in sizes.parts:
            yield name, leaving, least(name, "max", leaving, sizes)


EVERY = (*CATALOGUE, PLANNED, LATENCY)


def milliseconds(found: float) -> str:
    """A figure, in bold above the goal."""
    return f"{found:,.2f}" if found <= GOAL else f"**{found:,.2f}**"


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    whole = [
        [f"{name}, {aggregate}", f"{found.ordinary:,.2f}", *map(milliseconds, (found.gap, found.later, found.again))]
        for name, aggregate, found in all_leave(sizes, EVERY)
    ]
    parts: dict[str, list[str]] = {}
    for name, _, found in parts_leave(sizes, PARTS):
        parts.setdefault(name, []).append(milliseconds(max(found.gap, found.later)))
    return "\n\n".join(
        [
            "## Bulk eviction in the operator",
            (
                f"{sizes.window:,} rows in a `Time` window of one key; then a gap, and a call of two rows. "
                "Milliseconds of processor time: an ordinary call of two rows, the call after a gap in which all "
                f"rows leave, and the longest of the {FOLLOWING} calls after it; then both once more, in the same "
                "operator with the window filled again. Figure 7 of AMTA's paper: any number "
                f"of elements in logarithmic time. The goal: at most {GOAL:g} ms."
            ),
            page.table(["", "ordinary", "all leave", "longest after it", "once more"], whole),
            (
                "The same where a part leaves, max of floats: milliseconds of that call or the longest after it, "
                "against the rows that leave."
            ),
            page.table(["", *(f"{leaving:,}" for leaving in sizes.parts)], [[n, *cells] for n, cells in parts.items()]),
        ]
    )


def alone() -> None:
    """Print the figures as they are found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaps", description=__doc__)
    parser.add_argument("names", nargs="*", help="structures (all)")
    parser.add_argument("--only", choices=("all", "parts"), help="let only all rows leave, or only parts")
    parser.add_argument("--quick", action="store_true", help="small windows")
    parser.add_argument("--raw", action="store_true", help="JSON, a line for each figure")
    given = parser.parse_args()
    sizes = QUICK if given.quick else Sizes()

    def show(name: str, what: str, leaving: int, found: Found) -> None:
        if given.raw:
            print(json.dumps({"structure": name, "aggregate": what, "leaving": leaving, **vars(found)}), flush=True)
            return
        print(
            f"{name}, {what}, {leaving:,} of {sizes.window:,} leave: {found.gap:,.3f} ms; ordinary "
            f"{found.ordinary:,.3f}, longest of the next {FOLLOWING} {found.later:,.3f}; once more "
            f"{found.again:,.3f}",
            flush=True,
        )

    if given.only != "parts":
        for name, aggregate, found in all_leave(sizes, tuple(given.names) or EVERY):
            show(name, aggregate, sizes.window, found)
    if given.only != "all":
        for name, leaving, found in parts_leave(sizes, tuple(given.names) or PARTS):
            show(name, "max", leaving, found)


if __name__ == "__main__":
    alone()
