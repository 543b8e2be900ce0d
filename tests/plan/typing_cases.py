"""Right and wrong uses of the public API, for type checkers alone: `test_typing.py` runs them, nothing imports this.

Both mypy and pyright must report exactly the lines that are marked `# wrong`.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, assert_type

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pyspark.sql import DataFrame as SparkFrame

import sash
from sash.engine import Operator
from sash.frames.accessors import Accessor
from sash.monoids import Bound
from sash.monoids.arithmetic import Formula
from sash.pipeline import Summary

# ---- aggregates ----

high = sash.max("price")
assert_type(high, Bound)
assert_type(sash.count(), Bound)
assert_type(sash.count("a", "b"), Bound)
assert_type(sash.arg_max("price", "trader"), Bound)
assert_type(sash.var("x", ddof=0), Bound)
assert_type(sash.approx_quantile("x", q=(0.5, 0.9)), Bound)
assert_type(sash.max(), Bound)
sash.max("a", "b")  # wrong: one column too many
sash.max(x="a")  # wrong: columns are positional
sash.max(3)  # wrong: a column is named by text
sash.arg_max("price")  # wrong: the payload is missing
sash.nth("x")  # wrong: n= is missing
sash.nth("x", 3)  # wrong: n is a keyword
sash.nth("x", n="3")  # wrong: n is an integer
sash.mean("x", ddof=0)  # wrong: an unknown parameter
sash.concat("x", separator=1)  # wrong: a separator is text

assert_type(sash.count(where="status = 'ok'"), Bound)
assert_type(sash.sum(sash.expr("price * qty"), where=sash.expr("qty > 0")), Bound)
assert_type(sash.arg_max(sash.expr("abs(x)"), "id"), Bound)
assert_type(sash.monoids.Max()("price", where="ok"), Bound)
assert_type(sash.sum("x") / sash.sum("y"), Formula)
assert_type(1 - 2.5 * sash.mean("x") + 3, Formula)
assert_type(-sash.max("x").over("1h"), Formula)
assert_type(sash.max("x").over(sash.Count(10)), Bound)
assert_type((sash.max("x") - sash.min("x")).over(10), Formula)
sash.expr(3)  # wrong: an expression is text
sash.sum("x", where=True)  # wrong: a condition is text
sash.sum("x") / "y"  # wrong: an operand is an aggregate or a number
"y" + sash.sum("x")  # wrong: an operand is an aggregate or a number

# ---- windows ----

sash.Time("1h")
sash.Time(timedelta(hours=1), every="1m", closed="left", offset="30s")
sash.Time(60, every=sash.Count(10))
sash.Time(2.5)
sash.Count(10, every=5, full=True)
sash.Count(np.int64(10), every="1m")
sash.Delta("odometer", 100)
sash.Session("30m", every="close")
sash.Punctuation("checkout", every="close")
sash.Lifetime(every="1h")
sash.Policy(lambda total, prefix: bool(total - prefix > 10), over=sash.sum("x"))
sash.Policy(lambda _total, _prefix: True, over=[sash.sum("x"), sash.count()])
sash.Time("1h", "1m")  # wrong: every is a keyword
sash.Time(None)  # wrong: a size is needed
sash.Time("1h", closed="middle")  # wrong: an unknown word
sash.Count("1h")  # wrong: a number of rows
sash.Count(2.5)  # wrong: a whole number
sash.Session("30m", every="1h")  # wrong: only at the close
sash.Policy(lambda _total, _prefix: True, over="x")  # wrong: an aggregate of columns

# ---- queries ----

query = sash.Query({"1h": "1h", "day": sash.Time("1d")}, by=["a", "b"], on="ts", high=high, n=sash.count())
sash.Query(100, by="k", lateness="10s", on=("ts", "seq"), emit="changes", late="flag", forget=timedelta(1), high=high)
sash.Query("1h", on="ts", emit="eager", retract="undo", options=sash.Options(prefer="latency"), high=high)
sash.Query("1h", min_periods=3, vwap=sash.sum(sash.expr("p * q")) / sash.sum("q"))
sash.Query(on="ts", high=high.over("1h"), rise=sash.max("p").over("1h") / sash.mean("p").over("7d"))
sash.Query("1h", min_periods="3", high=high)  # wrong: a number of inputs
several: dict[str, Any] = {f"max_{name}": sash.max(name) for name in "abc"}
sash.Query("1h", by="k", **several)
assert_type(query.explain(), str)
assert_type(query.per_row, bool)
sash.Query("1h", emit="never", high=high)  # wrong: an unknown word
sash.Query("1h", late="wait", high=high)  # wrong: an unknown word
sash.Query("1h", "k", high=high)  # wrong: options are keywords
sash.Query("1h", by=1, high=high)  # wrong: columns are named by text
sash.Query("1h", high="max")  # wrong: an aggregate of columns
sash.Query("1h", high=max)  # wrong: the built-in function
sash.Query("1h", high=sash.max)  # wrong: not bound to a column
sash.Query("1h", high=sash.monoids.Max())  # wrong: not bound to a column
sash.Query("1h", options={"prefer": "latency"}, high=high)  # wrong: sash.Options(…)
sash.Options(prefer="speed")  # wrong: an unknown word
sash.Options(structure="Stack")  # wrong: an unknown structure
sash.Options("DABA")  # wrong: options are keywords
sash.Options(threads="2")  # wrong: a whole number

# ---- frames: the kind that is given comes back ----


def frames(pandas: pd.DataFrame, eager: pl.DataFrame, lazy: pl.LazyFrame, spark: SparkFrame) -> None:
    assert_type(sash.rolling(pandas, "1h", on="ts", high=high), pd.DataFrame)
    assert_type(query.run(pandas), pd.DataFrame)
    assert_type(sash.rolling(eager, "1h", on="ts", high=high), pl.DataFrame)
    assert_type(query.run(eager), pl.DataFrame)
    assert_type(sash.rolling(lazy, "1h", on="ts", high=high), pl.LazyFrame)
    assert_type(query.run(lazy), pl.LazyFrame)
    assert_type(sash.rolling(spark, "1h", on="ts", high=high), SparkFrame)
    assert_type(query.run(spark), SparkFrame)
    assert_type(sash.rolling(eager, on="ts", high=high.over("1h")), pl.DataFrame)
    assert_type(sash.as_of(pandas, eager, "1h", on="ts", high=high), pd.DataFrame)
    assert_type(sash.as_of(spark, spark, "1h", on="ts", high=high), SparkFrame)
    assert_type(query.as_of(eager, {"ts": np.arange(3)}, closed="right"), pl.DataFrame)
    sash.as_of(eager, eager, "1h", on="ts", closed="up", high=high)  # wrong: an unknown word
    query.as_of(eager, [1, 2])  # wrong: no frame
    assert_type(sash.Queries(one=query, two=query).run(eager)["one"], pl.DataFrame)
    sash.Queries(one=high)  # wrong: an aggregate, not a query
    sash.rolling(eager, "1h", emit="never", high=high)  # wrong: an unknown word
    sash.rolling(eager, "1h", "k", high=high)  # wrong: options are keywords
    sash.rolling(eager, "1h", high=sash.max)  # wrong: not bound to a column


def columns(floats: NDArray[np.float64], ints: NDArray[np.int64]) -> None:
    assert_type(sash.rolling({"x": floats, "t": ints}, 3, high=high), dict[str, NDArray[Any]])
    assert_type(sash.rolling({"x": np.arange(3)}, 3, high=high), dict[str, NDArray[Any]])
    typed = {"x": floats}
    assert_type(query.run(typed), dict[str, NDArray[Any]])
    assert_type(sash.rolling({"x": [1, 2], "k": ["a", "b"]}, 3, high=high), dict[str, list[Any]])
    assert_type(query.run({"x": [1, 2]}), dict[str, list[Any]])
    query.run({"x": 1})  # wrong: columns are arrays or lists
    query.run([1, 2, 3])  # wrong: no frame
    query.run(5)  # wrong: no frame


def arrays(floats: NDArray[np.float64], one: pd.Series, other: pl.Series) -> None:
    assert_type(sash.rolling(floats, 3, sash.mean()), NDArray[Any])
    assert_type(sash.rolling(floats, sash.Count(3, full=True), sash.max() - sash.min(), min_periods=2), NDArray[Any])
    assert_type(sash.rolling(one, 3, sash.mean()), pd.Series)
    assert_type(sash.rolling(other, 3, sash.mean()), pl.Series)
    assert_type(sash.rolling(floats, None, sash.mean().over(3)), NDArray[Any])
    sash.rolling(floats, "1h", sash.mean())  # wrong: a window of an array is a number of rows
    sash.rolling(floats, 3, sash.mean(), on="t")  # wrong: an array has no columns
    sash.rolling(floats, 3, sash.mean(), sash.max())  # wrong: one aggregate
    sash.rolling([1, 2], 3, sash.mean())  # wrong: a list is no array


def arrow(table: pa.Table, batch: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> None:
    assert_type(query.run(table), pa.Table)
    assert_type(query.run(batch), pa.RecordBatch)
    assert_type(sash.rolling(batches, "1h", on="ts", high=high), Iterator[pa.RecordBatch])
    assert_type(query.run(batches), Iterator[pa.RecordBatch])


class Relation:
    """What exports an Arrow stream, as a relation of DuckDB does."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise NotImplementedError


