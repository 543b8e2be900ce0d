"""Calendar arithmetic on arrays, compared with `datetime` and `zoneinfo`, also in unusual zones."""

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sash.testing import window_oracle as calendar_oracle
from sash.windows import calendar
from sash.windows.calendar import CalendarGrid, CalendarLength, LocalClock, ZoneRules, zone_name, zone_rules

ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "America/Sao_Paulo",  # changed at midnight
    "America/Havana",  # midnight occurs twice
    "Australia/Lord_Howe",  # changes by half an hour
    "Asia/Kathmandu",  # +05:45
    "Africa/Casablanca",  # four changes a year
    "Pacific/Apia",  # had no 2011-12-30
    "+05:30",
    "UTC",
]
SECOND = 10**9
FIRST, LAST = 1_240_000_000, 1_720_000_000  # 2009 to 2024


def seconds(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp())  # type: ignore[arg-type,misc]


def moments(zone: str, seed: int) -> list[int]:
    """Seconds here and there, and around changes of the clock."""
    draw = random.Random(seed)
    changes = [int(at) for at in zone_rules(zone).between(FIRST, LAST).at if FIRST < at < LAST]
    near = [at + hours * 1800 for at in draw.sample(changes, min(2, len(changes))) for hours in (-49, -2, -1, 0, 1, 3)]
    return sorted([*near, *(draw.randrange(FIRST, LAST) for _ in range(12))])


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", [1, 1000, SECOND])
def test_starts_are_those_of_the_definition(zone: str, unit: int) -> None:
    clock, scale = LocalClock(zone, unit), SECOND // unit
    for months, days in ((1, 0), (3, 0), (12, 0), (0, 1), (0, 7)):
        length = CalendarLength(clock, months, days)
        times = np.array([at * scale + scale // 3 for at in moments(zone, months + days)])
        expected = [calendar_oracle.start_before(length, t) for t in times.tolist()]
        assert length.before(times).tolist() == expected, (months, days)
        assert all(length.longest >= t - start for t, start in zip(times.tolist(), expected, strict=True))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("every", "size", "offset", "shift"),
    [
        ((0, 1), (0, 1), 0, 0),
        ((0, 1), (0, 3), 6 * 3600, 0),
        ((0, 7), (0, 7), 0, 0),
        ((0, 5), (1, 0), -3600, 0),
        ((1, 0), (3, 0), 0, 0),
        ((12, 0), (12, 0), 0, 3),
        ((3, 0), 36 * 3600, 86400, 0),
        (3 * 3600, (1, 0), 1800, 0),
    ],
)
def test_slides_are_those_of_the_definition(zone: str, every: Any, size: Any, offset: int, shift: int) -> None:
    clock = LocalClock(zone, SECOND)
    step, wide = (CalendarLength(clock, *one) if isinstance(one, tuple) else one for one in (every, size))
    grid = CalendarGrid(step, wide, offset, shift)
    for strict in (False, True):
        times = np.array(moments(zone, 1))
        ends, starts = grid.last_end(times, strict), grid.last_start(times, strict)
        for x, last, start in zip(times.tolist(), ends.tolist(), starts.tolist(), strict=True):
            bounds = {k: calendar_oracle._slide(grid, k) for k in (last, last + 1, start, start + 1)}
            assert bounds[last][1] < x + (not strict) <= bounds[last + 1][1]
            assert bounds[start][0] < x + (not strict) <= bounds[start + 1][0]
            assert (grid.starts(last), grid.ends(last)) == bounds[last]
        many = np.arange(ends.min(), ends.min() + 50)
        assert grid.ends(many).tolist() == [calendar_oracle._slide(grid, k)[1] for k in many.tolist()]
        assert grid.starts(many).tolist() == [calendar_oracle._slide(grid, k)[0] for k in many.tolist()]


def test_starts_never_go_back() -> None:
    for zone in ZONES:
        times = np.arange(seconds(2011, 1, 1), seconds(2012, 6, 1), 1200)
        for months, days in ((1, 0), (2, 0), (0, 1), (0, 30)):
            starts = CalendarLength(LocalClock(zone, SECOND), months, days).before(times)
            assert (np.diff(starts) >= 0).all(), zone
            assert (starts < times).all(), zone


@pytest.mark.parametrize("unit", [1, SECOND, 86_400 * SECOND])
@pytest.mark.parametrize("zone", ZONES)
def test_many_times_are_as_each_alone(zone: str, unit: int) -> None:
    begin, end = seconds(2011, 9, 1) * SECOND // unit, seconds(2012, 4, 1) * SECOND // unit
    times = np.arange(begin, end, max(1, 1_207 * SECOND // unit)).repeat(1 if unit < 10**10 else 8)
    for months, days in ((1, 0), (12, 0), (0, 1), (0, 7)):
        length = CalendarLength(LocalClock(zone, unit), months, days)
        alone = np.concatenate([length.before(part) for part in np.array_split(times, len(times) // 500)])
        many = length._before_by_day(times)
        assert many is not None
        assert many.tolist() == alone.tolist() == length.before(times).tolist()


def test_the_end_of_february() -> None:
    clock = LocalClock("UTC", SECOND)
    at = [(2024, 3, 28, 12), (2024, 3, 29, 0), (2024, 3, 29, 12), (2024, 3, 30, 0), (2024, 3, 31, 9), (2024, 4, 1, 0)]
    starts = CalendarLength(clock, 1, 0).before(np.array([seconds(*one) for one in at]))
    assert [datetime.fromtimestamp(start, UTC).replace(tzinfo=None) for start in starts.tolist()] == [
        datetime(2024, 2, 28, 12),
        *[datetime(2024, 2, 29)] * 3,
        datetime(2024, 2, 29, 9),
        datetime(2024, 3, 1),
    ]


@pytest.mark.parametrize(
    ("zone", "day", "begins", "hours"),
    [
        ("America/Sao_Paulo", (2018, 11, 4), (2018, 11, 4, 3), 23),  # 00:00 was skipped: the day began at 01:00
        ("America/Sao_Paulo", (2018, 2, 17), (2018, 2, 17, 2), 25),  # 23:00 occurred twice
        ("America/Havana", (2023, 11, 5), (2023, 11, 5, 4), 25),  # 00:00 occurred twice
        ("Asia/Beirut", (2024, 3, 31), (2024, 3, 30, 22), 23),  # 00:00 was skipped
        ("Pacific/Apia", (2011, 12, 31), (2011, 12, 30, 10), 24),  # the day after the one that was skipped
        ("America/New_York", (2024, 3, 10), (2024, 3, 10, 5), 23),
    ],
)
def test_a_local_day_begins_at_its_first_instant(zone: str, day: Any, begins: Any, hours: int) -> None:
    clock = LocalClock(zone, SECOND)
    midnight = np.array([seconds(*day), seconds(*day) + 86400])
    first, after = clock.instant(midnight).tolist()
    assert first == seconds(*begins)
    assert after - first == hours * 3600


def test_a_skipped_day_is_an_empty_window() -> None:
    clock = LocalClock("Pacific/Apia", SECOND)
    grid = CalendarGrid(CalendarLength(clock, 0, 1), CalendarLength(clock, 0, 1), 0, 0)
    k = int(grid.last_end(np.array([seconds(2011, 12, 30, 10)]), False)[0])
    assert grid.ends([k - 1, k]).tolist() == [seconds(2011, 12, 30, 10)] * 2
    assert grid.starts([k]).tolist() == [seconds(2011, 12, 30, 10)]


@pytest.mark.parametrize("year", [1, 1799, 1850, 1969, 2037, 2038, 2437, 2438, 2837, 3000, 9998])
@pytest.mark.parametrize("zone", ["America/New_York", "Europe/London", "Australia/Sydney"])
def test_offsets_are_those_of_zoneinfo_in_any_year(year: int, zone: str) -> None:
    """The rules from 2438 on follow from those 400 years earlier."""
    moment = datetime(year, 1, 2, tzinfo=UTC)
    moments = [moment + timedelta(hours=67 * n) for n in range(100)]
    at = np.array([(one - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) for one in moments])
    shifts = [one.astimezone(ZoneInfo(zone)).utcoffset() // timedelta(seconds=1) for one in moments]  # type: ignore[operator]
    clock = LocalClock(zone, SECOND)
    assert clock.instant(at + shifts).tolist() == at.tolist()


def test_times_beyond_64_bits_saturate() -> None:
    clock = LocalClock("America/New_York", 1)
    assert CalendarLength(clock, 1200, 0).before(np.array([calendar.LEAST + 10**15])).tolist() == [calendar.LEAST]
    grid = CalendarGrid(CalendarLength(clock, 1, 0), CalendarLength(clock, 1, 0), 0, 0)
    assert calendar.LEAST < grid.least < 0 < grid.greatest < calendar.GREATEST


def test_too_many_slides_are_refused() -> None:
    grid = CalendarGrid(1, CalendarLength(LocalClock("UTC", SECOND), 1, 0), 0, 0)
    with pytest.raises(OverflowError, match=r"too far apart for windows of a calendar length .* slides between them"):
        grid.last_start(np.array([seconds(1970, 1, 1), seconds(2024, 1, 1)]), False)


def test_years_are_read_when_they_are_needed() -> None:
    rules = ZoneRules("Europe/Berlin")
    few = rules.between(seconds(2023, 5, 1), seconds(2023, 6, 1))
    assert len(few.at) == 6  # a year more on both sides
    assert rules.between(seconds(2023, 1, 1), seconds(2023, 12, 1)) is few
    assert len(rules.between(seconds(2019, 1, 1), seconds(2020, 1, 1)).at) == 14


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
        ("-03:30", "-03:30"),
        (ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
        (UTC, "UTC"),
        (timezone(timedelta(hours=5, minutes=30)), "+05:30"),
    ],
)
def test_zones_have_names(value: Any, name: str) -> None:
    assert zone_name("tz=", value) == name


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (
            "Europe/Berlim",
            ValueError,
            r"tz= is 'Europe/Berlim', which is not a known time zone: did you mean 'Europe/Berlin'",
        ),
        ("", ValueError, r"tz= is '', which is not a known time zone"),
        ("+25:00", ValueError, r"tz= is '\+25:00', which is not a known"),
        ("../x", ValueError, r"not a known time zone"),
        (5, TypeError, r"tz= must be a time zone such as 'Europe/Berlin'; got 5, a int"),
    ],
)
def test_what_is_no_zone(value: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        zone_name("tz=", value)
