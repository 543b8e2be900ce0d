"""Columns with times: windows of time, steady windows, replays; what is refused, and what runs interpreted."""

import datetime as dt
import warnings
from typing import Any

import numpy as np
import pytest

from sash.aggregators import FiBA
from sash.kernels import InterpretedWarning, replay_timed, slide_timed, steady_timed
from sash.kernels.loops.bound_kernel import specify
from sash.kernels.loops.runner import with_arity
from sash.kernels.loops.timed_loops import BETWEEN, INSERT, REMOVE, THROUGH
from sash.monoids import Concat, Max
from tests.shared.workloads import ARRIVALS

LENGTH = 400
CHANCE = np.random.default_rng(5)
VALUES = CHANCE.integers(0, 1000, LENGTH).astype(np.float64)


def by_definition(times: Any, values: Any, size: Any) -> list[Any]:
    """At each row the maximum of the rows so far that lie less than `size` before the latest."""
    results = []
    for i in range(len(times)):
        latest = max(times[: i + 1])
        results.append(max(v for t, v in zip(times[: i + 1], values, strict=False) if t > latest - size))
    return results


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_a_window_of_time(arrival: str) -> None:
    times = np.array(ARRIVALS[arrival](LENGTH))
    for size in (1, 7, 50, 10**6):
        found = slide_timed(FiBA, Max(), times, (VALUES,), size)
        assert found.why_interpreted == ""
        assert found.to_list() == by_definition(times.tolist(), VALUES.tolist(), size)
        found.structure.check_invariants()


def test_an_interpreted_window_of_time() -> None:
    """Times of any kind; the aggregate, too, may be any."""
    start = dt.datetime(2024, 5, 1, 12)
    times = [start + dt.timedelta(minutes=m) for m in (0, 5, 3, 30, 29)]
    with pytest.warns(InterpretedWarning, match="the input is a list of Python objects"):
        found = slide_timed(FiBA, Concat(), times, (list("abcde"),), dt.timedelta(minutes=10))
    assert found.to_list() == ["a", "ab", "acb", "d", "ed"]


@pytest.mark.parametrize("unit", ["m", "s", "us", "ns"])
def test_datetimes_of_numpy_are_integers(unit: str) -> None:
    start = dt.datetime(2024, 5, 1, 12)
    times = [start + dt.timedelta(minutes=m) for m in (0, 5, 3, 30, 29)]
    for size in (np.timedelta64(10, "m"), np.timedelta64(601, "s"), dt.timedelta(minutes=10)):
        found = slide_timed(FiBA, Max(), np.array(times, f"M8[{unit}]"), (VALUES[:5],), size)
        assert found.why_interpreted == ""
        length = dt.timedelta(seconds=601 if size == np.timedelta64(601, "s") else 600)
        assert found.to_list() == by_definition(times, VALUES[:5].tolist(), length)
    with pytest.raises(ValueError, match="NaT"):
        slide_timed(FiBA, Max(), np.array([times[0], "NaT"], f"M8[{unit}]"), (VALUES[:2],), np.timedelta64(1, "m"))


def test_the_ends_of_64_bits() -> None:
    least, most = -(2**63), 2**63 - 1
    times = np.array([least, least + 5, most, most - 3, 7])
    assert slide_timed(FiBA, Max(), times, (np.arange(5.0),), 4).to_list() == [0.0, 1.0, 2.0, 3.0, 3.0]
    for times_of_one_sign in (times[:2], times[2:]):
        found = slide_timed(FiBA, Max(), times_of_one_sign, (np.arange(float(len(times_of_one_sign))),), 2**70)
        assert found.to_list() == list(range(len(times_of_one_sign)))
    with pytest.raises(ValueError, match=r"shorter than 2\*\*63"):
        slide_timed(FiBA, Max(), times, (np.arange(5.0),), 2**70)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("arrival", ARRIVALS)
