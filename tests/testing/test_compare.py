"""Which outputs are equal, and the messages of assertions where they differ."""

from typing import Any

import pyarrow as pa
import pytest

from sash.testing import assert_same


def batch(keys: str, values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({"k": list(keys), "x": pa.array(values)})


def test_the_order_counts_within_groups_only() -> None:
    assert_same(batch("aab", [1, 2, 3]), batch("aba", [1, 3, 2]), by=["k"])
    with pytest.raises(AssertionError, match=r"row 0 of \{'k': 'a'\} differs in x"):
        assert_same(batch("aab", [2, 1, 3]), batch("aba", [1, 3, 2]), by=["k"])
    assert_same(batch("aab", [2, 1, 3]), batch("aba", [1, 3, 2]), by=["k"], ordered=False)


def test_each_row_counts_once() -> None:
    for ordered in (True, False):
        with pytest.raises(AssertionError):
            assert_same(batch("aab", [1, 1, 2]), batch("aab", [1, 2, 2]), by=["k"], ordered=ordered)
        with pytest.raises(AssertionError):
            assert_same(batch("a", [1]), batch("aa", [1, 1]), by=["k"], ordered=ordered)
        with pytest.raises(AssertionError):
            assert_same(batch("ab", [1, 1]), batch("a", [1]), by=["k"], ordered=ordered)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1.0, 1.0 + 1e-13, True),
        (1.0, 1.0 + 1e-11, False),
        (1e300, 1e300 * (1 + 1e-13), True),
        (0.0, -0.0, True),
        (float("nan"), float("nan"), True),
        (float("nan"), None, False),
        (float("inf"), 1e308, False),
        (2**62, 2**62 + 1, False),
        ("é", "e\u0301", False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-13], True),
        ([1, 2], [2, 1], False),
        ({"a": 1.0}, {"a": float("nan")}, False),
    ],
)
def test_values(a: Any, b: Any, same: bool) -> None:
    kind = pa.array([x for x in (a, b) if x is not None]).type
    one, two = (pa.record_batch({"x": pa.array([value], kind)}) for value in (a, b))
    if same:
        assert_same(one, two)
    else:
        with pytest.raises(AssertionError):
            assert_same(one, two)


def test_a_column_may_have_a_tolerance_of_its_own_also_around_zero() -> None:
    one, two = batch("a", [0.0]), batch("a", [1e-10])
    with pytest.raises(AssertionError):
        assert_same(one, two)
    assert_same(one, two, loose={"x": 1e-9})


def test_columns_may_be_left_out_and_lists_of_batches_compared() -> None:
    one, two = batch("ab", [1, 2]), batch("ab", [3, 4])
    assert_same([one.slice(0, 1), one.slice(1)], two, without=["x"])


def test_nulls_and_nans_are_groups_of_their_own() -> None:
    keys = pa.record_batch({"k": pa.array([None, float("nan"), None]), "x": [1, 2, 3]})
    assert_same(keys, keys.take(pa.array([1, 0, 2])), by=["k"])


def test_one_output_has_one_schema() -> None:
    with pytest.raises(AssertionError, match="two schemas"):
        assert_same([batch("a", [1]), batch("a", [1.0])], batch("a", [1]))
