"""Exponentially weighted aggregates, lag, delta and pct_change, compared with pandas, polars and the reference."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Query, Session, Time
from sash.testing import Reference, assert_same

ROWS = 400
START = datetime(2024, 1, 1)


def events(nulls: bool) -> pd.DataFrame:
    """Rows of three keys in order of time, with gaps."""
    chance = np.random.default_rng(11)
    x = chance.normal(100, 3, ROWS)
    if nulls:
        x[chance.random(ROWS) < 0.2] = np.nan
    t = pd.Timestamp(START) + pd.to_timedelta(np.cumsum(chance.integers(1, 90, ROWS)), unit="s")
    return pd.DataFrame({"k": chance.choice(["a", "b", "c"], ROWS), "t": t, "x": x, "i": chance.integers(-9, 9, ROWS)})


def close(found: pd.Series, wanted: pd.Series) -> None:
    np.testing.assert_allclose(found.to_numpy(float), wanted.to_numpy(float), rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize("nulls", [False, True])
def test_ewm_over_a_lifetime_is_that_of_pandas(nulls: bool) -> None:
    data = events(nulls)
    found = sash.rolling(
        data, Lifetime(), by="k", on="t",
        mean=sash.ewm_mean("x", halflife=2.5), by_alpha=sash.ewm_mean("x", alpha=0.3),
        ignored=sash.ewm_mean("x", halflife=4, ignore_nulls=True), by_time=sash.ewm_mean("x", halflife="3m"),
        var=sash.ewm_var("x", halflife=4), biased=sash.ewm_var("x", halflife=4, bias=True),
        std=sash.ewm_std("x", halflife=4, ignore_nulls=True), ints=sash.ewm_var("i", halflife=4),
        by_span=sash.ewm_mean("x", span=7), by_com=sash.ewm_mean("x", com=2.5), var_span=sash.ewm_var("x", span=7),
        std_com=sash.ewm_std("x", com=2.5, bias=True),
    )  # fmt: skip
    for _, rows in data.groupby("k"):
        mine, x = found.loc[rows.index], rows.x
        close(mine["mean"], x.ewm(halflife=2.5).mean())
        close(mine["by_alpha"], x.ewm(alpha=0.3).mean())
        close(mine["ignored"], x.ewm(halflife=4, ignore_na=True).mean())
        close(mine["by_time"], x.ewm(halflife="3min", times=rows.t).mean())
        close(mine["var"], x.ewm(halflife=4).var())
        close(mine["biased"], x.ewm(halflife=4).var(bias=True))
        close(mine["std"], x.ewm(halflife=4, ignore_na=True).std())
        close(mine["ints"], rows.i.ewm(halflife=4).var())
        close(mine["by_span"], x.ewm(span=7).mean())
        close(mine["by_com"], x.ewm(com=2.5).mean())
        close(mine["var_span"], x.ewm(span=7).var())
        close(mine["std_com"], x.ewm(com=2.5).std(bias=True))


def test_ewm_of_polars_frames_is_that_of_polars() -> None:
    data = pl.from_pandas(events(True)).with_columns(pl.col("x").fill_nan(None))
    found = sash.rolling(data, Lifetime(), on="t", m=sash.ewm_mean("x", halflife=3), s=sash.ewm_std("x", halflife=3))
    known = pl.col("x").is_not_null()
    wanted = data.select(
        m=pl.col("x").ewm_mean(half_life=3, ignore_nulls=False), s=pl.col("x").ewm_std(half_life=3, ignore_nulls=False)
    )
    for name in ("m", "s"):  # polars has nulls where the value is null
        mine, theirs = (frame.filter(data.select(known).to_series())[name] for frame in (found, wanted))
        np.testing.assert_allclose(mine.to_numpy()[1:], theirs.to_numpy()[1:], rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 12])
def test_lag_delta_and_pct_change_are_those_of_pandas(n: int) -> None:
    data = events(True)
    found = sash.rolling(
        data, Lifetime(), by="k", on="t",
        before=sash.lag("x", n=n), key=sash.lag("k", n=n), delta=sash.delta("x", n=n), ints=sash.delta("i", n=n),
        change=sash.pct_change("x", n=n), of_ints=sash.pct_change("i", n=n),
    )  # fmt: skip
    for key, rows in data.groupby("k"):
        mine, x = found.loc[rows.index], rows.x
        close(mine["before"], x.shift(n))
        close(mine["delta"], x.diff(n))
        close(mine["ints"], rows.i.diff(n))
        close(mine["change"], x.pct_change(n, fill_method=None))
        with_zero = rows.i.shift(n) == 0  # null here, infinite or NaN in pandas
        close(mine["of_ints"], rows.i.pct_change(n).where(~with_zero))
        assert mine["key"].isna().tolist() == [i < n for i in range(len(rows))]
        assert set(mine["key"].dropna()) == {key}


WINDOWS: list[Any] = [
    Count(3),
    Count(5, full=True),
    Count(1),
    Time("2m"),
    Time("2m", closed="left"),
    Session("70s"),
    Lifetime(),
    {"a": Count(2), "b": Time("5m", closed="both")},
    Time("5m", every="2m"),
    Count(7, every=3),
]
AGGREGATES: dict[str, Any] = {
    "mean": sash.ewm_mean("x", halflife=1.5),
    "ignored": sash.ewm_mean("x", alpha=0.4, ignore_nulls=True),
    "by_time": sash.ewm_mean("x", halflife="50s"),
    "var": sash.ewm_var("x", span=5),
    "std": sash.ewm_std("i", halflife="2m", bias=True),
    "text": sash.lag("k"),
    "before": sash.lag("x", n=2),
    "delta": sash.delta("i"),
    "change": sash.pct_change("x", n=2),
    "weighted": sash.weighted_mean("x", "i"),
}
LOOSE = {
    f"{name}{window}": 1e-9 for name in ("mean", "ignored", "by_time", "var", "std") for window in ("", "_a", "_b")
}


@pytest.mark.usefixtures("column_aggregates", "kernels")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_frames_give_what_the_reference_gives(window: Any) -> None:
    data = pa.Table.from_pandas(events(True).head(80), preserve_index=False)
    query = Query(window, on="t", **AGGREGATES)  # one key: reference and frame have one order
    reference = Reference(query, data.schema, mode="sorted")
    wanted = [reference.process(data.combine_chunks().to_batches()[0]), reference.finish()]
    assert_same(query.run(data), pa.Table.from_batches(wanted), loose=LOOSE)


def test_rows_in_any_order_and_without_a_time() -> None:
    data = events(True).head(60)
    data.loc[7, "t"] = pd.NaT
    shuffled = data.sample(frac=1, random_state=5)
    query = Query(Lifetime(), by="k", on="t", m=sash.ewm_mean("x", halflife="1m"), d=sash.delta("x"), l=sash.lag("i"))
    mine, wanted = query.run(shuffled).loc[data.index], query.run(data)
    for name in ("m", "d", "l"):
        close(mine[name], wanted[name])
        assert pd.isna(wanted[name][7])


@pytest.mark.usefixtures("interpreted_kernels", "column_aggregates")
def test_integers_that_no_float_holds() -> None:
    big = 2**60
    table = pa.table({"x": [big + 1, big + 1, big + 4]})
    found = sash.rolling(table, 2, d=sash.delta("x"), p=sash.pct_change("x"), m=sash.ewm_var("x", halflife=1))
    assert found["d"].to_pylist() == [None, 0, 3]
    assert found["p"].to_pylist() == [None, 0.0, 3 / (big + 1)]
    assert found["m"].to_pylist() == [None, 0.0, pytest.approx(4.5)]
    with pytest.raises(OverflowError, match="the delta left the range of 64-bit integers"):
        sash.rolling(pa.table({"x": [-(2**63), 1]}), 2, d=sash.delta("x"))


@pytest.mark.usefixtures("interpreted_kernels")
def test_lag_of_any_type() -> None:
    table = pa.table(
        {
            "l": pa.array([[1], None, [2, 3]], pa.list_(pa.int8())),
            "u": pa.array([1, 2**64 - 1, 3], pa.uint64()),
            "d": pa.array([1, 2, 3], pa.duration("ms")),
            "c": pa.array(["a", "b", "a"]).dictionary_encode(),
        }
    )
    found = sash.rolling(table, 2, **{name + "1": sash.lag(name) for name in table.schema.names})
    for name in table.schema.names:
        assert found[name + "1"].to_pylist() == [None, *table[name].to_pylist()[:2]]
    with pytest.raises(OverflowError, match="the delta left the range"):
        sash.rolling(table, 3, x=sash.delta("u"))


def test_a_half_life_in_time_needs_a_time_of_its_kind() -> None:
    x = sash.ewm_mean("x", halflife="10m")
    with pytest.raises(ValueError, match=r"m=ewm_mean\('x', halflife='10m'\) has its halflife= in time: set"):
        Query(3, m=x)
    with pytest.raises(ValueError, match=r"halflife= of m=ewm_mean\('x', halflife='soon'\) must be a number and"):
        Query(3, on="t", m=sash.ewm_mean("x", halflife="soon"))
    with pytest.raises(ValueError, match="must be positive"):
        Query(3, on="t", m=sash.ewm_mean("x", halflife=timedelta(0)))
    with pytest.raises(ValueError, match="which a policy does not see"):
        Query(sash.Policy(lambda *_: False, x), on="t", n=sash.count())
    schema = pa.schema([("t", pa.int64()), ("x", pa.float64())])
    with pytest.raises(
        TypeError, match=r"halflife= of m=ewm_mean\('x', halflife='10m'\) is the duration '10m', and the column 't'"
    ):
        Query(3, on="t", m=x).bind(schema)
    stamped = pa.schema([("t", pa.timestamp("s")), ("x", pa.float64())])
    with pytest.raises(TypeError, match="give a duration"):
        Query(3, on="t", m=sash.ewm_mean("x", halflife=3, times=True)).bind(stamped)
    (spec,) = Query(3, on="t", m=sash.ewm_mean("x", halflife="1500ms")).bind(stamped).aggregates
    assert spec.monoid.halflife == 1.5  # type: ignore[attr-defined]
    assert "m" in Query(3, on="t", m=x).explain()


def test_numbers_as_times() -> None:
    table = pa.table({"t": [0, 10, 10, 25], "x": [0.0, 3.0, 3.0, 1.0]})
    found = sash.rolling(table, Lifetime(), on="t", m=sash.ewm_mean("x", halflife=10, times=True))["m"].to_pylist()
    assert found[:3] == pytest.approx([0.0, 2.4, 2.4])  # peers share their window


def test_windows_in_a_loop_take_the_time() -> None:
    window = sash.Window("1h", m=sash.ewm_mean("x", halflife="10m"), n=sash.count())
    assert window.push({"x": 0.0}, START) == {"m": 0.0, "n": 1}
    assert window.push({"x": 3.0}, START + timedelta(minutes=10)) == {"m": 2.0, "n": 2}
    assert window.push({"x": None}, START + timedelta(minutes=20))["m"] == 2.0
    alone = sash.Window(5, sash.monoids.EwmMean(10, times=True))
    assert [alone.push(0.0, 0), alone.push(3.0, 10)] == [0.0, 2.0]
    with pytest.raises(TypeError, match=r"has its halflife= in time: push\(x, time\)"):
        sash.Window(5, sash.ewm_mean("x", halflife="10m")).push({"x": 1.0})
    with pytest.raises(TypeError, match="is a number: give datetimes"):
        sash.Window(5, sash.ewm_mean("x", halflife="10m")).push({"x": 1.0}, 5)
    with pytest.raises(TypeError, match="give durations for times that are datetimes"):
        sash.Window("1h", sash.ewm_mean("x", halflife=10, times=True))
