"""`sash.Window`: a window in a Python loop that takes one event at a time, in order, without a schema.

    event ─▶ evictor ─▶ LoopAggregate ─▶ results
             restarts,   structure of the
             evictions   planner

`event_window` is the public class, and runs each aggregate; `evictor` has a class for each kind of window and the clock
of events. Nothing here knows of Arrow batches, operators or stores.
"""

from sash.loop.event_window import Window

__all__ = ["Window"]
