"""Column kernels against the aggregate itself, recomputed for each window, over Count windows and over ranges."""

import contextlib
import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash import monoids as m
from sash.kernels.column import column_kernels
from sash.kernels.column import column_kernels as shared_work
from sash.kernels.column.column_kernels import CountBounds, RangeBounds, RowThreads, column_kernel_of
from sash.kernels.column.rank_kernels import rank_kernel_of
from sash.plan.planner import COLUMN_KERNELS as KNOWN_TO_PLAN

FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 1e9, 1e9 + 1, 1e16, -1e16, 1e300, -1e300, 1.7e308, math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 7, 2**31, -(2**40), 2**62, -(2**63), 2**63 - 1]

AGGREGATES = [
    *((monoid, "float") for monoid in (m.Max(), m.Min(), m.Sum(), m.Mean(), m.Var(), m.Std(ddof=0))),
    *((monoid, "int") for monoid in (m.Max(), m.Min(), m.Sum(), m.Mean())),
]
PLACED = [(m.ArgMax(), "float"), (m.ArgMin(), "float"), (m.ArgMax(), "int"), (m.ArgMin(), "int")]


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_kernels, "SHARE", 4)


def wanted(monoid: Any, values: list[Any]) -> Any:
    """The result over the values, by the monoid in plain Python: its value, "raises", or None."""
    state = monoid.identity
    for value in values:
        state = monoid.combine(state, monoid.lift(value))
    try:
        return monoid.lower(state) if values else None
    except OverflowError:
        return "raises"


def near(got: float, expected: float, monoid: Any) -> bool:
    if got == expected or (got != got and expected != expected):
        return True
    tolerance = 1e-9 if isinstance(monoid, m.Var) else 1e-12
    return abs(got - expected) <= tolerance * abs(expected)


def check_results(monoid: Any, x: Any, ranges: Iterable[tuple[int, int]], found: tuple[Any, Any], least: int) -> None:
    """Every result that is not uncertain is right, and none is uncertain that need not be."""
    got, uncertain = found
    for i, (lo, hi) in enumerate(ranges):
        values = x[lo:hi].tolist()
        if hi - lo < least:
            continue
        expected = wanted(monoid, values)
        if uncertain[i]:
            assert not all(abs(value) < 1e6 for value in values) or isinstance(monoid, m.Var), (values, got[i])
        else:
            assert near(got[i], expected, monoid), f"{monoid!r} of {values}: {got[i]!r} is not {expected!r}"


def ranges_of(steps: list[tuple[int, int]], rows: int) -> tuple[list[int], list[int]]:
    los, his, lo, hi = [], [], 0, 0
    for grow, shrink in steps:
        hi = min(hi + grow, rows)
        lo = min(lo + shrink, hi)
        los.append(lo)
        his.append(hi)
    return los, his


columns = {
    "float": st.lists(st.sampled_from(FLOATS) | st.floats(-1e3, 1e3), max_size=40),
    "int": st.lists(st.sampled_from(INTS) | st.integers(-9, 9), max_size=40),
}
DTYPES = {"float": np.float64, "int": np.int64}
threads = st.integers(1, 3)


@pytest.mark.parametrize(("monoid", "kind"), AGGREGATES, ids=lambda part: getattr(part, "name", None) or str(part))
def test_count_windows(monoid: Any, kind: str) -> None:
    found = column_kernel_of(monoid, (kind,))  # type: ignore[arg-type]
    assert found is not None

    @given(columns[kind], st.integers(1, 12), st.lists(st.integers(0, 40), max_size=3), threads)
    def agrees(drawn: list[Any], size: int, cuts: list[int], threads: int) -> None:
        x = np.array(drawn, DTYPES[kind])
        edges = np.array([0, *sorted(min(cut, len(x)) for cut in cuts), len(x)])
        longest = int(min(size, np.diff(edges).max(initial=0)))
        got, uncertain = RowThreads(threads).aggregate(found, x, CountBounds(size, edges, longest), len(x))
        begins = [int(edges[edges <= i].max()) for i in range(len(x))]
        los = [max(begin, i + 1 - size) for i, begin in enumerate(begins)]
        check_results(monoid, x, zip(los, range(1, len(x) + 1), strict=True), (got, uncertain), found.least)

    agrees()


