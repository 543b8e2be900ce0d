"""FlatFAT: the examples of its paper, step by step, and its costs."""

import math
import random
from collections.abc import Callable

import pytest

from sash.aggregators import FlatFAT
from sash.aggregators.in_order import INSERT
from sash.monoids.collect import Collect
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Sum
from tests.aggregators.flat_fat_cases import leaves, window_of
from tests.conformance.machines import JOIN
from tests.shared.workloads import WORKLOADS


def eight() -> tuple[FlatFAT, OpCounter]:
    counted = OpCounter(JOIN)
    return window_of("abcdefgh", counted), counted


# ---- section 4: the tree ----


def test_eight_leaves_take_seven() -> None:
    window, counted = eight()
    assert (leaves(window), counted.taken()) == (8, 0)
    assert (window.query(), counted.taken()) == ("abcdefgh", 7)
    assert [window.nodes[v] for v in range(1, 8)] == ["abcdefgh", "abcd", "efgh", "ab", "cd", "ef", "gh"]


def test_updating_four_leaves_takes_six() -> None:
    """The first, second, fourth and seventh: above them are a, b, d, e, f and g of figure 4."""
    window, counted = eight()
    window.query()
    for i, value in zip((0, 1, 3, 6), "ABDG", strict=True):
        window.update(i, value)
    assert [v for v in range(1, 8) if window.dirty[v]] == [1, 2, 3, 4, 5, 7]
    counted.taken()
    assert (window.query(), counted.taken()) == ("ABcDefGh", 6)
    assert not any(window.dirty[v] for v in range(1, 8))


def test_a_prefix_of_seven_takes_two() -> None:
    window, counted = eight()
    window.query()
    counted.taken()
    assert (window.prefix(7), counted.taken()) == ("abcdefg", 2)
    assert (window.suffix(1), counted.taken()) == ("bcdefgh", 2)


@pytest.mark.parametrize("height", range(7))
def test_new_prefix_and_suffix_of_a_full_tree(height: int) -> None:
    """Theorem 4.2: n - 1 to build, log2 n at most for a prefix or suffix, and nothing for the aggregate."""
    n = 1 << height
    counted = OpCounter(Collect())
    window = window_of(range(n), counted)
    window.query()
    assert counted.taken() == n - 1
    for i in range(1, n + 1):
        assert window.prefix(i) == list(range(i))
        assert counted.taken() <= height
        assert window.suffix(i - 1) == list(range(i - 1, n))
        assert counted.taken() <= height
    window.query()
    assert counted.taken() == 0


# ---- section 5: the circular buffer ----


def test_a_window_of_the_latest_four_numbers() -> None:
    """Figure 5: what the slots hold, and where the first and the last element are."""
    window = window_of("0000")
    for _ in range(4):
        window.evict()
    steps: list[tuple[str, str, str, int, int]] = [
        ("4", "4", "4...", 0, 0),
        ("7", "47", "47..", 0, 1),
        ("3", "473", "473.", 0, 2),
        ("2", "4732", "4732", 0, 3),
        ("", "732", ".732", 1, 3),
        ("9", "7329", "9732", 1, 0),
    ]
    for arrives, contents, slots, first, last in steps:
        if arrives:
            window.insert(arrives)
        else:
            window.evict()
        assert leaves(window) == 4
        occupied = {position & 3 for position in range(window.F, window.E)}
        assert "".join(window.nodes[4 + slot] if slot in occupied else "." for slot in range(4)) == slots
        assert (first, last) == (window.F & 3, (window.E - 1) & 3)
        assert "".join(window) == window.query() == contents
        window.check_invariants()
    assert window.inverted()


def test_the_drawing() -> None:
    counted = OpCounter(Collect())
    window = FlatFAT(counted)
    for i in range(13):
        window.insert(i)
        if len(window) > 7:
            window.evict()
    assert (leaves(window), window.F, window.E) == (8, 6, 13)
    window.query()
    assert [window.nodes[v] for v in (2, 4, 5, 6, 7)] == [(8, 9, 10, 11), (8, 9), (10, 11), (12,), (6, 7)]
    counted.taken()
    assert (window.query(), counted.taken()) == (list(range(6, 13)), 2)


