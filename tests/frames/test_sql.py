"""Results equal those of DuckDB: every aggregate that both have, over every window that SQL can express.

ours                      SQL, where time is whole numbers: `<` is `<= - 1`
Count(n)                  ROWS n - 1 PRECEDING
Time(n)                   RANGE BETWEEN n - 1 PRECEDING AND CURRENT ROW
Time(n, closed="left")    RANGE BETWEEN n PRECEDING AND 1 PRECEDING      "both", "neither" likewise
Lifetime()                RANGE UNBOUNDED PRECEDING
Time(n, every=n)          GROUP BY t // n
"""

from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Time
from tests.frames.frame_cases import CLOSED, frames, same, with_times
from tests.shared.effort import share

Pairs = dict[str, tuple[Any, str]]

NUMBERS: Pairs = {
    "count": (sash.count("x"), "count(x)"),
    "rows": (sash.count(), "count(*)"),
    "sum": (sash.sum("x"), "sum(x)"),
    "sum_i": (sash.sum("i"), "sum(i)"),
    "mean": (sash.mean("x"), "avg(x)"),
    "mean_i": (sash.mean("i"), "avg(i)"),
    "min": (sash.min("x"), "min(x)"),
    "max": (sash.max("x"), "max(x)"),
    "max_i": (sash.max("i"), "max(i)"),
    "var": (sash.var("x"), "var_samp(x)"),
    "var_pop": (sash.var("x", ddof=0), "var_pop(x)"),
    "std": (sash.std("x"), "stddev_samp(x)"),
    "std_pop": (sash.std("x", ddof=0), "stddev_pop(x)"),
    "product": (sash.product("u"), "product(u)"),
    "squares": (sash.sum_of_squares("x"), "sum(x * x)"),
    "covariance": (sash.covariance("x", "y"), "covar_samp(x, y)"),
    "covariance_pop": (sash.covariance("x", "y", ddof=0), "covar_pop(x, y)"),
    "correlation": (sash.correlation("x", "y"), "corr(x, y)"),
    "slope": (sash.slope("x", "y"), "regr_slope(y, x)"),
    "intercept": (sash.intercept("x", "y"), "regr_intercept(y, x)"),
    "skewness": (sash.skewness("x", bias=False), "skewness(x)"),
    "kurtosis": (sash.kurtosis("x", bias=False), "kurtosis(x)"),
    "kurtosis_pop": (sash.kurtosis("x"), "kurtosis_pop(x)"),
    "any": (sash.any("b"), "bool_or(b)"),
    "all": (sash.all("b"), "bool_and(b)"),
    "bit_and": (sash.bit_and("i"), "bit_and(i)"),
    "bit_or": (sash.bit_or("i"), "bit_or(i)"),
    "bit_xor": (sash.bit_xor("i"), "bit_xor(i)"),
}
"""Their order does not matter."""
TEXTS: Pairs = {"min_s": (sash.min("s"), "min(s)"), "max_s": (sash.max("s"), "max(s)")}
IN_ORDER: Pairs = {
    "first": (sash.first("x"), "first_value(x IGNORE NULLS)"),
    "last": (sash.last("i"), "last_value(i IGNORE NULLS)"),
    "nth": (sash.nth("x", n=2), "nth_value(x, 2 IGNORE NULLS)"),
    "arg_min": (sash.arg_min("x", "row"), "arg_min(row, x)"),
    "arg_max": (sash.arg_max("x", "row"), "arg_max(row, x)"),
    "collect": (sash.collect("i"), "list(i) FILTER (i IS NOT NULL)"),
    "concat": (sash.concat("s", separator="-"), "string_agg(s, '-')"),
}
"""Peers have no order in SQL: for rows whose times are all different."""
DERIVED: Pairs = {
    "range": (sash.range("x"), "max(x) OVER w - min(x) OVER w"),
    "geometric_mean": (sash.geometric_mean("u"), "exp(avg(ln(u)) OVER w)"),
    "first_s": (sash.first("s"), "first_value(s IGNORE NULLS) OVER w"),
}


@dataclass(frozen=True)
class Axis:
    """A type of time: our durations, SQL's, and SQL's smallest step."""

    ours: Any
    theirs: str
    step: str


AXES = {
    "integer": Axis(lambda n: n, "{n}", "1"),
    "timestamp": Axis(lambda n: f"{n}s", "INTERVAL {n} SECONDS", "INTERVAL 1 MICROSECOND"),
    "date": Axis(lambda n: f"{n}d", "INTERVAL {n} DAYS", "INTERVAL 1 DAY"),
}


