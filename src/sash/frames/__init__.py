"""Run queries on tables in memory. The result is the same kind of frame.

    frame ─adapter─▶ Arrow columns ─▶ execute: whole columns (`sash.columns`), else an operator ─adapter─▶ frame

`execute`          runs a query, also as of the rows of a spine; `execute_queries`: several in one pass
`adapter`          the protocol of a kind of frame: `pandas_adapter`, `polars_adapter`, `arrow_adapter`, `dict_adapter`
`accessors`        `df.sash.rolling(…)` on frames of pandas and polars

Importing this package registers the accessors with pandas and polars, now or when they are imported; it imports
neither.
"""

from typing import TYPE_CHECKING, Any

from sash.frames import accessors
from sash.frames.execute import adapter_of, as_of, run, run_array

if TYPE_CHECKING:
    from sash.frames.execute_queries import run_queries

__all__ = ["adapter_of", "as_of", "run", "run_array", "run_queries"]

accessors.register()


def __getattr__(name: str) -> Any:
    """`run_queries`, loaded when it is first used."""
    if name != "run_queries":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sash.frames.execute_queries import run_queries

    return run_queries
