"""A state machine that compares a time-ordered structure with a plain dict from times to elements.

insert, burst, reversed, alternating, all_equal, insert_many, evict (oldest, youngest, any, absent), evict_through,
query, ranges, iterate, clear, copy, pickle, null      in any order
after each: check_invariants(), the ends, the memory in use
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sash.aggregators.time_ordered import TimeOrdered
from tests.conformance.machines import Subject

TIMES = st.integers(0, 60)
"""Few, so that equal times are frequent."""


class TimedMachine(RuleBasedStateMachine):
    """One structure, one aggregate, one dict of the inputs at each time."""

    structure: Any
    subject: Subject
    min_arity = 2
    back = 4

    def __init__(self) -> None:
        super().__init__()
        self.window = self.structure(self.subject.monoid, self.min_arity)
        self.at: dict[int, list[Any]] = {}
        self.most = 0

    def defined(self, times: Any) -> Any:
        return self.subject.defined([x for t in sorted(times) for x in self.at[t] if x is not None])

    def _insert(self, time: int, value: Any) -> None:
        self.window.insert(time, value)
        self.at.setdefault(time, []).append(value)

    def _insert_all(self, times: Any, data: st.DataObject) -> None:
        for time in times:
            self._insert(time, data.draw(self.subject.values))

    @rule(time=TIMES, data=st.data())
    def insert(self, time: int, data: st.DataObject) -> None:
        self._insert_all((time,), data)

    @rule(time=TIMES, length=st.integers(2, 9), data=st.data())
    def burst(self, time: int, length: int, data: st.DataObject) -> None:
        self._insert_all(range(time, time + length), data)

    @rule(time=TIMES, length=st.integers(2, 9), data=st.data())
    def reversed(self, time: int, length: int, data: st.DataObject) -> None:
        self._insert_all(range(time, time - length, -1), data)

    @rule(length=st.integers(1, 5), data=st.data())
    def alternating(self, length: int, data: st.DataObject) -> None:
        for _ in range(length):
            self._insert_all((min(self.at, default=0) - 1, max(self.at, default=0) + 1), data)

    @rule(time=TIMES, length=st.integers(2, 5), data=st.data())
    def all_equal(self, time: int, length: int, data: st.DataObject) -> None:
        self._insert_all([time] * length, data)

    @rule(time=TIMES)
    def null(self, time: int) -> None:
        self._insert(time, None)

    @rule(data=st.data(), times=st.lists(TIMES, max_size=20))
    def insert_many(self, data: st.DataObject, times: list[int]) -> None:
        values = [data.draw(self.subject.values) for _ in times]
        self.window.insert_many(times, values)
        for time, value in zip(times, values, strict=True):
            self.at.setdefault(time, []).append(value)

    @precondition(lambda self: self.at)
    @rule(most=st.integers(1, 12))
    def evict(self, most: int) -> None:
        for _ in range(min(most, len(self.at))):
            self.window.evict()
            del self.at[min(self.at)]

    @precondition(lambda self: self.at)
    @rule(most=st.integers(1, 12))
    def evict_the_youngest(self, most: int) -> None:
        for _ in range(min(most, len(self.at))):
            self.window.evict(max(self.at))
            del self.at[max(self.at)]

    @rule(time=TIMES)
    def evict_any(self, time: int) -> None:
        self.window.evict(time)
        self.at.pop(time, None)

    @precondition(lambda self: not self.at)
    @rule()
    def evict_from_nothing(self) -> None:
        with pytest.raises(IndexError, match=self.structure.__name__):
            self.window.evict()

    @rule(time=TIMES | st.integers(-99, 99))
    def evict_through(self, time: int) -> None:
        self.window.evict_through(time)
        self.at = {t: values for t, values in self.at.items() if t > time}

    @rule()
    def query(self) -> None:
        assert self.window.query() == self.defined(self.at)

    @rule(start=st.none() | TIMES, stop=st.none() | TIMES)
    def ranges(self, start: int | None, stop: int | None) -> None:
        inside = [t for t in self.at if (start is None or start <= t) and (stop is None or t <= stop)]
        assert self.window.query(start, stop) == self.defined(inside)

    @rule()
    def iterate(self) -> None:
        found = list(self.window)
        assert [time for time, _ in found] == sorted(self.at)
        for time, state in found:
            values = [x for x in self.at[time] if x is not None]
            assert not values or self.subject.monoid.lower(state) == self.subject.defined(values)

    @rule()
    def clear(self) -> None:
        self.window.clear()
        self.at.clear()
        self.most = 0

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        """The twin continues; what happens to the original must not reach it."""
        original, self.window = self.window, self.window.copy()
        original.insert(data.draw(TIMES), data.draw(self.subject.values))
        original.evict_through(data.draw(TIMES))
        original.check_invariants()

    @rule()
    def round_trip(self) -> None:
        self.window = pickle.loads(pickle.dumps(self.window))

    @rule()
    def length(self) -> None:
        assert len(self.window) == len(self.at)
        assert len(self.window.links.rows) <= len(self.at) // (self.min_arity - 1) + 1

    @invariant()
    def sound(self) -> None:
        self.window.check_invariants()
        assert bool(self.window) == bool(self.at)
        assert (self.window.oldest, self.window.youngest) == (min(self.at, default=None), max(self.at, default=None))

    @invariant()
    def memory_follows_the_window(self) -> None:
        """No more evicted elements are kept than the largest window since the last check had."""
        self.most = max(self.most, len(self.at))
        assert len(self.window.links.rows) <= (self.most + 9) // (self.min_arity - 1) + 8


def timed_machine(structure: type[TimeOrdered], subject: Subject, min_arity: int) -> Any:
    """The machine of a structure and an aggregate."""
    members = {"structure": structure, "subject": subject, "min_arity": min_arity}
    return type(f"{structure.__name__}Machine", (TimedMachine,), members)