def clause(closed: str, axis: Axis, size: int) -> str:
    """A window of time as a RANGE frame."""
    reach = axis.theirs.format(n=size)
    if closed in ("right", "neither"):
        reach = f"({reach} - {axis.step})"
    end = "CURRENT ROW" if closed in ("right", "both") else f"{axis.step} PRECEDING"
    return f"RANGE BETWEEN {reach} PRECEDING AND {end}"


def compare(table: pa.Table, window: Any, pairs: Pairs, frame: str, order: str = "t") -> None:
    """Compare our columns with DuckDB's."""
    calls = ", ".join(f"{sql if ' OVER w' in sql else sql + ' OVER w'} AS {name}" for name, (_, sql) in pairs.items())
    over = f"WINDOW w AS (PARTITION BY k ORDER BY {order} {frame})"
    with duckdb.connect() as connection:
        given = connection.from_arrow(table)
        theirs = given.query("given", f"SELECT {calls} FROM given {over} ORDER BY row").to_arrow_table()
    got = sash.rolling(table, window, by="k", on="t", **{f"our_{name}": ours for name, (ours, _) in pairs.items()})
    for name in pairs:
        agree(got.column(f"our_{name}"), theirs.column(name), name)


def agree(ours: pa.ChunkedArray, theirs: pa.ChunkedArray, name: str) -> None:
    mine, other = ours.to_pylist(), theirs.to_pylist()
    if any(isinstance(value, str | list) for value in (*mine, *other)):
        assert mine == other, name
    else:
        same(mine, other, name)


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("kind", AXES)
@given(table=frames(ties=True), size=st.integers(2, 6))
@settings(max_examples=share(10))
def test_range(kind: str, closed: str, table: pa.Table, size: int) -> None:
    axis = AXES[kind]
    timed = table if kind == "integer" else with_times(table, kind)
    pairs = NUMBERS | TEXTS | {name: DERIVED[name] for name in ("range", "geometric_mean")}
    compare(timed, Time(axis.ours(size), closed=closed), pairs, clause(closed, axis, size))


@pytest.mark.parametrize("closed", CLOSED)
@given(table=frames(ties=False), size=st.integers(2, 6))
@settings(max_examples=share(10))
def test_range_in_order(closed: str, table: pa.Table, size: int) -> None:
    pairs = IN_ORDER | {"first_s": DERIVED["first_s"]}
    compare(table, Time(size, closed=closed), pairs, clause(closed, AXES["integer"], size))


@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(15))
def test_rows(table: pa.Table, size: int) -> None:
    frame = f"ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW"
    compare(table, Count(size), NUMBERS | TEXTS | IN_ORDER | DERIVED, frame, "t, row")


@given(table=frames(ties=True))
@settings(max_examples=share(10))
def test_all_since_the_start(table: pa.Table) -> None:
    compare(table, sash.Lifetime(), NUMBERS | TEXTS, "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    compare(table, Count(10**9), NUMBERS | TEXTS | IN_ORDER | DERIVED, frame, "t, row")


@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_group_by(table: pa.Table, size: int) -> None:
    calls = ", ".join(f"{sql} AS {name}" for name, (_, sql) in NUMBERS.items())
    with duckdb.connect() as connection:
        text = f"SELECT k, t // {size} AS slide, {calls} FROM given GROUP BY ALL ORDER BY k, slide"
        theirs = connection.from_arrow(table).query("given", text).to_arrow_table()
    aggregates = {f"our_{name}": ours for name, (ours, _) in NUMBERS.items()}
    got = sash.rolling(table, Time(size, every=size), by="k", on="t", **aggregates)
    got = got.sort_by([("k", "ascending"), ("window_end", "ascending")])
    assert [start // size for start in got.column("window_start").to_pylist()] == theirs.column("slide").to_pylist()
    for name in NUMBERS:
        agree(got.column(f"our_{name}"), theirs.column(name), name)


def test_relations_go_in() -> None:
    table = with_times(pa.table({"t": [0, 1, 3, 3], "k": ["a"] * 4, "x": [1.0, 2.0, 4.0, 8.0]}))
    with duckdb.connect() as connection:
        over = "(ORDER BY t RANGE BETWEEN INTERVAL 2 SECONDS PRECEDING AND CURRENT ROW)"
        relation = connection.from_arrow(table).query("given", f"SELECT *, sum(x) OVER {over} AS theirs FROM given")
        got = sash.rolling(relation, Time("2s", closed="both"), on="t", ours=sash.sum("x"))
    assert got.column("ours").to_pylist() == got.column("theirs").to_pylist() == [1.0, 3.0, 14.0, 14.0]
