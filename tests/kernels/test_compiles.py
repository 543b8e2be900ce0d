"""What users write, and that it compiles: helpers in every place, parameters, states.

Each case runs compiled and, by Recalc in a loop, interpreted; both must agree.
"""

import enum
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.types import Float
from numba.extending import overload, register_jitable

import sash
from sash.aggregators import DABA, Recalc, TwoStacksLite
from sash.aggregators.in_order import InOrder
from sash.kernels import Results, slide
from sash.monoids import Max, Monoid
from sash.monoids.algebra import agree
from tests.kernels.compile_cases import FLOATS, INTS, K, Weighted, add, in_a_loop, of


def compiled(
    monoid: Monoid, columns: tuple[Any, ...] = (FLOATS,), structure: type[InOrder] = Recalc, width: int = 2
) -> Results:
    results = slide(structure, monoid, columns, width)
    assert results.why_interpreted == ""
    found = results.to_list()
    expected = in_a_loop(monoid, columns, width)
    assert agree(found, expected, 1e-15), f"{found} compiled, {expected} in a loop"
    return results


# ---- functions ----


def scaled(x: float) -> float:
    return x * K


def twice_removed(x: float) -> float:
    return scaled(x) + 1.0


def factorial(x: float) -> float:
    return 1.0 if x <= 1.0 else x * factorial(x - 1.0)


def with_inner(x: float) -> float:
    def inner(y: float) -> float:
        return y * K + x

    return inner(2.0) + (lambda z: z - x)(1.0)


def caught(x: float) -> float:
    try:
        return 1.0 / (x - 1.0)
    except Exception:
        return -1.0


def capturing() -> Callable[..., Any]:
    k = 5.0

    def helper(x: float) -> float:
        return x * k if x < 3.0 else helper(x - 1.0)

    return lambda x: helper(x) + k


helpers = types.ModuleType("helpers")
helpers.K = 7.0
helpers.scaled = scaled
helpers.inner = types.ModuleType("helpers.inner")
helpers.inner.odd = factorial


class Mode(enum.Enum):
    LOW = 1
    HIGH = 2


WEIGHTS = np.array([0.5, 0.25])


@njit(error_model="numpy")
def inverted(x: float) -> float:
    return 1.0 / (x - 1.0)


@njit("float64(float64)")
def of_one_type(x: float) -> float:
    return x / 2


@njit
def added(a: float, b: float) -> float:
    return a + b


@register_jitable
def jitable(x: float) -> float:
    return x + 1.0


def overloaded(x: float) -> float:
    return len([x]) * x


@overload(overloaded)
def _overloaded(x):
    return (lambda x: x) if isinstance(x, Float) else None


@pytest.mark.parametrize(
    "lift",
    [
        twice_removed,
        factorial,
        with_inner,
        caught,
        capturing(),
        lambda x: scaled(x) + factorial(x) + with_inner(x),
        lambda x: helpers.K + helpers.scaled(x) + helpers.inner.odd(x),
        lambda x: math.log(x) + np.sqrt(x) + abs(x) + max(x, 2.0),
        lambda x, w=4.0: x * w,
        lambda x: WEIGHTS[1] * x + Mode.HIGH.value,
        lambda x: inverted(x) + of_one_type(x) + jitable(x) + overloaded(x),
        lambda x: sum([x * y for y in (1, 2)]),
    ],
)
def test_helpers(lift: Callable[..., Any]) -> None:
    compiled(of(lift))


@pytest.mark.parametrize(
    "monoid",
    [
        sash.monoid(identity=-math.inf, combine=max, lower=float),
        sash.monoid(identity=0.0, lift=math.sqrt, combine=operator.add, lower=np.sqrt),
        sash.monoid(identity=0.0, lift=inverted, combine=added, lower=of_one_type),
        sash.monoid(identity=-math.inf, lift=abs, combine=Max(-math.inf).combine),
    ],
    ids=["builtins", "of modules", "compiled already", "of another monoid"],
)
def test_functions_that_are_not_plain(monoid: Monoid) -> None:
    compiled(monoid)


def test_the_options_of_a_compiled_function_hold() -> None:
    """1 / 0 is infinite as its author said, not an error."""
    assert compiled(of(inverted), width=1).to_list()[0] == math.inf


def test_several_inputs() -> None:
    compiled(of(lambda *row: row[0] * row[1]), (FLOATS, INTS))
    compiled(of(lambda x, *rest: x * rest[0] + rest[1]), (FLOATS, INTS, FLOATS > 1))


# ---- classes ----


def test_a_class_with_parameters() -> None:
    largest = Max(-math.inf)
    assert compiled(Weighted(2, 0.25, True, (1, (2.5, False)), largest)).to_list()[0] is None
    compiled(Weighted(3, 0.25, False, (1, (3.5, False)), largest))


def test_a_class_below_a_class_of_ours() -> None:
    class Longest(Max):
        def lift(self, x: Any) -> Any:
            return abs(x - 2.0)

    compiled(Longest())


def test_numpy_scalars_as_parameters() -> None:
    monoid = Weighted(np.int64(2), np.float32(0.25), np.bool_(True), (1, (np.float64(2.5), False)), Max(-math.inf))
    compiled(monoid)


# ---- states and results ----


def running(a: Any, b: Any) -> Any:
    return (a[0] + b[0], (max(a[1][0], b[1][0]), a[1][1] or b[1][1]))


@pytest.mark.parametrize("structure", [DABA, TwoStacksLite])
def test_nested_tuples(structure: type[InOrder]) -> None:
    monoid = sash.monoid(
        identity=(0, (-math.inf, False)),
        lift=lambda x: (1, (x, x > 3.0)),
        combine=running,
        lower=lambda a: ((a[1][1], a[0]), a[1][0]),
    )
    results = compiled(monoid, structure=structure)
    assert results.to_list()[1] == ((True, 2), 4.0)
    assert [array.dtype for array in results.out] == [np.bool_, np.int64, np.float64]


def test_columns_of_bools() -> None:
    either = sash.monoid(identity=False, combine=lambda a, b: a or b)
    assert compiled(either, (FLOATS > 3.0,), DABA).to_list() == [False, True, True, False]


def test_ints_and_floats_meet_in_a_float() -> None:
    results = compiled(sash.monoid(identity=0, lift=lambda x: x / 2 if x > 1 else 0, combine=add), structure=DABA)
    assert list(map(type, results.to_list())) == [float] * 4


def test_null_results() -> None:
    results = compiled(of(lambda x: x, lambda a: None if a < 3.0 else a))
    assert results.to_list() == [None, 5.0, 6.0, None]
    assert results.valid.tolist() == [False, True, True, False]
