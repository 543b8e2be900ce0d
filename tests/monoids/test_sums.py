"""Count, sum, mean, sum of squares; product and geometric mean. How exact pairs of floats are is in test_accuracy."""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid, agree
from sash.monoids.exact_integer import number
from sash.monoids.product import FloatProduct, GeometricMean, IntProduct, Product, minus_product
from sash.monoids.sums import (
    Count,
    FloatMean,
    FloatSum,
    FloatSumOfSquares,
    IntMean,
    IntSum,
    IntSumOfSquares,
    Mean,
    Sum,
    SumOfSquares,
)
from sash.testing import check_laws
from tests.monoids.test_first_last import FLOATS, INT64, folds, lawful, one

GENERIC: list[Monoid] = [Sum(), Mean(), SumOfSquares(), Product(), GeometricMean()]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SIZES = st.floats(-1e300, 1e300)
NUMBERS = st.one_of(FLOATS, INT64, st.booleans(), st.integers(-(2**80), 2**80))
LARGEST = 1.7976931348623157e308


def of(monoid: Monoid, values: list[Any]) -> Any:
    """The result of a window, after checking that the grouping does not matter to it."""
    first, *others = (monoid.lower(state) for state in folds(monoid, one(values)))
    assert all(agree(first, other, 1e-12) for other in others)
    return first


def outcome(monoid: Monoid, values: list[Any]) -> Any:
    try:
        return of(monoid, values)
    except OverflowError:
        return "overflow"


def exact_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# ---- what numbers are ----


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (True, 1),
        (np.True_, 1),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(0.1), 0.1),
        (2**999, 2**999),
    ],
)
def test_numbers_are_taken(given: Any, wanted: Any) -> None:
    assert number(given) == wanted
    assert type(number(given)) in (int, float, np.float64)
    assert of(Sum(), [given, 0.0]) == float(wanted)


@pytest.mark.parametrize("monoid", GENERIC, ids=repr)
@pytest.mark.parametrize("given", ["3", Fraction(1, 3), 3 + 0j, None, b"3", [3], (3,)])
def test_other_types_are_refused_by_name(monoid: Monoid, given: Any) -> None:
    with pytest.raises(TypeError, match=r"not a number: .*sash\.monoid\(") as refusal:
        monoid.lift(given)
    assert repr(given) in str(refusal.value)
    assert type(given).__name__ in str(refusal.value)


@pytest.mark.parametrize("monoid", GENERIC, ids=repr)
def test_absurd_integers_are_refused(monoid: Monoid) -> None:
    for absurd in (2**1000, -(2**1000)):
        with pytest.raises(OverflowError, match="1001 bits"):
            monoid.lift(absurd)


@pytest.mark.parametrize("monoid", GENERIC, ids=repr)
def test_kinds_that_make_no_sense_are_refused(monoid: Monoid) -> None:
    text: Any = "text"
    with pytest.raises(TypeError, match=f"{monoid.name} .*'text'"):
        monoid.typed(text)
    with pytest.raises(TypeError, match=f"{monoid.name} reads 1"):
        monoid.typed("int", "int")


# ---- laws ----


@pytest.mark.parametrize("monoid", GENERIC, ids=repr)
def test_laws_in_a_loop(monoid: Monoid) -> None:
    lawful(monoid, NUMBERS)()
    assert monoid.lower(monoid.identity) is None


@pytest.mark.parametrize("monoid", [IntSum(), IntSumOfSquares(), IntMean(), IntProduct()], ids=repr)
def test_laws_on_integers(monoid: Monoid) -> None:
    lawful(monoid, INT64)()
    lawful(monoid, st.booleans())()
    assert monoid.exact


@pytest.mark.parametrize("monoid", [FloatSumOfSquares(), FloatProduct(), GeometricMean().typed("float")], ids=repr)
def test_laws_on_floats(monoid: Monoid) -> None:
    lawful(monoid, FLOATS)()


@given(FLOATS, FLOATS, FLOATS)
def test_laws_of_the_float_sum(x: float, y: float, z: float) -> None:
    """On three values, for pairs of floats hold no more than two scales: 1e308 + 1e16 + 1 - 1e308 - 1e16 is 0."""
    for m in (FloatSum(), FloatMean()):
        a, b, c = m.lift(x), m.lift(y), m.lift(z)
        assert m.same(m.combine(m.identity, a), a)
        assert m.same(m.combine(a, m.identity), a)
        assert m.same(m.combine(a, b), m.combine(b, a))
        assert m.same(m.combine(m.combine(a, b), c), m.combine(a, m.combine(b, c)))


@given(st.lists(FLOATS | st.sampled_from([LARGEST, -LARGEST, 1e300]), min_size=1, max_size=20))
def test_the_float_sum_is_near_the_exact_one_however_grouped(values: list[float]) -> None:
    wanted = Sum().lower(folds(Sum(), one(values))[0])
    finite = [abs(Fraction(x)) for x in values if math.isfinite(x)]
    for state in folds(FloatSum(), one(values)):
        found = FloatSum().lower(state)
        if math.isfinite(found) and math.isfinite(wanted):
            rounding = abs(Fraction(wanted)) * Fraction(2) ** -52 + Fraction(5e-324)
            assert abs(Fraction(found) - Fraction(wanted)) <= rounding + sum(finite) * len(values) * Fraction(2) ** -103
        else:
            assert agree(found, wanted)


