"""DABALite: every slot compared with its definition, results with DABA; contents and costs."""

import re
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators import DABA, DABALite, Recalc
from sash.aggregators.base import fields, fold
from sash.aggregators.in_order import INSERT
from sash.aggregators.storage import SIZE
from sash.kernels import replay
from sash.monoids.collect import Collect
from sash.monoids.extremes import Max
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.aggregators.probes import AFFINE, held
from tests.shared.effort import seldom, share
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


def test_every_order_of_twelve_operations() -> None:
    for number in range(2**12):
        window, elements = DABALite(Collect()), deque[Any]()
        for step in range(12):
            operation = number >> step & 1
            if operation == INSERT or elements:
                apply(window, elements, operation, step)
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


@workloads
def test_at_most_three_an_insert_and_two_an_evict(workload: str) -> None:
    counted = OpCounter(Sum())
    window = DABALite(counted)
    for step, operation in enumerate(WORKLOADS[workload](3000)):
        apply(window, deque([0]), operation, step)
        assert counted.taken() <= (3 if operation == INSERT else 2)


@pytest.mark.parametrize("width", [2, 3, 16, 100, 1000])
def test_two_an_insert_and_one_an_evict_on_average(width: int) -> None:
    counted = OpCounter(Sum())
    window = DABALite(counted)
    for i in range(width):
        window.insert(i)
    for i in range(2 * width):
        window.evict()
        window.insert(i)
    spent: Counter[str] = Counter()
    rounds = 20 * width
    counted.taken()
    for i in range(rounds):
        window.evict()
        spent["evict"] += counted.taken()
        window.insert(i)
        spent["insert"] += counted.taken()
        window.query()
        spent["query"] += counted.taken()
    assert spent["query"] == rounds
    assert spent["insert"] <= 2 * rounds + 2
    assert spent["evict"] <= rounds + 2


# ---- what it holds ----


@workloads
def test_one_slot_an_element_and_two_aggregates(workload: str) -> None:
    assert Counter(fields(DABALite).values()) == {"Queue": 1, "State": 2, "int": 6}
    window = DABALite(Collect())
    for step, operation in enumerate(WORKLOADS[workload](1500)):
        apply(window, deque([0]), operation, step)
        assert held(window.deque) == len(window)
        assert window.deque.slots() <= len(window) + 2 * SIZE


@pytest.mark.parametrize("width", [1, SIZE - 1, SIZE, 300])
def test_memory_does_not_grow_with_the_stream(width: int) -> None:
    window = DABALite(Sum())
    for i in range(width):
        window.insert(i)
    most = 0
    for i in range(share(100_000)):
        window.evict()
        window.insert(i)
        most = max(most, window.deque.slots())
    assert most <= width + 2 * SIZE
    assert held(window.deque) == width


# ---- compiled ----


@workloads
@pytest.mark.parametrize(
    "monoid", [seldom(Max(), id="max"), seldom(Sum(), id="sum"), pytest.param(AFFINE, id="affine")]
)
def test_compiled_as_recalc(monoid: Any, workload: str) -> None:
    operations = np.array(WORKLOADS[workload](600), np.int8)
    column = np.random.default_rng(1).integers(-1000, 1000, 600)
    results = replay(DABALite, monoid, (column,), operations)
    assert results.why_interpreted == ""
    assert results.to_list() == replay(Recalc, monoid, (column,), operations).to_list()
    results.structure.check_invariants()


@workloads
def test_every_slot_that_compiled_code_leaves(workload: str) -> None:
    column = np.random.default_rng(1).integers(-1000, 1000, 600)
    for length in (1, 2, 5, 97, 300, 599):
        operations = np.array(WORKLOADS[workload](600)[:length], np.int8)
        left = replay(DABALite, AFFINE, (column,), operations).structure
        assert isinstance(left, DABALite)
        check_results(left, [AFFINE.lift(x) for x in column[left.F : left.E].tolist()])


# ---- its own check ----


def known() -> DABALite:
    """A window with every part of the queue in use."""
    window = DABALite(Collect())
    for i in range(19):
        window.insert(i)
    window.evict()
    assert pointers(window) == (1, 5, 8, 11, 16, 19)
    window.check_invariants()
    return window


def refused(window: DABALite, what: str) -> None:
    with pytest.raises(AssertionError, match=f"^DABALite: .*{re.escape(what)}"):
        window.check_invariants()


@pytest.mark.parametrize("name", ["right", "back"])
def test_a_wrong_aggregate_is_found(name: str) -> None:
    window = known()
    setattr(window, name, ("wrong",))
    refused(window, f"{name} is ('wrong',)")


def test_a_wrong_slot_is_found() -> None:
    """Where a value or the first of [A, B) stands; the other aggregates are stored once."""
    window = known()
    for positions, named in ((range(window.R, window.A + 1), "right"), (range(window.B, window.E), "back")):
        for position in positions:
            spoilt = window.copy()
            spoilt.deque[position] = ("wrong",)
            refused(spoilt, named)
    window.check_invariants()


@pytest.mark.parametrize("by", [1, -1, 100, -100])
@pytest.mark.parametrize("name", "FLRABE")
def test_a_wrong_position_is_found(name: str, by: int) -> None:
    window = known()
    setattr(window, name, getattr(window, name) + by)
    refused(window, "")


def test_the_empty_window_has_an_empty_back() -> None:
    window = DABALite(Collect())
    window.back = ("wrong",)
    refused(window, "back")


def test_it_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match="DABALite overwrites its elements with aggregates: it cannot be iterated"):
        iter(known())
