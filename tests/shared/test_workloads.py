"""The workloads are legal, have the requested length, and match their names."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators.in_order import EVICT, INSERT
from tests.shared.workloads import ARRIVALS, WORKLOADS


def sizes(operations: list[int]) -> list[int]:
    """The size of the window after each operation."""
    return list(accumulate(1 if operation == INSERT else -1 for operation in operations))


@pytest.mark.parametrize("name", WORKLOADS)
@given(length=st.integers(0, 500))
def test_legal(name: str, length: int) -> None:
    operations = WORKLOADS[name](length)
    assert len(operations) == length
    assert {*operations} <= {INSERT, EVICT}
    assert min(sizes(operations), default=0) >= 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_each_time(name: str) -> None:
    assert WORKLOADS[name](400) == WORKLOADS[name](400)


@pytest.mark.parametrize("name", WORKLOADS)
def test_both_operations_occur(name: str) -> None:
    assert {*WORKLOADS[name](100)} == {INSERT, EVICT}


def test_fixed_stays_at_its_width() -> None:
    assert {*sizes(WORKLOADS["fixed"](800))[100:]} == {99, 100}


def test_growing_grows() -> None:
    assert sizes(WORKLOADS["growing"](400))[-1] == 200


def test_shrinking_shrinks_from_the_middle_on() -> None:
    found = sizes(WORKLOADS["shrinking"](400))
    assert max(found) == found[199] == 200
    assert found[-1] == 100


def test_oscillating_never_empties() -> None:
    found = sizes(WORKLOADS["oscillating"](900))
    assert min(found) == 1
    assert max(found) == 101
    assert found.count(1) >= 4


def test_refilled_empties_repeatedly() -> None:
    found = sizes(WORKLOADS["refilled"](1200))
    assert max(found) == 100
    assert found.count(0) == 6


def test_single_holds_one_element() -> None:
    assert max(sizes(WORKLOADS["single"](100))) == 1


def test_random_goes_up_and_down() -> None:
    found = sizes(WORKLOADS["random"](3000))
    assert min(found) == 0
    assert max(found) > 50


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_have_their_length(name: str) -> None:
    for length in (1, 2, 50, 301):
        times = ARRIVALS[name](length)
        assert len(times) == length
        if name != "equal":
            assert len({*times}) == length


def test_arrivals_are_out_of_order_but_for_one() -> None:
    assert [name for name, times in ARRIVALS.items() if times(300) == sorted(times(300))] == ["in_order"]
