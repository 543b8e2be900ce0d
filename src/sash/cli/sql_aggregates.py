"""Translate aggregate functions of SQL to those of sash."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from sash.expressions.parsed_sql import Part
from sash.expressions.parser import expr_of
from sash.expressions.tree import ColumnNode
from sash.monoids import functions as f
from sash.monoids.algebra import ColumnLike
from sash.monoids.arithmetic import Aggregated

LARGEST = 2**62
"""Numbers of rows and of times must be smaller."""

INNER = {"Distinct": "DISTINCT", "Order": "ORDER BY", "Limit": "LIMIT", "HavingMax": "HAVING"}
"""Clauses within a call, by sqlglot's name of each."""


class UnsupportedSQL(ValueError):
    """A statement has something that `sash.sql` does not support."""


def column_of(part: Part | None) -> ColumnLike:
    """The input of an aggregate: a column by its name, or an expression."""
    if part is None:
        raise UnsupportedSQL("an aggregate has no input: name a column, such as max(price)")
    if part.kind in INNER:
        raise UnsupportedSQL(f"{part.text}: {INNER[part.kind]} is not supported in this function")
    found = expr_of(part)
    return found.tree.name if isinstance(found.tree, ColumnNode) else found


def number_of(part: Part | None, what: str) -> Any:
    """A numeric literal. Raises UnsupportedSQL for anything else."""
    if part is None or part.kind != "Literal" or part.is_text:
        raise UnsupportedSQL(f"{what} must be a number; got {'none' if part is None else part.text}")
    text = part.name
    try:
        number = float(text)
    except ValueError:
        raise UnsupportedSQL(f"{what} must be a number; got {text:.40}") from None
    if not number < LARGEST:
        raise UnsupportedSQL(f"{what} is {text:.40}: it must be less than 2**62")
    return int(text) if text.isdigit() else number


def _one(function: Callable[..., Aggregated], **given: Any) -> Callable[[Part, Any], Aggregated]:
    return lambda e, where: function(column_of(e.this), where=where, **given)


def _two(
    function: Callable[..., Aggregated], *, swapped: bool = False, **given: Any
) -> Callable[[Part, Any], Aggregated]:
    def bound(e: Part, where: Any) -> Aggregated:
        inputs = [column_of(e.this), column_of(e.expression)]
        return function(*(inputs[::-1] if swapped else inputs), where=where, **given)

    return bound


def _count(e: Part, where: Any) -> Aggregated:
    inner = e.this
    if inner is None or inner.kind == "Star":
        return f.count(where=where)
    if inner.kind == "Distinct":
        if len(inner.expressions) != 1:
            raise UnsupportedSQL("COUNT(DISTINCT …) takes one column: join several with ||")
        return f.count_distinct(column_of(inner.expressions[0]), where=where)
    return f.count(column_of(inner), where=where)


def _quantile(interpolation: Any) -> Callable[[Part, Any], Aggregated]:
    def bound(e: Part, where: Any) -> Aggregated:
        q = number_of(e.expression, f"the fraction of {e.kind}")
        return f.quantile(column_of(e.this), q=q, interpolation=interpolation, where=where)

    return bound


def _within_group(e: Part, where: Any) -> Aggregated:
    kind = e.this.kind
    if kind not in ("PercentileCont", "PercentileDisc"):
        raise UnsupportedSQL(f"{e.text}: WITHIN GROUP is for PERCENTILE_CONT and PERCENTILE_DISC")
    ordered, *more = e.expression.expressions
    if more:
        raise UnsupportedSQL(f"{e.text}: ORDER BY one column")
    if ordered.get("desc"):
        raise UnsupportedSQL(f"{e.text}: order ascending, and take 1 minus the fraction")
    q = number_of(e.this.this, f"the fraction of {kind}")
    interpolation: Any = "linear" if kind == "PercentileCont" else "equiprobable"
    return f.quantile(column_of(ordered.this), q=q, interpolation=interpolation, where=where)


def _ignoring_nulls(e: Part, where: Any) -> Aggregated:
    inner = e.this
    found = {"FirstValue": f.first, "First": f.first, "AnyValue": f.first, "LastValue": f.last, "Last": f.last}
    if inner.kind in found:
        return found[inner.kind](column_of(inner.this), where=where)
    if inner.kind == "NthValue":
        n = number_of(inner.get("offset"), "the number of NTH_VALUE")
        return f.nth(column_of(inner.this), n=n, where=where)
    raise UnsupportedSQL(f"{e.text}: IGNORE NULLS is for FIRST_VALUE, LAST_VALUE and NTH_VALUE")


def _with_nulls(e: Part, _where: Any) -> Aggregated:
    """Refuse a function that could return the null of a row: aggregates skip nulls."""
    name = e.text.partition("(")[0]
    raise UnsupportedSQL(
        f"{e.text}: aggregates skip nulls, so write {name}(… IGNORE NULLS); without nulls the result is the same"
    )


