"""Time-ordered structures: refused arguments, and the state of a window after its monoid has raised."""

import math
import pickle
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import sash
from sash.monoids import Max
from tests.aggregators.btree_cases import STRUCTURES, letters, window_of
from tests.aggregators.test_exception_safety import Brittle
from tests.conformance.machines import JOIN

every = pytest.mark.parametrize("structure", STRUCTURES)


# ---- what is refused ----


@every
@pytest.mark.parametrize(
    "time", [None, math.nan, float("nan"), np.float64("nan"), np.datetime64("NaT"), Decimal("nan")]
)
def test_no_time_is_refused_by_name(structure: Any, time: Any) -> None:
    window = letters(structure, 3)
    said = re.escape(f"a time must be an ordered value; got {time!r}")
    for act in (
        lambda: window.insert(time, "x"),
        lambda: window.insert_many([7, time], "xy"),
        lambda: window.evict_through(time),
        *(
            (lambda: window.evict(time), lambda: window.query(time, 1), lambda: window.query(1, time))
            if time is not None
            else ()
        ),
    ):
        with pytest.raises(ValueError, match=said):
            act()
    window.check_invariants()
    assert window.query() == "abc"


@every
@pytest.mark.parametrize("time", [1j, {1}, frozenset(), object(), {"a": 1}])
def test_what_has_no_order_is_refused_by_name(structure: Any, time: Any) -> None:
    window = structure(JOIN)
    with pytest.raises(TypeError, match="a time must be an ordered value"):
        window.insert(time, "x")
    assert not window


@every
def test_times_that_cannot_be_compared_change_nothing(structure: Any) -> None:
    window = letters(structure)
    for act in (
        lambda: window.insert("noon", "x"),
        lambda: window.insert((1, 2), "x"),
        lambda: window.insert_many(["a", "b"], "xy"),
        lambda: window.evict("noon"),
        lambda: window.evict_through("noon"),
        lambda: window.query("noon"),
        lambda: window.query(1, "noon"),
    ):
        with pytest.raises(TypeError, match=f"cannot be ordered with those in this {structure.__name__}, such as 25"):
            act()
    with pytest.raises(TypeError, match="cannot be ordered with each other"):
        window.insert_many([1, "a"], "xy")
    window.check_invariants()
    assert len(window) == 26


@every
def test_tuples_of_which_only_some_can_be_compared(structure: Any) -> None:
    """(1, "b") has no order with (1, 2), though both have one with the others."""
    window = window_of(structure, JOIN, [((i, i + 1), "x") for i in range(9)])
    before = list(window)
    with pytest.raises(TypeError, match="cannot be ordered"):
        window.insert_many([(0.5, "a"), (1, "b"), (2.5, "c")], "abc")
    window.check_invariants()
    assert list(window) == before
    window.insert((1, 1), "y")


@every
def test_columns_of_different_lengths(structure: Any) -> None:
    window = structure(JOIN)
    with pytest.raises(ValueError, match=r"insert_many\(\) takes columns of equal length; got 3, 2 elements"):
        window.insert_many([1, 2, 3], "ab")
    assert not window


@every
def test_min_arity(structure: Any) -> None:
    assert structure(Max()).min_arity == 4
    assert structure(Max(), min_arity=7).copy().min_arity == 7
    for wrong in (1, 0, -3):
        with pytest.raises(ValueError, match=f"min_arity must be at least 2; got {wrong}"):
            structure(Max(), min_arity=wrong)
    for wrong in (2.5, "4"):
        with pytest.raises(TypeError, match="min_arity must be a whole number of children"):
            structure(Max(), min_arity=wrong)
    with pytest.raises(TypeError, match=f"{structure.__name__} is built from a monoid"):
        structure(max)


# ---- half-way ----


@every
def test_a_window_half_way_through_a_change_gives_no_answer(structure: Any) -> None:
    for act in (
        lambda window: window.insert(3.5, 13),
        lambda window: window.insert(3, 13),
        lambda window: window.insert_many([0, 2], [1, 13]),
    ):
        window = window_of(structure, Brittle(), [(i, 100) for i in range(9)])
        with pytest.raises(ArithmeticError, match="13"):
            act(window)
        for refused in (
            lambda w: w.query(),
            lambda w: w.query(1, 2),
            lambda w: w.insert(1, 1),
            lambda w: w.insert_many([1], [1]),
            lambda w: w.evict(),
            lambda w: w.evict(1),
            lambda w: w.evict_through(1),
        ):
            with pytest.raises(
                RuntimeError, match=f"this {structure.__name__} is incomplete: .* ArithmeticError: 13 .* clear"
            ):
                refused(pickle.loads(pickle.dumps(window)))
        window.clear()
        window.insert(1, 2)
        window.check_invariants()
        assert window.query() == 2


@every
def test_an_evict_in_which_the_monoid_raises(structure: Any) -> None:
    """A 13 at the young end of a leaf is combined with nothing until its neighbour leaves."""
    window = window_of(structure, Brittle(), [(0, 13)])
    assert window.query() == 13
    with pytest.raises(ArithmeticError):
        window.insert(1, 1)
    with pytest.raises(RuntimeError, match="incomplete"):
        window.evict()


@every
def test_a_query_in_which_the_monoid_raises_changes_nothing(structure: Any) -> None:
    """A range is only read."""
    moody = []

    def combine(a: str, b: str) -> str:
        if moody:
            raise ArithmeticError("not today")
        return a + b

    window = window_of(structure, sash.monoid(identity="", combine=combine), enumerate("abcdefghi"))
    moody.append(1)
    with pytest.raises(ArithmeticError, match="not today"):
        window.query(1, 7)
    moody.clear()
    assert window.query(1, 7) == "bcdefgh"
    window.insert(9, "j")
    assert window.query() == "abcdefghij"
