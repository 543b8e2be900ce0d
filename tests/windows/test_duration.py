"""Durations: what is read, what is refused, and that the short form says the same."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ],
)
def test_what_is_read(written: object, nanoseconds: int) -> None:
    assert Duration.of(written).nanoseconds == nanoseconds


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
        ("1h30m", ValueError, r"a number and a unit.*; got '1h30m'"),
        ("1e3s", ValueError, r"gap= must be a number and a unit.*; got '1e3s'"),
        ("\u0661\u0660s", ValueError, r"a number and a unit"),
        ("10x", ValueError, r"gap= has the unit 'x' in '10x'; the units are ns, us, ms, s, m, h, d, w"),
        ("10S", ValueError, r"the unit 'S' in '10S'"),
        ("1 month", ValueError, r"the unit 'month'"),
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


def test_durations_are_ordered_and_hashable() -> None:
    assert Duration.of("1m") < Duration.of("1h") == Duration.of("60m")
    assert {Duration.of("1h"): 1}[Duration.of("60m")] == 1


def test_what_may_stand_for_one() -> None:
    assert all(map(is_duration, ("x", timedelta(1), Duration(1))))
    assert not any(map(is_duration, (1, 1.0, None, b"1s")))
