"""Structures of dyadic blocks: any range of the window is queried, in window order."""

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from sash.aggregators import BInt, FlatFAT
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import RangeQuery
from sash.monoids.collect import Collect
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Count, Sum
from tests.conformance.machines import JOIN, SUBJECTS, Machine, small_chunks

DYADIC: list[type[RangeQuery]] = [FlatFAT, BInt]
every = pytest.mark.parametrize("structure", DYADIC)


def window_between(structure: type[RangeQuery], first: int, last: int, monoid: Any) -> RangeQuery:
    window = structure(monoid)
    for i in range(last):
        window.insert(i)
        if i < first:
            window.evict()
    return window


def test_these_are_all() -> None:
    assert [record.cls for record in IN_ORDER.values() if issubclass(record.cls, RangeQuery)] == DYADIC


@every
@pytest.mark.parametrize("n", [0, 1, 2, 7, 16, 21])
def test_every_range_wherever_the_window_starts(structure: type[RangeQuery], n: int) -> None:
    for first in range(35):
        window = window_between(structure, first, first + n, Collect())
        elements = list(range(first, first + n))
        for start in range(n + 1):
            for stop in range(start, n + 1):
                assert window.query_range(start, stop) == (elements[start:stop] or None)
            assert window.query_last(start) == (elements[n - start :] or None)


@every
def test_a_range_takes_two_log_of_its_length(structure: type[RangeQuery]) -> None:
    counted = OpCounter(Sum())
    for first in (0, 1, 13, 64):
        window = window_between(structure, first, first + 130, counted)
        window.query()
        counted.taken()
        for start in range(130):
            for stop in range(start + 1, 131):
                window.query_range(start, stop)
                assert counted.taken() <= math.floor(2 * math.log2(stop - start + 2)) - 3


@every
def test_the_youngest_of_more_than_there_are(structure: type[RangeQuery]) -> None:
    """Kernels query more elements than there are while a window fills."""
    window = window_between(structure, 2, 7, Collect())
    assert [window.last(n) for n in (1, 4, 5, 6, 100)] == [
        (6,), (3, 4, 5, 6), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6)
    ]  # fmt: skip


@every
def test_a_range_of_nothing(structure: type[RangeQuery]) -> None:
    assert structure(Count()).query_range(0, 0) == 0
    assert window_between(structure, 0, 3, Count()).query_range(2, 2) == 0
    assert window_between(structure, 0, 3, Sum()).query_range(2, 2) is None


@every
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 4), (2, 1), (4, 4), (-2, -1)])
def test_a_range_that_is_not_there(structure: type[RangeQuery], start: int, stop: int) -> None:
    window = structure(JOIN)
    for letter in "abc":
        window.insert(letter)
    with pytest.raises(ValueError, match=rf"query_range\({start}, {stop}\): the window has 3 elements"):
        window.query_range(start, stop)


@every
@pytest.mark.parametrize("wrong", [1.5, "1", None])
def test_what_is_no_number(structure: type[RangeQuery], wrong: Any) -> None:
    window = window_between(structure, 0, 3, Sum())
    with pytest.raises(TypeError, match="the start of query_range must be a whole number of elements; got"):
        window.query_range(wrong, 2)
    with pytest.raises(TypeError, match="the stop of query_range must be a whole number of elements; got"):
        window.query_range(0, wrong)


class DyadicMachine(Machine):
    """The common operations, and ranges."""

    window: RangeQuery

    @rule(data=st.data())
    def query_range(self, data: st.DataObject) -> None:
        start, stop = sorted(data.draw(st.integers(0, len(self.inserted))) for _ in range(2))
        assert self.window.query_range(start, stop) == self.defined(start, stop)

    @rule(data=st.data())
    def query_last(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(0, len(self.inserted)))
        assert self.window.query_last(n) == self.defined(len(self.inserted) - n, len(self.inserted))

    def defined(self, start: int, stop: int) -> Any:
        return self.subject.defined([value for value in list(self.inserted)[start:stop] if value is not None])


@every
@pytest.mark.parametrize("subject", ["join", "collect"])
def test_compared_with_a_deque(structure: type[RangeQuery], subject: str) -> None:
    driven = type("Driven", (DyadicMachine,), {"structure": structure, "subject": SUBJECTS[subject]})
    with small_chunks():
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples // 2))
