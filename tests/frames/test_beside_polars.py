"""Results equal those of polars: `rolling_*`, `rolling_*_by`, expressions with `rolling`, groups, `group_by_dynamic`.

Where a window has no value that is not null, polars sums to 0 and multiplies to 1, and we give null: those rows are
left out here and pinned in test_others.py.
"""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Time
from tests.frames.frame_cases import CLOSED, frames, same, with_times
from tests.shared.effort import share

X, N, B = pl.col("x"), pl.col("i"), pl.col("b")
SPECIAL: dict[str, Any] = {name: getattr(sash, name)("x") for name in ("sum", "mean", "min", "max", "var", "std")}
"""Those with a function of their own for rows and for times."""
MOMENTS: dict[str, tuple[Any, str]] = {
    "skewness": (sash.skewness("x"), "skew"),
    "kurtosis": (sash.kurtosis("x"), "kurtosis"),
}
EXPRESSIONS: dict[str, tuple[Any, pl.Expr]] = {
    "count": (sash.count("x"), X.count()),
    "rows": (sash.count(), pl.len()),
    "sum": (sash.sum("x"), X.sum()),
    "sum_i": (sash.sum("i"), N.sum()),
    "mean": (sash.mean("x"), X.mean()),
    "min": (sash.min("x"), X.min()),
    "max": (sash.max("x"), X.max()),
    "var": (sash.var("x"), X.var()),
    "var_pop": (sash.var("x", ddof=0), X.var(ddof=0)),
    "std": (sash.std("x"), X.std()),
    "range": (sash.range("x"), X.max() - X.min()),
    "product": (sash.product("u"), pl.col("u").product()),
    "geometric_mean": (sash.geometric_mean("u"), pl.col("u").log().mean().exp()),
    "squares": (sash.sum_of_squares("x"), (X * X).sum()),
    "skewness": (sash.skewness("x"), X.skew()),
    "kurtosis": (sash.kurtosis("x"), X.kurtosis()),
    "covariance": (sash.covariance("x", "y"), pl.cov("x", "y")),
    "correlation": (sash.correlation("x", "y"), pl.corr("x", "y")),
    "any": (sash.any("b"), B.any()),
    "all": (sash.all("b"), B.all()),
    "bit_and": (sash.bit_and("i"), N.bitwise_and()),
    "bit_or": (sash.bit_or("i"), N.bitwise_or()),
    "bit_xor": (sash.bit_xor("i"), N.bitwise_xor()),
    "first": (sash.first("x"), X.drop_nulls().first()),
    "last": (sash.last("i"), N.drop_nulls().last()),
    "arg_max": (sash.arg_max("x", "row"), pl.col("row").get(X.arg_max())),
    "arg_min": (sash.arg_min("x", "row"), pl.col("row").get(X.arg_min())),
}


def theirs(closed: str) -> Any:
    return "none" if closed == "neither" else closed


def compare(got: pl.DataFrame, others: pl.DataFrame, bounds: dict[str, Any]) -> None:
    """Compare column by column, where the window has a value."""
    for name, bound in bounds.items():
        filled = got[f"n_{bound.columns[0]}"] > 0 if bound.columns else got["n_x"] >= 0
        same(got[f"our_{name}"].filter(filled), others[name].filter(filled), name)


def ours(frame: pl.DataFrame, window: Any, bounds: dict[str, Any], by: Any) -> pl.DataFrame:
    counts: dict[str, Any] = {f"n_{column}": sash.count(column) for column in "xuib"}
    on = "t" if not isinstance(window, Count) else None
    result: pl.DataFrame = sash.rolling(
        frame, window, by=by, on=on, **counts, **{f"our_{name}": bound for name, bound in bounds.items()}
    )
    return result


@pytest.mark.parametrize("by", [(), "k"])
@pytest.mark.parametrize("closed", CLOSED)
@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_rolling_by(closed: str, by: Any, table: pa.Table, size: int) -> None:
    frame = pl.DataFrame(with_times(table))
    got = ours(frame, Time(f"{size}s", closed=closed), SPECIAL, by)
    columns = {name: getattr(X, f"rolling_{name}_by")("t", f"{size}s", closed=theirs(closed)) for name in SPECIAL}
    others = frame.select(**{name: column.over(by) if by else column for name, column in columns.items()})
    compare(got, others, SPECIAL)


