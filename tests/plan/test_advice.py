"""Words of pandas, polars, SQL, Spark and Flink are refused with the spelling of sash."""

import copy
import operator
import pickle
import re
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
import sash.frames
from sash import Count, Delta, Lifetime, Query, Session, Time
from sash.engine import Operator
from sash.monoids.synonyms import ARGUMENTS, CALLS, NAMES, example, missing_name
from sash.stores import MemoryStore

TABLE = pa.table({"x": [1, 2]})

QUERY: dict[str, str] = {
    "center": r"shift= of a window moves it: sash\.Count\(5, shift=2\)",
    "win_type": r"write the aggregate with sash\.monoid",
    "closed": r"sash\.Time\('1h', closed='left'\)",
    "window": r"the window is windows=, the second argument: sash\.rolling\(data, 5",
    "rows": r"the window is windows=, the second argument: sash\.Count\(5\) is ROWS",
    "range": r"the window is windows=, the second argument: .*sash\.Time\('1h'\) a RANGE",
    "groupby": r"it is called by=",
    "where": r"a parameter of the aggregate: sash\.sum\('x', where='x > 0'\)",
    "halflife": r"a parameter of the aggregate: sash\.ewm_mean\('x'",
    "threads": r"options=sash\.Options",
    "min_samples": r"it is called min_periods=",
    "group_by": r"it is called by=",
    "partition_by": r"it is called by=",
    "order_by": r"it is called on=",
    "index_column": r"it is called on=",
    "axis": r"windows are windows of rows",
    "step": r"every= of the window: sash\.Count\(10, every=5\)",
    "freq": r"the window is windows=, the second argument",
    "period": r"the window is windows=, the second argument",
    "every": r"sash\.Time\('1h', every='10m'\)",
    "allowed_lateness": r"it is called lateness=",
    "latenes": r"did you mean lateness=\?",
    "ddof": r"sash\.var\('x', ddof=0\)",
}


