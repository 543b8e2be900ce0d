"""The index of a pandas frame as its time, for `sash.rolling` without `on`."""

from __future__ import annotations

from typing import Any

from sash.plan import validation
from sash.plan.api_types import Columns

UNNAMED = "index"
"""How a query names an index that has no name."""


def time_column(data: Any, windows: Any, on: Columns | None) -> Columns | None:
    """`on`; if it is None and a window is measured in time, the name of the index of a pandas frame with a
    DatetimeIndex.

    Raises ValueError if a column has the name of the index.
    """
    if on is not None or not _has_times(data):
        return on
    if not any(window.timed for window in validation.windows(windows).values()):
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
