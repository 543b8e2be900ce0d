"""Expressions, conditions, formulas, own windows and min_periods on every kind of frame, compared with pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import Count, Time

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "column_aggregates")

RNG = np.random.default_rng(5)
N = 200
FRAME = pd.DataFrame(
    {
        "k": RNG.choice(["a", "b", "c"], N),
        "t": np.sort(RNG.integers(0, 300, N)),
        "x": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(-20, 20, N) / 4),
        "q": RNG.integers(0, 9, N),
        "ok": RNG.random(N) < 0.6,
        "status": RNG.choice(["ok", "fail"], N),
    }
)
MADE: dict[str, Any] = {
    "vwap": sash.sum(sash.expr("x * q")) / sash.sum("q", where="x is not null"),
    "failed": sash.count(where="status = 'fail'"),
    "best": sash.arg_max(sash.expr("abs(x)"), "q", where="ok"),
    "rise": sash.max("x").over(7) - sash.min("x").over(3),
    "text": sash.last(sash.expr("upper(status)"), where="q > 4"),
}


def by_key(frame: pd.DataFrame, roll: Any) -> pd.Series[Any]:
    """A rolling calculation for each key, in the order of the frame."""
    return pd.concat([roll(group) for _, group in frame.groupby("k")]).sort_index()


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(expected, float), rtol=1e-12, atol=1e-12)


def test_a_condition_is_what_a_filtered_column_gives_in_pandas() -> None:
    got = sash.rolling(FRAME, 5, by="k", s=sash.sum("x", where="ok"), n=sash.count(where="status = 'fail'"))
    kept = FRAME.assign(x=FRAME["x"].where(FRAME["ok"]), failed=(FRAME["status"] == "fail").astype(float))
    same(got["s"], by_key(kept, lambda g: g["x"].rolling(5, min_periods=1).sum()))
    same(got["n"], by_key(kept, lambda g: g["failed"].rolling(5, min_periods=0).sum()))


def test_an_expression_is_what_a_column_of_its_values_gives() -> None:
    got = sash.rolling(FRAME, 5, by="k", s=sash.mean(sash.expr("x * q + 1")))
    added = FRAME.assign(y=FRAME["x"] * FRAME["q"] + 1)
    same(got["s"], by_key(added, lambda g: g["y"].rolling(5, min_periods=1).mean()))
    assert list(got.columns) == [*FRAME.columns, "s"]


@pytest.mark.parametrize("least", [0, 1, 3, 5])
def test_min_periods_is_that_of_pandas(least: int) -> None:
    got = sash.rolling(FRAME, 5, by="k", min_periods=least, s=sash.sum("x"), m=sash.max("x"), n=sash.count("x"))
    same(got["s"], by_key(FRAME, lambda g: g["x"].rolling(5, min_periods=max(least, 1)).sum()))
    same(got["m"], by_key(FRAME, lambda g: g["x"].rolling(5, min_periods=max(least, 1)).max()))
    counts = by_key(FRAME, lambda g: g["x"].rolling(5, min_periods=0).count())
    same(got["n"], counts.where(counts >= least))


def test_windows_of_single_aggregates_are_those_of_pandas() -> None:
    got = sash.rolling(
        FRAME, by="k", on="t", high=sash.max("x").over(4), mean=sash.mean("x").over(Time(30)), ratio=(
            sash.max("x").over(4) / sash.mean("x").over(9)
        )
    )  # fmt: skip
    high = by_key(FRAME, lambda g: g["x"].rolling(4, min_periods=1).max())
    nine = by_key(FRAME, lambda g: g["x"].rolling(9, min_periods=1).mean())
    same(got["high"], high)
    same(got["ratio"], (high / nine).where(nine != 0))
    only = sash.rolling(FRAME, Time(30), by="k", on="t", mean=sash.mean("x"))
    same(got["mean"], only["mean"])


def test_formulas_and_numbers() -> None:
    table = pa.table({"i": [4, 0, None, 3]})
    made: dict[str, Any] = {
        "a": 1 - sash.sum("i"), "b": sash.sum("i") / sash.sum("i"), "c": -sash.count() * 2 + 0.5,
        "d": 3 / sash.sum("i"), "e": np.int64(2) * sash.sum("i"),
    }  # fmt: skip
    found = sash.rolling(table, 1, **made)
    assert found["a"].to_pylist() == [-3, 1, None, -2]
    assert found["b"].to_pylist() == [1.0, None, None, 1.0]
    assert found["c"].to_pylist() == [-1.5] * 4
    assert found["d"].to_pylist() == [0.75, None, None, 1.0]
    assert found["e"].to_pylist() == [8, 0, None, 6]


@pytest.mark.parametrize("window", [None, Count(6), Time(40), Time(60, every=20)])
def test_every_kind_of_frame_gives_the_same(window: Any) -> None:
    made = {name: one for name, one in MADE.items() if window is None or name != "rise"}
    made = {name: one.over(5) if window is None and name != "rise" else one for name, one in made.items()}
    plain = FRAME.drop(columns="ok").assign(ok=FRAME["ok"])
    table = pa.Table.from_pandas(plain, preserve_index=False)
    query = sash.Query(window, by="k", on=("t",), min_periods=2, **made)
    expected = query.run(table).to_pydict()
    assert set(made) <= set(expected)
    found = query.run(plain)
    for name in made:
        assert [None if pd.isna(value) else value for value in found[name].astype(object)] == expected[name]
    assert query.run(pl.from_arrow(table)).to_dict(as_series=False) == expected  # type: ignore[union-attr, arg-type]
    if query.per_row:
        ordered = sash.Query(window, by="k", on=("t",), min_periods=2, **made).operator()
        batches = [ordered.process(batch) for batch in table.to_batches(max_chunksize=37)] + [ordered.finish()]
        rows = [row for batch in batches for row in batch.to_pylist()]
        key = lambda row: (row["k"], row["t"], str(row))  # noqa: E731
        assert sorted(rows, key=key) == sorted(pa.Table.from_pydict(expected, batches[0].schema).to_pylist(), key=key)


def test_a_loop_gives_the_same() -> None:
    rows = pa.Table.from_pandas(FRAME, preserve_index=False).to_pylist()
    made = {name: one for name, one in MADE.items() if name != "rise"}
    window = sash.Window(6, **made)
    loop = [window.push(row) for row in rows]
    expected = sash.rolling(pa.Table.from_pandas(FRAME, preserve_index=False), 6, **made).select(list(made)).to_pylist()
    assert loop == expected


def test_results_of_a_column_under_a_condition_keep_its_type() -> None:
    frame = FRAME.assign(c=FRAME["status"].astype("category"), i=FRAME["q"].astype("int8"))
    found = sash.rolling(frame, 3, a=sash.last("c", where="ok"), b=sash.max("i", where="ok"))
    plain = sash.rolling(frame, 3, a=sash.last("c"), b=sash.max("i"))
    assert found["a"].dtype == plain["a"].dtype
    categories = pa.table({"c": pa.array(["x", "y", "x"]).dictionary_encode(), "n": [1, 2, 3]})
    got = sash.rolling(categories, 2, xs=sash.count(where="c = 'x'"), last=sash.last("n", where="c = 'y'"))
    assert got["xs"].to_pylist() == [1, 1, 1]
    assert got["last"].to_pylist() == [None, 2, 2]


def test_nested_columns_take_conditions() -> None:
    table = pa.table({"l": [[1], [2], None, [4]], "b": [True, False, True, None]})
    found = sash.rolling(table, 4, every=sash.collect("l", where="b"), n=sash.count("l", where="b"))
    assert found["every"].to_pylist()[-1] == [[1]]
    assert found["n"].to_pylist() == [1, 1, 1, 1]
