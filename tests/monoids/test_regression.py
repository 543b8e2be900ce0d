"""Covariance, correlation, slope, intercept: laws, decisions, examples. Accuracy is in test_accuracy."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid, agree, agree_within
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope
from sash.testing import check_laws
from tests.monoids.test_first_last import FLOATS, INT64, OF_KIND, Rows, folds, lawful

ALL: list[Monoid] = [Covariance(), Covariance(ddof=0), Correlation(), Slope(), Intercept()]
KINDS: list[Kind] = ["bool", "int", "float"]
LARGEST = 1.7976931348623157e308


def of(monoid: Monoid, rows: Rows, slack: float = 0.0) -> Any:
    """The result of a window, however grouped, in a loop and on columns of floats; `slack`: how far they may differ.

    A result near 0, such as an intercept, is the difference of large terms, and has few digits.
    """
    typed = monoid.typed("float", "float")
    found = [monoid.lower(state) for state in folds(monoid, rows)]
    found += [typed.lower(state) for state in folds(typed, rows)]
    assert all(agree(found[0], other, 1e-9) or agree_within(found[0], other, slack) for other in found)
    return found[0]


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_laws(monoid: Monoid) -> None:
    lawful(monoid, FLOATS | INT64, FLOATS | st.booleans())()


@pytest.mark.parametrize("x", KINDS)
@pytest.mark.parametrize("y", KINDS)
def test_laws_on_columns(x: Kind, y: Kind) -> None:
    lawful(Covariance().typed(x, y), OF_KIND[x], OF_KIND[y])()


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_nothing_gives_null(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) is None
    assert monoid.nothing() is None
    assert monoid.lifted((1.0, None)) == monoid.lifted((None, 1.0)) == monoid.identity


LINE: Rows = [(0, 1), (1, 3), (2, 5)]
BENT: Rows = [(1, 2), (2, 3), (3, 5), (4, 4)]


@pytest.mark.parametrize(
    ("monoid", "rows", "wanted"),
    [
        (Covariance(), LINE, 2.0),
        (Covariance(ddof=0), LINE, 4 / 3),
        (Covariance(), LINE[:1], None),
        (Covariance(ddof=0), LINE[:1], 0.0),
        (Covariance(), [(0, 1), (0, 2)], 0.0),
        (Correlation(), LINE, 1.0),
        (Correlation(), [(x, -y) for x, y in LINE], -1.0),
        (Correlation(), BENT, 0.8),
        (Correlation(), LINE[:1], None),
        (Correlation(), [(0, 1), (0, 2)], None),
        (Correlation(), [(0, 1), (1, 1)], None),
        (Slope(), LINE, 2.0),
        (Slope(), BENT, 0.8),
        (Slope(), [(1e9 + x, y) for x, y in BENT], 0.8),
        (Slope(), LINE[:1], None),
        (Slope(), [(0, 1), (0, 2)], None),
        (Slope(), [(0, 1), (1, 1)], 0.0),
        (Intercept(), LINE, 1.0),
        (Intercept(), BENT, 1.5),
        (Intercept(), LINE[:1], None),
        (Intercept(), [(0, 1), (0, 2)], None),
    ],
)
def test_examples(monoid: Monoid, rows: Rows, wanted: float | None) -> None:
    found = of(monoid, rows)
    assert found == wanted if wanted is None else found == pytest.approx(wanted, rel=1e-14, abs=1e-14)
    assert found is None or type(found) is float


def test_the_line_is_of_y_on_x_in_this_order() -> None:
    assert of(Slope(), [(0.0, 0.0), (1.0, 10.0)]) == 10.0
    assert of(Slope(), [(0.0, 0.0), (10.0, 1.0)]) == 0.1


@pytest.mark.parametrize("monoid", ALL, ids=repr)
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_make_nan(monoid: Monoid, strange: float) -> None:
    rows: Rows = [(1.0, 2.0), (2.0, 2.5), (4.0, 1.0)]
    assert math.isnan(of(monoid, [*rows, (strange, 1.0)]))
    assert math.isnan(of(monoid, [(1.0, strange), *rows]))
    assert math.isnan(of(monoid, [(strange, -strange), (strange, 1.0), *rows]))


SIZES = [2.0**exponent for exponent in (-1000, -600, -500, -300, 0, 300, 500, 600, 1000)]


@pytest.mark.parametrize("x", SIZES)
@pytest.mark.parametrize("y", SIZES)
def test_results_that_are_floats_are_there_whatever_the_size_of_the_values(x: float, y: float) -> None:
    """Powers of two round nothing, so all but the sizes of x and y is the same."""
    rows: Rows = [(a * x, b * y) for a, b in BENT]
    slope = of(Slope(), rows)
    assert of(Correlation(), rows) == pytest.approx(0.8, rel=1e-14)
    assert of(Intercept(), rows) == pytest.approx(1.5 * y, rel=1e-14)
    if 2.0**-1000 <= y / x <= 2.0**1000:
        assert slope == pytest.approx(0.8 * (y / x), rel=1e-14)
    if 2.0**-1000 <= x * y <= 2.0**1000:
        assert of(Covariance(), rows) == pytest.approx(of(Covariance(), BENT) * x * y, rel=1e-14)


def test_the_largest_floats() -> None:
    rows: Rows = [(LARGEST, -LARGEST), (-LARGEST, LARGEST), (1.0, 2.0)]
    assert of(Correlation(), rows) == pytest.approx(-1.0, rel=1e-15)
    assert of(Slope(), rows) == pytest.approx(-1.0, rel=1e-15)
    assert of(Covariance(), rows) == -math.inf


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), max_size=20))
def test_a_correlation_is_at_most_1(rows: Rows) -> None:
    found = of(Correlation(), rows) if rows else None
    assert found is None or -1.0 <= found <= 1.0


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=20, unique=True), st.integers(-9, 9), st.integers(-9, 9))
@example([0, 1, -39], 3, 0)
def test_points_on_a_line_give_the_line(xs: list[int], slope: int, intercept: int) -> None:
    rows: Rows = [(x, slope * x + intercept) for x in xs]
    assert of(Slope(), rows) == pytest.approx(slope, abs=1e-12)
    assert of(Intercept(), rows, slack=1e-10) == pytest.approx(intercept, abs=1e-10)


def test_integers_beyond_2_53_keep_their_digits() -> None:
    rows: Rows = [(2**62 + x, -(2**62) + y) for x, y in BENT]
    for m in (Slope(), Slope().typed("int", "int")):
        for state in folds(m, rows):
            assert m.lower(state) == pytest.approx(0.8, rel=1e-14)


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_what_is_no_number_is_refused(monoid: Monoid) -> None:
    for row in (("3", 1), (1, "3")):
        with pytest.raises(TypeError, match="not a number: '3'"):
            monoid.lift(*row)
    text: Any = "text"
    with pytest.raises(TypeError, match=f"{monoid.name} .*'text'"):
        monoid.typed("float", text)
    with pytest.raises(TypeError, match=f"{monoid.name} reads 2"):
        monoid.typed("float")


def test_ddof_is_checked() -> None:
    assert Covariance() == Covariance(ddof=1) != Covariance(ddof=0)
    wrong: Any = 0.5
    with pytest.raises(TypeError, match=r"ddof= .*got 0\.5"):
        Covariance(ddof=wrong)
    with pytest.raises(ValueError, match=r"ddof= .*got -1"):
        Covariance(ddof=-1)


def test_machine_code_agrees() -> None:
    report = check_laws(Covariance(), [(1e9, 2.0), (1e9 + 1, -1e16), (LARGEST, 0.0), (math.nan, 1.0)])
    assert report.compiled, report.why_not_compiled