@pytest.mark.parametrize("word", QUERY)
def test_arguments_of_queries(word: str) -> None:
    arguments: dict[str, Any] = {word: 5}
    with pytest.raises(TypeError, match=rf"{word}= must be a parameter of Query or an aggregate .*: .*{QUERY[word]}"):
        sash.rolling(TABLE, 2, s=sash.sum("x"), **arguments)
    with pytest.raises(TypeError, match=QUERY[word]):
        Query(2, **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"by": "k"}, r"by= must be an aggregate: .*: a Window has one key: .*sash\.Query\(…, by=…\)"),
        ({"partition_by": "k"}, r"partition_by= .*: a Window has one key"),
        ({"order_by": "t"}, r"order_by= .*: the time is the second argument of push"),
        ({"min_samples": 3}, r"min_samples= .*: sash\.Query has it: sash\.Query\(5, min_periods=3"),
        ({"window": 3}, r"window= .*: the window is the first argument: sash\.Window\(5"),
        ({"allowed_lateness": 3}, r"allowed_lateness= .*: it is an argument of sash\.Query"),
        ({"foo": 3}, r"foo= must be a monoid such as"),
    ],
)
def test_arguments_of_window_loops(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        sash.Window(3, s=sash.sum("x"), **arguments)


def test_rolling_without_a_window() -> None:
    with pytest.raises(TypeError, match=r"window= must be a parameter .*: the window is windows=, the second argument"):
        sash.rolling(TABLE, window=3, s=sash.sum("x"))  # type: ignore[call-overload]


def test_an_aggregate_may_have_such_a_name() -> None:
    assert sash.rolling(TABLE, 2, center=sash.mean("x"), period=sash.count())["center"].to_pylist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Count(5, center=True), r"Count\(\) has no argument 'center': shift= moves .*; it takes size, every"),  # type: ignore[call-arg]
        (lambda: Count(5, closed="left"), r"'closed': only windows measured in time .*sash\.Time\('1h', closed='left'"),  # type: ignore[call-arg]
        (lambda: Count(window=5), r"'window': it is called size, the first argument"),  # type: ignore[call-arg]
        (lambda: Time("1h", step="1m"), r"'step': it is called every=: sash\.Time\('1h', every='10m'\)"),  # type: ignore[call-arg]
        (lambda: Time("1h", group_by="k"), r"'group_by': by= is an argument of sash\.rolling"),  # type: ignore[call-arg]
        (lambda: Time("1h", full=True), r"'full': only windows of a number of rows are ever full"),  # type: ignore[call-arg]
        (lambda: Count(rows=5), r"'rows': it is called size, the first argument"),  # type: ignore[call-arg]
        (lambda: Count(5, min_samples=5), r"'min_samples': min_periods= is an argument of sash\.rolling"),  # type: ignore[call-arg]
        (lambda: Count(5, index_column="t"), r"'index_column': on= is an argument of sash\.rolling"),  # type: ignore[call-arg]
        (lambda: Session("1h", step=1), r"'step': every='close' gives one window for each session"),  # type: ignore[call-arg]
        (lambda: Session(range="1h"), r"'range': .* one of a length of time sash\.Time\('1h'\); it takes gap, every"),  # type: ignore[call-arg]
        (lambda: Time("1h", offst="1m"), r"'offst': did you mean offset=\?"),  # type: ignore[call-arg]
        (lambda: Count(5, 2), r"Count\(\) takes size without a name, name the others: every=, .*; got 5, 2"),  # type: ignore[misc]
        (lambda: Delta("x", 5, 1), r"Delta\(\) takes column and size without a name, and no more; got 'x', 5, 1"),  # type: ignore[call-arg]
        (lambda: Delta("x", 5, step=1), r"Delta\(\) has no argument 'step': .* slide: .*; it takes column, size"),  # type: ignore[call-arg]
        (lambda: Session("1h", timeout=1), r"'timeout': it is called gap: sash\.Session\('10m'\)"),  # type: ignore[call-arg]
        (lambda: Lifetime(window=5), r"Lifetime\(\) has no argument 'window': .* sash\.Count\(5\).*; it takes every"),  # type: ignore[call-arg]
        (lambda: Count(5, foo=1), r"Count\(\) has no argument 'foo'; it takes size, every"),  # type: ignore[call-arg]
    ],
)
def test_arguments_of_windows(make: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sash.sum("x", skipna=True), r"unknown parameter 'skipna': nulls are always skipped; it takes the par"),  # type: ignore[call-arg]
        (lambda: sash.max("x", over=3), r"unknown parameter 'over': the window is an argument of sash\.rolling"),  # type: ignore[call-arg]
        (lambda: sash.concat("x", sep=","), r"unknown parameter 'sep': it is called separator="),  # type: ignore[call-arg]
        (lambda: sash.sum("x", sep=","), r"unknown parameter 'sep'; it takes"),  # type: ignore[call-arg]
        (lambda: sash.sum("x", filter="y"), r"'filter': it is called where="),  # type: ignore[call-arg]
        (lambda: sash.quantile("x", percentile=99), r"'percentile': it is called q=, in 0\.\.1: q=0\.99"),  # type: ignore[call-arg]
        (lambda: sash.lag("x", periods=2), r"'periods': it is called n="),  # type: ignore[call-arg]
        (lambda: sash.quantile("x", q=0.5, interpolate="lower"), r"'interpolate': did you mean interpolation=\?"),  # type: ignore[call-arg]
        (lambda: sash.mean("x", foo=3), r"unknown parameter 'foo'; it takes the parameters where"),  # type: ignore[call-arg]
    ],
)
def test_parameters_of_aggregates(make: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("avg", r"has no attribute 'avg': it is called sash\.mean$"),
        ("stddev", r"it is called sash\.std$"),
        ("corr", r"it is called sash\.correlation, as in sash\.correlation\('x', 'y'\)$"),
        ("argmax", r"it is called sash\.arg_max, as in sash\.arg_max\('price', 'trader'\)$"),
        ("nunique", r"it is called sash\.count_distinct$"),
        ("distinct", r"write sash\.count_distinct\('x'\), or sash\.collect_distinct\('x'\) for the values"),
        ("percentile", r"write sash\.quantile\('x', q=0\.99\)$"),
        ("quantiles", r"write sash\.quantile\('x', q=0\.25\), one for each q$"),
        ("p99", r"write sash\.quantile\('x', q=0\.99\)$"),
        ("p5", r"write sash\.quantile\('x', q=0\.05\)$"),
        ("p999", r"write sash\.quantile\('x', q=0\.999\)$"),
        ("p100", r"write sash\.max\('x'\)$"),
        ("diff", r"write sash\.delta\('x', n=1\)$"),
        ("lead", r"write sash\.rolling\(data, sash\.Count\(1, shift=1\), y=sash\.last\('x'\)\)$"),
        ("ema", r"write sash\.ewm_mean\('x', "),
        ("ewma", r"write sash\.ewm_mean\('x', "),
        ("rolling_quantile", r"write sash\.rolling\(data, 5, y=sash\.quantile\('x', q=0\.99\)\)$"),
        ("mad", r"has no attribute 'mad'$"),
        ("averge", r"did you mean sash\.mean\?$"),
        ("skewnes", r"did you mean sash\.skewness\?$"),
        ("rolling_mean", r"write sash\.rolling\(data, 5, y=sash\.mean\('x'\)\)$"),
        ("rolling_std", r"write sash\.rolling\(data, 5, y=sash\.std\('x'\)\)$"),
        ("cumsum", r"write sash\.rolling\(data, sash\.Lifetime\(\), y=sash\.sum\('x'\)\)$"),
        ("Tumble", r"write sash\.Time\('1h', every='1h'\)$"),
        ("xyzzy", r"module 'sash' has no attribute 'xyzzy'$"),
        ("__wrapped__", r"has no attribute '__wrapped__'$"),
    ],
)
def test_names_of_sash(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(sash, name)
    assert not hasattr(sash, name)


def test_what_is_advised_is_there() -> None:
    assert {*NAMES.values()} <= {*sash.__all__}
    assert not {*NAMES, *CALLS} & {*sash.__all__}, "a name of sash is not foreign"
    data = {"x": np.array([1.0]), "y": np.array([2.0])}
    for call in {*CALLS.values(), *map(example, ARGUMENTS), missing_name("p99", []).partition("write ")[2]}:
        code = re.split(", (?:or|one|a) ", call)[0]
        if code.startswith(("sash.", "(sash.")) and code != "sash.monoid(...)":
            eval(code, {"sash": sash, "data": {"x": data["x"]}})
    assert {*ARGUMENTS} <= {*sash.__all__}
    assert missing_name("median_", ["median", "mean"]).endswith("did you mean sash.median?")


# ---- what an aggregate is given, and what is done with one ----


FRAME = pd.DataFrame({"t": pd.to_datetime([0, 1], unit="s"), "x": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda: sash.rolling(FRAME, "1h", sash.mean("x"), on="t"), r"write mean=sash\.mean\('x'\)"),
        (lambda: sash.Query("1h", sash.max("x") / 2, on="t"), r"write result=max\('x'\) / 2"),
        (lambda: sash.Query("1h", MINE("x"), on="t"), r"write mine=mine\('x'\)"),
        (lambda: sash.as_of(FRAME, FRAME, "1h", sash.mean("x"), on="t"), r"write mean=sash\.mean\('x'\)"),
        (lambda: FRAME.sash.rolling("1h", sash.mean("x"), on="t"), r"write mean=sash\.mean\('x'\)"),
        (lambda: FRAME.sash.as_of(FRAME, "1h", sash.mean("x"), on="t"), r"write mean=sash\.mean\('x'\)"),
        (lambda: sash.plot(FRAME, "1h", sash.mean("x"), on="t"), r"write mean=sash\.mean\('x'\)"),
        (lambda: sash.rolling(FRAME, "1h", [sash.mean("x"), sash.max("x")], on="t"), r"write mean=.*, max=sash\.max.*"),
        (lambda: sash.Query("1h", {"m": sash.mean("x")}, on="t"), r"write m=sash\.mean\('x'\)"),
    ],
)
def test_an_aggregate_without_a_name_is_refused_with_one(run: Any, says: str) -> None:
    with pytest.raises(TypeError, match=rf"^aggregates are named by keywords: {says}$"):
        run()


