"""Kernels for any CPU of an architecture level, compared with those for this CPU: `python -m benchmarks.cpu_levels`.

The figures in docs/installation.md, which say for which level `make wheel` compiles. A process for each level; they
take turns, and the best of some rounds counts. CPU time: on a shared machine it is steadier than time by the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import page

LEVELS = {"native": {}, "x86-64-v3": {"NUMBA_CPU_FEATURES": ""}, "x86-64": {"NUMBA_CPU_FEATURES": ""}}
AGGREGATES = ("max", "arg_max", "sum", "mean", "std", "first", "count")
LIVE = ("max", "sum", "mean", "std")
ROWS, ROUNDS = 500_000, 9


def cases(rows: int) -> dict[str, Callable[[], Any]]:
    """What is timed, by name: frames, and operators that get the rows in ten batches."""
    import numpy as np
    import pyarrow as pa

    import sash

    chance = np.random.default_rng(1)
    table = pa.table(
        {
            "key": chance.integers(0, 1000, rows),
            "t": np.arange(rows),
            "float": np.cumsum(chance.normal(size=rows)),
            "integer": chance.integers(-1000, 1000, rows),
        }
    )

    def of(name: str, column: str) -> Any:
        make = getattr(sash, name)
        return make(column, "key") if name.startswith("arg") else make(column)

    def stream(out: Any) -> None:
        operator = sash.Query(sash.Time(100_000), by="key", on="t", out=out).operator()
        for batch in table.to_batches(max_chunksize=rows // 10):
            operator.process(batch)

    found: dict[str, Callable[[], Any]] = {}
    for column in ("float", "integer"):
        for name in AGGREGATES:
            out = of(name, column)
            found[f"{name} of {column}s, rows"] = lambda out=out: sash.rolling(table, 1000, out=out)
            found[f"{name} of {column}s, time, by key"] = lambda out=out: sash.rolling(
                table, sash.Time(100_000), by="key", on="t", out=out
            )
        for name in LIVE:
            out = of(name, column)
            found[f"operator: {name} of {column}s"] = lambda out=out: stream(out)
    return found


def worker() -> None:
    """Answer each line, a case's number, with seconds."""
    runs = list(cases(ROWS).values())
    for run in runs:
        run()  # compile
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        began = time.process_time()
        runs[int(line)]()
        sys.stdout.write(f"{json.dumps(time.process_time() - began)}\n")
        sys.stdout.flush()


def start(level: str) -> subprocess.Popen[str]:
    """A process that compiles for a level."""
    chosen = LEVELS[level] | ({} if level == "native" else {"NUMBA_CPU_NAME": level})
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cpu_levels", "worker"],
        env={**os.environ, **chosen},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    """Run the benchmark, and print the table."""
    names = list(cases(1))
    workers = {}
    for level in LEVELS:
        workers[level] = start(level)
        assert workers[level].stdout.readline() == "ready\n"
    best = {(name, level): float("inf") for name in names for level in LEVELS}
    for _ in range(ROUNDS):
        for number, name in enumerate(names):
            for level, process in workers.items():
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
                best[name, level] = min(best[name, level], json.loads(process.stdout.readline()))
    for process in workers.values():
        process.communicate()
    lines = []
    for name in names:
        native = best[name, "native"]
        ratios = [f"{best[name, level] / native:.2f}" for level in LEVELS if level != "native"]
        lines.append([name, f"{native / ROWS * 1e9:.1f}", *ratios])
    print(page.table(["", "native, CPU ns a row", *(level for level in LEVELS if level != "native")], lines))


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["worker"] else main()
