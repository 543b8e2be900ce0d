"""Lists of states as bytes: every shape comes back as it was, and damage is found."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.stores.codec import dump_states, load_states

numbers = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False))
states = st.one_of(
    st.lists(st.integers(-(2**70), 2**70)),
    st.lists(st.floats(allow_nan=False)),
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans())),
    st.lists(st.tuples(numbers, numbers)),
    st.lists(st.tuples(st.integers(), st.tuples(st.floats(allow_nan=False), st.tuples()), st.text())),
    st.lists(st.one_of(numbers, st.text(), st.none(), st.tuples(st.text()), st.tuples())),
)


def typed(state: Any) -> Any:
    """A state with its types: True is not 1, and 1 is not 1.0."""
    return type(state), tuple(map(typed, state)) if isinstance(state, tuple) else repr(state)


@given(states)
def test_states_come_back_as_they_were(given_states: list[Any]) -> None:
    again = load_states(dump_states(given_states))
    assert [typed(state) for state in again] == [typed(state) for state in given_states]


@pytest.mark.parametrize(
    ("given_states", "tag"),
    [
        ([1, 2], b"n"),
        ([True, False], b"n"),
        ([(1, 0.5), (2, 1.5)], b"t"),
        ([(1, ()), (2, ())], b"t"),
        ([(1, "a"), (2.5, None)], b"t"),
        ([2**64, -(2**100)], b"w"),
        ([2**2000, 1], b"w"),
        ([1, 2.0], b"c"),
        ([(1, 2), (1,)], b"c"),
        ([Decimal(1)], b"c"),
        ([], b"c"),
    ],
)
def test_which_form_a_list_takes(given_states: list[Any], tag: bytes) -> None:
    assert dump_states(given_states)[:1] == tag


def test_a_monoids_own_dump() -> None:
    data = dump_states([{1, 2}, set()], lambda state: bytes(sorted(state)))
    assert load_states(data, set) == [{1, 2}, set()]
    with pytest.raises(ValueError, match="that the monoid's dump has not written"):
        load_states(dump_states(["a", 1]), set)
    with pytest.raises(ValueError, match="has not written"):
        load_states(dump_states([1, 2]), set)


def test_a_state_that_cannot_be_written_is_named() -> None:
    with pytest.raises(TypeError, match=r"a builtins\.object .*cannot be written as state"):
        dump_states([1, object()])


@pytest.mark.parametrize("given_states", [[1, 2], [(1, 0.5), (2, 1.5)], [2**64], ["a", 1]])
def test_truncated_bytes_are_refused(given_states: list[Any]) -> None:
    data = dump_states(given_states)
    for length in range(len(data)):
        try:
            again = load_states(data[:length])
        except ValueError:
            continue
        assert again == given_states[: len(again)] != given_states  # whole states of a packed list


TUPLES = b"t\x01\x00\x00\x00\x02\x00\x00\x00"


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"x", b"n", b"nz", b"nq123", b"ci\x00", b"w12", b"w\x00\x00\x00\x00", b"w\x02\x00\x00\x00abc"),
        *(b"t", b"t\x00\x00\x00\x00\xff\xff\xff\xff", b"t\xff\xff\xff\xff\x01\x00\x00\x00", TUPLES),
        TUPLES + b"\x03\x00\x00\x00n?\x01",  # one value for two tuples
        TUPLES + b"\x09\x00\x00\x00n?\x01\x01",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"hold|damaged"):
        load_states(data)


def test_tuples_that_are_nested_deeply() -> None:
    deep: Any = 1
    for _ in range(30):
        deep = (deep,)
    assert load_states(dump_states([deep, deep])) == [deep, deep]
    crafted = b"n?\x01"
    for _ in range(500):
        crafted = b"t\x01\x00\x00\x00\x01\x00\x00\x00" + len(crafted).to_bytes(4, "little") + crafted
    with pytest.raises(ValueError, match="unknown kind"):
        load_states(crafted)
