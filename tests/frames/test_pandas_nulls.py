"""Columns of pandas that tell null from NaN, categories with an order, and times of different kinds."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sash

NAN = float("nan")


def arrow(values: list[Any]) -> Any:
    return pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(values, pa.float64())]))


def masked(values: list[Any]) -> Any:
    data = np.array([0.0 if value is None else value for value in values])
    return pd.arrays.FloatingArray(data, np.array([value is None for value in values]))


def as_text(column: Any) -> list[str]:
    """Each value: null, NaN or the number."""
    arrow_array = pa.chunked_array([pa.array(column)]) if not isinstance(column, pd.Series) else pa.array(column)
    return [repr(value) for value in arrow_array.to_pylist()]


@pytest.mark.parametrize("make", [arrow, masked])
def test_nan_and_null_stay_apart(make: Any) -> None:
    """As keys and as results."""
    frame = pd.DataFrame({"k": make([NAN, None, 1.0, NAN]), "t": [1, 2, 3, 4], "x": make([NAN, 2.0, None, 4.0])})
    rows = sash.rolling(frame, 5, by="k", on="t", n=sash.count(), last=sash.last("x"))
    assert rows["n"].tolist() == [1, 1, 1, 2]
    assert as_text(rows["last"]) == ["nan", "2.0", "None", "4.0"]
    assert rows["last"].dtype == frame["x"].dtype
    slides = sash.rolling(frame, sash.Count(5, every=1), by="k", on="t", n=sash.count())
    assert sorted(zip(as_text(slides["k"]), slides["n"], strict=True)) == [
        ("1.0", 1), ("None", 1), ("nan", 1), ("nan", 2)
    ]  # fmt: skip
    assert slides["k"].dtype == frame["k"].dtype


def test_ordered_categories_are_compared_by_their_order() -> None:
    """As a tie-breaker they are refused; those without an order are compared by their names."""
    sizes = pd.Categorical(["low", "high", "mid"], categories=["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"t": [1, 2, 3], "size": sizes, "x": [1, 3, 2]})
    greatest = sash.rolling(frame, 3, on="t", m=sash.max("size"))["m"]
    assert (greatest.tolist(), greatest.dtype) == (["low", "high", "high"], sizes.dtype)
    with pytest.raises(TypeError, match="on= would compare the ordered categories of the column 'size' by name"):
        sash.rolling(frame, 3, on=["t", "size"], n=sash.count())
    found = sash.rolling(frame, 3, on="t", best=sash.arg_max("x", "size"), newest=sash.last("size"))
    assert found["best"].tolist() == ["low", "high", "high"]
    assert found["newest"].tolist() == ["low", "high", "mid"]
    plain = frame.assign(size=sizes.as_unordered())
    assert sash.rolling(plain, 3, on="t", m=sash.max("size"))["m"].tolist() == ["low", "low", "mid"]


def test_times_with_and_without_a_zone_are_not_mixed() -> None:
    naive = dt.datetime(2020, 1, 1)
    times = [naive, naive.replace(tzinfo=dt.UTC), None]
    with pytest.raises(TypeError, match="the column 't' has times with a time zone and times without"):
        sash.rolling(pd.DataFrame({"t": pd.Series(times, dtype=object)}), "1h", on="t", n=sash.count())
    operator = sash.Query("1h", on="t", lateness="1h", n=sash.count()).operator()
    with pytest.raises(TypeError, match="the column 't' has times with a time zone and times without"):
        operator.process({"t": times[:2]})
    assert operator.process({"t": [naive, naive]}).num_rows == 0