@pytest.mark.parametrize("run", [lambda *given: sash.Query(*given, on="t"), lambda *given: sash.rolling(FRAME, *given)])
def test_an_aggregate_in_place_of_the_window(run: Any) -> None:
    says = r"the first argument of a query is its window, such as '1h' or 5, .* write max=sash\.max\('x'\)$"
    with pytest.raises(TypeError, match=says):
        run(sash.max("x"))


MINE = sash.monoid(identity=0, lift=lambda x: x, combine=lambda a, b: a + b, name="mine")


def test_other_arguments_without_a_name_are_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match=r"takes from 1 to 2 positional arguments"):
        sash.rolling(FRAME, "1h", "t", n=sash.count())  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (FRAME["x"], r"got a Series of pandas: write mean\('x'\)"),
        (pl.Series("y", [1]), r"got a Series of polars: write mean\('y'\)"),
        (pl.col("x"), r"got a Expr of polars: write mean\('x'\)"),
        (np.arange(1000), r"got a ndarray of numpy: write mean\('x'\)"),
        ([1, 2], r"got a list: write mean\('x'\)"),
        (5, r"got 5, a int: write mean\('x'\)"),
    ],
)
def test_values_in_place_of_a_column_are_not_printed(column: Any, says: str) -> None:
    with pytest.raises(TypeError) as caught:
        sash.mean(column)
    assert re.match(rf"mean takes the names of columns, or expressions made with sash\.expr; {says}", str(caught.value))
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match=r"where= of count must be .*; got a Series of pandas$"):
        sash.count(where=FRAME["x"] > 1)  # type: ignore[arg-type]
    for name in ("by", "on"):
        with pytest.raises(TypeError, match=rf"^{name}= must .*; got ") as refused:
            sash.Query(5, m=sash.mean("x"), **{name: column})
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 200
    with pytest.raises(TypeError, match=r"^by= must name columns by text; got a Series of polars: write 'y'$"):
        sash.Query(5, by=["k", pl.Series("y", [1])], m=sash.mean("x"))  # type: ignore[list-item]


