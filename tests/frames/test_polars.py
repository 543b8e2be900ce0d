"""polars: every type of number and time, categories, lazy frames."""

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sash
from sash import Count, Time

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_times_and_values(kind: Any) -> None:
    given = pl.DataFrame({"t": pl.Series([3, 1, 2], dtype=kind), "x": pl.Series([1, 2, None], dtype=kind)})
    got = sash.rolling(given, Time(2), on="t", last=sash.last("x"), n=sash.count("x"))
    assert got.schema["last"] == kind
    assert (got["last"].to_list(), got["n"].to_list()) == ([1, 2, 2], [1, 1, 1])
    assert_frame_equal(got.select("t", "x"), given)


@pytest.mark.parametrize(
    "kind", [pl.Date, *(pl.Datetime(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "Asia/Tokyo"))]
)
def test_times(kind: Any) -> None:
    days = pl.Series([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None, dt.date(2024, 1, 4)])
    given = pl.DataFrame({"t": days.cast(pl.Datetime("ms")).cast(kind), "x": [1, 2, 3, 4]})
    got = sash.rolling(given, "2d", on="t", total=sash.sum("x"), at=sash.last("t"))
    assert got["total"].to_list() == [1, 3, None, 4]
    assert got.schema["at"] == given.schema["t"]
    slides = sash.rolling(given, Time("2d", every="1d"), on="t", total=sash.sum("x"))
    assert slides.schema["window_end"] == given.schema["t"]


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["z", "b", "a"]), pl.String])
def test_categories(kind: Any) -> None:
    given = pl.DataFrame({"k": pl.Series(["b", "a", None, "b"], dtype=kind), "x": [1, 2, 3, 4]})
    got = sash.rolling(given, 2, by="k", total=sash.sum("x"), key=sash.last("k"))
    assert got["total"].to_list() == [1, 2, 3, 5]
    assert (got.schema["key"], got["key"].to_list()) == (given.schema["k"], ["b", "a", None, "b"])
    slides = sash.rolling(given, Count(2, every=1), by="k", total=sash.sum("x"))
    assert (slides.schema["k"], slides["k"].to_list()) == (given.schema["k"], ["b", "b", "a", None])


def test_values_of_other_types() -> None:
    given = pl.DataFrame(
        {
            "m": [Decimal("1.5"), Decimal("0.5")],
            "c": [dt.time(1), dt.time(2)],
            "d": [dt.timedelta(1), dt.timedelta(2)],
            "y": [b"a", b"b"],
            "l": [[1], [2]],
        }
    )
    got = sash.rolling(given, 2, **{f"last_{name}": sash.last(name) for name in given.columns})
    for name in given.columns:
        assert got.schema[f"last_{name}"] == given.schema[name]
        assert got[f"last_{name}"].to_list() == given[name].to_list()


def test_nan_is_a_value() -> None:
    got = sash.rolling(pl.DataFrame({"x": [1.0, float("nan"), None]}), 1, n=sash.count("x"))
    assert got["n"].to_list() == [1, 1, 0]


@pytest.mark.parametrize("window", [Time(2), Time(2, every=1)])
@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_lazy_frame_is_lazy(window: Any, emit: str) -> None:
    given = pl.DataFrame({"k": ["a", "b", "a"], "t": [2, 1, 1], "x": [1, 2, 3]})
    lazy = sash.rolling(given.lazy(), window, by="k", on="t", emit=emit, total=sash.sum("x"))
    assert isinstance(lazy, pl.LazyFrame)
    eager = sash.rolling(given, window, by="k", on="t", emit=emit, total=sash.sum("x"))
    assert lazy.collect_schema() == eager.schema
    assert_frame_equal(lazy.collect(), eager)
    # what follows must not move before it: a row that is filtered out was in the windows
    assert_frame_equal(lazy.filter(pl.col("k") == "a").collect(), eager.filter(pl.col("k") == "a"))
    assert_frame_equal(lazy.select("total").head(1).collect(), eager.select("total").head(1))


def test_a_lazy_frame_reads_nothing_at_the_call() -> None:
    def never(_frame: Any) -> Any:
        raise AssertionError("read")

    given = pl.DataFrame({"x": [1]}).lazy().map_batches(never, schema={"x": pl.Int64})
    sash.rolling(given, 2, total=sash.sum("x"))
    with pytest.raises(KeyError, match="names the column 'y', which does not exist"):
        sash.rolling(given, 2, total=sash.sum("y"))


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="the column 'x' is of type Int128, which is not an Arrow type"):
        sash.rolling(pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), 2, total=sash.sum("x"))
    with pytest.raises(TypeError, match="a query runs on a polars DataFrame or LazyFrame; got a Series"):
        sash.rolling(pl.Series([1]), 2, total=sash.sum("x"))
