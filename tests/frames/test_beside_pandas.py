"""Results equal those of pandas: `rolling` over rows and times, groups, `expanding`, `resample`.

Times are all different here: pandas takes only the peers up to the row itself. That, the count of an empty window and
the skewness of equal values are among the differences that test_others.py pins.
"""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Time
from tests.frames.frame_cases import CLOSED, frames, same, with_times
from tests.shared.effort import share

# a column of nothing but nulls, in the skewness of pandas
pytestmark = pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")

PLAIN: dict[str, tuple[Any, str]] = {
    "sum": (sash.sum("x"), "sum"),
    "mean": (sash.mean("x"), "mean"),
    "min": (sash.min("x"), "min"),
    "max": (sash.max("x"), "max"),
    "var": (sash.var("x"), "var"),
    "std": (sash.std("x"), "std"),
    "skewness": (sash.skewness("x", bias=False), "skew"),
    "kurtosis": (sash.kurtosis("x", bias=False), "kurt"),
}
PAIRS: dict[str, tuple[Any, str]] = {
    "covariance": (sash.covariance("x", "y"), "cov"),
    "correlation": (sash.correlation("x", "y"), "corr"),
}


def named(functions: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    return {f"our_{name}": bound for name, (bound, _) in functions.items()} | {"n": sash.count("x")}


def compare(got: pd.DataFrame, rolling: Any, counts: Any = None) -> None:
    """Compare each function, and the count, with pandas."""
    varies = got["our_var"].to_numpy() > 0
    for name, (_, known) in PLAIN.items():
        ours, theirs = got[f"our_{name}"].to_numpy(), getattr(rolling["x"], known)().to_numpy()
        rows = varies if name in ("skewness", "kurtosis") else slice(None)
        same(ours[rows], theirs[rows], name)
    if counts is not None:
        same(got["n"], counts["x"].count(), "count")


@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=share(15))
def test_rows(table: pa.Table, size: int) -> None:
    frame = table.to_pandas()
    got = sash.rolling(frame, size, **named(PLAIN))
    compare(got, frame.rolling(size, min_periods=1), frame.rolling(size, min_periods=0))


@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=share(10))
def test_full_rows(table: pa.Table, size: int) -> None:
    frame = table.to_pandas()  # y has no nulls: with them, pandas asks for values and we for rows
    aggregates: Any = {name: getattr(sash, name)("y") for name in ("sum", "mean", "min", "max", "var", "std")}
    got = sash.rolling(frame, Count(size, full=True), **aggregates)
    for name in aggregates:
        same(got[name], getattr(frame["y"].rolling(size), name)(), name)


@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=share(15))
def test_rows_of_groups(table: pa.Table, size: int) -> None:
    frame = table.to_pandas()
    got = sash.rolling(frame, size, by="k", **named(PLAIN)).sort_values("k", kind="stable")
    groups = frame.groupby("k")
    compare(got, groups.rolling(size, min_periods=1), groups.rolling(size, min_periods=0))


@pytest.mark.parametrize("closed", CLOSED)
@given(table=frames(ties=False), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_times(closed: Any, table: pa.Table, size: int) -> None:
    frame = with_times(table).to_pandas()
    got = sash.rolling(frame, Time(f"{size}s", closed=closed), on="t", **named(PLAIN))
    rolling = frame.rolling(f"{size}s", on="t", closed=closed)
    compare(got, rolling, rolling if closed in ("right", "both") else None)


@pytest.mark.parametrize("closed", CLOSED)
@given(table=frames(ties=False), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_times_of_groups(closed: Any, table: pa.Table, size: int) -> None:
    frame = with_times(table).to_pandas()
    got = sash.rolling(frame, Time(f"{size}s", closed=closed), by="k", on="t", **named(PLAIN))
    rolling = frame.groupby("k").rolling(f"{size}s", on="t", closed=closed)
    compare(got.sort_values("k", kind="stable"), rolling, rolling if closed in ("right", "both") else None)


@pytest.mark.parametrize("over", ["rows", *CLOSED])
@given(table=frames(ties=False), size=st.integers(2, 6))
@settings(max_examples=share(10))
def test_pairs(over: Any, table: pa.Table, size: int) -> None:
    frame = with_times(table).to_pandas()
    window, rows = (
        (Count(size), {"window": size, "min_periods": 1})
        if over == "rows"
        else (Time(f"{size}s", closed=over), {"window": f"{size}s", "on": "t", "closed": over})
    )
    got = sash.rolling(frame, window, on="t", **named(PAIRS))
    for name, (_, known) in PAIRS.items():
        theirs = getattr(frame.rolling(**rows)["x"], known)(frame["y"])
        if name == "correlation":  # of equal values pandas may divide by what rounding left of their variance
            pairs = frame[["t", "x", "y"]].where(frame["x"].notna() & frame["y"].notna()).assign(t=frame["t"])
            rolling = pairs.rolling(**rows)[["x", "y"]]
            theirs = theirs.where((rolling.max() > rolling.min())[["x", "y"]].all(axis=1))
        same(got[f"our_{name}"], theirs, name)


def test_the_correlation_of_equal_values_is_nan() -> None:
    """pandas gives -inf here: before the window, `y` has another value."""
    frame = pd.DataFrame({"x": [1.0, 1.0, 1.0, 1.0, -3.0], "y": [0.5, 0.5, 100.0, 100.0, 100.0]})
    assert sash.rolling(frame, 3, c=sash.correlation("x", "y"))["c"].isna().all()


@pytest.mark.parametrize("ddof", [0, 1, 2])
@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=share(8))
def test_degrees_of_freedom(ddof: int, table: pa.Table, size: int) -> None:
    frame = table.to_pandas()
    got = sash.rolling(frame, size, var=sash.var("x", ddof=ddof), std=sash.std("x", ddof=ddof))
    for name in ("var", "std"):
        same(got[name], getattr(frame["x"].rolling(size, min_periods=1), name)(ddof=ddof), name)


@given(table=frames(ties=True))
@settings(max_examples=share(10))
def test_expanding(table: pa.Table) -> None:
    frame = table.to_pandas()
    got = sash.rolling(frame, Count(10**9), **named(PLAIN))
    compare(got, frame.expanding(min_periods=1), frame.expanding(min_periods=0))


@given(table=frames(ties=True), size=st.integers(1, 4))
@settings(max_examples=share(10))
def test_resample(table: pa.Table, size: int) -> None:
    frame = with_times(table).to_pandas()
    got = sash.rolling(frame, Time(f"{size}s", every=f"{size}s"), on="t", rows=sash.count(), **named(PLAIN))
    groups = frame.resample(f"{size}s", on="t", origin="epoch")
    filled = groups.size() > 0  # pandas has a row for each slide, ours are those with rows in them
    assert got["window_start"].tolist() == filled.index[filled].tolist()
    for name in ("mean", "min", "max", "var", "std"):
        same(got[f"our_{name}"], getattr(groups["x"], name)()[filled], name)
    same(got["our_sum"], groups["x"].sum(min_count=1)[filled], "sum")
    same(got["n"], groups["x"].count()[filled], "count")
