"""Durations: parsing, refused values, and the short form."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.windows.duration import UNITS, Duration, is_duration


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("7ns", 7),
        ("3us", 3_000),
        ("500ms", 500_000_000),
        ("10s", 10 * 10**9),
        ("15m", 900 * 10**9),
        ("1h", 3600 * 10**9),
        ("7d", 7 * 86400 * 10**9),
        ("2w", 14 * 86400 * 10**9),
        (" 10 s ", 10 * 10**9),
        ("1.5h", 5400 * 10**9),
        ("0s", 0),
        ("-5m", -300 * 10**9),
        (timedelta(days=1, microseconds=1), 86400 * 10**9 + 1000),
        (timedelta(microseconds=-1), -1000),
        (timedelta.max, 86_399_999_999_999_999_999_000),
        (Duration(5), 5),
        ("5min", 300 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("6 hours", 6 * 3600 * 10**9),
        ("20D", 20 * 86400 * 10**9),
        ("10S", 10 * 10**9),
        ("2H", 7200 * 10**9),
        ("1 day", 86400 * 10**9),
        ("2 Weeks", 14 * 86400 * 10**9),
        ("90 sec", 90 * 10**9),
        ("1 hour 30 minutes", 5400 * 10**9),
        ("1 hour, 30 minutes and 5 seconds", 5405 * 10**9),
        ("1d12h4m25s", (36 * 3600 + 265) * 10**9),
        ("5µs", 5000),
        ("5\u03bcs", 5000),
        ("-1h30m", -5400 * 10**9),
        ("PT1H30M", 5400 * 10**9),
        ("P1DT0.5S", 86400 * 10**9 + 500_000_000),
        ("-P1W", -7 * 86400 * 10**9),
        (np.timedelta64(90, "m"), 5400 * 10**9),
        (np.timedelta64(np.int64(3), "25s"), 75 * 10**9),
        (pd.Timedelta("1h") + pd.Timedelta(5, "ns"), 3600 * 10**9 + 5),
    ],
)
def test_what_is_read(written: object, nanoseconds: int) -> None:
    assert Duration.of(written).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    ("written", "months", "text"),
    [
        ("1mo", 1, "1mo"),
        ("1 month", 1, "1mo"),
        ("1q", 3, "3mo"),
        ("1 quarter", 3, "3mo"),
        ("1y", 12, "1y"),
        ("1y6mo", 18, "18mo"),
        ("0.5y", 6, "6mo"),
        ("-2Y", -24, "-2y"),
        ("P1Y2M", 14, "14mo"),
        (np.timedelta64(1, "M"), 1, "1mo"),
        (np.timedelta64(2, "Y"), 24, "2y"),
    ],
)
def test_months_are_calendar_lengths(written: object, months: int, text: str) -> None:
    found = Duration.of(written)
    assert (found.nanoseconds, found.months, found.calendar, str(found)) == (0, months, True, text)
    assert Duration.of(str(found)) == found


def test_a_month_is_ordered_by_its_mean_length() -> None:
    written = ["1h", "30d", "1mo", "31d", "1q", "1y", "366d"]
    assert sorted(map(Duration.of, reversed(written))) == [*map(Duration.of, written)]
    assert Duration.of("-1mo") < Duration(0) < Duration.of("1mo")


@pytest.mark.parametrize("name", ["lateness", "forget", "ahead"])
def test_a_calendar_length_is_refused_where_time_is_measured(name: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{name}= is '1mo', a calendar length, .*: give days or hours, such as '30d'"
    ):
        sash.Query("1h", on="ts", n=sash.count(), **{name: "1mo"})
    with pytest.raises(ValueError, match=r"gap= of Session is '1y', a calendar length"):
        sash.Session("1y")
    with pytest.raises(ValueError, match=r"size= of Delta is '1y', a calendar length"):
        sash.Delta("t", "1y")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1500, "1500ns"),
        (10**9, "1s"),
        (90 * 60 * 10**9, "90m"),
        (7 * UNITS["d"], "7d"),
        (-(10**9), "-1s"),
    ],
)
def test_the_short_form(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text
    assert repr(Duration(nanoseconds)) == f"Duration({text!r})"


@given(st.integers(-(2**80), 2**80))
def test_the_short_form_says_the_same(nanoseconds: int) -> None:
    assert Duration.of(str(Duration(nanoseconds))) == Duration(nanoseconds)


@pytest.mark.parametrize(
    ("written", "error", "says"),
    [
        ("", ValueError, r"gap= must be a number and a unit, such as '500ms', .*; got ''"),
        ("10", ValueError, r"a number and a unit.*; got '10'"),
        ("s", ValueError, r"a number and a unit.*; got 's'"),
        ("1h30", ValueError, r"a number and a unit.*; got '1h30'"),
        ("1h-30m", ValueError, r"a number and a unit.*; got '1h-30m'"),
        ("PT", ValueError, r"a number and a unit.*; got 'PT'"),
        ("1e3s", ValueError, r"gap= has the unit 'e' in '1e3s'; the units are"),
        ("\u0661\u0660s", ValueError, r"a number and a unit"),
        ("10x", ValueError, r"gap= has the unit 'x' in '10x'; the units are ns, us, ms, s, m, h, d, w, mo, q, y, and"),
        ("5 hourz", ValueError, r"the unit 'hourz' in '5 hourz'; did you mean 'hour'\? The units are ns, us"),
        (
            "1M",
            ValueError,
            r"the unit 'M' in '1M', which may be minutes or months: write 'm' or 'min' .* 'mo' for months",
        ),
        ("1MS", ValueError, r"'MS' in '1MS', which may be milliseconds or, in pandas, months"),
        ("10i", ValueError, r"'i' in '10i', which counts rows in polars: give the number itself"),
        ("5B", ValueError, r"'B' in '5B', which are business days"),
        ("1mo2d", ValueError, r"gap= mixes months with days or hours in '1mo2d': give either"),
        ("0.5mo", ValueError, r"gap= must be a whole number of months; '0.5mo' is not"),
        (np.timedelta64("NaT"), ValueError, r"gap= must be a duration; got .*NaT"),
        (np.timedelta64(5), ValueError, r"gap= is .*, whose unit is not one of Y, M, W, D"),
        ("0.5ns", ValueError, r"gap= must be a whole number of nanoseconds; '0.5ns' is not"),
        (10, TypeError, r"gap= must be a duration such as '10s' or '1h'; got 10, a int"),
        (None, TypeError, r"gap= must be a duration .*; got None, a NoneType"),
    ],
)
def test_what_is_refused(written: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Duration.of(written, "gap=")


def test_nanoseconds_are_whole() -> None:
    with pytest.raises(TypeError, match=r"whole number of nanoseconds; got 1\.5"):
        Duration(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got True"):
        Duration(True)
    with pytest.raises(ValueError, match="nanoseconds or months, not both; got 1, 1"):
        Duration(1, 1)


def test_durations_are_ordered_and_hashable() -> None:
    assert Duration.of("1m") < Duration.of("1h") == Duration.of("60m")
    assert {Duration.of("1h"): 1}[Duration.of("60m")] == 1


def test_what_may_stand_for_one() -> None:
    assert all(map(is_duration, ("x", timedelta(1), np.timedelta64(1, "s"), Duration(1))))
    assert not any(map(is_duration, (1, 1.0, None, b"1s")))
