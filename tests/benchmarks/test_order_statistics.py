"""The benchmark of order statistics compares equal results, and reports missed goals."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from benchmarks import order_statistics as bench

ROWS, WIDTH = 300, 40
X = bench.columns(ROWS)["20 values"]


@pytest.mark.parametrize("name", bench.AGGREGATES)
def test_the_same_results(name: str) -> None:
    frame = pl.DataFrame({"x": X})
    ours = bench.ours_on(frame, name, WIDTH)["out"].to_numpy()
    theirs = {
        "pandas": lambda: bench.by_pandas(pd.DataFrame({"x": X}), name, WIDTH)["out"],
        "polars": lambda: bench.by_polars(frame, name, WIDTH)["out"],
        "bottleneck": lambda: bench.by_bottleneck(X, name, WIDTH),
        "DuckDB": lambda: (
            bench.by_duckdb(bench.in_duckdb(X), name, WIDTH).execute("SELECT out FROM result ORDER BY i").fetchnumpy()
        )["out"],
    }
    compared = [rival for rival in bench.RIVALS if bench.rows_of(rival, name, WIDTH, bench.Sizes())]
    assert compared
    for rival in compared:
        found = np.asarray(theirs[rival]())
        if (rival, name) == ("bottleneck", "rank"):  # from -1 to 1
            found = (found + 1) / 2 * (WIDTH - 1) + 1
        np.testing.assert_allclose(ours[WIDTH - 1 :], found[WIDTH - 1 :], rtol=1e-12)


def test_misses_are_bold() -> None:
    figures = {"sash on pandas": 10.0, "sash on polars": 5.0, "pandas": 90.0, "polars": 20.0, "max": 2.0}
    assert bench.cells(figures) == ["10.0 (**2.00×**)", "5.0 (4.00×)", "90.0", "20.0", "–", "–", "2.5×"]


def test_who_gets_how_many_rows() -> None:
    sizes = bench.Sizes()
    assert bench.rows_of("polars", "median", 1000, sizes) == sizes.rows
    assert bench.rows_of("pandas", "median", 1000, sizes) == sizes.sampled
    assert bench.rows_of("bottleneck", "quantile 0.9", 10, sizes) == 0, "it has none"
    assert bench.rows_of("polars", "count_distinct", 1000, sizes) == sizes.folded // 1000
    assert bench.rows_of("polars", "count_distinct", 10_000, sizes) == 0, "its share does not hold two windows"


@pytest.mark.parametrize("name", ["median", "quantile 0.9"])
def test_the_same_results_by_time(name: str) -> None:
    frame, period = bench.timed(X), f"{500 * WIDTH}us"
    ours = bench.by_time_of("sash on polars", frame, name, period)["out"].to_numpy()
    for rival, own in {"pandas": frame.to_pandas(), "polars": frame}.items():
        np.testing.assert_allclose(ours, np.asarray(bench.by_time_of(rival, own, name, period)["out"]), rtol=1e-12)