assert_type(query.run(Relation()), pa.Table)

# ---- accessors, as `df.sash`: type checkers do not see attributes that are registered ----


def accessors(pandas: Accessor[pd.DataFrame], eager: Accessor[pl.DataFrame], lazy: pl.LazyFrame) -> None:
    assert_type(pandas.rolling("1h", on="ts", emit="changes", high=high), pd.DataFrame)
    assert_type(eager.rolling({"1h": "1h", "3": 3}, by="k", on="ts", min_periods=2, high=high), pl.DataFrame)
    assert_type(eager.run(query), pl.DataFrame)
    assert_type(Accessor(lazy).rolling(3, high=high), pl.LazyFrame)
    assert_type(eager.as_of(lazy, "1h", by="k", on="ts", closed="right", spine_on="t", high=high), pl.DataFrame)
    eager.rolling("1h", "k", high=high)  # wrong: options are keywords
    eager.rolling("1h", emit="never", high=high)  # wrong: an unknown word
    eager.rolling("1h", high=sash.max)  # wrong: not bound to a column
    eager.as_of(lazy, "1h", closed="up", high=high)  # wrong: an unknown word
    eager.as_of([1, 2], "1h", high=high)  # wrong: no frame
    eager.run(high)  # wrong: an aggregate, not a query
    Accessor([1, 2])  # wrong: no frame


