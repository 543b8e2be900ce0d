"""Calendar windows as arguments, bound to a schema, explained and identified."""

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Time

NEW_YORK = "America/New_York"
SCHEMA = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "x": pa.float64()})


def bound(window: Any, schema: pa.Schema = SCHEMA) -> Any:
    return sash.Query(window, by="k", on="t", n=sash.count()).bind(schema)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Time("1mo"), "Time('1mo')"),
        (Time("1 quarter", every="1 month"), "Time('3mo', every='1mo')"),
        (Time("7d", tz=ZoneInfo(NEW_YORK)), "Time('7d', tz='America/New_York')"),
        (Time("1y", every="1y", offset="3mo", tz="UTC"), "Time('1y', every='1y', offset='3mo', tz='UTC')"),
        (Time(timedelta(days=1), every=timedelta(days=1), tz=NEW_YORK), f"Time('1d', every='1d', tz={NEW_YORK!r})"),
        (Time("1d", every=10, tz=NEW_YORK), f"Time('1d', every=Count(10), tz={NEW_YORK!r})"),
        (Count(5, every=Time("1d", tz=NEW_YORK)), f"Count(5, every=Time('1d', tz={NEW_YORK!r}))"),
        (Lifetime(every="1mo"), "Lifetime(every='1mo')"),
    ],
)
def test_how_they_are_written(window: Any, text: str) -> None:
    assert repr(window) == text
    assert eval(text, {"Time": Time, "Count": Count, "Lifetime": Lifetime}) == window


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Time("1h", tz=NEW_YORK), ValueError, r"tz='America/New_York' of Time has no effect on 1h: give days"),
        (lambda: Time("6h", every="6h", tz="UTC"), ValueError, r"tz='UTC' of Time has no effect on 6h every 6h: give"),
        (lambda: Time(5, tz="UTC"), ValueError, r"tz='UTC' of Time has no effect on 5: give days"),
        (lambda: Time("1d", tz="Nowhere"), ValueError, r"tz= of Time is 'Nowhere', which is not a known time zone"),
        (
            lambda: Time("1d", every="1d", offset="1mo"),
            ValueError,
            r"offset='1mo' of Time is a calendar length, and every",
        ),
        (lambda: Time("1mo", every="1h", offset="1mo"), ValueError, r"and every='1h' is not: give both in months"),
        (
            lambda: Time("1mo", every="1h", align="start"),
            ValueError,
            r"align='start' of Time: size='1mo' is a length of the calendar, and every='1h' is not in months, quarters",
        ),
        (
            lambda: Time("1mo", every="1d", align="start", tz=NEW_YORK),
            ValueError,
            r"and every='1d' is not in months, quarters or years: give every= in months, .*, or leave align= out",
        ),
        (
            lambda: Time("7d", every="1h", align="start", tz=NEW_YORK),
            ValueError,
            r"size='7d' is a length of the calendar, and every='1h' is not in days, weeks or months: give every= in d",
        ),
        (lambda: Time("-1mo"), ValueError, r"size= of Time must be above zero; got '-1mo'"),
        (lambda: Time("1mo", every="0mo"), ValueError, r"every= of Time must be above zero"),
        (lambda: Time("1mo", offset="1d"), ValueError, r"offset='1d' of Time shifts windows that slide in time"),
        (lambda: Time("1mo", every="1mo", closed="both"), ValueError, r"closed='both' of Time: windows that slide"),
        (
            lambda: Count(5, every=Time("1d", every="1d")),
            ValueError,
            r"every= of Count must be a Time with only a size",
        ),
        (lambda: sash.Session("1mo"), ValueError, r"gap= of Session is '1mo', a calendar length"),
        (
            lambda: sash.Query("1h", on="t", lateness="1mo", n=sash.count()),
            ValueError,
            r"lateness= is '1mo', a calendar",
        ),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize("type_", [pa.int64(), pa.float64()])
@pytest.mark.parametrize(
    "window",
    [Time("1mo"), Time("1d", tz=NEW_YORK), Time("1d", every="1mo"), Count(3, every="1y"), Lifetime(every="1mo")],
)
def test_numbers_have_no_calendar(type_: pa.DataType, window: Any) -> None:
    says = rf"'\w+', .*the column 't' is of type {type_}: .*cast (it|the column) to timestamp"
    with pytest.raises(TypeError, match=says):
        bound(window, SCHEMA.set(1, pa.field("t", type_)))


