"""The queue: values by position, and memory that follows the window."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators.catalogue import IN_ORDER, Record
from sash.aggregators.storage import MASK, SIZE, Queue
from tests.conformance.machines import fitting, queues
from tests.shared.effort import share

records = pytest.mark.parametrize("record", IN_ORDER.values(), ids=IN_ORDER)


def filled(start: int, stop: int) -> Queue:
    queue = Queue()
    for position in range(start, stop):
        queue[position] = f"v{position}"
    return queue


@given(st.integers(0, 3 * SIZE), st.lists(st.sampled_from(["push", "push", "drop"]), max_size=400))
def test_compared_with_a_deque(start: int, steps: list[str]) -> None:
    queue, oracle = Queue(), deque[int]()
    front = back = start
    for step in steps:
        if step == "push":
            queue[back] = back
            oracle.append(back)
            back += 1
        elif oracle:
            queue.drop_front(front)
            oracle.popleft()
            front += 1
    assert [queue[position] for position in range(front, back)] == list(oracle)


@given(st.lists(st.integers(1, 300), max_size=6))
def test_as_a_stack(heights: list[int]) -> None:
    queue, height = Queue(), 0
    for wanted in heights:
        for position in range(height, wanted):
            queue[position] = position
        for position in range(height - 1, wanted - 1, -1):
            queue.drop_back(position)
        height = wanted
        assert [queue[position] for position in range(height)] == list(range(height))
        assert height <= queue.slots() < height + SIZE


@pytest.mark.parametrize("drop", [Queue.drop_front, Queue.drop_back])
@pytest.mark.parametrize("position", [0, 5, MASK, SIZE, SIZE + 1])
def test_a_dropped_slot_holds_nothing(drop: object, position: int) -> None:
    queue = filled(position, position + 1)
    drop(queue, position)  # type: ignore[operator]
    assert all(value is None for chunk in queue.chunks.values() for value in chunk)


def test_one_operation_allocates_one_chunk_at_most() -> None:
    queue = Queue()
    before = 0
    for position in range(5 * SIZE):
        queue[position] = position
        assert queue.slots() - before in (0, SIZE)
        before = queue.slots()
        if position >= 300:
            queue.drop_front(position - 300)
            assert before - queue.slots() in (0, SIZE)
            before = queue.slots()


@records
@pytest.mark.parametrize("width", [1, 100, 1000])
def test_memory_over_a_long_stream(record: Record, width: int) -> None:
    """One of 20,000 elements, or of 8,000."""
    window = record.cls(fitting(record.cls))
    for i in range(share(20_000)):
        window.insert(i)
        if len(window) > width:
            window.evict()
        if i % 61 == 0:
            most = record.space.at(width) + 2 * SIZE * len(queues(window))
            assert sum(queue.slots() for queue in queues(window)) <= most, i
    assert len(window) == width


@records
@pytest.mark.parametrize("size", [1, MASK, SIZE, SIZE + 1, 1000])
def test_an_emptied_window_keeps_one_chunk_at_most(record: Record, size: int) -> None:
    window = record.cls(fitting(record.cls))
    for _ in range(3):
        for i in range(size):
            window.insert(i)
        for _ in range(size):
            window.evict()
        assert all(queue.slots() <= SIZE for queue in queues(window))


@records
def test_space_is_that_of_the_catalogue(record: Record) -> None:
    """At most the slots in the catalogue, and one chunk at either end of each queue."""
    window = record.cls(fitting(record.cls))
    n = 20 * SIZE
    for i in range(3 * n):
        window.insert(i)
        if len(window) > n:
            window.evict()
        slots = sum(queue.slots() for queue in queues(window))
        assert slots <= record.space.at(len(window)) + 2 * SIZE * len(queues(window))


@records
def test_no_insert_allocates_more_than_a_chunk_a_queue(record: Record) -> None:
    if not record.constant:
        return  # what promises no bound on an operation may move into a larger array now and then
    window = record.cls(fitting(record.cls))
    for i in range(10 * SIZE):
        before = [queue.slots() for queue in queues(window)]
        window.insert(i)
        grown = [queue.slots() - slots for queue, slots in zip(queues(window), before, strict=True)]
        assert all(slots in (0, SIZE) for slots in grown)
        if i % 3 == 2:
            window.evict()


@records
def test_clear_releases_the_memory(record: Record) -> None:
    window = record.cls(fitting(record.cls))
    for i in range(1000):
        window.insert(i)
    window.clear()
    assert [queue.slots() for queue in queues(window)] == [0] * len(queues(window))
    assert (len(window), window.query()) == (0, None)
