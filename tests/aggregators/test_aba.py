"""ABA: reversal in place, stored answers, contents and costs."""

from typing import Any

import pytest

from sash.aggregators import ABA
from sash.aggregators.in_order import INSERT
from sash.aggregators.storage import Queue
from sash.monoids.collect import Collect
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.shared.workloads import WORKLOADS


def apply(window: Any, operations: list[int]) -> None:
    for step, operation in enumerate(operations):
        if operation == INSERT:
            window.insert(step)
        else:
            window.evict()


def slid(monoid: Any, width: int, steps: int) -> ABA:
    window = ABA(monoid)
    for i in range(steps):
        if len(window) == width:
            window.evict()
        window.insert(i)
    return window


# ---- in place ----


def test_a_turn_writes_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    window = slid(Collect(), 10, 10)
    written: list[tuple[Queue, int]] = []
    write = Queue.__setitem__

    def watched(queue: Queue, position: int, value: Any) -> None:
        written.append((queue, position))
        write(queue, position, value)

    monkeypatch.setattr(Queue, "__setitem__", watched)
    window.evict()
    assert all(queue is window.aggs for queue, _ in written)
    assert [position for _, position in written] == list(range(9, -1, -1))
    assert list(window) == [(i,) for i in range(1, 10)]


def test_it_turns_once_a_window() -> None:
    window = slid(Sum(), 50, 50)
    turns = 0
    for i in range(1000):
        before = window.B
        window.evict()
        window.insert(i)
        turns += before != window.B
    assert turns == 1000 // 50


def test_the_aggregates_of_either_part() -> None:
    window = slid(Collect(), 4, 6)
    assert (window.F, window.B, window.E) == (2, 4, 6)
    front = [window.aggs[i] for i in range(2, 4)]
    back = [window.aggs[i] for i in range(4, 6)]
    assert (front, back) == ([(2, 3), (3,)], [(4,), (4, 5)])


# ---- what it costs ----


@pytest.mark.parametrize("width", [1, 2, 7, 64, 500])
def test_three_combines_a_round(width: int) -> None:
    """One ⊕ per insert, one per query, and one per element in a reversal."""
    counted = OpCounter(Sum())
    window = ABA(counted)
    for i in range(width):
        window.insert(i)
    counted.taken()
    rounds = 10 * width
    for i in range(rounds):
        window.evict()
        window.insert(i)
        window.query()
    assert counted.taken() == rounds * 3 - 10  # a turn of n elements takes n - 1


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_evict_that_turns_takes_one_less_than_it_turns(size: int) -> None:
    counted = OpCounter(Sum())
    window = ABA(counted)
    for i in range(size):
        window.insert(i)
    counted.taken()
    window.evict()
    assert counted.taken() == size - 1
    while len(window):
        window.evict()
    assert counted.taken() == 0


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_repeated_query_costs_nothing(workload: str) -> None:
    counted = OpCounter(Collect())
    window = ABA(counted)
    for step, operation in enumerate(WORKLOADS[workload](300)):
        apply(window, [operation])
        assert not window.valid, step
        first = window.query()
        assert counted.taken() <= 1 + max(len(window) + 1, 1)
        assert window.query() == first
        assert counted.taken() == 0
