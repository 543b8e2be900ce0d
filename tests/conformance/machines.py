"""A state machine that compares a structure with a plain deque, and the aggregates it uses.

    insert, fill, evict, drain, query, iterate, clear, copy, pickle, null      in any order
    after each: check_invariants(), len(), the memory in use

It runs on chunks of four slots, so that every border between two chunks is crossed repeatedly.
"""

from __future__ import annotations

import operator
import pickle
import statistics
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import sash
from sash.aggregators import InOrder, storage
from sash.aggregators.base import fields
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids.algebra import Monoid
from sash.monoids.collect import Collect
from sash.monoids.ewm import EwmMeanByTime, EwmVarByTime
from sash.monoids.extremes import Max
from sash.monoids.null_rows import NullRows
from sash.monoids.rank_statistics import Median, Mode, Quantile
from sash.monoids.sums import Sum

JOIN = sash.monoid(identity="", combine=operator.add, exact=True, name="join")
"""Strings one after the other: not commutative, and a wrong order shows."""


def with_added_inputs() -> dict[str, Monoid]:
    """Monoids that queries make of others, with an input that no user names: a time, or whether a value is there."""
    return {
        "ewm_mean(time)": EwmMeanByTime(halflife=25),
        "ewm_var(time)": EwmVarByTime(halflife=25),
        "delta(null rows)": NullRows(sash.monoids.Delta()),
    }


@dataclass(frozen=True)
class Subject:
    """An aggregate, its inputs, and its result by definition."""

    monoid: Monoid
    values: st.SearchStrategy[Any]
    defined: Callable[[list[Any]], Any]


INTS = st.integers(-9, 9)
SUBJECTS = {
    "join": Subject(JOIN, st.sampled_from("abcdefgh"), "".join),
    "max": Subject(Max(), INTS, lambda values: max(values, default=None)),
    "sum": Subject(Sum(), INTS, lambda values: sum(values) if values else None),
    "collect": Subject(Collect(), INTS, lambda values: values or None),
    "median": Subject(Median(), INTS, lambda values: float(statistics.median(values)) if values else None),
    "mode": Subject(Mode(), INTS, lambda values: statistics.mode(sorted(values)) if values else None),
}


def admits(structure: type[InOrder], monoid: Monoid) -> bool:
    """Does the monoid declare the properties that the structure needs?"""
    return all(getattr(monoid, need) for need in structure.needs)


def fitting(structure: type[InOrder]) -> Monoid:
    """A cheap monoid that the structure admits."""
    return next(monoid for monoid in (Sum(), Max(), Quantile(0.5, "lower"), Mode()) if admits(structure, monoid))


def queues(window: InOrder) -> list[storage.Queue]:
    """All queues of a window."""
    return [stored for name in fields(type(window)) if isinstance(stored := getattr(window, name), storage.Queue)]


@contextmanager
def small_chunks() -> Iterator[None]:
    """Queues of chunks of four slots."""
    with mock.patch.multiple(storage, BITS=2, SIZE=4, MASK=3):
        yield


class Machine(RuleBasedStateMachine):
    """One structure, one aggregate, one deque of what was inserted."""

    structure: type[InOrder]
    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.window = self.structure(self.subject.monoid)
        self.inserted: deque[Any] = deque()

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        self._insert(data.draw(self.subject.values))

    @rule(data=st.data())
    def fill(self, data: st.DataObject) -> None:
        for value in data.draw(st.lists(self.subject.values, max_size=9)):
            self._insert(value)

    @rule()
    def null(self) -> None:
        self._insert(None)

    def _insert(self, value: Any) -> None:
        self.window.insert(value)
        self.inserted.append(value)

    @precondition(lambda self: self.inserted)
    @rule()
    def evict(self) -> None:
        self.window.evict()
        self.inserted.popleft()

    @rule(most=st.integers(0, 12))
    def drain(self, most: int) -> None:
        for _ in range(min(most, len(self.inserted))):
            self.evict()

    @precondition(lambda self: not self.inserted)
    @rule()
    def evict_from_nothing(self) -> None:
        with pytest.raises(IndexError, match=self.structure.__name__):
            self.window.evict()

    @rule()
    def query(self) -> None:
        expected = self.subject.defined([value for value in self.inserted if value is not None])
        assert self.window.query() == expected
        assert self.window.query() == expected

    @rule()
    def iterate(self) -> None:
        if not self.structure.keeps_elements:
            with pytest.raises(TypeError, match=self.structure.__name__):
                iter(self.window)
        else:
            lifted = [self.window.monoid.lifted((value,)) for value in self.inserted]
            assert list(self.window) == lifted

    @rule()
    def clear(self) -> None:
        self.window.clear()
        self.inserted.clear()

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        """The twin continues; what happens to the original must not reach it."""
        original, self.window = self.window, self.window.copy()
        assert original is not self.window
        original.insert(data.draw(self.subject.values))
        for _ in range(data.draw(st.integers(0, len(original)))):
            original.evict()
        original.check_invariants()

    @rule()
    def round_trip(self) -> None:
        self.window = pickle.loads(pickle.dumps(self.window))

    @invariant()
    def sound(self) -> None:
        self.window.check_invariants()
        assert len(self.window) == len(self.inserted)

    @invariant()
    def memory_follows_the_window(self) -> None:
        found = queues(self.window)
        most = IN_ORDER[self.structure.__name__].space.at(len(self.inserted)) + 2 * storage.SIZE * len(found)
        assert sum(each.slots() for each in found) <= most


def machine(structure: type[InOrder], subject: Subject) -> type[Machine]:
    """The machine of a structure and an aggregate."""
    return type(f"{structure.__name__}Machine", (Machine,), {"structure": structure, "subject": subject})
