"""Times given to `advance` and `lookup` are exact, whatever their type."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sash

NANOSECOND = 1_700_000_000_000_000_001
"""A time that is no float, and no whole microsecond."""

TIMES: dict[str, Any] = {
    "np.datetime64": np.datetime64(NANOSECOND, "ns"),
    "pd.Timestamp": pd.Timestamp(NANOSECOND),
    "pa.scalar": pa.scalar(NANOSECOND, pa.timestamp("ns")),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_row_exactly_at_the_watermark_is_not_late(name: str) -> None:
    """A row at the watermark is not late; one a nanosecond before it is."""
    schema = pa.schema([("t", pa.timestamp("ns"))])
    operator = sash.Query("1h", on="t", lateness="1h", n=sash.count()).operator(schema)
    operator.advance(TIMES[name])
    assert operator.watermark == NANOSECOND
    operator.process(pa.record_batch([pa.array([NANOSECOND - 1, NANOSECOND], schema.field("t").type)], schema=schema))
    assert operator.late_rows().num_rows == 1
    assert operator.lookup({}, at=TIMES[name]).to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("text", ["2024-05-01", "2024-05-01T09", "2024-05-01T09:30", "2024-05", "2024"])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32()], ids=str)
def test_a_datetime64_of_every_unit_is_a_time(text: str, kind: pa.DataType) -> None:
    """Of a column of dates it is rounded up to a day."""
    given = np.datetime64(text)
    op = sash.Query("1d", on="t", lateness="1d", n=sash.count()).operator(pa.schema([("t", kind)]))
    op.advance(given)
    unit = np.timedelta64(1, "D" if pa.types.is_date(kind) else "us")
    assert op.watermark == math.ceil((given - np.datetime64(0, "s")) / unit)


def test_a_time_with_a_zone_keeps_its_nanoseconds() -> None:
    schema = pa.schema([("t", pa.timestamp("ns", "UTC"))])
    operator = sash.Query("1h", on="t", lateness="1h", n=sash.count()).operator(schema)
    operator.advance(pd.Timestamp(NANOSECOND, tz="UTC").tz_convert("Europe/Berlin"))
    assert operator.watermark == NANOSECOND
    with pytest.raises(TypeError, match="takes a time of column 't'"):
        operator.advance(pd.Timestamp(NANOSECOND))
    later = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    operator.advance(later)
    assert operator.watermark == int(later.timestamp()) * 10**9


ZONED = pa.timestamp("us", "Europe/Berlin")
NUMBERS: list[tuple[pa.DataType, Any, str]] = [
    (pa.timestamp("us"), 1.7e9, "pd.Timestamp(1700000000.0, unit='s')"),
    (pa.timestamp("us"), 1_700_000_000, "pd.Timestamp(1700000000, unit='s')"),
    (pa.timestamp("ns"), np.int64(1_700_000_000_123), "pd.Timestamp(1700000000123, unit='ms')"),
    (pa.timestamp("ns"), np.float32(1.7e9), "pd.Timestamp(1700000000.0, unit='s')"),
    (pa.timestamp("ns"), NANOSECOND, f"pd.Timestamp({NANOSECOND}, unit='ns')"),
    (pa.timestamp("s"), 1_700_000_000_000_000, "pd.Timestamp(1700000000000000, unit='us')"),
    (ZONED, 1.7e9, "pd.Timestamp(1700000000.0, unit='s', tz='Europe/Berlin')"),
    (pa.timestamp("us"), "2024-05-01", "pd.Timestamp('2024-05-01')"),
    (ZONED, "2024-05-01", "pd.Timestamp('2024-05-01', tz='Europe/Berlin')"),
    (pa.date32(), 19_800, "pd.Timestamp(19800, unit='D')"),
    (pa.date64(), 1_700_006_400_000, "pd.Timestamp(1700006400000, unit='ms')"),
]


@pytest.mark.parametrize(("kind", "given", "advice"), NUMBERS, ids=str)
def test_a_number_is_no_moment_of_a_column_of_times(kind: pa.DataType, given: Any, advice: str) -> None:
    """It does not say in what unit it counts; the line that the error gives is accepted."""
    query = sash.Query("1d", on="t", lateness="1d", n=sash.count())
    operator = query.operator(pa.schema({"t": kind}))
    both = sash.Queries(one=query).operator(pa.schema({"t": kind}))
    for what, call in {
        "advance()": operator.advance,
        "at= of lookup()": lambda at: operator.lookup({}, at=at),
    }.items():
        wanted = f"{what} takes a time of column 't', of type {kind}; got {given!r}: write {advice}"
        with pytest.raises(TypeError, match=f"^{re.escape(wanted)}$"):
            call(given)
    for call in (both.advance, lambda at: both.lookup({}, at=at)):
        with pytest.raises(TypeError, match=re.escape(f": write {advice}")):
            call(given)
    assert operator.watermark is None
    moment = eval(advice, {"pd": pd})
    operator.lookup({}, at=moment)
    operator.advance(moment)
    assert operator.watermark is not None


@pytest.mark.parametrize(
    ("kind", "given", "advice"),
    [
        (pa.timestamp("us"), math.inf, ": call finish() to end the stream"),
        (pa.timestamp("us"), dt.datetime(2024, 5, 1, tzinfo=dt.UTC), ": give it without a time zone"),
        (ZONED, pd.Timestamp(2024, 5, 1), ": give it a time zone, such as 'Europe/Berlin'"),
    ],
    ids=str,
)
def test_other_times_that_are_refused(kind: pa.DataType, given: Any, advice: str) -> None:
    operator = sash.Query("1d", on="t", lateness="1d", n=sash.count()).operator(pa.schema({"t": kind}))
    with pytest.raises(TypeError, match=re.escape(advice)):
        operator.advance(given)


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_a_number_is_no_length_of_a_column_of_times(emit: Any) -> None:
    query = sash.Query("1d", on="t", lateness="1d", emit=emit, n=sash.count())
    operator = query.operator(pa.schema({"t": pa.timestamp("us")}))
    operator.process({"t": [dt.datetime(2024, 5, 1)]})
    with pytest.raises(TypeError, match=r"last= of lookup\(\) is 600, and the column 't' .* such as '10s'"):
        operator.lookup({}, last=600)


@pytest.mark.parametrize(("given", "reached"), [(2.5, 3), (np.float32(2.5), 3), (1e300, 2**63 - 1), (2**70, 2**63 - 1)])
def test_a_number_between_times_is_rounded_up(given: Any, reached: int) -> None:
    operator = sash.Query(sash.Time(5), on="t", lateness=1, n=sash.count()).operator(pa.schema([("t", pa.int64())]))
    operator.advance(given)
    assert operator.watermark == reached
