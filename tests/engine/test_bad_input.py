"""Bad input: batches, times and values at their limits give correct results, or are refused by name."""

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest

import sash
from tests.engine.lookup_cases import GREATEST, LEAST, SCHEMA, batch, every_mode, play, query, to_the_end
from tests.interpreted import switch_off
from tests.shared.effort import THOROUGH

WINDOWS: dict[str, Any] = {
    "time": sash.Time(4),
    "count": sash.Count(3),
    "delta": sash.Delta("t", 3),
    "session": sash.Session(3),
    "lifetime": sash.Lifetime(),
    "slides in time": sash.Time(5, every=3),
    "slides in rows": sash.Count(3, every=2),
    "sessions": sash.Session(3, every="close"),
    "count by time": sash.Count(3, every=sash.Time(4)),
}
every_window = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)


# ---- batches ----


@every_mode
@every_window
def test_all_nulls(window: Any, mode: str) -> None:
    times = [(None, 1, None), (None, 2, None), (None, 2, None), (None, 9, None)]
    play(window, mode, batch(*times[:2]), batch(*times[2:]))
    if not isinstance(window, sash.Delta):
        play(window, mode, batch((None, None, None), ("a", None, None)), batch((None, None, None)))


def test_unsorted_rows_without_lateness_are_refused_by_row() -> None:
    operator = query(sash.Time(4), lateness=None).operator(SCHEMA)
    operator.process(batch(("a", 5, 1)))
    with pytest.raises(ValueError, match=r"row \{'k': 'b', 't': 4, 'x': 7\} is out of order.*lateness="):
        operator.process(batch(("a", 5, 2), ("b", 4, 7)))


@pytest.mark.parametrize(
    "rows",
    [[("a", 2, 1), ("a", 1, 7)], [("a", 1, 1), ("b", 1, 2), ("a", 2, 7)]],
    ids=["by time", "by key"],
)
def test_unsorted_rows_in_mode_sorted_are_refused_by_row(rows: list[Any]) -> None:
    named = rf"mode 'sorted' takes rows ordered by k, t; row .*'t': {rows[-1][1]}, 'x': 7.* comes after"
    with pytest.raises(ValueError, match=named):
        query(sash.Time(4)).operator(SCHEMA, mode="sorted").process(batch(*rows))
    operator = query(sash.Time(4)).operator(SCHEMA, mode="sorted")
    operator.process(batch(*rows[:-1]))
    if rows[0][0] == rows[-2][0]:
        with pytest.raises(ValueError, match=named):
            operator.process(batch(*rows[-1:]))


@every_mode
@pytest.mark.parametrize(
    "window",
    [sash.Time(10**15), sash.Count(10**15), sash.Session(10**15), sash.Time(GREATEST), sash.Count(GREATEST)],
    ids=repr,
)
def test_a_window_larger_than_the_data(window: Any, mode: str) -> None:
    play(window, mode, batch(("a", 1, 2), ("b", 3, 1)), batch(("a", 4, 3)))


@every_mode
def test_slides_larger_than_the_data(mode: str) -> None:
    for window in (sash.Time(10**15, every=10**14), sash.Time(3, every=10**15), sash.Count(3, every=10**9)):
        play(window, mode, batch(("a", 1, 2), ("b", 3, 1)), batch(("a", 4, 3)))


# ---- times ----

FLOATS = pa.schema([("k", pa.string()), ("t", pa.float64()), ("x", pa.int64())])


@every_mode
@pytest.mark.parametrize("late", ["drop", "flag"])
@every_window
def test_times_that_are_none(window: Any, mode: str, late: str) -> None:
    """Null, NaN and infinite times are untimed: they move no watermark and enter no window."""
    if isinstance(window, sash.Delta) or (late == "flag" and window.slide != "row"):
        return
    rows = [
        ("a", -9.0, 1),
        ("a", math.inf, 9),
        ("b", math.nan, 9),
        ("a", -8.5, 3),
        (None, -math.inf, 9),
        ("a", None, 9),
    ]
    first = batch(*rows, schema=FLOATS)
    play(window, mode, first, batch(("b", math.nan, 9), ("a", -7.0, 2), schema=FLOATS), late=late)


@pytest.mark.parametrize("time", [None, math.nan, math.inf, -math.inf])
def test_times_that_are_none_may_be_an_error(time: Any) -> None:
    operator = query(sash.Time(4), late="error").operator(FLOATS)
    with pytest.raises(ValueError, match=r"row \{'k': 'b', .*'x': 7\} is untimed \(its 't' is null, NaN, infinite"):
        operator.process(batch(("a", 1.0, 1), ("b", time, 7), schema=FLOATS))


@every_mode
@pytest.mark.parametrize(
    "window",
    [
        sash.Time(10),
        sash.Time(GREATEST),
        sash.Time(10, closed="left"),
        sash.Count(2),
        sash.Delta("t", 10),
        sash.Time(10, every=sash.Count(1)),
        sash.Lifetime(),
    ],
    ids=repr,
)
def test_times_at_the_limits_of_integers(window: Any, mode: str) -> None:
    """A window's start does not wrap around, nor does the watermark."""
    low = batch(("a", LEAST, 1), ("a", LEAST + 1, 2), ("a", LEAST + 20, 3))
    high = batch(("a", GREATEST - 20, 4), ("a", GREATEST - 1, 5), ("a", GREATEST, 6))
    play(window, mode, low, lateness=GREATEST)
    play(window, mode, high, lateness=GREATEST)
    if mode != "sorted":
        play(window, mode, low, high)
        play(window, mode, low, high, forget=5)


