"""Half-lives of exponentially weighted aggregates that are measured in time."""

from __future__ import annotations

from typing import Any

from sash.expressions.excerpt import shortened
from sash.monoids.algebra import Monoid
from sash.plan.time_axis import TimeAxis
from sash.windows.duration import Duration


def halflife_of(monoid: Monoid, label: str) -> Duration | float | None:
    """The half-life of an aggregate that reads the time: a Duration, or a number in units of the time; else None.

    Raises TypeError or ValueError, naming the aggregate, if it is no duration, or not positive.
    """
    if not monoid.reads_time:
        return None
    halflife: Any = getattr(monoid, "halflife")  # noqa: B009 (only monoids that read the time have one)
    if isinstance(halflife, int | float):
        return halflife
    found = Duration.of(halflife, f"halflife= of {shortened(label)}")
    if found.nanoseconds <= 0:
        raise ValueError(f"halflife= of {label} must be positive; got {str(found)!r}")
    return found


def halflife_in_units(monoid: Monoid, time: TimeAxis, label: str) -> float:
    """The half-life of an aggregate that reads the time, in units of its column; it need not be a whole number.

    Raises TypeError if it is a duration and the column has numbers, or the other way round.
    """
    halflife = halflife_of(monoid, label)
    if isinstance(halflife, Duration) and time.timed:
        return halflife.nanoseconds / time.unit
    if isinstance(halflife, Duration) or time.timed:
        return time.number(halflife, f"halflife= of {label}")  # raises: a duration of numbers, a number of times
    assert halflife is not None
    return float(halflife)
