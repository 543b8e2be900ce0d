"""SlickDequeNonInv: the paper's example 3, ties, NaN and zeros, its costs."""

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.aggregators import Recalc, SlickDequeNonInv
from sash.aggregators.in_order import INSERT
from sash.kernels import slide as slide_columns
from sash.kernels import slide_many
from sash.monoids.algebra import Monoid
from sash.monoids.by_place import First, Last
from sash.monoids.extremes import ArgMax, ArgMin, Max, Min
from sash.monoids.op_counter import OpCounter
from tests.aggregators.probes import held
from tests.conformance.machines import small_chunks
from tests.shared.effort import seldom
from tests.shared.workloads import WORKLOADS

STREAM = (6, 5, 0, 1, 3, 4, 2, 7)


def slide(window: Any, value: Any, width: int) -> None:
    if len(window) == width:
        window.evict()
    window.insert(value)


def window_of(values: Any, monoid: Any = None, ranges: tuple[int, ...] = ()) -> SlickDequeNonInv:
    window = SlickDequeNonInv(monoid or Max(), ranges)
    for value in values:
        window.insert(value)
    return window


def nodes(window: SlickDequeNonInv) -> list[tuple[int, Any]]:
    return [(window.positions[j], window.vals[j]) for j in range(window.H, window.T)]


# ---- example 3: maxima over ranges of 3 and 5 ----

FIGURE_9: list[tuple[list[int], tuple[int, int], int]] = [
    ([6], (6, 6), 0),
    ([6, 5], (6, 6), 1),
    ([6, 5, 0], (6, 6), 1),
    ([6, 5, 1], (5, 6), 2),
    ([6, 5, 3], (3, 6), 2),
    ([5, 4], (4, 5), 2),
    ([4, 2], (4, 4), 1),
    ([7], (7, 7), 2),
]
"""The deque's values, the answers for 3 and 5, and the operations that the step took."""


def test_example_3_step_by_step() -> None:
    counted = OpCounter(Max())
    window = SlickDequeNonInv(counted, ranges=(3, 5))
    for value, (deque, answers, operations) in zip(STREAM, FIGURE_9, strict=True):
        slide(window, value, 5)
        assert [node for _, node in nodes(window)] == deque
        assert window.query_ranges() == answers
        assert window.query() == answers[1]
        assert counted.taken() == operations, "one for each node that was asked, none for an answer"
        window.check_invariants()
        counted.taken()


def test_example_3_takes_11_operations() -> None:
    assert sum(operations for _, _, operations in FIGURE_9) == 11


def test_positions_are_those_of_the_stream() -> None:
    window = window_of(STREAM[:5])
    assert nodes(window) == [(0, 6), (1, 5), (4, 3)]
    window.evict()
    assert nodes(window) == [(1, 5), (4, 3)]


def test_a_window_that_is_longer_than_every_range() -> None:
    """As printed, the algorithm expires nodes of windows of exactly the longest range."""
    window = SlickDequeNonInv(Max(), ranges=(2,))
    values = [(7 * i) % 13 for i in range(60)]
    for i, value in enumerate(values):
        slide(window, value, 5)
        assert window.query() == max(values[max(0, i - 4) : i + 1])
        assert window.query_ranges() == (max(values[max(0, i - 1) : i + 1]),)


# ---- exact for every selective ⊕ ----

