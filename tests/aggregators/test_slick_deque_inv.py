"""SlickDequeInv: the paper's example 2, its costs, ranges that were not registered."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.aggregators import SlickDequeInv, SubtractOnEvict
from sash.aggregators.in_order import INSERT
from sash.monoids.collect import Collect
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.shared.workloads import WORKLOADS

NUMBERS = sash.monoid(identity=0, combine=lambda a, b: a + b, inverse=lambda t, a: t - a, exact=True, name="numbers")
"""Sums whose states are the numbers of the paper's figures."""

STREAM = (6, 5, 0, 1, 3, 4, 2, 7)


def slide(window: Any, value: Any, width: int) -> None:
    if len(window) == width:
        window.evict()
    window.insert(value)


def window_of(values: Any, ranges: tuple[int, ...] = (), monoid: Any = NUMBERS) -> SlickDequeInv:
    window = SlickDequeInv(monoid, ranges)
    for value in values:
        window.insert(value)
    return window


# ---- example 2: sums over ranges of 3 and 5 ----
#
# The figure's array has five slots and wraps; here the window is what is in it, oldest first.

FIGURE_8 = [
    ([6], (6, 6)),
    ([6, 5], (11, 11)),
    ([6, 5, 0], (11, 11)),
    ([6, 5, 0, 1], (6, 12)),
    ([6, 5, 0, 1, 3], (4, 15)),
    ([5, 0, 1, 3, 4], (8, 13)),
    ([0, 1, 3, 4, 2], (9, 10)),
    ([1, 3, 4, 2, 7], (13, 17)),
]


def test_example_2_step_by_step() -> None:
    window = SlickDequeInv(NUMBERS, ranges=(3, 5))
    for value, (partials, answers) in zip(STREAM, FIGURE_8, strict=True):
        slide(window, value, 5)
        assert list(window) == partials
        assert window.query_ranges() == answers
        assert [window.answers[k] for k in range(2)] == [answers[1], answers[0]], "longest first"
        assert window.query() == answers[1], "the longer range is the whole window"
        window.check_invariants()


def test_example_2_takes_24_operations() -> None:
    """The paper counts 32: while a range fills, it takes the identity off it, 3 times and 5 times."""
    counted = OpCounter(NUMBERS)
    window = SlickDequeInv(counted, ranges=(3, 5))
    of_the_identity = 0
    for step, value in enumerate(STREAM):
        slide(window, value, 5)
        of_the_identity += sum(step < n for n in window.ranges)
        window.query_ranges()
        window.query()
    assert (counted.taken(), of_the_identity) == (24, 8)
    assert 24 + of_the_identity == 32


# ---- costs ----


@pytest.mark.parametrize("ranges", [(1,), (4,), (9,), (1, 2, 3, 9), (9, 2, 5, 2)])
def test_two_operations_a_range_and_slide(ranges: tuple[int, ...]) -> None:
    counted = OpCounter(Sum())
    window = SlickDequeInv(counted, ranges)
    for value in range(100):
        slide(window, value, max(ranges))
        assert counted.taken() <= 2 * len(set(ranges))
        window.query_ranges()
        window.query()
        assert counted.taken() == 0
    slide(window, 0, max(ranges))
    assert counted.taken() == 2 * len(set(ranges)), "all ranges are filled"


def test_a_window_longer_than_all_ranges_is_one_range_more() -> None:
    counted = OpCounter(Sum())
    window = SlickDequeInv(counted, (2, 5))
    for value in range(50):
        slide(window, value, 8)
        assert counted.taken() <= 2 * 3
        window.query_ranges()
        window.query()
        assert counted.taken() == 0


@pytest.mark.parametrize("workload", WORKLOADS)
def test_without_ranges_it_is_subtract_on_evict(workload: str) -> None:
    costs = []
    for structure in (SubtractOnEvict, SlickDequeInv):
        counted = OpCounter(Sum())
        window = structure(counted)
        seen = []
        for step, operation in enumerate(WORKLOADS[workload](300)):
            window.insert(step) if operation == INSERT else window.evict()
            seen.append((window.query(), counted.taken()))
        costs.append(seen)
    assert costs[0] == costs[1]


# ---- ranges that were not registered ----


@pytest.mark.parametrize("ranges", [(), (5,), (1, 8), (3, 12, 20)])
def test_query_last_of_any_length(ranges: tuple[int, ...]) -> None:
    window = window_of(range(12), ranges, Collect())
    for _ in range(2):
        assert [window.query_last(n) for n in range(1, len(window) + 1)] == [
            list(range(12 - n, 12)) for n in range(1, len(window) + 1)
        ]
        window.evict()
        window.evict()


def test_query_last_starts_from_the_nearest_range() -> None:
    counted = OpCounter(Sum())
    window = window_of(range(20), (5, 12), counted)
    for n, nearest in (
        (5, 5),
        (6, 5),
        (8, 5),
        (9, 12),
        (11, 12),
        (12, 12),
        (13, 12),
        (17, 20),
        (20, 20),
        (2, 0),
        (4, 5),
    ):
        counted.taken()
        assert window.query_last(n) == sum(range(20 - n, 20))
        assert counted.taken() == abs(n - nearest), n


@given(
    values=st.lists(st.integers(-9, 9), max_size=30),
    evicted=st.integers(0, 30),
    ranges=st.lists(st.integers(1, 35), max_size=4),
    late=st.lists(st.integers(1, 35), max_size=4),
)
def test_a_range_registered_late(values: list[int], evicted: int, ranges: list[int], late: list[int]) -> None:
    window = window_of(values, tuple(ranges), Collect())
    for _ in range(min(evicted, len(values))):
        window.evict()
    left = values[evicted:]
    for n in late:
        window.watch(n)
        window.check_invariants()
    window.insert(99)
    window.check_invariants()
    assert window.query_ranges() == tuple([*left, 99][-n:] for n in (*ranges, *late))


# ---- memory ----


def test_the_total_is_let_go_when_a_range_is_the_whole_window() -> None:
    window = window_of(range(9), (8,), Collect())
    assert window.total == tuple(range(9))
    window.evict()
    assert (window.total, window.query()) == ((), list(range(1, 9)))
