"""Advice for arguments of rolling windows in pandas, polars, SQL, Spark and Flink: what to write here instead."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import ParamSpec, TypeVar

from sash.monoids.algebra import Bound
from sash.monoids.arithmetic import Aggregated
from sash.monoids.functions import AGGREGATES

P = ParamSpec("P")
R = TypeVar("R")

_WINDOW = "the window is windows=, the second argument: sash.rolling(data, 5, …) or sash.rolling(data, '1h', …)"
_FRAME = "the window is windows=, the second argument: sash.Count(5) is ROWS 4 PRECEDING, sash.Time('1h') a RANGE"
_ADVICE: dict[str, str] = {
    **dict.fromkeys(("window", "window_size", "size", "period", "freq", "length", "rule", "over"), _WINDOW),
    **dict.fromkeys(("rows", "range", "frame", "preceding", "rows_between", "range_between"), _FRAME),
    "following": "shift= of a window moves it: sash.Count(5, shift=2) is ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING",
    "center": "windows end at their row; shift= of a window moves it: sash.Count(5, shift=2) is centred",
    "win_type": "windows are not weighted: write the aggregate with sash.monoid(...)",
    "weights": "a mean weighted by a column is sash.weighted_mean('x', 'w')",
    "closed": "it is an argument of the window: sash.Time('1h', closed='left')",
    **dict.fromkeys(("min_samples", "min_count"), "it is called min_periods="),
    **dict.fromkeys(
        ("group_by", "groupby", "partition_by", "partitionBy", "partition", "keys", "key"), "it is called by="
    ),
    **dict.fromkeys(("order_by", "orderBy", "sort_by", "index_column", "time_column", "timestamp"), "it is called on="),
    **dict.fromkeys(("time", "times", "event_time", "date_column"), "it is called on="),
    **dict.fromkeys(("where", "filter"), "it is a parameter of the aggregate: sash.sum('x', where='x > 0')"),
    **dict.fromkeys(
        ("halflife", "span", "com", "alpha"), "it is a parameter of the aggregate: sash.ewm_mean('x', halflife=5)"
    ),
    **dict.fromkeys(("tz", "timezone"), "it is tz= of the window: sash.Time('1d', every='1d', tz='Europe/Berlin')"),
    "shift": "it is an argument of the window: sash.Count(5, shift=-1)",
    **dict.fromkeys(("threads", "store", "structure"), "it is an argument of options=sash.Options(...)"),
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


QUERY_ONLY = ("lateness", "emit", "late", "forget", "ahead", "retract")
_LOOP: dict[str, str] = {
    "it is called by=": "a Window has one key: keep a dict of windows, or use sash.Query(…, by=…)",
    "it is called on=": "the time is the second argument of push: window.push(x, time)",
    "it is called min_periods=": "sash.Query has it: sash.Query(5, min_periods=3, …)",
    _WINDOW: "the window is the first argument: sash.Window(5, …) or sash.Window('1h', …)",
    _FRAME: "the window is the first argument: sash.Window(5, …) or sash.Window('1h', …)",
}
"""The same for `sash.Window`, by the advice for a query."""


def loop_advice(name: str) -> str:
    """What to do instead of an argument that `sash.Window` does not have; empty if nothing is known of it.

    >>> loop_advice("partition_by")
    ': a Window has one key: keep a dict of windows, or use sash.Query(…, by=…)'
    """
    same = {"by": "it is called by=", "on": "it is called on=", "min_periods": "it is called min_periods="}
    found = same.get(name) or _ADVICE.get(name, "")
    if name in QUERY_ONLY or found.removeprefix("it is called ").rstrip("=") in QUERY_ONLY:
        return ": it is an argument of sash.Query, whose operator takes streams"
    found = _LOOP.get(found, found)
    return f": {found}" if found else ""


def aggregates_named(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses aggregates without a name with a TypeError that says how to name them."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    most = sum(one.kind in kinds for one in inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> R:
        first = given[most] if len(given) > most else None
        several = first.items() if isinstance(first, dict) else [("", one) for one in _listed(first)]
        if found := [as_keyword(one, str(name)) for name, one in several if isinstance(one, Aggregated)]:
            raise TypeError(f"aggregates are named by keywords: write {', '.join(found)}")
        return function(*given, **named)

    return checked


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)


def as_keyword(aggregate: Aggregated, name: str = "") -> str:
    """An aggregate as an argument of a query: with the name, or that of the aggregate."""
    name = name or (aggregate.monoid.name if isinstance(aggregate, Bound) else None) or "result"
    of_sash = isinstance(aggregate, Bound) and type(aggregate.monoid) in AGGREGATES.values()
    return f"{name}={'sash.' if of_sash else ''}{aggregate!r}"


def argument_advice(name: str, parameters: Collection[str]) -> str:
    """What to write instead of an argument that queries do not have; empty if nothing is known of it.

    >>> argument_advice("partition_by", ["by", "on"]), argument_advice("latenes", ["by", "lateness"])
    (': it is called by=', ': did you mean lateness=?')
    """
    if name in _ADVICE:
        return f": {_ADVICE[name]}"
    near = difflib.get_close_matches(name, list(parameters), 1, 0.75)
    return f": did you mean {near[0]}=?" if near else ""
