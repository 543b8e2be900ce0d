"""Validate a query's arguments, before there is a schema.

windows   shorthands become windows, names are checked      by, on      tuples of names
lateness, forget, ahead   lengths of time                   aggregates  bound, under names of their own

Advice for arguments of rolling windows in pandas, polars, SQL, Spark and Flink: what to write here instead.

Half-lives of exponentially weighted aggregates that are measured in time.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_args

from sash.expressions.source_text import excerpt, shortened
from sash.expressions.tree import described
from sash.monoids.algebra import Bound, Monoid
from sash.monoids.arithmetic import Aggregated, Formula
from sash.monoids.direct_product import DirectProduct
from sash.monoids.functions import AGGREGATES
from sash.monoids.rank_statistics import Rank
from sash.monoids.sketches import Bloom, SketchMonoid
from sash.plan.api_types import Emit, Late
from sash.plan.options import Options
from sash.plan.projection import has_own_windows, named_results
from sash.plan.time_axis import TimeAxis
from sash.windows.arguments import length
from sash.windows.duration import Duration, is_duration
from sash.windows.specs import Count, Lifetime, Time, WindowKind

if TYPE_CHECKING:
    from sash.plan.query import Query


# --- Halflife ---


def halflife_of(monoid: Monoid, label: str) -> Duration | float | None:
    """The half-life of an aggregate that reads the time: a Duration, or a number in units of the time; else None.

    Raises TypeError or ValueError, naming the aggregate, if it is no duration, or not positive.
    """
    if not monoid.reads_time:
        return None
    halflife: Any = getattr(monoid, "halflife")  # noqa: B009 (only monoids that read the time have one)
    if isinstance(halflife, int | float):
        return halflife
    found = Duration.of(halflife, f"halflife= of {shortened(label)}")
    if found.nanoseconds <= 0:
        raise ValueError(f"halflife= of {label} must be positive; got {str(found)!r}")
    return found


def halflife_in_units(monoid: Monoid, time: TimeAxis, label: str) -> float:
    """The half-life of an aggregate that reads the time, in units of its column; it need not be a whole number.

    Raises TypeError if it is a duration and the column has numbers, or the other way round.
    """
    halflife = halflife_of(monoid, label)
    if isinstance(halflife, Duration) and time.timed:
        return halflife.nanoseconds / time.unit
    if isinstance(halflife, Duration) or time.timed:
        return time.number(halflife, f"halflife= of {label}")  # raises: a duration of numbers, a number of times
    assert halflife is not None
    return float(halflife)


# --- Query advice ---

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


STREAMS = ("lateness", "emit", "late", "forget", "ahead", "retract")
"""The arguments of a query that are for streams: neither `as_of` nor `sash.Window` has them."""

ARGUMENTS = ("windows", "by", "on", *STREAMS, "min_periods", "options")
"""The arguments of a query, besides its aggregates."""

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
    if name in STREAMS or found.removeprefix("it is called ").rstrip("=") in STREAMS:
        return ": it is an argument of sash.Query, whose operator takes streams"
    found = _LOOP.get(found, found)
    return f": {found}" if found else ""


def aggregates_named(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses aggregates without a name with a TypeError that says how to name them."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    most = sum(one.kind in kinds for one in inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> R:
        if len(given) > most:
            require_named(given[most])
        return function(*given, **named)

    return checked


def require_named(value: object) -> None:
    """Raises TypeError for one or several aggregates without a keyword, with the keywords to write."""
    listed = value if isinstance(value, list | tuple) else (value,)
    several = value.items() if isinstance(value, dict) else [("", one) for one in listed]
    if found := [as_keyword(one.of_column("x"), str(name)) for name, one in several if isinstance(one, Aggregated)]:
        raise TypeError(f"aggregates are named by keywords: write {', '.join(found)}")


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


# --- Validation ---

PARAMETERS = ("data", *ARGUMENTS)
"""The parameters of Query and rolling: an aggregate of such a name could not be passed."""

OUTPUTS = ("window", "window_start", "window_end", "_late", "_row", "_revision")
"""The columns of results besides the aggregates."""

SLIDE = ("window_start", "window_end")
EMIT: tuple[str, ...] = get_args(Emit)
LATE: tuple[str, ...] = get_args(Late)


def window(value: Any, what: str = "windows=") -> WindowKind:
    """A window from a window, a number of rows or a duration."""
    if isinstance(value, WindowKind):
        return value
    if is_duration(value):
        return Time(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{what} must be a window such as sash.Time('1h'), a number of rows, a duration such as '1h', or a dict of "
            f"named ones; got {value!r}, a {type(value).__name__}"
        )
    return Count(value)


def windows(value: Any) -> dict[str, WindowKind]:
    """All windows by name; a single one has the name ""."""
    if not isinstance(value, Mapping):
        return {"": window(not_an_aggregate("windows", value))}
    if not value:
        raise ValueError("windows= names no window: give at least one, such as {'1h': sash.Time('1h')}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise TypeError(f"names of windows= must be text; got the name {name!r}")
    return {name: window(one, f"windows={{{name!r}: …}}") for name, one in value.items()}


def not_an_aggregate(name: str, value: Any) -> Any:
    """The value of a parameter. Raises TypeError if it is an aggregate that was given the parameter's name."""
    if name == "windows" and isinstance(value, Aggregated):
        raise TypeError(
            f"the first argument of a query is its window, such as '1h' or 5, and got {value!r}; aggregates are named "
            f"by keywords: write {as_keyword(value)}"
        )
    if isinstance(value, Aggregated):
        raise TypeError(
            f"an aggregate cannot be named {name!r}, which is a parameter of Query: rename {name}={value!r}"
        )
    return value


