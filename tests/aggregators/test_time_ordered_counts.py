"""Counted costs of time-ordered structures: ⊕, visited nodes, coins, nodes that bulk operations touch."""

import math
import random
from typing import Any

import pytest

from sash.aggregators import AugmentedBTree, FiBA
from sash.aggregators.catalogue import Record
from sash.monoids import Sum
from sash.monoids.op_counter import OpCounter
from tests.aggregators.btree_cases import STRUCTURES, ancestors, counting, spent
from tests.shared.timed_structures import TIMED
from tests.shared.workloads import ARRIVALS

records = pytest.mark.parametrize("record", TIMED.values(), ids=TIMED)
SIZE = 4000


def window_of(structure: Any, times: Any, min_arity: int = 4, monoid: Any = None) -> Any:
    window = structure(monoid or Sum(), min_arity)
    for time in times:
        window.insert(time, 1)
    return window


# ---- ⊕ ----


@records
@pytest.mark.parametrize("arrival", ARRIVALS)
def test_no_operation_exceeds_its_worst_case(record: Record, arrival: str) -> None:
    counted = OpCounter(Sum())
    window: Any = record.cls(counted)
    chance = random.Random(1)
    for step, time in enumerate(ARRIVALS[arrival](400)):
        size = len(window) + 1
        counted.taken()
        window.insert(time, 1)
        assert counted.taken() <= record.worst["insert"].at(size)
        window.query()
        assert counted.taken() <= record.worst["query"].at(size)
        if step % 3 == 2:
            window.evict(None if step % 2 else chance.choice([t for t, _ in window]))
            assert counted.taken() <= record.worst["evict"].at(size)


@records
@pytest.mark.parametrize("size", [10, 100, 1000])
def test_averages_of_a_window_in_order(record: Record, size: int) -> None:
    counted = OpCounter(Sum())
    window = window_of(record.cls, range(size), monoid=counted)
    totals = {"insert": 0, "evict": 0, "query": 0}
    rounds = 4 * size
    for i in range(rounds):
        counted.taken()
        window.evict()
        totals["evict"] += counted.taken()
        window.insert(size + i, 1)
        totals["insert"] += counted.taken()
        window.query()
        totals["query"] += counted.taken()
    for operation, total in totals.items():
        assert total / rounds <= record.average[operation].at(size) * 1.02, operation


def test_a_change_of_fiba_costs_by_its_distance_not_by_the_size() -> None:
    """The average ⊕ of an insert and evict at distance d, in windows of two sizes that differ by 16."""
    costs = {}
    for size in (500, 8000):
        for d in (0, 10, 100):
            counted = OpCounter(Sum())
            window = window_of(FiBA, range(0, 2 * size, 2), monoid=counted)
            counted.taken()
            for i in range(300):
                time = 2 * (size - d) - 1 - 2 * (i % 7)
                window.insert(time, 1)
                window.evict(time)
            costs[size, d] = counted.taken() / 300
    for d in (0, 10, 100):
        assert costs[8000, d] <= 1.5 * costs[500, d] + 4
    assert costs[8000, 0] < costs[8000, 10] < costs[8000, 100]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_range_query_takes_a_logarithmic_number(structure: Any) -> None:
    counted = OpCounter(Sum())
    window = window_of(structure, range(SIZE), monoid=counted)
    chance = random.Random(3)
    for _ in range(300):
        start, stop = sorted(chance.choices(range(SIZE), k=2))
        counted.taken()
        assert window.query(start, stop) == stop - start + 1
        assert counted.taken() <= 8 + 14 * math.log2(stop - start + 2)


def test_a_short_range_near_an_end_visits_few_nodes() -> None:
    window = window_of(counting(FiBA), range(SIZE))
    for start, stop in [(SIZE - 20, SIZE), (SIZE - 30, SIZE - 20), (5, 9)]:
        window.done.clear()
        window.between(start, stop, True, True)
        assert window.done["rank"] + window.done["rank_through"] <= 12


# ---- nodes visited ----


