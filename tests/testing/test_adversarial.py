"""The adversarial streams match their names; exact windows equal plain folds."""

import math
import statistics
from fractions import Fraction

import pytest

from sash.testing import ADVERSARIAL, exact_windows, worst_error

LENGTH = 700
WIDTH = 60


def windows(length: int, width: int) -> list[tuple[int, int]]:
    return [(max(0, end - width), end) for end in range(1, length + 1)]


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("length", [0, 1, 20, 301])
def test_as_long_as_asked_and_the_same_each_time(name: str, length: int) -> None:
    values = ADVERSARIAL[name](length)
    assert len(values) == length
    assert repr(values) == repr(ADVERSARIAL[name](length))


@pytest.mark.parametrize("name", ["spikes of 1e16", "spikes of 1e22"])
def test_spikes_meet_in_a_window_and_leave(name: str) -> None:
    values = ADVERSARIAL[name](LENGTH)
    spikes = [[x for x in values[start:end] if abs(x) > 1e10] for start, end in windows(LENGTH, WIDTH)]
    assert {sum(window) for window in spikes if len(window) == 2} == {0.0}
    assert {len(window) for window in spikes} == {0, 1, 2}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_windows_are_comparable(name: str) -> None:
    values = ADVERSARIAL[name](LENGTH)
    for function in ("sum", "mean", "var"):
        exact = exact_windows(function, values, windows(LENGTH, WIDTH))
        assert sum(result is not None for result in exact) > LENGTH / 2
        assert exact[-1] is None or exact[-1] != 0


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_exact_windows_are_exact(name: str) -> None:
    values = ADVERSARIAL[name](200)
    found = {function: exact_windows(function, values, windows(200, 30)) for function in ("sum", "mean", "var")}
    for row, (start, end) in enumerate(windows(200, 30)):
        window = values[start:end]
        if not all(map(math.isfinite, window)):
            assert [results[row] for results in found.values()] == [None] * 3
            continue
        exact = [Fraction(x) for x in window]
        assert found["sum"][row] == sum(exact)
        assert found["mean"][row] == statistics.mean(exact)
        if row and found["var"][row] is not None:
            assert found["var"][row] == statistics.variance(exact)


def test_nothing_to_compare_with() -> None:
    assert exact_windows("sum", [1.0, math.nan, 2.0], [(0, 1), (0, 2), (3, 3)]) == [1, None, None]
    assert exact_windows("var", [1.0, 3.0, 1e300], [(0, 1), (0, 2), (0, 3)]) == [None, 2, None]
    with pytest.raises(ValueError, match="sum, mean and var; got 'max'"):
        exact_windows("max", [1.0], [(0, 1)])


def test_the_worst_error_counts() -> None:
    assert worst_error([1.0, 3.0, 9.0], [Fraction(1), Fraction(2), None]) == 0.5
    assert worst_error([0.0, 1e-300], [Fraction(0), Fraction(0)]) == math.inf
    assert worst_error([math.inf], [Fraction(1)]) == math.inf
    assert worst_error([1e300], [Fraction(1, 10**300)]) == math.inf
