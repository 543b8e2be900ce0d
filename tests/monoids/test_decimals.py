"""Sums, means and ranges of decimals and durations: laws, words against Python's integers, rounding, overflow."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.monoids.algebra import Monoid
from sash.monoids.decimals import DecimalMean, DecimalRange, DecimalSum, half_up, quotient, words
from sash.monoids.durations import DurationMean, DurationRange, DurationSum, in_units
from sash.testing import check_laws

MONEY = [Decimal(n).scaleb(-2) for n in (0, 10, -25, 1999, 10**11 - 1, -(10**11) + 1)]
TIMES = [0, 1, -2, 2**62, -(2**62), 86_400]
unscaled = st.integers(-(10**38) + 1, 10**38 - 1)
WORDS = 2**64


def pair(value: int) -> tuple[int, int]:
    """The words of a value as Arrow has them, both signed."""
    low = value % WORDS
    return value >> 64, low - WORDS if low >= WORDS // 2 else low


def joined(found: Any) -> int:
    """The value of three words."""
    return int((found[0] << 96) + (found[1] << 48) + found[2])


@pytest.mark.parametrize(
    ("monoid", "values"),
    [
        (DecimalSum(22, 2), MONEY),
        (DecimalMean(16, 2, 4), MONEY),
        (DecimalRange(13, 2), MONEY),
        (DurationSum(1000), TIMES),
        (DurationMean(1000), TIMES),
        (DurationRange(1, 1), TIMES),
        (DurationSum(1000).typed("int"), TIMES),
        (DurationMean(1000).typed("int"), TIMES),
        (DurationRange(1, 1).typed("int"), TIMES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_laws(monoid: Monoid, values: list[Any]) -> None:
    check_laws(monoid, values)


@pytest.mark.parametrize(
    "monoid", [DecimalSum(38, 0), DecimalMean(38, 0, 4), DecimalRange(38, 0)], ids=lambda m: m.name
)
def test_laws_of_words(monoid: Monoid) -> None:
    check_laws(
        monoid.typed("int", "int"), [pair(value) for value in (0, 1, -1, 10**38 - 1, -(10**37), 2**64, -(2**96))]
    )


@given(unscaled)
def test_the_words_of_a_value(value: int) -> None:
    assert joined(words(*pair(value))) == value


@given(st.lists(unscaled, min_size=1, max_size=20), st.sampled_from([0, 1, 4]))
@example([10**38 - 1] * 3, 4)
@example([-(10**38) + 1, 10**38 - 1], 4)
def test_words_give_what_integers_give(values: list[int], more: int) -> None:
    """The results are the same, and so are the errors of results with too many digits."""
    for monoid in (DecimalSum(38, 0), DecimalMean(38, 0, more), DecimalRange(38, 0)):
        wide = monoid.typed("int", "int")
        slow, fast = monoid.identity, wide.identity
        for value in values:
            slow, fast = monoid.combine(slow, monoid.lift(Decimal(value))), wide.combine(fast, wide.lift(*pair(value)))
        try:
            expected = monoid.lower(slow)
        except OverflowError as error:
            with pytest.raises(OverflowError, match=str(error)):
                wide.lower(fast)
            continue
        scale = more if monoid.name == "mean" else 0
        assert Fraction(joined(wide.lower(fast)), 10**scale) == Fraction(expected)


@given(unscaled, st.integers(1, 2**46 - 1), st.sampled_from([1, 10, 10**4]))
@example(5, 2, 1)
@example(-5, 2, 1)
def test_quotients(value: int, n: int, factor: int) -> None:
    assert joined(quotient(words(*pair(value)), n, factor)) == half_up(value * factor, n)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
@example([-(2**63)])
@example([1, 2])
@example([-1, -2])
def test_means_of_durations_are_rounded_half_up(values: list[int]) -> None:
    monoid = DurationMean(1)
    for form in (monoid, monoid.typed("int")):
        state = form.identity
        for value in values:
            state = form.combine(state, form.lift(value))
        assert form.lower(state) == half_up(sum(values), len(values))


def test_what_is_no_decimal_is_refused() -> None:
    with pytest.raises(TypeError, match=r"not a decimal: 1\.5, a float"):
        DecimalSum(10, 2).lift(1.5)
    with pytest.raises(TypeError, match=r"0\.125 has more than 2 decimal places"):
        DecimalSum(10, 2).lift(Decimal("0.125"))


def test_too_many_digits_are_an_error_of_lower() -> None:
    monoid = DecimalSum(3, 1)
    state = monoid.combine(monoid.lift(Decimal("99.9")), monoid.lift(Decimal("0.1")))
    with pytest.raises(OverflowError, match=r"the sum has more than 3 digits: cast the column"):
        monoid.lower(state)
    assert monoid.lower(monoid.inverse(state, monoid.lift(Decimal("0.1")))) == Decimal("99.9")


@pytest.mark.parametrize("form", [DurationSum(1), DurationSum(1).typed("int")], ids=["objects", "words"])
def test_a_sum_of_durations_may_leave_64_bits_and_come_back(form: Monoid) -> None:
    state = form.combine(form.lift(2**62), form.lift(2**62))
    with pytest.raises(OverflowError, match=r"the sum of durations left the range .* coarser unit"):
        form.lower(state)
    assert form.lower(form.combine(state, form.lift(-1))) == 2**63 - 1


@pytest.mark.parametrize("form", [DurationRange(1, 2), DurationRange(1, 2).typed("int")], ids=["objects", "words"])
def test_a_range_beyond_64_bits(form: Monoid) -> None:
    assert form.lower(form.combine(form.lift(2**62 - 1), form.lift(0))) == 2**63 - 2
    for least in (-1, -(2**63)):
        with pytest.raises(OverflowError, match=r"the range left that of 64-bit integers"):
            form.lower(form.combine(form.lift(2**62 - 1), form.lift(least)))


def test_objects_of_datetime_in_units() -> None:
    assert in_units(datetime(1970, 1, 2), 1000) == in_units(datetime(1970, 1, 2, tzinfo=UTC), 1000) == 86_400_000
    assert in_units(date(1969, 12, 31), 1) == -86_400
    assert in_units(time(0, 1, 0, 5), 10**6) == 60_000_005
    assert in_units(timedelta(seconds=-1), 10**9) == -(10**9)
    with pytest.raises(ValueError, match="not a whole number of units"):
        in_units(timedelta(microseconds=1), 1000)
    with pytest.raises(TypeError, match="not a duration or a time: 'x', a str"):
        in_units("x", 1)
