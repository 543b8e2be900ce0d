"""Times given to `advance` and `lookup` are exact, whatever their type."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sash

NANOSECOND = 1_700_000_000_000_000_001
"""A time that is no float, and no whole microsecond."""

TIMES: dict[str, Any] = {
    "int": NANOSECOND,
    "np.int64": np.int64(NANOSECOND),
    "np.uint64": np.uint64(NANOSECOND),
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


@pytest.mark.parametrize(("given", "reached"), [(2.5, 3), (np.float32(2.5), 3), (1e300, 2**63 - 1), (2**70, 2**63 - 1)])
def test_a_number_between_times_is_rounded_up(given: Any, reached: int) -> None:
    operator = sash.Query(sash.Time(5), on="t", lateness=1, n=sash.count()).operator(pa.schema([("t", pa.int64())]))
    operator.advance(given)
    assert operator.watermark == reached
