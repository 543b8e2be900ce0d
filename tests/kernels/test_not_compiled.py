"""Aggregates that do not compile run interpreted, with one warning that gives the reason."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from numba.core.errors import TypingError

import sash
from sash.aggregators import DABA, Recalc, SubtractOnEvict, TwoStacksLite
from sash.aggregators.in_order import InOrder
from sash.kernels import InterpretedWarning, slide
from sash.kernels.jit.compile import explain
from sash.monoids import Max, Monoid
from tests.kernels.compile_cases import FLOATS, INTS, Weighted, add, in_a_loop, of


def refused(monoid: Monoid, why: str, columns: tuple[Any, ...] = (FLOATS,), structure: type[InOrder] = Recalc) -> None:
    """The aggregate runs interpreted, with correct results and one warning of one line."""
    with pytest.warns(InterpretedWarning) as warned:
        results = slide(structure, monoid, columns, 2)
    (warning,) = warned
    assert str(warning.message) == f"{monoid!r} runs interpreted: {results.why_interpreted}"
    assert why in results.why_interpreted
    assert "\n" not in results.why_interpreted
    assert len(results.why_interpreted) < 250
    assert warning.filename == __file__
    assert results.to_list() == in_a_loop(monoid, columns, 2)


# ---- functions that call each other ----


def even(x: float) -> bool:
    return True if x < 1.0 else odd(x - 1.0)


def odd(x: float) -> bool:
    return False if x < 1.0 else even(x - 1.0)


def test_functions_that_call_each_other_in_a_circle_do_not_compile() -> None:
    """Numba compiles them, and crashes when such code comes back from the disk."""
    refused(of(lambda x: 1.0 if even(x) else 0.5), "functions that call each other in a circle, through even")


# ---- what a column cannot hold ----


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


# ---- what Numba does not compile ----


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


def test_a_refusal_is_reported_once_and_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monoid = of(formats, name="warned once")
    refused(monoid, "mod")

    def never(*_arguments: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("sash.kernels.jit.compile._compile", never)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = slide(Recalc, of(formats, name="warned once"), (FLOATS,), 2)
    assert "mod" in again.why_interpreted


def test_what_numba_did_not_foresee_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> Any:
        raise AssertionError("a bug\nin many lines")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.compile", broken)
    refused(of(lambda x: x - 17.0, name="unforeseen"), "Numba failed with AssertionError: a bug")


def test_numbas_own_warnings_do_not_reach_the_user() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        slide(Recalc, of(lambda x: formats(x) + 1, name="quiet"), (FLOATS,), 2)
    assert [warning.category for warning in warned] == [InterpretedWarning]


def test_a_reason_has_no_colours() -> None:
    """Numba colours its reports where colorama is installed."""
    bold, red, plain = "\x1b[1m", "\x1b[31m", "\x1b[0m"
    report = (
        f"{bold}Failed in nopython mode\n{bold}- Resolution failure for literal arguments:{plain}\n{red}no eval{plain}"
    )
    assert explain(TypingError(report)) == "no eval"
