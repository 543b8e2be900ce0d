"""rolling and as_of: a query and data in one call.

as_of: a query, a spine and events in one call.

The index of a pandas frame as its time, for `sash.rolling` without `on`; arrays in place of a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sash.monoids.arithmetic import Aggregated
from sash.plan import dispatch, validation
from sash.plan.api_types import Columns, Windows, of_frame, of_spine
from sash.plan.as_of_query import SpineQuery
from sash.plan.query import Query
from sash.plan.schema_cache import remembered
from sash.plan.validation import aggregates_named, as_keyword, require_named
from sash.windows.specs import Count

if TYPE_CHECKING:
    from sash.plan.api_types import EventFrame
    from sash.plan.options import Options
    from sash.windows.specs import Closed


# --- Time index ---

UNNAMED = "index"
"""The name of an unnamed index in a query."""


def time_column(data: Any, arguments: Mapping[str, Any]) -> Columns | None:
    """The column to order by: `on`, or the DatetimeIndex of a pandas frame if a window is measured in time.

    `arguments` are those of a query. Raises ValueError if a column has the name of the index.
    """
    if arguments.get("on") is not None or not _has_times(data):
        return arguments.get("on")
    aggregates = {name: one for name, one in arguments.items() if name not in validation.ARGUMENTS}
    windows = arguments.get("windows")
    found = [] if windows is None else [*validation.windows(windows).values()]
    for aggregated in validation.aggregates(aggregates).values() if aggregates else ():
        found += [leaf.window for leaf in aggregated.leaves() if leaf.window is not None]
    if not any(window.timed for window in found):
        return None
    name = UNNAMED if data.index.name is None else data.index.name
    if name in data.columns:
        raise ValueError(
            f"on= is missing, and both the index of times and a column are named {name!r}: rename one, or set on="
        )
    return str(name)


def _has_times(data: Any) -> bool:
    package = type(data).__module__.partition(".")[0]
    return package == "pandas" and type(getattr(data, "index", None)).__name__ == "DatetimeIndex"


# --- Arrays ---

ARRAY, RESULT = "array", "result"
"""The names of an array and of its results in a query."""


def _of_array(data: Any, given: Mapping[str, Any], unnamed: Sequence[Any]) -> Any:
    """One aggregate of an array: an array. Raises TypeError or ValueError, with what to write, for other calls."""
    aggregate = unnamed[0]
    if isinstance(aggregate, Aggregated) and isinstance(data, list | tuple):
        raise TypeError(
            f"an aggregate without a name is that of an array, and a {type(data).__name__} is none: write numpy.asarray"
            f"(values), or a dict, sash.rolling({{'x': values}}, 64, {as_keyword(aggregate.of_column('x'))})"
        )
    if not dispatch.is_array(data):
        require_named(aggregate)
    if not all(isinstance(one, Aggregated) for one in unnamed):
        raise TypeError(f"rolling() takes from 1 to 2 positional arguments but {2 + len(unnamed)} were given")
    if len(unnamed) > 1 or not set(given) <= {*validation.ARGUMENTS}:
        raise TypeError(f"an array takes one aggregate, {aggregate!r}: for several write a dict of arrays, {_AS_DICT}")
    for name, value in given.items():
        if name in _OF_FRAMES and value not in (None, (), _OF_FRAMES[name]):
            raise TypeError(f"{name}= is for frames, which have columns: write a dict of arrays, {_AS_DICT}")
    _require_rows(given["windows"])
    for leaf in aggregate.leaves():
        if leaf.monoid.arity[0] > 1:
            names = ", ".join(f"{name!r}: {name}" for name in leaf.reads())
            raise TypeError(
                f"{leaf!r} takes several columns, and an array is one: write a dict of arrays, "
                f"sash.rolling({{{names}}}, 64, {as_keyword(leaf)})"
            )
        if leaf.columns or leaf.condition is not None:
            raise TypeError(
                f"{leaf!r} names columns, which an array does not have: write sash.{leaf.monoid.called()}()"
            )
        _require_rows(leaf.window)
    query = remembered(Query, {**given, RESULT: aggregate.of_column(ARRAY)})
    return dispatch.host("sash.frames", "an array").run_array(query, data, ARRAY, RESULT)


def _require_rows(window: Any) -> None:
    """Raises TypeError unless a window, if there is one, ends at each row and is a number of rows."""
    if isinstance(window, Mapping):
        raise TypeError(f"an array takes one window; got {window!r}: for several write a dict of arrays, {_AS_DICT}")
    found = None if window is None else validation.window(validation.not_an_aggregate("windows", window))
    if found is not None and not (isinstance(found, Count) and found.slide == "row"):
        raise TypeError(
            f"the window of an array is a number of rows, such as 64; got {window!r}: for another write a dict of "
            "arrays, sash.rolling({'t': times, 'x': array}, '1h', on='t', y=sash.mean('x'))"
        )


_AS_DICT = "sash.rolling({'x': array}, 64, y=sash.mean('x'))"
_OF_FRAMES = {
    "by": (),
    "emit": "final",
    "late": "drop",
    **dict.fromkeys(("on", "lateness", "forget", "ahead", "retract")),
}
"""The parameters that an array has no columns for, and their defaults."""


# --- Rolling ---


@of_frame(Query)
def rolling(data: Any, windows: Windows | None = None, *unnamed: Aggregated, **named: Any) -> Any:
    """Compute aggregates over sliding (rolling, moving) windows of a frame; the same kind of frame comes back.

    Windows without `every` give a result for each row: the frame comes back with a column for each aggregate. Windows
    with `every` (hopping windows; tumbling ones if `every` is the size) give a row for each slide: the columns of
    `by`, then `window_start`, `window_end` and the aggregates.

    data: a DataFrame of pandas, polars (or a LazyFrame) or Spark, a Table, RecordBatch or RecordBatchReader of
        pyarrow, a dict of arrays or lists, an iterator of RecordBatches (gives an iterator), or any other object that
        exports an Arrow stream (gives a Table). An array of NumPy, or a Series, gives one.
    unnamed: for an array or a Series, its only aggregate, without a column; the window is a number of rows.
    windows, by, on, lateness, emit, late, forget, ahead, retract, min_periods, options, aggregates: as for
        `sash.Query`: windows such as "1h", columns to partition by, the column of the event time, and aggregates by
        name, also your own (UDAFs). A pandas frame with a DatetimeIndex is ordered by it without `on`, if a window is
        measured in time. The rows of a frame are sorted first, so `lateness` and the watermark matter for streams only,
        as does `emit="eager"`.

    >>> import numpy as np, sash
    >>> sash.rolling({"price": np.array([3, 1, 2])}, 2, high=sash.max("price"))["high"].tolist()
    [3, 3, 2]
    >>> sash.rolling(np.array([3, 1, 2]), 2, sash.max())
    array([3, 3, 2])

    Raises TypeError or ValueError, naming the argument or the column that does not fit.
    """
    validation.not_an_aggregate("data", data)
    arguments = {"windows": windows, **named}
    if unnamed:
        return _of_array(data, arguments, unnamed)
    arguments["on"] = time_column(data, arguments)
    return remembered(Query, arguments).run(data)


# --- As of ---


@of_spine
@aggregates_named
def as_of(
    spine: Any,
    events: EventFrame,
    windows: Windows | None = None,
    *,
    by: Columns | None = (),
    on: Columns | None = None,
    closed: Closed = "left",
    spine_by: Columns | None = None,
    spine_on: str | None = None,
    min_periods: int = 0,
    options: Options | None = None,
    **aggregates: Aggregated,
) -> Any:
    """Point-in-time features: the spine's rows with the aggregates of the events before each row's time.

    The spine keeps its rows, their order and its columns; the aggregates come after them. A key without events gets the
    empty value, null or a count of 0; a row without a time (null, NaN, infinite) gets nulls.

    spine: the rows to compute features for, such as labels: a frame of any kind; the same kind comes back.
    events: the rows to aggregate: a frame of any kind, with Spark a DataFrame of Spark. For several tables of events,
        call `as_of` once for each.
    windows: a window such as `sash.Time("7d")`, a number of events, a duration such as "1h", or a dict of several by
        name, as in `sash.rolling`. They end at the time of the spine's row.
    by: the columns of the key, in spine and events.
    on: the column of the time, in spine and events; further columns break ties among the events.
    closed: which ends belong to the windows. "left": events at or after `t - size`, and before t, so that nothing
        leaks; "right": after `t - size`, and at t, too; "both"; "neither". For windows other than Time only the end
        matters.
    spine_by, spine_on: the names of these columns in the spine, if they differ.
    min_periods: a result is null unless its aggregate has seen this many non-null inputs in the window.
    options: how to compute, see `sash.Options`; results do not depend on it.
    aggregates: the result columns by name, each an aggregate of columns of the events, as in `sash.rolling`; a name
        may be that of a column of the events, not of the spine.

    >>> import numpy as np, sash
    >>> labels = {"user": np.array(["a", "b", "a"]), "t": np.array([5, 5, 2])}
    >>> clicks = {"user": np.array(["a", "a", "a"]), "t": np.array([1, 2, 5]), "x": np.array([3, 4, 9])}
    >>> found = sash.as_of(labels, clicks, sash.Time(10), by="user", on="t", n=sash.count(), total=sash.sum("x"))
    >>> found["n"].tolist(), found["total"].tolist()
    ([2, 0, 1], [7, None, 3])

    Raises TypeError or ValueError, naming the argument, the window or the column that does not fit.
    """
    given = {"spine": spine, "events": events, "closed": closed, "spine_by": spine_by, "spine_on": spine_on}
    for name, value in given.items():
        validation.not_an_aggregate(name, value)
    made: dict[str, Any] = dict(aggregates)
    for name in validation.STREAMS:
        if name in made:
            validation.not_an_aggregate(name, made[name])
            raise TypeError(f"as_of() has no {name}=, which is for streams: leave it out")
    query = SpineQuery(windows, by=by, on=on, min_periods=min_periods, options=options, **made)
    return query.as_of(spine, events, closed=closed, spine_by=spine_by, spine_on=spine_on)
