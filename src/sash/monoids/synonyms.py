"""Names of aggregates and of their parameters in SQL, pandas, polars, Spark and Flink, and their names in sash."""

from __future__ import annotations

import difflib
from collections.abc import Collection

NAMES: dict[str, str] = {
    **dict.fromkeys(("avg", "average", "mean_", "moving_average"), "mean"),
    **dict.fromkeys(("stddev", "stdev", "stddev_samp", "sd"), "std"),
    **dict.fromkeys(("variance", "var_samp"), "var"),
    **dict.fromkeys(("total", "sum_"), "sum"),
    "prod": "product",
    **dict.fromkeys(("minimum", "min_"), "min"),
    **dict.fromkeys(("maximum", "max_"), "max"),
    **dict.fromkeys(("max_by", "argmax", "idxmax", "arg_max_"), "arg_max"),
    **dict.fromkeys(("min_by", "argmin", "idxmin", "arg_min_"), "arg_min"),
    **dict.fromkeys(("first_value", "any_value", "head"), "first"),
    **dict.fromkeys(("last_value", "latest", "tail"), "last"),
    "nth_value": "nth",
    **dict.fromkeys(("size", "len", "count_star", "n"), "count"),
    **dict.fromkeys(("nunique", "n_unique", "distinct_count"), "count_distinct"),
    **dict.fromkeys(("approx_count_distinct", "hll"), "approx_distinct"),
    **dict.fromkeys(("percentile_approx", "approx_percentile", "approx_median", "tdigest"), "approx_quantile"),
    **dict.fromkeys(("array_agg", "collect_list", "implode"), "collect"),
    **dict.fromkeys(("collect_set", "unique", "distinct"), "collect_distinct"),
    **dict.fromkeys(("listagg", "string_agg", "group_concat", "str_join"), "concat"),
    **dict.fromkeys(("topk", "top_k", "approx_top_k", "value_counts"), "frequent_items"),
    **dict.fromkeys(("bool_and", "every"), "all"),
    **dict.fromkeys(("bool_or", "some"), "any"),
    "bit_and_agg": "bit_and",
    "bit_or_agg": "bit_or",
    **dict.fromkeys(("corr", "pearson"), "correlation"),
    **dict.fromkeys(("cov", "covar_samp"), "covariance"),
    "skew": "skewness",
    "kurt": "kurtosis",
    "regr_slope": "slope",
    "regr_intercept": "intercept",
    **dict.fromkeys(("ptp", "spread"), "range"),
    "gmean": "geometric_mean",
    **dict.fromkeys(("udaf", "Aggregator", "UserDefinedAggregateFunction"), "monoid"),
}
"""By foreign name, the name in sash."""

CALLS: dict[str, str] = {
    "stddev_pop": "sash.std('x', ddof=0)",
    "var_pop": "sash.var('x', ddof=0)",
    "covar_pop": "sash.covariance('x', 'y', ddof=0)",
    **dict.fromkeys(("expanding", "cumsum", "cum_sum"), "sash.rolling(data, sash.Lifetime(), y=sash.sum('x'))"),
    **dict.fromkeys(("cummax", "cum_max"), "sash.rolling(data, sash.Lifetime(), y=sash.max('x'))"),
    **dict.fromkeys(("cummin", "cum_min"), "sash.rolling(data, sash.Lifetime(), y=sash.min('x'))"),
    **dict.fromkeys(("cumprod", "cum_prod"), "sash.rolling(data, sash.Lifetime(), y=sash.product('x'))"),
    **dict.fromkeys(("tumble", "Tumble", "TumblingWindow", "TumblingEventTimeWindows"), "sash.Time('1h', every='1h')"),
    **dict.fromkeys(("hop", "Hop", "Slide", "SlidingWindow", "HoppingWindow"), "sash.Time('1h', every='10m')"),
    **dict.fromkeys(("SlidingEventTimeWindows", "window"), "sash.Time('1h', every='10m')"),
    **dict.fromkeys(("session_window", "SessionWindow", "EventTimeSessionWindows"), "sash.Session('10m')"),
    **dict.fromkeys(("groupby", "group_by", "partition_by"), "by='key', an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("orderBy", "order_by", "sort"), "on='ts', an argument of sash.rolling and sash.Query"),
}
"""By foreign name, what to write instead."""

PARAMETERS: dict[str, str] = {
    **dict.fromkeys(("skipna", "ignore_nulls", "ignore_nans"), "nulls are always skipped"),
    **dict.fromkeys(("axis", "numeric_only"), "an aggregate reads the columns that it is given by name"),
    "distinct": "sash.collect_distinct and sash.approx_distinct count each value once",
    **dict.fromkeys(("filter", "filter_where"), "compute a column that is null where the value should not count"),
    **dict.fromkeys(("window", "window_size", "period", "over", "rows"), "the window is an argument of sash.rolling"),
    **dict.fromkeys(("by", "group_by", "partition_by"), "by= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("on", "order_by"), "on= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("name", "alias"), "the result is named by the keyword: high=sash.max('price')"),
    "center": "shift= of a window moves it: sash.Count(5, shift=2)",
    "min_samples": "it is called min_periods=",
    **dict.fromkeys(("delimiter", "sep"), "it is called separator="),
    **dict.fromkeys(("weights", "win_type"), "windows are not weighted: write the aggregate with sash.monoid(...)"),
}
"""By a parameter of aggregates elsewhere, what to do."""


def missing_name(name: str, known: Collection[str]) -> str:
    """The message for a name that sash does not have, with the name or the call that was likely meant.

    >>> missing_name("averge", ["max", "mean"])
    "module 'sash' has no attribute 'averge': did you mean sash.mean?"
    >>> missing_name("rolling_mean", ["mean", "rolling"])
    "module 'sash' has no attribute 'rolling_mean': write sash.rolling(data, 5, y=sash.mean('x'))"
    """
    said = f"module 'sash' has no attribute {name!r}"
    if name in NAMES and NAMES[name] in known:
        return f"{said}: it is called sash.{NAMES[name]}"
    if name in CALLS:
        return f"{said}: write {CALLS[name]}"
    for prefix in ("rolling_", "moving_", "ewm_", "group_by_"):
        rest = name.removeprefix(prefix)
        of = NAMES.get(rest, rest)
        if rest != name and of in known:
            return f"{said}: write sash.rolling(data, 5, y=sash.{of}('x'))"
    foreign = [one for one, ours in NAMES.items() if ours in known]
    near = difflib.get_close_matches(name, [*known, *foreign], 1, 0.6)
    return f"{said}: did you mean sash.{NAMES.get(near[0], near[0])}?" if near else said


def parameter_advice(name: str) -> str:
    """What to do instead of a parameter that aggregates do not have; empty if nothing is known of it."""
    return f": {PARAMETERS[name]}" if name in PARAMETERS else ""
