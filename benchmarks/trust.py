"""Digits: how far sums, means and variances are from exact arithmetic, on streams made to break them.

The same streams and the same goals as in `tests/frames/test_trust.py`; here the other libraries run as well.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks import page
from benchmarks.functions import FUNCTIONS, STEP, Case, Columns
from benchmarks.rivals import CONTESTANTS, RIVALS
from sash.testing import ADVERSARIAL, exact_windows, worst_error

COLUMNS = {"sash": "sash on polars"} | {name: name for name in RIVALS}
MEASURED = ("sum", "mean", "var", "std")
WIDTH = 100


def of_stream(values: list[float]) -> Columns:
    """A stream as columns, a step apart."""
    rows = len(values)
    times = (np.arange(rows) * STEP).astype("datetime64[us]")
    return {"t": times, "k": np.zeros(rows, np.int64), "x": np.array(values)}


def said(error: float) -> str:
    """An error as readable text."""
    if math.isinf(error):
        return "**lost**"
    if error == 0:
        return "0"
    text = f"{error:.0e}"
    return f"**{text}**" if error > 1e-9 else text


def of_root(error: float) -> float:
    """The relative error of a root whose square has this one: √(1 + e) - 1, without losing digits."""
    return error if math.isinf(error) else error / (1 + math.sqrt(1 + error))


def errors(stream: str, rows: int) -> list[list[str]]:
    """Lines of the table: one for each function."""
    values = ADVERSARIAL[stream](rows)
    windows = [(max(0, end - WIDTH), end) for end in range(1, rows + 1)]
    lines = []
    for function in MEASURED:
        exact = exact_windows("var" if function == "std" else function, values, windows)
        line = [f"{stream}: {function}"]
        for name in COLUMNS.values():
            contestant = CONTESTANTS[name]
            frame = contestant.make(of_stream(values))
            with np.errstate(all="ignore"):
                found = contestant.out(contestant.run(frame, FUNCTIONS[function], Case("rows", WIDTH)))
                if function == "std":  # a root is no fraction, its square is
                    found = found * found
            error = worst_error(found.tolist(), exact)
            line.append(said(of_root(error) if function == "std" else error))
        lines.append(line)
    return lines


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    rows = 2000 if quick else 10_000
    return "\n\n".join(
        [
            "## Digits",
            (
                f"The worst relative error of {rows:,} windows of {WIDTH} rows against exact arithmetic (`fractions`). "
                "Windows that contain a NaN or an infinity, and those whose result overflows, are excluded; the "
                "windows after them are compared. **lost**: the result is NaN or infinite where the exact result is a "
                "number. Bold: above 1e-9. The goals: below 1e-12 for sum and mean, below 1e-9 for the "
                "variance. `sash.testing.ADVERSARIAL` contains the streams."
            ),
            page.table(["", *COLUMNS], [line for stream in ADVERSARIAL for line in errors(stream, rows)]),
        ]
    )
