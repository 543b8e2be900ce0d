"""Collect, collect_distinct and concat."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids.algebra import Monoid, agree
from sash.monoids.collect import Collect, CollectDistinct, Concat
from tests.monoids.test_first_last import ANYTHING, FLOATS, TEXT, folds, lawful, one, results

SEPARATORS = ["", ",", ", ", "😀", "\0"]


@pytest.mark.parametrize("monoid", [Collect(), CollectDistinct()], ids=repr)
@pytest.mark.parametrize("values", [ANYTHING, FLOATS, TEXT, st.integers(0, 3)])
def test_laws(monoid: Monoid, values: st.SearchStrategy[Any]) -> None:
    lawful(monoid, values)()


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("values", [TEXT, st.sampled_from(["", "a", ",", "a,"])])
def test_laws_of_concat(separator: str, values: st.SearchStrategy[str]) -> None:
    lawful(Concat(separator), values)()


@pytest.mark.parametrize("monoid", [Collect(), CollectDistinct(), Concat()], ids=repr)
def test_nothing_gives_null(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) is None


@given(st.lists(ANYTHING, min_size=1))
def test_collect_is_the_list(values: list[Any]) -> None:
    assert agree(results(Collect(), one(values)), values)


@pytest.mark.parametrize("monoid", [Collect(), CollectDistinct()], ids=repr)
def test_a_result_is_the_callers_own(monoid: Monoid) -> None:
    state = folds(monoid, one([1, 2]))[0]
    monoid.lower(state).append(3)
    assert monoid.lower(state) == [1, 2]


def test_distinct_keeps_the_first_of_equals() -> None:
    found = results(CollectDistinct(), one([1, 2, 1.0, True, -0.0, 0, "1", 2]))
    assert found == [1, 2, 0, "1"]
    assert list(map(type, found)) == [int, int, float, str]


def test_distinct_takes_nan_for_one_value() -> None:
    assert agree(results(CollectDistinct(), one([float("nan"), 1.0, math.nan, -math.nan])), [math.nan, 1.0])


@given(st.lists(st.one_of(st.integers(0, 9), st.sampled_from("abc")), min_size=1))
def test_distinct_in_order_of_appearance(values: list[Any]) -> None:
    assert results(CollectDistinct(), one(values)) == list(dict.fromkeys(values))


@pytest.mark.parametrize("value", [[1], {"a": 1}, {1}, ([],)])
def test_distinct_refuses_what_has_no_hash(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"collect_distinct needs hashable values; got .* a {type(value).__name__}"):
        CollectDistinct().lift(value)


@given(st.lists(TEXT, min_size=1), st.sampled_from(SEPARATORS))
def test_concat_joins(values: list[str], separator: str) -> None:
    assert results(Concat(separator), one(values)) == separator.join(values)


@given(st.lists(TEXT, min_size=1), st.sampled_from(SEPARATORS), st.data())
def test_concat_takes_the_oldest_off(values: list[str], separator: str, data: st.DataObject) -> None:
    m = Concat(separator)
    cut = data.draw(st.integers(0, len(values)))
    oldest, rest = folds(m, one(values[:cut]))[0], folds(m, one(values[cut:]))[0]
    assert m.inverse(folds(m, one(values))[0], oldest) == rest


def test_an_empty_string_is_not_nothing() -> None:
    m = Concat("-")
    assert results(m, one([""])) == ""
    assert results(m, one(["", ""])) == "-"
    assert m.inverse(m.lift(""), m.lift("")) == m.identity


def test_concat_refuses_what_is_no_text() -> None:
    with pytest.raises(TypeError, match="concat joins strings; got 3, a int"):
        Concat().lift(3)
    with pytest.raises(TypeError, match="separator= of concat must be a string; got None"):
        Concat(None)  # type: ignore[arg-type]