@pytest.mark.parametrize("aggregate", [sash.mean("x"), sash.mean("x") + 1], ids=repr)
def test_an_aggregate_says_what_to_write_for_methods_and_functions_of_columns(aggregate: Any) -> None:
    for name in ("alias", "name", "rename"):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}': a result is named by its keyword, sash"):
            getattr(aggregate, name)
    with pytest.raises(
        AttributeError, match=r"has no attribute 'fillna': it describes a result\. Apply it to the column"
    ):
        aggregate.fillna(0)
    for function in (np.sqrt, np.log, abs, round, float, int, operator.invert):
        with pytest.raises(
            TypeError, match=r"^(np\.)?[\w~]+ of mean\('x'\).*: aggregates have .*\. Apply it to the column of"
        ):
            function(aggregate)
    others = (np.arange(2), FRAME["x"], "x", [1], Decimal("1.5"), True, sash.expr("x"), timedelta(1), None)
    arithmetic = (operator.add, operator.sub, operator.mul, operator.truediv)
    more = (operator.mod, operator.floordiv, operator.matmul, operator.and_, operator.or_, operator.xor, operator.pow)
    calls = [lambda: aggregate["x"], lambda: [*aggregate], lambda: sash.max(aggregate)]
    for other in others:
        calls += [partial(function, aggregate, other) for function in (*arithmetic, *more)]
        calls += [partial(function, other, aggregate) for function in arithmetic]
    for call in calls:
        with pytest.raises(TypeError) as refused:
            call()
        assert "aggregate" in str(refused.value)
        assert not re.search(r"Bound|Formula|\n", str(refused.value))
    assert not hasattr(aggregate, "__len__")
    assert pickle.loads(pickle.dumps(aggregate)) == copy.deepcopy(aggregate) == aggregate
    assert repr(np.float64(2) * aggregate).startswith("2.0 * ")
    assert repr(np.negative(aggregate)) == repr(-aggregate)