def test_a_size_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"size= of Time is '300y', beyond 64 bits in the units of the column 't'"):
        bound(Time("300y"), SCHEMA.set(1, pa.field("t", pa.timestamp("ns"))))
    bound(Time("300y"))


def test_dates_take_whole_days() -> None:
    dates = SCHEMA.set(1, pa.field("t", pa.date32()))
    bound(Time("1mo", every="1d", tz=NEW_YORK), dates)
    with pytest.raises(ValueError, match=r"offset= of Time is '6h', not a whole number of days"):
        bound(Time("1d", every="1d", offset="6h", tz=NEW_YORK), dates)


def test_fixed_lengths_have_no_calendar() -> None:
    for window in (Time("1d"), Time("7d", every="1d"), Count(3, every="1d"), Lifetime(every="1h"), Time("1d", every=5)):
        spec = bound(window).windows[0]
        assert (spec.calendar_size, spec.grid) == (None, None)


def test_numbers_of_calendar_lengths_are_the_greatest() -> None:
    day = 86_400_000_000
    assert bound(Time("1mo")).windows[0].size == 31 * day
    assert bound(Time("1y", every="1mo")).windows[0].size == 366 * day
    assert bound(Time("1d", every="1d", tz=NEW_YORK)).windows[0].every == 3 * day


def test_the_fingerprint_covers_the_calendar() -> None:
    windows = [
        Time("1mo"), Time("31d"), Time("1mo", tz=NEW_YORK), Time("1mo", tz="Europe/Berlin"), Time("3d", tz=NEW_YORK),
        Time("1mo", every="1mo"), Time("1mo", every="1d"), Time("1mo", every="1d", tz=NEW_YORK),
        Time("1y", every="1y"), Time("1y", every="1y", offset="3mo"), Time("1y", every="1y", offset="90d"),
        Time("2mo", every="3mo"), Time("2mo", every="3mo", align="start"), Time("36h", every="1d", tz=NEW_YORK),
        Time("36h", every="1d", align="start", tz=NEW_YORK), Time("10d", every="1mo", align="start", tz=NEW_YORK),
        Count(3, every="1mo"), Count(3, every=Time("1mo", tz=NEW_YORK)), Lifetime(every="31d"), Lifetime(every="1mo"),
    ]  # fmt: skip
    assert len({bound(window).fingerprint for window in windows}) == len(windows)
    assert bound(Time("1mo", tz="UTC")).fingerprint == bound(Time("1mo")).fingerprint


def test_windows_of_months_and_of_days_are_as_each_alone() -> None:
    """Neither contains the other: 31 days are longer than February."""
    windows = {"m": Time("1mo"), **{f"d{n}": Time(f"{n}d") for n in range(28, 36)}}
    times = pa.array(range(0, 120 * 86_400, 30_000), pa.timestamp("s")).cast(SCHEMA.field("t").type)
    rows = pa.record_batch({"k": ["a"] * len(times), "t": times, "x": [i * 7919 % 1009 / 1 for i in range(len(times))]})

    def found(window: Any) -> pa.RecordBatch:
        operator = sash.Query(window, by="k", on="t", lateness="0s", high=sash.max("x")).operator(rows.schema)
        return pa.Table.from_batches([operator.process(rows), operator.finish()])

    together = found(windows)
    for name, window in windows.items():
        assert together[f"high_{name}"].equals(found(window)["high"])


def test_explain_names_the_calendar() -> None:
    query = sash.Query(Time("3mo", every="1mo", offset="5d", tz=NEW_YORK), by="k", on="t", n=sash.count())
    said = str(query.explain())
    assert "every 1mo of the calendar in America/New_York, shifted by 5d:  [end - 3mo of the calendar in Am" in said
    assert "each key holds at most 3 partials" in said
    said = str(sash.Query(Time("1mo", every="1d"), by="k", on="t", n=sash.count()).explain())
    assert "every 1d:  [end - 1mo of the calendar in UTC, end)" in said
    assert "at most 62 partials" in said
