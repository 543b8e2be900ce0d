"""Evictors: how a window in a loop restarts, and how many of the oldest events it evicts, by its `WindowRule`.

                        restarts                            evicts
    RowsEvictor         –                                   events beyond the size
    ValuesEvictor       –                                   events that precede the start
    RestartsEvictor     after a gap or a marked event       –
    PolicyEvictor       –                                   as the policy decides

`place` validates an event without a change, `enter` inserts it and returns whether a window starts with it, `leaving`
returns how many of the oldest to evict. Events of windows that end before the last event wait; `entering` returns how
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
from sash.aggregators.base import State
from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import Node, with_text
from sash.monoids.algebra import Bound, Monoid
from sash.plan.derived_columns import inputs_of
from sash.plan.time_axis import Number
from sash.windows import Policy, WindowKind
from sash.windows.calendar import CalendarLength, LocalClock
from sash.windows.duration import UNITS, Duration
from sash.windows.rules import BoundLengths, Measure, WindowRule, preceding, restarts

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

    def __init__(self, window: Any, rule: WindowRule) -> None:
        self.window, self.rule = window, rule

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


def loop_rule(window: WindowKind) -> WindowRule:
    """Where a window in a loop begins and ends."""
    size, by = window.length, window.shift
    back = Duration(-by.nanoseconds, -by.months) if isinstance(by, Duration) else None
    lengths = BoundLengths(
        size=None if size is None else length(size),
        shift=length(by),
        closed=window.closed or "right",
        calendar_size=calendar_length(size, window.tz) if window.is_calendar else None,
        calendar_shift=calendar_length(back, window.tz),
    )
    return window.rule(lengths)


class RowsEvictor(Evictor[None]):
    """The last events, or those up to some events before the last."""

    def __init__(self, window: WindowKind, rule: WindowRule) -> None:
        self.size, self.delay, self.least = int(rule.size), -int(rule.shift), rule.full
        self.waits = self.delay > 0
        super().__init__(window, rule)

    def place(self, _x: Any, _time: Number | None) -> None:
        return None

    def entering(self, waiting: int, _now: Number | None) -> int:
        return max(waiting - self.delay, 0)

    def leaving(self, held: int, _now: Number | None) -> int:
        return held - self.size if held > self.size else 0

    def full(self, held: int) -> bool:
        return held >= self.least


class Measured(NamedTuple):
    """The value of an event, and the number that it is measured by."""

    value: Any
    number: Number


class ValuesEvictor(Evictor[Any]):
    """The events between two bounds, measured on their times or on a column, which must not decrease."""

    def __init__(self, window: WindowKind, rule: WindowRule) -> None:
        self.by, self.shift = rule.start[0], rule.end[0]
        self.clock: EventClock | None = None
        if rule.column is not None:
            hint = f"the column of {window!r} must not decrease"
            self.clock = EventClock(rule.column, repr(window), window.length, hint)
        self.is_plain = rule.column is None and rule.calendar_shift is None
        """Are bounds measured from the times of events?"""
        self.waits = rule.shift < 0 or rule.calendar_shift is not None or not rule.closed_end
        self.is_before_start, self.is_before_end = preceding(rule.start[3]), preceding(rule.end[3])
        self.values: deque[Number] = deque()
        self.later: deque[Number] = deque()
        """The values of the events that wait."""
        super().__init__(window, rule)

    def clear(self) -> None:
        self.values, self.later = deque(), deque()
        if self.clock is not None:
            self.clock.clear()

    def place(self, x: Any, time: Number | None) -> Any:
        if self.clock is None:
            return time
        value = event_column(x, self.clock.what, self.window)
        return Measured(value, self.clock.read(value))

    def enter(self, place: Any) -> bool:
        if self.clock is not None:
            self.clock.move(*place)
            place = place.number
        (self.later if self.waits else self.values).append(place)
        return False

    def entering(self, _waiting: int, now: Number | None) -> int:
        end, values, later, is_before = self._end(now), self.values, self.later, self.is_before_end
        before = len(values)
        while later and is_before(later[0], end):
            values.append(later.popleft())
        return len(values) - before

    def leaving(self, held: int, now: Number | None) -> int:
        values, gone, calendar = self.values, 0, self.rule.calendar_size
        if calendar is None:
            clock = self.clock
            start = (now if self.is_plain else self._origin(now) if clock is None else clock.last) + self.by
        else:
            end = self._end(now)
            if not held or values[0] > end - (calendar.shortest - calendar.clock.day) * _MICROSECOND:
                return 0  # no window of this length begins after its oldest event
            start = _start(calendar, int(end))
        is_before = self.is_before_start
        while gone < held and is_before(values[0], start):
            values.popleft()
            gone += 1
        return gone

    def _origin(self, now: Number | None) -> Number:
        """The value from which the bounds of an event's window are measured."""
        here = now if self.clock is None else self.clock.last
        assert here is not None
        return here if self.rule.calendar_shift is None else _start(self.rule.calendar_shift, int(here))

    def _end(self, now: Number | None) -> Number:
        """The end of the window of an event."""
        return (now if self.is_plain else self._origin(now)) + self.shift  # type: ignore[no-any-return]

    def copy(self) -> Self:
        twin = super().copy()
        twin.values, twin.later = self.values.copy(), self.later.copy()
        twin.clock = None if self.clock is None else self.clock.copy()
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


class RestartsEvictor(Evictor[Any]):
    """The events since the last gap, since the last marked one, or all of them."""

    folds = True

    def __init__(self, window: WindowKind, rule: WindowRule) -> None:
        self.previous: Any = None
        """The time of the last event, or whether it was marked."""
        super().__init__(window, rule)

    def clear(self) -> None:
        self.previous = None

    def place(self, x: Any, time: Number | None) -> Any:
        if self.rule.column is None:
            return time
        mark = event_column(x, self.rule.column, self.window)
        if mark is not None and not isinstance(mark, bool | np.bool_):
            raise TypeError(
                f"column {self.rule.column!r} of {self.window!r} must be True or False; got {mark!r}, "
                f"a {type(mark).__name__}"
            )
        return bool(mark)

    def enter(self, place: Any) -> bool:
        starts = self.ended(place) if self.rule.column is None else bool(self.previous)
        self.previous = place
        return starts

    def ended(self, now: Number) -> bool:
        gap = self.rule.gap
        return gap is not None and self.previous is not None and restarts(now, self.previous, gap)


class PolicyEvictor(Evictor[tuple[State, ...]]):
    """The events that a function, given aggregates of the window, does not evict."""

    def __init__(self, window: Policy, rule: WindowRule) -> None:
        self.amta = AMTA(JointMonoid([bound.monoid for bound in window.over]))
        super().__init__(window, rule)

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


EVICTORS: dict[Measure, Any] = {
    "rows": RowsEvictor,
    "values": ValuesEvictor,
    "restarts": RestartsEvictor,
    "policy": PolicyEvictor,
}


def evictor_of(window: WindowKind) -> Evictor[Any]:
    """The evictor of a window."""
    rule = loop_rule(window)
    return EVICTORS[rule.measure](window, rule)  # type: ignore[no-any-return]


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
