"""Names of aggregates and of their parameters in SQL, pandas, polars, Spark and Flink, and their names in sash."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

NAMES: dict[str, str] = {
    **dict.fromkeys(("avg", "average", "mean_", "moving_average", "sma"), "mean"),
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
    **dict.fromkeys(("nunique", "n_unique", "distinct_count", "uniq", "uniq_exact"), "count_distinct"),
    **dict.fromkeys(("approx_count_distinct", "hll"), "approx_distinct"),
    **dict.fromkeys(("percentile_approx", "approx_percentile", "approx_median", "tdigest"), "approx_quantile"),
    **dict.fromkeys(("array_agg", "collect_list", "implode"), "collect"),
    **dict.fromkeys(("collect_set", "unique"), "collect_distinct"),
    **dict.fromkeys(("listagg", "string_agg", "group_concat", "str_join"), "concat"),
    **dict.fromkeys(("approx_top_k", "value_counts"), "frequent_items"),
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
    **dict.fromkeys(("sumsq", "sum_sq", "sum_squares"), "sum_of_squares"),
    **dict.fromkeys(("ewm_avg", "ewma_mean"), "ewm_mean"),
    **dict.fromkeys(("ewm_variance", "ewmvar"), "ewm_var"),
    **dict.fromkeys(("ewm_stddev", "ewmstd"), "ewm_std"),
    **dict.fromkeys(("vwap", "weighted_avg", "weighted_average", "avg_weighted"), "weighted_mean"),
    **dict.fromkeys(("pctchange", "percent_change", "returns"), "pct_change"),
    **dict.fromkeys(("percentile_rank", "pct_rank"), "percent_rank"),
    "ohlc": "m4",
    **dict.fromkeys(("udaf", "Aggregator", "UserDefinedAggregateFunction"), "monoid"),
}
"""The names in sash, by names in other libraries."""

ARGUMENTS: dict[str, str] = {
    **dict.fromkeys(("correlation", "covariance", "slope", "intercept"), "'x', 'y'"),
    **dict.fromkeys(("arg_max", "arg_min"), "'price', 'trader'"),
    "weighted_mean": "'price', 'quantity'",
    "nth": "'x', n=2",
    "concat": "'x', separator=', '",
    **dict.fromkeys(("quantile", "approx_quantile"), "'x', q=0.99"),
    **dict.fromkeys(("ewm_mean", "ewm_var", "ewm_std"), "'x', halflife=5"),
    **dict.fromkeys(("lag", "delta", "pct_change"), "'x', n=1"),
}
"""Example arguments, by name in sash, if they are more than a column."""

CALLS: dict[str, str] = {
    **dict.fromkeys(
        ("topk", "top_k", "top"),
        "sash.max('x'), or sash.frequent_items('x') for the most frequent values, not the largest",
    ),
    **dict.fromkeys(("nlargest", "n_largest", "largest"), "sash.max('x'), or a sash.monoid(...) for several values"),
    **dict.fromkeys(("nsmallest", "n_smallest", "smallest"), "sash.min('x'), or a sash.monoid(...) for several values"),
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
    **dict.fromkeys(("percentile", "percentile_cont", "quantile_cont", "quantile_exact"), "sash.quantile('x', q=0.99)"),
    **dict.fromkeys(("percentile_disc", "quantile_disc"), "sash.quantile('x', q=0.99, interpolation='equiprobable')"),
    "quantiles": "sash.quantile('x', q=0.25), one for each q",
    **dict.fromkeys(("ema", "ewma", "ewm"), "sash.ewm_mean('x', span=9), or halflife='10m' in time"),
    **dict.fromkeys(("diff", "difference"), "sash.delta('x', n=1)"),
    **dict.fromkeys(("shift", "previous", "prev"), "sash.lag('x', n=1)"),
    **dict.fromkeys(("lead", "following"), "sash.rolling(data, sash.Count(1, shift=1), y=sash.last('x'))"),
    "distinct": "sash.count_distinct('x'), or sash.collect_distinct('x') for the values themselves",
    "dense_rank": "sash.rank('x', method='dense')",
    "cume_dist": "sash.percent_rank('x', method='max')",
    **dict.fromkeys(("row_number", "cumcount", "cum_count"), "sash.rolling(data, sash.Lifetime(), y=sash.count())"),
    "iqr": "sash.quantile('x', q=0.75) - sash.quantile('x', q=0.25)",
    **dict.fromkeys(("zscore", "z_score"), "(sash.last('x') - sash.mean('x')) / sash.std('x')"),
    **dict.fromkeys(("count_if", "countif"), "sash.count(where='x > 0')"),
    **dict.fromkeys(("sum_if", "sumif"), "sash.sum('x', where='x > 0')"),
    **dict.fromkeys(("avg_if", "avgif", "mean_if"), "sash.mean('x', where='x > 0')"),
    **dict.fromkeys(("col", "lit", "when", "column"), "sash.expr('x + 1'), or 'x' alone for a column"),
    **dict.fromkeys(("apply", "agg", "aggregate", "rolling_apply", "rolling_map"), "sash.monoid(...), a UDAF"),
    **dict.fromkeys(("resample", "group_by_dynamic"), "sash.Time('1h', every='1h')"),
    **dict.fromkeys(("groupby", "group_by", "partition_by"), "by='key', an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("orderBy", "order_by", "sort"), "on='ts', an argument of sash.rolling and sash.Query"),
}
"""Calls to write instead, by names in other libraries."""

PARAMETERS: dict[str, str] = {
    **dict.fromkeys(("skipna", "ignore_nulls", "ignore_nans"), "nulls are always skipped"),
    **dict.fromkeys(("axis", "numeric_only"), "an aggregate reads the columns that it is given by name"),
    "distinct": "sash.count_distinct('x') counts the distinct values, sash.collect_distinct('x') gives them",
    **dict.fromkeys(("filter", "filter_where", "condition"), "it is called where=: sash.sum('x', where='x > 0')"),
    **dict.fromkeys(
        ("window", "windows", "window_size", "period", "over", "rows", "range"),
        "the window is an argument of sash.rolling; one aggregate's own is sash.sum('x').over('1h')",
    ),
    **dict.fromkeys(("by", "group_by", "partition_by"), "by= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("on", "order_by"), "on= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("name", "alias"), "the result is named by the keyword: high=sash.max('price')"),
    "center": "shift= of a window moves it: sash.Count(5, shift=2)",
    **dict.fromkeys(("min_samples", "min_periods"), "min_periods= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("delimiter", "sep"), "it is called separator="),
    **dict.fromkeys(("quantile", "quantiles", "p", "prob"), "it is called q=, in 0..1"),
    **dict.fromkeys(("percentile", "percentage"), "it is called q=, in 0..1: q=0.99 is the 99th percentile"),
    **dict.fromkeys(("periods", "lags", "k"), "it is called n="),
    **dict.fromkeys(("half_life", "tau"), "it is called halflife="),
    "ignore_na": "it is called ignore_nulls=",
    "adjust": "weights are those of adjust=True in pandas",
    **dict.fromkeys(("default", "fill_value"), "what a window does not contain is null: fill it in the result"),
    **dict.fromkeys(("weights", "weight"), "a mean weighted by a column is sash.weighted_mean('x', 'w')"),
    "win_type": "windows are not weighted: write the aggregate with sash.monoid(...)",
}
"""Advice, by parameters of aggregates in other libraries."""


CALLED = "it is called "
_PERCENTILE = re.compile(r"p(\d{1,4})")


def missing_name(name: str, known: Collection[str]) -> str:
    """The message for a name that sash does not have, with the name or the call that was likely meant.

    >>> missing_name("averge", ["max", "mean"])
    "module 'sash' has no attribute 'averge': did you mean sash.mean?"
    >>> missing_name("rolling_mean", ["mean", "rolling"])
    "module 'sash' has no attribute 'rolling_mean': write sash.rolling(data, 5, y=sash.mean('x'))"
    >>> missing_name("p99", ["quantile"])
    "module 'sash' has no attribute 'p99': write sash.quantile('x', q=0.99)"
    """
    message = f"module 'sash' has no attribute {name!r}"
    if name.startswith("_"):  # tools that inspect modules ask for such names very often
        return message
    if name in NAMES and NAMES[name] in known:
        ours = NAMES[name]
        return f"{message}: it is called sash.{ours}" + (f", as in {example(ours)}" if ours in ARGUMENTS else "")
    if name in CALLS:
        return f"{message}: write {CALLS[name]}"
    if found := _PERCENTILE.fullmatch(name):
        return f"{message}: write {_percentile(found[1])}"
    for prefix in ("rolling_", "moving_", "group_by_"):
        rest = name.removeprefix(prefix)
        of = NAMES.get(rest, rest)
        if rest != name and of in known:
            return f"{message}: write sash.rolling(data, 5, y={example(of)})"
    foreign = [one for one, ours in NAMES.items() if ours in known]
    near = difflib.get_close_matches(name, [*known, *foreign], 1, 0.7)
    return f"{message}: did you mean sash.{NAMES.get(near[0], near[0])}?" if near else message


def example(name: str) -> str:
    """An example of a call of an aggregate.

    >>> example("max"), example("quantile")
    ("sash.max('x')", "sash.quantile('x', q=0.99)")
    """
    return f"sash.{name}({ARGUMENTS.get(name, repr('x'))})"


def _percentile(digits: str) -> str:
    """The call for p50, p99 (a percentage) or p999 (digits after the point)."""
    if digits == "100":
        return "sash.max('x')"
    return f"sash.quantile('x', q={int(digits) / 10 ** max(len(digits), 2)})"


def parameter_advice(name: str, known: Collection[str]) -> str:
    """What to do instead of a parameter that an aggregate does not have; empty if nothing is known of it.

    >>> parameter_advice("sep", ["separator"]), parameter_advice("seperator", ["separator"])
    (': it is called separator=', ': did you mean separator=?')
    """
    found = PARAMETERS.get(name, "")
    if found.startswith(CALLED) and found.removeprefix(CALLED).partition("=")[0] not in known:
        found = ""
    near = difflib.get_close_matches(name, list(known), 1, 0.75)
    return f": {found}" if found else f": did you mean {near[0]}=?" if near else ""
