"""rolling: a query and data in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from sash.plan import validation
from sash.plan.query import Query
from sash.plan.query_advice import aggregates_named
from sash.plan.schema_cache import remembered
from sash.plan.time_index import time_column

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sash.monoids.arithmetic import Aggregated
    from sash.plan.api_types import ArrayT, ArrowStream, Columns, Emit, FrameT, Late, Windows
    from sash.plan.options import Options
    from sash.windows.arguments import Length


@overload
def rolling(
    data: dict[str, ArrayT],
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
) -> dict[str, NDArray[Any]]: ...
@overload
def rolling(
    data: Mapping[str, Sequence[Any]],
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
) -> dict[str, list[Any]]: ...
@overload
def rolling(
    data: FrameT,
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
) -> FrameT: ...
@overload
def rolling(
    data: Iterator[pa.RecordBatch],
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
) -> Iterator[pa.RecordBatch]: ...
@overload
def rolling(
    data: ArrowStream,
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
) -> pa.Table: ...


@aggregates_named
def rolling(  # noqa: PLR0913 (public, fixed by the API: keyword-only)
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
