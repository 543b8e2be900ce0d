"""Query and Options: what they keep, and what is refused before there is any data, with what words."""

import pickle
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Options, Query
from sash.monoids import Bound, Rank
from sash.windows import Count, Duration, Lifetime, Policy, Punctuation, Session, Time
from sash.windows.specs import WindowKind

SKETCHES = pytest.mark.skipif(not find_spec("datasketches"), reason="datasketches has no release for this Python")


def evicts(total: Any, prefix: Any) -> bool:
    return bool(total - prefix > 10)


# ---- what is kept ----


@pytest.mark.parametrize(
    ("written", "windows"),
    [
        (1000, {"": Count(1000)}),
        (np.int32(5), {"": Count(5)}),
        ("1h", {"": Time("1h")}),
        (timedelta(hours=1), {"": Time("1h")}),
        (Duration.of("1h"), {"": Time("1h")}),
        (Session("5m"), {"": Session("5m")}),
        ({"1h": "1h", "1k": 1000, "all": Lifetime()}, {"1h": Time("1h"), "1k": Count(1000), "all": Lifetime()}),
    ],
)
def test_what_stands_for_a_window(written: Any, windows: dict[str, Any]) -> None:
    assert Query(written, on="ts", n=sash.count()).windows == windows


def test_the_attributes() -> None:
    q = Query(
        "1h",
        by=["a", "b"],
        on=["ts", "seq"],
        lateness="10s",
        emit="changes",
        late="flag",
        forget="30d",
        ahead=timedelta(minutes=1),
        options=Options(prefer="latency"),
        high=sash.max("price"),
        n=sash.count(),
    )
    assert (q.by, q.on) == (("a", "b"), ("ts", "seq"))
    assert (q.lateness, q.forget, q.ahead) == (Duration.of("10s"), Duration.of("30d"), Duration.of("1m"))
    assert (q.emit, q.late, q.options.prefer) == ("changes", "flag", "latency")
    assert list(q.aggregates.items()) == [("high", sash.max("price")), ("n", sash.count())]
    assert q.per_row


def test_the_defaults() -> None:
    q = Query(10, n=sash.count())
    assert (q.by, q.on, q.lateness, q.emit, q.late, q.forget, q.ahead) == ((), (), None, "final", "drop", None, None)
    assert q.options == Options()


def test_it_reads_as_it_was_written() -> None:
    q = Query(
        {"h": "1h", "k": 5},
        by="s",
        on=["ts", "i"],
        lateness="10s",
        late="error",
        forget="1d",
        ahead="1m",
        n=sash.count(),
    )
    text = "Query({'h': Time('1h'), 'k': Count(5)}, by='s', on=['ts', 'i'], lateness='10s', late='error', forget='1d', "
    assert repr(q) == text + "ahead='1m', n=count())"
    assert repr(Query(5, options=Options(threads=2), n=sash.count())) == (
        "Query(Count(5), options=Options(threads=2), n=count())"
    )
    assert repr(Query(Time(5), on="t", lateness=2, n=sash.count())) == "Query(Time(5), on='t', lateness=2, n=count())"


def test_queries_are_frozen_values() -> None:
    def made() -> Query:
        return Query({"a": "1h", "b": 10}, by="s", on="ts", high=sash.max("x"), low=sash.min("x"))

    q = made()
    assert q == made()
    assert hash(q) == hash(made())
    q.bind(pa.schema([("s", pa.string()), ("ts", pa.timestamp("us")), ("x", pa.int64())]))
    assert pickle.loads(pickle.dumps(q)) == q == made()
    with pytest.raises(AttributeError):
        q.by = ()  # type: ignore[misc]
    assert q != Query("1h", by="s", on="ts", high=sash.max("x"))
    assert q != "q"


def test_the_order_of_windows_and_aggregates_counts() -> None:
    """It is the order of the results' columns."""
    high, low = sash.max("x"), sash.min("x")
    assert Query(5, high=high, low=low) != Query(5, low=low, high=high)
    assert Query({"a": 5, "b": 6}, high=high) != Query({"b": 6, "a": 5}, high=high)


