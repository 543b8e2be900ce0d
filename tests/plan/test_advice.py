"""Words of pandas, polars, SQL, Spark and Flink are refused with the spelling of sash."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Delta, Lifetime, Query, Session, Time
from sash.monoids.synonyms import CALLS, NAMES, missing_name

TABLE = pa.table({"x": [1, 2]})

QUERY: dict[str, str] = {
    "center": r"shift= of a window moves it: sash\.Count\(5, shift=2\)",
    "win_type": r"write the aggregate with sash\.monoid",
    "closed": r"sash\.Time\('1h', closed='left'\)",
    "window": r"the window is the second argument: sash\.rolling\(data, 5",
    "min_samples": r"it is called min_periods=",
    "group_by": r"it is called by=",
    "partition_by": r"it is called by=",
    "order_by": r"it is called on=",
    "index_column": r"it is called on=",
    "axis": r"windows are windows of rows",
    "step": r"every= of the window: sash\.Count\(10, every=5\)",
    "freq": r"the window is the second argument",
    "period": r"the window is the second argument",
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


def test_an_aggregate_may_have_such_a_name() -> None:
    assert sash.rolling(TABLE, 2, center=sash.mean("x"), period=sash.count())["center"].to_pylist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Count(5, center=True), r"Count\(\) has no argument 'center': shift= moves .*; it takes size, every"),  # type: ignore[call-arg]
        (lambda: Count(5, closed="left"), r"'closed': only windows measured in time .*sash\.Time\('1h', closed='left'"),  # type: ignore[call-arg]
        (lambda: Count(window=5), r"'window': it is called size, the first argument"),  # type: ignore[call-arg]
        (lambda: Time("1h", step="1m"), r"'step': it is called every=: sash\.Count\(10, every=5\)"),  # type: ignore[call-arg]
        (lambda: Time("1h", group_by="k"), r"'group_by': by= is an argument of sash\.rolling"),  # type: ignore[call-arg]
        (lambda: Time("1h", full=True), r"'full': only windows of a number of rows are ever full"),  # type: ignore[call-arg]
        (lambda: Delta("x", 5, step=1), r"Delta\(\) has no argument 'step'; it takes column, size"),  # type: ignore[call-arg]
        (lambda: Session("1h", timeout=1), r"'timeout': it is called gap: sash\.Session\('10m'\)"),  # type: ignore[call-arg]
        (lambda: Lifetime(window=5), r"Lifetime\(\) has no argument 'window'; it takes every"),  # type: ignore[call-arg]
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
    for call in {*CALLS.values()}:
        if call.startswith("sash."):
            eval(call, {"sash": sash, "data": {"x": data["x"]}})
    assert missing_name("median_", ["median", "mean"]).endswith("did you mean sash.median?")
