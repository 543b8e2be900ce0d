"""ABA: reversal in place, stored answers, contents and costs."""

import re
from typing import Any

import numpy as np
import pytest

from sash.aggregators import ABA, Recalc
from sash.aggregators.in_order import EVICT, INSERT
from sash.aggregators.storage import SIZE, Queue
from sash.kernels import replay
from sash.monoids.collect import Collect
from sash.monoids.extremes import Max
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.aggregators.probes import AFFINE, held
from tests.shared.effort import seldom, share
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


# ---- what it holds ----


@pytest.mark.parametrize("workload", WORKLOADS)
def test_two_slots_an_element(workload: str) -> None:
    window = ABA(Collect())
    for operation in WORKLOADS[workload](1500):
        apply(window, [operation])
        assert (held(window.vals), held(window.aggs)) == (len(window), len(window))


@pytest.mark.parametrize("width", [1, SIZE - 1, SIZE, 300])
def test_memory_does_not_grow_with_the_stream(width: int) -> None:
    """The slots in use lie side by side: they touch one chunk more than they fill, and one chunk may be begun."""
    window = slid(Sum(), width, width)
    most = 0
    for i in range(share(100_000)):
        window.evict()
        window.insert(i)
        most = max(most, window.vals.slots(), window.aggs.slots())
    assert most <= width + 2 * SIZE


# ---- compiled ----


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(
    "monoid", [seldom(Max(), id="max"), seldom(Sum(), id="sum"), pytest.param(AFFINE, id="affine")]
)
def test_compiled_as_recalc(monoid: Any, workload: str) -> None:
    operations = np.array(WORKLOADS[workload](600), np.int8)
    column = np.random.default_rng(1).integers(-1000, 1000, 600)
    results = replay(ABA, monoid, (column,), operations)
    assert results.why_interpreted == ""
    assert results.to_list() == replay(Recalc, monoid, (column,), operations).to_list()
    results.structure.check_invariants()
    inserts, evicts = (int((operations == kind).sum()) for kind in (INSERT, EVICT))
    assert len(results.structure) == inserts - evicts


# ---- its own check ----


def known() -> ABA:
    """A window in which both parts are in use, and a result is stored."""
    window = slid(Collect(), 8, 12)
    assert (window.F, window.B, window.E) == (4, 8, 12)
    window.query()
    window.check_invariants()
    return window


def refused(window: ABA, what: str) -> None:
    with pytest.raises(AssertionError, match=f"^ABA: .*{re.escape(what)}"):
        window.check_invariants()


@pytest.mark.parametrize("position", range(4, 12))
@pytest.mark.parametrize("queue", ["vals", "aggs"])
def test_a_wrong_slot_is_found(queue: str, position: int) -> None:
    window = known()
    getattr(window, queue)[position] = ("wrong",)
    refused(window, "aggs")


@pytest.mark.parametrize(
    ("name", "by"), [("F", 1), ("F", 100), ("B", 1), ("B", -1), ("B", 100), ("B", -100), ("E", -1), ("E", -100)]
)
def test_a_wrong_position_is_found(name: str, by: int) -> None:
    window = known()
    setattr(window, name, getattr(window, name) + by)
    refused(window, "")


def test_a_wrong_answer_is_found() -> None:
    window = known()
    window.both = ("wrong",)
    refused(window, "both is ('wrong',)")


def test_an_answer_out_of_date_is_found() -> None:
    window = known()
    window.insert(99)
    window.check_invariants()
    window.valid = True
    refused(window, "both")
