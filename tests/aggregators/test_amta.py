"""AMTA step by step: the paper's figures, when partials are settled, and costs."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sash.aggregators import AMTA
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import EVICT, INSERT
from sash.kernels import replay
from sash.monoids.op_counter import OpCounter
from tests.aggregators import bulk_cases
from tests.aggregators.bulk_cases import PLAIN, whole_log, worst_costs
from tests.aggregators.probes import AFFINE

window_of: Any = partial(bulk_cases.window_of, AMTA)


def stack(window: AMTA) -> list[Any]:
    """From its top down."""
    return [window.stack[i] for i in range(window.depth - 1, -1, -1)]


def level(window: AMTA, number: int) -> list[Any]:
    """The complete blocks of a level that are alive."""
    first = -(-window.F >> number)
    return [window.levels[number, j] for j in range(first, ((window.E + 1) >> number) - 1)]


# ---- the figures ----


def test_figure_4_six_updates() -> None:
    window = window_of(PLAIN, [1, 2] * 3)
    assert window.query() == 9
    assert [level(window, i) for i in range(3)] == [[1, 2, 1, 2, 1, 2], [3, 3], []]
    assert (window.R0, window.R1, stack(window)) == (6, 3, [5, 3])
    window.evict()
    assert (window.R0, window.R1, stack(window)) == (5, 3, [3])
    assert window.query() == 8


def test_section_4_2_1_eight_updates_and_one_more() -> None:
    window = window_of(PLAIN, [1, 2] * 4)
    assert window.query() == 12
    assert [level(window, i) for i in range(4)] == [[1, 2] * 4, [3, 3, 3], [6], []]
    assert window.R1 == 6
    window.insert(1)
    assert (window.R0, window.R1) == (6, 7)
    assert window.query() == 13


def test_figure_5_single_evictions() -> None:
    window = window_of(PLAIN, [1, 3, 2, 1, 2, 1, 1, 0, 3, 1])
    assert window.query() == 15
    assert [level(window, i) for i in range(3)] == [[1, 3, 2, 1, 2, 1, 1, 0, 3, 1], [4, 3, 3, 1], [7]]
    assert (window.R0, window.R1, stack(window)) == (7, 8, [6, 3])
    window.evict()
    assert (window.R0, window.R1, stack(window)) == (6, 8, [3])
    assert window.query() == 14
    window.evict()
    assert (window.R0, window.R1, stack(window)) == (3, 8, [1])
    assert window.query() == 11


# ---- what is settled when ----


def test_a_pair_gets_a_parent_when_the_next_one_is_begun() -> None:
    window = AMTA(PLAIN)
    made = []
    for i in range(16):
        window.insert(1)
        made.append([len(level(window, number)) for number in range(4)])
        assert made[-1] == [max(((i + 2) >> number) - 1, 0) for number in range(4)]
    assert made[6] == [7, 3, 1, 0]
    assert made[7] == [8, 3, 1, 0]


def test_each_level_ends_in_a_pair_of_its_own() -> None:
    """The roots of the forest: one or two blocks per level, whatever the size."""
    window = AMTA(PLAIN)
    for _ in range(200):
        window.insert(1)
        counts = [((window.E + 1) >> number) - 1 for number in range(9)]
        roots = [here - 2 * above for here, above in pairwise(counts) if here > 0]
        assert set(roots) <= {1, 2}


def test_results_are_built_when_a_query_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = 0
    settle = AMTA.settle

    def watched(window: AMTA) -> None:
        nonlocal settled
        settled += 1
        settle(window)

    monkeypatch.setattr(AMTA, "settle", watched)
    window = window_of(PLAIN, [1] * 100)
    window.evict_many(50)
    window.insert(1)
    window.evict()
    assert settled == 0
    window.query()
    window.query()
    assert settled == 1
    most = 0
    for _ in range(500):
        before = settled
        window.insert(1)
        assert window.enforce(lambda total, prefix: total - prefix >= 50) == 1
        window.query()
        most = max(most, settled - before)
    assert most == 1


def test_the_switch_from_single_evictions_to_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    popped = 0
    pop = AMTA.pop

    def watched(window: AMTA) -> None:
        nonlocal popped
        popped += 1
        pop(window)

    monkeypatch.setattr(AMTA, "pop", watched)
    for n in range(1, 300):
        window = window_of(PLAIN, [1] * 1000)
        window.query()
        top, popped = window.top, 0
        window.evict_many(n)
        assert popped == (n if n <= top else 0)
        assert window.query() == 1000 - n


def test_the_rest_stays_settled_while_the_leftmost_tree_lasts() -> None:
    counted = OpCounter(PLAIN)
    window = window_of(counted, [1] * 1000)
    window.query()
    M = window.M
    window.evict_many(100)
    counted.taken()
    assert window.settled
    assert (window.query(), counted.taken()) == (900, 1)
    window.evict_many(M - 100)
    assert not window.settled
    assert counted.taken() == 0


# ---- what it costs ----


@pytest.mark.parametrize("width", [*range(1, 34), 62, 63, 64, 100, 126, 127, 190, 255, 1000])
def test_a_round_of_evict_insert_and_query(width: int) -> None:
    """At most 4 ⊕ and a sixteenth: a tree of 2^l elements takes (l - 3) / 2^l of one for each to settle on."""
    counted = OpCounter(PLAIN)
    window = window_of(counted, [1] * width)
    for _ in range(3 * width):
        window.evict()
        window.insert(1)
        window.query()
    counted.taken()
    rounds = 64 * width
    for _ in range(rounds):
        window.evict()
        window.insert(1)
        window.query()
    assert counted.taken() <= rounds * (4 + 1 / 16) + 3 * whole_log(width)


def test_the_worst_cases_are_reached_and_not_exceeded() -> None:
    seen = worst_costs(AMTA)
    for log in range(2, 6):
        assert seen["insert"][log] == log + 1
        assert seen["query"][log] == 3 * log - 2


def test_the_worst_evict_is_reached() -> None:
    """It begins the second block of the leftmost pair, with no more elements to its right than there must be."""
    counted = OpCounter(PLAIN)
    worst = IN_ORDER["AMTA"].worst["evict"]
    for top in range(1, 9):
        window = window_of(counted, [1] * ((3 << top) - 1))
        window.query()
        for _ in range((1 << top) - 1):
            window.evict()
        counted.taken()
        n = len(window)
        window.evict()
        assert counted.taken() == top - 1 == worst.at(n)


# ---- compiled ----


def test_compiled_and_interpreted_are_in_the_same_state() -> None:
    values = np.random.default_rng(3).integers(0, 1000, 500)
    operations = np.array([INSERT] * 100 + [INSERT, EVICT] * 150, np.int8)
    compiled: Any = replay(AMTA, AFFINE, (values,), operations).structure
    window = AMTA(AFFINE)
    taken = iter(values.tolist())
    for operation in operations:
        if operation == INSERT:
            window.insert(next(taken))
        else:
            window.evict()
        window.query()
    names = ("F", "M", "E", "top", "depth", "R0", "R1", "settled")
    assert [getattr(compiled, name) for name in names] == [getattr(window, name) for name in names]
    assert stack(compiled) == stack(window)
