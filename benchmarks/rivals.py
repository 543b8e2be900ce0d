"""The contestants: sash on two kinds of frames, and the rolling functions of other libraries.

Each works end to end on what its users hold: a frame of pandas, polars or DuckDB gets a column more (and shares the
others), bottleneck and numbagg take and give NumPy arrays.

 columns ──make──▶ frame ──run(function, case)──▶ frame with column "out" ──out──▶ array, rows in order
                          ╰──── this is timed ───╯
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import bottleneck
import duckdb
import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray

import sash
from benchmarks.functions import Case, Columns, Function


class Contestant(ABC):
    """A library that computes windows over a column."""

    @abstractmethod
    def make(self, columns: Columns) -> Any:
        """The columns as this one's users hold them."""

    @abstractmethod
    def serves(self, function: Function, case: Case) -> bool:
        """Whether it has the function over such windows."""

    @abstractmethod
    def run(self, frame: Any, function: Function, case: Case) -> Any:
        """The frame with a column more: what is timed."""

    def out(self, result: Any) -> NDArray[Any]:
        """The new column, null as NaN."""
        return np.asarray(result)

    def folds(self, _function: Function, _case: Case) -> bool:
        """Whether each window is recomputed, at a cost that grows with its width."""
        return False


class Ours(Contestant):
    """sash.rolling, on some kind of frame."""

    def serves(self, _function: Function, _case: Case) -> bool:
        return True

    def run(self, frame: Any, function: Function, case: Case) -> Any:
        by = "k" if case.keys > 1 else ()
        if case.over == "rows":
            return sash.rolling(frame, case.width, by=by, out=function.ours)
        return sash.rolling(frame, f"{case.microseconds}us", by=by, on="t", out=function.ours)


class OursOnPandas(Ours):
    """A DataFrame of pandas in and out."""

    def make(self, columns: Columns) -> pd.DataFrame:
        return pd.DataFrame(columns)

    def out(self, result: pd.DataFrame) -> NDArray[Any]:
        return result["out"].to_numpy(float, na_value=np.nan)


class OursOnPolars(Ours):
    """A DataFrame of polars in and out."""

    def make(self, columns: Columns) -> pl.DataFrame:
        return pl.DataFrame(columns).set_sorted("t")

    def out(self, result: pl.DataFrame) -> NDArray[Any]:
        return result["out"].cast(pl.Float64).fill_null(np.nan).to_numpy()


class Pandas(OursOnPandas):
    """`rolling`, `groupby.rolling`."""

    def serves(self, function: Function, case: Case) -> bool:
        # with groups, a second column is aligned by a join on the keys: another result, and hours of it
        return function.pandas is not None and (case.keys == 1 or len(function.ours.columns) == 1)

    def run(self, frame: pd.DataFrame, function: Function, case: Case) -> pd.DataFrame:
        over: Any = frame.groupby("k") if case.keys > 1 else frame
        if case.over == "rows":
            rolling = over.rolling(case.width, min_periods=1)
        else:
            rolling = over.rolling(f"{case.microseconds}us", on="t")
        first, *others = function.ours.columns
        values = getattr(rolling[first], str(function.pandas))(*(frame[other] for other in others)).to_numpy()
        result = frame.copy(deep=False)
        if case.keys > 1:  # the results come by key, and go back to their rows
            by_key, values = values, np.empty_like(values)
            values[np.argsort(frame["k"].to_numpy(), kind="stable")] = by_key
        result["out"] = values
        return result


