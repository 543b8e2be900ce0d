"""Bind the calendar lengths of a window to a time column: months, and with `tz=` days."""

from __future__ import annotations

from fractions import Fraction
from math import isclose

from sash.plan.time_axis import Number, TimeAxis
from sash.windows.calendar import CalendarGrid, CalendarLength, LocalClock
from sash.windows.duration import Duration
from sash.windows.specs import Time, WindowKind


class WindowCalendar:
    """The sizes and slides of a window in units of its time column; `of` names the window in errors."""

    def __init__(self, window: WindowKind, time: TimeAxis, of: str) -> None:
        self.window, self.time, self.of = window, time, of
        by = window if isinstance(window, Time) else window.every
        self.zone: str | None = by.tz if isinstance(by, Time) else None

    def _calendar(self, value: object, what: str) -> CalendarLength | None:
        """A calendar length; None if the value is a fixed one. Raises TypeError for a column of numbers."""
        if not isinstance(value, Duration):
            return None
        days = (value.days or 0) if self.zone is not None else 0
        if not value.calendar and not days:
            return None
        if not self.time.timed:
            raise TypeError(
                f"{what}{self.of} is {str(value)!r}, a length of the calendar, and the column {self.time.column!r} is "
                f"of type {self.time.type}: cast it to timestamp"
            )
        zone = "UTC" if self.zone is None or self.time.has_dates else self.zone  # a date is local in any zone
        return CalendarLength(LocalClock(zone, self.time.unit), value.months, days)

    @property
    def size(self) -> CalendarLength | None:
        """The size of a Time window, if it is a calendar length."""
        return self._calendar(self.window.size, "size=") if isinstance(self.window, Time) else None

    @property
    def shift(self) -> CalendarLength | None:
        """How far a Time window ends before its row, if that is a calendar length."""
        by = self.window.shift if isinstance(self.window, Time) else 0
        return self._calendar(Duration(-by.nanoseconds, -by.months), "shift=") if isinstance(by, Duration) else None

    @property
    def every(self) -> CalendarLength | None:
        """The distance of slides in time, if it is a calendar length."""
        return self._calendar(self.window.step, "every=") if self.window.slide == "time" else None

    def number(self, length: CalendarLength | None, value: object, what: str) -> Number:
        """A length in units; of a calendar length the greatest."""
        if length is None:
            return self.time.number(value, f"{what}{self.of}")
        return self.time.within(length.longest, f"{what}{self.of}", str(value))

    @property
    def _by_start(self) -> bool:
        return isinstance(self.window, Time) and self.window.align == "start"

    @property
    def offset(self) -> Number:
        """The shift of the ends of slides, without months: with `align="start"` their starts are shifted by `offset`.

        For slides of the calendar it is in local time.
        """
        if not isinstance(self.window, Time):
            return 0
        offset, size, every = self.window.offset, self.size, self.every
        given = 0 if isinstance(offset, Duration) and offset.calendar else self.number(None, offset, "offset=")
        if not self._by_start:
            return given
        if every is None:
            return _of_ends(
                given, self.number(None, self.window.size, "size="), self.number(None, self.window.step, "every=")
            )
        if size is None:
            return given  # after a change of the clock the end is not at a fixed local time: `after`
        return given + (size.days % every.days if every.days else size.days) * size.clock.day

    @property
    def grid(self) -> CalendarGrid | None:
        """The slides in time, if they follow the calendar."""
        size, every = self.size, self.every
        if self.window.slide != "time" or (size is None and every is None):
            return None
        step = int(self.number(None, self.window.step, "every=")) if every is None else every
        wide: CalendarLength | int | None = size
        if size is None and isinstance(self.window, Time):
            wide = int(self.number(None, self.window.size, "size="))
        months = self.window.offset.months if isinstance(getattr(self.window, "offset", 0), Duration) else 0  # type: ignore[attr-defined]
        after = 0
        if self._by_start and every is not None:
            months += size.months % every.months if size is not None and every.months else 0
            after = 0 if isinstance(wide, CalendarLength) else int(wide or 0)
        return CalendarGrid(step, wide, int(self.offset), months, after)


def _of_ends(offset: Number, size: Number, every: Number) -> Number:
    """The shift of the ends of slides that start at multiples of `every`, shifted by `offset`.

    Floats are the decimals that are written, as for the slides themselves, and 1.0 is a multiple of 1 / 3.
    """
    first, length, step = (Fraction(str(one)) for one in (offset, size, every))
    slides = length / step
    divides = not length % step or (isinstance(size, float) and isclose(slides, round(slides), rel_tol=1e-15))
    return offset if divides else type(size)((first + length) % step)
