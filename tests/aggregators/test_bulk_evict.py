"""Many in and out at once, and slide policies: LogMTA and AMTA beside plain lists."""

from __future__ import annotations

import math
import random
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import sash
from sash.aggregators import AMTA, DABA, LogMTA, Recalc
from sash.aggregators.bulk_evict import BulkEvict
from sash.aggregators.queue import SIZE
from sash.kernels import bulk
from sash.monoids import DirectProduct, Last, LongestRun, Max, Sum
from sash.monoids.longest_run import BEST_START, LAST_AT
from tests.aggregators.probes import AFFINE
from tests.conformance.machines import JOIN, SUBJECTS, Machine, small_chunks
from tests.shared.effort import THOROUGH, seldom, share
from tests.shared.op_counter import OpCounter

both = pytest.mark.parametrize("structure", [LogMTA, AMTA])
STEP = 1 if THOROUGH else 5
"""Every so many of the numbers that can leave at once are counted."""
COUNT = sash.monoid(identity=0, lift=lambda _x: 1, combine=lambda a, b: a + b, exact=True, name="count all")


def window_of(structure: type[BulkEvict], monoid: Any, values: Any, **keywords: Any) -> BulkEvict:
    window = structure(monoid, **keywords)
    for value in values:
        window.insert(value)
    return window


def whole_log(n: int) -> int:
    return n.bit_length() - 1


# ---- evict_many ----


@both
@pytest.mark.parametrize("queried", [False, True])
def test_any_number_at_any_place(structure: type[BulkEvict], queried: bool) -> None:
    for start in (0, 1, 5, 8, 30):
        for size in range(24):
            for n in range(size + 1):
                window = window_of(structure, JOIN, "-" * start + "abcdefghijklmnopqrstuvwxyz"[:size])
                window.evict_many(start)
                if queried:
                    window.query()
                window.evict_many(n)
                window.check_invariants()
                assert (len(window), window.query()) == (size - n, "abcdefghijklmnopqrstuvwxyz"[n:size])
                window.check_invariants()


@both
def test_evict_many_says_what_is_wrong(structure: type[BulkEvict]) -> None:
    window = window_of(structure, Sum(), (1, 2, 3))
    with pytest.raises(IndexError, match=r"evict_many\(4\): the window has 3 elements"):
        window.evict_many(4)
    with pytest.raises(ValueError, match=r"evict_many\(-1\): n must be at least 0"):
        window.evict_many(-1)
    for n in (1.0, "1", None):
        with pytest.raises(TypeError, match=r"n of evict_many\(n\) must be a whole number of elements; got "):
            window.evict_many(n)  # type: ignore[arg-type]
    assert window.query() == 6
    window.evict_many(np.int64(2))  # type: ignore[arg-type]
    window.evict_many(0)
    assert window.query() == 3
    window.evict_many(1)
    window.evict_many(0)
    assert window.query() is None
    with pytest.raises(IndexError, match=r"evict_many\(1\): the window has 0 elements"):
        window.evict_many(1)


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
@pytest.mark.parametrize("kind", [int, float])
def test_the_running_example_on_a_stream(structure: type[BulkEvict], kind: Any) -> None:
    window = structure(DirectProduct(Sum(), Last()))
    chance = random.Random(3)
    held: list[Any] = []
    for _ in range(500):
        value = kind(chance.randrange(8) if chance.random() < 0.95 else 11)
        window.insert(value)
        held.append(value)
        window.enforce(at_most_ten)
        while sum(held) > 10:
            del held[0]
        assert [element[1][0][1] for element in window] == held
        assert window.query()[0] == (sum(held) if held else None)


@both
def test_all_that_is_older_than_the_maximum(structure: type[BulkEvict]) -> None:
    """Experiment 3: what is older than the maximum will never be the answer again."""
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
def test_a_policy_removes_the_longest_prefix_it_gives_up(structure: type[BulkEvict]) -> None:
    for start in (0, 3, 8):
        for size in range(40):
            for kept in range(size + 1):
                window = window_of(structure, COUNT, range(start + size))
                window.evict_many(start)
                removed = window.enforce(lambda total, prefix, kept=kept: total - prefix >= kept)
                assert (removed, len(window)) == (size - kept, kept)
                window.check_invariants()


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
def test_evictions_at_once_cost_some_log_n(structure: type[BulkEvict]) -> None:
    evict, together = {LogMTA: (1, 1), AMTA: (2, 3)}[structure]
    counted = OpCounter(COUNT)
    for start in (0, 1, 21, 32, 63, 64):
        for size in (1, 2, 3, 6, 14, 15, 16, 17, 33, 62, 63, 100, 190, 300):
            filled = window_of(structure, counted, range(start + size))
            filled.evict_many(start)
            for queried in range(2):
                if queried:
                    filled.query()
                for n in range(0, size + 1, STEP):
                    window = filled.copy()
                    counted.taken()
                    window.evict_many(n)
                    first = counted.taken()
                    assert first <= evict * whole_log(size)
                    window.query()
                    assert first + counted.taken() <= together * whole_log(size)