# ---- plots ----


def plots(frame: pl.DataFrame, table: pa.Table) -> None:
    assert_type(sash.plot(frame, "1h", by="k", on="ts", key=["a", "b"], panels=2, high=high), Figure)
    sash.plot(table, on="ts", min_periods=3, late="flag", high=high.over("1h"))
    sash.plot({"x": np.arange(3)}, {"2": 2, "3": 3}, **several)
    sash.plot([1, 2], 3, high=high)  # wrong: no frame
    sash.plot(frame, "1h", "k", high=high)  # wrong: options are keywords
    sash.plot(frame, "1h", panels="2", high=high)  # wrong: a whole number
    sash.plot(frame, "1h", on=1, high=high)  # wrong: columns are named by text
    sash.plot(frame, "1h", late="wait", high=high)  # wrong: an unknown word
    sash.plot(frame, "1h", high=sash.max)  # wrong: not bound to a column


# ---- SQL: the kind of table that is given comes back ----


def tables(pandas: pd.DataFrame, eager: pl.DataFrame, lazy: pl.LazyFrame, spark: SparkFrame, table: pa.Table) -> None:
    assert_type(sash.sql("SELECT 1 FROM t", t=pandas), pd.DataFrame)
    assert_type(sash.sql("SELECT 1 FROM t", t=eager, options=sash.Options(threads=2)), pl.DataFrame)
    assert_type(sash.sql("SELECT 1 FROM t", t=lazy), pl.DataFrame)
    assert_type(sash.sql("SELECT 1 FROM t", t=spark, lateness="10s"), SparkFrame)
    assert_type(sash.sql("SELECT 1 FROM t", t=table), pa.Table)
    assert_type(sash.sql("SELECT 1 FROM t", t=Relation()), pa.Table)
    assert_type(sash.sql("SELECT 1 FROM t", t={"x": np.arange(3)}), dict[str, NDArray[Any]])
    assert_type(sash.sql("SELECT 1 FROM t", t={"x": [1, 2]}), dict[str, list[Any]])
    assert_type(sash.sql("SELECT 1 FROM t", t=eager, u=eager), pl.DataFrame)
    sash.sql("SELECT 1 FROM t", t=eager, u={"x": np.arange(3)}, v=Relation())
    sash.sql(3, t=eager)  # wrong: a statement is text
    sash.sql("SELECT 1 FROM t", eager)  # wrong: a table is passed by its name
    sash.sql("SELECT 1 FROM t", t=[1, 2])  # wrong: no frame
    sash.sql("SELECT 1 FROM t", t={"x": 1})  # wrong: columns are arrays or lists
    sash.sql("SELECT 1 FROM t", t=eager, lateness=sash)  # wrong: a length of time
    sash.sql("SELECT 1 FROM t", t=eager, options={"threads": 2})  # wrong: sash.Options(…)