@pytest.mark.parametrize("name", ["topk", "top_k", "nlargest", "nsmallest"])
def test_the_largest_values_are_not_the_most_frequent_ones(name: str) -> None:
    says = missing_name(name, sash.__all__)
    assert f"write sash.{'min' if name == 'nsmallest' else 'max'}('x')" in says
    assert says.find("frequent_items") == -1 or "sash.frequent_items('x') for the most frequent values" in says


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_times_that_are_text_get_the_line_to_write(kind: pa.DataType) -> None:
    schema = pa.schema([("ts", kind), ("x", pa.int64())])
    for query in (Query("1h", on="ts", n=sash.count()), Query(Delta("ts", 3), n=sash.count())):
        with pytest.raises(
            TypeError, match=r"names the column 'ts' of type .*string.*: convert the text, in pandas"
        ) as caught:
            query.bind(schema)
        for line in (
            "df['ts'] = pd.to_datetime(df['ts'])",
            "df.with_columns(pl.col('ts').str.to_datetime())",
            "CAST(ts AS TIMESTAMP)",
            'ts = "timestamp[us]" under [source.schema]',
        ):
            assert line in str(caught.value)
    df = pd.DataFrame({"ts": ["2024-05-01 09:00", "2024-05-01 10:30"]})
    frame = pl.DataFrame(df).with_columns(pl.col("ts").str.to_datetime())
    assert Query("1h", on="ts", n=sash.count()).run(frame)["n"].to_list() == [1, 1]
    df["ts"] = pd.to_datetime(df["ts"])
    assert Query("1h", on="ts", n=sash.count()).run(df)["n"].tolist() == [1, 1]


@pytest.mark.parametrize("data", [pl.DataFrame({"k": ["a"]}), pa.table({"k": ["a"]}), {"k": ["a"]}], ids=type)
def test_text_in_double_quotes_that_is_not_compared(data: Any) -> None:
    for condition, says in [
        ('k LIKE "a%"', r"the pattern of LIKE must be text in quotes, which are single ones: 'a%'$"),
        ('starts_with(k, "it\'s")', r"names the column \"it's\", which does not exist: texts take .*: 'it''s'\."),
        ("concat(k, \"-\") = 'a-'", r"names the column '-', which does not exist: texts take single quotes: '-'\."),
        ("coalesce(k, \"none\") = 'a'", r"which does not exist: texts take single quotes: 'none'\."),
    ]:
        with pytest.raises((KeyError, ValueError), match=says):
            sash.rolling(data, 2, n=sash.count(where=condition))
    with pytest.raises(KeyError, match=r"names the column 'the-price', which does not exist\. If it is an expression"):
        sash.rolling(data, 2, n=sash.max("the-price"))


# ---- public names ----


def test_dir_has_the_public_names_alone() -> None:
    assert {name for name in dir(sash) if not name.startswith("_")} == set(sash.__all__)
    assert {"sql", "pipe", "plot", "live_page"} <= set(dir(sash))


def test_completion_of_operators_has_what_users_call() -> None:
    store = MemoryStore()
    query = Query(2, n=sash.count())
    op = query.operator(store=store)
    op.process(TABLE)
    offered = {name for name in dir(op) if not name.startswith("_")}
    calls = {"process", "advance", "finish", "run", "late_rows", "failed_rows", "lookup", "snapshot", "restore"}
    values = {"query", "schema", "mode", "store", "watermark", "due", "offset", "metrics", "structures"}
    assert offered == calls | values
    assert {name for name in dir(query.reader(store)) if not name.startswith("_")} == {"lookup", "refresh"} | values
    several = {name for name in dir(sash.Queries(a=query).operator()) if not name.startswith("_")}
    assert several == calls | {"queries"} | values - {"query", "store", "structures"}

    class Mine(Operator):
        def summary(self) -> str:
            """A method of a user's class."""
            return ""

    assert "summary" in dir(Mine(query))
