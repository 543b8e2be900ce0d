"""Formulas, min_periods and windows of single aggregates: what is asked of the engine, names, errors, fingerprints."""

from __future__ import annotations

import functools
import operator
import pickle
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Query, Time
from sash.monoids.arithmetic import Formula

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "i": pa.int64(), "f": pa.float64(), "s": pa.string()})


def asked(query: Query) -> set[tuple[str, str]]:
    """The pairs of window and aggregate that the engine computes, by name."""
    bound = query.bind(SCHEMA)
    return {(repr(bound.windows[w].window), bound.aggregates[a].name) for w, a in bound.projection.asked}


# ---- what is computed ----


def test_only_the_pairs_asked_for_are_computed() -> None:
    query = Query({"a": 3, "b": 4}, x=sash.sum("i"), y=sash.max("f").over(5), z=sash.min("f").over(3))
    assert asked(query) == {("Count(3)", "x"), ("Count(4)", "x"), ("Count(5)", "y"), ("Count(3)", "z")}
    assert query.plan(SCHEMA).choices.keys() == query.bind(SCHEMA).projection.asked
    operator = query.operator(SCHEMA)
    assert operator.structures.keys() == {("a", "x"), ("b", "x"), ("Count(5)", "y"), ("a", "z")}


def test_equal_aggregates_of_formulas_are_computed_once() -> None:
    query = Query(3, mean=sash.sum("f") / sash.count("f"), total=sash.sum("f"), twice=2 * sash.sum("f"))
    assert query.operator(SCHEMA).structures.keys() == {("", "mean: sum('f')"), ("", "mean: count('f')")}


def test_min_periods_counts_inputs_with_one_hidden_count_for_each_column() -> None:
    query = Query(3, min_periods=2, total=sash.sum("f"), who=sash.arg_max("f", "s"), n=sash.count())
    assert len(query.operator(SCHEMA).structures) == 4
    rows = pa.table(
        {"k": ["a"] * 4, "t": range(4), "i": [0] * 4, "f": [1.0, None, 3.0, 2.0], "s": ["w", "x", "y", "z"]}
    )
    found = query.run(rows).select(["total", "who", "n"]).to_pydict()
    assert found == {"total": [None, None, 4.0, 5.0], "who": [None, None, "y", "y"], "n": [None, 2, 3, 3]}


# ---- names ----


def test_names_of_results() -> None:
    query = Query({"a": 3, "b": 4}, x=sash.sum("i"), y=sash.max("f").over(5), z=sash.count())
    assert query.bind(SCHEMA).output().names[len(SCHEMA) :] == ["x_a", "y", "z_a", "x_b", "z_b"]
    query = Query(by="k", x=sash.sum("i").over(2), y=sash.max("f").over(5))
    assert query.bind(SCHEMA).output().names[len(SCHEMA) :] == ["x", "y"]
    slides = Query(Count(2, every=1), by="k", x=sash.sum("i"), y=sash.max("f").over(Count(5, every=2)))
    assert slides.bind(SCHEMA).output().names == ["k", "window", "window_start", "window_end", "x", "y"]
    alone = Query(by="k", y=sash.max("f").over(Count(5, every=2)))
    assert alone.bind(SCHEMA).output().names == ["k", "window_start", "window_end", "y"]


def test_texts() -> None:
    formula = (sash.sum("i", where="f > 0") + 1) * 2 - sash.count() / (sash.max("f") - sash.min("f"))
    assert repr(formula) == "(sum('i', where='f > 0') + 1) * 2 - count() / (max('f') - min('f'))"
    assert repr(-(sash.max("f") + 1)) == "-(max('f') + 1)"
    assert repr(formula.over(3).over(4)) == repr(formula.over(3))
    query = Query(min_periods=2, x=sash.max("f").over("1h"), on="t")
    assert repr(query) == "Query(on='t', min_periods=2, x=max('f').over(Time('1h')))"
    assert pickle.loads(pickle.dumps(query)) == query


def test_types_of_formulas() -> None:
    schema = SCHEMA.append(pa.field("d", pa.decimal128(10, 2))).append(pa.field("u", pa.timestamp("us")))
    made: dict[str, Any] = {
        "i": sash.sum("i") + sash.count(), "f": sash.sum("i") * 0.5, "r": sash.sum("i") / 2, "n": -sash.max("d"),
        "d": sash.max("d") - sash.min("d"), "u": sash.max("u") - sash.min("u"),
    }  # fmt: skip
    found = Query(3, **{f"{name}_": one for name, one in made.items()}).bind(schema).projection.results
    assert [str(kind) for _, kind in found] == [
        "int64", "double", "double", "decimal128(10, 2)", "decimal128(11, 2)", "duration[us]",
    ]  # fmt: skip