def columns(name: str, value: Any) -> tuple[str, ...]:
    """Column names as a tuple, given one or several."""
    found = (value,) if isinstance(value, str) else () if value is None else value
    if not isinstance(found, tuple | list):
        raise TypeError(f"{name}= must be a column's name or a list of names; got {described(value)}{_its_name(value)}")
    for column in found:
        if not isinstance(column, str):
            raise TypeError(f"{name}= must name columns by text; got {described(column)}{_its_name(column)}")
    for column in found:
        if list(found).count(column) > 1:
            raise ValueError(f"{name}= names the column {column!r} twice")
    return tuple(found)


def _its_name(column: Any) -> str:
    """What to write in place of a column of a frame; empty if it has no name."""
    name = getattr(column, "name", None)
    return f": write {name!r}" if isinstance(name, str) and name else ""


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{name}= must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return str(value)


def optional_length(name: str, value: Any, zero: bool = False) -> Any:
    """A length of time, or None."""
    return None if value is None else length(f"{name}=", value, zero)


def retract(value: Any, emit: Any) -> str | None:
    """The column that marks retractions, or None. Raises ValueError unless results can be revised."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"retract= must be a column's name; got {value!r}, a {type(value).__name__}")
    if emit != "eager":
        raise ValueError(f"retract={value!r} removes rows, and with emit={emit!r} results are final: use 'eager'")
    return value


def options(value: Any) -> Options:
    if value is not None and not isinstance(value, Options):
        raise TypeError(f"options= must be a sash.Options(…); got {value!r}, a {type(value).__name__}")
    return value or Options()


def min_periods(value: Any) -> int:
    """The number of inputs that a result needs."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"min_periods= must be a number of inputs, such as 3; got {value!r}, a {type(value).__name__}")
    found = operator.index(value)
    if found < 0:
        raise ValueError(f"min_periods= must be 0 or more; got {excerpt(value)}")
    if found >= 2**63:
        raise ValueError(f"min_periods= must be at most {2**63 - 1}; got {excerpt(value)}")
    return found


def aggregates(given: Mapping[str, Any]) -> dict[str, Aggregated]:
    """Validate the aggregates and their names; short forms of their windows become windows."""
    if not given:
        raise TypeError("a query needs at least one aggregate, such as high=sash.max('price')")
    for name, value in given.items():
        if not name:
            raise ValueError("an aggregate needs a name, which is that of its column; got ''")
        if name in PARAMETERS:
            raise TypeError(f"an aggregate cannot be named {name!r}, which is a parameter of sash.rolling: rename it")
        if name in OUTPUTS and isinstance(value, Bound | Monoid):
            raise ValueError(f"an aggregate cannot be named {name!r}, which is a column of the results: rename it")
        if isinstance(value, Monoid):
            raise TypeError(f"{name}={value!r} is not bound to columns: call it with their names, {name}=…('price')")
        if not isinstance(value, Aggregated):
            raise TypeError(
                f"{name}= must be a parameter of Query or an aggregate of columns such as sash.max('price'); "
                f"got {value!r}, a {type(value).__name__}{argument_advice(name, PARAMETERS)}"
            )
        for leaf in value.leaves():
            leaf.require_columns()
    return {name: _with_windows(name, value) for name, value in given.items()}


