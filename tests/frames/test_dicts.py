"""Dicts of lists and other sequences as tables; results are lists."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

# ---- dicts of lists ----

LISTS = {"k": ["b", "a", "b", "a"], "t": [3, 1, 5, 9], "x": [1.5, None, 4.0, 2.0]}


def test_a_dict_of_lists_gives_a_dict_of_lists() -> None:
    found = sash.rolling(LISTS, sash.Time(5), by="k", on="t", n=sash.count(), total=sash.sum("x"))
    assert found == {**LISTS, "n": [1, 1, 2, 1], "total": [1.5, None, 5.5, 2.0]}
    assert found["x"] is LISTS["x"]


def test_every_way_to_run_a_query_takes_a_dict_of_lists() -> None:
    query = sash.Query(sash.Time(5, every=5), by="k", on="t", n=sash.count())
    slides = {"k": ["b", "b", "a", "a"], "window_start": [0, 5, 0, 5], "window_end": [5, 10, 5, 10], "n": [1, 1, 1, 1]}
    assert query.run(LISTS) == slides
    assert sash.Queries(one=query).run(LISTS) == {"one": slides}
    assert sash.as_of({"k": ["a", "b"], "t": [9, 9]}, LISTS, 5, by="k", on="t", n=sash.count())["n"] == [1, 2]
    spine = pa.table({"k": ["a"], "t": [9]})
    assert sash.as_of(spine, LISTS, 5, by="k", on="t", n=sash.count())["n"].to_pylist() == [1]
    statement = "SELECT k, count(*) OVER (PARTITION BY k ORDER BY t ROWS 5 PRECEDING) AS n FROM rows WHERE t > 1"
    assert sash.sql(statement, rows=LISTS) == {"k": ["b", "b", "a"], "n": [1, 2, 1]}


def test_columns_of_a_dict_may_be_sequences_of_several_kinds() -> None:
    given: dict[str, Any] = {
        "a": (1, 2),
        "b": np.array([3, 4]),
        "c": pd.Series([5, 6]),
        "d": pl.Series([7, 8]),
        "e": pa.array([9, 1]),
    }
    found: dict[str, Any] = sash.rolling(given, 2, emit="changes", high=sash.max("a"))
    assert {name: found[name] for name in given} == {"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [7, 8], "e": [9, 1]}
    sums = {f"sum_{name}": sash.sum(name) for name in given}
    assert [values[-1] for values in list(sash.rolling(given, 2, **sums).values())[5:]] == [3, 7, 11, 15, 10]
    dates = {"t": [dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)]}
    assert sash.rolling(dates, "1d", on="t", n=sash.max("t"))["n"] == dates["t"]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"x": [1], "y": [1, 2]}, ValueError, "the column 'y' has 2 rows, and 'x' has 1"),
        ({"x": [1], 3: [1]}, TypeError, "column names must be text; got the column 3, a int"),
        ({"x": [1, "a"]}, TypeError, r"the column 'x' has values whose type is not an Arrow type .*: cast it"),
        ({"x": [1], "y": 1}, TypeError, "whose 'y' is a int: make it an array or a list of values"),
        ({"x": "abc"}, TypeError, "whose 'x' is a str: make it an array or a list of values"),
    ],
)
def test_dicts_that_are_no_tables(given: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        sash.rolling(given, 2, high=sash.max("x"))
