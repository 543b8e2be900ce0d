"""`sash.rolling` on a bare array, or a Series: one aggregate without a column gives an array, or a Series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

X = np.array([3.0, 1.0, np.nan, 5.0, 2.0])
AGGREGATES = {
    "mean": (sash.mean(), sash.mean("x")),
    "max": (sash.max(), sash.max("x")),
    "count": (sash.count(), sash.count()),
    "last": (sash.last(), sash.last("x")),
    "lag": (sash.lag(n=1), sash.lag("x", n=1)),
    "quantile": (sash.quantile(q=0.25), sash.quantile("x", q=0.25)),
    "formula": (sash.max() - sash.min() / 2, sash.max("x") - sash.min("x") / 2),
}
"""An aggregate of an array, and the same of the column "x"."""

ARRAYS: dict[str, Any] = {
    "floats": X,
    "float32": X.astype(np.float32),
    "int32": np.array([3, 1, 2, 2], np.int32),
    "uint8": np.array([3, 1, 2, 2], np.uint8),
    "booleans": np.array([True, False, True]),
    "days": np.array(["2020-01-01", "2020-01-03"], "M8[D]"),
    "times": np.array(["2020-01-01", "NaT", "2020-01-03"], "M8[ns]"),
    "masked integers": np.ma.MaskedArray([3, 1, 2], [True, False, True]),
    "masked floats": np.ma.MaskedArray(X, np.isnan(X)),
    "every second": X[::2],
    "reversed": X[::-1],
    "objects": np.array([1, None, 3], object),
    "texts": np.array(["b", "a", "c"]),
    "no rows": X[:0],
    "pandas": pd.Series(X, index=range(5, 10), name="price"),
    "pandas Int64": pd.Series([1, None, 3], dtype="Int64"),
    "pandas arrow": pd.Series([1, None, 3], dtype=pd.ArrowDtype(pa.int64())),
    "pandas without a name": pd.Series([3, 1, 2]),
    "pandas named as the result": pd.Series([3, 1], name="result", index=pd.Index([1, 2], name="array")),
    "polars": pl.Series("price", [3, None, 1]),
    "polars floats": pl.Series([3.0, 2.0]),
}


def framed(data: Any) -> Any:
    """The array as the column "x" of a frame of its kind."""
    return data.to_frame("x") if isinstance(data, pd.Series | pl.Series) else {"x": data}


@pytest.mark.parametrize("how", AGGREGATES)
@pytest.mark.parametrize("kind", ARRAYS)
def test_as_the_column_of_a_frame(kind: str, how: str) -> None:
    """Values, type, nulls and errors are those of a frame with this column."""
    data, (of_array, of_column) = ARRAYS[kind], AGGREGATES[how]
    try:
        wanted = sash.rolling(framed(data), 2, y=of_column)["y"]
    except TypeError:
        with pytest.raises(TypeError, match=r"the column 'array'|max\('array'\)"):
            sash.rolling(data, 2, of_array)
        return
    got = sash.rolling(data, 2, of_array)
    assert type(got) is type(wanted)
    assert got.dtype == wanted.dtype
    if isinstance(got, pd.Series):
        pd.testing.assert_series_equal(got, wanted, check_names=False)
        assert got.name == data.name
        assert got.index.equals(data.index)
    elif isinstance(got, pl.Series):
        assert got.equals(wanted, null_equal=True)
        assert got.name == data.name
    else:
        np.testing.assert_array_equal(got, wanted)
        assert np.ma.getmaskarray(got).tolist() == np.ma.getmaskarray(wanted).tolist()


def test_windows_and_parameters() -> None:
    holes = np.ma.MaskedArray(X, np.isnan(X))
    assert sash.rolling(holes, 3, sash.mean(), min_periods=2).tolist()[1:] == [2.0, 2.0, 3.0, 3.5]
    assert np.isnan(sash.rolling(holes, 3, sash.mean(), min_periods=2)[0])
    assert np.isnan(sash.rolling(X, sash.Count(2, full=True), sash.max())[0])
    assert sash.rolling(X, sash.Count(2, shift=1), sash.last()).tolist()[:1] == [1.0]
    assert sash.rolling(X, None, sash.count().over(3)).tolist() == [1, 2, 3, 3, 3]
    assert sash.rolling(X, np.int64(2), sash.count()).tolist() == [1, 2, 2, 2, 2]
    slow = sash.rolling(X, 2, sash.max(), options=sash.Options(structure="Recalc"))
    np.testing.assert_array_equal(slow, sash.rolling(X, 2, sash.max()))


def test_an_aggregate_of_the_user_and_an_operator() -> None:
    """One that overflows a state of integers is computed by an operator, which other rows need, too."""
    mine = sash.monoid(identity=0.0, lift=lambda x: x * x, combine=lambda a, b: a + b, name="mine")
    assert sash.rolling(np.array([1.0, 2.0, 3.0]), 2, mine()).tolist() == [1.0, 5.0, 13.0]
    with pytest.raises(OverflowError, match="in the column 'array'"):
        sash.rolling(np.array([2**62, 2**62]), 2, sash.sum())


def test_the_given_array_is_not_changed() -> None:
    given = np.array([3.0, 1.0])
    sash.rolling(given, 1, sash.max())[:] = 7
    assert given.tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda: sash.rolling(X, "1h", sash.mean()), r"a number of rows, such as 64; got '1h': .*on='t'"),
        (lambda: sash.rolling(X, sash.Count(2, every=2), sash.mean()), r"a number of rows, such as 64; got Count"),
        (lambda: sash.rolling(X, None, sash.mean().over("1h")), r"a number of rows, such as 64; got '1h'"),
        (lambda: sash.rolling(X, {"a": 2, "b": 3}, sash.mean()), r"an array takes one window; got \{'a': 2"),
        (lambda: sash.rolling(X, 2, sash.mean("x")), r"mean\('x'\) names columns, .* write sash\.mean\(\)$"),
        (lambda: sash.rolling(X, 2, sash.sum(where="x > 1")), r"names columns, which an array does not have"),
        (lambda: sash.rolling(X, 2, sash.correlation("x", "y")), r"correlation\('x', 'y'\) takes several columns"),
        (sash.correlation, r"correlation takes 2 columns \(x, y\); got 0: none"),
        (lambda: sash.rolling(X, 2, sash.mean(), sash.max()), r"an array takes one aggregate, mean\(\)"),
        (lambda: sash.rolling(X, 2, sash.mean(), high=sash.max()), r"an array takes one aggregate, mean\(\)"),
        (lambda: sash.rolling(X, 2, sash.mean(), on="t"), r"on= is for frames, which have columns"),
        (lambda: sash.rolling(X, 2, sash.mean(), by="k"), r"by= is for frames, which have columns"),
        (lambda: sash.rolling(X, 2, sash.mean(), emit="changes"), r"emit= is for frames"),
        (lambda: sash.rolling([1, 2], 2, sash.mean()), r"a list is none: write numpy\.asarray\(values\), or a dict"),
        (lambda: sash.rolling(framed(X), 2, sash.mean()), r"named by keywords: write mean=sash\.mean\('x'\)$"),
        (lambda: sash.rolling(framed(X), 2, m=sash.mean()), r"mean takes 1 column \(x\); got 0: none$"),
        (lambda: sash.rolling(X, 2, m=sash.mean("x")), r"got a numpy\.ndarray: an array takes one aggregate"),
        (lambda: sash.rolling(pd.Series(X), 2, m=sash.mean("x")), r"got a Series: write series\.to_frame\(\), or"),
        (lambda: sash.rolling(X, 2, "x"), r"takes from 1 to 2 positional arguments but 3 were given"),
        (lambda: sash.rolling(X, sash.mean()), r"the first argument of a query is its window"),
        (lambda: sash.rolling(np.array(["a"]), 2, sash.mean()), r"reads numbers; the column 'array' is of type string"),
    ],
)
def test_what_is_refused(run: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        run()


@pytest.mark.parametrize("shape", [(), (5, 1), (1, 5), (0, 0)])
def test_an_array_has_one_dimension(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=f"an array must have one dimension, and this one has {len(shape)}"):
        sash.rolling(np.zeros(shape), 2, sash.mean())
