"""LogMTA step by step: the tree of the paper's figure 1, its height, and what it costs."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import sash
from sash.aggregators import LogMTA, Recalc
from sash.aggregators.catalogue import IN_ORDER
from sash.kernels import replay, slide, steady
from sash.monoids import Collect, Max, Sum
from sash.monoids.op_counter import OpCounter
from tests.aggregators.probes import AFFINE
from tests.shared.workloads import WORKLOADS

PLAIN = sash.monoid(identity=0, combine=lambda a, b: a + b, exact=True, name="plain sum")


def window_of(monoid: Any, values: Any) -> LogMTA:
    window = LogMTA(monoid)
    for value in values:
        window.insert(value)
    return window


def tree(window: LogMTA) -> list[list[Any]]:
    """The blocks, level by level."""
    ranges = [range(window.F >> level, ((window.E - 1) >> level) + 1) for level in range(window.top + 1)]
    return [[window.levels[level, j] for j in blocks] for level, blocks in enumerate(ranges)]


def whole_log(n: int) -> int:
    return n.bit_length() - 1


# ---- the tree ----


def test_figure_1() -> None:
    window = window_of(PLAIN, [1, 2] * 3)
    assert tree(window) == [[1, 2, 1, 2, 1, 2], [3, 3, 3], [6, 3]]
    assert window.query() == 9


def test_an_eviction_cuts_the_first_block_of_each_level() -> None:
    window = window_of(PLAIN, [1, 2] * 3)
    window.evict()
    assert tree(window) == [[2, 1, 2, 1, 2], [2, 3, 3], [5, 3]]
    window.evict()
    assert tree(window) == [[1, 2, 1, 2], [3, 3]]
    window.insert(1)
    assert tree(window) == [[1, 2, 1, 2, 1], [3, 3, 1], [3, 4]]
    window.evict_many(4)
    assert tree(window) == [[1]]


def test_a_second_pair_at_the_top_keeps_the_first() -> None:
    """A new root holds both, whichever of its blocks is the one that was there."""
    window = window_of(Collect(), range(5))
    assert tree(window)[-1] == [(0, 1, 2, 3), (4,)]
    window = window_of(Collect(), range(5))
    window.evict_many(2)
    window.insert(5)
    window.insert(6)
    assert tree(window)[-1] == [(2, 3), (4, 5, 6)]


@pytest.mark.parametrize("start", [0, 1, 31, 32, 1023, 1024, 2**20 - 1])
def test_the_height_is_that_of_the_window_wherever_it_lies(start: int) -> None:
    window = LogMTA(PLAIN)
    window.F = window.E = start
    for size in range(1, 70):
        window.insert(1)
        assert window.top <= max(size - 2, 0).bit_length()
        window.check_invariants()
        assert window.query() == size


def test_a_zero_is_a_value_like_any_other() -> None:
    window = window_of(PLAIN, [0, 0, 5, 0, 0, 0, 7, 0])
    results = []
    while len(window):
        results.append(window.query())
        window.evict()
    assert results == [12, 12, 12, 7, 7, 7, 7, 0]


# ---- what it costs ----


def test_the_worst_cases_are_reached_and_not_exceeded() -> None:
    counted = OpCounter(PLAIN)
    worst = IN_ORDER["LogMTA"].worst
    seen: dict[str, dict[int, int]] = {operation: defaultdict(int) for operation in worst}
    for start in range(66):
        window = window_of(counted, [1] * start)
        window.evict_many(start)
        for size in range(1, 66):
            window.insert(1)
            twin = window.copy()
            for operation in ("query", "insert", "evict", "query"):
                n = len(twin) + (operation == "insert")
                counted.taken()
                getattr(twin, operation)(*[1] * (operation == "insert"))
                cost = counted.taken()
                assert cost <= worst[operation].at(n), (operation, start, size)
                seen[operation][whole_log(n)] = max(seen[operation][whole_log(n)], cost)
    for log in range(2, 6):
        assert seen["insert"][log] == log
        assert seen["evict"][log] == log - 1
        assert seen["query"][log] == 1


@pytest.mark.parametrize("width", [*range(1, 34), 62, 63, 64, 100, 126, 127, 1000])
def test_a_round_of_evict_insert_and_query(width: int) -> None:
    counted = OpCounter(PLAIN)
    window = window_of(counted, [1] * width)
    rounds = 64 * width
    for _ in range(rounds):
        window.evict()
        window.insert(1)
        window.query()
    assert counted.calls / rounds <= whole_log(width) + 2


def test_many_cost_no_more_than_one() -> None:
    counted = OpCounter(PLAIN)
    worst = IN_ORDER["LogMTA"].worst["evict"]
    for start in (0, 1, 21, 31):
        filled = window_of(counted, [1] * (start + 150))
        filled.evict_many(start)
        for n in range(151):
            window = filled.copy()
            counted.taken()
            window.evict_many(n)
            assert counted.taken() <= worst.at(150)


# ---- what is wrong is found ----


def test_a_wrong_block() -> None:
    window = window_of(Collect(), range(40))
    window.evict_many(5)
    window.check_invariants()
    for level in range(window.top + 1):
        for j in range(window.F >> level, ((window.E - 1) >> level) + 1):
            spoilt = window.copy()
            spoilt.levels[level, j] = ("wrong",)
            with pytest.raises(AssertionError, match=r"^LogMTA: levels\[\d, \d+\] is "):
                spoilt.check_invariants()


@pytest.mark.parametrize(
    ("name", "by"), [("F", 1), ("F", 100), ("E", -1), ("E", -38), ("top", 1), ("top", -1), ("top", -3)]
)
def test_a_wrong_position(name: str, by: int) -> None:
    window = window_of(Collect(), range(40))
    window.evict_many(2)
    setattr(window, name, getattr(window, name) + by)
    with pytest.raises(AssertionError, match=r"^LogMTA: "):
        window.check_invariants()


# ---- compiled ----


@pytest.mark.parametrize("workload", WORKLOADS)
def test_compiled(workload: str) -> None:
    values = np.random.default_rng(1).integers(0, 1000, 3000)
    operations = np.array(WORKLOADS[workload](3000), np.int8)
    found = replay(LogMTA, AFFINE, (values,), operations)
    assert found.why_interpreted == ""
    assert found.to_list() == replay(Recalc, AFFINE, (values,), operations).to_list()
    found.structure.check_invariants()


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 500])
def test_compiled_at_any_width(width: int) -> None:
    """The blocks at both ends of a level may lie half outside the window: its ring has room for them."""
    values = np.random.default_rng(2).random(1200)
    found = slide(LogMTA, Max(), (values,), width)
    assert found.to_list() == slide(Recalc, Max(), (values,), width).to_list()
    found.structure.check_invariants()
    assert steady(LogMTA, Max(), (values,), width).to_list() == found.to_list()[width:]


@pytest.mark.all_compiled
def test_sums_of_both_kinds_compile() -> None:
    chance = np.random.default_rng(5)
    for column in (chance.integers(-50, 50, 600), chance.random(600)):
        found = slide(LogMTA, Sum(), (column,), 37)
        assert found.why_interpreted == ""
        assert found.to_list() == pytest.approx(slide(Recalc, Sum(), (column,), 37).to_list(), rel=1e-12)
