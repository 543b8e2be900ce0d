"""Operations on words: the instructions compute what the Python functions do."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.kernels.jit.compile import machine_code
from sash.kernels.jit.word_operations import (
    ARRAYS,
    _broadword_nth_bit,
    bit_count,
    float_of,
    lowest_bit,
    mixed,
    nth_bit,
    slide_arrays,
)

words = st.integers(1, 2**64 - 1) | st.integers(0, 63).map(lambda bit: 1 << bit)
keys = st.integers(-(2**63), 2**63 - 1)


def all_of(word: Any, n: Any, key: Any) -> Any:
    """Each operation that returns a value."""
    return bit_count(word), lowest_bit(word), nth_bit(word, n), mixed(key), float_of(key)


def compiled(kernel: Any, *arguments: Any) -> Any:
    return machine_code(kernel, kernel.__name__, arguments)(*arguments)


@given(words, st.integers(0, 63), keys)
def test_words(word: int, n: int, key: int) -> None:
    bits = [place for place in range(64) if word >> place & 1]
    n %= len(bits)
    arguments = np.uint64(word), np.uint64(n), np.int64(key)
    interpreted, found = all_of(*arguments), compiled(all_of, *arguments)
    np.testing.assert_array_equal(found, interpreted)
    assert interpreted[:3] == (len(bits), bits[0], bits[n])
    assert interpreted[4].tobytes() == np.int64(key).tobytes()


@given(words, st.integers(0, 63))
def test_the_nth_bit_without_an_instruction_for_it(word: int, n: int) -> None:
    bits = [place for place in range(64) if word >> place & 1]
    n %= len(bits)
    assert compiled(_broadword_nth_bit, np.uint64(word), np.uint64(n)) == bits[n]


def slide(arrays: Any, old: Any, new: Any, steps: int, found: Any) -> None:
    """As a kernel, of arrays of five keys."""
    slide_arrays(arrays, 5, old, new, steps, 2, found)


@given(st.lists(st.lists(keys, min_size=5, max_size=5), min_size=ARRAYS, max_size=ARRAYS), st.integers(0, 4), keys)
def test_arrays(drawn: list[list[int]], removed: int, inserted: int) -> None:
    """A second step removes what the first one has inserted, and inserts what it has removed."""
    given_arrays = [sorted(values) for values in drawn]
    expected = [sorted([*values[:removed], *values[removed + 1 :], inserted]) for values in given_arrays]
    old = [values[removed] for values in given_arrays]
    new = [inserted] * ARRAYS
    for run in (slide, lambda *arguments: compiled(slide, *arguments)):
        for steps, after in ((1, expected), (2, given_arrays)):
            arrays = np.array([*np.transpose(given_arrays).ravel(), *[2**63 - 1] * ARRAYS])
            found = np.zeros(2 * 3 * ARRAYS, np.int64)
            run(arrays, np.array([*old, *new]), np.array([*new, *old]), steps, found)
            assert arrays[: 5 * ARRAYS].reshape(5, ARRAYS).T.tolist() == after
            results = found.reshape(2, 3, ARRAYS)
            assert results[0].tolist() == np.transpose(expected)[2:5].tolist()
            assert results[1].tolist() == (np.transpose(after)[2:5] if steps == 2 else 0 * results[1]).tolist()
