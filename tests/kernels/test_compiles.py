"""What users write, and that it compiles: helpers in every place, parameters, states; and what is refused, and how.

Each case runs compiled and, by Recalc in a loop, interpreted; both must agree.
"""

import enum
import math
import operator
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from numba.core.types import Float
from numba.extending import overload, register_jitable

import sash
from sash.aggregators import DABA, Recalc, SubtractOnEvict, TwoStacksLite
from sash.aggregators.in_order import InOrder
from sash.kernels import InterpretedWarning, Results, slide
from sash.kernels.jit.compile import explain
from sash.monoids import Max, Monoid
from sash.monoids.algebra import agree

FLOATS = np.array([1.0, 4.0, 2.0, 0.5])
INTS = np.array([1, 4, 2, 7])
K = 3.0


def in_a_loop(monoid: Monoid, columns: tuple[Any, ...], width: int) -> list[Any]:
    window = Recalc(monoid)
    results = []
    for row in zip(*(column.tolist() for column in columns), strict=True):
        if len(window) == width:
            window.evict()
        window.insert(*row)
        results.append(window.query())
    return results


def compiled(
    monoid: Monoid, columns: tuple[Any, ...] = (FLOATS,), structure: type[InOrder] = Recalc, width: int = 2
) -> Results:
    results = slide(structure, monoid, columns, width)
    assert results.why_interpreted == ""
    found = results.to_list()
    expected = in_a_loop(monoid, columns, width)
    assert agree(found, expected, 1e-15), f"{found} compiled, {expected} in a loop"
    return results


def refused(monoid: Monoid, why: str, columns: tuple[Any, ...] = (FLOATS,), structure: type[InOrder] = Recalc) -> None:
    """It runs interpreted, rightly, with one warning of one line."""
    with pytest.warns(InterpretedWarning) as told:
        results = slide(structure, monoid, columns, 2)
    (warning,) = told
    assert str(warning.message) == f"{monoid!r} runs interpreted: {results.why_interpreted}"
    assert why in results.why_interpreted
    assert "\n" not in results.why_interpreted
    assert len(results.why_interpreted) < 250
    assert warning.filename == __file__
    assert results.to_list() == in_a_loop(monoid, columns, 2)


def add(a: Any, b: Any) -> Any:
    return a + b


def of(lift: Callable[..., Any], lower: Callable[[Any], Any] = lambda a: a, name: str | None = None) -> Monoid:
    return sash.monoid(identity=0.0, lift=lift, combine=add, lower=lower, name=name)


# ---- functions ----


def scaled(x: float) -> float:
    return x * K


def twice_removed(x: float) -> float:
    return scaled(x) + 1.0


def factorial(x: float) -> float:
    return 1.0 if x <= 1.0 else x * factorial(x - 1.0)


def even(x: float) -> bool:
    return True if x < 1.0 else odd(x - 1.0)


def odd(x: float) -> bool:
    return False if x < 1.0 else even(x - 1.0)


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


def test_functions_that_call_each_other_in_a_circle_do_not_compile() -> None:
    """Numba compiles them, and crashes when such code comes back from the disk."""
    refused(of(lambda x: 1.0 if even(x) else 0.5), "functions that call each other in a circle, through even")


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


class Weighted(Monoid):
    """A user's monoid with parameters of every kind."""

    SHIFT = 0.5
    identity: Any = (0, 0.0)

    def __init__(self, k: int, f: float, on: bool, pair: Any, part: Monoid) -> None:
        self.k, self.f, self.on, self.pair, self.part = k, f, on, pair, part

    @property
    def half(self) -> float:
        return self.k / 2

    @staticmethod
    def plus(x: float, y: float) -> float:
        return x + y * K

    def helper(self, x: float, scale: float = 2.0) -> float:
        return x * scale + self.pair[1][0] + self.half + self.SHIFT

    def lift(self, x: Any) -> Any:
        return (self.k, self.plus(self.helper(x), self.f) if self.on else self.helper(x, 3.0))

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], self.part.combine(a[1], b[1]))

    def lower(self, a: Any) -> Any:
        return a[1] / a[0] if a[0] > self.k else None


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


