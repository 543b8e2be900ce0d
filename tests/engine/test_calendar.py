"""Calendar windows: the operator against the reference, over every combination of calendar and fixed lengths."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.stores import MemoryStore
from sash.windows import Count, Lifetime, Time
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.shared.queries import Scale
from tests.shared.streams import calls

NEW_YORK = "America/New_York"
SCALES = [
    Scale(pa.timestamp("s", NEW_YORK), 25_200, "h", 1_699_000_000),  # the clock goes back on 2023-11-05
    Scale(pa.timestamp("ms"), 13 * 3600 * 1000, "h", 1_709_200_000 * 1000),  # Feb 29, then forward on 2024-03-10
    Scale(pa.date32(), 1, "d", 19_780),
]
"""Ticks of 7 hours, of 13 hours, and of a day."""

PER_ROW = {
    "months": Time("1mo"),
    "months, left": Time("1mo", closed="left"),
    "local days": Time("3d", tz=NEW_YORK),
    "local days, both": Time("1d", closed="both", tz=NEW_YORK),
    "a local quarter, neither": Time("1q", closed="neither", tz=NEW_YORK),
    "several": {"m": Time("1mo", tz=NEW_YORK), "w": Time("1w", tz=NEW_YORK), "h": Time("48h"), "c": Count(3)},
}
PER_SLIDE = {
    "months": Time("1mo", every="1mo"),
    "hopping months": Time("3mo", every="1mo", tz=NEW_YORK),
    "local days": Time("1d", every="1d", tz=NEW_YORK),
    "local days, right": Time("2d", every="1d", closed="right", tz=NEW_YORK),
    "weeks": Time("1w", every="1w", tz=NEW_YORK),
    "shifted days": Time("1d", every="1d", offset="1d", tz=NEW_YORK),
    "fiscal years": Time("1y", every="1y", offset="3mo"),
    "shifted months": Time("1mo", every="1mo", offset="-5d", tz=NEW_YORK),
    "a month every day": Time("1mo", every="1d"),
    "a month every local day": Time("1mo", every="1d", tz=NEW_YORK),
    "a month every two days, right": Time("1mo", every="48h", closed="right"),
    "a fixed size every month": Time("48h", every="1mo"),
    "gaps": Time("1d", every="1mo", tz=NEW_YORK),
    "months by their starts": Time("2mo", every="3mo", align="start", tz=NEW_YORK),
    "local days by their starts": Time("3d", every="2d", offset="1d", align="start", tz=NEW_YORK),
    "days every month, by their starts": Time("10d", every="1mo", closed="right", align="start", tz=NEW_YORK),
    "a fixed size every month, by their starts": Time("48h", every="1mo", align="start"),
    "every third row": Time("1mo", every=3),
    "rows every month": Count(3, every="1mo"),
    "rows every local day": Count(3, every=Time("1d", tz=NEW_YORK)),
    "all, every local week": Lifetime(every=Time("1w", tz=NEW_YORK)),
    "several": {
        "d": Time("1d", every="1d", tz=NEW_YORK),
        "m": Time("1mo", every="1mo", tz=NEW_YORK),
        "x": Time("2d", every="48h"),
    },
}
SHIFTED = {
    "the month before": Time("1mo", shift="-1mo", tz=NEW_YORK),
    "two local days, a week ago": Time("2d", shift="-7d", closed="both", tz=NEW_YORK),
    "a month, up to two days ago": Time("1mo", shift="-48h", closed="left"),
    "a fixed size, a month ago": Time("48h", shift="-1mo", closed="neither"),
    "a month, most of it ahead": Time("1mo", shift="20d"),
}
WINDOWS = {f"row: {name}": one for name, one in PER_ROW.items()} | {f"slide: {n}": one for n, one in PER_SLIDE.items()}
WINDOWS |= {f"shifted: {name}": one for name, one in SHIFTED.items()}


@pytest.fixture(autouse=True)
def _interpreted(interpreted_trees: Any, kernels: Any) -> None:
    """As in `test_operator`."""


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_operator_gives_what_the_reference_gives(window: Any) -> None:
    aggregates = {"held": sash.collect("i"), "rows": sash.count(), "total": sash.sum("f"), "high": sash.max("x")}

    @settings(max_examples=max(3, settings().max_examples // 4))
    @given(st.data())
    def agrees(data: st.DataObject) -> None:
        scale = data.draw(st.sampled_from(SCALES), "scale")
        is_shifted = window in SHIFTED.values()
        emit = data.draw(st.sampled_from(["final", "final", "changes", "changes" if is_shifted else "eager"]), "emit")
        mode = data.draw(st.sampled_from(["rows", "given"] + ["sorted"] * (emit != "eager")), "mode")
        lateness = f"{data.draw(st.integers(0, 6), 'lateness')}d"
        is_refused = emit == "eager" and window == PER_SLIDE["every third row"]  # with forget=
        forget = data.draw(st.sampled_from([None, None, None if is_refused else "9d"]), "forget")
        query = sash.Query(window, by="k", on="t", lateness=lateness, emit=emit, forget=forget, **aggregates)
        compare_with_reference(data.draw(calls(query, scale, mode), "case"), begin, resume)

    agrees()


# ---- single cases ----


SCHEMA = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "x": pa.int64()})


def rows(*when: str) -> pa.RecordBatch:
    times = pa.array([datetime.fromisoformat(one).replace(tzinfo=UTC) for one in when], SCHEMA.field("t").type)
    return pa.RecordBatch.from_pydict({"k": ["a"] * len(when), "t": times, "x": range(len(when))})


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_lookup_asks_by_the_calendar(emit: Any) -> None:
    batch = rows("2024-01-20", "2024-02-10", "2024-02-25", "2024-03-05")
    window = Time("1mo", tz=NEW_YORK)
    per_row = sash.Query(window, by="k", on="t", lateness="1d", emit=emit, n=sash.count()).operator()
    per_row.process(batch)
    assert per_row.lookup({"k": ["a"]})["n"].to_pylist() == [3]
    assert per_row.lookup({"k": ["a"]}, at=datetime(2024, 3, 10, tzinfo=UTC))["n"].to_pylist() == [2]
    assert per_row.lookup({"k": ["a"]}, last="10d")["n"].to_pylist() == [2]
    with pytest.raises(ValueError, match=r"last= of lookup\(\) is '1mo', a calendar length"):
        per_row.lookup({"k": ["a"]}, last="1mo")
    slides = sash.Query(Time("1mo", every="1mo"), by="k", on="t", lateness="1d", emit=emit, n=sash.count()).operator()
    slides.process(batch)
    assert slides.lookup({"k": ["a"]})["n"].to_pylist() == [1]
    assert slides.lookup({"k": ["a"]}, at=datetime(2024, 4, 1, tzinfo=UTC))["n"].to_pylist() == [0]


def test_lookup_moves_windows_by_the_calendar() -> None:
    batch = rows("2024-01-20", "2024-02-10", "2024-02-25", "2024-03-05", "2024-03-20")
    the_month_before = Time("1mo", shift="-1mo")
    operator = sash.Query(the_month_before, by="k", on="t", lateness="1d", held=sash.collect("x")).operator()
    operator.process(batch)
    asked = {"k": ["a"]}
    assert operator.lookup(asked)["held"].to_pylist() == [[1]]
    assert operator.lookup(asked, at=datetime(2024, 3, 25, tzinfo=UTC))["held"].to_pylist() == [[1, 2]]
    assert operator.lookup(asked, at=datetime(2024, 3, 25, tzinfo=UTC), last="3d")["held"].to_pylist() == [[2]]
    assert operator.lookup(asked, at=datetime(2024, 4, 5, tzinfo=UTC))["held"].to_pylist() == [[1, 2, 3]]


def test_a_row_is_kept_until_windows_have_passed_it() -> None:
    query = sash.Query(Time("2d", shift="-1mo"), by="k", on="t", lateness="0s", held=sash.collect("x"))
    operator = query.operator()
    found = operator.process(rows("2024-01-31", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-31"))
    held = found["held"].to_pylist() + operator.finish()["held"].to_pylist()
    assert held == [None, None, None, [0], [1, 2]]


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_a_reopened_operator_continues(emit: Any) -> None:
    """An operator that is reopened for each batch computes the slides that wait in its store again."""
    store = MemoryStore()
    windows = {"m": Time("2mo", every="1mo", tz=NEW_YORK), "h": Time("1mo", every="6h")}
    query = sash.Query(windows, by="k", on="t", lateness="40d", emit=emit, n=sash.count())
    whole = query.operator()
    expected, got = [], []
    for batch in (rows("2023-12-30", "2024-01-05"), rows("2023-12-31", "2024-01-20"), rows("2024-08-01")):
        expected += whole.process(batch).to_pylist()
        got += query.operator(SCHEMA, store=store).process(batch).to_pylist()
    assert got == expected
    assert len(got) > 200


def test_times_that_no_calendar_has_are_refused() -> None:
    times = pa.array([2**60], pa.int64()).cast(pa.timestamp("s"))
    batch = pa.RecordBatch.from_pydict({"k": ["a"], "t": times, "x": [1]})
    operator = sash.Query(Time("1mo", every="1mo"), by="k", on="t", n=sash.count()).operator()
    with pytest.raises(
        OverflowError, match=r"the time 1152921504606846976 in column 't' is before the year 2 or after"
    ):
        operator.process(batch)


def test_a_day_of_two_midnights_is_one_window() -> None:
    """Havana went back from 01:00 to 00:00 on 2023-11-05."""
    hours = [f"2023-11-{4 + (h >= 24):02}T{h % 24:02}:30" for h in range(2, 48)]
    window = Time("1d", every="1d", tz="America/Havana")
    got = sash.rolling(pa.table(rows(*hours)), window, on="t", n=sash.count())
    assert got["n"].to_pylist() == [2, 24, 20]
    assert [one.isoformat() for one in got["window_start"].to_pylist()][1:] == [
        "2023-11-04T04:00:00+00:00",
        "2023-11-05T04:00:00+00:00",
    ]
