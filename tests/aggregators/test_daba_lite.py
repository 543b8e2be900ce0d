"""DABALite: every slot compared with its definition, results with DABA; contents and costs."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators import DABA, DABALite
from sash.aggregators.base import fold
from sash.aggregators.in_order import INSERT
from sash.monoids.collect import Collect
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.aggregators.probes import AFFINE
from tests.shared.workloads import WORKLOADS

workloads = pytest.mark.parametrize("workload", WORKLOADS)


def pointers(window: DABA | DABALite) -> tuple[int, ...]:
    return window.F, window.L, window.R, window.A, window.B, window.E


def check_results(window: DABALite, lifted: Sequence[Any]) -> None:
    """Each slot and both running aggregates, by definition, from the elements kept apart, oldest first."""
    F, L, R, A, B, E = pointers(window)
    assert len(lifted) == E - F

    def total(start: int, stop: int) -> Any:
        return fold(window.monoid, (lifted[i - F] for i in range(start, stop)))

    for start, stop, end in ((F, L, B), (L, R, R), (A, B, B)):
        for i in range(start, stop):
            assert window.deque[i] == total(i, end), (i, pointers(window))
    for start, stop in ((R, A), (B, E)):
        for i in range(start, stop):
            assert window.deque[i] == lifted[i - F], (i, pointers(window))
    assert window.back == total(B, E)
    if L < R:
        assert window.right == total(R, B)
    assert window.aggregate() == total(F, E)
    window.check_invariants()


def apply(window: Any, elements: deque[Any], operation: int, value: Any) -> None:
    if operation == INSERT:
        window.insert(value)
        elements.append(window.monoid.lift(value))
    else:
        window.evict()
        elements.popleft()


# ---- by definition ----


@workloads
@pytest.mark.parametrize("monoid", [Collect(), AFFINE], ids=["collect", "affine"])
def test_every_slot_after_every_operation(monoid: Any, workload: str) -> None:
    window, elements = DABALite(monoid), deque[Any]()
    check_results(window, elements)
    for step, operation in enumerate(WORKLOADS[workload](200)):
        apply(window, elements, operation, step)
        check_results(window, elements)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=20))
def test_every_slot_in_any_order_of_operations(blocks: list[tuple[bool, int]]) -> None:
    window, elements = DABALite(Collect()), deque[Any]()
    for grows, times in blocks:
        for step in range(times):
            if grows or elements:
                apply(window, elements, int(grows), step)
                check_results(window, elements)


@workloads
def test_compared_with_daba(workload: str) -> None:
    """The same pointers, and each slot what DABA has there as value or as aggregate."""
    lite, daba = DABALite(Collect()), DABA(Collect())
    for step, operation in enumerate(WORKLOADS[workload](500)):
        for window in (lite, daba):
            apply(window, deque([0]), operation, step)
        F, L, R, A, B, E = pointers(lite)
        assert pointers(daba) == (F, L, R, A, B, E)
        for i in (*range(F, R), *range(A, B)):
            assert lite.deque[i] == daba.aggs[i]
        for i in (*range(R, A), *range(B, E)):
            assert lite.deque[i] == daba.vals[i]
        assert (lite.right, lite.back) == (daba.right, daba.sum_back())


def test_a_single_element_is_the_front_and_leaves_nothing_in_the_back() -> None:
    window = DABALite(Collect())
    for _ in range(3):
        window.insert("a")
        assert len({*pointers(window)[1:]}) == 1
        assert (window.deque[window.F], window.back) == (("a",), ())
        window.evict()
        assert len({*pointers(window)}) == 1
        assert (window.back, window.right, window.query()) == ((), (), None)


# ---- what it costs ----


def kind_of_step(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    if len({*after[1:]}) == 1:
        return "restart"
    if before[4] != after[4]:
        return "flip"
    return "free ride" if before[2] != after[2] else "shrink"


@workloads
def test_the_cost_of_each_kind_of_step(workload: str) -> None:
    """In addition to the one ⊕ of an insert; a flip leaves the last value, which is its own aggregate."""
    counted = OpCounter(Sum())
    window = DABALite(counted)
    taken = {"restart": 0, "flip": 1, "shrink": 2, "free ride": 0}
    for step, operation in enumerate(WORKLOADS[workload](2000)):
        before = pointers(window)
        apply(window, deque([0]), operation, step)
        kind = kind_of_step(before, pointers(window))
        assert counted.taken() == taken[kind] + (operation == INSERT), (kind, before)
        window.query()
        assert counted.taken() == (1 if len(window) else 0)
