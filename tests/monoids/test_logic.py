"""Any, all, and the bits of integers."""

from functools import reduce
from operator import and_, or_, xor
from typing import Any as Anything

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.logic import All, Any, BitAnd, BitOr, BitXor
from tests.monoids.test_first_last import INT64, lawful, one, results

TRUTH: list[Monoid] = [Any(), All()]
BITS: list[Monoid] = [BitAnd(), BitOr(), BitXor()]
HUGE = st.one_of(INT64, st.integers(), st.booleans())


@pytest.mark.parametrize("monoid", TRUTH, ids=repr)
def test_laws_of_truth(monoid: Monoid) -> None:
    lawful(monoid, st.booleans())()
    lawful(monoid.typed("bool"), st.booleans())()


@pytest.mark.parametrize("monoid", BITS, ids=repr)
def test_laws_of_bits(monoid: Monoid) -> None:
    lawful(monoid, HUGE)()
    lawful(monoid.typed("int"), INT64)()
    lawful(monoid.typed("bool"), st.booleans())()


@pytest.mark.parametrize("monoid", [*TRUTH, *BITS], ids=repr)
def test_nothing_gives_null(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) is None


@given(st.lists(st.booleans(), min_size=1))
def test_truth_is_that_of_python(values: list[bool]) -> None:
    for m in (Any(), Any().typed("bool")):
        assert results(m, one(values)) is any(values)
    for m in (All(), All().typed("bool")):
        assert results(m, one(values)) is all(values)


@given(st.lists(HUGE, min_size=1))
def test_bits_are_those_of_python(values: list[int]) -> None:
    for monoid, operation in zip(BITS, (and_, or_, xor), strict=True):
        for m in (monoid, monoid.typed("int")):
            found = results(m, one(values))
            assert found == reduce(operation, map(int, values))
            assert type(found) is int


def test_xor_of_equals_is_0_and_not_nothing() -> None:
    m = BitXor()
    both = m.combine(m.lift(5), m.lift(5))
    assert m.lower(both) == 0
    assert m.inverse(m.inverse(both, m.lift(5)), m.lift(5)) == m.identity


@pytest.mark.parametrize("kind", ["int", "float"])
@pytest.mark.parametrize("monoid", TRUTH, ids=repr)
def test_truth_refuses_columns_of_numbers(monoid: Monoid, kind: Kind) -> None:
    with pytest.raises(TypeError, match=f"{monoid.name} reads booleans; got a column of kind '{kind}'"):
        monoid.typed(kind)


@pytest.mark.parametrize("monoid", BITS, ids=repr)
def test_bits_refuse_floats(monoid: Monoid) -> None:
    with pytest.raises(TypeError, match=f"{monoid.name} reads integers; got a column of kind 'float'"):
        monoid.typed("float")


@pytest.mark.parametrize("value", [1.0, "1", b"1"])
@pytest.mark.parametrize("monoid", BITS, ids=repr)
def test_bits_refuse_what_is_no_integer(monoid: Monoid, value: Anything) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        monoid.lift(value)
