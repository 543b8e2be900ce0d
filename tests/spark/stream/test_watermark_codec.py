"""WatermarkCodec: times to Spark's watermark and back keep their order, and never come back greater."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.plan.time_axis import TimeAxis
from sash.spark.stream.stream_spec import WatermarkCodec

AXES = {
    "timestamps": (TimeAxis.of("t", pa.timestamp("us", "UTC")), 2_500),
    "dates": (TimeAxis.of("t", pa.date32()), 3),
    "integers": (TimeAxis.of("t", pa.int64()), 5),
    "floats": (TimeAxis.of("t", pa.float64()), 0.5),
}
TIMES: dict[str, Any] = {
    "timestamps": st.integers(10**6, 10**17),
    "dates": st.integers(10, 10**6),
    "integers": st.one_of(st.integers(-(2**62), 2**62), st.integers(-100, 100)),
    "floats": st.one_of(st.floats(-1e300, 1e300), st.floats(-100, 100)),
}


def reached(codec: WatermarkCodec, time: Any) -> Any:
    """The watermark after a row of this time."""
    return codec.watermark(codec.ticks(time) // 1000 - int(codec.delay.split()[0]))


@pytest.mark.parametrize("name", AXES)
@given(data=st.data())
def test_the_watermark_is_the_time_less_lateness_or_a_little_less(name: str, data: Any) -> None:
    axis, lateness = AXES[name]
    codec, time = WatermarkCodec(axis, lateness), data.draw(TIMES[name])
    found, exact = reached(codec, time), time - lateness
    assert found <= exact
    grains = {"timestamps": 2000, "dates": 0}
    grain = grains.get(name, abs(exact) * 2.0**-39 + 1e-300)
    assert exact - found <= grain


@pytest.mark.parametrize("name", AXES)
@given(data=st.data())
def test_it_keeps_the_order(name: str, data: Any) -> None:
    axis, lateness = AXES[name]
    codec = WatermarkCodec(axis, lateness)
    one, other = sorted([data.draw(TIMES[name]), data.draw(TIMES[name])])
    assert codec.ticks(one) <= codec.ticks(other)
    assert abs(codec.ticks(other)) < 2**63


@pytest.mark.parametrize("name", AXES)
@given(data=st.data())
def test_a_timer_fires_when_it_is_due_and_not_before(name: str, data: Any) -> None:
    axis, lateness = AXES[name]
    codec, due = WatermarkCodec(axis, lateness), data.draw(TIMES[name])
    at = codec.timer(due)
    assert codec.watermark(at) >= due
    before = codec.watermark(at - 1)
    assert before is None or before < due


def test_zero_is_no_watermark() -> None:
    for axis, lateness in AXES.values():
        assert WatermarkCodec(axis, lateness).watermark(0) is None
        assert WatermarkCodec(axis, lateness).timer(0) > 0


@pytest.mark.parametrize("time", [0, 1, -1, 6, 2**51, -(2**51), 2**51 + 4096, 2**63 - 1, -(2**63)])
def test_integers_at_the_edges(time: int) -> None:
    codec = WatermarkCodec(AXES["integers"][0], 0)
    found = reached(codec, time)
    assert found <= time or time == -(2**63)
    assert abs(found - time) <= 4096


def test_floats_at_the_edges() -> None:
    codec = WatermarkCodec(AXES["floats"][0], 0.0)
    for time in (0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308):
        assert math.isclose(reached(codec, time), time, rel_tol=1e-11, abs_tol=1e-300)
