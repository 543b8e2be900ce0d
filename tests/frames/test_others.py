"""Where other libraries differ from sash, in more detail than docs/differences.md.

Where they mean the same, the results are equal: test_beside_pandas.py, test_beside_polars.py, test_sql.py.
"""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import Count, Time
from tests.frames.frame_cases import NAN

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
    empty = pl.DataFrame({"x": pl.Series([None], dtype=pl.Float64), "b": pl.Series([None], dtype=pl.Boolean)})
    theirs_of_nothing = empty.select(pl.col("x").product(), pl.col("b").any(), all=pl.col("b").all()).row(0)
    assert theirs_of_nothing == (1.0, False, True)
    ours_of_nothing = sash.rolling(empty, 1, p=sash.product("x"), any=sash.any("b"), all=sash.all("b"))
    assert ours_of_nothing.row(0)[2:] == (None, None, None)
    indexed = TIES.iloc[:2]
    theirs = indexed.rolling("1s", on="t", closed="neither")["x"].count()
    assert theirs.isna().tolist() == [True, True], "pandas: an empty window has no count"
    ours = sash.rolling(indexed, Time("1s", closed="neither"), on="t", n=sash.count("x"))
    assert ours["n"].tolist() == [0, 0]


def test_equal_values_have_no_shape() -> None:
    frame = pd.DataFrame({"x": [2.0] * 4})
    rolling = frame["x"].rolling(4)
    assert (rolling.skew()[3], rolling.kurt()[3]) == (0.0, -3.0), "pandas: as if they were many, and symmetric"
    ours = sash.rolling(frame, 4, skew=sash.skewness("x", bias=False), kurt=sash.kurtosis("x", bias=False))
    assert ours[["skew", "kurt"]].isna().to_numpy().all()
    theirs = pl.DataFrame(frame).select(pl.col("x").rolling_skew(4))["x"]
    assert np.isnan(theirs[3]), "polars: undefined, as here"


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


@pytest.mark.usefixtures("column_aggregates")
def test_the_nearest_of_two_places() -> None:
    x = [1.0, 5.0]
    assert pl.Series(x).quantile(0.5, "nearest") == 5.0, "polars: the upper"
    assert pd.Series(x).rolling(2).quantile(0.5, interpolation="nearest").tolist()[1] == 1.0, "pandas: the even one"
    ours = sash.rolling(pa.table({"x": x}), 2, q=sash.quantile("x", q=0.5, interpolation="nearest"))
    assert ours.column("q").to_pylist() == [1.0, 1.0]


def test_order() -> None:
    mixed = TIES.iloc[[1, 0, 2]]
    with pytest.raises(ValueError, match="monotonic"):
        mixed.rolling("5s", on="t")
    assert sash.rolling(mixed, "5s", on="t", s=sash.sum("x"))["s"].tolist() == [7.0, 1.0, 7.0]


def test_categories() -> None:
    column = pl.Series("x", ["low", "high"], dtype=pl.Enum(["low", "high"]))
    assert column.max() == "high"
    assert sash.rolling(pl.DataFrame(column), 2, top=sash.max("x"))["top"].to_list() == ["low", "high"]
    as_text = pl.DataFrame(column.cast(pl.String))
    assert sash.rolling(as_text, 2, top=sash.max("x"))["top"].to_list() == ["low", "low"]


@pytest.mark.parametrize("run", ["frame", "operator"])
@pytest.mark.parametrize("window", [3, Time(3), Time(3, every=1)], ids=repr)
def test_min_periods_of_a_count_is_in_values(run: str, window: Any) -> None:
    table = pa.table({"t": [0, 1, 2, 3], "x": [1.0, None, None, 4.0]})
    query = sash.Query(window, on="t", min_periods=2, values=sash.count("x"), rows=sash.count())
    found = of_rows(query, table, run)
    assert found["values"].to_pylist()[:4] == [None] * 4
    assert found["rows"].to_pylist()[:4] == [None, 2, 3, 3]
    theirs = table.to_pandas()["x"].rolling(3, min_periods=2).count()
    assert theirs.tolist()[1:] == [1, 1, 1], "pandas: rows"


@pytest.mark.parametrize("run", ["frame", "operator"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_shape_of_equal_values_is_null(run: str, bias: bool) -> None:
    table = pa.table({"x": [2.0, 2.0, 2.0, 2.0, 2.0]})
    query = sash.Query(4, s=sash.skewness("x", bias=bias), k=sash.kurtosis("x", bias=bias))
    found = of_rows(query, table, run)
    assert found["s"].null_count == found["k"].null_count == 5
    rolling = table.to_pandas()["x"].rolling(4)
    assert (rolling.skew()[4], rolling.kurt()[4]) == (0.0, -3.0), "pandas: those of a normal distribution"
    assert duckdb.from_arrow(table).aggregate("skewness(x), kurtosis(x)").fetchall() == [(None, None)]


@pytest.mark.parametrize("run", ["frame", "operator"])
@pytest.mark.parametrize("name", ["ewm_mean", "ewm_var", "ewm_std"])
def test_exponential_weights_at_a_null_row_are_those_of_the_values_before(run: str, name: str) -> None:
    table = pa.table({"x": [1.0, 2.0, None, 3.0]})
    found = of_rows(sash.Query(sash.Lifetime(), y=getattr(sash, name)("x", halflife=1)), table, run)["y"].to_pylist()
    assert found[2] == found[1] is not None
    theirs = getattr(table.to_pandas()["x"].ewm(halflife=1), name.removeprefix("ewm_"))().tolist()
    assert found[1:] == pytest.approx(theirs[1:])
    polars = getattr(pl.from_arrow(table)["x"], name)(half_life=1).to_list()
    assert polars[2] is None, "polars: no result for a null"


def of_rows(query: sash.Query, table: pa.Table, run: str) -> Any:
    """The results, on the frame or by an operator, a row at a time."""
    if run == "frame":
        return query.run(table)
    operator = query.operator(table.schema)
    batches = [operator.process(table.slice(at, 1)) for at in range(table.num_rows)]
    return pa.Table.from_batches([*batches, operator.finish()])