# ---- pipelines ----


def pipelines(batches: Iterator[pa.RecordBatch], queries: sash.Queries) -> None:
    assert_type(sash.pipe("in", query, "out", follow=True, malformed="error"), Summary)
    sash.pipe(batches, queries, {"one": "out", "two": lambda batch, name: (batch, name)}, side="side")
    sash.pipe("in", high, "out")  # wrong: an aggregate, not a query
    sash.pipe("in", query, "out", "state")  # wrong: options are keywords
    sash.pipe("in", query, "out", store="state")  # wrong: a store
    sash.pipe("in", query, "out", malformed="skip")  # wrong: an unknown word
    sash.pipe("in", query, 3)  # wrong: a sink


# ---- operators ----

operator = query.operator(mode="given", clock=lambda: 0.0)
assert_type(operator, Operator)
assert_type(operator.process({"a": [1]}, offset={"file": 3}), pa.RecordBatch)
assert_type(operator.snapshot(), bytes)
assert_type(Operator.restore(query, b""), Operator)
operator.advance(datetime(2024, 5, 1))
operator.advance(np.datetime64("2024-05-01"))
operator.lookup({"a": [1]}, at=5, last="1h")
operator.lookup({"a": [1]}, at=5, closed="left")
query.operator(mode="batch")  # wrong: an unknown word
query.operator(None, "rows")  # wrong: options are keywords
query.operator(store="state.db")  # wrong: a store
operator.snapshot().decode(3)  # wrong: bytes are returned

# ---- loops ----

loop = sash.Window(3, sash.monoids.Max())
loop.push(5)
loop.push(5, datetime(2024, 5, 1))
loop.advance(7.5)
assert_type(loop.structures, dict[str, str])
sash.Window("1h", prefer="latency", structure="DABALite", high=high, n=sash.monoids.Count())
sash.Window(3, high, n=sash.count())  # wrong: one aggregate or several by name
sash.Window(3, "max")  # wrong: an aggregate
sash.Window({"a": 3}, high)  # wrong: one window
sash.Window(3, high, prefer="speed")  # wrong: an unknown word
sash.Window(3, high, structure="Stack")  # wrong: an unknown structure
loop.push(5, np.datetime64("2024-05-01"))  # wrong: a datetime of Python
loop.push(5, "noon")  # wrong: a time