class Polars(OursOnPolars):
    """`rolling_*`, `rolling_*_by`, `Expr.rolling`; groups by `over`."""

    def serves(self, function: Function, _case: Case) -> bool:
        return function.polars is not None or function.fold is not None

    def run(self, frame: pl.DataFrame, function: Function, case: Case) -> pl.DataFrame:
        expression = self.expression(function, case)
        return frame.with_columns(out=expression.over("k") if case.keys > 1 else expression)

    def folds(self, function: Function, case: Case) -> bool:
        return self.special(function, case) is None

    def special(self, function: Function, case: Case) -> Any:
        """polars' own function for this, if there is one."""
        if function.polars is None:
            return None
        name = f"rolling_{function.polars}" + ("" if case.over == "rows" else "_by")
        if len(function.ours.columns) > 1:
            return getattr(pl, name, None)
        return getattr(pl.Expr, name, None)

    def expression(self, function: Function, case: Case) -> pl.Expr:
        special, period = self.special(function, case), f"{case.microseconds}us"
        inputs = [pl.col(name) for name in function.ours.columns]
        if special is None:
            assert function.fold is not None
            if case.over == "rows":
                return function.fold.rolling(pl.int_range(pl.len()), period=f"{case.width}i")
            return function.fold.rolling("t", period=period)
        if case.over == "rows":
            expression: pl.Expr = special(*inputs, window_size=case.width, min_samples=len(inputs))
        else:
            expression = special(*inputs, "t", period)
        return expression


class Bottleneck(Contestant):
    """`move_*`: rows, one key."""

    def make(self, columns: Columns) -> Columns:
        return columns

    def serves(self, function: Function, case: Case) -> bool:
        return function.bottleneck is not None and case.over == "rows" and case.keys == 1

    def run(self, frame: Columns, function: Function, case: Case) -> NDArray[Any]:
        name = str(function.bottleneck)
        values, *payload = (frame[column] for column in function.ours.columns)
        more = {"ddof": 1} if name in ("std", "var") else {}
        moved: NDArray[Any] = getattr(bottleneck, f"move_{name}")(values, case.width, min_count=1, **more)
        if payload:  # it tells how many rows ago, we what stood there
            moved = payload[0][np.arange(len(values)) - moved.astype(np.int64)]
        return moved


class Numbagg(Bottleneck):
    """`move_*`, compiled by Numba."""

    def serves(self, function: Function, case: Case) -> bool:
        return function.numbagg is not None and case.over == "rows" and case.keys == 1

    def run(self, frame: Columns, function: Function, case: Case) -> NDArray[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it divides by nothing in the first rows
            import numbagg

            move = getattr(numbagg, f"move_{function.numbagg}")
            moved: NDArray[Any] = move(
                *(frame[column] for column in function.ours.columns), window=case.width, min_count=1
            )
        return moved


class DuckDB(Contestant):
    """Window functions over ROWS and RANGE frames, from a table in memory into another."""

    def make(self, columns: Columns) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        connection.register("given", pl.DataFrame(columns).to_arrow())
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
        return connection

    def serves(self, function: Function, _case: Case) -> bool:
        return function.duckdb is not None

    def run(self, frame: duckdb.DuckDBPyConnection, function: Function, case: Case) -> Any:
        if case.over == "rows":
            bounds = f"ROWS BETWEEN {case.width - 1} PRECEDING AND CURRENT ROW"
        else:
            bounds = f"RANGE BETWEEN INTERVAL {case.microseconds - 1} MICROSECONDS PRECEDING AND CURRENT ROW"
        window = f"({'PARTITION BY k ' * (case.keys > 1)}ORDER BY t {bounds})"
        return frame.execute(
            f"CREATE OR REPLACE TABLE result AS SELECT *, {function.duckdb} AS out FROM rows WINDOW w AS {window}"
        )

    def out(self, result: duckdb.DuckDBPyConnection) -> NDArray[Any]:
        found = result.execute("SELECT out::DOUBLE AS out FROM result ORDER BY t").fetchnumpy()["out"]
        return np.ma.filled(found, np.nan)


OURS: dict[str, Contestant] = {"sash on pandas": OursOnPandas(), "sash on polars": OursOnPolars()}
RIVALS: dict[str, Contestant] = {
    "pandas": Pandas(), "polars": Polars(), "bottleneck": Bottleneck(), "numbagg": Numbagg(), "DuckDB": DuckDB(),
}  # fmt: skip
CONTESTANTS = OURS | RIVALS
