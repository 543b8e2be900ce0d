"""rolling: a query and data in one call.

as_of: a query, a spine and events in one call.

The index of a pandas frame as its time, for `sash.rolling` without `on`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sash.monoids.arithmetic import Aggregated
from sash.plan import validation
from sash.plan.api_types import Columns, Windows, of_frame, of_spine
from sash.plan.as_of_query import SpineQuery
from sash.plan.query import Query
from sash.plan.schema_cache import remembered
from sash.plan.validation import aggregates_named

if TYPE_CHECKING:
    from sash.plan.api_types import Emit, EventFrame, Late
    from sash.plan.options import Options
    from sash.windows.arguments import Length
    from sash.windows.specs import Closed


# --- Time index ---

UNNAMED = "index"
"""The name of an unnamed index in a query."""


def time_column(
    data: Any, windows: Windows | None, on: Columns | None, aggregates: Mapping[str, Aggregated] | None = None
) -> Columns | None:
    """The column to order by: `on`, or the DatetimeIndex of a pandas frame if a window is measured in time.

    `windows` are those of the query; `aggregates` may have windows of their own.

    Raises ValueError if a column has the name of the index.
    """
    if on is not None or not _has_times(data):
        return on
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


# --- Rolling ---


@of_frame(Query)
@aggregates_named
def rolling(
    data: Any,
    windows: Windows | None = None,
    *,
    by: Columns | None = (),
    on: Columns | None = None,
    lateness: Length | None = None,
    emit: Emit = "final",
    late: Late = "drop",
    forget: Length | None = None,
    ahead: Length | None = None,
    retract: str | None = None,
    min_periods: int = 0,
    options: Options | None = None,
    **aggregates: Aggregated,
) -> Any:
    """Compute aggregates over sliding (rolling, moving) windows of a frame; the same kind of frame comes back.

    Windows without `every` give a result for each row: the frame comes back with a column for each aggregate. Windows
    with `every` (hopping windows; tumbling ones if `every` is the size) give a row for each slide: the columns of
    `by`, then `window_start`, `window_end` and the aggregates.

    data: a DataFrame of pandas, polars (or a LazyFrame) or Spark, a Table, RecordBatch or RecordBatchReader of
        pyarrow, a dict of arrays or lists, an iterator of RecordBatches (gives an iterator), or any other object that
        exports an Arrow stream (gives a Table).
    windows: a window such as `sash.Time("24h", every="1h")`, a number of rows, a duration such as "1h", or a dict of
        several by name. Names are appended to the columns of results: `high_1h`. It may be left out if each aggregate
        has a window of its own: `sash.max("price").over("1h")`.
    by: columns to partition by (the key); each key has windows of its own.
    on: the column to order by, with the event time; further columns break ties. Without it rows are in order of
        arrival; a pandas frame with a DatetimeIndex is ordered by it if a window is measured in time.
    lateness: how far a row may be behind the latest time seen; the watermark is that far behind. It matters for
        streams only: the rows of a frame are sorted first.
    emit: when results are emitted. "final": once, when the watermark has passed. "changes": as "final", but only
        results that differ from the key's previous one. "eager": at once, revised by later rows (streams only).
    late: what to do with a row behind the watermark. "drop" it, "flag" it in a column `_late`, or raise an "error".
    forget: expire a key without rows for this long; it starts again with empty windows.
    ahead: how far a row's time may be ahead of the clock; a row further ahead is treated as one without a time.
    retract: a boolean column; with emit="eager" a row where it is true removes the last row of equal key and `on`.
    min_periods: a result is null unless its aggregate has seen this many non-null inputs in the window. In a formula
        that holds for each aggregate, and a count below it is null, too.
    options: how to compute, see `sash.Options`; results do not depend on it.
    aggregates: the result columns by name, each an aggregate of columns such as `high=sash.max("price")`, one of your
        own (a UDAF), made with `sash.monoid`, or a formula such as `sash.sum("x") / sash.sum("y")`. Type checkers take
        a dict for `**` if it is a `dict[str, Any]`.

    >>> import numpy as np, sash
    >>> sash.rolling({"price": np.array([3, 1, 2])}, 2, high=sash.max("price"))["high"].tolist()
    [3, 3, 2]

    Raises TypeError or ValueError, naming the argument or the column that does not fit.
    """
    validation.not_an_aggregate("data", data)
    arguments: dict[str, Any] = {
        "windows": windows,
        "by": by,
        "on": time_column(data, windows, on, aggregates),
        "lateness": lateness,
        "emit": emit,
        "late": late,
        "forget": forget,
        "ahead": ahead,
        "retract": retract,
        "min_periods": min_periods,
        "options": options,
        **aggregates,
    }
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
