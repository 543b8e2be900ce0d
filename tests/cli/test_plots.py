"""Plots show the results of `sash.rolling`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib import pyplot

import sash

PRICES = pa.table(
    {
        "symbol": ["A", "B", "A", "A", "B", "A"],
        "t": [4, 2, 1, 6, 5, 9],
        "price": [3.0, 7.0, None, 5.0, 8.0, 1.0],
        "who": ["x", "y", "x", "z", "z", "x"],
    }
)


@pytest.fixture(autouse=True)
def _no_windows() -> Iterator[None]:
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def drawn(axis: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}


def test_values_and_results_of_each_key_in_order_of_time() -> None:
    figure = sash.plot(PRICES, 2, by="symbol", on="t", high=sash.max("price"), n=sash.count())
    over, below, *others = figure.axes
    assert len(others) == 2
    assert over.get_title(loc="left") == "symbol = A"
    found = drawn(over)
    np.testing.assert_array_equal(found["price"], ([1, 4, 6, 9], [np.nan, 3, 5, 1]))
    np.testing.assert_array_equal(found["high = max('price')"], ([1, 4, 6, 9], [np.nan, 3, 5, 5]))
    assert drawn(below) == {"n = count()": ([1, 4, 6, 9], [1, 2, 2, 2])}
    assert figure.axes[-1].get_xlabel() == "t"
    assert (over.get_ylabel(), below.get_ylabel()) == ("price", "n")
    assert figure.get_size_inches()[0] < 12


def test_slides_are_steps_that_begin_at_their_start() -> None:
    figure = sash.plot(PRICES, sash.Time(4, every=4), on="t", high=sash.max("price"))
    (axis,) = figure.axes
    assert drawn(axis)["high = max('price')"] == ([0, 4, 8, 12], [7, 7, 8, 1])
    assert axis.lines[-1].get_drawstyle() == "steps-pre"
    assert axis.get_xlabel() == "window_end"


def test_slides_of_several_windows_are_lines_of_their_own() -> None:
    windows = {"short": sash.Time(4, every=4), "long": sash.Time(8, every=4)}
    (axis,) = sash.plot(PRICES, windows, on="t", high=sash.max("price")).axes
    found = drawn(axis)
    assert found["high = max('price'), short"] == ([0, 4, 8, 12], [7, 7, 8, 1])
    assert found["high = max('price'), long"] == ([-4, 4, 8, 12, 16], [7, 7, 8, 8, 1])


def test_named_windows_of_rows() -> None:
    (axis,) = sash.plot(PRICES, {"one": 1, "all": 10}, on="t", key=None, low=sash.min("price")).axes
    assert [*drawn(axis)] == ["price", "low_one", "low_all"]


def test_a_window_of_one_aggregate_over_an_index_of_times() -> None:
    frame = pd.DataFrame({"price": [3.0, 5.0, 1.0]}, index=pd.date_range("2026-03-02", periods=3, freq="1h"))
    (axis,) = sash.plot(frame, high=sash.max("price").over("90min")).axes
    (found,) = (values for label, (_, values) in drawn(axis).items() if label.startswith("high = max('price')"))
    assert found == [3, 5, 5]


def test_the_key_that_is_asked_for() -> None:
    (axis,) = sash.plot(PRICES, 2, by="symbol", on="t", key="B", low=sash.min("price")).axes
    assert axis.get_title(loc="left") == "symbol = B"
    figure = sash.plot(PRICES, 2, by=["symbol", "who"], on="t", key=[("A", "z"), ("B", "y")], low=sash.min("price"))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["symbol = A, who = z", "symbol = B, who = y"]
    assert len(sash.plot(PRICES, 2, by=["symbol", "who"], on="t", panels=3, low=sash.min("price")).axes) == 3


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy"])
def test_other_frames(kind: str) -> None:
    frame: Any = {
        "pandas": lambda: pd.DataFrame({"x": [1.0, 2.0]}, index=pd.date_range("2026-01-01", periods=2, name="at")),
        "polars": lambda: pl.DataFrame({"at": [1, 2], "x": [1.0, 2.0]}),
        "numpy": lambda: {"at": np.array([1, 2]), "x": np.array([1.0, 2.0])},
    }[kind]()
    given = {} if kind == "pandas" else {"on": "at"}
    (axis,) = sash.plot(frame, "3d" if kind == "pandas" else sash.Time(3), **given, mean=sash.mean("x")).axes
    assert list(axis.lines[-1].get_ydata()) == [1.0, 1.5]
    assert axis.get_xlabel() == "at"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"by": "symbol", "key": "C"}, r"key= asks for 'C', which no row has in 'symbol'"),
        ({"key": "C"}, r"key= chooses among the keys of by=, and there is no by="),
        ({"panels": 0}, r"panels= must be an integer of at least 1; got 0"),
        ({"one": sash.last("who")}, r"one=last\('who'\) gives string, which cannot be drawn: leave it out"),
    ],
)
def test_what_cannot_be_drawn(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sash.plot(PRICES, 2, on="t", low=sash.min("price"), **arguments)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"needs the package matplotlib: pip install 'sash\[plot\]'"):
        sash.plot(PRICES, 2, on="t", low=sash.min("price"))
