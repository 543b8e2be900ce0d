"""User-defined aggregates: a monoid in Python, compared with functions that pandas and polars call for each window.

ours    lift, combine, lower: compiled, each a few nanoseconds, however long the window
theirs  a Python function of the window's values, called for each row: NumPy does the work inside
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import sash
from benchmarks import page
from benchmarks.timing import best_of
from sash.monoids import Monoid

GEOMETRIC = sash.monoid(
    identity=(0, 0.0),
    lift=lambda x: (1, math.log(x)),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lower=lambda a: math.exp(a[1] / a[0]),
)
NORM = sash.monoid(identity=0.0, lift=lambda x: x * x, combine=lambda a, b: a + b, lower=lambda a: a**0.5)
DECAYED = sash.monoid(
    identity=(1.0, 0.0),
    lift=lambda x: (0.9, x),
    combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
    lower=lambda a: a[1],
)
"""Of x from the oldest to the newest: each is worth 0.9 of the one after it. It does not commute."""


def decayed(values: Any) -> float:
    weights = 0.9 ** np.arange(len(values) - 1, -1, -1)
    return float(np.dot(weights, values))


OWN: dict[str, tuple[Monoid, Any]] = {
    "geometric mean": (GEOMETRIC, lambda values: math.exp(np.log(values).mean())),
    "norm": (NORM, lambda values: math.sqrt(np.dot(values, values))),
    "sum that decays": (DECAYED, decayed),
}
"""Our monoid, and the function of the others."""


def by_pandas(frame: pd.DataFrame, width: int, function: Any) -> pd.DataFrame:
    result = frame.copy(deep=False)
    result["out"] = frame["x"].rolling(width, min_periods=1).apply(function, raw=True)
    return result


def by_polars(frame: pl.DataFrame, width: int, function: Any) -> pl.DataFrame:
    expression = pl.col("x").rolling_map(lambda values: function(values.to_numpy()), width, min_samples=1)
    return frame.with_columns(out=expression)


def ours(frame: Any, width: int, monoid: Monoid) -> Any:
    return sash.rolling(frame, width, out=monoid("x"))


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    rows, few, widths = (20_000, 500, (100,)) if quick else (10_000_000, 20_000, (10, 100, 1000, 10_000))
    x = np.random.default_rng(13).random(rows) + 0.5
    columns, sample = {"x": x}, {"x": x[:few]}
    lines = []
    for name, (monoid, function) in OWN.items():
        for width in widths:
            runs = {
                "sash on pandas": partial(ours, pd.DataFrame(columns), width, monoid),
                "sash on polars": partial(ours, pl.DataFrame(columns), width, monoid),
                "pandas": partial(by_pandas, pd.DataFrame(sample), width, function),
                "polars": partial(by_polars, pl.DataFrame(sample), width, function),
            }
            for run in runs.values():
                run()  # compile, or find the machine code
            taken = best_of(runs, 3, 3.0)
            costs = {who: s / (rows if who.startswith("sash") else few) * 1e9 for who, s in taken.items()}
            worse = max(costs["sash on pandas"], costs["sash on polars"])
            ratios = [costs[who] / worse for who in ("pandas", "polars")]
            lines.append([f"{name}, {width:,}", *(f"{cost:,.1f}" for cost in costs.values()), *map(times, ratios)])
    return "\n\n".join(
        [
            "## User-defined aggregates",
            (
                f"Nanoseconds a row, by aggregate and number of rows in the window: a monoid in Python on {rows:,} "
                f"rows; `rolling.apply(…, raw=True)` of pandas and `rolling_map` of polars on {few:,}, which call a "
                "function of NumPy for each window. The ratio is to the slower of our two. The goal: 100×."
            ),
            page.table(
                ["", "sash on pandas", "sash on polars", "pandas", "polars", "pandas / sash", "polars / sash"], lines
            ),
        ]
    )


def times(ratio: float) -> str:
    """A ratio, in bold below the goal."""
    return f"{ratio:,.0f}×" if ratio >= 100 else f"**{ratio:,.0f}×**"
