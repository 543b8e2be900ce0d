"""Run queries on tables in memory. The result is the same kind of frame.

`execute`          runs a query on a frame: stateless, or through an operator
`as_of_frames`     runs a query as of the rows of a spine
`execute_queries`  runs several queries in one pass
`frame_rows`       sorts rows for the operator, and returns results in the order of the input
`adapter`          the protocol of a kind of frame
`pandas_adapter`, `polars_adapter`, `arrow_adapter`, `numpy_adapter`    the kinds of frames
`accessors`        `df.sash.rolling(…)` on frames of pandas and polars

Importing this package registers the accessors with pandas and polars, now or when they are imported; it imports
neither.
"""

from sash.frames import accessors
from sash.frames.as_of_frames import as_of
from sash.frames.execute import adapter_of, run
from sash.frames.execute_queries import run_queries

__all__ = ["adapter_of", "as_of", "run", "run_queries"]

accessors.register()