def _with_windows(name: str, value: Any) -> Any:
    """An aggregate, or a formula of some, with its windows in place of their short forms."""
    if isinstance(value, Formula):
        return dataclasses.replace(value, operands=tuple(_with_windows(name, one) for one in value.operands))
    if not isinstance(value, Bound) or value.window is None:
        return value
    return value.with_window(window(value.window, f"over() of {name}={value!r}"))


def labels(query: Query) -> list[str]:
    """The columns of results at each row. Raises ValueError if two have one name."""
    return [result.label for result in named_results(query.windows, query.aggregates)]


def require_free(query: Query, columns: Iterable[str]) -> None:
    """Raises ValueError if a result would have the name of another column of the output.

    Each row keeps all of its columns, a slide only those of `by`, and a row of a spine none of the events.
    """
    made = labels(query) if query.per_row else [*query.aggregates, *SLIDE]
    made += ["window"] if not query.per_row and "" not in query.all_windows else []
    made += ["_late"] if query.late == "flag" else []
    made += ["_row", "_revision"] if query.emit == "eager" else []
    kept = {*(columns if query.keeps_rows else () if query.per_row else query.by)}
    why = "each row keeps its columns" if query.per_row else "results keep the columns of by="
    for name in made:
        if name in kept:
            raise ValueError(
                f"the results would have two columns {name!r}, because {why}: rename the aggregate or the column"
            )


def named(query: Query) -> list[str]:
    """The columns that the query names, which the data must have."""
    bounds = [leaf for one in query.aggregates.values() for leaf in one.leaves()]
    found = [*query.by, *query.on, *([query.retract] if query.retract is not None else [])]
    for one in query.all_windows.values():
        found += [one.reads] if one.reads is not None else []
        bounds += one.decides_by
    return [*found, *(column for bound in bounds for column in bound.reads())]


def free_name(name: str, query: Query, columns: Iterable[str]) -> str:
    """A name that neither the data nor the results have: `name`, with underscores appended if it is taken."""
    taken = {*columns, *labels(query), *query.aggregates}
    while name in taken:
        name += "_"
    return name


def looks_ahead(window: WindowKind) -> bool:
    """Does the window of a row hold later rows?"""
    shift = window.shift
    return bool((shift.nanoseconds if isinstance(shift, Duration) else shift) > 0)


# ---- combinations that are refused ----


def require_compatible(query: Query) -> None:
    """Raises ValueError for a combination of arguments that is not supported."""
    _require_windows(query)
    labelled = [(f"the window {name!r}" if name else "the window", one) for name, one in query.all_windows.items()]
    slides = {one.slide == "row" for _, one in labelled}
    if len(slides) > 1:
        per_row = next(f"{name}, {one!r}," for name, one in labelled if one.slide == "row")
        per_slide = next(f"{name}, {one!r}," for name, one in labelled if one.slide != "row")
        raise ValueError(
            f"{per_row} gives a result for each row and {per_slide} one per slide: one query cannot have both; "
            "make two queries"
        )
    require_free(query, named(query))
    _require_time(query)
    if not query.on:
        _refuse_time_lengths(query, labelled)
    if query.late == "flag" and slides == {False}:
        raise ValueError("late='flag' marks rows, and windows with every= return no input rows: use 'drop' or 'error'")
    if query.emit == "eager" and query.options.structure not in (None, "FiBA"):
        raise ValueError(
            f"Options(structure={query.options.structure!r}) does not support emit='eager', where rows arrive in any "
            "order and are inserted at once: use 'FiBA'"
        )
    for name, one in labelled:
        if query.emit == "eager" and (one.slide == "close" or one.decides_by or one.is_marked):
            what = "every='close'" if one.slide == "close" else type(one).__name__
            raise ValueError(f"emit='eager' does not support {name}, {one!r}, because of {what}: use emit='final'")
        if query.emit == "eager" and one.slide == "rows" and query.forget is not None:
            raise ValueError(
                f"emit='eager' does not support {name}, {one!r}, with forget=: an out-of-order row may undo the "
                "expiry of a key, and its slides in rows would change: use emit='final'"
            )
        if query.emit == "eager" and one.shift:
            raise ValueError(f"emit='eager' does not support {name}, {one!r}, because of shift=: use emit='final'")
        if one.unit == "rows" and query.min_periods > one.length:
            raise ValueError(
                f"min_periods={query.min_periods} is more than the {one.length} rows of {name}, {one!r}, so each "
                f"result would be null: give at most min_periods={one.length}, or a larger window"
            )
        for label, aggregated in query.aggregates.items():
            for bound in aggregated.leaves():
                if bound.window == one or (bound.window is None and one in query.windows.values()):
                    _refuse_sketch(name, one, f"{label}={bound!r}", bound.monoid)
                    _refuse_rank(name, one, f"{label}={bound!r}", bound.monoid)
        for bound in one.decides_by:
            _refuse_sketch(name, one, f"over={bound!r}", bound.monoid)
            if bound.window is not None:
                raise ValueError(f"over={bound!r} of {name} has a window of its own, which a policy does not use")


