"""Order statistics on every kind of frame and type of column, compared with pandas and polars."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Lifetime, Session, Time
from sash.testing import assert_same
from tests.frames.frame_cases import CLOSED, frames, same, with_times
from tests.shared.effort import share

pytestmark = pytest.mark.usefixtures("column_aggregates")

PANDAS: dict[str, tuple[Any, Any]] = {
    "median": (sash.median("x"), lambda rolling: rolling.median()),
    **{
        rule: (
            sash.quantile("x", q=q, interpolation=rule),  # type: ignore[arg-type]
            lambda rolling, q=q, rule=rule: rolling.quantile(q, interpolation=rule),
        )
        for rule, q in (("linear", 0.9), ("lower", 0.3), ("higher", 0.3), ("nearest", 0.5), ("midpoint", 0.7))
    },
    **{
        f"rank_{method}": (
            sash.rank("x", method=method, ascending=ascending),  # type: ignore[arg-type]
            lambda rolling, method=method, ascending=ascending: rolling.rank(method=method, ascending=ascending),
        )
        for method, ascending in (("average", True), ("min", False), ("max", True))
    },
    "percent": (sash.percent_rank("x"), lambda rolling: rolling.rank(pct=True)),
    "percent_max": (sash.percent_rank("x", method="max"), lambda rolling: rolling.rank(method="max", pct=True)),
}
BOUND = {name: bound for name, (bound, _) in PANDAS.items()}


@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_rows_compared_with_pandas(table: pa.Table, size: int) -> None:
    frame = table.to_pandas()
    got = sash.rolling(frame, size, **BOUND)
    rolling = frame["x"].rolling(size, min_periods=1)
    for name, (_, theirs) in PANDAS.items():
        same(got[name].to_numpy(float, na_value=math.nan), theirs(rolling), name)


@given(table=frames(ties=False), size=st.integers(1, 6), closed=st.sampled_from(CLOSED))
@settings(max_examples=share(10))
def test_times_compared_with_pandas(table: pa.Table, size: int, closed: Any) -> None:
    frame = with_times(table).to_pandas()
    got = sash.rolling(frame, Time(f"{size}s", closed=closed), on="t", **BOUND)
    rolling = frame.rolling(f"{size}s", on="t", closed=closed, min_periods=1)["x"]
    for name, (_, theirs) in PANDAS.items():
        same(got[name].to_numpy(float, na_value=math.nan), theirs(rolling), name)


@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_rows_compared_with_polars(table: pa.Table, size: int) -> None:
    frame: Any = pl.from_arrow(table)
    rules: list[Any] = ["linear", "lower", "higher", "midpoint", "equiprobable"]  # "nearest" rounds a half up
    ours = {rule: sash.quantile("x", q=0.3, interpolation=rule) for rule in rules}
    ranks = {method: sash.rank("x", method=method) for method in ("average", "min", "max", "dense")}  # type: ignore[arg-type]
    got = sash.rolling(frame, size, median=sash.median("x"), **ours, **{f"rank_{m}": one for m, one in ranks.items()})
    x = frame["x"]
    same(got["median"], x.rolling_median(size, min_samples=1), "median")
    for rule in rules:
        same(got[rule], x.rolling_quantile(0.3, rule, size, min_samples=1), rule)
    for method in ranks:
        same(got[f"rank_{method}"], x.rolling_rank(size, method, min_samples=1), method)  # type: ignore[arg-type]


@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_expressions_of_polars(table: pa.Table, size: int) -> None:
    frame: Any = pl.from_arrow(table)
    got = sash.rolling(
        frame, Time(size), by="k", on="t", **{f"n_{c}": sash.count_distinct(c) for c in "xibs"}, often=sash.mode("s")
    )
    expressions = [pl.col(c).drop_nulls().n_unique().alias(f"n_{c}") for c in "xibs"]
    often = pl.col("s").drop_nulls().mode().sort().first().alias("often")
    # polars' windows of a group have the rows up to the last peer, as ours
    theirs = frame.rolling("t", period=f"{size}i", group_by="k").agg(pl.col("row").last(), *expressions, often)
    mine = got.group_by("k", "t", maintain_order=True).last().sort("k", "t")
    other = theirs.group_by("k", "t", maintain_order=True).last().sort("k", "t")
    for name in (*(f"n_{c}" for c in "xibs"), "often"):
        assert mine[name].to_list() == other[name].to_list(), name


TYPES: dict[str, pa.Array] = {
    "text": pa.array(["b", "a", None, "b", "é", "a", "", "b"]),
    "coded": pa.array(["b", "a", None, "b", "é", "a", "", "b"]).dictionary_encode(),
    "bytes": pa.array([b"b", b"a", None, b"b", b"", b"a", b"", b"b"]),
    "times": pa.array([3, 1, None, 3, 7, 1, 2, 3], pa.timestamp("ns", "UTC")),
    "dates": pa.array([3, 1, None, 3, 7, 1, 2, 3], pa.date32()),
    "decimals": pa.array([3, 1, None, 3, 7, 1, 2, 3]).cast(pa.decimal128(21, 2)),
    "unsigned": pa.array([2**64 - 1, 1, None, 2**64 - 1, 7, 1, 2**63, 3], pa.uint64()),
    "small": pa.array([3, 1, None, 3, 7, 1, 2, 3], pa.int8()),
    "floats": pa.array([3, 1, None, 3, 7, 1, 2, 3], pa.float32()),
    "booleans": pa.array([True, False, None, True, True, False, None, True]),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("window", [Count(3), Time(4), Lifetime(), Session(2), Time(4, every=2)], ids=repr)
def test_every_type_with_an_order(window: Any, kind: str) -> None:
    """Results on frames equal those of the operator, which other tests compare with the reference."""
    table = pa.table({"t": [0, 1, 1, 2, 5, 6, 6, 7], "x": TYPES[kind]})
    aggregates: dict[str, Any] = {
        "low": sash.quantile("x", q=0.4, interpolation="lower"),
        "often": sash.mode("x"),
        "n": sash.count_distinct("x"),
    }
    if window.slide == "row":
        aggregates |= {"rank": sash.rank("x", method="dense"), "part": sash.percent_rank("x", ascending=False)}
    query = sash.Query(window, on="t", **aggregates)
    got = query.run(table)
    assert got.schema.field("low").type == got.schema.field("often").type
    reference = sash.testing.Reference(query, table.schema, mode="sorted")
    (batch,) = table.to_batches()
    expected = pa.Table.from_batches([reference.process(batch), reference.finish()])
    assert_same(got.cast(expected.schema), expected)


def test_nan_is_a_value_except_in_pandas() -> None:
    x = np.array([1.0, math.nan, 2.0, 2.0, math.nan])
    bound: dict[str, Any] = {
        "m": sash.median("x"), "o": sash.mode("x"), "n": sash.count_distinct("x"), "r": sash.rank("x", method="min"),
    }  # fmt: skip
    got = sash.rolling({"x": x}, 3, **bound)
    assert [v if v == v else None for v in got["m"]] == [1.0, None, None, None, None]
    assert [v if v == v else None for v in got["o"]] == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert [*got["n"]] == [1, 2, 3, 2, 2]
    assert [*got["r"]] == [1, 2, 2, 1, 3]
    frame = sash.rolling(pd.DataFrame({"x": x}), 3, **bound)
    assert frame["m"].tolist() == [1.0, 1.0, 1.5, 2.0, 2.0]
    assert frame["r"].isna().tolist() == [False, True, False, False, True]


def test_numbers_only_where_one_is_computed_between_two() -> None:
    table = pa.table({"s": ["a"], "d": pa.array([1], pa.timestamp("us"))})
    for bound in (sash.median("s"), sash.quantile("s", q=0.5), sash.quantile("s", q=0.5, interpolation="midpoint")):
        with pytest.raises(TypeError, match="reads numbers; the column 's' is of type string"):
            sash.rolling(table, 2, r=bound)
    with pytest.raises(TypeError, match=r"between whose values there is none: quantile\(…, q=0.5, interp"):
        sash.rolling(table, 2, r=sash.median("s"))
    with pytest.raises(TypeError, match=r"write q1=sash.quantile\('x', q=0.25\), q2=sash.quantile\('x', q=0.75\)$"):
        sash.quantile("x", q=[0.25, 0.75])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not lists or structs"):
        sash.rolling(pa.table({"l": [[1]]}), 2, r=sash.count_distinct("l"))
