"""Variance, standard deviation, skewness, kurtosis: laws, decisions, examples. Accuracy is in test_accuracy."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid, agree
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.testing import check_laws
from tests.monoids.test_first_last import FLOATS, INT64, folds, lawful, one

ALL: list[Monoid] = [
    Var(),
    Var(ddof=0),
    Std(),
    Std(ddof=2),
    Skewness(),
    Skewness(bias=False),
    Kurtosis(),
    Kurtosis(bias=False),
]
LARGEST = 1.7976931348623157e308
KIND: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}


def of(monoid: Monoid, values: list[Any]) -> Any:
    """The result of a window, however grouped, in a loop and on a column."""
    found = [monoid.lower(state) for state in folds(monoid, one(values))]
    if len(set(map(type, values))) == 1:
        typed = monoid.typed(KIND[type(values[0])])
        found += [typed.lower(state) for state in folds(typed, one(values))]
    nothing = 1e-12 if isinstance(monoid, Skewness | Kurtosis) else 0.0  # they have no unit, and may be 0
    for other in found:
        assert agree(found[0], other, 1e-9) or abs(found[0] - other) <= nothing
    return found[0]


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_laws(monoid: Monoid) -> None:
    lawful(monoid, FLOATS | INT64 | st.booleans())()
    lawful(monoid.typed("float"), FLOATS)()
    lawful(monoid.typed("int"), INT64)()
    lawful(monoid.typed("bool"), st.booleans())()


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_nothing_gives_null(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) is None
    assert monoid.nothing() is None


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_typed_forms_differ_from_the_loop_only_in_how_they_read(monoid: Monoid) -> None:
    typed = monoid.typed("int")
    assert type(typed) is type(monoid)
    assert typed.name == monoid.name
    assert typed != monoid
    assert typed == monoid.typed("bool") != monoid.typed("float")
    assert repr(typed) == repr(monoid)


@pytest.mark.parametrize(
    ("monoid", "values", "wanted"),
    [
        (Var(), [1, 2, 3, 4], 5 / 3),
        (Var(ddof=0), [1, 2, 3, 4], 1.25),
        (Var(), [1e9 + 1, 1e9 + 2, 1e9 + 3], 1.0),
        (Var(), [True, False], 0.5),
        (Var(), [5.0], None),
        (Var(ddof=0), [5.0], 0.0),
        (Var(ddof=2), [5.0, 6.0], None),
        (Var(), [0.1] * 7, 0.0),
        (Var(), [LARGEST] * 3, 0.0),
        (Var(), [2**63 - 1, 2**63 - 2], 0.5),
        (Std(), [1, 2, 3, 4], math.sqrt(5 / 3)),
        (Std(), [1], None),
        (Std(ddof=0), [1], 0.0),
        (Skewness(), [1, 1, 4], 0.5**0.5),
        (Skewness(), [1.0, 2.0, 3.0], 0.0),
        (Skewness(), [1.0, 2.0], 0.0),
        (Skewness(), [1.0], None),
        (Skewness(), [0.1, 0.1, 0.1], None),
        (Skewness(bias=False), [1.0, 2.0], None),
        (Skewness(bias=False), [1, 1, 4], 3**0.5),
        (Skewness(bias=False), [1, 2, 3, 4, 10], 1.6970562748477143),
        (Kurtosis(), [0, 1], -2.0),
        (Kurtosis(), [1.0], None),
        (Kurtosis(), [7, 7], None),
        (Kurtosis(bias=False), [1, 2, 3], None),
        (Kurtosis(bias=False), [1, 2, 3, 4], -1.2),
        (Kurtosis(bias=False), [1, 2, 3, 4, 10], 3.152),
    ],
)
def test_examples(monoid: Monoid, values: list[Any], wanted: float | None) -> None:
    found = of(monoid, values)
    assert found == wanted if wanted is None else found == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    assert found is None or type(found) is float


@pytest.mark.parametrize("monoid", ALL, ids=repr)
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_makes_nan(monoid: Monoid, strange: float) -> None:
    assert math.isnan(of(monoid, [1.0, 2.0, strange, 4.0, 7.0]))
    assert math.isnan(of(monoid, [LARGEST, -LARGEST, strange, LARGEST, 0.0]))


def test_a_variance_beyond_the_range_is_infinite() -> None:
    far = [1e200, -1e200, 3e199, 1.0]
    assert of(Var(), far) == of(Var(), [LARGEST, -LARGEST]) == math.inf
    assert of(Var(), [1e-165, 3e-165]) == 0.0


SHAPE = [10.0, -10.0, 3.0, 4.5, 9.75, -1.0]
SIZES = [2.0**exponent for exponent in (-1020, -800, -550, -500, -450, -300, -200, 200, 300, 450, 500, 510, 900, 1019)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"2**{math.log2(size):.0f}")
def test_results_that_are_floats_are_there_whatever_the_size_of_the_values(size: float) -> None:
    """Powers of two round nothing, so all but the size of the values is the same."""
    values = [x * size for x in SHAPE]
    for monoid in (Std(), Std(ddof=0)):
        assert of(monoid, values) == pytest.approx(of(monoid, SHAPE) * size, rel=1e-14, abs=0.0)
    for monoid in (Skewness(), Skewness(bias=False), Kurtosis(), Kurtosis(bias=False)):
        assert of(monoid, values) == pytest.approx(of(monoid, SHAPE), rel=1e-13)


def test_values_of_every_size_in_one_window() -> None:
    """From sums that underflow to such that overflow, and back to small values among large ones."""
    values = [1e-320, 3e-200, 1e-170, -2e-160, 1.0, 5e150, -1e160, 3e250, 1e-300]
    for end in range(2, len(values) + 1):
        exact = [Fraction(x) for x in values[:end]]
        mean = sum(exact) / end
        variance = sum((x - mean) ** 2 for x in exact) / (end - 1)
        found = Fraction(of(Std(), values[:end]))
        assert abs(found**2 / variance - 1) < 1e-12, end


@pytest.mark.parametrize("monoid", [Std(), Std(ddof=0), Skewness(), Kurtosis()], ids=repr)
def test_the_largest_floats(monoid: Monoid) -> None:
    values = [LARGEST, -LARGEST, LARGEST, 0.0, LARGEST]
    size = 2.0**1000 if isinstance(monoid, Std) else 1.0
    assert of(monoid, values) == pytest.approx(of(monoid, [x / 2.0**1000 for x in values]) * size, rel=1e-13)


def test_the_smallest_floats() -> None:
    assert of(Std(), [0.0, 5e-324]) == 5e-324
    assert of(Std(), [0.0, 1e-315]) == pytest.approx(0.5**0.5 * 1e-315, rel=1e-6)
    assert of(Var(), [5e-324] * 3) == of(Std(), [5e-324] * 3) == 0.0
    assert of(Skewness(), [5e-324] * 3) is of(Kurtosis(), [LARGEST] * 3) is None


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_states_of_small_values_are_comparable(monoid: Monoid) -> None:
    """The cube of the deviation of such a variance is below the smallest float."""
    state = monoid.combine(monoid.lift(0.0), monoid.lift(2.0**-479))
    assert monoid.same(state, state)
    assert not monoid.same(state, monoid.combine(monoid.lift(0.0), monoid.lift(2.0**-478)))


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=30))
def test_moments_are_those_of_the_definition(values: list[int]) -> None:
    n = len(values)
    mean = sum(values) / n
    m2, m3, m4 = (math.fsum((x - mean) ** power for x in values) / n for power in (2, 3, 4))
    if len(set(values)) == 1:
        assert of(Var(ddof=0), values) == 0.0
        assert of(Skewness(), values) is of(Kurtosis(), values) is None
        return
    assert of(Var(ddof=0), values) == pytest.approx(m2, rel=1e-12)
    assert of(Std(ddof=0), values) == pytest.approx(math.sqrt(m2), rel=1e-12)
    assert of(Skewness(), values) == pytest.approx(m3 / m2**1.5, rel=1e-9, abs=1e-10)
    assert of(Kurtosis(), values) == pytest.approx(m4 / m2**2 - 3, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("monoid", [Var, Std])
def test_ddof_is_checked(monoid: Any) -> None:
    assert monoid() == monoid(ddof=1)
    assert monoid() != monoid(ddof=0)
    assert repr(monoid(ddof=0)) == f"{monoid.__name__}(ddof=0)"
    for wrong in (1.0, True, "1", None):
        with pytest.raises(TypeError, match=r"ddof= .*got " + repr(wrong)):
            monoid(ddof=wrong)
    with pytest.raises(ValueError, match=r"ddof= .*got -1"):
        monoid(ddof=-1)


@pytest.mark.parametrize("monoid", [Skewness, Kurtosis])
def test_bias_is_checked(monoid: Any) -> None:
    assert monoid() == monoid(bias=True) != monoid(bias=False)
    with pytest.raises(TypeError, match=r"bias= .*got 0"):
        monoid(bias=0)


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_what_is_no_number_is_refused(monoid: Monoid) -> None:
    with pytest.raises(TypeError, match="not a number: '3'"):
        monoid.lift("3")
    text: Any = "text"
    with pytest.raises(TypeError, match=f"{monoid.name} .*'text'"):
        monoid.typed(text)


def test_machine_code_agrees() -> None:
    for values in ([1e9 + 1, 1e9 + 2, LARGEST, -LARGEST, math.nan], [2**63 - 1, 2**63 - 2, -(2**63)]):
        report = check_laws(Var(), values)
        assert report.compiled, report.why_not_compiled
