"""Beside the rolling functions of pandas, polars and DuckDB: equal where they mean the same.

Where they do not is a table in docs/frames.md, whose rows are the tests under "what differs".
"""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Time

NAN = float("nan")
FUNCTIONS = {
    "sum": sash.sum("x"), "mean": sash.mean("x"), "min": sash.min("x"), "max": sash.max("x"), "var": sash.var("x"),
    "std": sash.std("x"), "count": sash.count("x"),
}  # fmt: skip
OURS: dict[str, Any] = {f"our_{name}": bound for name, bound in FUNCTIONS.items()}
CLOSED = ["right", "left", "both", "neither"]

_values = st.sampled_from([1.0, 2.5, -3.0, 0.0, 8.25, None])


@st.composite
def frames(draw: st.DrawFn, ties: bool) -> pa.Table:
    """Rows in order of time, in seconds; of two keys."""
    steps = draw(st.lists(st.sampled_from([0, 1, 2, 5] if ties else [1, 2, 5]), min_size=1, max_size=14))
    count = len(steps)
    return pa.table(
        {
            "k": draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count)),
            "t": np.cumsum(steps),
            "x": pa.array(draw(st.lists(_values, min_size=count, max_size=count)), pa.float64()),
        }
    )


def with_times(table: pa.Table) -> pa.Table:
    """The times as timestamps, in seconds."""
    return table.set_column(1, "t", table.column("t").cast(pa.timestamp("s")).cast(pa.timestamp("us")))


def same(ours: Any, theirs: Any) -> None:
    """Columns alike, null and NaN alike."""
    mine, other = (np.array([NAN if value is None else value for value in column], float) for column in (ours, theirs))
    # what they subtract, they lose: digits of pandas are no measure
    np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


# ---- pandas ----


@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=25)
def test_rows_of_pandas(table: pa.Table, size: int) -> None:
    frame = table.to_pandas()
    got = sash.rolling(frame, size, **OURS)
    for name in FUNCTIONS:
        same(got[f"our_{name}"], getattr(frame["x"].rolling(size, min_periods=int(name != "count")), name)())


@given(table=frames(ties=False), size=st.integers(1, 6), closed=st.sampled_from(CLOSED))
@settings(max_examples=25)
def test_times_of_pandas(table: pa.Table, size: int, closed: str) -> None:
    frame = with_times(table).to_pandas()
    got = sash.rolling(frame, Time(f"{size}s", closed=closed), on="t", **OURS)
    for name in FUNCTIONS:
        if name == "count" and closed in ("left", "neither"):
            continue  # "what differs" has it
        same(got[f"our_{name}"], getattr(frame.rolling(f"{size}s", on="t", closed=closed)["x"], name)())


@given(table=frames(ties=False), size=st.integers(1, 6))
@settings(max_examples=15)
def test_groups_of_pandas(table: pa.Table, size: int) -> None:
    frame = with_times(table).to_pandas()
    got = sash.rolling(frame, f"{size}s", by="k", on="t", our_sum=sash.sum("x"), our_max=sash.max("x"))
    theirs = frame.groupby("k").rolling(f"{size}s", on="t")["x"]
    for name in ("sum", "max"):
        by_key = got.sort_values("k", kind="stable")[f"our_{name}"]
        same(by_key, getattr(theirs, name)())


# ---- polars ----


@given(table=frames(ties=True), size=st.integers(1, 6), closed=st.sampled_from(CLOSED))
@settings(max_examples=25)
def test_times_of_polars(table: pa.Table, size: int, closed: str) -> None:
    frame = pl.DataFrame(with_times(table))
    got = sash.rolling(frame, Time(f"{size}s", closed=closed), on="t", **OURS)
    theirs: Any = "none" if closed == "neither" else closed
    for name in ("sum", "mean", "min", "max", "var", "std"):
        rolled = getattr(pl.col("x"), f"rolling_{name}_by")("t", f"{size}s", closed=theirs)
        column = frame.select(rolled)["x"]
        if name == "sum":  # "what differs": nothing sums to 0 there, to null here
            column = pl.select(pl.when(got["our_count"] > 0).then(column)).to_series()
        same(got[f"our_{name}"], column)


@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=15)
def test_rows_of_polars(table: pa.Table, size: int) -> None:
    frame = pl.DataFrame(table)
    got = sash.rolling(frame, size, **OURS)
    for name in ("sum", "mean", "min", "max", "var", "std"):
        column = frame.select(getattr(pl.col("x"), f"rolling_{name}")(size, min_samples=1))["x"]
        same(got[f"our_{name}"], column)


# ---- DuckDB ----