# ---- what it costs ----


def most(m: int, n: int) -> int:
    """Theorem 4.2, (ii)."""
    return m * (1 + math.ceil(math.log2(n / m))) if m else 0


class Changes:
    """A window, and which of its leaves changed since the last query."""

    def __init__(self) -> None:
        self.counted = OpCounter(Sum())
        self.window = FlatFAT(self.counted)
        self.leaves: set[int] = set()

    def change(self, position: int, operation: Callable[[], None]) -> None:
        window, height, full = self.window, self.window.height, position - self.window.F == leaves(self.window)
        leaf = window.node(0, position)
        operation()
        rebuilt = full or window.height != height
        self.leaves = {window.node(0, p) for p in range(window.F, window.E)} if rebuilt else self.leaves | {leaf}

    def insert(self) -> None:
        self.change(self.window.E, lambda: self.window.insert(1))

    def evict(self) -> None:
        self.change(self.window.F, self.window.evict)

    def evict_at(self, i: int) -> None:
        self.change(self.window.find(i), lambda: self.window.evict_at(i))

    def update(self, i: int) -> None:
        self.change(self.window.find(i), lambda: self.window.update(i, 2))

    def check_results(self) -> None:
        window, counted = self.window, self.counted
        assert counted.taken() == 0, "inserts, evicts and updates take none"
        if not len(window):
            return
        window.propagate()
        propagated = counted.taken()
        assert propagated <= most(len(self.leaves), leaves(window))
        window.query()
        read = counted.taken()
        assert read <= (2 * window.height if window.inverted() else 0)
        if not window.marking:
            assert propagated + read <= len(window) - 1
        self.leaves = set()


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("in_order", [True, False], ids=["first in, first out", "any order"])
def test_a_query_propagates_once(seed: int, in_order: bool) -> None:
    chance = random.Random(seed)
    changes = Changes()
    for block in range(60):
        growing = chance.random() < (0.7 if block % 20 < 10 else 0.3)
        for _ in range(chance.choice((1, 1, 2, 3, 10, 40))):
            size = len(changes.window)
            if growing or not size:
                changes.insert()
            elif in_order or chance.random() < 0.4:
                changes.evict()
            elif chance.random() < 0.5:
                changes.evict_at(chance.randrange(size))
            else:
                changes.update(chance.randrange(size))
        changes.check_results()


@pytest.mark.parametrize("changed", [1, 2, 3, 7, 16, 100, 256])
def test_scattered_updates(changed: int) -> None:
    counted = OpCounter(Sum())
    window = window_of(range(256), counted)
    window.query()
    for i in random.Random(changed).sample(range(256), changed):
        window.update(i, 0)
        window.update(i, 1)
    counted.taken()
    window.query()
    assert counted.taken() <= most(changed, 256)


def test_the_bound_is_met() -> None:
    """By leaves as far apart as can be: each has a path of its own, until all nodes of a level are taken."""
    for m in (1, 2, 4, 64):
        counted = OpCounter(Sum())
        window = window_of(range(64), counted)
        window.query()
        for i in range(0, 64, 64 // m):
            window.update(i, 0)
        counted.taken()
        window.query()
        assert most(m, 64) - m <= counted.taken() == m * int(math.log2(64 // m)) + m - 1 <= most(m, 64)


def test_a_query_after_a_resize_takes_all_but_one() -> None:
    counted = OpCounter(Sum())
    window = FlatFAT(counted)
    height = 0
    for i in range(1000):
        window.insert(i)
        counted.taken()
        window.query()
        if window.height > height:
            assert counted.taken() == len(window) - 1
        height = window.height


def test_first_in_first_out_spends_nothing_on_holes() -> None:
    window = FlatFAT(Sum())
    for operation in WORKLOADS["random"](3000):
        if operation == INSERT:
            window.insert(1)
        else:
            window.evict()
        assert (window.holes.slots(), window.dirty.slots(), window.marking) == (0, 0, False)
        window.query()
