"""Slide policies: what `enforce` evicts from LogMTA and AMTA, and how often it calls the policy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import sash
from sash.aggregators import AMTA, LogMTA, Recalc
from sash.aggregators.bulk_evict import BulkEvict
from sash.monoids import DirectProduct, Last, LongestRun, Max, Sum
from sash.monoids.by_place import BEST_START, LAST_AT
from sash.monoids.op_counter import OpCounter
from tests.aggregators.bulk_cases import COUNT, STEP, both, whole_log, window_of
from tests.conformance.machines import JOIN

# ---- policies: the paper's ----


@both
def test_listing_1_the_updates_of_the_last_hour(structure: type[BulkEvict]) -> None:
    window = structure(Max())
    hour = 3_600_000
    stamps = sorted(random.Random(1).randrange(10 * hour) for _ in range(300))
    for i, stamp in enumerate(stamps):
        window.insert(stamp)
        window.enforce(lambda total, old: total - old >= hour)
        window.check_invariants()
        assert list(window) == [s for s in stamps[: i + 1] if stamp - s < hour]


@both
@pytest.mark.parametrize("size", [1, 2, 7, 8, 100])
def test_listings_2_and_3_a_window_of_constant_size(structure: type[BulkEvict], size: int) -> None:
    monoid = sash.monoid(
        identity=(0, 0), lift=lambda _x: (1, size), combine=lambda a, b: (a[0] + b[0], b[1] or a[1]), exact=True
    )
    window = structure(monoid)
    removed = []
    for i in range(400):
        window.insert(i)
        removed.append(window.enforce(lambda total, old: total[0] - old[0] >= total[1]))
        assert len(window) == min(i + 1, size)
    assert removed == [0] * size + [1] * (400 - size)


@both
def test_figure_2_the_last_insert_evicts_all_others(structure: type[BulkEvict]) -> None:
    """Maximum of timestamps, a window of 4 units: asked about the blocks of the first level, then one step down.

    1  2  3  4  8      8 - 4 ≥ 4
    └──────────┘
    """
    window = structure(Max())
    policy = lambda total, old: total - old >= 4  # noqa: E731
    for stamp in (1, 2, 3, 4):
        window.insert(stamp)
        assert window.enforce(policy) == 0
    window.insert(8)
    assert window.enforce(policy) == 4
    assert (list(window), window.query()) == ([8], 8)
    window.check_invariants()


def at_most_ten(t: Any, p: Any) -> bool:
    return bool(t[0] - p[0] + p[1] > 10)


@both
@pytest.mark.parametrize(
    ("values", "left"), [((2, 2, 3, 3, 4), [3, 3, 4]), ((2, 2, 3, 3, 5), [3, 5]), ((11,), []), ((2, 2, 3, 3), None)]
)
def test_the_running_example_sums_to_at_most_ten(structure: type[BulkEvict], values: Any, left: Any) -> None:
    window = window_of(structure, DirectProduct(Sum(), Last(), Max()), values)
    assert window.enforce(at_most_ten) == (0 if left is None else len(values) - len(left))
    expected = list(values) if left is None else left
    assert [element[1][0] for element in window] == [(True, value) for value in expected]
    assert window.query()[0] == (sum(expected) if expected else None)
    assert window.query()[2] == max(expected, default=None)


@both
def test_all_that_is_older_than_the_maximum(structure: type[BulkEvict]) -> None:
    """Experiment 3: elements older than the maximum can never be the result again."""
    window = structure(DirectProduct(Max(), Last()))
    chance = random.Random(5)
    held: list[int] = []
    for _ in range(400):
        value = chance.randrange(1000)
        window.insert(value)
        held.append(value)
        window.enforce(lambda total, prefix: prefix[0] < total[0])
        del held[: held.index(max(held))]
        assert (len(window), window.query()[0]) == (len(held), held[0])


@both
def test_all_that_is_older_than_the_longest_run(structure: type[BulkEvict]) -> None:
    """Experiment 3: the longest increasing run, by start, end, interval and count."""
    whole, window = Recalc(LongestRun()), structure(LongestRun())
    chance = random.Random(6)
    removed = 0
    for at in range(300):
        value = chance.randrange(50)
        whole.insert(value, at)
        window.insert(value, at)
        removed += window.enforce(lambda total, prefix: prefix[LAST_AT] < total[BEST_START])
        assert window.query() == whole.query()
        assert next(iter(window))[LAST_AT] == window.query()[0]
    assert removed > 50


# ---- policies: anyone's ----


@both
def test_the_policy_is_asked_about_all_first(structure: type[BulkEvict]) -> None:
    asked: list[tuple[str, str]] = []
    window = window_of(structure, JOIN, "abcdefgh")

    def evict(total: str, prefix: str) -> bool:
        asked.append((total, prefix))
        return prefix < "abcd"

    assert window.enforce(evict) == 3
    assert asked[0] == ("abcdefgh", "abcdefgh")
    assert {total for total, _ in asked} == {"abcdefgh"}
    assert all("abcdefgh".startswith(prefix) for _, prefix in asked)
    asked.clear()
    assert window.enforce(lambda total, prefix: not asked.append((total, prefix))) == 5  # type: ignore[func-returns-value]
    assert asked == [("defgh", "defgh")]
    assert (len(window), window.query()) == (0, "")


@both
def test_the_empty_window_asks_nobody(structure: type[BulkEvict]) -> None:
    window = structure(Sum())
    assert window.enforce(lambda _total, _prefix: 1 / 0 > 0) == 0


@both
def test_a_policy_that_fails_changes_nothing(structure: type[BulkEvict]) -> None:
    for fails_at in range(8):
        window = window_of(structure, JOIN, "abcdefghijklmnop")
        calls = iter(range(100))

        def evict(_total: str, prefix: str, calls: Any = calls, fails_at: int = fails_at) -> bool:
            if next(calls) == fails_at:
                raise RuntimeError("no")
            return len(prefix) < 9

        try:
            window.enforce(evict)
        except RuntimeError:
            assert window.query() == "abcdefghijklmnop"
        else:
            assert window.query() == "ijklmnop"
        window.check_invariants()


@both
def test_a_policy_may_answer_with_anything_true_or_false(structure: type[BulkEvict]) -> None:
    window = window_of(structure, Max(), np.arange(10))
    assert window.enforce(lambda _total, prefix: np.bool_(prefix < 4)) == 4
    assert window.enforce(lambda _total, prefix: prefix < 6 and [prefix]) == 2


@both
def test_a_policy_that_is_not_monotone_stays_within_the_window(structure: type[BulkEvict]) -> None:
    chance = random.Random(8)
    for size in range(1, 60):
        window = window_of(structure, JOIN, "x" * size)
        removed = window.enforce(lambda _total, _prefix: chance.random() < 0.8)
        window.check_invariants()
        assert (len(window), window.query()) == (size - removed, "x" * (size - removed))


@both
@pytest.mark.parametrize("policy", [None, 3, "evict", Max()("x")])
def test_what_is_no_policy(structure: type[BulkEvict], policy: Any) -> None:
    with pytest.raises(TypeError, match=r"enforce\(evict\) takes a function of \(total, prefix\); got "):
        window_of(structure, Sum(), (1, 2)).enforce(policy)


# ---- what it costs ----


@both
def test_a_policy_is_asked_some_log_n_times(structure: type[BulkEvict]) -> None:
    times, combines = {LogMTA: (1, 1), AMTA: (4, 4)}[structure]
    counted = OpCounter(COUNT)
    for start in (0, 1, 21, 32, 63):
        for size in (1, 2, 3, 6, 14, 15, 16, 17, 33, 62, 100, 190):
            for n in range(0, size + 1, STEP):
                window = window_of(structure, counted, range(start + size))
                window.evict_many(start)
                window.query()
                counted.taken()
                asked = iter(range(1000))
                gone = lambda _total, prefix, n=n, asked=asked: (next(asked), prefix <= n)[1]  # noqa: E731
                assert window.enforce(gone) == n
                assert next(asked) <= times * whole_log(size) + 3
                window.query()
                most = combines * whole_log(size) + 3 * whole_log(size) + 3
                assert counted.taken() <= most


def test_to_give_up_few_is_asked_in_constant_time() -> None:
    """AMTA looks upwards from the front, so that a window that slides by one asks a few times whatever its size."""
    for size in (10, 1000, 30_000):
        window = window_of(AMTA, COUNT, range(size))
        asked = 0

        def evict(total: int, prefix: int, size: int = size) -> bool:
            nonlocal asked
            asked += 1
            return total - prefix >= size

        for i in range(200):
            window.insert(i)
            assert window.enforce(evict) == 1
        assert asked <= 4 * 200


@both
def test_a_policy_and_a_query_share_the_result(structure: type[BulkEvict]) -> None:
    counted = OpCounter(COUNT)
    window = window_of(structure, counted, range(1000))
    window.query()
    counted.taken()
    window.insert(1)
    window.enforce(lambda _total, _prefix: False)
    counted.taken()
    assert (window.query(), counted.taken()) == (1001, 0)
