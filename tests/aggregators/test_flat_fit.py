"""FlatFIT: pointers and partials step by step, the cycle of its costs, all ranges at once."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators import FlatFIT
from sash.aggregators.in_order import INSERT
from sash.monoids.collect import Collect
from sash.monoids.op_counter import OpCounter
from tests.aggregators.probes import held
from tests.conformance.machines import JOIN
from tests.shared.workloads import WORKLOADS


def window_of(values: Any, monoid: Any = JOIN, ranges: tuple[int, ...] = ()) -> FlatFIT:
    window = FlatFIT(monoid, ranges)
    for value in values:
        window.insert(value)
    return window


def stored(window: FlatFIT) -> list[tuple[str, int]]:
    return [(window.partials[i], window.pointers[i]) for i in range(window.F, window.E)]


# ---- fixed examples ----


def test_the_drawing() -> None:
    counted = OpCounter(JOIN)
    window = window_of("abcdef", counted)
    assert [pointer for _, pointer in stored(window)] == [1, 2, 3, 4, 5, 6], "before a query each holds itself"
    assert window.query() == "abcdef"
    assert stored(window) == [("abcdef", 6), ("bcdef", 6), ("cdef", 6), ("def", 6), ("ef", 6), ("f", 6)]
    for value in "ghi":
        window.insert(value)
    assert window.query_last(3) == "ghi"
    window.insert("j")
    assert stored(window) == [
        ("abcdef", 6), ("bcdef", 6), ("cdef", 6), ("def", 6), ("ef", 6), ("f", 6),
        ("ghi", 9), ("hi", 9), ("i", 9), ("j", 10),
    ]  # fmt: skip
    counted.taken()
    assert window.query() == "abcdefghij"
    assert counted.taken() == 2, "from 0 by 6 and 9 to the end"
    assert stored(window) == [
        ("abcdefghij", 10), ("bcdef", 6), ("cdef", 6), ("def", 6), ("ef", 6), ("f", 6),
        ("ghij", 10), ("hi", 9), ("i", 9), ("j", 10),
    ]  # fmt: skip
    window.check_invariants()


@given(
    operations=st.lists(st.sampled_from(["insert", "evict", "query", "last"]), max_size=80),
    data=st.data(),
)
def test_every_partial_is_what_it_points_over(operations: list[str], data: st.DataObject) -> None:
    window = FlatFIT(Collect())
    inserted = 0
    for operation in operations:
        if operation == "insert":
            window.insert(inserted)
            inserted += 1
        elif operation == "evict" and len(window):
            window.evict()
        elif operation == "query":
            window.query()
        elif operation == "last" and len(window):
            window.query_last(data.draw(st.integers(1, len(window))))
        assert held(window.stack) == 0
        for i in range(window.F, window.E):
            assert window.partials[i] == tuple(range(i, window.pointers[i])), "the elements are their positions"
        window.check_invariants()


# ---- costs ----


@pytest.mark.parametrize("n", [2, 3, 5, 8, 50])
def test_the_cycle_of_a_window_of_n(n: int) -> None:
    """A renewal in n - 1, between two slides of one, the others two: 3(n - 1) in n + 1 slides."""
    counted = OpCounter(JOIN)
    window = window_of("x" * n, counted)
    window.query()
    assert counted.taken() == n - 1
    costs = []
    for _ in range(3 * (n + 1)):
        window.evict()
        window.insert("x")
        window.query()
        costs.append(counted.taken())
    cycle = [1, *[2] * (n - 2), 1, n - 1]
    assert len(cycle) == n + 1
    assert sum(cycle) == 3 * (n - 1)
    assert costs == cycle * 3


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_all_ranges_at_each_slide_take_n_minus_1(n: int) -> None:
    counted = OpCounter(JOIN)
    window = FlatFIT(counted, ranges=range(1, n + 1))
    for i in range(5 * n):
        if len(window) == n:
            window.evict()
        window.insert("abc"[i % 3])
        counted.taken()
        assert [len(answer) for answer in window.query_ranges()] == [min(k, len(window)) for k in range(1, n + 1)]
        assert counted.taken() == len(window) - 1


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("often", [1.0, 0.5, 0.1])
def test_three_operations_a_slide_whenever_it_is_asked(workload: str, often: float) -> None:
    """Amortised: no sequence costs more than three ⊕ per insert or evict."""
    chance = random.Random(4)
    counted = OpCounter(JOIN)
    window = FlatFIT(counted)
    for step, operation in enumerate(WORKLOADS[workload](1500), 1):
        if operation == INSERT:
            window.insert("x")
        else:
            window.evict()
        if chance.random() < often:
            window.query()
            asked = counted.calls
            window.query()
            assert counted.calls == asked, "a second query takes none"
        assert counted.calls <= 3 * step


def test_inserts_and_evicts_take_none() -> None:
    counted = OpCounter(JOIN)
    window = window_of("abcdef", counted)
    window.evict()
    assert counted.taken() == 0