@both
def test_a_query_without_a_change_costs_nothing(structure: type[BulkEvict]) -> None:
    """Section 5.2: while a result is valid, nothing is computed to give it."""
    counted = OpCounter(COUNT)
    window = window_of(structure, counted, range(100))
    changes: list[Callable[[], Any]] = [
        lambda: window.insert(1),
        window.evict,
        lambda: window.evict_many(20),
        lambda: window.insert_many(range(30)),
        lambda: window.enforce(lambda total, prefix: total - prefix >= 64),
        lambda: window.push(1),
    ]
    for change in changes:
        change()
        assert window.query() == len(window)
        counted.taken()
        assert [window.query() for _ in range(3)] == [len(window)] * 3
        window.enforce(lambda _total, _prefix: False)
        window.evict_many(0)
        assert (window.query(), counted.taken()) == (len(window), 0)
    window.clear()
    assert window.query() == 0


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


# ---- many in at once ----


@both
def test_insert_many_is_insert_for_each(structure: type[BulkEvict]) -> None:
    apart, together = structure(JOIN), structure(JOIN)
    for size in (0, 1, 2, 3, 7, 100):
        for letter in "abcdefg"[: size % 8] * (size // 8 + 1):
            apart.insert(letter)
        together.insert_many("abcdefg"[: size % 8] * (size // 8 + 1))
        together.check_invariants()
        assert (list(together), together.query()) == (list(apart), apart.query())


@both
def test_insert_many_takes_what_insert_takes(structure: type[BulkEvict]) -> None:
    window = structure(DirectProduct(Sum(), Last()))
    window.insert_many(iter([1, None, 2]))
    assert (len(window), window.query()) == (3, (3, 2))
    pairs = structure(LongestRun())
    pairs.insert_many([(3, 1), (4, 2)])
    assert pairs.query() == Recalc.query(window_of_rows(Recalc, LongestRun(), [(3, 1), (4, 2)]))


def window_of_rows(structure: Any, monoid: Any, rows: Any) -> Any:
    window = structure(monoid)
    for row in rows:
        window.insert(*row)
    return window


@both
def test_a_row_that_cannot_be_lifted_is_found_before_any_is_inserted(structure: type[BulkEvict]) -> None:
    window = window_of(structure, Sum(), (1, 2))
    with pytest.raises(TypeError):
        window.insert_many([3, 4, "five"])
    window.check_invariants()
    assert (len(window), window.query()) == (2, 3)


# ---- memory ----


class Thing:
    """An object that can be watched."""


@both
@pytest.mark.parametrize("queried", [False, True])
def test_what_was_evicted_at_once_is_released_in_the_end(structure: type[BulkEvict], queried: bool) -> None:
    things = [Thing() for _ in range(3000)]
    watched = [weakref.ref(thing) for thing in things]
    window = window_of(structure, Last(), things)
    del things
    if queried:
        window.query()
    window.evict_many(2990)
    for _ in range(30):
        window.insert(None)
        window.query()
    assert [thing() is not None for thing in watched] == [False] * 2990 + [True] * 10
    window.evict_many(len(window))
    for _ in range(30):
        window.insert(None)
    assert not any(thing() is not None for thing in watched)


@both
@pytest.mark.parametrize("step", [3, 200, 4000])
def test_memory_in_a_long_stream_of_evictions_at_once(structure: type[BulkEvict], step: int) -> None:
    window = window_of(structure, COUNT, range(1000))
    for _ in range(share(60_000) // step):
        for i in range(step):
            window.insert(i)
        window.evict_many(step)
        window.query()
        assert window.levels.slots() <= 2 * (1000 + step) + 3 * SIZE * (whole_log(1000 + step) + 2)


@both
def test_memory_follows_the_window_down(structure: type[BulkEvict]) -> None:
    window = window_of(structure, COUNT, range(50_000))
    levels = len(window.levels.queues)
    window.evict_many(49_990)
    for i in range(400):
        window.insert(i)
        window.evict()
    assert window.levels.slots() <= 2 * SIZE * levels
    window.evict_many(10)
    assert window.levels.slots() <= 2 * SIZE * levels
    window.clear()
    assert window.levels.slots() == 0


@both
def test_heights_follow_the_window(structure: type[BulkEvict]) -> None:
    window: Any = window_of(structure, COUNT, range(5000))
    window.query()
    assert whole_log(5000) - 1 <= window.top <= whole_log(5000) + 1
    for size in (4000, 1000, 100, 17, 3, 1):
        window.evict_many(len(window) - size)
        window.query()
        assert window.top <= math.ceil(math.log2(size))
        for i in range(3 * size):
            window.insert(i)
            window.evict()
            window.query()
            assert window.top <= math.ceil(math.log2(size))


# ---- driven at random ----


@dataclass(frozen=True)
class Choice:
    """A monotone policy for an aggregate, by a number."""

    policy: Callable[[int], Callable[[Any, Any], bool]]


CHOICES = {
    "join": Choice(lambda n: lambda total, prefix: len(total) - len(prefix) >= n),
    "collect": Choice(lambda n: lambda _total, prefix: len(prefix) < n),
    "max": Choice(lambda n: lambda _total, prefix: prefix is None or prefix < n - 5),
}


class BulkMachine(Machine):
    """The machine of all structures, with evictions at once and policies."""

    window: BulkEvict
    choice: Choice

    @rule(share=st.floats(0, 1))
    def evict_many(self, share: float) -> None:
        n = round(share * len(self.inserted))
        self.window.evict_many(n)
        for _ in range(n):
            self.inserted.popleft()

    @rule(by=st.integers(0, 12))
    def enforce(self, by: int) -> None:
        policy, monoid = self.choice.policy(by), self.subject.monoid
        lifted = [monoid.lifted((value,)) for value in self.inserted]
        prefixes = [monoid.identity]
        for state in lifted:
            prefixes.append(monoid.combine(prefixes[-1], state))
        evictable = [n for n in range(1, len(prefixes)) if policy(prefixes[-1], prefixes[n])]
        assert self.window.enforce(policy) == max(evictable, default=0)
        for _ in range(max(evictable, default=0)):
            self.inserted.popleft()

    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        for value in data.draw(st.lists(self.subject.values, min_size=20, max_size=60)):
            self._insert(value)


@both
@pytest.mark.parametrize("subject", CHOICES)
def test_beside_a_deque(structure: type[BulkEvict], subject: str) -> None:
    named = {"structure": structure, "subject": SUBJECTS[subject], "choice": CHOICES[subject]}
    driven = type(f"{structure.__name__}BulkMachine", (BulkMachine,), named)
    with small_chunks():
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples // 2))


# ---- compiled ----


@pytest.mark.parametrize("structure", [LogMTA, AMTA, DABA])
@pytest.mark.parametrize(("width", "step"), [(1, 1), (5, 3), (16, 16), (100, 7), (64, 300), (500, 1)])
def test_compiled_evictions_at_once(structure: Any, width: int, step: int) -> None:
    values = np.random.default_rng(4).integers(0, 1000, 1500)
    found = bulk(structure, AFFINE, (values,), width, step)
    assert found.why_interpreted == ""
    assert found.to_list() == bulk(Recalc, AFFINE, (values,), width, step).to_list()
    found.structure.check_invariants()


@both
@pytest.mark.parametrize(("monoid", "values"), [seldom(Max(), "floats"), seldom(Sum(), "ints"), (Sum(), "floats")])
def test_compiled_evictions_at_once_of_our_monoids(structure: type[BulkEvict], monoid: Any, values: str) -> None:
    chance = np.random.default_rng(4)
    column = chance.random(1000) if values == "floats" else chance.integers(-50, 50, 1000)
    found = bulk(structure, monoid, (column,), 90, 13)
    assert found.why_interpreted == ""
    assert found.to_list() == pytest.approx(bulk(Recalc, monoid, (column,), 90, 13).to_list(), rel=1e-12)


@pytest.mark.parametrize(("width", "step"), [(0, 1), (1, 0), (8, 3), (10, 1)])
def test_too_few_rows_for_evictions_at_once(width: int, step: int) -> None:
    with pytest.raises(ValueError, match=f"10 rows do not fill a window of {width} and batches of {step}"):
        bulk(AMTA, Max(), (np.arange(10),), width, step)
