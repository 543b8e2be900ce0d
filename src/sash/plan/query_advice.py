"""What to write instead of the arguments that rolling windows have in pandas, polars, SQL, Spark and Flink."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_WINDOW = "the window is the second argument: sash.rolling(data, 5, …) or sash.rolling(data, '1h', …)"
_ADVICE: dict[str, str] = {
    **dict.fromkeys(("window", "window_size", "size", "rows", "period", "freq", "length", "rule"), _WINDOW),
    "center": "windows end at their row; shift= of a window moves it: sash.Count(5, shift=2) is centred",
    "win_type": "windows are not weighted: write the aggregate with sash.monoid(...)",
    "weights": "windows are not weighted: write the aggregate with sash.monoid(...)",
    "closed": "it is an argument of the window: sash.Time('1h', closed='left')",
    "min_samples": "it is called min_periods=",
    **dict.fromkeys(("group_by", "groupby", "partition_by", "partitionBy", "keys", "key"), "it is called by="),
    **dict.fromkeys(("order_by", "orderBy", "sort_by", "index_column", "time_column", "timestamp"), "it is called on="),
    "axis": "windows are windows of rows: transpose the frame",
    "step": "it is every= of the window: sash.Count(10, every=5)",
    **dict.fromkeys(
        ("every", "slide", "hop", "stride"), "it is an argument of the window: sash.Time('1h', every='10m')"
    ),
    "offset": "it is an argument of the window: sash.Time('1d', every='1d', offset='6h')",
    "full": "it is an argument of the window: sash.Count(10, full=True)",
    "gap": "it is an argument of the window: sash.Session('10m')",
    **dict.fromkeys(("watermark", "delay", "allowed_lateness", "delay_threshold"), "it is called lateness="),
    **dict.fromkeys(("agg", "aggs", "func", "aggregates"), "name the results: high=sash.max('price')"),
    "ddof": "it is a parameter of the aggregate: sash.var('x', ddof=0)",
    **dict.fromkeys(("engine", "engine_kwargs", "raw", "method"), "how to compute is options=sash.Options(...)"),
    "ttl": "it is called forget=",
    "output_mode": "it is called emit=: 'final', 'changes' or 'eager'",
}


def argument_advice(name: str, parameters: Collection[str]) -> str:
    """What to write instead of an argument that queries do not have; empty if nothing is known of it.

    >>> argument_advice("partition_by", ["by", "on"]), argument_advice("latenes", ["by", "lateness"])
    (': it is called by=', ': did you mean lateness=?')
    """
    if name in _ADVICE:
        return f": {_ADVICE[name]}"
    near = difflib.get_close_matches(name, list(parameters), 1, 0.75)
    return f": did you mean {near[0]}=?" if near else ""