@pytest.mark.parametrize(
    "window",
    [sash.Time(10, every=10), sash.Lifetime(every=sash.Time(10)), sash.Count(2, every=sash.Time(10))],
    ids=repr,
)
@pytest.mark.parametrize("time", [LEAST, GREATEST - 9, GREATEST])
def test_slides_beyond_the_limits_of_integers_are_refused(window: Any, time: int) -> None:
    operator = query(window).operator(SCHEMA, mode="given")
    operator.process(batch(("a", 1, 1)))
    with pytest.raises(OverflowError, match=rf"the time {time} in column 't' is too near to the limits"):
        to_the_end(operator, batch(("a", time, 1)))


def test_slides_near_the_limits_of_integers() -> None:
    for time in (LEAST + 100, GREATEST - 100):
        play(sash.Time(10, every=10), "rows", batch(("a", time, 1), ("a", time + 5, 2)))


@every_mode
def test_sessions_that_end_beyond_the_limits_of_integers(mode: str) -> None:
    """The end of such a session is the greatest integer, not one before its start."""
    for window in (sash.Session(10), sash.Session(10, every="close")):
        play(window, mode, batch(("a", GREATEST - 15, 1), ("b", GREATEST - 7, 2)), batch(("a", GREATEST - 6, 3)))


@pytest.mark.parametrize("window", [sash.Time(10, every=10), sash.Session(10, every="close")], ids=repr)
def test_ends_that_the_column_cannot_hold_are_refused(window: Any) -> None:
    operator = query(window).operator(pa.schema([("k", pa.string()), ("t", pa.int8()), ("x", pa.int64())]))
    operator.process(batch(("a", 125, 1), schema=operator.schema))
    with pytest.raises(ValueError, match=r"a time measured on the column 't' does not fit its type, int8: cast"):
        operator.finish()


def test_unsigned_times_beyond_63_bits_are_refused() -> None:
    operator = sash.Query(sash.Time(4), on="t", n=sash.count()).operator()
    with pytest.raises(ValueError, match=r"the column 't' of type uint64 holds integers beyond 2\*\*63 - 1: cast it"):
        operator.process(pa.record_batch({"t": pa.array([1, 2**63], pa.uint64())}))


def test_time_zones_are_the_same_instants() -> None:
    """Whatever the zone, slides are aligned in UTC and results come in the column's zone."""
    noon = dt.datetime(2024, 3, 31, 0, 30, tzinfo=dt.UTC)  # the clocks of Berlin go forward half an hour later
    times = [noon + dt.timedelta(minutes=20 * i) for i in range(6)]
    found = {}
    for zone in ("UTC", "Europe/Berlin", "+05:45", None):
        kind = pa.timestamp("us", zone)
        column = pa.array([time if zone else time.replace(tzinfo=None) for time in times], kind)
        operator = sash.Query(sash.Time("1h", every="1h"), on="t", n=sash.count()).operator()
        batches = [operator.process(pa.record_batch({"t": column})), operator.finish()]
        assert all(one.schema.field("window_end").type == kind for one in batches)
        found[zone] = [
            (row.cast(pa.int64()).as_py(), n.as_py())
            for one in batches
            for row, n in zip(*one.columns[1:], strict=True)
        ]
    hour = 3600 * 10**6
    start = int(noon.timestamp()) * 10**6 - hour // 2
    assert found["UTC"] == [(start + hour, 2), (start + 2 * hour, 3), (start + 3 * hour, 1)]
    assert len({tuple(rows) for rows in found.values()}) == 1


def test_mixed_time_zones_are_refused() -> None:
    operator = sash.Query("1h", on="t", n=sash.count()).operator(pa.schema([("t", pa.timestamp("us", "UTC"))]))
    for zone in ("Europe/Berlin", None):
        other = pa.record_batch({"t": pa.array([1], pa.timestamp("us", zone))})
        with pytest.raises(
            ValueError, match=r"the column 't' is of type timestamp\[us.*; the operator was opened with"
        ):
            operator.process(other)


# ---- values ----


@every_mode
def test_values_at_the_limits_of_integers(mode: str) -> None:
    rows = [("a", 1, GREATEST), ("a", 2, LEAST), ("a", 3, GREATEST), ("a", 4, 0), ("b", 1, LEAST), ("b", 9, GREATEST)]
    for window in (sash.Count(2), sash.Time(2), sash.Time(2, every=2), sash.Session(2, every="close")):
        play(window, mode, batch(*rows[:2], rows[4]), batch(*rows[2:4], rows[5]))


@every_mode
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_a_sum_that_overflows_names_row_and_key(mode: str, emit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (mode, emit) == ("sorted", "eager"):
        return
    if emit == "eager" and not THOROUGH:  # to compile a tree takes 5 s
        switch_off(monkeypatch)
    operator = query(sash.Count(2), emit=emit).operator(SCHEMA, mode=mode)
    rows = batch(("a", 1, GREATEST), ("b", 1, GREATEST), ("b", 2, 1))
    where = r"row \{'k': 'b', 't': 2, 'x': 1\}"
    with pytest.raises(OverflowError, match=rf"'total'.* 64-bit integers.* at .*{where}"):
        to_the_end(operator, rows)


@every_mode
def test_a_sum_that_overflows_on_the_way_is_right(mode: str) -> None:
    """A sum is correct if it fits, even if a partial sum on the way does not."""
    rows = [("a", 1, GREATEST), ("a", 2, LEAST), ("a", 3, -1), ("a", 4, GREATEST), ("a", 5, 1)]
    asked = {"high": sash.max("x"), "total": sash.sum("x")}
    play(sash.Time(10, every=10), mode, batch(*rows[:3]), batch(*rows[3:]), **asked)