@pytest.mark.parametrize(("monoid", "kind"), AGGREGATES, ids=lambda part: getattr(part, "name", None) or str(part))
def test_ranges(monoid: Any, kind: str) -> None:
    found = column_kernel_of(monoid, (kind,))  # type: ignore[arg-type]
    assert found is not None

    @given(columns[kind], st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40), threads)
    def agrees(drawn: list[Any], steps: list[tuple[int, int]], threads: int) -> None:
        x = np.array(drawn, DTYPES[kind])
        los, his = ranges_of(steps, len(x))
        lengths = [hi - lo for lo, hi in zip(los, his, strict=True)]
        ranges = RangeBounds(
            np.array(los, np.int32), np.array(his, np.int32), min(lengths, default=0), max(lengths, default=0)
        )
        got, uncertain = RowThreads(threads).aggregate(found, x, ranges, len(los))
        check_results(monoid, x, zip(los, his, strict=True), (got, uncertain), found.least)

    agrees()


@pytest.mark.parametrize(("monoid", "kind"), PLACED, ids=lambda part: getattr(part, "name", None) or str(part))
def test_places(monoid: Any, kind: str) -> None:
    found = column_kernel_of(monoid, (kind, "int"))  # type: ignore[arg-type]
    assert found is not None

    @given(columns[kind], st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40), threads)
    def agrees(drawn: list[Any], steps: list[tuple[int, int]], threads: int) -> None:
        x = np.array(drawn, DTYPES[kind])
        los, his = ranges_of(steps, len(x))
        lengths = [hi - lo for lo, hi in zip(los, his, strict=True)]
        ranges = RangeBounds(np.array(los), np.array(his), min(lengths, default=0), max(lengths, default=0))
        got, _ = RowThreads(threads).aggregate(found, x, ranges, len(los))
        for i, (lo, hi) in enumerate(zip(los, his, strict=True)):
            state = monoid.identity
            for row in range(lo, hi):
                state = monoid.combine(state, monoid.lift(x[row], row))
            assert lo == hi or got[i] == monoid.lower(state), (x[lo:hi], got[i])

    agrees()


@pytest.mark.parametrize("rooted", [False, True])
def test_variance_keeps_its_digits_or_is_uncertain(rooted: bool) -> None:
    """A spike at the boundary, an offset of 1e9, a window of equals next to an outlier."""
    rng = np.random.default_rng(7)
    monoid = m.Std() if rooted else m.Var()
    found = column_kernel_of(monoid, ("float",))
    assert found is not None
    for x in (1e9 + rng.normal(size=300), np.where(np.arange(300) % 50 == 7, 1e16, 1.0), np.full(300, 0.1)):
        got, uncertain = RowThreads(1).aggregate(found, x, CountBounds(32, np.array([0, 300]), 32), 300)
        check_results(monoid, x, [(max(0, i - 31), i + 1) for i in range(300)], (got, uncertain), 2)
        assert uncertain.sum() < 300


def test_the_planner_knows_which_aggregates_have_one() -> None:
    of_their_own = (m.Monoid, m.Count, m.DirectProduct, m.Lag, m.Delta, m.PctChange, m.WeightedMean)
    for name in m.__all__:
        cls = getattr(m, name)
        if isinstance(cls, type) and issubclass(cls, m.Monoid) and cls not in of_their_own:
            with contextlib.suppress(TypeError):  # those that need arguments have none
                found = column_kernel_of(cls(), ("float", "int")) or rank_kernel_of(cls())
                assert (found is not None) == (cls in KNOWN_TO_PLAN), cls


def never(*_: Any) -> None:
    """A thread that dies before it runs: that happens where memory is scarce."""


def refused(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("started", [0, 1])
@pytest.mark.parametrize("failing", [never, refused])
def test_a_thread_that_does_not_start_changes_nothing(
    started: int, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others compute the rows."""
    start, left = shared_work._thread.start_new_thread, [started]

    def start_some(*arguments: Any) -> Any:
        left[0] -= 1
        return (start if left[0] >= 0 else failing)(*arguments)

    x = np.arange(40.0) % 7
    given = CountBounds(5, np.array([0, 40]), 5)
    found = column_kernel_of(m.Max(), ("float",))
    assert found is not None
    expected, _ = RowThreads(1).aggregate(found, x, given, 40)
    monkeypatch.setattr(shared_work._thread, "start_new_thread", start_some)
    got, _ = RowThreads(4).aggregate(found, x, given, 40)
    assert got.tolist() == expected.tolist()


def test_what_a_task_raises_in_any_thread_is_raised() -> None:
    barrier = threading.Barrier(3)

    def task(first: int, _stop: int) -> int:
        barrier.wait(10)  # each range in a thread of its own
        if first == 2:
            raise ArithmeticError("in the last range")
        return first

    with pytest.raises(ArithmeticError, match="last range"):
        shared_work.SharedWork(task, [(0, 1), (1, 2), (2, 3)]).run(3)
    assert shared_work.SharedWork(lambda first, _: first, [(i, i + 1) for i in range(9)]).run(3) == [*range(9)]