# ---- count ----


def test_count() -> None:
    m = Count()
    assert m.lower(m.identity) == m.nothing() == 0
    assert m.typed() is m
    assert m.typed("int", "float") is m
    assert m.lifted(()) == m.lifted((1, 2, 3)) == 1
    assert m.lifted((1, None)) == 0
    assert m.arity == (0, None)
    assert m.inverse(m.combine(m.lift(), m.lift("x")), m.lift()) == 1


# ---- sums ----


@given(st.lists(INT64 | st.booleans(), min_size=1))
def test_sums_of_integers_are_exact_or_an_error(values: list[int]) -> None:
    total, squares = sum(values), sum(x * x for x in values)
    for m in (Sum(), Sum().typed("int")):
        assert outcome(m, values) == (total if -(2**63) <= total < 2**63 else "overflow")
    for m in (SumOfSquares(), SumOfSquares().typed("int")):
        assert outcome(m, values) == (squares if squares < 2**63 else "overflow")
    assert of(Mean(), values) == total / len(values)
    assert of(IntMean(), values) == pytest.approx(total / len(values), rel=2**-51, abs=0)


@given(st.lists(st.one_of(FINITE, INT64, st.booleans()), min_size=1))
def test_sums_in_a_loop_are_correctly_rounded(values: list[Any]) -> None:
    exact = [Fraction(x) for x in values]
    if any(isinstance(x, float) for x in values):
        assert of(Sum(), values) == exact_float(sum(exact, Fraction(0)))
        assert of(SumOfSquares(), values) == exact_float(sum((x * x for x in exact), Fraction(0)))
    assert of(Mean(), values) == float(sum(exact) / len(exact))


@given(st.lists(SIZES, min_size=1))
def test_the_sum_is_that_of_fsum(values: list[float]) -> None:
    assert of(Sum(), values) == math.fsum(values)


@given(st.lists(FLOATS, min_size=1))
def test_columns_give_what_loops_give(values: list[float]) -> None:
    for m in (SumOfSquares(), Product(), GeometricMean()):
        assert agree(of(m.typed("float"), values), of(m, values), 1e-12)


@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([1, 2], 3, 1.5),
        ([True, True, False], 2, 2 / 3),
        ([1, 0.5], 1.5, 0.75),
        ([1e16, 1.0, -1e16], 1.0, 1 / 3),
        ([LARGEST, LARGEST, -LARGEST], LARGEST, LARGEST / 3),
        ([LARGEST, LARGEST], math.inf, LARGEST),
        ([-LARGEST, -LARGEST], -math.inf, -LARGEST),
        ([LARGEST, 1e300, -LARGEST], 1e300, 1e300 / 3),
        ([math.inf, 1.0], math.inf, math.inf),
        ([math.inf, -math.inf], math.nan, math.nan),
        ([math.nan, math.inf], math.nan, math.nan),
        ([5e-324, 5e-324], 1e-323, 5e-324),
        ([2**63 - 1, 1, -1], 2**63 - 1, (2**63 - 1) / 3),
        ([-(2**63)], -(2**63), -(2.0**63)),
    ],
)
def test_examples_of_sum_and_mean(values: list[Any], total: Any, mean: float) -> None:
    kinds: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}
    found = {type(x) for x in values}
    forms = ["loop"] if len(found) > 1 else ["loop", "column"]
    for form in forms:
        for monoid, wanted in ((Sum(), total), (Mean(), mean)):
            m = monoid if form == "loop" else monoid.typed(kinds[type(values[0])])
            result = of(m, values)
            assert agree(result, wanted, 1e-15)
            assert type(result) is type(wanted)


def test_an_overflow_suggests_a_remedy() -> None:
    for m in (Sum(), Sum().typed("int")):
        state = m.combine(m.lift(2**63 - 1), m.lift(1))
        with pytest.raises(
            OverflowError, match=r"the sum left the range of 64-bit integers.*convert the input to float"
        ):
            m.lower(state)
        assert m.inverse is not None
        assert m.lower(m.inverse(state, m.lift(2**63 - 1))) == 1
    for m in (SumOfSquares(), SumOfSquares().typed("int")):
        with pytest.raises(OverflowError, match=r"the sum of squares left.*convert the input to float"):
            m.lower(m.lift(3037000500))
        assert m.lower(m.lift(-3037000499)) == 3037000499**2


def test_what_left_a_sum_leaves_nothing_behind() -> None:
    m = Sum()
    for gone in (math.nan, math.inf, -math.inf, 1e308, 0.1, 2**900):
        assert m.inverse(m.combine(m.lift(gone), m.lift(3)), m.lift(gone)) == m.lift(3)
    assert m.lower(m.inverse(m.lift(0.5), m.lift(0.5))) is None


