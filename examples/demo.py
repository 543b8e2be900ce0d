"""What there is, in a minute or two: exact windows, an aggregate of one's own, and a market of trades through Spark.

Run by `make demo`.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np

import sash
from examples import market
from sash.aggregators import DABA, Recalc, SubtractOnEvict
from sash.aggregators.catalogue import CATALOGUE
from sash.kernels import slide
from sash.testing import check_laws

TRADES = 1_000_000
WINDOW = 1_000


def trades(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Prices on a random walk, and the number of the trader of each."""
    chance = np.random.default_rng(2026)
    prices = 100 + np.cumsum(chance.normal(0, 0.05, count))
    return np.maximum(prices, 1.0), chance.integers(0, 500, count)


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def one_event_at_a_time() -> None:
    heading("A window in a loop: the highest of the last 3, and who paid it")
    window = DABA(sash.monoids.ArgMax())
    for price, trader in ((101, "ann"), (104, "bob"), (102, "cid"), (103, "dee"), (100, "eve")):
        if len(window) == 3:
            window.evict()
        window.insert(price, trader)
        print(f"  {price} by {trader}:  highest paid by {window.query()}")


def exactness() -> None:
    heading("Is the number right? A spike of 1e16 passes through a window of 3")
    stream = [0.1, 1e16, 0.2, 0.3, 0.4]
    window, running = SubtractOnEvict(sash.monoids.Sum()), 0.0
    for i, x in enumerate(stream):
        if i >= 3:
            window.evict()
            running -= stream[i - 3]
        window.insert(x)
        running += x
    exact = float(sum(Fraction(x) for x in stream[2:]))
    for label, figure in (("add and subtract floats", running), ("sash", window.query()), ("exact", exact)):
        print(f"  {label:24} {figure}")


def on_columns(prices: np.ndarray[Any, Any], traders: np.ndarray[Any, Any]) -> None:
    heading(f"{TRADES:,} trades, windows of {WINDOW:,}, on columns")
    geo = sash.monoid(
        identity=(0, 0.0),
        lift=lambda x: (1, math.log(x)),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda a: math.exp(a[1] / a[0]),
        name="geo",
    )
    print(f"  geo, a monoid of four lambdas, keeps the laws: {', '.join(check_laws(geo, [1.5, 2.0, 8.0]).laws)}")
    work: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "max": (sash.monoids.Max(), (prices,)),
        "arg_max": (sash.monoids.ArgMax(), (prices, traders)),
        "mean": (sash.monoids.Mean(), (prices,)),
        "std": (sash.monoids.Std(), (prices,)),
        "geo": (geo, (prices,)),
    }
    sample = slice(TRADES // 2, TRADES // 2 + 2 * WINDOW)
    for name, (monoid, columns) in work.items():
        slide(DABA, monoid, tuple(column[:10] for column in columns), 5)  # compile, or find the machine code
        began = time.perf_counter()
        results = slide(DABA, monoid, columns, WINDOW)
        per_row = (time.perf_counter() - began) / TRADES * 1e9
        expected = slide(Recalc, monoid, tuple(column[sample] for column in columns), WINDOW).to_list()[-1]
        got = slide(DABA, monoid, tuple(column[sample] for column in columns), WINDOW).to_list()[-1]
        verdict = "agrees with Recalc" if math.isclose(expected, got, rel_tol=1e-12) else "DIFFERS from Recalc"
        print(f"  {name:8} {per_row:6.1f} ns a row   last {results.to_list()[-1]:<20}  {verdict}")


def main() -> None:
    one_event_at_a_time()
    exactness()
    prices, traders = trades(TRADES)
    on_columns(prices, traders)
    heading("The structures")
    for record in CATALOGUE.values():
        needs = f"needs {', '.join(record.needs)}" if record.needs else "any monoid"
        print(f"  {record.name:16} {needs:14} {record.summary}")
    heading("The same on an unbounded stream: a market of trades through Spark")
    market.main()


if __name__ == "__main__":
    main()
