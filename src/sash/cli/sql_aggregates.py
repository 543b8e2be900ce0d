"""Translate aggregate functions of SQL to those of sash."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from sash.expressions.parser import DIALECT, expr
from sash.monoids import functions as f
from sash.monoids.algebra import ColumnLike
from sash.monoids.arithmetic import Aggregated


class UnsupportedSQL(ValueError):
    """A statement has something that `sash.sql` does not support."""


def text_of(node: Any) -> str:
    """A node of sqlglot as SQL."""
    return str(node.sql(DIALECT))


def column_of(node: Any) -> ColumnLike:
    """The input of an aggregate: a column by its name, or an expression."""
    if type(node).__name__ == "Column" and not node.args.get("table"):
        return str(node.name)
    return expr(text_of(node))


def number_of(node: Any, what: str) -> Any:
    """A numeric literal. Raises UnsupportedSQL for anything else."""
    if type(node).__name__ != "Literal" or node.is_string:
        raise UnsupportedSQL(f"{what} must be a number; got {text_of(node)}")
    text = str(node.this)
    return int(text) if text.isdigit() else float(text)


def _one(function: Callable[..., Aggregated], **given: Any) -> Callable[[Any, Any], Aggregated]:
    return lambda e, where: function(column_of(e.this), where=where, **given)


def _two(
    function: Callable[..., Aggregated], *, swapped: bool = False, **given: Any
) -> Callable[[Any, Any], Aggregated]:
    def bound(e: Any, where: Any) -> Aggregated:
        inputs = [column_of(e.this), column_of(e.expression)]
        return function(*(inputs[::-1] if swapped else inputs), where=where, **given)

    return bound


def _count(e: Any, where: Any) -> Aggregated:
    inner = e.this
    if type(inner).__name__ == "Star":
        return f.count(where=where)
    if type(inner).__name__ == "Distinct":
        if len(inner.expressions) != 1:
            raise UnsupportedSQL("COUNT(DISTINCT …) takes one column: join several with ||")
        return f.count_distinct(column_of(inner.expressions[0]), where=where)
    return f.count(column_of(inner), where=where)


def _quantile(interpolation: Any) -> Callable[[Any, Any], Aggregated]:
    def bound(e: Any, where: Any) -> Aggregated:
        q = number_of(e.expression, f"the fraction of {type(e).__name__}")
        return f.quantile(column_of(e.this), q=q, interpolation=interpolation, where=where)

    return bound


def _within_group(e: Any, where: Any) -> Aggregated:
    kind = type(e.this).__name__
    if kind not in ("PercentileCont", "PercentileDisc"):
        raise UnsupportedSQL(f"{text_of(e)}: WITHIN GROUP is for PERCENTILE_CONT and PERCENTILE_DISC")
    (ordered,) = e.expression.expressions
    if ordered.args.get("desc"):
        raise UnsupportedSQL(f"{text_of(e)}: order ascending, and take 1 minus the fraction")
    q = number_of(e.this.this, f"the fraction of {kind}")
    interpolation: Any = "linear" if kind == "PercentileCont" else "equiprobable"
    return f.quantile(column_of(ordered.this), q=q, interpolation=interpolation, where=where)


def _ignoring_nulls(e: Any, where: Any) -> Aggregated:
    inner = e.this
    found = {"FirstValue": f.first, "First": f.first, "AnyValue": f.first, "LastValue": f.last, "Last": f.last}
    if type(inner).__name__ in found:
        return found[type(inner).__name__](column_of(inner.this), where=where)
    if type(inner).__name__ == "NthValue":
        n = number_of(inner.args["offset"], "the number of NTH_VALUE")
        return f.nth(column_of(inner.this), n=n, where=where)
    raise UnsupportedSQL(f"{text_of(e)}: IGNORE NULLS is for FIRST_VALUE, LAST_VALUE and NTH_VALUE")


def _with_nulls(e: Any, _where: Any) -> Aggregated:
    """Refuse a function that could return the null of a row: aggregates skip nulls."""
    name = text_of(e).partition("(")[0]
    raise UnsupportedSQL(
        f"{text_of(e)}: aggregates skip nulls, so write {name}(… IGNORE NULLS); without nulls the result is the same"
    )


def _array(e: Any, where: Any) -> Aggregated:
    if type(e.this).__name__ == "Distinct":
        return f.collect_distinct(column_of(e.this.expressions[0]), where=where)
    return f.collect(column_of(e.this), where=where)


def _joined(e: Any, where: Any) -> Aggregated:
    separator = e.args.get("separator")
    return f.concat(column_of(e.this), separator="," if separator is None else str(separator.this), where=where)


FUNCTIONS: dict[str, Callable[[Any, Any], Aggregated]] = {
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
    "geometric_mean",
    "geomean",
    "max_count",
    "mean",
    "min_count",
    "product",
    "range",
    "sum_of_squares",
    "longest_run",
}
"""Functions that sqlglot does not know, by the names of sash and DuckDB; all take one column."""

NAMES = (
    "any_value, approx_count_distinct, arg_max, arg_min, array_agg, avg, bit_and, bit_or, bit_xor, bool_and, bool_or, "
    "corr, count, covar_pop, covar_samp, first_value, kurtosis, lag, last_value, max, max_by, median, min, min_by, "
    "mode, nth_value, percentile_cont, percentile_disc, product, quantile_cont, quantile_disc, regr_intercept, "
    "regr_slope, row_number, skewness, stddev, stddev_pop, string_agg, sum, var_pop, variance"
)
"""The supported functions, for error messages."""


def aggregate_of(e: Any, where: Any) -> Aggregated:
    """The aggregate of a call. Raises UnsupportedSQL, naming the function, if it is not supported."""
    kind = type(e).__name__
    if kind in FUNCTIONS:
        return FUNCTIONS[kind](e, where)
    name = str(e.name).lower() if kind == "Anonymous" else text_of(e).partition("(")[0].lower()
    if kind == "Anonymous" and name in OURS and len(e.expressions) == 1:
        function = f.geometric_mean if name == "geomean" else getattr(f, name)
        return function(column_of(e.expressions[0]), where=where)
    if name in ("lag", "row_number"):
        raise UnsupportedSQL(
            f"{name}() needs an OVER of its own, in a SELECT statement: {name}(…) OVER (ORDER BY …); in a job, sql ="
        )
    near = difflib.get_close_matches(name, NAMES.split(", "), 1)
    advice = f"; did you mean {near[0]}()?" if near else ""
    raise UnsupportedSQL(f"the function {name}() is not supported over windows{advice}; there are {NAMES}")
