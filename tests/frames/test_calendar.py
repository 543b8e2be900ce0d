"""Calendar windows, compared with pandas and polars: twenty zones, ten years of hours, every change of the clock."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

pytestmark = pytest.mark.compiled  # many rows

ZONES = [
    "UTC", "America/New_York", "America/Los_Angeles", "America/St_Johns", "America/Sao_Paulo", "America/Havana",
    "America/Santiago", "America/Asuncion", "Europe/London", "Europe/Berlin", "Europe/Moscow", "Africa/Cairo",
    "Africa/Casablanca", "Asia/Beirut", "Asia/Tehran", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo",
    "Australia/Lord_Howe", "Pacific/Auckland",
]  # fmt: skip
"""Among them zones that change the clock at midnight, by half an hour, and in the middle of Ramadan."""

AT_MIDNIGHT = {
    "America/Sao_Paulo", "America/Havana", "America/Santiago", "America/Asuncion", "Africa/Cairo", "Asia/Beirut",
    "Asia/Tehran",
}  # fmt: skip
"""Zones that changed the clock at midnight in these years."""

EVERY = {"1d": "D", "1w": "W-MON", "1mo": "MS", "1q": "QS", "1y": "YS"}
"""Slides, and the words of pandas for them."""


@cache
def hours() -> pd.DataFrame:
    """Ten years of hours."""
    times = pd.date_range("2014-01-01", "2024-01-01", freq="h", tz="UTC")
    return pd.DataFrame({"t": times, "x": np.arange(len(times)) % 97})


def local(zone: str) -> pd.DataFrame:
    return hours().assign(t=hours()["t"].dt.tz_convert(zone))


@pytest.mark.parametrize("zone", ZONES)
def test_tumbling_windows_are_those_of_pandas(zone: str) -> None:
    frame = local(zone)
    for every, word in EVERY.items():
        got = sash.rolling(frame, sash.Time(every, every=every, tz=zone), on="t", total=sash.sum("x"), n=sash.count())
        bins = pd.cut(frame["t"], _edges(frame, word), right=False)
        expected = frame.groupby(bins, observed=True)["x"].agg(["sum", "count"])
        assert got["window_start"].tolist() == [one.left for one in expected.index], every
        assert got["window_end"].tolist() == [one.right for one in expected.index], every
        assert got["total"].tolist() == expected["sum"].tolist(), every
        assert got["n"].tolist() == expected["count"].tolist(), every


def _edges(frame: pd.DataFrame, word: str) -> pd.DatetimeIndex:
    """The starts of days, weeks, months, quarters or years around a frame, in local time, by pandas."""
    first, last = (frame["t"].iloc[at].tz_localize(None).normalize() for at in (0, -1))
    naive = pd.date_range(first - pd.Timedelta("400d"), last + pd.Timedelta("400d"), freq=word).normalize()
    return naive.tz_localize(frame["t"].dt.tz, ambiguous=np.ones(len(naive), bool), nonexistent="shift_forward")


@pytest.mark.parametrize("zone", ZONES)
def test_tumbling_windows_are_those_of_polars(zone: str) -> None:
    frame = pl.from_pandas(local(zone))
    for every in EVERY:
        groups = frame.group_by_dynamic("t", every=every, include_boundaries=True)
        expected = groups.agg(total=pl.col("x").sum(), n=pl.len())
        window = sash.Time(every, every=every, tz=zone)
        got = sash.rolling(frame, window, on="t", total=sash.sum("x"), n=sash.count())
        columns = {"window_start": "_lower_boundary", "window_end": "_upper_boundary", "total": "total", "n": "n"}
        mine = list(zip(*(got[name].to_physical().to_list() for name in columns), strict=True))
        theirs = list(zip(*(expected[name].to_physical().to_list() for name in columns.values()), strict=True))
        if zone not in AT_MIDNIGHT:
            assert mine == theirs, every
            continue
        # a day whose midnight was skipped begins for polars at 23:00 of the day before; others agree
        assert len(set(mine) & set(theirs)) >= len(mine) - 4 * 10, every


@pytest.mark.parametrize(
    ("size", "every", "offset"),
    [("3mo", "1mo", None), ("2w", "1w", None), ("1y", "1q", None), ("1d", "1d", "6h"), ("1y", "1y", "3mo")],
)
@pytest.mark.parametrize("closed", ["left", "right"])
def test_hopping_and_shifted_windows_are_those_of_polars(
    size: str, every: str, offset: str | None, closed: Any
) -> None:
    frame = pl.from_pandas(local("Europe/Berlin"))
    groups = frame.group_by_dynamic(
        "t", every=every, period=size, offset=offset or "0s", closed=closed, include_boundaries=True
    )
    expected = groups.agg(total=pl.col("x").sum()).rows_by_key("_lower_boundary", named=True, unique=True)
    window = sash.Time(size, every=every, offset=offset or 0, closed=closed, tz="Europe/Berlin")
    got = sash.rolling(frame, window, on="t", total=sash.sum("x")).rows(named=True)
    # polars begins with the window that the first row begins or, by its rules, an earlier one
    shared = [row for row in got if row["window_start"] in expected]
    assert len(shared) > 9
    assert len(shared) >= len(got) - 3
    for row in shared:
        other = expected[row["window_start"]]
        assert (row["window_end"], row["total"]) == (other["_upper_boundary"], other["total"])


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"])
@pytest.mark.parametrize(
    ("size", "offset"),
    [("1mo", {"months": 1}), ("1q", {"months": 3}), ("1y", {"years": 1}), ("1d", {"days": 1}), ("7d", {"days": 7})],
)
def test_sizes_per_row_are_those_of_pandas(zone: str, size: str, offset: dict[str, int]) -> None:
    """The start is the earliest that the row, or any later time, has by the subtraction of pandas."""
    times = pd.date_range("2022-12-01", "2024-05-01", freq="30min", tz="UTC").tz_convert(zone)
    naive = times.tz_localize(None) - pd.DateOffset(**offset)
    raw = naive.tz_localize(zone, ambiguous=np.ones(len(naive), bool), nonexistent="shift_forward")
    starts = np.minimum.accumulate(raw.as_unit("s").asi8[::-1])[::-1]
    at = times.as_unit("s").asi8
    compared = np.arange(len(at)) > len(at) // 3  # the minimum is over times that follow
    compared[-400:] = False
    for closed, sides in {"right": ("right", "right"), "left": ("left", "left"), "both": ("left", "right")}.items():
        window = sash.Time(size, closed=closed, tz=zone)  # type: ignore[arg-type]
        got = sash.rolling(pd.DataFrame({"t": times}), window, on="t", n=sash.count())["n"].to_numpy()
        expected = np.searchsorted(at, at, sides[1]) - np.searchsorted(at, starts, sides[0])  # type: ignore[call-overload]
        np.testing.assert_array_equal(got[compared], expected[compared])


def test_daily_rows_have_the_windows_of_pandas_exactly() -> None:
    times = pd.date_range("2020-01-01", "2024-12-31", freq="D")
    starts = times - pd.DateOffset(months=1)
    for closed, side in (("right", "right"), ("both", "left")):
        window = sash.Time("1mo", closed=closed)  # type: ignore[arg-type]
        got = sash.rolling(pd.DataFrame({"t": times}), window, on="t", n=sash.count())["n"]
        expected = np.arange(1, len(times) + 1) - times.searchsorted(starts, side)  # type: ignore[arg-type]
        np.testing.assert_array_equal(got, expected)


TYPES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Kolkata")]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_every_type_of_timestamps(type_: pa.DataType) -> None:
    times = pa.array(pd.date_range("2024-03-09 20:30", periods=80, freq="h").to_numpy()).cast(type_)
    table = pa.table({"t": times, "x": range(80)})
    window = sash.Time("1d", every="1d", tz="America/New_York")
    got = sash.rolling(table, window, on="t", n=sash.count())
    assert got["window_start"].type == type_
    assert got["n"].to_pylist() == [9, 23, 24, 24]  # March 10 has 23 hours
    per_row = sash.rolling(table, sash.Time("1d", tz="America/New_York"), on="t", n=sash.count())
    assert per_row["n"].to_pylist()[30:36] == [23, 23, 23, 23, 24, 24]  # from March 10 22:30 on


@pytest.mark.parametrize("type_", [pa.date32(), pa.date64()], ids=str)
def test_dates_are_local_in_any_zone(type_: pa.DataType) -> None:
    days = pa.array(pd.date_range("2024-01-30", periods=70, freq="D").to_numpy()).cast(type_)
    table = pa.table({"t": days, "x": range(70)})
    for tz in (None, "America/New_York"):
        got = sash.rolling(table, sash.Time("1mo", every="1mo", tz=tz), on="t", n=sash.count())
        assert got["n"].to_pylist() == [2, 29, 31, 8]
        assert str(got["window_start"][1]) == "2024-02-01"
        per_row = sash.rolling(table, sash.Time("1mo", tz=tz), on="t", n=sash.count())["n"].to_pylist()
        assert per_row[-10:] == [30] + [31] * 9
    weeks = sash.rolling(table, sash.Time("1w", every="1w", tz="UTC"), on="t", n=sash.count())
    assert [day.weekday() for day in weeks["window_start"].to_pylist()] == [0] * len(weeks)