@pytest.mark.parametrize("structure", [DABA, TwoStacksLite, SubtractOnEvict])
def test_a_fraction_is_not_dropped(structure: type[InOrder]) -> None:
    """No sample value shows that it may be a float: the compiler does."""
    monoid = sash.monoid(
        identity=0,
        lift=int,
        combine=lambda a, b: a + b if a + b < 1000 else a + b + 0.5,
        inverse=lambda total, a: total - a,
        name=f"a fraction in {structure.__name__}",
    )
    refused(monoid, "a column of int64 cannot hold float64", structure=structure)


def test_a_fraction_from_an_inverse_is_not_dropped() -> None:
    monoid = sash.monoid(
        identity=0, lift=int, combine=add, inverse=lambda total, a: total - a * 1.0, name="a fraction from inverse"
    )
    refused(monoid, "a column of int64 cannot hold float64", structure=SubtractOnEvict)


@pytest.mark.parametrize(
    ("lift", "lower", "why"),
    [
        (lambda x: x if x < 1000 else x + 0.5, int, "a column of int64 cannot hold float64"),
        (lambda x: x, lambda a: a if a < 1000 else 0.5, "a column of int64 cannot hold float64"),
        (lambda x: x if x < 1000 else None, int, "a column of int64 cannot hold int64 or None"),
        (lambda x: x, lambda a: (a, a if a < 1000 else None), "cannot hold"),
    ],
)
def test_what_a_column_cannot_hold(lift: Callable[..., Any], lower: Callable[..., Any], why: str) -> None:
    monoid = sash.monoid(identity=0, lift=lift, combine=add, lower=lower, name=f"line {lift.__code__.co_firstlineno}")
    refused(monoid, why, (INTS,))


# ---- what does not compile ----


def reads_a_file(x: float) -> float:
    with open(__file__) as file:
        return x + 0 * len(file.readline())


def formats(x: float) -> float:
    return float("%.3f" % x)  # noqa: UP031


class Tabled(Weighted):
    """Reads a parameter that is no constant to the compiler."""

    table = {1: 2.0}  # noqa: RUF012

    def helper(self, x: float, scale: float = 2.0) -> float:
        return scale * x * self.table[1]


class Keyworded(Weighted):
    def lift(self, x: Any) -> Any:
        return (1, self.helper(x, scale=3.0))


@pytest.mark.parametrize(
    ("monoid", "why"),
    [
        (of(reads_a_file, name="with"), "context manager"),
        (of(formats, name="format"), "Numba does not compile mod(Literal[str](%.3f), float64)"),
        (of(lambda x: formats(x), name="helper"), f"({__file__}, line {formats.__code__.co_firstlineno + 1})"),
        (of(lambda _x: eval("_x"), name="eval"), "'eval'"),
        (Tabled(1, 1.0, True, (1, (1.0,)), Max(-math.inf)), "Unknown attribute 'table' of the monoid"),
        (Keyworded(1, 1.0, True, (1, (1.0,)), Max(-math.inf)), "scale"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_does_not_compile_runs_interpreted(monoid: Monoid, why: str) -> None:
    refused(monoid, why)


def test_a_refusal_is_told_once_and_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monoid = of(formats, name="told once")
    refused(monoid, "mod")

    def never(*_arguments: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("sash.kernels.jit.compile._compile", never)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = slide(Recalc, of(formats, name="told once"), (FLOATS,), 2)
    assert "mod" in again.why_interpreted


def test_what_numba_did_not_foresee_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> Any:
        raise AssertionError("a bug\nin many lines")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.compile", broken)
    refused(of(lambda x: x - 17.0, name="unforeseen"), "Numba failed with AssertionError: a bug")


def test_numbas_own_warnings_do_not_reach_the_user() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        slide(Recalc, of(lambda x: formats(x) + 1, name="quiet"), (FLOATS,), 2)
    assert [warning.category for warning in told] == [InterpretedWarning]


def test_a_reason_has_no_colours() -> None:
    """Numba colours its reports where colorama is installed."""
    bold, red, plain = "\x1b[1m", "\x1b[31m", "\x1b[0m"
    report = (
        f"{bold}Failed in nopython mode\n{bold}- Resolution failure for literal arguments:{plain}\n{red}no eval{plain}"
    )
    assert explain(TypingError(report)) == "no eval"
