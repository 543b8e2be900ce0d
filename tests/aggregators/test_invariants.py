"""`check_invariants` finds damage: each redundant value is changed, and it must raise.

The elements of Recalc and the front of TwoStacksLite are stored once: there is nothing to compare them with, and
only the tests against an oracle judge them.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from sash.aggregators import DABA, InOrder, Recalc, SubtractOnEvict, TwoStacks, TwoStacksLite
from sash.aggregators.in_order import INSERT
from sash.monoids.collect import Collect
from tests.shared.workloads import WORKLOADS

WRONG = ("wrong",)


def window_in_which(structure: type[InOrder], holds: Callable[[Any], bool]) -> Any:
    """A window of the structure, after a query, in a state that uses the value to be changed."""
    window = structure(Collect())
    for step, operation in enumerate(WORKLOADS["random"](3000)):
        if operation == INSERT:
            window.insert(step)
        else:
            window.evict()
        if len(window) < 40 and holds(window):
            window.query()
            window.check_invariants()
            return window
    raise AssertionError("no such window")


def all_in_use(structure: type[InOrder]) -> Any:
    conditions: dict[type[InOrder], Callable[[Any], bool]] = {
        Recalc: lambda w: 0 < w.F < w.E - 2,
        SubtractOnEvict: lambda w: 0 < w.F < w.E - 2,
        TwoStacks: lambda w: w.fronts > 2 and w.backs > 2,
        TwoStacksLite: lambda w: w.F + 2 < w.B < w.E - 2,
        DABA: lambda w: w.F < w.L < w.R < w.A < w.B < w.E,
    }
    return window_in_which(structure, conditions[structure])


def refused(window: InOrder, what: str = "") -> None:
    """Does `check_invariants` name the structure, and what differs?"""
    with pytest.raises(AssertionError, match=f"^{type(window).__name__}: .*{re.escape(what)}"):
        window.check_invariants()


AGGREGATES = [(SubtractOnEvict, "total"), (TwoStacksLite, "back"), (DABA, "right"), (DABA, "both")]


@pytest.mark.parametrize(("structure", "name"), AGGREGATES)
def test_a_wrong_aggregate(structure: type[InOrder], name: str) -> None:
    window = all_in_use(structure)
    setattr(window, name, WRONG)
    refused(window, f"{name} is {WRONG!r}")


SLOTS: list[tuple[type[InOrder], str, Callable[[Any], range], str]] = [
    (SubtractOnEvict, "vals", lambda w: range(w.F, w.E), "total"),
    (TwoStacks, "front_vals", lambda w: range(w.fronts), "front_aggs"),
    (TwoStacks, "front_aggs", lambda w: range(w.fronts), "front_aggs"),
    (TwoStacks, "back_vals", lambda w: range(w.backs), "back_aggs"),
    (TwoStacks, "back_aggs", lambda w: range(w.backs), "back_aggs"),
    (TwoStacksLite, "deque", lambda w: range(w.B, w.E), "back"),
    (DABA, "vals", lambda w: range(w.F, w.E), "aggs"),
    (DABA, "aggs", lambda w: range(w.F, w.E), "aggs"),
]


@pytest.mark.parametrize(
    ("structure", "queue", "in_use", "named"), SLOTS, ids=[f"{slots[0].__name__}-{slots[1]}" for slots in SLOTS]
)
def test_a_wrong_slot(structure: type[InOrder], queue: str, in_use: Callable[[Any], range], named: str) -> None:
    window = all_in_use(structure)
    for position in in_use(window):
        spoilt = window.copy()
        getattr(spoilt, queue)[position] = WRONG
        refused(spoilt, named)
    window.check_invariants()


POINTERS = [
    (Recalc, "F", 1000),
    (SubtractOnEvict, "F", 1),
    (SubtractOnEvict, "F", 1000),
    (SubtractOnEvict, "E", -1),
    (TwoStacks, "fronts", -1000),
    (TwoStacks, "backs", -1000),
    (TwoStacksLite, "F", 1000),
    (TwoStacksLite, "B", 1),
    (TwoStacksLite, "B", -1),
    (TwoStacksLite, "B", 1000),
    (TwoStacksLite, "E", -1),
    *((DABA, name, by) for name in "FLRABE" for by in (1, -1, 1000, -1000)),
]


@pytest.mark.parametrize(("structure", "name", "by"), POINTERS)
def test_a_wrong_position(structure: type[InOrder], name: str, by: int) -> None:
    window = all_in_use(structure)
    setattr(window, name, getattr(window, name) + by)
    refused(window)


def test_an_answer_that_is_out_of_date() -> None:
    window = all_in_use(DABA)
    window.insert("x")
    window.check_invariants()
    window.valid = True
    refused(window, "both")
