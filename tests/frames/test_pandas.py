"""pandas: the result is the input frame with columns added; index, types, names."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash import Count, Time

BIG = 2**53 + 1
"""An integer that a float cannot hold."""


def test_the_frame_is_as_it_was() -> None:
    given = pd.DataFrame(
        {"t": [3, 1, 2], "x": [1.0, 2.0, 3.0], "odd": [object(), {1}, None], "c": pd.Categorical(["u", "v", "u"])},
        index=pd.MultiIndex.from_tuples([("a", 1), ("a", 1), ("b", 2)], names=["one", "two"]),
    )
    given.attrs["from"] = "somewhere"
    before = given.copy()
    got = sash.rolling(given, Time(2), on="t", total=sash.sum("x"))
    pd.testing.assert_frame_equal(given, before)
    pd.testing.assert_frame_equal(got.drop(columns="total"), before)
    assert got.attrs == before.attrs
    assert got["total"].tolist() == [4.0, 2.0, 5.0]
    assert all(np.shares_memory(got[name].to_numpy(), given[name].to_numpy()) for name in ("t", "x", "odd"))


def test_results_can_be_written_to() -> None:
    x = np.arange(5.0)
    given = pd.DataFrame({"x": x, "i": np.arange(5), "t": pd.date_range("2026-01-01", periods=5), "b": x > 2})
    given = given.assign(f=x.astype("float32"), z=given["t"].dt.tz_localize("UTC"), w=list("abcde"))
    wanted = {f"max_{name}": sash.max(name) for name in ("x", "i", "t", "f", "z", "w")}
    wanted |= {"first": sash.first("x"), "total": sash.sum("i"), "mean": sash.mean("x"), "n": sash.count()}
    before = given.copy()
    got = sash.rolling(given, 2, **wanted, some=sash.any("b"), of_time=sash.arg_max("x", "t"))
    for name in got.columns[len(given.columns) :]:
        got.loc[0, name] = got.loc[4, name]
        assert got.loc[0, name] == got.loc[4, name]
    pd.testing.assert_frame_equal(given, before)


def test_a_frame_has_its_columns_whatever_they_are() -> None:
    given = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=pd.Index(["x", "x"], name="names"))
    wide = pd.DataFrame({f"c{i}": [1.0, 2.0] for i in range(100)})
    with pytest.raises(ValueError, match="'x'"):
        sash.rolling(given, 2, total=sash.sum("x"))
    assert list(sash.rolling(wide, 2, total=sash.sum("c3")).columns) == [*wide.columns, "total"]
    named = pd.DataFrame({"x": [1.0, 2.0]}).rename_axis(columns="names")
    assert sash.rolling(named, 2, total=sash.sum("x")).columns.name == "names"


def test_a_part_of_a_frame_has_no_warning_in_it() -> None:
    given = pd.DataFrame({"x": [1, 2, 3]})
    assert sash.rolling(given[given["x"] > 1], 2, total=sash.sum("x"))["total"].tolist() == [2, 5]


class Mine(pd.DataFrame):
    """A user-defined subclass of DataFrame."""

    @property
    def _constructor(self) -> Any:
        return Mine


def test_a_class_of_ones_own_comes_back() -> None:
    assert type(sash.rolling(Mine({"x": [1, 2]}), 2, n=sash.count())) is Mine


# ---- types of results ----


def test_integers_and_booleans_lose_no_digit() -> None:
    given = pd.DataFrame({"x": [BIG, BIG + 2, BIG + 4], "b": [True, False, True]})
    got = sash.rolling(given, Count(2), high=sash.max("x"), both=sash.all("b"))
    assert (got["high"].dtype, got["both"].dtype) == (np.int64, np.bool_)
    assert got["high"].tolist() == [BIG, BIG + 2, BIG + 4]
    got = sash.rolling(given, Count(2, full=True), high=sash.max("x"), both=sash.all("b"))
    assert (got["high"].dtype, got["both"].dtype) == (pd.Int64Dtype(), pd.BooleanDtype())
    assert got["high"].tolist() == [pd.NA, BIG + 2, BIG + 4]
    assert got["both"].tolist() == [pd.NA, False, False]


@pytest.mark.parametrize(
    "kind",
    ["category", "string", "string[pyarrow]", "Int64", "int8", "Float64", "boolean", "int64[pyarrow]", "float32"],
)
def test_what_is_selected_has_the_type_of_its_column(kind: str) -> None:
    values = pd.Series([1, 0, 1] if kind not in ("category", "string", "string[pyarrow]") else ["1", "0", "1"])
    got = sash.rolling(pd.DataFrame({"x": values.astype(kind)}), 2, before=sash.first("x"))
    assert got["before"].dtype == got["x"].dtype
    assert [str(int(value)) for value in got["before"]] == ["1", "1", "0"]


def test_nan_is_null_where_pandas_means_it() -> None:
    floats = [1.0, np.nan, 3.0]
    got = sash.rolling(pd.DataFrame({"x": floats}), 2, n=sash.count("x"), total=sash.sum("x"))
    assert (got["n"].tolist(), got["total"].tolist()) == ([1, 1, 1], [1.0, 1.0, 3.0])
    arrow = pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.array(floats)))})
    got = sash.rolling(arrow, 2, n=sash.count("x"))
    assert got["n"].tolist() == [1, 2, 2], "a NaN of Arrow is a value"


def test_other_results() -> None:
    given = pd.DataFrame(
        {"d": [dt.date(2024, 1, 1), None], "m": [Decimal("1.5"), Decimal("2.5")], "s": ["a", None], "x": [1, 2]}
    )
    got = sash.rolling(given, 2, d1=sash.max("d"), m1=sash.max("m"), s1=sash.last("s"), c=sash.collect("x"))
    assert got["d1"].tolist() == [dt.date(2024, 1, 1)] * 2
    assert got["m1"].tolist() == [Decimal("1.5"), Decimal("2.5")]
    assert got["s1"].tolist() == ["a", "a"]
    assert [list(value) for value in got["c"]] == [[1], [1, 2]]


# ---- times ----


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_units_and_zones(unit: str, zone: str | None) -> None:
    # across the end of summer time: an hour is an hour
    times = pd.date_range("2024-10-26 23:00", periods=4, freq="30min", tz="UTC", unit=unit).tz_convert(zone)
    given = pd.DataFrame({"t": times, "x": [1, 2, 3, 4]})
    got = sash.rolling(given, "1h", on="t", total=sash.sum("x"), at=sash.max("t"))
    assert got["total"].tolist() == [1, 3, 5, 7]
    assert got["at"].dtype == given["t"].dtype
    assert got["at"].tolist() == given["t"].tolist()
    slides = sash.rolling(given, Time("1h", every="1h"), on="t", total=sash.sum("x"))
    assert slides["window_end"].dtype == given["t"].dtype
    assert slides["total"].tolist() == [3, 7]


def test_the_index_may_be_the_time_or_the_key() -> None:
    index = pd.DatetimeIndex(["2024-01-01", "2024-01-03", None, "2024-01-02"], name="day")
    given = pd.DataFrame({"x": [1, 2, 3, 4]}, index=index)
    got = sash.rolling(given, "2d", on="day", total=sash.sum("x"))
    pd.testing.assert_index_equal(got.index, index)
    assert got["total"].tolist() == [1, 6, pd.NA, 5]
    two = given.assign(k=["a", "b", "a", "a"]).set_index("k", append=True)
    got = sash.rolling(two, "9d", by="k", on="day", total=sash.sum("x"))
    assert got["total"].tolist() == [1, 2, pd.NA, 5]
    slides = sash.rolling(two, Time("9d", every="9d"), by="k", on="day", total=sash.sum("x"))
    assert slides.columns.tolist() == ["k", "window_start", "window_end", "total"]


def test_an_index_of_times_is_the_order_of_windows_of_aggregates() -> None:
    given = pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=pd.date_range("2024-01-01", periods=3, freq="30min"))
    assert sash.rolling(given, total=sash.sum("x").over("1h"))["total"].tolist() == [1.0, 3.0, 6.0]
    assert sash.rolling(given, 1, a=sash.sum("x"), b=sash.sum("x").over("1h"))["b"].tolist() == [1.0, 3.0, 6.0]
    assert sash.rolling(given, total=sash.sum("x").over(2))["total"].tolist() == [1.0, 3.0, 6.0]


def test_a_column_is_before_an_index_of_its_name() -> None:
    given = pd.DataFrame({"t": [1, 2]}, index=pd.Index([2, 1], name="t"))
    assert sash.rolling(given, Time(9), on="t", last=sash.last("t"))["last"].tolist() == [1, 2]


def test_categories_and_nulls_are_keys() -> None:
    given = pd.DataFrame({"k": pd.Categorical(["b", "a", None, "b", None], categories=["a", "b", "z"])})
    assert sash.rolling(given, 9, by="k", n=sash.count())["n"].tolist() == [1, 1, 1, 2, 2]
    slides = sash.rolling(given, Count(9, every=1), by="k", n=sash.count())
    assert slides["k"].dtype == given["k"].dtype
    assert slides["k"].astype(object).where(slides["k"].notna(), None).tolist() == ["b", "b", "a", None, None]


# ---- what is refused ----


@pytest.mark.parametrize("name", [0, ("a", "b"), None])
def test_names_that_are_no_text_do_no_harm(name: Any) -> None:
    given = pd.DataFrame([[1, 2]])
    given.columns = pd.Index(["x", name], dtype=object, tupleize_cols=False)
    found = sash.rolling(given, 2, s=sash.sum("x"))
    assert [*found.columns] == ["x", name, "s"]
    assert found["s"].tolist() == [1]


def test_two_columns_of_one_name() -> None:
    given = pd.DataFrame([[1, 2, 3]], columns=["x", "x", "y"])
    assert sash.rolling(given, 2, s=sash.sum("y")).to_numpy().tolist() == [[1, 2, 3, 3]]
    with pytest.raises(ValueError, match="the data has the column 'x' twice"):
        sash.rolling(given, 2, s=sash.sum("x"))
    with pytest.raises(ValueError, match="the results would have two columns 'x'"):
        sash.rolling(given, 2, x=sash.sum("y"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.Series([1, "a"]), "the column 'x' is of type object, which is not an Arrow type"),
        (pd.Series([1j]), "the column 'x' is of type complex128, which is not an Arrow type"),
        (pd.Series(pd.period_range("2024", periods=1, freq="M")), "the column 'x' is of the extension type"),
        (pd.Series(pd.interval_range(0, 1)), "the column 'x' is of the extension type"),
    ],
)
def test_types_that_arrow_does_not_have(values: Any, message: str) -> None:
    given = pd.DataFrame({"x": values, "n": 1})
    with pytest.raises(TypeError, match=message):
        sash.rolling(given, 2, last=sash.last("x"))
    assert "total" in sash.rolling(given, 2, total=sash.sum("n")), "what is not read may be of any type"


def test_sparse_columns_are_read() -> None:
    given = pd.DataFrame({"x": pd.arrays.SparseArray([1.0, 0.0, 2.0])})
    got = sash.rolling(given, 2, total=sash.sum("x"))
    assert got["total"].tolist() == [1.0, 1.0, 2.0]
    assert got["x"].dtype == given["x"].dtype


def test_a_series_is_no_frame() -> None:
    with pytest.raises(TypeError, match="a query runs on a pandas DataFrame; got a Series"):
        sash.rolling(pd.Series([1, 2]), 2, n=sash.count())