def test_typed_sums_bear_their_names() -> None:
    for m in (Sum(), Mean(), SumOfSquares(), Product(), GeometricMean()):
        for kind in ("bool", "int", "float"):
            assert m.typed(kind).name == m.name


# ---- products ----


@given(
    st.lists(st.one_of(st.sampled_from([2, -2, 2**31, -(2**32), 3037000500]), st.integers(-9, 9), INT64), min_size=1)
)
def test_products_of_integers_are_exact_or_an_error(values: list[int]) -> None:
    product = math.prod(values)
    for m in (Product(), Product().typed("int")):
        assert outcome(m, values) == (product if -(2**63) <= product < 2**63 else "overflow")


@pytest.mark.parametrize("values", [[2**62, 2, -1], [2**62, -1, 2], [-1, 2**62, 2], [-(2**63), 1], [-(2**31), 2**32]])
def test_the_least_integer_is_in_range_however_reached(values: list[int]) -> None:
    for m in (Product(), Product().typed("int")):
        assert of(m, values) == -(2**63)
        assert outcome(m, [*values, -1]) == "overflow"
        assert outcome(m, [*values, -1, -1]) == -(2**63)
        assert outcome(m, [*values, 3, 0]) == 0


@given(st.integers(-(2**63), 0), st.integers(-(2**63), 0))
def test_minus_product(a: int, b: int) -> None:
    wanted = -(a * b)
    assert minus_product(a, b) == (wanted if wanted >= -(2**63) else 0)


def test_products_near_the_limit() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        a = chance.randrange(1, 2 ** chance.randrange(1, 63))
        b = 2**63 // a + chance.randrange(-1, 2)
        assert minus_product(-a, -b) == (-a * b if a * b <= 2**63 else 0)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([3, 5], 15),
        ([3, 0.5], 1.5),
        ([True, 3], 3),
        ([2**62, 2**62, 0.5], 2.0**123),
        ([1e300, 1e300, 1e-300], 1e300),
        ([1e-300, 1e-300, 1e300], 1e-300),
        ([1e300, 1e300], math.inf),
        ([-1e300, 1e300], -math.inf),
        ([1e-300, 1e-300], 0.0),
        ([5e-324], 5e-324),
        ([LARGEST], LARGEST),
        ([0.0, 3.0], 0.0),
        ([0, 3], 0),
        ([0, 0.5], 0.0),
        ([0.0, math.inf], math.nan),
        ([0.0, math.nan], math.nan),
        ([math.inf, -2.0], -math.inf),
        ([math.inf, 1e-300, -math.inf], -math.inf),
        ([math.nan, 2.0], math.nan),
    ],
)
def test_examples_of_product(values: list[Any], wanted: Any) -> None:
    forms: list[Monoid] = [Product()]
    if all(isinstance(x, float) for x in values):
        forms.append(Product().typed("float"))
    for m in forms:
        result = of(m, values)
        assert agree(result, wanted, 1e-14)
        assert type(result) is type(wanted)


def test_an_overflow_of_a_product_suggests_a_remedy() -> None:
    for m in (Product(), Product().typed("int")):
        with pytest.raises(OverflowError, match=r"the product left.*convert the input to float"):
            m.lower(m.combine(m.lift(2**62), m.lift(2)))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([2, 8], 4.0),
        ([4.0], 4.0),
        ([1e-300, 1e300], 1.0),
        ([LARGEST, LARGEST], LARGEST),
        ([5e-324, 5e-324], 5e-324),
        ([0.0, 5.0], 0.0),
        ([-0.0, 5.0], 0.0),
        ([True, True], 1.0),
        ([math.inf, 5.0], math.inf),
        ([math.inf, 0.0], math.nan),
        ([-1.0, -1.0], math.nan),
        ([-1.0, 0.0], math.nan),
        ([-math.inf], math.nan),
        ([math.nan, 0.0], math.nan),
    ],
)
def test_examples_of_geometric_mean(values: list[Any], wanted: float) -> None:
    kinds: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}
    for m in (GeometricMean(), GeometricMean().typed(kinds[type(values[0])])):
        assert agree(of(m, values), wanted, 1e-15)


# ---- compiled ----


@pytest.mark.parametrize(
    ("monoid", "values"),
    [
        (Sum(), [2**63 - 1, -(2**63), -1, 1, 2**32, 0]),
        (Sum(), [LARGEST, -LARGEST, 1e16, 0.1, math.inf, -math.inf, math.nan]),
        (SumOfSquares(), [3037000499, 3037000500, -(2**63), 1, 0]),
        (Product(), [2**62, 2, -1, 2**31, -(2**63), 2**63 - 1, 0, 3]),
        (Product(), [1e300, 1e-300, 5e-324, 0.0, -2.0, math.inf, math.nan]),
        (GeometricMean(), [1e300, 1e-300, 0.0, 5e-324, math.inf]),
    ],
    ids=lambda x: repr(x)[:20],
)
def test_machine_code_agrees_at_the_limits(monoid: Monoid, values: list[Any]) -> None:
    report = check_laws(monoid, values)
    assert report.compiled, report.why_not_compiled
