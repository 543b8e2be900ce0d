"""Queries: what is wanted, checked, resolved on column types, planned and explained.

`query`     Query, frozen data             `options`      how, never what
`rolling`   a query and data in one call
`checks`    what its arguments may be      `hosts`        where it runs
`resolve`   the query on column types      `resolved`     what comes of it: Axis, Span, Part, Resolved
`types`     which aggregate takes and gives which type    `trial`  the same for a user's, by trying
`planner`   structures, and what is shared `explain`      the plan as text
`fingerprint`   the name of a query's state
`loop`      Window, for a loop of one's own: `clock`, its times; `moving`, when events leave; `holding`, aggregates
"""

from sash.query.loop import Window
from sash.query.options import Options
from sash.query.query import Query
from sash.query.rolling import rolling

__all__ = ["Options", "Query", "Window", "rolling"]
