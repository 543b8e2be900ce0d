"""Windows that start at multiples of their slide, `align="start"`, by definition and beside polars.

every 3, size 10        0   3   6   9  10  13  16
align="start"           [───────────────)              [0, 10) · [3, 13) · [6, 16) …
align="end"                 ·   ·   [───────────────)  [-1, 9) · [2, 12) …
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash import Query, Time
from sash.engine import Operator

ORIGIN = datetime(2024, 2, 28, tzinfo=UTC)
AXES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "int": (pa.int64(), lambda n: n, lambda n: n),
    "float": (pa.float64(), lambda n: n / 10, lambda n: n / 10),
    "timestamp": (
        pa.timestamp("ms", "UTC"),
        lambda n: f"{n}s",
        lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
    ),
    "date": (pa.date32(), lambda n: f"{n}d", lambda n: (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=n)).date()),
}


def hops(times: list[int], size: int, every: int, offset: int, closed: str) -> dict[tuple[int, int], list[int]]:
    """The windows that hold a row: they start at offset + k · every."""
    first = (min(times, default=0) - size - offset) // every - 1
    last = (max(times, default=0) - offset) // every + 1
    found = {}
    for start in (offset + k * every for k in range(first, last + 1)):
        end = start + size
        held = [i for i, t in enumerate(times) if (start <= t < end if closed == "left" else start < t <= end)]
        if held:
            found[start, end] = held
    return found


def windows_of(found: Any) -> dict[tuple[Any, Any], list[int]]:
    return {(row["window_start"], row["window_end"]): row["held"] for row in found.to_pylist() if row["held"]}


def on_an_operator(query: Query, table: pa.Table) -> pa.Table:
    """In small batches, with a snapshot between two of them."""
    operator, found = query.operator(table.schema), []
    for batch in table.to_batches(max_chunksize=3):
        found.append(operator.process(batch))
        operator = Operator.restore(query, operator.snapshot())
    return pa.Table.from_batches([*found, operator.finish()])


def of_emission(emit: Any) -> Any:
    def run(query: Query, table: pa.Table) -> pa.Table:
        late = "0s" if isinstance(query.windows[""].size, sash.windows.Duration) else 0  # type: ignore[attr-defined]
        return on_an_operator(Query(query.windows[""], on="t", lateness=late, emit=emit, **query.aggregates), table)

    return run


HOSTS: dict[str, Any] = {
    "frame": lambda query, table: query.run(table),
    "queries": lambda query, table: sash.Queries(q=query).run(table)["q"],
    "operator": of_emission("final"),
    "eager": of_emission("eager"),
}


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("host", HOSTS)
@given(st.data())
def test_windows_start_at_multiples_of_their_slide(host: str, axis: str, data: st.DataObject) -> None:
    kind, length, at = AXES[axis]
    times = sorted(data.draw(st.lists(st.integers(-30, 30), max_size=12)))
    size, every, offset = (data.draw(st.integers(*limits)) for limits in ((1, 12), (1, 12), (-13, 13)))
    closed: Any = data.draw(st.sampled_from(["left", "right"]))
    window = Time(length(size), every=length(every), offset=length(offset), closed=closed, align="start")
    table = pa.table({"t": pa.array(map(at, times), kind), "x": pa.array(range(len(times)), pa.int64())})
    found = windows_of(HOSTS[host](Query(window, on="t", held=sash.collect("x")), table))
    assert found == {(at(a), at(b)): held for (a, b), held in hops(times, size, every, offset, closed).items()}


@pytest.mark.parametrize(
    ("size", "every"), [("10s", "3s"), ("2s", "7s"), ("6s", "3s"), ("1m", "25s"), ("5d", "2d"), ("90m", "1h")]
)
@pytest.mark.parametrize("closed", ["left", "right"])
def test_they_are_those_of_polars(size: str, every: str, closed: Any) -> None:
    times = [ORIGIN + timedelta(seconds=n * n * 7) for n in range(200)]
    frame = pl.DataFrame({"t": times, "x": range(200)})
    groups = frame.group_by_dynamic("t", every=every, period=size, closed=closed)
    expected = dict(groups.agg(held=pl.col("x")).rows())
    found = sash.rolling(frame, Time(size, every=every, closed=closed, align="start"), on="t", held=sash.collect("x"))
    ours = {start: held for start, _, held in found.rows()}
    assert expected.items() <= ours.items(), "polars leaves out windows that begin before the one of the first row"
    assert all(start < min(expected) for start in ours.keys() - expected.keys())


def test_the_hops_of_spark() -> None:
    """Spark's documentation: `window(ts, '10 seconds', '3 seconds')` starts at multiples of three seconds."""
    rows = pa.table({"t": pa.array([12], pa.timestamp("s"))})
    found = sash.rolling(rows, Time("10s", every="3s", align="start"), on="t", n=sash.count())
    starts = [start.second for start in found["window_start"].to_pylist()]
    assert starts == [3, 6, 9, 12]


