"""`shift=`, compared with the window frames of SQL (DuckDB), with pandas, and with the reference.

Count(n, shift=k)     ROWS BETWEEN n - 1 - k PRECEDING AND k FOLLOWING
Time(n, shift=s)      RANGE BETWEEN n - 1 - s PRECEDING AND s FOLLOWING, where time is whole numbers
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Time
from tests.frames.frame_cases import CLOSED, frames
from tests.frames.test_sql import IN_ORDER, NUMBERS, TEXTS, compare
from tests.shared.effort import share

FEW = {name: NUMBERS[name] for name in ("count", "rows", "sum", "sum_i", "mean", "max", "min", "max_i", "var", "std")}


def bound(distance: int) -> str:
    """A bound of a frame: how far behind its row, or ahead of it."""
    return f"{-distance} PRECEDING" if distance < 0 else f"{distance} FOLLOWING"


@given(table=frames(ties=True), size=st.integers(1, 6), shift=st.integers(-8, 8))
@settings(max_examples=share(25))
def test_rows(table: pa.Table, size: int, shift: int) -> None:
    frame = f"ROWS BETWEEN {bound(shift - size + 1)} AND {bound(shift)}"
    compare(table, Count(size, shift=shift), FEW | TEXTS | IN_ORDER, frame, "t, row")


@pytest.mark.parametrize("closed", CLOSED)
@given(table=frames(ties=True), size=st.integers(2, 6), shift=st.integers(-8, 8))
@settings(max_examples=share(15))
def test_range(closed: Any, table: pa.Table, size: int, shift: int) -> None:
    start = shift - size + (closed in ("right", "neither"))
    end = shift - (closed in ("left", "neither"))
    compare(table, Time(size, shift=shift, closed=closed), FEW, f"RANGE BETWEEN {bound(start)} AND {bound(end)}")


def frame(rows: int = 60) -> pd.DataFrame:
    x = np.random.default_rng(3).integers(0, 50, rows).astype(float)
    return pd.DataFrame({"t": pd.date_range("2024-05-01", periods=rows, freq="7min"), "x": x})


def test_centred_windows_are_those_of_pandas() -> None:
    data = frame()
    for size in (3, 4, 5, 8):
        centred = Count(size, shift=(size - 1) // 2, full=True)
        ours = sash.rolling(data, centred, mean=sash.mean("x"))["mean"]
        pd.testing.assert_series_equal(ours, data.x.rolling(size, center=True).mean(), check_names=False)


def test_earlier_rows_are_a_shifted_column_in_pandas() -> None:
    data = frame()
    ours = sash.rolling(data, Count(10, shift=-1), total=sash.sum("x"))["total"]
    pd.testing.assert_series_equal(ours, data.x.shift(1).rolling(10, min_periods=1).sum(), check_names=False)


def test_following_rows_are_those_of_a_forward_indexer() -> None:
    data = frame()
    ours = sash.rolling(data, Count(4, shift=3), total=sash.sum("x"))["total"]
    indexer = pd.api.indexers.FixedForwardWindowIndexer(window_size=4)
    pd.testing.assert_series_equal(ours, data.x.rolling(indexer, min_periods=1).sum(), check_names=False)


@pytest.mark.parametrize("shift", ["-1h", "-7min", "21min", "1h", "-3h"])
def test_an_hour_at_another_time_is_that_of_a_moved_clock(shift: str) -> None:
    """The window of a row at t is the unshifted one at t + shift: pandas finds it with a row there."""
    data = frame()
    moved = data.t + pd.Timedelta(shift)
    probes = pd.DataFrame({"t": moved, "x": np.nan})
    both = pd.concat([data, probes]).sort_values("t", kind="stable").reset_index(drop=True)
    sums = both.rolling("1h", on="t", min_periods=1).x.sum().groupby(both.t).last()
    ours = sash.rolling(data, Time("1h", shift=shift.replace("min", "m")), on="t", total=sash.sum("x"))["total"]
    np.testing.assert_allclose(ours.to_numpy(float), moved.map(sums).to_numpy(float))


def test_results_stand_at_their_rows_also_where_an_operator_runs() -> None:
    """`forget` and policies need an operator: it gets sorted rows, and results are put back in input order."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 4, 200)
    data = pa.table({"k": keys, "t": rng.permutation(200), "x": rng.integers(0, 9, 200)})
    windows = {"ahead": Time(40, shift=30), "rows": Count(3, shift=1), "last": Count(2), "all": sash.Lifetime()}
    aggregates: dict[str, Any] = {"s": sash.sum("x"), "held": sash.collect("t")}
    plain = sash.rolling(data, windows, by="k", on="t", **aggregates)
    assert sash.rolling(data, windows, by="k", on="t", forget=1000, **aggregates).equals(plain)
    policy = sash.Policy(lambda total, prefix: total - prefix >= 2, over=sash.count())
    beside = sash.rolling(data, {**windows, "two": policy}, by="k", on="t", **aggregates)
    assert beside.select(plain.column_names).equals(plain)
    assert beside["held_two"].to_pylist() == plain["held_last"].to_pylist()


LEAST, GREATEST = -(2**63), 2**63 - 1


def test_shifts_far_beyond_all_rows() -> None:
    data = pa.table({"t": [1, 2, 3], "x": [1, 2, 4]})
    for shift in (-GREATEST, GREATEST, -4, 4):
        assert sash.rolling(data, Count(2, shift=shift), n=sash.count())["n"].to_pylist() == [0, 0, 0]
    assert sash.rolling(data, Count(GREATEST, shift=GREATEST - 2), s=sash.sum("x"))["s"].to_pylist() == [7, 7, 6]
    for shift in (-(2**70), 2**63):
        with pytest.raises(ValueError, match=f"shift= of Count must be at most {GREATEST} rows; got {shift}"):
            Count(2, shift=shift)


FAR: list[Any] = [
    Time(3, shift=-2),
    Time(2**62, shift=-1),
    Time(2**63 - 1, shift=2),
    Time(3, shift=2**62),
    Time(3, shift=2, closed="both"),
    Time(3, shift=4, closed="left"),
    Time(2**63 - 1, shift=2**63 - 1, closed="left"),
]


@pytest.mark.parametrize("window", FAR, ids=repr)
def test_times_near_the_ends_of_64_bits(window: Any) -> None:
    """Rows at both ends: bounds beyond 64 bits hold all rows, or none."""
    times = [LEAST, LEAST + 1, GREATEST]
    held = []
    for t in times:
        low, high = t + window.shift - window.size, t + window.shift
        inside = {
            "right": [r for r in times if low < r <= high],
            "left": [r for r in times if low <= r < high],
            "both": [r for r in times if low <= r <= high],
        }
        held.append(len(inside[window.closed]))
    assert sash.rolling(pa.table({"t": times}), window, on="t", n=sash.count())["n"].to_pylist() == held
