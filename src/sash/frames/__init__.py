"""Frames: queries on tables in memory. The same kind of frame comes back.

`host`        which frame it is, and the way through the operator
`rows`        rows put in order for the operator, results put back
`frame`       what a kind of frame must offer
`of_pandas`, `of_polars`, `of_arrow`, `of_numpy`    the kinds
`accessors`   `df.sash.rolling(…)` on frames of pandas and polars

Importing this registers the accessors with pandas and polars, now or when they are imported; it imports neither.
"""

from sash.frames import accessors
from sash.frames.execute import run

__all__ = ["run"]

accessors.register()
