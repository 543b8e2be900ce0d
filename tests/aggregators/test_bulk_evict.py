"""Bulk inserts and evictions of LogMTA and AMTA, compared with plain lists."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from sash.aggregators import AMTA, DABA, BInt, FlatFAT, LogMTA, Recalc
from sash.aggregators.bulk_evict import BulkEvict
from sash.aggregators.storage import SIZE
from sash.kernels import bulk
from sash.monoids import DirectProduct, Last, LongestRun, Max, Sum
from sash.monoids.op_counter import OpCounter
from tests.aggregators.bulk_cases import COUNT, STEP, both, whole_log, window_of
from tests.aggregators.probes import AFFINE
from tests.conformance.machines import SUBJECTS, Machine, small_chunks
from tests.shared.effort import seldom

# ---- evict_many ----


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


# ---- what it costs ----


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


# ---- many in at once ----


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
def test_compared_with_a_deque(structure: type[BulkEvict], subject: str) -> None:
    named = {"structure": structure, "subject": SUBJECTS[subject], "choice": CHOICES[subject]}
    driven = type(f"{structure.__name__}BulkMachine", (BulkMachine,), named)
    with small_chunks():
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples // 2))


# ---- compiled ----


@pytest.mark.parametrize("structure", [LogMTA, AMTA, DABA, FlatFAT, BInt])
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