def _array(e: Part, where: Any) -> Aggregated:
    if e.this.kind == "Distinct":
        if len(e.this.expressions) != 1:
            raise UnsupportedSQL(f"{e.text} takes one column")
        return f.collect_distinct(column_of(e.this.expressions[0]), where=where)
    return f.collect(column_of(e.this), where=where)


def _joined(e: Part, where: Any) -> Aggregated:
    separator = e.get("separator")
    if separator is not None and not separator.is_text:
        raise UnsupportedSQL(f"{e.text}: the separator must be text in quotes")
    return f.concat(column_of(e.this), separator="," if separator is None else separator.name, where=where)


FUNCTIONS: dict[str, Callable[[Part, Any], Aggregated]] = {
    "ApproxDistinct": _one(f.approx_distinct),
    "ArgMax": _two(f.arg_max, swapped=True),
    "ArgMin": _two(f.arg_min, swapped=True),
    "ArrayAgg": _array,
    "Avg": _one(f.mean),
    "BitwiseAndAgg": _one(f.bit_and),
    "BitwiseOrAgg": _one(f.bit_or),
    "BitwiseXorAgg": _one(f.bit_xor),
    "Corr": _two(f.correlation),
    "Count": _count,
    "CovarPop": _two(f.covariance, ddof=0),
    "CovarSamp": _two(f.covariance),
    "First": _with_nulls,
    "FirstValue": _with_nulls,
    "GroupConcat": _joined,
    "IgnoreNulls": _ignoring_nulls,
    "Kurtosis": _one(f.kurtosis, bias=False),
    "Last": _with_nulls,
    "LastValue": _with_nulls,
    "LogicalAnd": _one(f.all),
    "LogicalOr": _one(f.any),
    "Max": _one(f.max),
    "Median": _one(f.median),
    "Min": _one(f.min),
    "Mode": _one(f.mode),
    "NthValue": _with_nulls,
    "PercentileCont": _quantile("linear"),
    "PercentileDisc": _quantile("equiprobable"),
    "RegrIntercept": _two(f.intercept, swapped=True),
    "RespectNulls": _with_nulls,
    "RegrSlope": _two(f.slope, swapped=True),
    "Skewness": _one(f.skewness, bias=False),
    "Stddev": _one(f.std),
    "StddevPop": _one(f.std, ddof=0),
    "StddevSamp": _one(f.std),
    "Sum": _one(f.sum),
    "Variance": _one(f.var),
    "VariancePop": _one(f.var, ddof=0),
    "WithinGroup": _within_group,
}
"""By class of sqlglot: the function that translates a call."""

OURS = {
    "geometric_mean", "geomean", "max_count", "mean", "min_count", "product", "range", "sum_of_squares", "longest_run",
}  # fmt: skip
"""Functions that sqlglot does not know, by the names of sash and DuckDB; all take one column."""

NAMES = (
    "any_value, approx_count_distinct, arg_max, arg_min, array_agg, avg, bit_and, bit_or, bit_xor, bool_and, bool_or, "
    "corr, count, covar_pop, covar_samp, first_value, kurtosis, lag, last_value, max, max_by, median, min, min_by, "
    "mode, nth_value, percentile_cont, percentile_disc, product, quantile_cont, quantile_disc, regr_intercept, "
    "regr_slope, row_number, skewness, stddev, stddev_pop, string_agg, sum, var_pop, variance"
)
"""The supported functions, for error messages."""


def aggregate_of(e: Part, where: Any) -> Aggregated:
    """The aggregate of a call. Raises UnsupportedSQL, naming the function, if it is not supported."""
    from sqlglot.expressions import Func

    kind = e.kind
    if kind in FUNCTIONS:
        return FUNCTIONS[kind](e, where)
    name = e.name.lower() if kind == "Anonymous" else e.text.partition("(")[0].lower()
    if kind == "Anonymous" and name in OURS and len(e.expressions) == 1:
        function = f.geometric_mean if name == "geomean" else getattr(f, name)
        return function(column_of(e.expressions[0]), where=where)
    if name in ("lag", "row_number"):
        raise UnsupportedSQL(
            f"{name}() needs an OVER of its own, in a SELECT statement: {name}(…) OVER (ORDER BY …); in a job, sql ="
        )
    if kind != "Anonymous" and not isinstance(e.node, Func):
        raise UnsupportedSQL(f"{e.text} is no aggregate: write one, such as max(price), or + - * / of some and numbers")
    near = difflib.get_close_matches(name, NAMES.split(", "), 1)
    advice = f"; did you mean {near[0]}()?" if near else ""
    raise UnsupportedSQL(f"the function {name}() is not supported over windows{advice}; there are {NAMES}")