def _require_windows(query: Query) -> None:
    """Raises ValueError for an aggregate without a window, windows without one, and a formula over several slides."""
    free = [f"{name}={one!r}" for name, one in query.aggregates.items() if not has_own_windows(one)]
    if free and not query.windows:
        raise ValueError(f"{free[0]} has no window: give the query windows=, or the aggregate one with .over(window)")
    if query.windows and not free:
        raise ValueError("no aggregate uses windows=, because each has its own window: leave windows= out")
    given = [*query.windows.values()]
    for name, one in query.aggregates.items():
        over = [[leaf.window] if leaf.window is not None else given for leaf in one.leaves()]
        slides = next((window for windows in over for window in windows if window.slide != "row"), None)
        if slides is not None and any(windows != over[0] for windows in over[1:]):
            raise ValueError(
                f"{name}={one!r} combines results of several windows, and {slides!r} has a row for each slide: such a "
                "formula needs windows without every="
            )


def _require_time(query: Query) -> None:
    """Raises TypeError or ValueError for an aggregate that reads the time and cannot, or whose half-life is wrong."""
    for name, aggregated in query.aggregates.items():
        for bound in aggregated.leaves():
            if halflife_of(bound.monoid, f"{name}={bound!r}") is not None and not query.on:
                raise ValueError(
                    f"{name}={bound!r} has its halflife= in time: set the column of the time with on=, or give "
                    "halflife= as a number of rows"
                )
    for window in query.all_windows.values():
        for bound in window.decides_by:
            if bound.monoid.reads_time:
                raise ValueError(
                    f"over={bound!r} of {window!r} has its halflife= in time, which a policy does not see: give "
                    "halflife= as a number of rows"
                )


def _refuse_time_lengths(query: Query, labelled: list[tuple[str, WindowKind]]) -> None:
    """Raises ValueError for windows and arguments that are measured in time: the query has no `on`."""
    for name, one in labelled:
        if one.timed:
            raise ValueError(f"{name}, {one!r}, is measured in time: set its column with on=")
    for parameter in ("lateness", "forget", "ahead"):
        if getattr(query, parameter) is not None:
            raise ValueError(
                f"{parameter}={format_value(getattr(query, parameter))} is a length of time: set the column of the "
                "time with on="
            )


def format_value(value: Any) -> str:
    """A length as a user would write it."""
    return repr(value) if isinstance(value, int | float) else repr(str(value))


def factors_of(monoid: Monoid) -> tuple[Monoid, ...]:
    """The aggregates that a direct product is made of; for any other aggregate, itself."""
    if not isinstance(monoid, DirectProduct):
        return (monoid,)
    return tuple(one for factor in monoid.parts for one in factors_of(factor))


def is_sketch(monoid: Monoid) -> bool:
    """Is its state a sketch, too large to keep one for each row?"""
    return any(isinstance(factor, SketchMonoid | Bloom) for factor in factors_of(monoid))


EXACT: dict[str, str] = {
    "approx_distinct": "sash.count_distinct",
    "approx_quantile": "sash.quantile",
    "frequent_items": "sash.mode",
    "count_min": "sash.count with where=, for each value",
    "bloom": "sash.collect_distinct",
}
"""By sketch: the exact aggregate that serves a result at each row."""


def exact_instead(monoid: Monoid) -> str:
    """The exact aggregates in place of the sketches, as text."""
    return ", ".join(dict.fromkeys(EXACT[factor.name] for factor in factors_of(monoid) if is_sketch(factor)))


def _refuse_sketch(name: str, window: WindowKind, label: str, monoid: Monoid) -> None:
    if is_sketch(monoid) and window.slide == "row" and not isinstance(window, Lifetime):
        raise ValueError(
            f"{label} keeps a sketch, and {name}, {window!r}, would need one for each row: sketches need windows "
            f"with every= or Lifetime; at each row use the exact {exact_instead(monoid)}"
        )


def _refuse_rank(name: str, window: WindowKind, label: str, monoid: Monoid) -> None:
    if window.slide != "row" and any(isinstance(factor, Rank) for factor in factors_of(monoid)):
        raise ValueError(
            f"{label} is the rank of a row, and {name}, {window!r}, gives one result per slide: use a window without "
            "every="
        )
