"""BlockLevels: blocks by level and number, released a few chunks per call, and all of them in the end."""

import pickle
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators.storage import SIZE, Levels, Queue
from tests.conformance.machines import small_chunks


def filled(numbers: range, level: int = 0) -> Levels:
    levels = Levels()
    for number in numbers:
        levels[level, number] = f"{level}:{number}"
    return levels


def held(levels: Levels) -> set[Any]:
    """What is still referred to."""
    return {v for queue in levels.queues for chunk in queue.chunks.values() for v in chunk if v is not None}


# ---- blocks ----


def test_a_level_may_begin_anywhere() -> None:
    levels = Levels()
    levels[2, 10**9] = "far"
    levels[0, 4 * 10**9] = "below"
    assert (levels[2, 10**9], levels[0, 4 * 10**9]) == ("far", "below")
    assert levels.slots() == 2 * SIZE


def test_a_level_may_begin_below_one_that_was_there_before() -> None:
    levels = Levels()
    levels[1, 8] = "above"
    levels.drop_before(0, 4)
    for number in range(4, 20):
        levels[0, number] = number
    levels.drop_before(0, 12)
    assert held(levels) == {"above", *range(12, 20)}


def test_a_single_block_goes_at_once() -> None:
    levels = filled(range(3 * SIZE))
    for number in range(3 * SIZE):
        levels.drop_before(0, number + 1)
        assert held(levels) == {f"0:{i}" for i in range(number + 1, 3 * SIZE)}
    assert levels.slots() == 0


def test_a_single_block_goes_at_once_while_others_wait() -> None:
    levels = filled(range(100 * SIZE))
    levels.drop_before(0, 90 * SIZE)
    for number in range(90 * SIZE, 90 * SIZE + 5):
        assert f"0:{number}" in held(levels)
        levels.drop_before(0, number + 1)
        assert f"0:{number}" not in held(levels)
    assert levels.slots() > 40 * SIZE


# ---- many at once ----


def test_many_at_once_take_a_few_chunks_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = filled(range(1000 * SIZE))
    steps: list[int] = []
    drop_some = Queue.drop_some

    def watched(queue: Queue, start: int, stop: int) -> int:
        reached = drop_some(queue, start, stop)
        steps.append(reached - start)
        return reached

    monkeypatch.setattr(Queue, "drop_some", watched)
    levels.drop_before(0, 999 * SIZE + 7)
    assert len(steps) <= 5
    assert max(steps) <= SIZE
    assert [levels[0, i] for i in range(999 * SIZE + 7, 1000 * SIZE, 50)]


@pytest.mark.parametrize("afterwards", ["write", "drop one", "drop on another level"])
def test_the_rest_follows_with_the_next_calls(afterwards: str) -> None:
    levels = filled(range(400 * SIZE))
    levels[1, 0] = "x"
    end = 400 * SIZE
    levels.drop_before(0, end - 10)
    for i in range(100):
        if afterwards == "write":
            levels[0, end + i] = "new"
        elif afterwards == "drop one":
            levels.drop_before(0, min(end - 9 + i, end))
        else:
            levels.drop_before(1, 0)
    assert not any(str(value).startswith("0:") for value in held(levels) - {f"0:{i}" for i in range(end - 10, end)})
    assert levels.slots() <= 4 * SIZE


operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 30)),
        st.tuples(st.just("drop"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.just("copy"), st.just(0), st.just(0)),
        st.tuples(st.just("pickle"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(st.integers(0, 9), operations)
def test_compared_with_a_dict(start: int, steps: list[tuple[str, int, int]]) -> None:
    with small_chunks():
        levels = Levels()
        oracle: dict[tuple[int, int], int] = {}
        begins, ends = [start] * 3, [start] * 3
        for what, level, count in steps:
            if what == "write":
                for number in range(ends[level], ends[level] + count):
                    levels[level, number] = oracle[level, number] = 100 * number + level
                ends[level] += count
            elif what == "drop":
                begins[level] = min(begins[level] + count, ends[level])
                levels.drop_before(level, begins[level])
                oracle = {key: v for key, v in oracle.items() if key[0] != level or key[1] >= begins[level]}
            else:
                levels = levels.copy() if what == "copy" else pickle.loads(pickle.dumps(levels))
            assert all(levels[key] == value for key, value in oracle.items())
        for _ in range(400):
            levels.drop_before(0, 0)
        assert held(levels) == set(oracle.values())


def test_drop_all_releases_and_starts_over() -> None:
    class Thing:
        pass

    levels = Levels()
    thing = Thing()
    watched = weakref.ref(thing)
    levels[0, 1000] = thing
    del thing
    levels.drop_all()
    assert watched() is None
    levels[0, 0] = "first"
    levels.drop_before(0, 1)
    assert (levels.slots(), held(levels)) == (SIZE, set())
