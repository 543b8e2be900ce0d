"""Evictors: how a window in a loop restarts, and how many of the oldest events it evicts. One class per kind.

                        restarts                       evicts
    CountEvictor        –                              events beyond the size
    TimeEvictor         –                              events at or before t + shift - size
    DeltaEvictor        –                              events size or more behind in the column
    SessionEvictor      after a gap                    –
    PunctuationEvictor  after a row that is marked     –
    LifetimeEvictor     –                              –
    PolicyEvictor       –                              as the policy decides

`place` validates an event without a change, `enter` inserts it and returns whether a window starts with it,
`leaving`
returns how many of the oldest to evict. Events of windows that end before the last event wait; `entering` returns
how
many of them enter. Windows that only restart need no structure: they are folded (`folds`).

EventClock: the times of events in a loop, as numbers that never decrease.

    3, 4.5                      unchanged                  sizes are numbers
    datetime, naive or aware    nanoseconds                sizes are durations
    date                        nanoseconds, whole days    sizes are durations, of whole days

The first time determines the kind of the others. A time before the last is refused: a loop has no reorder buffer.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from operator import index
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from sash.aggregators import AMTA
from sash.aggregators.in_order import State
from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import Node, with_text
from sash.monoids.algebra import Bound, Monoid
from sash.plan.derived_columns import inputs_of
from sash.plan.time_axis import Number
from sash.windows import Count, Delta, Lifetime, Policy, Punctuation, Session, Time, WindowKind
from sash.windows.calendar import CalendarLength, LocalClock
from sash.windows.duration import UNITS, Duration

# --- Event clock ---

_NAIVE = datetime(1970, 1, 1)
_AWARE = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = date(1970, 1, 1)
_ONE_MICROSECOND = timedelta(microseconds=1)
_NUMBER = "number"
_NAMES = {
    _NUMBER: "numbers",
    "date": "dates",
    "naive": "datetimes without a time zone",
    "aware": "datetimes with a time zone",
}


Length = Duration | int | float


class EventClock:
    """The last value of a measured column, as a number.

    `what` is its name in messages. `size` is the Duration or number of the window that is measured on it, and `of` that
    window; `hint` is the advice for a value before the last. With a zone, dates stand for local midnights.
    """

    def __init__(self, what: str, of: str, size: Length | None, hint: str, zone: str | None = None) -> None:
        self.what, self.of, self.size, self.hint = what, of, size, hint
        self.local = LocalClock(zone or "UTC", UNITS["s"])
        self.kind: str | None = None
        self.last: int | float | None = None
        self.value: Any = None

    def clear(self) -> None:
        """Forget the last value."""
        self.kind = self.last = self.value = None

    def read(self, value: Any) -> int | float:
        """A value as a number, without a change of the clock.

        Raises TypeError if its kind is not that of the sizes or earlier values, ValueError if it is not a time (NaN, an
        infinity) or is before the last; all name it.
        """
        number: int | float
        kind = type(value)
        if (kind is int or (kind is float and math.isfinite(value))) and self.kind is _NUMBER:
            number = value
        else:
            found, number = self._of_any_kind(value)
            if found != self.kind:
                self._check_kind(found, value)
        if self.last is not None and number < self.last:
            raise ValueError(f"{self.what}={value!s} is before {self.value!s}, the last one: {self.hint}")
        return number

    def move(self, value: Any, number: int | float) -> None:
        """Set the clock to a value that `read` has accepted."""
        if self.kind is None:
            self.kind = self._of_any_kind(value)[0]
        self.last, self.value = number, value

    def copy(self) -> Self:
        """An independent clock in the same state."""
        return copy.copy(self)

    def _of_any_kind(self, value: Any) -> tuple[str, int | float]:
        if isinstance(value, datetime):
            if value != value:
                raise ValueError(f"{self.what}={value!r} is not a time")
            aware = value.utcoffset() is not None
            since = value - (_AWARE if aware else _NAIVE)
            finer = getattr(value, "nanosecond", 0)  # of a Timestamp of pandas
            return "aware" if aware else "naive", (since // _ONE_MICROSECOND) * 1000 + finer
        if isinstance(value, date):
            midnight = self.local.instant(np.array([(value - _DAY).days * self.local.day]))
            return "date", int(midnight[0]) * UNITS["s"]
        if isinstance(value, float | np.floating):
            if not math.isfinite(value):
                raise ValueError(f"{self.what}={value!r} is not finite: leave such an event out")
            return _NUMBER, float(value)
        try:
            if not isinstance(value, bool | np.bool_):
                return _NUMBER, index(value)
        except TypeError:
            pass
        raise TypeError(f"{self.what} must be a number, a datetime or a date; got {value!r}, a {type(value).__name__}")

    def _check_kind(self, found: str, value: Any) -> None:
        if self.kind is not None:
            raise TypeError(
                f"{self.what}={value!r} is one of {_NAMES[found]}, and those before are {_NAMES[self.kind]}: "
                "use one kind for all"
            )
        if self.size is None:
            return
        if not isinstance(self.size, Duration):
            if found == _NUMBER:
                return
            raise TypeError(
                f"{self.of} is measured in {self.size!r}, a number, and {self.what}={value!s} is one of "
                f"{_NAMES[found]}: give a duration for the size, such as '10s'"
            )
        if found == _NUMBER:
            raise TypeError(
                f"{self.of} is measured in {str(self.size)!r}, a duration, and {self.what}={value!r} is a number: "
                "give datetimes, or a size that is a number"
            )
        if found == "date" and self.size.nanoseconds % UNITS["d"]:
            raise ValueError(
                f"{self.of} is measured in {str(self.size)!r}, not a whole number of days, and "
                f"{self.what}={value!s} is a date: give datetimes"
            )


def length(size: Length) -> int | float:
    """A size as a number of the clock: an integer if possible, so that large times are not rounded."""
    if isinstance(size, Duration):
        return size.nanoseconds
    return int(size) if float(size).is_integer() else float(size)


# --- Evictor ---

_MICROSECOND = 1000
"""In nanoseconds, the unit of an EventClock."""

Placed = TypeVar("Placed")
"""What `place` returns for an accepted event, and `enter` takes."""


class Evictor(Generic[Placed]):
    """The base of evictors."""

    folds: ClassVar[bool] = False
    waits: bool = False
    """Whether an event enters the window only at a later time."""

    def __init__(self, window: Any) -> None:
        self.window = window

    def clear(self) -> None:
        """Reset to an empty window."""

    def place(self, x: Any, time: Number | None) -> Placed:
        """The data of an event for `enter`. Raises if it is refused, without a change."""
        raise NotImplementedError

    def enter(self, _place: Placed) -> bool:
        """Insert the event. Does a window start with it?"""
        return False

    def entering(self, _waiting: int, _now: Number | None) -> int:
        """The number of oldest events to insert, of those that wait."""
        return 0

    def leaving(self, _held: int, _now: Number | None) -> int:
        """The number of oldest events to evict, of those that the window holds."""
        return 0

    def ended(self, _now: Number) -> bool:
        """Has the window ended by this time, without a new event?"""
        return False

    def full(self, _held: int) -> bool:
        """Does the window have results yet?"""
        return True

    def copy(self) -> Self:
        """An independent evictor in the same state."""
        return copy.copy(self)


class CountEvictor(Evictor[None]):
    """The last events, or those up to some events before the last."""

    def __init__(self, window: Count) -> None:
        self.delay = -window.shift
        self.waits = self.delay > 0
        super().__init__(window)

    def place(self, _x: Any, _time: Number | None) -> None:
        return None

    def entering(self, waiting: int, _now: Number | None) -> int:
        return max(waiting - self.delay, 0)

    def leaving(self, held: int, _now: Number | None) -> int:
        return held - self.window.size if held > self.window.size else 0

    def full(self, held: int) -> bool:
        return not self.window.full or held >= self.window.size


class TimeEvictor(Evictor[Number]):
    """The events of a length of time. The bound is computed once per event."""

    def __init__(self, window: Time) -> None:
        self.size, by = length(window.size), window.shift
        back = Duration(-by.nanoseconds, -by.months) if isinstance(by, Duration) else None
        self.calendar = calendar_length(window.size, window.tz)
        self.calendar_shift = calendar_length(back, window.tz)
        self.shift = length(by) if self.calendar_shift is None else 0
        self.holds_end = window.closed in ("right", "both")
        self.waits = self.shift < 0 or self.calendar_shift is not None or not self.holds_end
        self.keeps_bound = window.closed in ("left", "both")
        self.times: deque[Number] = deque()
        self.later: deque[Number] = deque()
        """The times of the events that wait."""
        super().__init__(window)

    def clear(self) -> None:
        self.times, self.later = deque(), deque()

    def place(self, _x: Any, time: Number | None) -> Number:
        assert time is not None
        return time

    def enter(self, place: Number) -> bool:
        (self.later if self.waits else self.times).append(place)
        return False

    def entering(self, _waiting: int, now: Number | None) -> int:
        assert now is not None
        end, times, later = self._end(now), self.times, self.later
        before = len(times)
        while later and (later[0] <= end if self.holds_end else later[0] < end):
            times.append(later.popleft())
        return len(times) - before

    def leaving(self, held: int, now: Number | None) -> int:
        assert now is not None
        times, gone, end = self.times, 0, self._end(now)
        if self.calendar is None:
            bound = end - self.size
        elif not held or times[0] > end - (self.calendar.shortest - self.calendar.clock.day) * _MICROSECOND:
            return 0  # no window of this length begins after its oldest event
        else:
            bound = _start(self.calendar, int(end))
        while gone < held and (times[0] < bound if self.keeps_bound else times[0] <= bound):
            times.popleft()
            gone += 1
        return gone

    def _end(self, now: Number) -> Number:
        """The end of the window of an event."""
        return now + self.shift if self.calendar_shift is None else _start(self.calendar_shift, int(now))

    def copy(self) -> Self:
        twin = super().copy()
        twin.times, twin.later = self.times.copy(), self.later.copy()
        return twin


def calendar_length(size: Any, zone: str | None) -> CalendarLength | None:
    """A calendar length in microseconds, in which 64 bits hold all datetimes; None for a fixed length."""
    if not isinstance(size, Duration) or not (size.calendar or (zone and size.days)):
        return None
    return CalendarLength(LocalClock(zone or "UTC", _MICROSECOND), size.months, size.days or 0)


def _start(size: CalendarLength, now: int) -> int:
    """The start of a window that ends at a time in nanoseconds."""
    micros, finer = divmod(now, _MICROSECOND)
    start, after = size.before(np.array([micros, micros + 1])).tolist()
    return int(start * _MICROSECOND + (finer if after > start else 0))


class Measured(NamedTuple):
    """The value of a column, and the number that it is measured by."""

    value: Any
    number: Number


class DeltaEvictor(Evictor[Measured]):
    """The events less than `size` behind in a column, which must not decrease."""

    def __init__(self, window: Delta) -> None:
        self.size = length(window.size)
        hint = f"the column of {window!r} must not decrease"
        self.clock = EventClock(window.column, repr(window), window.size, hint)
        self.places: deque[Number] = deque()
        super().__init__(window)

    def clear(self) -> None:
        self.clock.clear()
        self.places = deque()

    def place(self, x: Any, _time: Number | None) -> Measured:
        value = event_column(x, self.window.column, self.window)
        return Measured(value, self.clock.read(value))

    def enter(self, place: Measured) -> bool:
        self.clock.move(place.value, place.number)
        self.places.append(place.number)
        return False

    def leaving(self, held: int, _now: Number | None) -> int:
        places, current, size = self.places, self.clock.last, self.size
        gone = 0
        while gone < held and current - places[0] >= size:  # type: ignore[operator]
            places.popleft()
            gone += 1
        return gone

    def copy(self) -> Self:
        twin = super().copy()
        twin.clock, twin.places = self.clock.copy(), self.places.copy()
        return twin


class SessionEvictor(Evictor[Number]):
    """The events since the last gap."""

    folds = True

    def __init__(self, window: Session) -> None:
        self.gap = length(window.gap)
        self.previous: Number | None = None
        super().__init__(window)

    def clear(self) -> None:
        self.previous = None

    def place(self, _x: Any, time: Number | None) -> Number:
        assert time is not None
        return time

    def enter(self, place: Number) -> bool:
        starts = self.ended(place)
        self.previous = place
        return starts

    def ended(self, now: Number) -> bool:
        return self.previous is not None and now - self.previous > self.gap


class PunctuationEvictor(Evictor[bool]):
    """The events since the last marked one."""

    folds = True

    def __init__(self, window: Punctuation) -> None:
        self.marked = False
        super().__init__(window)

    def clear(self) -> None:
        self.marked = False

    def place(self, x: Any, _time: Number | None) -> bool:
        mark = event_column(x, self.window.column, self.window)
        if mark is not None and not isinstance(mark, bool | np.bool_):
            raise TypeError(
                f"column {self.window.column!r} of {self.window!r} must be True or False; got {mark!r}, "
                f"a {type(mark).__name__}"
            )
        return bool(mark)

    def enter(self, place: bool) -> bool:
        starts, self.marked = self.marked, place
        return starts


class LifetimeEvictor(Evictor[None]):
    """All events."""

    folds = True

    def place(self, _x: Any, _time: Number | None) -> None:
        return None


class PolicyEvictor(Evictor[tuple[State, ...]]):
    """The events that a function, given aggregates of the window, does not evict."""

    def __init__(self, window: Policy) -> None:
        self.amta = AMTA(JointMonoid([bound.monoid for bound in window.over]))
        super().__init__(window)

    def clear(self) -> None:
        self.amta.clear()

    def place(self, x: Any, _time: Number | None) -> tuple[State, ...]:
        return tuple(bound.monoid.lifted(event_inputs(x, bound)) for bound in self.window.over)

    def enter(self, place: tuple[State, ...]) -> bool:
        self.amta.push(place)
        return False

    def leaving(self, _held: int, _now: Number | None) -> int:
        return self.amta.enforce(self.window.evicts)

    def copy(self) -> Self:
        twin = super().copy()
        twin.amta = self.amta.copy()
        return twin


class JointMonoid(Monoid):
    """Several aggregates, each of its own columns: a tuple of their states."""

    def __init__(self, monoids: Sequence[Monoid]) -> None:
        self.monoids = tuple(monoids)
        self.identity = tuple(monoid.identity for monoid in monoids)

    def lift(self, *states: Any) -> Any:
        return states

    def combine(self, a: Any, b: Any) -> Any:
        return tuple(monoid.combine(x, y) for monoid, x, y in zip(self.monoids, a, b, strict=True))

    def policy_value(self, a: Any) -> Any:
        return tuple(monoid.policy_value(x) for monoid, x in zip(self.monoids, a, strict=True))


EVICTORS: dict[type[WindowKind], type[Evictor[Any]]] = {
    Count: CountEvictor,
    Time: TimeEvictor,
    Delta: DeltaEvictor,
    Session: SessionEvictor,
    Punctuation: PunctuationEvictor,
    Lifetime: LifetimeEvictor,
    Policy: PolicyEvictor,
}


def event_inputs(x: Any, bound: Bound) -> tuple[Any, ...]:
    """The inputs of an aggregate: values of columns and of expressions. Raises as `event_column` and `row_value`."""
    if bound.is_plain:
        return tuple([event_column(x, str(name), bound) for name in bound.columns])
    return tuple([row_value(tree, partial(event_column, x, of=bound, tree=tree)) for tree in inputs_of(bound)])


def event_column(x: Any, name: str, of: Bound | WindowKind, tree: Node | None = None) -> Any:
    """The value of one column of an event, which an expression may name.

    Raises KeyError if the event has none of that name, TypeError if it has no columns; both name it.
    """
    try:
        return x[name]
    except KeyError:
        names = ", ".join(map(repr, x)) if hasattr(x, "__iter__") else ""
        quoted = "" if tree is None else with_text(tree, name)
        remedy = f": texts take single quotes: {quoted}" if quoted else ""
        raise KeyError(
            f"{of!r} reads the column {name!r}, and the event has {names or 'none of that name'}{remedy}"
        ) from None
    except (TypeError, IndexError):
        raise TypeError(
            f"{of!r} reads the column {name!r}: push a dict of columns, such as {{{name!r}: …}}; "
            f"got {x!r}, a {type(x).__name__}"
        ) from None
