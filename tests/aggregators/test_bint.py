"""BInt: which intervals it keeps, how many of them a query needs, costs, compiled code, and `check_invariants`."""

import math
import pickle
import random
import re
from typing import Any

import numpy as np
import pytest

from sash.aggregators import BInt, Recalc
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import INSERT
from sash.aggregators.storage import SIZE
from sash.kernels import bulk, replay, slide_many
from sash.monoids.collect import Collect
from sash.monoids.extremes import Max
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.aggregators.probes import AFFINE, held
from tests.shared.effort import seldom
from tests.shared.workloads import WORKLOADS

workloads = pytest.mark.parametrize("workload", WORKLOADS)


def apply(window: BInt, operation: int, step: int) -> None:
    if operation == INSERT:
        window.insert(step)
    else:
        window.evict()


def window_between(first: int, last: int, monoid: Any) -> BInt:
    """A window of the positions [first, last), each holding its number."""
    window = BInt(monoid)
    for i in range(last):
        window.insert(i)
        if i < first:
            window.evict()
    assert (first, last) == (window.F, window.E)
    return window


def complete(first: int, last: int) -> dict[tuple[int, int], range]:
    """All dyadic intervals that lie in [first, last), by level and number."""
    return {
        (level, number): range(number << level, (number + 1) << level)
        for level in range(last.bit_length())
        for number in range(-(-first >> level), last >> level)
    }


def fewest(first: int, last: int) -> int:
    """The least number of dyadic intervals that make up [first, last), by trying all."""
    ends: dict[int, list[int]] = {}
    for inside in complete(first, last).values():
        ends.setdefault(inside.start, []).append(inside.stop)
    needed = {last: 0}
    for start in range(last - 1, first - 1, -1):
        needed[start] = 1 + min(needed[stop] for stop in ends[start])
    return needed[first]


# ---- intervals ----


def test_the_drawing() -> None:
    counted = OpCounter(Collect())
    window = window_between(3, 11, counted)
    counted.taken()
    assert (window.query(), counted.taken()) == (list(range(3, 11)), 3)
    assert [window.intervals[key] for key in ((0, 3), (2, 1), (1, 4), (0, 10))] == [
        (3,), (4, 5, 6, 7), (8, 9), (10,)
    ]  # fmt: skip
    assert [key for key in complete(3, 11) if key[0]] == [(1, 2), (1, 3), (1, 4), (2, 1)]


@workloads
def test_all_complete_intervals_and_no_others(workload: str) -> None:
    window = BInt(Collect())
    for step, operation in enumerate(WORKLOADS[workload](400)):
        apply(window, operation, step)
        kept = complete(window.F, window.E)
        elements = [x for (x,) in window]
        for key, inside in kept.items():
            assert list(window.intervals[key]) == [elements[i - window.F] for i in inside]
        assert sum(held(level) for level in window.intervals.queues) == len(kept)
        assert len(kept) <= 2 * max(len(window), 1) - 1


def test_an_interval_that_began_before_the_window_is_not_completed() -> None:
    counted = OpCounter(Collect())
    window = window_between(1, 7, counted)
    counted.taken()
    window.insert(7)
    assert counted.taken() == 2, "[6, 8) and [4, 8), but not [0, 8)"
    window.check_invariants()


# ---- what it costs ----


@pytest.mark.parametrize("first", range(40))
def test_a_query_joins_the_fewest_intervals(first: int) -> None:
    counted = OpCounter(Max())
    window = window_between(first, first + 1, counted)
    for last in range(first + 1, first + 70):
        counted.taken()
        assert window.query() == last - 1
        assert counted.taken() == fewest(first, last) - 1
        window.insert(last)


@pytest.mark.parametrize("levels", range(1, 9))
def test_the_worst_window(levels: int) -> None:
    """1, 2, 4, … and …, 4, 2, 1 elements: two intervals of each size."""
    n = 2 * (2**levels - 1)
    counted = OpCounter(Sum())
    window = window_between(1, 1 + n, counted)
    counted.taken()
    window.query()
    assert counted.taken() == 2 * levels - 1 == IN_ORDER["BInt"].worst["query"].at(n)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 200])
def test_an_insert_completes_what_ends_with_it(n: int) -> None:
    counted = OpCounter(Sum())
    window = BInt(counted)
    for _ in range(5 * n):
        window.insert(1)
        ending = [inside for inside in complete(window.F, window.E).values() if inside.stop == window.E]
        assert counted.taken() == len(ending) - 1 <= math.log2(len(window))
        if len(window) > n:
            window.evict()
            assert counted.taken() == 0