@pytest.mark.parametrize(
    "window",
    [Time(6, every=3), Time(5, every=5), Time("2mo", every="1mo"), Time("14d", every="7d", tz="Europe/Berlin")],
    ids=repr,
)
def test_where_the_slide_divides_the_size_it_is_the_same_state(window: Time) -> None:
    schema = pa.schema([("t", pa.int64() if window.size == 6 or window.size == 5 else pa.timestamp("s"))])
    aligned = Time(window.size, every=window.every, tz=window.tz, align="start")
    prints = [Query(one, on="t", n=sash.count()).fingerprint(schema) for one in (window, aligned)]
    assert prints[0] == prints[1]


def test_slides_of_floats_that_are_no_decimals() -> None:
    """1.0 is three thirds: the windows are those that end at multiples."""
    rows = pa.table({"t": [n / 10 for n in range(100)]})
    ends, starts = (
        sash.rolling(rows, Time(1.0, every=1 / 3, align=align), on="t", n=sash.count())  # type: ignore[arg-type]
        for align in ("end", "start")
    )
    assert ends.equals(starts)


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_a_lookup_asks_the_slide_in_progress(emit: Any) -> None:
    """At 13 it is [6, 16), the first that ends later; at 20 it is [12, 22)."""
    rows = pa.record_batch({"t": [0, 2, 3, 5, 9, 10, 12, 13]})
    query = Query(Time(10, every=3, align="start"), on="t", lateness=0, emit=emit, n=sash.count())
    operator = query.operator(rows.schema)
    operator.process(rows)
    assert [operator.lookup({}, at=at)["n"].to_pylist() for at in (13, 20)] == [[4], [2]]


# ---- the calendar ----

BERLIN = "Europe/Berlin"
HOURLY = pd.date_range("2024-01-20", "2024-05-10", freq="h", tz="UTC").tz_convert(BERLIN)
"""The clock goes forward on March 31."""


def local_starts(every: str, offset: pd.DateOffset) -> pd.DatetimeIndex:
    return pd.date_range("2023-01-01", "2024-12-31", freq=every, tz=BERLIN) + offset


NOTHING = pd.DateOffset(days=0)
CALENDARS: dict[str, tuple[Time, pd.DatetimeIndex, Any]] = {
    "months": (
        Time("2mo", every="3mo", tz=BERLIN, align="start"),
        local_starts("QS", NOTHING),
        pd.DateOffset(months=2),
    ),
    "fiscal quarters": (
        Time("2mo", every="3mo", tz=BERLIN, offset="1mo", align="start"),
        local_starts("QS", pd.DateOffset(months=1)),
        pd.DateOffset(months=2),
    ),
    "weeks begin on Monday": (
        Time("10d", every="1w", tz=BERLIN, align="start"),
        local_starts("W-MON", NOTHING),
        pd.DateOffset(days=10),
    ),
    "local days every month": (
        Time("40d", every="1mo", tz=BERLIN, align="start"),
        local_starts("MS", NOTHING),
        pd.DateOffset(days=40),
    ),
    "hours from the start of a local day": (
        Time("30h", every="1d", tz=BERLIN, align="start"),
        local_starts("D", NOTHING),
        pd.Timedelta("30h"),
    ),
    "opening hours": (
        Time("90m", every="1d", tz=BERLIN, offset="9h", align="start"),
        local_starts("D", pd.DateOffset(hours=9)),
        pd.Timedelta("90m"),
    ),
    "hours from the start of a local month": (
        Time("1000h", every="1mo", tz=BERLIN, align="start"),
        local_starts("MS", NOTHING),
        pd.Timedelta("1000h"),
    ),
}


@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize("name", CALENDARS)
def test_windows_start_with_units_of_the_calendar(name: str, closed: Any) -> None:
    window, starts, size = CALENDARS[name]
    window = Time(window.size, every=window.every, tz=window.tz, offset=window.offset, align="start", closed=closed)
    found = sash.rolling(pd.DataFrame({"t": HOURLY}), window, on="t", n=sash.count())
    ours = dict(zip(zip(found["window_start"], found["window_end"], strict=True), found["n"], strict=True))
    side: Any = closed
    expected = {}
    for start in starts:
        n = HOURLY.searchsorted(start + size, side) - HOURLY.searchsorted(start, side)
        if n:
            expected[start, start + size] = n
    assert len(expected) > 1
    assert ours == expected
