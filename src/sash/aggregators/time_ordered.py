"""The base class of time-ordered structures: elements arrive in any order and leave from anywhere.

    Example(TimeOrdered)      annotations are its state, as in `base.py`; the algorithm, on lifted values, is

        begin()                     create the empty window
        find(t)                     (node, place, found): the place of an element of this time
        put(node, place, found, t, v)      insert there; equal times combine
        take_out(node, place)       remove from there
        cut(t)                      remove all up to and including a time
        merge_in(times, states)     insert many, in order of time
        aggregate()                 ⊕ over all elements, in order of time
        between(...)                ⊕ over those in a closed range of times
        size(), vacant()            the number of elements; whether there are none

A time is anything with a total order under `<`: numbers, strings, datetimes, tuples such as (time, sequence number).
The algorithm needs nothing else, and compares before it changes anything, so that a time which cannot be ordered with
the others is refused and the window does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any, cast

from sash.aggregators.base import Aggregator, State

Time = Any
"""Anything with a total order."""

ALIKE = frozenset({int, float, str, bytes, datetime, date, timedelta})
"""Types whose values can be ordered with each other if both can be ordered with a third. Not so for tuples."""

Place = tuple[int, int, bool]
"""A node, a place in it, and whether the time was found there."""


class TimeOrdered(Aggregator):
    """A window in order of time. Elements of equal times are combined in the order of their arrival."""

    # ---- the algorithm: each structure fills these ----

    begin: Callable[[], None]
    vacant: Callable[[], bool]
    find: Callable[[Time], Place]
    put: Callable[[int, int, bool, Time, State], None]
    take_out: Callable[[int, int], None]
    cut: Callable[[Time], None]
    merge_in: Callable[[list[Time], list[State]], None]
    between: Callable[[Time, Time, bool, bool], tuple[bool, State]]
    first: Callable[[], Time]
    last: Callable[[], Time]
    first_node: Callable[[], int]
    tidy: Callable[[], None]
    elements: Callable[[], Iterator[tuple[Time, State]]]

    # ---- what users call ----

    def insert(self, time: Time, *row: Any) -> None:
        """Add an element at a time. If there is one of that time, the two are combined, the later arrival second.

        Aggregates ignore a null element. An aggregate of several inputs takes them as separate arguments or as one
        tuple. Raises ValueError for a time that is None or NaN, TypeError for one that cannot be ordered with the
        others; then the window does not change.
        """
        node, place, found = self._placed(time)
        self._step(self.put, node, place, found, time, self._lifted(row))
        self.tidy()

    def insert_many(self, times: Iterable[Time], *columns: Iterable[Any]) -> None:
        """Add many elements, in any order; elements of equal times are combined in the given order.

        Each partial aggregate that they touch is computed once. `columns` are the inputs of the aggregate, or one
        column of tuples. Raises ValueError if they differ in length, and as `insert` does; then nothing was added.
        """
        moments, *inputs = map(_listed, (times, *columns))
        if any(len(column) != len(moments) for column in inputs):
            lengths = ", ".join(str(len(column)) for column in (moments, *inputs))
            raise ValueError(f"insert_many() takes columns of equal length; got {lengths} elements")
        for time in moments:
            require_time(time)
        states = [self._lifted(row) for row in zip(*inputs, strict=True)] if inputs else []
        if len(states) != len(moments):
            states = [self._lifted(()) for _ in moments]
        try:
            order = sorted(range(len(moments)), key=moments.__getitem__)
        except (TypeError, ValueError) as error:
            raise TypeError(f"insert_many() got times that cannot be ordered with each other: {error}") from error
        ordered = [moments[i] for i in order]
        alike = {*map(type, ordered)} <= ALIKE
        for time in (ordered[:1] + ordered[-1:]) if alike else ordered:
            self._placed(time)
        self._step(self.merge_in, ordered, [states[i] for i in order])
        self.tidy()

    def evict(self, time: Time = None) -> None:
        """Remove the oldest element, or that of a time, if there is one.

        Raises IndexError without a time on an empty window, and for a time the errors of `insert`.
        """
        if time is not None:
            node, place, found = self._placed(time)
            if found:
                self._step(self.take_out, node, place)
        elif self.vacant():
            raise IndexError(f"evict() from an empty {type(self).__name__}: insert() first, or check len()")
        else:
            self._step(self.take_out, self.first_node(), 0)
        self.tidy()

    def evict_through(self, time: Time) -> None:
        """Remove all elements up to and including a time, in time logarithmic in their number.

        Later operations, or `len()`, release their memory. Raises the errors of `insert`.
        """
        self._placed(time)
        self._step(self.cut, time)
        self.tidy()

    def query(self, from_time: Time = None, to_time: Time = None) -> Any:
        """The aggregate of the window, or of its elements from one time to another, both included, lowered.

        An omitted end is unbounded. Without elements the result is the monoid's `empty`.
        """
        if from_time is None and to_time is None:
            return self.monoid.nothing() if self.vacant() else self.monoid.lower(self.aggregate())
        for time in (from_time, to_time):
            if time is not None:
                self._placed(time)
        found, state = self.between(from_time, to_time, from_time is not None, to_time is not None)
        return self.monoid.lower(state) if found else self.monoid.nothing()

    @property
    def oldest(self) -> Time:
        """The least time in the window; None if it is empty."""
        return None if self.vacant() else self.first()

    @property
    def youngest(self) -> Time:
        """The greatest time in the window; None if it is empty."""
        return None if self.vacant() else self.last()

    def clear(self) -> None:
        """Empty the window and release its memory."""
        super().clear()
        self.begin()

    def _placed(self, time: Time) -> Place:
        """The place of a time. Raises ValueError or TypeError for an invalid time."""
        require_time(time)
        try:
            return self.find(time)
        except (TypeError, ValueError) as error:
            raise self._unordered(time, error) from error

    def _unordered(self, time: Time, error: Exception) -> TypeError:
        return TypeError(
            f"the time {time!r} cannot be ordered with those in this {type(self).__name__}, such as {self.last()!r}: "
            f"{error}"
        )

    def __iter__(self) -> Iterator[tuple[Time, State]]:
        """(time, lifted element) pairs in order of time."""
        return self.elements()

    def __bool__(self) -> bool:
        return not self.vacant()


def require_time(time: Time) -> None:
    """Raises ValueError for None and NaN, TypeError for values without an order."""
    try:
        if time is None or bool(time != time):
            raise ValueError(f"a time must be an ordered value; got {time!r}")
        ordered = not isinstance(time, set | frozenset) and not bool(time < time)
    except TypeError:
        ordered = False
    if not ordered:
        raise TypeError(f"a time must be an ordered value; got {time!r}, a {type(time).__name__}")


def _listed(column: Iterable[Any]) -> list[Any]:
    """A column as a list of Python objects."""
    return cast(list[Any], column.tolist()) if hasattr(column, "tolist") else list(column)
