"""One row a call, and many: what the operator adds to a window written by hand; and what small keys take in memory.

Rows in order, one at each time, of keys drawn at random; max and sum of floats at each row. State is filled first; then
the operator and its rivals take calls in turn, and what counts is the time of each call.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sash
from benchmarks import page
from benchmarks.live_arrays import LiveArrays
from benchmarks.timing import each_call
from sash.stores import RocksDBStore

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
TWO = {"high": sash.max("x"), "total": sash.sum("x")}
OPERATOR, WAITING, STORED, ARRAYS = "operator", "operator, lateness=0", "operator on RocksDB", "arrays by hand"
FILL = 2**17


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark."""

    keys: tuple[tuple[int, int], ...] = ((1_000, 100), (100_000, 10), (1_000_000, 4))
    """How many, and rows of a key in the window."""
    calls: tuple[tuple[int, int], ...] = ((1, 3000), (1_000, 200), (100_000, 8))
    """Rows of a call, and how many calls."""
    stored_keys: int = 100_000
    """At most, for calls on a store."""
    turns: int = 4
    memory_keys: int = 100_000
    memory_rows: int = 10


QUICK = Sizes(((100, 10), (2_000, 4)), ((1, 50), (1_000, 4)), 100, 2, 1_000)


class Stream:
    """Rows of keys drawn at random, one at each time."""

    def __init__(self, keys: int) -> None:
        self.chance, self.keys, self.at = np.random.default_rng(6), keys, 0

    def rows(self, count: int) -> pa.RecordBatch:
        """The next rows."""
        keys, x = self.chance.integers(0, self.keys, count), self.chance.random(count)
        times = np.arange(self.at, self.at + count)
        self.at += count
        return pa.record_batch([pa.array(keys), pa.array(times), pa.array(x)], schema=SCHEMA)

    def calls(self, count: int, rows: int) -> list[pa.RecordBatch]:
        """The next rows, in so many calls."""
        together = self.rows(count * rows)
        return [together.slice(first, rows) for first in range(0, together.num_rows, rows)]


def contestants(size: int, folder: Path | None) -> dict[str, Callable[[pa.RecordBatch], Any]]:
    """The operator, and those it is compared with."""
    query = sash.Query(sash.Time(size), by="k", on="t", **TWO)
    waiting = sash.Query(sash.Time(size), by="k", on="t", lateness=0, **TWO)
    found = {
        OPERATOR: query.operator(SCHEMA).process,
        WAITING: waiting.operator(SCHEMA).process,
        ARRAYS: LiveArrays(size).process,
    }
    if folder is not None:
        found[STORED] = query.operator(SCHEMA, store=RocksDBStore(folder / str(size))).process
    return found


Taken = dict[tuple[str, int], NDArray[np.float64]]
"""By contestant and rows of a call: microseconds of each call, of processor time and of wall time."""


