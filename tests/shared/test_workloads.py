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


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_have_their_length(name: str) -> None:
    for length in (1, 2, 50, 301):
        times = ARRIVALS[name](length)
        assert len(times) == length
        if name != "equal":
            assert len({*times}) == length


def test_arrivals_are_out_of_order_but_for_one() -> None:
    assert [name for name, times in ARRIVALS.items() if times(300) == sorted(times(300))] == ["in_order"]
