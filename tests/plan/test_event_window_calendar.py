"""Windows of calendar lengths in loops: the same as on frames."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

import sash

NEW_YORK = "America/New_York"


def times(zone: Any, hours: int, count: int) -> list[datetime]:
    """Times through the end of February and both changes of the clock."""
    first = datetime(2024, 1, 25, 3, 30, tzinfo=UTC)
    return [(first + timedelta(hours=hours * n)).astimezone(zone) for n in range(count)]


@pytest.mark.parametrize(
    ("size", "shift"),
    [("1mo", 0), ("1q", 0), ("3d", 0), ("1w", 0), ("1mo", "-1mo"), ("3d", "-7d"), ("36h", "-7d"), ("1mo", "-36h")],
)
@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
def test_a_loop_gives_what_a_frame_gives(size: str, shift: Any, closed: Any) -> None:
    at = times(ZoneInfo(NEW_YORK), 11, 700)
    window = sash.Time(size, closed=closed, tz=NEW_YORK, shift=shift)
    frame = pd.DataFrame({"t": pd.to_datetime(at, utc=True), "x": range(len(at))})
    expected = sash.rolling(frame, window, on="t", n=sash.count(), low=sash.min("x"))
    loop = sash.Window(window, n=sash.count(), low=sash.min("x"))
    got = [loop.push({"x": x}, time) for x, time in enumerate(at)]
    assert [one["n"] for one in got] == expected["n"].tolist()
    assert [one["low"] for one in got] == expected["low"].astype(object).where(expected["low"].notna(), None).tolist()


def test_months_are_those_of_utc_without_a_zone() -> None:
    window = sash.Window("1mo", sash.monoids.Count())
    pushed = [window.push(1, time) for time in (datetime(2024, 2, 29), datetime(2024, 3, 28), datetime(2024, 3, 29))]
    assert pushed == [1, 2, 2]


@pytest.mark.parametrize("tz", [None, NEW_YORK])
def test_dates_are_days_in_any_zone(tz: str | None) -> None:
    window = sash.Window(sash.Time("3d", tz=tz), sash.monoids.Count())
    days = [date(2024, 3, 8) + timedelta(n) for n in range(6)]  # the clock goes forward on March 10
    assert [window.push(1, day) for day in days] == [1, 2, 3, 3, 3, 3]


def test_nanoseconds_count() -> None:
    window = sash.Window("1mo", sash.monoids.Count())
    window.push(1, pd.Timestamp("2024-02-10 00:00:00.000000005"))
    assert window.copy().push(1, pd.Timestamp("2024-03-10 00:00:00.000000004")) == 2
    assert window.push(1, pd.Timestamp("2024-03-10 00:00:00.000000005")) == 1


def test_advance_evicts_by_the_calendar() -> None:
    window = sash.Window(sash.Time("1d", tz=NEW_YORK), sash.monoids.Count())
    window.push(1, datetime(2024, 11, 2, 12, tzinfo=ZoneInfo(NEW_YORK)))
    assert window.advance(datetime(2024, 11, 3, 11, 59, tzinfo=ZoneInfo(NEW_YORK))) == 1  # 24 hours and 59 minutes
    assert window.advance(datetime(2024, 11, 3, 12, tzinfo=ZoneInfo(NEW_YORK))) == 0


def test_numbers_have_no_calendar() -> None:
    with pytest.raises(TypeError, match=r"is measured in '1mo', a duration, and time=5 is a number"):
        sash.Window("1mo", sash.monoids.Count()).push(1, 5)