def test_kernels_keep_to_their_memory(arrival: str) -> None:
    """Memory is for exactly the largest window: freed nodes must be reused."""
    times = np.array(ARRIVALS[arrival](LENGTH))
    for size in (1, 40, LENGTH):
        slide_timed(FiBA, Max(), times, (VALUES,), size)
    if arrival != "equal":
        for width in (1, 2, 3, 30, LENGTH - 1):
            steady_timed(FiBA, Max(), times, (VALUES,), width).structure.check_invariants()


def test_a_steady_window() -> None:
    times = np.array(ARRIVALS["late"](LENGTH))
    found = steady_timed(FiBA, Max(), times, (VALUES,), 50)
    window, expected = FiBA(Max()), []
    for i, time in enumerate(times.tolist()):
        if i >= 50:
            window.evict()
        window.insert(time, VALUES[i])
        if i >= 50:
            expected.append(window.query())
    assert found.to_list() == expected
    assert list(found.structure) == list(window)


def test_the_structure_that_a_kernel_left_continues() -> None:
    """The structure of a kernel continues in the memory of that kernel."""
    found = slide_timed(FiBA, Max(), np.arange(LENGTH), (VALUES,), 100)
    window = found.structure
    window.evict_through(LENGTH - 50)
    for _ in range(10):
        window.evict()
    window.insert(LENGTH - 1, 5000.0)
    window.check_invariants()
    assert (len(window), window.query()) == (39, 5000.0)


def test_min_arity_is_a_constant_of_the_machine_code() -> None:
    assert with_arity(FiBA, None) is with_arity(FiBA, 4) is FiBA
    assert with_arity(FiBA, 8) is with_arity(FiBA, 8)
    assert with_arity(FiBA, 8)(Max()).min_arity == 8
    specs = {specify(with_arity(FiBA, n), Max(), ("float",)).compiled_as for n in (2, 3, 4, 8)}
    specs |= {specify(FiBA, Max(), ("float",), "float").compiled_as}
    assert len(specs) == 5
    with pytest.raises(ValueError, match="min_arity must be at least 2"):
        slide_timed(FiBA, Max(), np.arange(3), (VALUES[:3],), 2, min_arity=1)


def test_what_is_refused() -> None:
    floats = np.array([1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match=r"a time must be an ordered value; got .*nan.*"):
        slide_timed(FiBA, Max(), floats, (VALUES[:3],), 2.0)
    with pytest.raises(ValueError, match="a time must be an ordered value; got None"):
        slide_timed(FiBA, Max(), [1, None, 2], (VALUES[:3],), 2)
    with pytest.raises(ValueError, match="a time window must have a length above 0; got 0"):
        slide_timed(FiBA, Max(), np.arange(3), (VALUES[:3],), 0)
    with pytest.raises(ValueError, match="differ in length"):
        slide_timed(FiBA, Max(), np.arange(4), (VALUES[:3],), 2)
    with pytest.raises(ValueError, match="needs distinct times"):
        steady_timed(FiBA, Max(), np.zeros(3), (VALUES[:3],), 2)
    with pytest.raises(ValueError, match="needs 1 to 2 rows here; got a width of 3"):
        steady_timed(FiBA, Max(), np.arange(3), (VALUES[:3],), 3)
    with pytest.raises(IndexError, match="insert 2 rows; there are 1"):
        replay_timed(FiBA, Max(), (VALUES[:1],), np.array([INSERT, INSERT]), np.arange(2), np.arange(2))
    with pytest.raises(TypeError, match="times and until must have the same type"):
        replay_timed(FiBA, Max(), (VALUES[:1],), np.array([INSERT]), np.arange(1), np.arange(1.0))


def test_an_interpreted_replay() -> None:
    operations = np.array([INSERT, INSERT, INSERT, BETWEEN, REMOVE, THROUGH, THROUGH])
    times, until = list("cabbadz"), list("cabcadz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpretedWarning)
        found = replay_timed(FiBA, Concat(), (["1", "2", "3"],), operations, times, until)
    assert found.to_list() == ["1", "21", "231", "31", "31", None, None]


def test_no_rows() -> None:
    assert slide_timed(FiBA, Max(), np.arange(0), (VALUES[:0],), 5).to_list() == []
