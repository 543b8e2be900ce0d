"""The comparison table: every aggregate that somebody else has as well, and what it is called there.

The tests of `tests/benchmarks/` compare the results, `columns.py` the time, `trust.py` the digits.

            ours            pandas          polars                     bottleneck, numbagg    DuckDB
 FUNCTIONS  sash.sum("x")   rolling.sum()   rolling_sum, rolling_sum_by    move_sum            sum(x) OVER (…)
                                            any expression .rolling(…)

Columns: x and y walk at random, u is near 1, i are whole numbers, b true or false, k keys, t rising times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

import sash
from sash.monoids import Bound

Columns = dict[str, NDArray[np.generic]]
STEP = 1000
"""Microseconds from one row to the next, on average."""


@dataclass(frozen=True)
class Function:
    """One aggregate: ours, and its name with the others, or None where they lack it.

    `polars` is a name (`rolling_<name>`, `rolling_<name>_by`); where polars has no such function, `fold` is an
    expression that it evaluates for each window.
    """

    ours: Bound
    pandas: str | None = None
    polars: str | None = None
    fold: pl.Expr | None = None
    bottleneck: str | None = None
    numbagg: str | None = None
    duckdb: str | None = None


@dataclass(frozen=True)
class Case:
    """Window sizes: a number of rows of a key, or the time that this many rows take on average."""

    over: str
    width: int
    keys: int = 1

    @property
    def microseconds(self) -> int:
        """The length of a window of time."""
        return self.width * self.keys * STEP


X, Y = pl.col("x"), pl.col("y")

FUNCTIONS: dict[str, Function] = {
    "max": Function(sash.max("x"), "max", "max", X.max(), "max", None, "max(x) OVER w"),
    "min": Function(sash.min("x"), "min", "min", X.min(), "min", None, "min(x) OVER w"),
    "sum": Function(sash.sum("x"), "sum", "sum", X.sum(), "sum", "sum", "sum(x) OVER w"),
    "mean": Function(sash.mean("x"), "mean", "mean", X.mean(), "mean", "mean", "avg(x) OVER w"),
    "std": Function(sash.std("x"), "std", "std", X.std(), "std", "std", "stddev_samp(x) OVER w"),
    "var": Function(sash.var("x"), "var", "var", X.var(), "var", "var", "var_samp(x) OVER w"),
    "arg_max": Function(
        sash.arg_max("x", "y"), fold=Y.get(X.arg_max()), bottleneck="argmax", duckdb="arg_max(y, x) OVER w"
    ),
    "arg_min": Function(
        sash.arg_min("x", "y"), fold=Y.get(X.arg_min()), bottleneck="argmin", duckdb="arg_min(y, x) OVER w"
    ),
    "count": Function(sash.count("x"), "count", fold=X.count(), duckdb="count(x) OVER w"),
    "range": Function(sash.range("x"), fold=X.max() - X.min(), duckdb="max(x) OVER w - min(x) OVER w"),
    "first": Function(sash.first("x"), fold=X.first(), duckdb="first_value(x) OVER w"),
    "last": Function(sash.last("x"), fold=X.last(), duckdb="last_value(x) OVER w"),
    "nth": Function(sash.nth("x", n=3), fold=X.get(2, null_on_oob=True), duckdb="nth_value(x, 3) OVER w"),
    "product": Function(sash.product("u"), fold=pl.col("u").product(), duckdb="product(u) OVER w"),
    "geometric_mean": Function(
        sash.geometric_mean("u"), fold=pl.col("u").log().mean().exp(), duckdb="exp(avg(ln(u)) OVER w)"
    ),
    "sum_of_squares": Function(sash.sum_of_squares("x"), fold=(X * X).sum(), duckdb="sum(x * x) OVER w"),
    "skewness": Function(sash.skewness("x"), polars="skew", fold=X.skew()),
    "skewness of a sample": Function(
        sash.skewness("x", bias=False), "skew", fold=X.skew(bias=False), duckdb="skewness(x) OVER w"
    ),
    "kurtosis": Function(sash.kurtosis("x"), polars="kurtosis", fold=X.kurtosis(), duckdb="kurtosis_pop(x) OVER w"),
    "kurtosis of a sample": Function(
        sash.kurtosis("x", bias=False), "kurt", fold=X.kurtosis(bias=False), duckdb="kurtosis(x) OVER w"
    ),
    "covariance": Function(
        sash.covariance("x", "y"), "cov", "cov", pl.cov("x", "y"), numbagg="cov", duckdb="covar_samp(x, y) OVER w"
    ),
    "correlation": Function(
        sash.correlation("x", "y"), "corr", "corr", pl.corr("x", "y"), numbagg="corr", duckdb="corr(x, y) OVER w"
    ),
    "slope": Function(sash.slope("x", "y"), duckdb="regr_slope(y, x) OVER w"),
    "intercept": Function(sash.intercept("x", "y"), duckdb="regr_intercept(y, x) OVER w"),
    "any": Function(sash.any("b"), fold=pl.col("b").any(), duckdb="bool_or(b) OVER w"),
    "all": Function(sash.all("b"), fold=pl.col("b").all(), duckdb="bool_and(b) OVER w"),
    "bit_and": Function(sash.bit_and("i"), fold=pl.col("i").bitwise_and(), duckdb="bit_and(i) OVER w"),
    "bit_or": Function(sash.bit_or("i"), fold=pl.col("i").bitwise_or(), duckdb="bit_or(i) OVER w"),
    "bit_xor": Function(sash.bit_xor("i"), fold=pl.col("i").bitwise_xor(), duckdb="bit_xor(i) OVER w"),
}  # fmt: skip
"""Every aggregate that at least one of them shares with us. The first seven are those that goals are set for."""

GOALS = ("max", "min", "sum", "mean", "std", "var", "arg_max")


def columns(rows: int, keys: int) -> Columns:
    """Random columns, the keys mixed, the times all different."""
    chance = np.random.default_rng(11)
    times = np.cumsum(chance.integers(STEP // 2, STEP + STEP // 2 + 1, rows))
    return {
        "t": times.astype("datetime64[us]"),
        "k": chance.integers(0, keys, rows),
        "x": np.cumsum(chance.normal(size=rows)),
        "y": np.cumsum(chance.normal(size=rows)),
        "u": np.exp(chance.normal(0, 0.001, rows)),
        # so that bit_and and bit_or change from row to row: one of 40 bits is missing, one of 20 is there
        "i": (2**40 - 1) ^ (1 << chance.integers(0, 40, rows)) | (1 << chance.integers(40, 60, rows)),
        # true and false for a while, so that windows hold one of them or both
        "b": np.cumsum(chance.random(rows) < 0.03) % 2 == 1,
    }
