"""The index of a pandas frame as its time, for `sash.rolling` without `on`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sash.monoids.arithmetic import Aggregated
from sash.plan import validation
from sash.plan.api_types import Columns, Windows

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
