"""Frames: queries on tables in memory. The same kind of frame comes back.

`execute`      runs a query on a frame: stateless, or through an operator
`as_of_frames` runs a query as of the rows of a spine
`execute_queries`   several queries in one pass
`frame_rows`   sorts rows for the operator, and puts results back
`adapter`      the protocol of a kind of frame
`pandas_adapter`, `polars_adapter`, `arrow_adapter`, `numpy_adapter`    the kinds
`accessors`    `df.sash.rolling(…)` on frames of pandas and polars

Importing this registers the accessors with pandas and polars, now or when they are imported; it imports neither.
"""

from sash.frames import accessors
from sash.frames.as_of_frames import as_of
from sash.frames.execute import adapter_of, run
from sash.frames.execute_queries import run_queries

__all__ = ["adapter_of", "as_of", "run", "run_queries"]

accessors.register()