FIRST_OF_GREATEST = sash.monoid(
    identity=(-math.inf, -1),
    lift=lambda x: (float(x // 10), x),
    combine=lambda a, b: a if a[0] >= b[0] else b,
    lower=lambda a: a[1],
    selective=True,
    exact=True,
    name="first of greatest",
)
"""By tens: 23 and 27 are equals, of which the older stays."""

LAST_OF_GREATEST = sash.monoid(
    identity=(-math.inf, -1),
    lift=lambda x: (float(x // 10), x),
    combine=lambda a, b: a if a[0] > b[0] else b,
    lower=lambda a: a[1],
    selective=True,
    exact=True,
    name="last of greatest",
)

NAN_WINS = sash.monoid(
    identity=-math.inf,
    combine=lambda a, b: a if a >= b or a != a else b,
    selective=True,
    exact=True,
    name="NaN wins",
)
"""It does not say what it picks: the structure finds out by identity, compiled by the bits."""

LATER_ZERO = sash.monoid(
    identity=-math.inf,
    combine=lambda a, b: a if a > b or a != a else b,
    selective=True,
    exact=True,
    name="of equals the later",
)

SELECTIVE: dict[str, tuple[Monoid, st.SearchStrategy[Any]]] = {
    "max": (Max(), st.sampled_from([math.nan, 0.0, -0.0, 1.0, -1.0, math.inf, -math.inf])),
    "min": (Min(), st.sampled_from([math.nan, 0.0, -0.0, 1.0, -1.0, math.inf, -math.inf])),
    "NaN wins": (NAN_WINS, st.sampled_from([math.nan, 0.0, -0.0, 1.0, -1.0])),
    "of equals the later": (LATER_ZERO, st.sampled_from([math.nan, 0.0, -0.0, 1.0, -1.0])),
    "first": (First(), st.integers(0, 9)),
    "last": (Last(), st.integers(0, 9)),
    "first of greatest": (FIRST_OF_GREATEST, st.integers(0, 39)),
    "last of greatest": (LAST_OF_GREATEST, st.integers(0, 39)),
}


def format_result(result: Any) -> str:
    """A result, NaN and the sign of a zero included."""
    return repr(result)


@pytest.mark.parametrize("name", SELECTIVE)
@given(data=st.data())
def test_every_range_compared_with_recalc(name: str, data: st.DataObject) -> None:
    monoid, values = SELECTIVE[name]
    ranges = tuple(data.draw(st.lists(st.integers(1, 12), max_size=4)))
    window, oracle = SlickDequeNonInv(monoid, ranges), Recalc(monoid)
    for value in data.draw(st.lists(st.none() | values, max_size=40)):
        for either in (window, oracle):
            slide(either, value, 9)
        window.check_invariants()
        assert format_result(window.query()) == format_result(oracle.query())
        for n in range(1, len(oracle) + 1):
            assert format_result(window.query_last(n)) == format_result(oracle.query_last(n))
        expected = tuple(oracle.query_last(min(n, len(oracle))) for n in ranges)
        assert format_result(window.query_ranges()) == format_result(expected)


@pytest.mark.parametrize("monoid", [ArgMax(), ArgMin()])
@given(keys=st.lists(st.sampled_from([0, 1, 2, math.nan, None]), max_size=40))
def test_of_equals_the_first_keeps_its_payload(monoid: Monoid, keys: list[Any]) -> None:
    window, oracle = SlickDequeNonInv(monoid), Recalc(monoid)
    for payload, key in enumerate(keys):
        for either in (window, oracle):
            if len(either) == 6:
                either.evict()
            either.insert(key, payload)
        assert window.query() == oracle.query()
        assert [window.query_last(n) for n in range(1, len(oracle) + 1)] == [
            oracle.query_last(n) for n in range(1, len(oracle) + 1)
        ]


def test_equals_in_the_deque() -> None:
    assert nodes(window_of([2, 2, 2])) == [(0, 2), (1, 2), (2, 2)]
    assert nodes(window_of([0.0, -0.0, 0.0, -1.0], LATER_ZERO)) == [(2, 0.0), (3, -1.0)]


@pytest.mark.parametrize(
    "monoid", [NAN_WINS, LATER_ZERO, seldom(Max()), seldom(Min())], ids=["NaN wins", "later", "max", "min"]
)
def test_compiled_to_the_bit(monoid: Monoid) -> None:
    chance = random.Random(3)
    values = np.array(chance.choices([math.nan, 0.0, -0.0, 1.0, -1.0, math.inf, -math.inf], k=600))
    for width in (1, 2, 7, 40):
        found = slide_columns(SlickDequeNonInv, monoid, (values,), width)
        assert found.why_interpreted == ""
        found.structure.check_invariants()
        assert format_result(found.to_list()) == format_result(
            slide_columns(Recalc, monoid, (values,), width).to_list()
        )
    ranges = (4, 1, 9)
    found = slide_many(SlickDequeNonInv, monoid, (values,), ranges)
    assert format_result(found.to_list()) == format_result(slide_many(Recalc, monoid, (values,), ranges).to_list())


def test_tuples_compiled_to_the_bit() -> None:
    values = np.random.default_rng(5).integers(0, 60, 500)
    for monoid in (FIRST_OF_GREATEST, LAST_OF_GREATEST):
        found = slide_many(SlickDequeNonInv, monoid, (values,), (3, 20, 1))
        assert found.why_interpreted == ""
        assert found.to_list() == slide_many(Recalc, monoid, (values,), (3, 20, 1)).to_list()


# ---- costs ----


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("order", ["rising", "falling", "random", "equal"])
def test_under_two_operations_an_insert(workload: str, order: str) -> None:
    chance = random.Random(1)
    value = {
        "rising": lambda i: i, "falling": lambda i: -i, "random": lambda _i: chance.random(), "equal": lambda _i: 0
    }[order]  # fmt: skip
    counted = OpCounter(Max())
    window = SlickDequeNonInv(counted, ranges=(2, 5))
    spent = inserts = 0
    for step, operation in enumerate(WORKLOADS[workload](1500)):
        if operation == INSERT:
            window.insert(value(step))
            inserts += 1
        else:
            window.evict()
            assert counted.calls == spent, "an evict takes none"
        spent = counted.calls
        window.query()
        window.query_ranges()
        window.query_last(len(window) // 2)
        assert counted.calls == spent, "a query takes none"
        assert spent < 2 * inserts


def test_the_worst_case_is_a_great_value_after_a_falling_window() -> None:
    counted = OpCounter(Max())
    window = window_of(range(100, 0, -1), counted)
    assert counted.taken() == 99
    window.evict()
    window.insert(1000)
    assert counted.taken() == 99
    assert nodes(window) == [(100, 1000)]


@pytest.mark.parametrize("count", [1, 50, 400])
def test_all_ranges_are_answered_in_one_walk(count: int) -> None:
    """Each node is visited at most once, whatever the number of ranges."""
    window = window_of(range(400, 0, -1), ranges=tuple(range(1, count + 1)))
    reads = []
    positions = window.positions

    class Spy:
        def __getitem__(self, j: int) -> Any:
            reads.append(j)
            return positions[j]

    window.positions = Spy()  # type: ignore[assignment]
    assert window.query_ranges() == tuple(range(1, count + 1))
    assert reads == sorted(reads)
    assert len(reads) <= 400 + count


# ---- memory ----


def test_only_candidates_are_held() -> None:
    with small_chunks():
        window = window_of(range(500))
        assert (held(window.vals), held(window.positions), window.vals.slots()) == (1, 1, 4)
        falling = window_of(range(500, 0, -1))
        assert held(falling.vals) == 500
        for left in range(499, -1, -1):
            falling.evict()
            assert held(falling.vals) == held(falling.positions) == left
            assert falling.vals.slots() <= left + 8
        falling.insert(3)
        assert falling.query() == 3