@workloads
def test_less_than_one_an_insert_and_log_n_a_query(workload: str) -> None:
    counted = OpCounter(Sum())
    window = BInt(counted)
    inserts = spent = queried = bound = 0.0
    for step, operation in enumerate(WORKLOADS[workload](3000)):
        apply(window, operation, step)
        inserts += operation == INSERT
        spent += counted.taken()
        window.query()
        queried += counted.taken()
        bound += math.log2(max(len(window), 1))
        assert spent < max(inserts, 1)
    assert queried <= bound


# ---- memory ----


def test_memory_follows_the_window() -> None:
    """At most two slots per element, and one chunk at either end of each level."""
    window = BInt(Sum())
    for size in (10, 5000, 300, 2000, 1, 0, 700):
        while len(window) < size:
            window.insert(1)
        while len(window) > size:
            window.evict()
        assert window.intervals.slots() <= 2 * size + 2 * SIZE * len(window.intervals.queues)
        assert sum(held(level) for level in window.intervals.queues) == len(complete(window.F, window.E))


def test_memory_does_not_grow_with_the_stream() -> None:
    window = BInt(Sum())
    for i in range(50_000):
        window.insert(i)
        if len(window) > 100:
            window.evict()
    assert window.intervals.slots() <= 200 + 2 * SIZE * len(window.intervals.queues)
    assert len(window.intervals.queues) == 7


def test_emptied_refilled_and_cleared() -> None:
    window = BInt(Collect())
    for size in (5, 1, 64, 3):
        for i in range(size):
            window.insert(i)
        assert window.query() == list(range(size))
        for _ in range(size):
            window.evict()
        window.check_invariants()
        assert (len(window), window.query()) == (0, None)
    window.insert(1)
    window.clear()
    assert (len(window), window.query(), window.intervals.slots()) == (0, None, 0)


def test_a_twin_goes_its_own_way() -> None:
    window = window_between(37, 300, Collect())
    for twin in (window.copy(), pickle.loads(pickle.dumps(window))):
        twin.evict()
        twin.insert("x")
        assert twin.query() == [*range(38, 300), "x"]
        twin.check_invariants()
    window.check_invariants()
    assert window.query() == list(range(37, 300))


# ---- compiled ----

COLUMN = np.random.default_rng(1).integers(-1000, 1000, 900)


@workloads
@pytest.mark.parametrize(
    "monoid", [seldom(Max(), id="max"), seldom(Sum(), id="sum"), pytest.param(AFFINE, id="affine")]
)
def test_compiled_as_recalc(monoid: Any, workload: str) -> None:
    operations = np.array(WORKLOADS[workload](900), np.int8)
    results = replay(BInt, monoid, (COLUMN,), operations)
    assert results.why_interpreted == ""
    assert results.to_list() == replay(Recalc, monoid, (COLUMN,), operations).to_list()
    results.structure.check_invariants()


@pytest.mark.parametrize("width", [1, 2, 5, 8, 64, 100])
def test_compiled_by_batches(width: int) -> None:
    for step in (1, 3, 16, 100):
        results = bulk(BInt, AFFINE, (COLUMN,), width, step)
        assert results.why_interpreted == ""
        assert results.to_list() == bulk(Recalc, AFFINE, (COLUMN,), width, step).to_list()
        results.structure.check_invariants()


def test_compiled_ranges() -> None:
    ranges = (1, 2, 7, 64, 65, 100)
    results = slide_many(BInt, AFFINE, (COLUMN,), ranges)
    assert results.why_interpreted == ""
    assert results.to_list() == slide_many(Recalc, AFFINE, (COLUMN,), ranges).to_list()


# ---- its own check ----


@pytest.mark.parametrize(("first", "last"), [(0, 16), (3, 11), (5, 38)])
def test_a_wrong_interval_is_found(first: int, last: int) -> None:
    window = window_between(first, last, Collect())
    window.check_invariants()
    kept = complete(first, last)
    for level, number in kept:
        if level or number ^ 1 in range(first, last):  # a single element may be in no other interval
            spoilt = window.copy()
            spoilt.intervals[level, number] = ("wrong",)
            with pytest.raises(AssertionError, match=r"^BInt: intervals\[\d+, \d+\] is"):
                spoilt.check_invariants()


def test_positions_that_are_out_of_order_are_found() -> None:
    window = window_between(3, 11, Collect())
    window.F = 12
    with pytest.raises(AssertionError, match=re.escape("BInt: F = 12 lies beyond E = 11")):
        window.check_invariants()


def test_random_runs() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        window, elements = BInt(Collect()), list[int]()
        for step in range(300):
            if chance.random() < (0.7 if step % 100 < 50 else 0.35) or not elements:
                window.insert(step)
                elements.append(step)
            else:
                window.evict()
                del elements[0]
            assert window.query() == (elements or None)
        window.check_invariants()
