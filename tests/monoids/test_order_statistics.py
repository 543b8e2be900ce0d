"""Order statistics, compared with their definitions: as monoids, on trees; nulls, NaN, infinities, ties, text."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators import CountedTree, FrequencyTree, InOrder, SubtractOnEvict
from sash.monoids import CountDistinct, Max, Median, Mode, Monoid, PercentRank, Quantile, Rank
from sash.monoids.algebra import agree
from sash.monoids.multiset import single
from sash.monoids.rank_statistics import INTERPOLATIONS, interpolated, quantile_place
from sash.testing import check_laws
from tests.monoids.order_oracle import EVERY, OF_ANYTHING, RANKS, defined

AWKWARD = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.0, 5e-324, 1.7e308, -1.7e308])
NUMBERS = st.none() | AWKWARD | st.integers(-3, 3).map(float) | st.floats(-9, 9)
OTHERS = {
    "ints": st.none() | st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    "bools": st.none() | st.booleans(),
    "text": st.none() | st.sampled_from(["", "a", "b", "ab", "é", "\U0001f600"]),
    "times": st.none() | st.datetimes(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 5)),
}


def tree(monoid: Monoid) -> InOrder:
    return (FrequencyTree if monoid.most_frequent else CountedTree)(monoid)


def slid(window: InOrder, values: list[Any], width: int) -> list[Any]:
    """The results of windows of a width."""
    found = []
    for x in values:
        if len(window) == width:
            window.evict()
        window.insert(x)
        found.append(window.query())
    return found


def expected(monoid: Monoid, values: list[Any], width: int) -> list[Any]:
    return [defined(monoid, values[max(0, i + 1 - width) : i + 1]) for i in range(len(values))]


@pytest.mark.parametrize("monoid", EVERY, ids=repr)
@given(values=st.lists(NUMBERS, max_size=25), width=st.integers(1, 9))
def test_numbers(monoid: Monoid, values: list[Any], width: int) -> None:
    wanted = expected(monoid, values, width)
    assert agree(slid(SubtractOnEvict(monoid), values, width), wanted, 1e-15)
    assert agree(slid(tree(monoid), values, width), wanted, 1e-15)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("monoid", [*OF_ANYTHING, *RANKS], ids=repr)
def test_values_with_an_order(monoid: Monoid, kind: str) -> None:
    @given(values=st.lists(OTHERS[kind], max_size=15), width=st.integers(1, 6))
    def same(values: list[Any], width: int) -> None:
        wanted = expected(monoid, values, width)
        assert slid(SubtractOnEvict(monoid), values, width) == wanted
        assert slid(tree(monoid), values, width) == wanted

    same()


@pytest.mark.parametrize("time", [datetime.datetime(2024, 1, 1), datetime.time(3)])
def test_times_that_differ_in_fold_alone_are_one_value(time: Any) -> None:
    both = [time, time.replace(fold=1)]
    assert both[0] == both[1]
    for monoid in (CountDistinct(), Mode()):
        assert slid(SubtractOnEvict(monoid), both, 2) == slid(tree(monoid), both, 2) == expected(monoid, both, 2)
    assert single(both[0]) == single(both[1])  # equal multisets are equal trees


@pytest.mark.parametrize("monoid", EVERY, ids=repr)
@given(values=st.lists(NUMBERS.filter(lambda x: x is not None), min_size=1, max_size=8))
def test_laws(monoid: Monoid, values: list[Any]) -> None:
    check_laws(monoid, values)


@pytest.mark.parametrize("rule", INTERPOLATIONS)
@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 0.99, 1.0])
def test_places_are_those_of_numpy(q: float, rule: str) -> None:
    method: Any = {"equiprobable": "inverted_cdf"}.get(rule, rule)
    for n in range(1, 60):
        place, fraction = quantile_place(n, q, INTERPOLATIONS.index(rule))
        assert place + fraction == pytest.approx(np.quantile(np.arange(float(n)), q, method=method), abs=1e-12)
        assert 0 <= place < n
        assert fraction == 0 or place + 1 < n


@pytest.mark.parametrize(
    ("low", "high", "fraction", "result"),
    [
        (1.0, 2.0, 0.0, 1.0),
        (math.inf, math.inf, 0.5, math.inf),
        (-math.inf, math.inf, 0.5, math.nan),
        (-math.inf, 1.0, 0.25, -math.inf),
        (1.0, math.inf, 0.25, math.inf),
        (-1.6e308, 1.6e308, 0.25, -0.8e308),
        (0.1, 0.3, 0.5, 0.2),
    ],
)
def test_between_two_values(low: float, high: float, fraction: float, result: float) -> None:
    assert agree(interpolated(low, high, fraction), result, 1e-15)


def test_types_of_results() -> None:
    def of(monoid: Monoid, *values: Any) -> Any:
        return slid(tree(monoid), list(values), 9)[-1]

    assert type(of(Median(), 1, 2, 3)) is float
    assert type(of(Quantile(0.5), 1, 2, 3)) is float
    assert type(of(Quantile(0.5, "lower"), 1, 2, 3)) is int
    assert of(Quantile(0.5, "nearest"), True, False, True) is True
    assert type(of(Rank("min"), 1.5)) is type(of(Rank("dense"), "a")) is int
    assert type(of(Rank(), 1)) is type(of(PercentRank("min"), 1)) is float
    assert type(of(Mode(), 1, 1)) is int


def test_distinct_values_are_those_that_python_tells_apart() -> None:
    utc = datetime.UTC
    east = datetime.timezone(datetime.timedelta(hours=2))
    same = [datetime.datetime(2024, 1, 1, 12, tzinfo=utc), datetime.datetime(2024, 1, 1, 14, tzinfo=east)]
    values = [1, 1.0, True, "1", b"1", math.nan, -math.nan, (1, "a"), (1.0, "a"), frozenset("ab"), frozenset("ba")]
    values += [*same, -1, -2, 2**61 - 1, 0, datetime.date(2024, 1, 1), 1j]
    assert slid(tree(CountDistinct()), values, 99)[-1] == 13
    assert slid(SubtractOnEvict(CountDistinct()), values, 99)[-1] == 13
    for structure in (SubtractOnEvict, CountedTree):
        with pytest.raises(TypeError, match=r"count_distinct needs hashable values; got \[1\], a list"):
            structure(CountDistinct()).insert([1])


def test_zero_has_no_sign() -> None:
    for monoid in (Mode(), Quantile(0.5, "lower"), Median()):
        for window in (tree(monoid), SubtractOnEvict(monoid)):
            window.insert(-0.0)
            assert math.copysign(1, window.query()) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Quantile("0.5"), TypeError, r"q= of quantile must be a number in 0\.\.1; got '0\.5', a str"),
        (lambda: Quantile(True), TypeError, r"q= of quantile must be a number in 0\.\.1; got True"),
        (lambda: Quantile(1.5), ValueError, r"q= of quantile must be in 0\.\.1; got 1\.5"),
        (lambda: Quantile(math.nan), ValueError, r"q= of quantile must be in 0\.\.1; got nan"),
        (lambda: Quantile(0.5, "middle"), ValueError, r"interpolation= of quantile must be one of 'linear', .*"),
        (lambda: Rank("first"), ValueError, r"method= of rank must be one of 'average', 'min', 'max', 'dense'; got"),
        (lambda: PercentRank("min", 1), TypeError, r"ascending= of percent_rank must be True or False; got 1"),
        (lambda: Median().lift("a"), TypeError, "not a number: 'a'"),
        (lambda: CountedTree(Median()).insert("a"), TypeError, "not a number: 'a'"),
        (lambda: CountedTree(Mode()), TypeError, r"CountedTree needs a monoid with the property 'order_statistic'"),
        (lambda: Median().on_tree().combine(1, 2), TypeError, "median has no combine on a tree"),
        (lambda: Max().on_tree(), TypeError, "is not an order statistic"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