@pytest.mark.parametrize("min_arity", [2, 4, 8])
@pytest.mark.parametrize("young", [True, False])
def test_a_search_at_distance_d_visits_as_many_nodes_as_log_d(min_arity: int, young: bool) -> None:
    """A search goes up the spine without reading nodes, and down as many levels."""
    window = window_of(counting(FiBA), range(SIZE), min_arity)
    for d in (0, 1, 2, 5, 10, 30, 100, 300, 1000, SIZE // 2 - 1):
        window.done.clear()
        window.find(SIZE - 1 - d if young else d)
        assert window.done["rank"] <= 2 + math.log(d + 1, min_arity), d


def test_the_baseline_searches_from_the_root() -> None:
    window = window_of(counting(AugmentedBTree), range(SIZE))
    window.done.clear()
    window.find(SIZE)
    assert window.done["rank"] == 1 + ancestors(window, window.left)


# ---- coins ----


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("min_arity", [2, 3, 4])
def test_two_coins_an_operation_are_enough(arrival: str, min_arity: int) -> None:
    """Splits, merges and moves; whatever the order, at any moment."""
    window = counting(FiBA)(Sum(), min_arity)
    chance, operations = random.Random(5), 0
    for phase in range(4):
        for time in ARRIVALS[arrival](300):
            window.insert(time + chance.random(), 1)
            operations += 1
            assert spent(window) <= 2 * operations
        while len(window) > 50 * phase:
            window.evict(chance.choice((window.oldest, window.youngest)))
            operations += 1
            assert spent(window) <= 2 * operations


def test_back_and_forth_at_a_border_costs_less_than_a_coin() -> None:
    """Where a tree of MAX_ARITY = 2·MIN_ARITY - 1 would split and merge forever."""
    window = window_of(counting(FiBA), range(SIZE))
    window.done.clear()
    for i in range(500):
        for k in range(3):
            window.insert(SIZE + k + i / 4000, 1)
        for _ in range(3):
            window.evict(window.youngest)
    assert spent(window) <= 3000 / 2


# ---- many at once ----


@pytest.mark.parametrize("structure", STRUCTURES)
def test_evict_through_touches_a_logarithmic_number_of_nodes(structure: Any) -> None:
    for m in (1, 10, 100, 1000, SIZE - 5):
        window = window_of(counting(structure), range(SIZE))
        before = len(window.links.rows)
        window.done.clear()
        window.cut(m - 1)
        levels = math.log(m + 1, 4) + 2 if structure is FiBA else math.log(SIZE, 4) + 2
        assert window.done["rank_through"] <= levels
        assert window.done["fold"] <= 6 * levels
        assert spent(window) <= 5 * levels
        assert len(window.links.rows) == before
        assert window.query() == SIZE - m


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("size", [50, 1000])
def test_a_batch_computes_each_aggregate_once(structure: Any, size: int) -> None:
    """Fewer ⊕ and fewer visits than one by one."""
    times = [i * 7919 % (3 * SIZE) + 0.5 for i in range(size)]
    costs = []
    for many in (True, False):
        counted = OpCounter(Sum())
        window = counting(structure)(counted)
        window.insert_many(range(0, 3 * SIZE, 3), [1] * SIZE)
        counted.taken()
        window.done.clear()
        if many:
            window.insert_many(times, [1] * size)
        else:
            for time in times:
                window.insert(time, 1)
        costs.append((counted.taken(), window.done["fold"]))
        window.check_invariants()
    assert costs[0][0] < 0.75 * costs[1][0]
    assert costs[0][1] < 0.75 * costs[1][1]


# ---- nodes are reused ----


def test_nodes_that_are_done_with_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in compiled code, where an operation returns no memory: a window that slides forever needs no new nodes."""
    monkeypatch.setattr("sash.aggregators.storage.BACK", 0)
    window = window_of(FiBA, range(500), 2)
    for i in range(300):
        window.evict()
        window.insert(500 + i, 1)
    most = window.fresh
    for i in range(800, 2000):
        window.evict_through(i - 500)
        window.insert(i, 1)
        window.evict(i - 250 + i % 100)
        assert window.fresh <= most + 3
    window.check_invariants()


def test_no_node_is_taken_by_the_operation_that_gave_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserts take and give up none; evictions give up and take none."""
    monkeypatch.setattr("sash.aggregators.storage.BACK", 0)
    calls: list[str] = []

    class Watched(FiBA):
        def take(self) -> int:
            calls.append("take")
            return super().take()

        def free_subtree(self, node: int) -> None:
            calls.append("free_subtree")
            super().free_subtree(node)

        def pop_free(self) -> int:
            node = super().pop_free()
            calls[:] = [call for call in calls if call != "free_subtree"]  # children of nodes that were free already
            return node

    chance = random.Random(2)
    window = Watched(Sum(), 2)
    for step in range(3000):
        calls.clear()
        time = chance.randrange(200)
        if step % 5 < 2:
            window.insert(time, 1)
        elif step % 5 == 2:
            window.insert_many([time, time + 1], [1, 1])
        elif step % 50 == 4:
            window.evict_through(time // 4)
        else:
            window.evict(time)
        assert len({*calls}) <= 1, calls


@records
@pytest.mark.parametrize("arrival", ARRIVALS)
def test_space(record: Record, arrival: str) -> None:
    """Slots for aggregates, in use or not; a few free nodes may wait for the next operation."""
    window: Any = record.cls(Sum())
    for time in ARRIVALS[arrival](300):
        window.insert(time, 1)
        kept = len(window.aggs.rows) + len(getattr(window, "own", window.aggs).rows)
        assert kept + 8 * len(window.vals.rows) <= record.space.at(len(window))