# ---- errors ----


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Query(x=sash.sum("i")), ValueError, r"x=sum\('i'\) has no window: give the query windows="),
        (lambda: Query(3, x=sash.sum("i").over(2)), ValueError, "no aggregate uses windows="),
        (lambda: Query(3, min_periods=-1, x=sash.sum("i")), ValueError, "min_periods= must be 0 or more; got -1"),
        (lambda: Query(3, min_periods=1.5, x=sash.sum("i")), TypeError, "min_periods= must be a number of inputs"),
        (lambda: Query(3, min_periods=True, x=sash.sum("i")), TypeError, "got True, a bool"),
        (
            lambda: Query(3, min_periods=4, x=sash.sum("i")),
            ValueError,
            r"min_periods=4 is more than the 3 rows of the window, Count\(3\), so .* give at most min_periods=3, or",
        ),
        (
            lambda: Query({"a": 9, "b": Count(2, full=True)}, min_periods=3, x=sash.sum("i")),
            ValueError,
            r"min_periods=3 is more than the 2 rows of the window 'b', Count\(2, full=True\)",
        ),
        (
            lambda: Query(min_periods=3, on="t", x=sash.sum("i").over(Count(2, shift=-1)) / sash.sum("i").over("1h")),
            ValueError,
            r"min_periods=3 is more than the 2 rows of the window .*Count\(2, shift=-1\)",
        ),
        (lambda: Query(Count(2, every="1h"), on="t", min_periods=3, x=sash.sum("i")), ValueError, "the 2 rows of the"),
        (lambda: sash.rolling(pa.table({"i": [1]}), 2, min_periods=3, x=sash.sum("i")), ValueError, "the 2 rows of"),
        (
            lambda: sash.as_of(
                pa.table({"t": [1]}), pa.table({"t": [1], "i": [1]}), 2, on="t", min_periods=3, x=sash.sum("i")
            ),
            ValueError,
            "min_periods=3 is more than the 2 rows of the window",
        ),
        (lambda: Query(x=sash.sum("i").over([1])), TypeError, r"over\(\) of x=.* must be a window such as"),
        (lambda: sash.sum("i").over(None), TypeError, "takes a window such as"),
        (lambda: sash.sum("i").over(2).over(3), ValueError, "has a window already"),
        (lambda: Query(3, x=sash.sum("i"), y=sash.sum("i").over(Count(2, every=1))), ValueError, "cannot have both"),
        (
            lambda: Query(Count(3, every=1), x=sash.max("f") / sash.max("f").over(Count(2, every=1))),
            ValueError,
            "combines results of several windows, and Count.* such a formula needs windows without every=",
        ),
        (lambda: sash.sum("i") + float("nan"), ValueError, "cannot be combined with nan"),
        (lambda: sash.sum("i") + 2**70, ValueError, "does not fit 64 bits"),
        (lambda: sash.sum("i") + "1", TypeError, r"sum\('i'\) \+ '1': aggregates are combined with aggregates and"),
        (lambda: sash.sum("i") + True, TypeError, r"sum\('i'\) \+ True: aggregates are combined with aggregates and"),
        (lambda: sash.sum("i") > 3, TypeError, r"sum\('i'\) > 3: aggregates have .* use the column of the result"),
        (lambda: sash.sum("i") <= sash.count(), TypeError, r"sum\('i'\) <= count\(\): aggregates have"),
        (lambda: -sash.count() < 3, TypeError, r"-count\(\) < 3: aggregates have"),
        (lambda: sash.count() >= 3, TypeError, r"count\(\) >= 3: aggregates have"),
        (lambda: sash.sum("i") ** 2, TypeError, r"sum\('i'\) \*\* 2: aggregates have"),
        (lambda: sash.Window(3, x=sash.sum("i").over(2)), ValueError, "has a window of its own, and sash.Window"),
        (lambda: Query({"a": 3}, x=sash.sum("i"), x_a=sash.sum("i").over(2)), ValueError, "two results would be named"),
        (lambda: Query(3, x=sash.sum("i"), min_periods=sash.count()), TypeError, "cannot be named 'min_periods'"),
        (lambda: Query(3, x=sash.approx_distinct("i").over(2), y=sash.count()), ValueError, "keeps a sketch"),
    ],
)  # fmt: skip
def test_refused_at_the_call(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize("use", [Query.bind, Query.explain, Query.operator, Query.fingerprint])
@pytest.mark.parametrize("given", [pd.DataFrame({"i": [1]}), pl.DataFrame({"i": [1]}), pa.table({"i": [1]})])
def test_a_frame_in_place_of_a_schema(use: Any, given: Any) -> None:
    said = rf"schema must be a pyarrow Schema; got a {type(given).__name__}.*table\.schema.*from_pandas.*to_arrow"
    with pytest.raises(TypeError, match=said):
        use(Query(3, x=sash.sum("i")), given)


def test_refused_at_the_bind() -> None:
    with pytest.raises(TypeError, match=r"x=last\('s'\) \+ 1 calculates with last\('s'\), .* of type string"):
        Query(3, x=sash.last("s") + 1).bind(SCHEMA)
    schema = SCHEMA.append(pa.field("u", pa.timestamp("us")))
    with pytest.raises(TypeError, match=r"cannot be calculated from max\('u'\) of type timestamp\[us\]"):
        Query(3, x=sash.max("u") * 2).bind(schema)


def test_an_overflow_is_an_error_that_names_the_result() -> None:
    rows = pa.table({"i": [2**62, 2**62]})
    with pytest.raises(ValueError, match=r"the result 'x', max\('i'\) \* 3, does not fit its type: overflow"):
        sash.rolling(rows, 2, x=sash.max("i") * 3)
    window = sash.Window(2, sash.max("i") * 3)
    with pytest.raises(ValueError, match="overflow"):
        window.push({"i": 2**62})


# ---- fingerprints and plans ----


def test_fingerprints_have_expressions_conditions_and_formulas() -> None:
    def of(**made: Any) -> str:
        return Query(3, **made).fingerprint(SCHEMA)

    found = [
        of(x=sash.sum("i")), of(x=sash.sum(sash.expr("i + 1"))), of(x=sash.sum(sash.expr("i + 2"))),
        of(x=sash.sum("i", where="f > 0")), of(x=sash.sum("i", where="f > 1")), of(x=sash.sum("i") / sash.count()),
        of(x=sash.sum("i") * sash.count()), of(x=sash.sum("i"), min_periods=1), of(x=sash.sum("i"), min_periods=2),
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert of(x=sash.sum(sash.expr("(I+1)".lower()))) == of(x=sash.sum(sash.expr("i + 1")))


def test_explain_prints_conditions_formulas_and_windows() -> None:
    query = Query(
        by="k",
        on="t",
        min_periods=2,
        x=sash.sum(sash.expr("i * 2"), where="s = 'a'").over(Time(5)) / sash.count().over(7),
    )
    text = query.explain()
    assert "x  sum(expr('i * 2'), where=\"s = 'a'\").over(Time(5)) / count().over(Count(7))  double" in text
    assert "null unless an aggregate has seen 2 inputs" in text
    assert "assumed: k string, t int64, i double, s string" in text
    assert "Time(5)   x: sum(expr" in text
    assert "Lifetime" in Query(Lifetime(), x=sash.sum("i"), y=sash.count().over(2)).explain(SCHEMA)


def test_a_formula_gives_its_leaves_and_tree() -> None:
    formula = sash.sum("i") / sash.count() + 1
    assert isinstance(formula, Formula)
    assert [repr(leaf) for leaf in formula.leaves()] == ["sum('i')", "count()"]
    assert str(formula.tree(iter(range(2)))) == '(("0" / "1") + 1)'


def test_a_formula_is_not_deeper_than_what_reads_it() -> None:
    table = pa.table({"x": [1, 2, 3]})
    long = functools.reduce(operator.add, [sash.sum("x")] * 150)
    assert sash.rolling(table, 3, y=long)["y"].to_pylist() == [150, 450, 900]
    wide = functools.reduce(lambda one, _: one + one, range(8), sash.sum("x"))  # 255 operations, 8 deep
    assert sash.rolling(table, 3, y=wide)["y"].to_pylist() == [256, 768, 1536]
    for step in (operator.add, operator.truediv, lambda one, other: other * one, lambda one, _: -one):
        with pytest.raises(ValueError, match="a formula has at most 150 operations, one within another: split it"):
            functools.reduce(step, [sash.sum("x")] * 500)
