"""sash.Window: what is a time, and which are refused."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas
import pytest

import sash
from tests.plan.event_windows import START

# ---- times ----


@pytest.mark.parametrize("zone", [None, UTC, timezone(timedelta(hours=5, minutes=30))])
@pytest.mark.parametrize("size", ["90m", timedelta(minutes=90), sash.windows.Duration.of("90m"), sash.Time("90m")])
def test_datetimes(zone, size):
    loop = sash.Window(size, sash.monoids.Collect())
    start = START.replace(tzinfo=zone)
    assert loop.push(1, start) == [1]
    assert loop.push(2, start + timedelta(minutes=89, seconds=59, microseconds=999_999)) == [1, 2]
    assert loop.push(3, start + timedelta(minutes=90)) == [2, 3]
    assert loop.advance(start + timedelta(minutes=180)) is None


def test_zones_are_one_time():
    """02:30 in Berlin was twice on that night, an hour apart; the clock goes by UTC."""
    berlin = ZoneInfo("Europe/Berlin")
    loop = sash.Window("1h", sash.monoids.Count())
    assert loop.push(0, datetime(2024, 10, 27, 2, 30, tzinfo=berlin)) == 1
    assert loop.push(0, datetime(2024, 10, 27, 2, 15, tzinfo=berlin, fold=1)) == 2
    assert loop.push(0, datetime(2024, 10, 27, 1, 45, tzinfo=UTC)) == 2
    assert loop.push(0, datetime(2024, 10, 27, 3, 15, tzinfo=berlin)) == 2


def test_dates():
    loop = sash.Window("7d", sash.monoids.Count())
    assert [loop.push(0, date(2024, 2, day)) for day in (20, 26, 27, 28)] == [1, 2, 2, 3]
    with pytest.raises(ValueError, match=r"Time\('36h'\) is measured in '36h', not a whole number of days"):
        sash.Window("36h", sash.monoids.Count()).push(0, date(2024, 2, 20))


def test_limits_of_time():
    for size, times in {
        "52w": (datetime.min, datetime.max),
        sash.Time(2**62): (-(2**63), 2**63 - 1),
        sash.Time(1e308): (-1.7e308, 1.7e308),
    }.items():
        loop = sash.Window(size, sash.monoids.Count())
        assert [loop.push(0, time) for time in times] == [1, 1]
    loop = sash.Window(sash.Time(2.0), sash.monoids.Count())
    assert [loop.push(0, 2**62 + i) for i in range(4)] == [1, 2, 2, 2], "no time is rounded"


def test_numbers_of_numpy():
    loop = sash.Window(sash.Time(2), sash.monoids.Sum())
    assert loop.push(1, np.int32(5)) == 1
    assert loop.push(1, np.float32(6.5)) == 2
    assert loop.push(np.int64(1), np.int64(8)) == 2


class Finer(datetime):
    """A datetime with nanoseconds, as that of pandas is."""

    nanosecond = 0


def test_datetimes_with_nanoseconds():
    loop = sash.Window("2ns", sash.monoids.Count())
    counts = []
    for n in range(3):
        time = Finer(2024, 1, 1)
        time.nanosecond = n
        counts.append(loop.push(0, time))
    assert counts == [1, 2, 2]


def test_timestamps_of_pandas():
    loop = sash.Window("2ns", sash.monoids.Count())
    first = pandas.Timestamp("2024-01-01T00:00:00.000000001")
    assert [loop.push(0, first + pandas.Timedelta(n, "ns")) for n in (0, 1, 2)] == [1, 2, 2]
    with pytest.raises(ValueError, match="NaT is not a time"):
        loop.push(0, pandas.NaT)


def refused(error, match, window, aggregate, *pushes):
    """The last push is refused, and the window is as it was before."""
    loop = sash.Window(window, aggregate)
    *good, bad = pushes
    for push in good:
        loop.push(*push)
    before, held = loop.query(), len(loop)
    with pytest.raises(error, match=match):
        loop.push(*bad)
    assert (loop.query(), len(loop)) == (before, held)


def test_times_that_are_refused():
    count = sash.monoids.Count()
    refused(
        ValueError, r"time=4 is before 5, the last one: .*Sort them.*lateness=", sash.Time(9), count, (0, 5), (0, 4)
    )
    refused(ValueError, "time=4 is before 5", 3, count, (0, 5), (0, 4))
    refused(ValueError, "time=4 is before 5", sash.Session(3), count, (0, 5), (0, 4))
    refused(TypeError, r"Time\('1h'\) is measured in time: push\(x, time\)", "1h", count, (0,))
    refused(TypeError, r"Session\(3\) is measured in time: push\(x, time\)", sash.Session(3), count, (0, 1), (0,))
    refused(ValueError, "time=nan is not finite", sash.Time(9), count, (0, 5), (0, math.nan))
    refused(ValueError, "time=inf is not finite", sash.Time(9), count, (0, math.inf))
    refused(TypeError, "time must be a number, a datetime or a date; got '5', a str", sash.Time(9), count, (0, "5"))
    refused(TypeError, "time must be a number, a datetime or a date; got True", sash.Time(9), count, (0, True))
    refused(TypeError, r"Time\('1h'\) is measured in '1h', a duration, and time=5 is a number", "1h", count, (0, 5))
    refused(TypeError, r"Time\(9\) is measured in 9, a number, .*one of datetimes", sash.Time(9), count, (0, START))
    refused(
        TypeError,
        "is one of datetimes with a time zone, and those before are datetimes without",
        "1h",
        count,
        (0, START),
        (0, START.replace(tzinfo=UTC)),
    )
    refused(TypeError, "is one of dates, and those before are numbers", 3, count, (0, 5), (0, date(2024, 1, 1)))


def test_equal_times_are_in_order():
    loop = sash.Window(sash.Time(5), sash.monoids.Collect())
    assert [loop.push(x, 7) for x in (1, 2, 3)] == [[1], [1, 2], [1, 2, 3]]
