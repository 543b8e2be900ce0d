"""EventClock: the times of events in a loop, as numbers that never decrease.

    3, 4.5                      unchanged                  sizes are numbers
    datetime, naive or aware    nanoseconds                sizes are durations
    date                        nanoseconds, whole days    sizes are durations, of whole days

The first time determines the kind of the others. A time before the last is refused: a loop has no reorder buffer.
"""

from __future__ import annotations

import copy
import math
from datetime import UTC, date, datetime, timedelta
from operator import index
from typing import Any, Self

import numpy as np

from sash.windows.calendar import LocalClock
from sash.windows.duration import UNITS, Duration

_NAIVE = datetime(1970, 1, 1)
_AWARE = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
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
            return "aware" if aware else "naive", (since // _MICROSECOND) * 1000 + finer
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