SQL = {"mean": "avg", "var": "var_samp", "std": "stddev_samp"}
FRAMES: dict[str, tuple[Any, str]] = {
    "rows": (Count, "ROWS BETWEEN {less} PRECEDING AND CURRENT ROW"),
    "right": (Time, "RANGE BETWEEN {less} PRECEDING AND CURRENT ROW"),
    "left": (lambda size: Time(size, closed="left"), "RANGE BETWEEN {size} PRECEDING AND 1 PRECEDING"),
    "both": (lambda size: Time(size, closed="both"), "RANGE BETWEEN {size} PRECEDING AND CURRENT ROW"),
    "neither": (lambda size: Time(size, closed="neither"), "RANGE BETWEEN {less} PRECEDING AND 1 PRECEDING"),
    "lifetime": (lambda size: sash.Lifetime(), "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
}
"""Our windows and those of SQL, on whole numbers: `<` there is `<= - 1`."""


@pytest.mark.parametrize("kind", FRAMES)
@given(table=frames(ties=True), size=st.integers(2, 6))
@settings(max_examples=8)
def test_frames_of_duckdb(kind: str, table: pa.Table, size: int) -> None:
    window, clause = FRAMES[kind]
    table = table.append_column("row", pa.array(range(table.num_rows)))
    over = f"(PARTITION BY k ORDER BY t{', row' * (kind == 'rows')} {clause.format(size=size, less=size - 1)})"
    calls = ", ".join(f"{SQL.get(name, name)}(x) OVER {over} AS {name}" for name in FUNCTIONS)
    with duckdb.connect() as connection:
        theirs = connection.from_arrow(table).query("given", f"SELECT row, {calls} FROM given ORDER BY row").fetchall()
    got = sash.rolling(table, window(size), by="k", on="t", **OURS)
    for place, name in enumerate(FUNCTIONS, 1):
        same(got.column(f"our_{name}").to_pylist(), [row[place] for row in theirs])


def test_intervals_of_duckdb() -> None:
    table = with_times(pa.table({"k": ["a"] * 4, "t": [0, 1, 3, 3], "x": [1.0, 2.0, 4.0, 8.0]}))
    with duckdb.connect() as connection:
        over = "(ORDER BY t RANGE BETWEEN INTERVAL 2 SECONDS PRECEDING AND CURRENT ROW)"
        relation = connection.from_arrow(table).query("given", f"SELECT *, sum(x) OVER {over} AS theirs FROM given")
        got = sash.rolling(relation, Time("2s", closed="both"), on="t", ours=sash.sum("x"))
    assert got.column("ours").to_pylist() == got.column("theirs").to_pylist() == [1.0, 3.0, 14.0, 14.0]


# ---- what differs: the table of docs/frames.md ----

TIES = pd.DataFrame({"t": pd.to_datetime([0, 1, 1], unit="s"), "x": [1.0, 2.0, 4.0]})


def test_peers() -> None:
    assert TIES.rolling("5s", on="t")["x"].sum().tolist() == [1.0, 3.0, 7.0], "pandas: rows up to the row itself"
    ours = sash.rolling(TIES, "5s", on="t", ours=sash.sum("x"))
    assert ours["ours"].tolist() == [1.0, 7.0, 7.0]
    theirs = pl.DataFrame(TIES).select(pl.col("x").rolling_sum_by("t", "5s"))["x"]
    assert theirs.to_list() == [1.0, 7.0, 7.0]


def test_an_empty_window() -> None:
    frame = pl.DataFrame({"t": [0, 9], "x": [1.0, 2.0]})
    assert frame.select(pl.col("x").rolling_sum_by("t", "2i", closed="left"))["x"].to_list() == [0.0, 0.0]
    assert sash.rolling(frame, Time(2, closed="left"), on="t", s=sash.sum("x"))["s"].to_list() == [None, None]
    indexed = TIES.iloc[:2]
    theirs = indexed.rolling("1s", on="t", closed="neither")["x"].count()
    assert theirs.isna().tolist() == [True, True], "pandas: an empty window has no count"
    ours = sash.rolling(indexed, Time("1s", closed="neither"), on="t", n=sash.count("x"))
    assert ours["n"].tolist() == [0, 0]


def test_full_windows() -> None:
    frame = pd.DataFrame({"x": [1.0, NAN, 3.0]})
    assert frame["x"].rolling(2).sum().isna().tolist() == [True, True, True], "pandas asks for values"
    ours = sash.rolling(frame, Count(2, full=True), s=sash.sum("x"))["s"]
    assert ours.isna().tolist() == [True, False, False], "full asks for rows"


def test_nan() -> None:
    table = pa.table({"t": [0, 1], "x": [1.0, NAN]})
    ours = sash.rolling(table, 2, n=sash.count("x"), low=sash.min("x"), high=sash.max("x"), s=sash.sum("x"))
    assert ours.column("n").to_pylist() == [1, 2]
    assert all(np.isnan(ours.column(name)[1].as_py()) for name in ("low", "high", "s"))
    frame = table.to_pandas()
    assert frame["x"].rolling(2, min_periods=1).min().tolist() == [1.0, 1.0], "pandas: NaN is missing"
    assert sash.rolling(frame, 2, low=sash.min("x"))["low"].tolist() == [1.0, 1.0], "and so it is here, from pandas"
    with duckdb.connect() as connection:
        over = "OVER (ORDER BY t ROWS 1 PRECEDING)"
        given = connection.from_arrow(table)
        theirs = given.query("given", f"SELECT min(x) {over}, max(x) {over} FROM given ORDER BY t").fetchall()
    assert theirs[1][0] == 1.0, "DuckDB: NaN is the greatest number"
    assert np.isnan(theirs[1][1])


def test_order() -> None:
    mixed = TIES.iloc[[1, 0, 2]]
    with pytest.raises(ValueError, match="monotonic"):
        mixed.rolling("5s", on="t")
    assert sash.rolling(mixed, "5s", on="t", s=sash.sum("x"))["s"].tolist() == [7.0, 1.0, 7.0]


def test_categories() -> None:
    column = pl.Series("x", ["low", "high"], dtype=pl.Enum(["low", "high"]))
    assert column.max() == "high"
    ours = sash.rolling(pl.DataFrame(column), 2, top=sash.max("x"))
    assert ours["top"].to_list() == ["low", "low"], "categories are compared as text"
