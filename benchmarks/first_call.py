"""The first call of a new process, when the machine code is in the cache.

start ──import pandas──▶ ──import sash──▶ ──first call──▶ ──second call──▶
      ╰──────────────── the goal: under a second ───────╯
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import page

STEPS = ("the frame's library", "import sash", "first call", "second call")
SCRIPT = """
import json, time
began = [time.perf_counter()]
lap = lambda: began.append(time.perf_counter())
import {library} as library
lap()
import sash
lap()
import numpy as np
chance = np.random.default_rng(1)
rows = {rows}
frame = library.DataFrame({{
    "k": chance.integers(0, 1000, rows), "t": np.arange(rows).astype("datetime64[ms]"), "x": chance.random(rows)
}})
building = time.perf_counter() - began[-1]
for _ in range(2):
    sash.rolling(frame, {arguments})
    lap()
laps = [after - before for before, after in zip(began, began[1:])]
laps[2] -= building
print(json.dumps(laps))
"""
CALLS = {
    "max, 1,000 rows": '1000, out=sash.max("x")',
    "std, 1,000 rows": '1000, out=sash.std("x")',
    "sum and max, 1h, by key": '"1h", by="k", on="t", total=sash.sum("x"), high=sash.max("x")',
    "a monoid of one's own": (
        "1000, out=sash.monoid(identity=0.0, lift=lambda x: x * x, combine=lambda a, b: a + b, "
        'lower=lambda a: a**0.5)("x")'
    ),
}


def seconds(library: str, arguments: str, rows: int) -> list[float]:
    """Each step's, in a new process."""
    script = SCRIPT.format(library=library, arguments=arguments, rows=rows)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    laps: list[float] = json.loads(done.stdout)
    return laps


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    rows = 10_000 if quick else 1_000_000
    lines = []
    for library in ("pandas", "polars"):
        for name, arguments in CALLS.items():
            seconds(library, arguments, rows)  # the cache is warm from here on
            laps = min(
                (seconds(library, arguments, rows) for _ in range(1 if quick else 5)), key=lambda laps: sum(laps[:3])
            )
            whole = sum(laps[:3])
            text = f"{whole:.2f}" if whole < 1 else f"**{whole:.2f}**"
            lines.append([f"{library}: {name}", *(f"{lap:.2f}" for lap in laps), f"{sum(laps[1:3]):.2f}", text])
    return "\n\n".join(
        [
            "## The first call",
            (
                f"Seconds in a new process, {rows:,} rows, with the machine code in the cache: imports, and two calls "
                "of `sash.rolling`. The goal: below 1 for the imports and the first call, including the frame's "
                "library."
            ),
            page.table(["", *STEPS, "import sash and first call", "with the frame's library"], lines),
        ]
    )
