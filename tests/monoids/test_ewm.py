"""Exponentially weighted aggregates, compared with fractions: weights are powers of two, which fractions hold."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest

import sash
from sash.aggregators import DABA, TwoStacksLite
from sash.monoids import EwmMean, EwmStd, EwmVar, Lag
from sash.monoids.custom import code_key, monoid_key
from sash.monoids.ewm import EwmMeanByTime, EwmVarByTime

Value = float | None


def exact(values: list[Value], ages: list[int], bias: bool = False) -> tuple[Fraction, Fraction | None, Fraction]:
    """The mean, the variance and the mean size of values, by the definition; ages are counted in half-lives."""
    pairs = [(Fraction(1, 2**age), Fraction(x)) for x, age in zip(values, ages, strict=True) if x is not None]
    weight = sum((w for w, _ in pairs), Fraction(0))
    mean = sum((w * x for w, x in pairs), Fraction(0)) / weight
    variance = sum((w * (x - mean) ** 2 for w, x in pairs), Fraction(0)) / weight
    shrunk = 1 - sum((w * w for w, _ in pairs), Fraction(0)) / weight**2
    size = sum((w * abs(x) for w, x in pairs), Fraction(0)) / weight
    return mean, variance if bias else variance / shrunk if shrunk else None, size


def stream(offset: float, length: int = 200) -> list[Value]:
    """Values around an offset, with nulls and spikes."""
    chance = random.Random(int(offset) % 1000)
    values: list[Value] = [offset + chance.gauss(0, 1) for _ in range(length)]
    values[::7] = [None] * len(values[::7])
    if not offset:
        values[5::50] = [chance.choice((1e16, -1e16)) for _ in values[5::50]]
    return values


@pytest.mark.parametrize("structure", [TwoStacksLite, DABA])
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_results_have_their_digits(structure: Any, offset: float) -> None:
    values, size = stream(offset), 30
    mean, var, std = (structure(monoid) for monoid in (EwmMean(1), EwmVar(1), EwmStd(1, bias=True)))
    for i, x in enumerate(values):
        for window in (mean, var, std):
            window.insert(x)
            if len(window) > size:
                window.evict()
        held = values[max(0, i + 1 - size) : i + 1]
        if all(x is None for x in held):
            assert mean.query() is None
            continue
        ages = [len(held) - 1 - k for k in range(len(held))]
        wanted, variance, scale = exact(held, ages)
        assert abs(Fraction(mean.query()) - wanted) <= scale * Fraction(1, 10**14)
        found = var.query()
        assert (found is None) == (variance is None)
        if variance is not None:
            assert abs(Fraction(found) - variance) <= variance * Fraction(1, 10**9)
        biased = math.sqrt(exact(held, ages, bias=True)[1])  # type: ignore[arg-type]
        assert std.query() == pytest.approx(biased, rel=1e-9, abs=0.0)


def test_ages_are_counted_in_time() -> None:
    times = [0, 1, 1, 5, 40, 41]
    values = [1e9 + x for x in (1.0, 5.0, 2.0, 7.0, 3.0, 3.5)]
    mean, var = EwmMeanByTime(1), EwmVarByTime(1)
    a, b = mean.identity, var.identity
    for i, (x, t) in enumerate(zip(values, times, strict=True)):
        a, b = mean.combine(a, mean.lift(x, t)), var.combine(b, var.lift(x, t))
        wanted, variance, _ = exact(list(values[: i + 1]), [t - then for then in times[: i + 1]])
        assert mean.lower(a) == pytest.approx(float(wanted), rel=1e-15)
        assert (var.lower(b) is None) == (variance is None)
        if variance is not None:
            assert var.lower(b) == pytest.approx(float(variance), rel=1e-9)


def fold(monoid: Any, values: list[Any]) -> Any:
    state = monoid.identity
    for x in values:
        state = monoid.combine(state, monoid.lift(x))
    return monoid.lower(state)


def test_extreme_values_neither_overflow_nor_vanish() -> None:
    top = 1.7976931348623157e308
    assert fold(EwmMean(1), [top, top, top]) == top
    assert fold(EwmMean(1), [top, -top]) == pytest.approx(-top / 3)
    assert fold(EwmStd(1, bias=True), [top, -top]) == pytest.approx(math.sqrt(8) / 3 * top)
    assert fold(EwmVar(1), [top, -top]) == math.inf
    assert fold(EwmStd(1), [1e-300, 3e-300]) == pytest.approx(math.sqrt(2) * 1e-300)
    assert math.isnan(fold(EwmVar(1), [1.0, math.inf, 2.0]))
    assert fold(EwmMean(1), [1.0, math.inf, 2.0]) == math.inf
    assert math.isnan(fold(EwmMean(1), [-math.inf, math.inf, 2.0]))
    assert math.isnan(fold(EwmMean(1), [math.nan, 2.0]))


def test_a_value_keeps_its_result_for_any_number_of_null_rows() -> None:
    nulls = [None] * 5000
    assert fold(EwmMean(1), [7.0, *nulls]) == 7.0
    assert fold(EwmMean(1), [1e16, *nulls, 7.0]) == 7.0  # the old weight has underflowed
    assert fold(EwmVar(1), [1e16, *nulls, 7.0]) is None
    assert fold(EwmVar(1, bias=True), [1e16, *nulls, 7.0]) == 0.0
    assert fold(EwmMean(1, ignore_nulls=True), [0.0, 3.0]) == 2.0


def test_null_rows_age_the_others_unless_they_are_ignored() -> None:
    rows = [{"x": 0.0}, {"x": None}, {"x": 5.0}]
    aged = sash.Window(sash.Lifetime(), sash.ewm_mean("x", halflife=1))
    ignored = sash.Window(sash.Lifetime(), sash.ewm_mean("x", halflife=1, ignore_nulls=True))
    assert [aged.push(row) for row in rows] == [0.0, 0.0, 4.0]
    assert [ignored.push(row) for row in rows] == [0.0, 0.0, pytest.approx(10 / 3)]


def test_alpha_is_what_a_row_takes_away() -> None:
    assert EwmMean(alpha=0.5).rows == pytest.approx(1.0)
    assert EwmMean(alpha=1 - 0.5**0.1).rows == pytest.approx(10.0)


def test_span_and_com_are_an_alpha() -> None:
    assert EwmMean(span=9) == EwmMean(com=4) == EwmMean(alpha=0.2)
    assert EwmStd(span=9, bias=True) == EwmStd(alpha=0.2, bias=True)
    assert monoid_key(EwmVar(com=4), code_key) == monoid_key(EwmVar(alpha=0.2), code_key)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, TypeError, "ewm_mean takes halflife=, alpha=, span= or com=, one of them; got none"),
        ({"halflife": "10m", "span": 3}, TypeError, "one of them; got halflife='10m' and span=3"),
        ({"span": 1}, ValueError, "span= of ewm_mean must be above 1, and finite, .*which is sash.last"),
        ({"span": math.inf}, ValueError, "span= of ewm_mean must be above 1, and finite, exclusive; got inf$"),
        ({"com": 0}, ValueError, "com= of ewm_mean must be above 0, .*only the newest value would count"),
        ({"com": True}, TypeError, "com= of ewm_mean must be a number above 0"),
        ({"span": 5, "times": True}, TypeError, "with times=True takes halflife=, .*; got span=5"),
        ({"halflife": 2, "alpha": 0.5}, TypeError, "got halflife=2 and alpha=0.5"),
        ({"halflife": 0}, ValueError, "halflife= of ewm_mean must be positive and finite; got 0"),
        ({"halflife": math.inf}, ValueError, "must be positive and finite; got inf"),
        ({"halflife": True}, TypeError, "must be a number of rows or a duration"),
        ({"alpha": 1}, ValueError, "only the newest value would count, which is sash.last"),
        ({"alpha": 0.0}, ValueError, "between 0 and 1, exclusive; got 0.0"),
        ({"alpha": "x"}, TypeError, "alpha= of ewm_mean must be a number"),
        ({"alpha": 0.5, "times": True}, TypeError, "with times=True takes halflife="),
        ({"halflife": 2, "times": 1}, TypeError, "times= must be True or False; got 1"),
        ({"halflife": 2, "ignore_nulls": None}, TypeError, "ignore_nulls= must be True or False"),
    ],
)
def test_wrong_parameters_are_named(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        sash.ewm_mean("x", **given)


def test_without_times_a_half_life_in_time_is_refused() -> None:
    with pytest.raises(TypeError, match="needs the time of each row"):
        EwmMean("10m").lift(1.0)
    with pytest.raises(TypeError, match="lag does not read the time"):
        Lag().by_time(1.0)
