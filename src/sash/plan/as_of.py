"""as_of: a query, a spine and events in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from sash.plan import validation
from sash.plan.as_of_query import SpineQuery
from sash.plan.query_advice import aggregates_named

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sash.monoids.arithmetic import Aggregated
    from sash.plan.api_types import ArrayT, ArrowStream, Columns, EventFrame, FrameT, Windows
    from sash.plan.options import Options
    from sash.windows.specs import Closed

STREAMS = ("lateness", "emit", "late", "forget", "ahead", "retract")
"""The parameters of Query that `as_of` does not have."""


@overload
def as_of(
    spine: dict[str, ArrayT],
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
) -> dict[str, NDArray[Any]]: ...
@overload
def as_of(
    spine: Mapping[str, Sequence[Any]],
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
) -> dict[str, list[Any]]: ...
@overload
def as_of(
    spine: FrameT,
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
) -> FrameT: ...
@overload
def as_of(
    spine: ArrowStream,
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
) -> pa.Table: ...
@aggregates_named
def as_of(  # noqa: PLR0913 (public, fixed by the API: keyword-only)
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
    for name in STREAMS:
        if name in made:
            validation.not_an_aggregate(name, made[name])
            raise TypeError(f"as_of() has no {name}=, which is for streams: leave it out")
    query = SpineQuery(windows, by=by, on=on, min_periods=min_periods, options=options, **made)
    return query.as_of(spine, events, closed=closed, spine_by=spine_by, spine_on=spine_on)
