"""Decimals, durations and times in Python loops: sums, means and ranges of objects."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.monoids import Mean, Range, Sum
from sash.monoids.decimals import half_up
from sash.monoids.exact_integer import LoopTotal
from sash.testing import check_laws

MONEY = [Decimal(x) for x in ("0", "0.1", "-0.25", "19.99", "1e30", "1e-30")]
RUNS = [timedelta(microseconds=n) for n in (0, 1, -2, 10**12)]


@pytest.mark.parametrize("values", [MONEY, RUNS], ids=["decimals", "durations"])
@pytest.mark.parametrize("monoid", [Sum(), Mean(), Range()], ids=repr)
def test_laws(monoid: Any, values: list[Any]) -> None:
    check_laws(monoid, values)


@given(st.lists(st.decimals(-1000, 1000, places=3), min_size=1, max_size=20))
def test_decimals_are_exact(values: list[Decimal]) -> None:
    state = Sum().identity
    for value in values:
        state = Sum().combine(state, Sum().lift(value))
    total = sum(map(Fraction, values))
    assert Fraction(Sum().lower(state)) == total
    assert Fraction(Mean().lower(state)) == Fraction(half_up(int(total * 10**7), len(values)), 10**7)
    for value in values:
        state = Sum().inverse(state, Sum().lift(value))
    assert state == Sum().identity


@given(st.lists(st.timedeltas(timedelta(-1000), timedelta(1000)), min_size=1, max_size=20))
def test_means_of_durations_are_rounded_half_up(values: list[timedelta]) -> None:
    state = Mean().identity
    for value in values:
        state = Mean().combine(state, Mean().lift(value))
    micros = sum(value // timedelta(microseconds=1) for value in values)
    assert Mean().lower(state) == timedelta(microseconds=half_up(micros, len(values)))


@pytest.mark.parametrize("structure", ["SubtractOnEvict", "DABA", "TwoStacksLite"])
def test_windows_of_decimals(structure: Any) -> None:
    window = sash.Window(2, Sum(), structure=structure)
    found = [window.push(x) for x in (Decimal(1), None, None, Decimal("2.5"), Decimal("0.1"))]
    assert found == [Decimal(1), Decimal(1), None, Decimal("2.5"), Decimal("2.6")]


def test_ranges_of_times() -> None:
    window = sash.Window(2, Range())
    assert [window.push(datetime(2024, 1, day)).days for day in (1, 5, 2)] == [0, 4, 3]
    days = sash.Window(2, Range())
    assert [days.push(date(2024, 1, day)).days for day in (1, 5)] == [0, 4]


def test_what_does_not_add_up_is_refused() -> None:
    with pytest.raises(TypeError, match="decimals cannot be added to numbers: convert them to one type"):
        Sum().combine(Sum().lift(Decimal(1)), Sum().lift(1.5))
    with pytest.raises(TypeError, match="durations cannot be added to decimals"):
        LoopTotal(1, timedelta(1)) + LoopTotal(1, Decimal(1))
    with pytest.raises(ValueError, match="a decimal must be finite; got NaN"):
        Sum().lift(Decimal("nan"))
