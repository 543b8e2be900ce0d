"""Structures that answer several ranges together: how ranges are given, kept and answered."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from sash.aggregators import DABA, FlatFIT, Recalc, SlickDequeInv, SlickDequeNonInv
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import RegisteredRanges, SuffixQuery
from sash.monoids.extremes import Max
from sash.monoids.sums import Count, Sum
from tests.conformance.machines import SUBJECTS, Machine, Subject, admits, fitting, small_chunks

RANGED: list[type[RegisteredRanges]] = [FlatFIT, SlickDequeInv, SlickDequeNonInv]
every = pytest.mark.parametrize("structure", RANGED)

VALUES = [3, 1, 4, 1, 5, 9, 2, 6]


def window_of(structure: type[RegisteredRanges], ranges: Any, values: Any = VALUES) -> RegisteredRanges:
    window = structure(fitting(structure), ranges)
    for value in values:
        window.insert(value)
    return window


def expected(window: RegisteredRanges, values: list[int]) -> tuple[Any, ...]:
    fold = sum if isinstance(window.monoid, Sum) else max
    return tuple(fold(values[-n:]) for n in window.ranges)


def test_these_are_all() -> None:
    assert [record.cls for record in IN_ORDER.values() if issubclass(record.cls, RegisteredRanges)] == RANGED
    for record in IN_ORDER.values():
        assert hasattr(record.cls, "query_last") == issubclass(record.cls, SuffixQuery), record.name
    assert issubclass(Recalc, SuffixQuery)
    assert not issubclass(DABA, SuffixQuery)


# ---- how ranges are given ----


@every
def test_answers_come_in_the_order_of_the_ranges(structure: type[RegisteredRanges]) -> None:
    window = window_of(structure, (3, 8, 1, 3, 5))
    assert window.ranges == (3, 8, 1, 3, 5)
    assert window.query_ranges() == expected(window, VALUES)
    assert window.query_ranges() == expected(window, VALUES), "and again"


@every
def test_any_iterable_of_integers(structure: type[RegisteredRanges]) -> None:
    for ranges in ([1, 2], iter([1, 2]), range(1, 3), np.array([1, 2]), {1: "a", 2: "b"}):
        window = window_of(structure, ranges)
        assert window.ranges == (1, 2)
        assert all(type(n) is int for n in window.ranges)


@pytest.mark.parametrize(
    ("structure", "monoid", "nothing"),
    [(FlatFIT, Count(), 0), (FlatFIT, Max(), None), (SlickDequeInv, Count(), 0), (SlickDequeNonInv, Max(), None)],
)
def test_the_empty_window(structure: type[RegisteredRanges], monoid: Any, nothing: Any) -> None:
    window = structure(monoid, ranges=(1, 4))
    assert window.query_ranges() == (nothing, nothing)
    window.insert(7)
    assert window.query_ranges() != (nothing, nothing)
    window.evict()
    assert window.query_ranges() == (nothing, nothing)
    assert window.query_last(0) == nothing


@every
@pytest.mark.parametrize("ranges", [(0,), (3, -1), (0, 3)])
def test_a_range_below_one(structure: type[RegisteredRanges], ranges: tuple[int, ...]) -> None:
    wrong = min(ranges)
    with pytest.raises(ValueError, match=f"a range must have at least one element; got {wrong}"):
        structure(fitting(structure), ranges)
    window = window_of(structure, (2,))
    with pytest.raises(ValueError, match=f"a range must have at least one element; got {wrong}"):
        window.watch(wrong)
    assert window.ranges == (2,)
    window.check_invariants()


@every
@pytest.mark.parametrize("wrong", [1.0, "3", None, 2.5])
def test_a_range_that_is_no_integer(structure: type[RegisteredRanges], wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"a range must be a whole number of elements; got {wrong!r}"):
        structure(fitting(structure), (3, wrong))
    with pytest.raises(TypeError, match=f"a range must be a whole number of elements; got {wrong!r}"):
        window_of(structure, ()).watch(wrong)
    with pytest.raises(TypeError, match="must be a whole number of elements"):
        window_of(structure, ()).query_last(wrong)


@every
def test_ranges_that_are_none(structure: type[RegisteredRanges]) -> None:
    with pytest.raises(TypeError, match=r"ranges= takes several numbers of elements, such as \(3, 5\); got 5"):
        structure(fitting(structure), 5)  # type: ignore[arg-type]


@every
def test_query_last_of_more_than_there_is(structure: type[RegisteredRanges]) -> None:
    window = window_of(structure, ())
    for n in (-1, 9):
        with pytest.raises(ValueError, match=rf"query_last\({n}\): the window has 8 elements"):
            window.query_last(n)


# ---- what keeps the ranges ----


@every
def test_clear_keeps_the_ranges(structure: type[RegisteredRanges]) -> None:
    window = window_of(structure, (3, 1))
    window.watch(6)
    window.clear()
    window.check_invariants()
    assert (len(window), window.ranges) == (0, (3, 1, 6))
    for value in VALUES:
        window.insert(value)
    window.check_invariants()
    assert window.query_ranges() == expected(window, VALUES)


@every
@pytest.mark.parametrize(
    "twin_of", [lambda w: w.copy(), copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))]
)
def test_a_twin_has_the_ranges_and_goes_its_own_way(structure: type[RegisteredRanges], twin_of: Any) -> None:
    window = window_of(structure, (3, 1))
    window.watch(6)
    twin = twin_of(window)
    window.watch(2)
    window.insert(7)
    twin.evict()
    for either in (window, twin):
        either.check_invariants()
    assert (window.ranges, twin.ranges) == ((3, 1, 6, 2), (3, 1, 6))
    assert window.query_ranges() == expected(window, [*VALUES, 7])
    assert twin.query_ranges() == expected(twin, VALUES[1:])


# ---- driven at random ----


class RangedMachine(Machine):
    """A structure with registered ranges, compared with a deque."""

    window: RegisteredRanges
    MOST = 6

    def by_definition(self, n: int) -> Any:
        return self.subject.defined([value for value in [*self.inserted][-n:] if value is not None])

    @precondition(lambda self: len(self.window.ranges) < self.MOST)
    @rule(n=st.integers(1, 20))
    def watch(self, n: int) -> None:
        self.window.watch(n)

    @rule()
    def query_ranges(self) -> None:
        assert self.window.query_ranges() == tuple(self.by_definition(n) for n in self.window.ranges)

    @precondition(lambda self: self.inserted)
    @rule(data=st.data())
    def query_last(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, len(self.inserted)))
        assert self.window.query_last(n) == self.by_definition(n)

    @rule(data=st.data(), width=st.integers(1, 9), rounds=st.integers(1, 12))
    def slide(self, data: st.DataObject, width: int, rounds: int) -> None:
        """Evict if full, insert, and query all ranges, as in the paper."""
        for _ in range(rounds):
            while len(self.inserted) >= width:
                self.evict()
            self._insert(data.draw(self.subject.values))
            self.query_ranges()


PAIRS = [(structure, name) for structure in RANGED for name in SUBJECTS if admits(structure, SUBJECTS[name].monoid)]


def ranged_machine(structure: type[RegisteredRanges], subject: Subject) -> type[RangedMachine]:
    return type(f"Ranged{structure.__name__}", (RangedMachine,), {"structure": structure, "subject": subject})


@pytest.mark.parametrize(("structure", "subject"), PAIRS)
def test_compared_with_a_deque(structure: type[RegisteredRanges], subject: str) -> None:
    driven = ranged_machine(structure, SUBJECTS[subject])
    with small_chunks():
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples // 2))


def test_every_one_is_driven() -> None:
    assert {structure for structure, _ in PAIRS} == set(RANGED)
