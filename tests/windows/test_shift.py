"""`shift=` of Count and Time windows: accepted and refused values, and the state that a query needs."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.windows import Count, Duration, Time


def test_shifts_of_rows() -> None:
    assert Count(10, shift=-1).shift == -1
    assert Count(10, shift=np.int8(2)) == Count(10, shift=2)
    assert Count(10, shift=0) == Count(10)
    assert repr(Count(10, shift=-1)) == "Count(10, shift=-1)"


def test_shifts_of_time() -> None:
    assert Time("1h", shift="-1h").shift == Duration.of("-60m")
    assert Time("1h", shift=timedelta(hours=-1)) == Time("1h", shift="-1h")
    assert Time(5, shift=-2.5).shift == -2.5
    assert Time("1h", shift="0s") == Time("1h") == Time("1h", shift=0)
    assert repr(Time("1h", shift="90m")) == "Time('1h', shift='90m')"


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: Count(3, shift=1.5), TypeError, r"shift= of Count must be a whole number of rows, such as -1; got 1\.5"),
    (lambda: Count(3, shift="1h"), TypeError, r"shift= of Count must be a whole number of rows"),
    (lambda: Count(3, shift=True), TypeError, r"shift= of Count must be a whole number of rows"),
    (lambda: Count(3, every=2, shift=-1), ValueError, r"shift=-1 of Count moves the window of a row, but every=2"),
    (lambda: Time("1h", shift="1x"), ValueError, r"shift= of Time has the unit 'x' in '1x'"),
    (lambda: Time("1h", shift=1), TypeError, r"shift=1 of Time and size=1h: give both as durations or both as numbers"),
    (lambda: Time(3, shift="1h"), TypeError, r"shift='1h' of Time and size=3: give both"),
    (lambda: Time(3, shift=float("nan")), ValueError, r"shift= of Time must be finite"),
    (lambda: Time(3, shift=None), TypeError, r"shift= of Time must be a duration"),
    (lambda: Time("1h", shift="1mo"), ValueError, r"shift='1mo' of Time moves the window ahead by a calendar length"),
    (
        lambda: Time("1d", tz="UTC", shift="2d"),
        ValueError,
        r"ahead by a calendar length.* or in days without tz",
    ),
    (lambda: Time("6h", tz="UTC", shift="2h"), ValueError, r"tz='UTC' of Time has no effect on 6h"),
    (lambda: Time(5, shift="-1mo"), TypeError, r"shift='-1mo' of Time and size=5: give both"),
    (lambda: Time("1h", every="1m", shift="1m"), ValueError, r"every=1m gives one window per slide: use offset="),
    (lambda: Time("1h", every=100, shift="1m"), ValueError, r"shift='1m' of Time moves the window of a row"),
]


@pytest.mark.parametrize(("make", "error", "match"), REFUSED)
def test_what_is_refused(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


def test_a_shift_is_a_whole_number_of_the_columns_units() -> None:
    query = sash.Query(Time("1d", shift="-12h"), on="t", n=sash.count())
    with pytest.raises(ValueError, match=r"shift= of Time is '-12h', not a whole number of days"):
        query.bind(pa.schema({"t": pa.date32()}))


def test_eager_refuses_it() -> None:
    with pytest.raises(ValueError, match=r"emit='eager' does not support .*Count\(3, shift=-1\), because of shift="):
        sash.Query(Count(3, shift=-1), on="t", lateness=1, emit="eager", n=sash.count())


def test_the_state_depends_on_the_shift() -> None:
    schema = pa.schema({"t": pa.int64()})

    def fingerprint(window: Any) -> str:
        return sash.Query(window, on="t", n=sash.count()).fingerprint(schema)

    assert fingerprint(Time(3, shift=0)) == fingerprint(Time(3))
    windows = [Time(3), Time(3, shift=-1), Time(3, shift=1), Count(3), Count(3, shift=-1), Count(3, shift=-2)]
    assert len({fingerprint(window) for window in windows}) == len(windows)


def test_the_state_depends_on_a_shift_of_the_calendar() -> None:
    schema = pa.schema({"t": pa.timestamp("s")})
    windows = [Time("1h", shift=by) for by in ("-1mo", "-31d", "-2mo")]
    windows += [Time("1h", shift="-1d", tz=zone) for zone in ("UTC", "Europe/Berlin")]
    found = {sash.Query(window, on="t", n=sash.count()).fingerprint(schema) for window in windows}
    assert len(found) == len(windows)


def test_explain_shows_which_rows_of_the_calendar() -> None:
    before, later = Time("1mo", shift="-1mo"), Time("1mo", shift="36h")
    text = sash.Query({"before": before, "later": later}, by="k", on="t", n=sash.count()).explain()
    back = "t - 1mo of the calendar in UTC"
    assert f"({back} - 1mo of the calendar in UTC, {back}]" in text
    assert "(t + 36h - 1mo of the calendar in UTC, t + 36h]" in text


def test_explain_shows_which_rows() -> None:
    windows = {"before": Count(10, shift=-1), "earlier": Time("1h", shift="-1h"), "next": Time("1h", shift="90m")}
    text = sash.Query(windows, by="k", on="t", n=sash.count()).explain()
    assert "10 rows up to 1 row before it" in text
    assert "(t - 2h, t - 1h]" in text
    assert "at each row, once its end has passed:  (t + 30m, t + 90m]" in text
    assert "before, earlier: each key holds the last 11 rows; the rows of the last 2h" in text
    assert "rows wait, with all their columns, until next has all rows" in text


# ---- loops ----

loop_windows: list[Any] = [
    Count(2, shift=-1),
    Count(3, shift=-4, full=True),
    Time(4, shift=-3),
    Time(4, shift=-1, closed="left"),
    Time(2, shift=-6, closed="both"),
    Time(3, shift=-0.5, closed="neither"),
]


@pytest.mark.parametrize("window", loop_windows, ids=repr)
def test_a_loop_gives_what_rows_with_times_of_their_own_get(window: Any) -> None:
    times = [0, 1, 3, 4, 5, 9, 10, 11, 12, 30, 31, 33]
    values = [None if i % 5 == 4 else i for i in range(len(times))]
    loop = sash.Window(window, n=sash.count(), total=sash.sum("x"), all=sash.collect("x"))
    got = [loop.push({"x": x}, t) for t, x in zip(times, values, strict=True)]
    table = pa.table({"t": pa.array(times, pa.float64()), "x": values})
    expected = sash.rolling(table, window, on="t", n=sash.count(), total=sash.sum("x"), all=sash.collect("x"))
    assert got == expected.select(["n", "total", "all"]).to_pylist()


def test_a_loop_continues_without_events() -> None:
    loop = sash.Window(Time(3, shift=-2), sash.monoids.Collect())
    assert [loop.push(t, t) for t in (1, 2, 3, 4)] == [None, None, [1], [1, 2]]
    twin = loop.copy()
    assert (loop.advance(6), loop.advance(7), loop.advance(8), loop.advance(9)) == ([2, 3, 4], [3, 4], [4], None)
    assert twin.push(5, 5) == [1, 2, 3]
    loop.clear()
    assert loop.push(1, 1) is None


@pytest.mark.parametrize("window", [Count(3, shift=1), Time("1h", shift="1m")], ids=repr)
def test_a_loop_cannot_look_ahead(window: Any) -> None:
    with pytest.raises(ValueError, match=r"holds events after the last one.*Use sash\.rolling"):
        sash.Window(window, sash.monoids.Sum())
