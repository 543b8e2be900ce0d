"""Run queries on tables in memory. The result is the same kind of frame.

    frame ─adapter─▶ Arrow columns ─▶ execute: whole columns (`sash.columns`), else an operator ─adapter─▶ frame

`execute`          runs a query, or several in one pass, also as of the rows of a spine
`adapter`          the protocol of a kind of frame, and Arrow's; `pandas_adapter`, `polars_adapter`, `dict_adapter`
`accessors`        `df.sash.rolling(…)` on frames of pandas and polars

Importing this package registers the accessors with pandas and polars, now or when they are imported; it imports
neither.
"""

from sash.frames import accessors
from sash.frames.execute import adapter_of, as_of, run, run_array

__all__ = ["adapter_of", "as_of", "run", "run_array"]

accessors.register()