@pytest.mark.parametrize("by", [(), "k"])
@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=share(15))
def test_rows(by: Any, table: pa.Table, size: int) -> None:
    frame = pl.DataFrame(table)
    bounds = SPECIAL | {name: bound for name, (bound, _) in MOMENTS.items()}
    names = {name: name for name in SPECIAL} | {name: known for name, (_, known) in MOMENTS.items()}
    columns = {name: getattr(X, f"rolling_{known}")(size, min_samples=1) for name, known in names.items()}
    others = frame.select(**{name: column.over(by) if by else column for name, column in columns.items()})
    compare(ours(frame, Count(size), bounds, by), others, bounds)


@pytest.mark.parametrize("by", [(), "k"])
@given(table=frames(ties=True), size=st.integers(1, 5))
@settings(max_examples=share(10))
def test_full_rows(by: Any, table: pa.Table, size: int) -> None:
    frame = pl.DataFrame(table)  # y has no nulls: with them, polars asks for values and we for rows
    aggregates: Any = {name: getattr(sash, name)("y") for name in SPECIAL}
    got = sash.rolling(frame.select("k", "y"), Count(size, full=True), by=by, **aggregates)
    columns = {name: getattr(pl.col("y"), f"rolling_{name}")(size) for name in SPECIAL}
    others = frame.select(**{name: column.over(by) if by else column for name, column in columns.items()})
    for name in SPECIAL:
        same(got[name], others[name], name)


@pytest.mark.parametrize("by", [(), "k"])
@given(table=frames(ties=True), size=st.integers(2, 5))
@settings(max_examples=share(10))
def test_rows_of_pairs(by: Any, table: pa.Table, size: int) -> None:
    frame = pl.DataFrame(table).with_columns(X.fill_null(0.0))  # with nulls, polars takes means over other rows
    bounds = {"covariance": sash.covariance("x", "y")}
    column = pl.rolling_cov("x", "y", window_size=size, min_samples=2)
    others = frame.select(covariance=column.over(by) if by else column)
    compare(ours(frame, Count(size), bounds, by), others, bounds)


@pytest.mark.parametrize("by", [(), "k"])
@pytest.mark.parametrize("closed", CLOSED)
@given(table=frames(ties=True), size=st.integers(1, 6))
@settings(max_examples=share(10))
def test_any_expression(closed: str, by: Any, table: pa.Table, size: int) -> None:
    frame = pl.DataFrame(table)
    bounds = {name: bound for name, (bound, _) in EXPRESSIONS.items()}
    got = ours(frame, Time(size, closed=closed), bounds, by)
    rolling = {"index_column": "t", "period": f"{size}i", "closed": theirs(closed)}
    columns = {name: expression.rolling(**rolling) for name, (_, expression) in EXPRESSIONS.items()}
    others = frame.select(**{name: column.over(by) if by else column for name, column in columns.items()})
    compare(got, others, bounds)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("closed", ["left", "right"])
@given(table=frames(ties=True), size=st.integers(1, 3), slides=st.integers(1, 3))
@settings(max_examples=share(10))
def test_group_by_dynamic(closed: Any, table: pa.Table, size: int, slides: int) -> None:
    frame = pl.DataFrame(table)
    bounds = {name: bound for name, (bound, _) in EXPRESSIONS.items()}
    window = Time(size * slides, every=size, closed=closed)
    got = ours(frame, window, bounds, "k").sort("k", "window_start")
    groups = frame.group_by_dynamic(
        "t", every=f"{size}i", period=f"{size * slides}i", closed=closed, group_by="k", start_by="window"
    )
    others = groups.agg(**{name: expression for name, (_, expression) in EXPRESSIONS.items()}).sort("k", "t")
    # polars begins with the window that begins at or before the first row: earlier ones hold it, too
    got = got.join(others.select("k", window_start="t"), on=["k", "window_start"], how="semi")
    assert got["window_start"].to_list() == others["t"].to_list()
    compare(got, others, bounds)