def test_any_other_name_is_free() -> None:
    q = Query(5, self=sash.count(), mode=sash.count(), schema=sash.count(), store=sash.count(), _x=sash.count())
    assert list(q.aggregates) == ["self", "mode", "schema", "store", "_x"]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("windows", "error", "says"),
    [
        (0, ValueError, r"size= of Count must be at least 1; got 0"),
        (-3, ValueError, r"size= of Count must be at least 1; got -3"),
        ("0s", ValueError, r"size= of Time must be above zero; got '0s'"),
        ("soon", ValueError, r"size= of Time must be a number and a unit, .*; got 'soon'"),
        (2.5, TypeError, r"windows= must be a window such as sash\.Time\('1h'\), .*; got 2\.5, a float"),
        (True, TypeError, r"windows= must be a window .*; got True, a bool"),
        (None, ValueError, r"n=count\(\) has no window: give the query windows="),
        (["1h", "2h"], TypeError, r"windows= must be a window .* or a dict of named ones; got \['1h', '2h'\]"),
        ({}, ValueError, r"windows= names no window"),
        ({"": 5}, TypeError, r"names of windows= must be text; got the name ''"),
        ({5: 5}, TypeError, r"names of windows= must be text; got the name 5"),
        ({"a": 1.5}, TypeError, r"windows=\{'a': …\} must be a window .*; got 1\.5"),
        (
            sash.max("x"),
            TypeError,
            r"the first argument of a query is its window, such as '1h' or 5, and got max\('x'\)",
        ),
    ],
)
def test_windows_that_are_none(windows: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Query(windows, on="ts", n=sash.count())


@pytest.mark.parametrize("name", ["by", "on", "lateness", "emit", "late", "forget", "ahead", "options"])
def test_an_aggregate_under_the_name_of_a_parameter(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"an aggregate cannot be named '{name}', which is a parameter of Query: rename"
    ):
        Query(5, **{name: sash.max("x")}, n=sash.count())


def test_an_aggregate_under_the_name_of_rollings_parameter() -> None:
    with pytest.raises(TypeError, match=r"an aggregate cannot be named 'data', which is a parameter of sash\.rolling"):
        Query(5, data=sash.max("x"))


@pytest.mark.parametrize("name", ["window", "window_start", "window_end", "_late", "_row", "_revision"])
def test_an_aggregate_under_the_name_of_a_result(name: str) -> None:
    with pytest.raises(ValueError, match=rf"an aggregate cannot be named '{name}', which is a column of the results"):
        Query(5, **{name: sash.max("x")})


@pytest.mark.parametrize(
    ("keywords", "error", "says"),
    [
        ({}, TypeError, r"a query needs at least one aggregate, such as high=sash\.max\('price'\)"),
        ({"": sash.count()}, ValueError, r"an aggregate needs a name, which is that of its column; got ''"),
        ({"high": sash.monoids.Max()}, TypeError, r"high=Max\(.*\) is not bound to columns: call it with their names"),
        ({"high": sash.max}, TypeError, r"high= must be a parameter of Query or an aggregate of columns .*a function"),
        ({"high": "price"}, TypeError, r"high= must be a parameter of Query or an aggregate .*; got 'price', a str"),
        ({"by": 5}, TypeError, r"by= must be a column's name or a list of names; got 5, a int"),
        ({"by": [5]}, TypeError, r"by= must name columns by text; got 5, a int"),
        ({"by": ["a", "a"]}, ValueError, r"by= names the column 'a' twice"),
        ({"on": {"ts"}}, TypeError, r"on= must be a column's name or a list of names; got a set$"),
        ({"on": ["ts", "ts"]}, ValueError, r"on= names the column 'ts' twice"),
        ({"on": "ts", "lateness": "-1s"}, ValueError, r"lateness= must not be negative; got '-1s'"),
        ({"on": "ts", "lateness": -1}, ValueError, r"lateness= must not be negative; got -1"),
        ({"on": "ts", "lateness": "late"}, ValueError, r"lateness= must be a number and a unit, .*; got 'late'"),
        ({"on": "ts", "lateness": float("nan")}, ValueError, r"lateness="),
        ({"on": "ts", "lateness": float("inf")}, ValueError, r"lateness="),
        ({"on": "ts", "lateness": []}, TypeError, r"lateness= must be a duration .*; got \[\], a list"),
        ({"on": "ts", "forget": "0s"}, ValueError, r"forget= must be above zero; got '0s'"),
        ({"on": "ts", "ahead": "-1s"}, ValueError, r"ahead= must not be negative; got '-1s'"),
        ({"emit": "soon"}, ValueError, r"emit= must be one of 'final', 'changes', 'eager'; got 'soon'"),
        ({"late": "keep"}, ValueError, r"late= must be one of 'drop', 'flag', 'error'; got 'keep'"),
        ({"late": ["drop"]}, ValueError, r"late= must be one of 'drop', 'flag', 'error'; got \['drop'\]"),
        (
            {"options": {"threads": 2}},
            TypeError,
            r"options= must be a sash\.Options\(…\); got \{'threads': 2\}, a dict",
        ),
        ({"lateness": "1s"}, ValueError, r"lateness='1s' is a length of time: set the column of the time with on="),
        ({"forget": "1d"}, ValueError, r"forget='1d' is a length of time: set the column"),
        ({"ahead": 5}, ValueError, r"ahead=5 is a length of time: set the column"),
    ],
)
def test_arguments_that_are_none(keywords: dict[str, Any], error: type[Exception], says: str) -> None:
    needed = {} if not keywords or {"", "high"} & {*keywords} else {"n": sash.count()}
    with pytest.raises(error, match=says):
        Query(5, **keywords, **needed)


@pytest.mark.parametrize(
    "window",
    [
        Time("1h"),
        Time(5, every=5),
        Session("1m"),
        Session(1, every="close"),
        Count(5, every="1m"),
        Lifetime(every="1m"),
    ],
    ids=repr,
)
def test_time_without_on(window: Any) -> None:
    with pytest.raises(ValueError, match=r"the window, .*, is measured in time: set its column with on="):
        Query(window, n=sash.count())
    with pytest.raises(ValueError, match=r"the window 'w', .*, is measured in time: set its column with on="):
        Query({"w": window}, n=sash.count())


def test_per_row_with_per_slide() -> None:
    says = (
        r"the window 'a', Count\(5\), gives a result for each row and the window 'b', .*, one per slide: .*two queries"
    )
    with pytest.raises(ValueError, match=says):
        Query({"a": 5, "b": Count(5, every=5)}, n=sash.count())


def test_two_results_of_one_name() -> None:
    says = r"two results would be named 'a_b_c': 'a_b' over the window 'c' and 'a' over the window 'b_c'"
    with pytest.raises(ValueError, match=says):
        Query({"c": 5, "b_c": 6}, a=sash.count(), a_b=sash.count())
    Query({"c": Count(5, every=5), "b_c": Count(6, every=5)}, a=sash.count(), a_b=sash.count())


def test_results_named_as_a_column_that_the_query_names() -> None:
    """Refused at once: the data must have it."""
    for name in ("price", "ts", "symbol"):
        says = f"the results would have two columns '{name}', because each row keeps its columns: rename the aggregate"
        with pytest.raises(ValueError, match=says):
            Query("1h", by="symbol", on="ts", **{name: sash.max("price")})
    with pytest.raises(ValueError, match="two columns 'n_h', because each row"):
        Query({"h": 5}, by="n_h", n=sash.count())
    for window, name in (
        (sash.Delta("n", 5), "n"),
        (Punctuation("n"), "n"),
        (Policy(evicts, sash.sum("n")), "n"),
    ):
        with pytest.raises(ValueError, match=f"two columns '{name}'"):
            Query(window, n=sash.count())
    with pytest.raises(ValueError, match=r"two columns '_late'"):
        Query("1h", by="_late", on="ts", late="flag", n=sash.count())


@pytest.mark.parametrize("name", ["n", "window_start", "window_end", "window", "_row"])
def test_slides_keep_only_the_columns_of_by(name: str) -> None:
    windows = {"w": Time("1h", every="1m")}
    Query(windows, by="symbol", on="ts", emit="eager", n=sash.max("n"))
    with pytest.raises(
        ValueError, match=rf"the results would have two columns '{name}', because results keep the columns of by="
    ):
        Query(windows, by=name, on="ts", emit="eager", n=sash.count())
    if name == "window":
        Query(windows["w"], by=name, on="ts", n=sash.count())


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (Session("1m", every="close"), r"every='close'"),
        (Punctuation("p", every="close"), r"every='close'"),
        (Punctuation("p"), r"Punctuation"),
        (Policy(evicts, sash.sum("x")), r"Policy"),
    ],
    ids=repr,
)
def test_eager_refuses(window: Any, says: str) -> None:
    with pytest.raises(
        ValueError, match=rf"emit='eager' does not support the window, .*, because of {says}: use emit='final'"
    ):
        Query(window, on="ts", emit="eager", n=sash.count())


