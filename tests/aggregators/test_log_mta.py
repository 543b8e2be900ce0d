"""LogMTA step by step: the tree of the paper's figure 1, its height, and what it costs."""

from functools import partial
from typing import Any

import pytest

from sash.aggregators import LogMTA
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids import Collect
from sash.monoids.op_counter import OpCounter
from tests.aggregators import bulk_cases
from tests.aggregators.bulk_cases import PLAIN, worst_costs

window_of: Any = partial(bulk_cases.window_of, LogMTA)


def tree(window: LogMTA) -> list[list[Any]]:
    """The blocks, level by level."""
    ranges = [range(window.F >> level, ((window.E - 1) >> level) + 1) for level in range(window.top + 1)]
    return [[window.levels[level, j] for j in blocks] for level, blocks in enumerate(ranges)]


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


# ---- what it costs ----


def test_the_worst_cases_are_reached_and_not_exceeded() -> None:
    seen = worst_costs(LogMTA)
    for log in range(2, 6):
        assert seen["insert"][log] == log
        assert seen["evict"][log] == log - 1
        assert seen["query"][log] == 1


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