def taken(keys: int, each: int, sizes: Sizes) -> Taken:
    """The time of each call, with so many keys and rows of a key in the window."""
    found: dict[tuple[str, int], list[NDArray[np.float64]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        rivals = contestants(keys * each, Path(folder) if keys <= sizes.stored_keys else None)
        streams = {name: Stream(keys) for name in rivals}
        for name, process in rivals.items():
            for first in range(0, keys * each * 3 // 2, FILL):
                process(streams[name].rows(min(FILL, keys * each * 3 // 2 - first)))
        for rows, count in sizes.calls:
            for turn in range(sizes.turns + 1):
                for name, process in rivals.items():
                    if name == STORED and rows > 1:
                        continue
                    one = each_call(process, streams[name].calls(max(count // sizes.turns, 1), rows))
                    if turn:
                        found.setdefault((name, rows), []).append(one)
    return {what: np.concatenate(parts, axis=1) for what, parts in found.items()}


def lines(sizes: Sizes, raw: bool = False) -> Iterator[list[str]]:
    """A line by keys, rows of a call and contestant."""
    for keys, each in sizes.keys:
        figures = taken(keys, each, sizes)
        for (name, rows), (cpu, wall) in figures.items():
            if raw:
                given = {"keys": keys, "rows": rows, "name": name, "cpu": cpu.tolist(), "wall": wall.tolist()}
                print(json.dumps(given))
            marks = [np.percentile(cpu, 50), np.percentile(cpu, 99), np.percentile(wall, 50), np.percentile(wall, 99)]
            ratio = marks[0] / np.median(figures[ARRAYS, rows][0])
            label = f"{keys:,} keys, {rows:,} {'row' if rows == 1 else 'rows'}, {name}"
            yield [label, *(f"{mark:,.1f}" for mark in marks), f"{marks[0] / rows * 1e3:,.0f}", f"{ratio:,.1f}×"]


# ---- memory ----


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(process: Callable[[pa.RecordBatch], Any], keys: int, rows: int) -> None:
    """Each key gets so many rows."""
    order = np.random.default_rng(8).permutation(keys)
    for turn in range(rows):
        times, x = np.arange(turn * keys, (turn + 1) * keys), order * 0.5
        process(pa.record_batch([pa.array(order), pa.array(times), pa.array(x)], schema=SCHEMA))


def grown(name: str, keys: int, rows: int) -> dict[str, int]:
    """What the state of small keys adds to the memory of this process."""
    for _ in range(2):  # code and buffers are there before
        fill(contestants(10_000, None)[name], 1_000, rows)
    before = resident()
    if name == ARRAYS:
        arrays = LiveArrays(keys * rows)
        fill(arrays.process, keys, rows)
        return {"resident": resident() - before}
    operator = sash.Query(sash.Time(keys * rows), by="k", on="t", **TWO).operator(SCHEMA)
    fill(operator.process, keys, rows)
    after = resident()
    metrics = operator.metrics
    return {
        "resident": after - before,
        "state": metrics.state_bytes,
        "elements": metrics.elements,
        "snapshot": len(operator.snapshot()),
    }


def memory(sizes: Sizes) -> dict[str, dict[str, int]]:
    """The same, each in a new process."""
    found = {}
    for name in (OPERATOR, ARRAYS):
        given = ["--memory-of", name, "--keys", str(sizes.memory_keys), "--rows", str(sizes.memory_rows)]
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.one_row", *given], check=True, capture_output=True, text=True
        )
        found[name] = json.loads(run.stdout)
    return found


HEADER = ["", "median µs", "99 %", "median, wall", "99 %, wall", "ns a row", "to arrays"]


def memory_lines(sizes: Sizes) -> list[list[str]]:
    """Bytes a key, by contestant."""
    names = ("resident", "state", "snapshot")
    return [
        [name, *(f"{figures[what] / sizes.memory_keys:,.0f}" if what in figures else "–" for what in names)]
        for name, figures in memory(sizes).items()
    ]


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    windows = ", ".join(f"{each} rows of each of {keys:,} keys" for keys, each in sizes.keys)
    return "\n\n".join(
        [
            "## One row",
            (
                f"Microseconds of processor time a call, max and sum of floats at each row, windows of {windows}; and "
                "the ratio to a loop written by hand over arrays, for this query alone, without checks, watermark and "
                "undo. With `lateness=0` a row waits until the next one. Goals: one row of 1,000 keys 35 µs in the "
                "median and 100 at 99 of 100, on RocksDB 300; 100,000 rows of 100,000 keys 400 ns a row, of 1,000,000 "
                "keys 1,500."
            ),
            page.table(HEADER, list(lines(sizes))),
            (
                f"Bytes a key, with {sizes.memory_keys:,} keys of {sizes.memory_rows} rows: what the process has grown "
                "by, what `metrics.state_bytes` says, and the snapshot:"
            ),
            page.table(["", "process", "state", "snapshot"], memory_lines(sizes)),
        ]
    )


def alone() -> None:
    """Print the figures as they are found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_row", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few keys and calls")
    parser.add_argument("--raw", action="store_true", help="also the microseconds of each call, as JSON")
    parser.add_argument("--keys", type=int, help="only with so many keys")
    parser.add_argument("--only", choices=("calls", "memory"), help="only these")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of:
        print(json.dumps(grown(given.memory_of, given.keys, given.rows)))
        return
    sizes = QUICK if given.quick else Sizes()
    if given.keys:
        sizes = Sizes(keys=tuple(one for one in sizes.keys if one[0] == given.keys) or ((given.keys, 10),))
    if given.only != "memory":
        for name, *cells in lines(sizes, given.raw):
            print(f"{name}: " + ", ".join(f"{what} {cell}" for what, cell in zip(HEADER[1:], cells, strict=True)))
    if given.only != "calls":
        print(json.dumps(memory(sizes)))


if __name__ == "__main__":
    alone()