def test_flag_refuses_slides() -> None:
    with pytest.raises(ValueError, match=r"late='flag' marks rows, and windows with every= return no input rows"):
        Query(Time("1h", every="1m"), on="ts", late="flag", n=sash.count())


@SKETCHES
def test_sketches_serve_slides_and_lifetimes() -> None:
    for window in (
        Lifetime(),
        Lifetime(every="1h"),
        Time("1h", every="1m"),
        Session("1m", every="close"),
        Count(9, every=3),
    ):
        Query(window, on="ts", users=sash.approx_distinct("user"))
    for window in (Time("1h"), Count(9), Session("1m"), Punctuation("p")):
        with pytest.raises(
            ValueError, match=r"users=approx_distinct\('user'\) keeps a sketch, and the window, .* with every="
        ):
            Query(window, on="ts", users=sash.approx_distinct("user"))


@SKETCHES
@pytest.mark.parametrize(
    ("sketch", "exact"),
    [
        (lambda: sash.approx_distinct("x"), r"sash\.count_distinct$"),
        (lambda: sash.approx_quantile("x"), r"sash\.quantile$"),
        (lambda: sash.frequent_items("x"), r"sash\.mode$"),
        (lambda: sash.count_min("x", items=(1,)), r"sash\.count with where="),
        (lambda: sash.bloom("x"), r"sash\.collect_distinct$"),
    ],
    ids=["approx_distinct", "approx_quantile", "frequent_items", "count_min", "bloom"],
)
def test_a_sketch_at_each_row_is_refused_with_the_exact_function(sketch: Callable[[], Bound], exact: str) -> None:
    with pytest.raises(ValueError, match=rf"with every= or Lifetime; at each row use the exact {exact}"):
        Query(5, r=sketch())
    with pytest.raises(ValueError, match=rf"use the exact {exact}"):
        sash.Window(5, sketch())


@pytest.mark.parametrize("window", [Count(9, every=3), Time("1h", every="1m"), Session("1m", every="close")], ids=repr)
@pytest.mark.parametrize("bound", [sash.rank("x"), sash.percent_rank("x"), (Rank() * Rank("min"))("x")], ids=repr)
def test_ranks_need_a_result_at_each_row(window: WindowKind, bound: Bound) -> None:
    with pytest.raises(ValueError, match=r"r=.* is the rank of a row, and the window, .*: use a window without every="):
        Query(window, on="ts", r=bound)


def test_filters_and_products_of_them_are_sketches() -> None:
    with pytest.raises(ValueError, match=r"seen=bloom\('user'\) keeps a sketch"):
        Query("1h", on="ts", seen=sash.bloom("user"))
    both = sash.monoids.Bloom() * sash.monoids.Count()
    with pytest.raises(ValueError, match=r"keeps a sketch, and the window, Count\(5\), would need one for each row"):
        Query(5, both=both("user"))
    with pytest.raises(ValueError, match=r"over=bloom\('x'\) keeps a sketch"):
        Query(Policy(evicts, sash.bloom("x")), n=sash.count())


# ---- options ----


def test_options() -> None:
    assert repr(Options()) == "Options()"
    assert repr(Options(structure="DABA", threads=2)) == "Options(structure='DABA', threads=2)"
    assert Options(prefer="latency") == Options(prefer="latency") != Options()


@pytest.mark.parametrize(
    ("keywords", "error", "says"),
    [
        ({"structure": "Daba"}, ValueError, r"structure= of Options must be one of Recalc, .*; got 'Daba'"),
        ({"structure": sash.aggregators.DABA}, ValueError, r"structure= of Options must be one of Recalc"),
        ({"prefer": "speed"}, ValueError, r"prefer= of Options must be 'throughput' or 'latency'; got 'speed'"),
        ({"threads": 0}, ValueError, r"threads= of Options must be at least 1; got 0"),
        ({"split": 1.5}, TypeError, r"split= of Options must be a whole number; got 1\.5, a float"),
        ({"shards": True}, TypeError, r"shards= of Options must be a whole number; got True"),
    ],
)
def test_options_that_are_none(keywords: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Options(**keywords)
